//! What the engine knows of a socket: plain data, named by a key.

mod bound;
mod buffers;
mod datagram;
mod errors;
mod kind;
mod listener;
mod low_water;
mod options;
mod packet_options;
mod put_edges;
mod received;
mod report;
mod sent;
mod set_option;
mod subscribers;
mod written;

use crate::accept_queue::AcceptQueue;
use crate::account::SocketShare;
use crate::audience::Audience;
use crate::bulk_senders::Seen;
use crate::demux::Flow;
use crate::error_queue::ErrorQueue;
use crate::fast_output::Headers;
use crate::fetched::Fetched;
use crate::forwards::Forwarding;
use crate::messages::Messages;
use crate::reported::Reported;
use crate::source_filters::{Membership, Proposed};
use crate::timers::{Alarm, Wheel};
pub(crate) use bound::{Bound, Given};
pub(crate) use errors::{ReportedError, Reporter};
pub(crate) use kind::Kind;
use longshore_hostif::adapter::{Immediate, ReceiveStream, Subscribers};
use longshore_hostif::{Moved, SocketId};
use longshore_tcp::{FastOpenQueue, Instant, Listener, Tcb};
pub(crate) use low_water::not_sent_of;
pub(crate) use options::Options;
pub(crate) use packet_options::{DatagramOptions, OnNarrowPath};
pub(crate) use set_option::OptionSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    /// Its block; the index is [`longshore_hostif::NONE`] while a connection that
    /// came in has none yet.
    pub(crate) id: SocketId,
    /// Counts it among the sockets of its user.
    pub(crate) share: Option<SocketShare>,
    pub(crate) session: u32,
    pub(crate) subscribers: Subscribers,
    pub(crate) options: Options,
    pub(crate) bound: Bound,
    pub(crate) kind: Kind,
    pub(crate) payload: PayloadMoved,
    /// What was written last, if it came with its descriptor.
    pub(crate) immediate: Immediate,
    /// Reports of errors that its program has not read (IP_RECVERR), and of when what it has sent
    /// left.
    pub(crate) errors: ErrorQueue,
    /// How its messages end, or those of the connections that a listener accepts, if its
    /// program has told.
    pub(crate) messages: Option<Box<Messages>>,
    /// What of others it sends, or others of it, if there was any.
    pub(crate) forwarding: Option<Box<Forwarding>>,
    /// It is on the list of those to be looked at at the end of this turn.
    pub(crate) dirty: bool,
    /// No process holds it any more.
    pub(crate) orphan: bool,
    /// When it has to be looked at again.
    pub(crate) alarm: Alarm,
}

/// Payload that has crossed for a socket apart from descriptors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PayloadMoved {
    pub(crate) to_adapter: Moved,
    pub(crate) to_host: Moved,
}

impl PayloadMoved {
    /// Counts payload in one direction, for the socket and for its session.
    #[inline(always)]
    pub(crate) fn count(counts: [&mut Moved; 2], moved: &Moved) {
        for count in counts {
            count.add(moved);
        }
    }
}

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) tcb: Tcb,
    pub(crate) flow: Flow,
    pub(crate) remote: SocketAddr,
    /// What its segments have in common, once some were sent.
    pub(crate) headers: Option<Headers>,
    /// What of its send stream was fetched.
    pub(crate) fetched: Fetched,
    /// What the receive stream lies in.
    pub(crate) rcv: ReceiveStream,
    /// The listener that it came through, until it is accepted.
    pub(crate) listener: Option<u32>,
    /// Which one its record is in the stream of the listener, modulo 2^32, once it has one.
    pub(crate) record: u32,
    /// The listener whose limit of connections opened by a cookie alone it counts
    /// against, until its handshake is over.
    pub(crate) fast_open_of: Option<u32>,
    /// What the host was told last.
    pub(crate) reported: Reported,
    /// When the host is to be told of acknowledgments that nobody waits for, and its chunks
    /// are taken back.
    pub(crate) report_due: Instant,
    /// When it was last seen to fill its send buffer on a short path.
    pub(crate) bulk_sender: Seen,
    /// Its next hop does not answer.
    pub(crate) unreachable: bool,
    /// It is closed, or lives on as a record in TIME-WAIT: no segment is for it any more.
    pub(crate) is_over: bool,
    /// It is over, and had been made before: its host had been told so.
    pub(crate) was_made: bool,
    /// Its host is to be told when the peer has acknowledged our FIN.
    pub(crate) lingers: bool,
    /// It is in `Sockets::short_of_memory`.
    pub(crate) awaits_memory: bool,
}

