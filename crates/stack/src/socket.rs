//! What the engine knows of a socket: plain data, named by a key.

mod buffers;
mod datagram;
mod errors;
mod listener;
mod low_water;
mod options;
mod packet_options;
mod ports;
mod put_edges;
mod received;
mod report;
mod set_option;
mod subscribers;
mod written;

use crate::accept_queue::AcceptQueue;
use crate::account::SocketShare;
use crate::audience::Audience;
use crate::bulk_senders::Seen;
use crate::demux::{Flow, Reuse};
use crate::error_queue::ErrorQueue;
use crate::fast_output::Headers;
use crate::fetched::Fetched;
use crate::forwards::Forwarding;
use crate::messages::Messages;
use crate::pair_end::Pair;
use crate::reported::Reported;
use crate::timers::{Alarm, Wheel};
pub(crate) use errors::{ReportedError, Reporter};
use longshore_hostif::adapter::{Immediate, ReceiveStream, Subscribers};
use longshore_hostif::{Moved, SocketId, SocketKind};
use longshore_tcp::{FastOpenQueue, Instant, Listener, Tcb};
pub(crate) use options::Options;
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
    pub(crate) local: Option<SocketAddr>,
    /// What of that its program has chosen.
    pub(crate) given: Given,
    /// It holds the port of a connection that nobody has bound, so that others may have
    /// it as this says.
    pub(crate) holds_port: Held,
    pub(crate) kind: Kind,
    pub(crate) payload: PayloadMoved,
    /// What was written last, if it came with its descriptor.
    pub(crate) immediate: Immediate,
    /// Reports of errors that its program has not read (IP_RECVERR).
    pub(crate) errors: Option<Box<ErrorQueue>>,
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

/// What of the address that a socket is bound to its program has chosen: that outlives a peer
/// that is taken away. It is a byte, since there may be many sockets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given(u8);

impl Given {
    const ADDRESS: u8 = 1;
    const PORT: u8 = 2;
    const TAKEN: u8 = 4;

    /// What was chosen of `local`.
    pub(crate) fn of(local: SocketAddr) -> Self {
        let mut given = Self::default();
        given.set(Self::ADDRESS, !local.ip().is_unspecified());
        given.set(Self::PORT, local.port() != 0);
        given
    }

    fn set(&mut self, bit: u8, is_so: bool) {
        self.0 = self.0 & !bit | if is_so { bit } else { 0 };
    }

    pub(crate) fn address(self) -> bool {
        self.0 & Self::ADDRESS != 0
    }

    pub(crate) fn port(self) -> bool {
        self.0 & Self::PORT != 0
    }

    /// Whether the address is that of another socket, whose place it takes, and it is still to be
    /// bound to that.
    pub(crate) fn is_taken(self) -> bool {
        self.0 & Self::TAKEN != 0
    }

    pub(crate) fn set_taken(&mut self, is_taken: bool) {
        self.set(Self::TAKEN, is_taken);
    }
}

/// As which a connection that nobody has bound holds its port, if it does; in a byte, as `Given`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held(u8);

impl Held {
    const HOLDS: u8 = 1;
    const ADDRESS: u8 = 2;
    const PORT: u8 = 4;
    const OVER_V4: u8 = 8;

    pub(crate) fn by(reuse: Reuse) -> Self {
        let bit = |is_so: bool, bit: u8| if is_so { bit } else { 0 };
        Self(
            Self::HOLDS
                | bit(reuse.address, Self::ADDRESS)
                | bit(reuse.port, Self::PORT)
                | bit(reuse.over_v4, Self::OVER_V4),
        )
    }

    pub(crate) fn get(self) -> Option<Reuse> {
        (self.0 != 0).then_some(Reuse {
            address: self.0 & Self::ADDRESS != 0,
            port: self.0 & Self::PORT != 0,
            over_v4: self.0 & Self::OVER_V4 != 0,
        })
    }
}

/// Payload that has crossed for a socket apart from descriptors.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PayloadMoved {
    pub(crate) to_adapter: Moved,
    pub(crate) to_host: Moved,
}

/// What it is.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "connections are what a table is full of; a box would put a pointer into the state"
)]
pub(crate) enum Kind {
    /// Opened, and perhaps bound.
    Idle(SocketKind),
    /// A TCP connection.
    Stream(Connection),
    /// One end of a connection between two of our own.
    Pair(Pair),
    /// A TCP listener.
    Listener(Listening),
    /// A UDP socket.
    Datagram(Datagram),
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
    /// Its host is to be told when the peer has acknowledged our FIN.
    pub(crate) lingers: bool,
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
            lingers: false,
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
    pub(crate) groups: Vec<IpAddr>,
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
            local: None,
            given: Given::default(),
            holds_port: Held::default(),
            kind,
            payload: PayloadMoved::default(),
            immediate: Immediate::default(),
            errors: None,
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

    /// Whether what is sent to `address` is for it, by what it is bound to.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.local.is_some_and(|local| {
            let ip = local.ip().to_canonical();
            let for_all = ip.is_unspecified() || ip == address.ip().to_canonical();
            for_all && local.port() == address.port()
        })
    }

    /// What a SYN of its that waits for data can take of them; 0 if none waits.
    pub(crate) fn syn_room(&self) -> u64 {
        match &self.kind {
            Kind::Stream(c) => u64::from(c.tcb.syn_room()),
            _ => 0,
        }
    }

    /// Counts payload in one direction, for the socket and for its session.
    #[inline(always)]
    pub(crate) fn count_payload(counts: [&mut Moved; 2], moved: &Moved) {
        for count in counts {
            count.add(moved);
        }
    }

    /// Sees to it that the wheel names the socket, by its key, when it has a deadline.
    #[inline]
    pub(crate) fn arm(&mut self, wheel: &mut Wheel<u32>, key: u32) {
        let deadline = match &self.kind {
            Kind::Stream(c) => c.deadline(),
            Kind::Datagram(d) => d.report_due.unwrap_or(Instant::NEVER),
            Kind::Pair(p) => p.deadline().unwrap_or(Instant::NEVER),
            Kind::Listener(l) => l.audience.deadline(),
            Kind::Idle(_) => Instant::NEVER,
        };
        wheel.set_or_clear(&mut self.alarm, key, deadline);
    }
}

impl Kind {
    /// What it receives lies in.
    pub(crate) fn receive_stream(&self) -> Option<&ReceiveStream> {
        match self {
            Self::Stream(c) => Some(&c.rcv),
            Self::Pair(p) => Some(p.rcv.stream()),
            Self::Listener(l) => Some(&l.rcv),
            Self::Datagram(d) => d.rcv.as_ref(),
            Self::Idle(_) => None,
        }
    }

    /// As `receive_stream`, to be told of.
    #[inline]
    pub(crate) fn receive_stream_mut(&mut self) -> Option<&mut ReceiveStream> {
        match self {
            Self::Stream(c) => Some(&mut c.rcv),
            Self::Pair(p) => Some(p.rcv.stream_mut()),
            Self::Listener(l) => Some(&mut l.rcv),
            Self::Datagram(d) => d.rcv.as_mut(),
            Self::Idle(_) => None,
        }
    }
}