impl Connection {
    pub(crate) fn new(
        tcb: Tcb,
        local: SocketAddr,
        remote: SocketAddr,
        listener: Option<u32>,
    ) -> Self {
        Self {
            tcb,
            flow: Flow::new(local, remote),
            remote,
            headers: None,
            fetched: Fetched::default(),
            rcv: ReceiveStream::EMPTY,
            listener,
            record: 0,
            fast_open_of: None,
            reported: Reported::default(),
            report_due: Instant::NEVER,
            bulk_sender: Seen::NEVER,
            unreachable: false,
            is_over: false,
            was_made: false,
            lingers: false,
            awaits_memory: false,
        }
    }
}

/// A TCP listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: Listener,
    /// Its part in Fast Open.
    pub(crate) fast_open: FastOpenQueue,
    /// The stream of accept records.
    pub(crate) rcv: ReceiveStream,
    /// How far it reaches, and how far the host has read it.
    pub(crate) rcv_edge: u64,
    pub(crate) rcv_consumed: u64,
    pub(crate) queue: AcceptQueue,
    /// The queue of its half-open connections.
    pub(crate) half_open: u32,
    pub(crate) audience: Audience,
    /// It was shut down, and refuses what comes until it is told to listen again.
    pub(crate) shut: bool,
}

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    pub(crate) peer: Option<SocketAddr>,
    /// The address that its program has bound it to, while it has no port with it.
    pub(crate) without_port: Option<IpAddr>,
    /// The address that it has had of a peer of IPv6, while it has a peer of IPv4: it shows that one,
    /// and is there again with its next peer of IPv6.
    pub(crate) of_ipv6: Option<Ipv6Addr>,
    pub(crate) rcv: Option<ReceiveStream>,
    pub(crate) rcv_edge: u64,
    pub(crate) rcv_consumed: u64,
    pub(crate) snd_edge: u64,
    pub(crate) snd_done: u64,
    pub(crate) reported: Reported,
    /// Datagrams that found no room.
    pub(crate) overruns: u64,
    /// When the host is to be told that what it sent is gone, and its chunks are taken back.
    pub(crate) report_due: Option<Instant>,
    /// The groups that it has joined.
    pub(crate) groups: Vec<Membership>,
    /// The list of sources that is proposed for one of them.
    pub(crate) proposed: Option<Box<Proposed>>,
}

/// The wildcard of a socket's family.
pub(crate) fn any_ip(v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

/// An address as a socket of its family shows it.
pub(crate) fn as_family(address: SocketAddr, v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(a) if v6 => SocketAddr::new(a.ip().to_ipv6_mapped().into(), a.port()),
        other => other,
    }
}

impl Socket {
    /// TCP_CORK was set, or taken out.
    pub(crate) fn cork(&mut self, on: bool) {
        self.options.tcp.delay.cork = on;
        match &mut self.kind {
            Kind::Stream(c) => c.tcb.settings().set_cork(on),
            Kind::Pair(p) => p.cork.set(on),
            Kind::Listener(_) | Kind::Datagram(_) | Kind::Idle(_) => {}
        }
    }

    pub(crate) fn new(
        id: SocketId,
        session: u32,
        channel: Option<u16>,
        options: Options,
        kind: Kind,
    ) -> Self {
        Self {
            id,
            share: None,
            session,
            subscribers: channel.map_or_else(Subscribers::default, Subscribers::one),
            options,
            bound: Bound::default(),
            kind,
            payload: PayloadMoved::default(),
            immediate: Immediate::default(),
            errors: ErrorQueue::default(),
            messages: None,
            forwarding: None,
            dirty: false,
            orphan: false,
            alarm: Alarm::OFF,
        }
    }

    /// Whether it has a block in the arena.
    pub(crate) fn has_block(&self) -> bool {
        self.id.index != longshore_hostif::NONE
    }

    /// Sees to it that the wheel names the socket, by its key, when it has a deadline.
    #[inline]
    pub(crate) fn arm(&mut self, wheel: &mut Wheel<u32>, key: u32) {
        let deadline = self.kind.deadline();
        wheel.set_or_clear(&mut self.alarm, key, deadline);
    }
}
