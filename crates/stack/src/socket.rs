//! What the engine knows of a socket: plain data, named by a key.

use crate::accept_queue::AcceptQueue;
use crate::account::SocketShare;
use crate::address_pair::{DEFAULT_TTL, Service};
use crate::audience::Audience;
use crate::bulk_senders::Seen;
use crate::demux::{Flow, Reuse};
use crate::error_queue::ErrorQueue;
use crate::fast_output::Headers;
use crate::fetched::Fetched;
use crate::forwards::Forwarding;
use crate::messages::Messages;
use crate::pair_end::Pair;
use crate::timers::Alarm;
use crate::told::Told;
use longshore_hostif::adapter::{Immediate, ReceiveStream, Subscribers};
use longshore_hostif::{BlockFlags, Moved, OpenFlags, OptionName, PathMtu, SocketId, SocketKind};
use longshore_tcp::{
    Config, Congestion, FastOpenQueue, FastOpenUse, Instant, Linger, Listener, Tcb,
};
use std::net::{IpAddr, SocketAddr};

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
    /// It holds the port of a connection that nobody has bound, so that others may have
    /// it as this says.
    pub(crate) holds_port: Option<Reuse>,
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
    /// The listener whose limit of connections opened by a cookie alone it counts
    /// against, until its handshake is over.
    pub(crate) fast_open_of: Option<u32>,
    /// What the host was told last.
    pub(crate) told: Told,
    /// When the host is to be told of acknowledgments that nobody waits for, and its chunks
    /// are taken back.
    pub(crate) tell_by: Instant,
    /// When it was last seen to fill its send buffer on a short path.
    pub(crate) bulk_sender: Seen,
    /// Its next hop does not answer.
    pub(crate) unreachable: bool,
    /// It lives on as a record in TIME-WAIT.
    pub(crate) retired: bool,
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
            fast_open_of: None,
            told: Told::default(),
            tell_by: Instant::NEVER,
            bulk_sender: Seen::NEVER,
            unreachable: false,
            retired: false,
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
    pub(crate) rcv: Option<ReceiveStream>,
    pub(crate) rcv_edge: u64,
    pub(crate) rcv_consumed: u64,
    pub(crate) snd_edge: u64,
    pub(crate) snd_done: u64,
    pub(crate) told: Told,
    /// Datagrams that found no room.
    pub(crate) overruns: u64,
    /// When the host is to be told that what it sent is gone, and its chunks are taken back.
    pub(crate) tell_by: Option<Instant>,
    /// The groups that it has joined.
    pub(crate) groups: Vec<IpAddr>,
}

/// A socket's options, as the host set them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) tcp: Config,
    pub(crate) reuse: Reuse,
    pub(crate) ipv6: bool,
    pub(crate) v6_only: bool,
    pub(crate) defer_accept_s: u32,
    /// Milliseconds for which connections wait for data before they are handed over; 0 if they
    /// do not.
    pub(crate) accept_on_data_ms: u16,
    /// TCP_FASTOPEN: connections that may be open by a cookie alone.
    pub(crate) fast_open: u32,
    /// TCP_FASTOPEN_CONNECT.
    pub(crate) fast_open_connect: bool,
    /// Who uses Fast Open here.
    pub(crate) fast_open_use: FastOpenUse,
    pub(crate) send_buffer: u32,
    /// What it may be tuned to.
    pub(crate) send_most: u32,
    /// TCP_NOTSENT_LOWAT; 0 for none.
    pub(crate) not_sent_lowat: u32,
    /// SO_RCVLOWAT; 0 for none.
    pub(crate) receive_lowat: u32,
    /// The program has set it, so it is not tuned.
    pub(crate) send_fixed: bool,
    pub(crate) receive_buffer: u32,
    /// IP_TOS and IPV6_TCLASS, of connections: datagrams bring their own.
    pub(crate) tos: u8,
    pub(crate) class6: u8,
    /// IP_TTL and IPV6_UNICAST_HOPS, the same.
    pub(crate) ttl: u8,
    pub(crate) hops6: u8,
    pub(crate) udp_gro: bool,
    /// IP_MULTICAST_ALL.
    pub(crate) group_all: bool,
    /// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, of a datagram socket.
    pub(crate) path_mtu: PathMtu,
    pub(crate) path_mtu6: PathMtu,
    /// Datagrams are stamped when they arrive.
    pub(crate) stamped: bool,
    /// IP_RECVERR and IPV6_RECVERR.
    pub(crate) receive_errors: bool,
    pub(crate) receive_errors6: bool,
}

/// An address as a socket of its family shows it.
pub(crate) fn as_family(address: SocketAddr, v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(a) if v6 => SocketAddr::new(a.ip().to_ipv6_mapped().into(), a.port()),
        other => other,
    }
}

impl Options {
    pub(crate) fn new(flags: OpenFlags) -> Self {
        Self {
            tcp: Config::default(),
            reuse: Reuse {
                address: flags.contains(OpenFlags::REUSE_ADDRESS),
                port: flags.contains(OpenFlags::REUSE_PORT),
            },
            ipv6: flags.contains(OpenFlags::IPV6),
            v6_only: flags.contains(OpenFlags::V6ONLY),
            defer_accept_s: 0,
            accept_on_data_ms: 0,
            fast_open: 0,
            fast_open_connect: false,
            fast_open_use: FastOpenUse::default(),
            send_buffer: longshore_hostif::SEND_BUFFER,
            send_most: longshore_hostif::STREAM_MAX as u32,
            not_sent_lowat: 0,
            receive_lowat: 0,
            send_fixed: false,
            receive_buffer: longshore_hostif::RECEIVE_BUFFER,
            tos: 0,
            class6: 0,
            ttl: DEFAULT_TTL,
            hops6: DEFAULT_TTL,
            udp_gro: false,
            group_all: true,
            path_mtu: PathMtu::default(),
            path_mtu6: PathMtu::default(),
            stamped: false,
            receive_errors: false,
            receive_errors6: false,
        }
    }

    /// Sets one; the values are the host's claims, so they are brought into
    /// range rather than believed.
    pub(crate) fn set(&mut self, name: OptionName, value: u64) {
        use OptionName as O;
        let on = value != 0;
        let number = u32::try_from(value).unwrap_or(u32::MAX);
        let millis = |seconds: u32| seconds.min(32_767).saturating_mul(1000);
        let small = |v: u32| v.min(127) as u8;
        let most = longshore_hostif::STREAM_MAX as u32;
        match name {
            O::NoDelay => self.tcp.delay.nodelay = on,
            O::Cork => self.tcp.delay.cork = on,
            O::KeepAlive => self.tcp.keepalive.enabled = on,
            O::KeepIdle => self.tcp.keepalive.idle_ms = millis(number.max(1)),
            O::KeepInterval => self.tcp.keepalive.interval_ms = millis(number.max(1)),
            O::KeepCount => self.tcp.keepalive.probes = small(number.max(1)),
            O::UserTimeout => self.tcp.user_timeout_ms = number,
            O::ReceiveBuffer => {
                self.receive_buffer = number.clamp(2304, most);
                self.tcp.rcv.buffer = self.receive_buffer;
                self.tcp.rcv.buffer_max = self.receive_buffer;
            }
            O::SendBuffer => {
                self.send_buffer = number.clamp(4608, most);
                self.send_fixed = true;
            }
            O::NotSentLowat => self.not_sent_lowat = number,
            O::ReceiveLowWater => self.receive_lowat = if number > 1 { number } else { 0 },
            // Kept with the socket.
            O::ReceiveMessages | O::ReceiveMessagesWithin => {}
            O::DeferAccept => self.defer_accept_s = number,
            O::AcceptOnData => self.accept_on_data_ms = number.min(60_000) as u16,
            O::QuickAck => self.tcp.delay.quickack = on,
            O::MaxSegment => self.tcp.mss = number.min(65_495) as u16,
            O::Congestion => {
                let name = value.to_le_bytes();
                let len = name.iter().position(|b| *b == 0).unwrap_or(name.len());
                if let Some(c) = core::str::from_utf8(&name[..len])
                    .ok()
                    .and_then(Congestion::by_name)
                {
                    self.tcp.congestion = c;
                }
            }
            O::MaxPacingRate => self.tcp.max_pacing_rate = value,
            O::TypeOfService => self.tos = number as u8,
            O::TrafficClass => self.class6 = number as u8,
            O::TimeToLive => self.ttl = number.clamp(1, 255) as u8,
            O::HopLimit => self.hops6 = number.min(255) as u8,
            O::ReuseAddress => self.reuse.address = on,
            O::ReusePort => self.reuse.port = on,
            O::V6Only => self.v6_only = on,
            O::Linger2 => self.tcp.fin_wait_ms = millis(number),
            O::SynCount => self.tcp.retries.syn = small(number.max(1)),
            O::WindowClamp => self.tcp.rcv.window_clamp = number,
            O::UdpGro => self.udp_gro = on,
            O::GroupAll => self.group_all = on,
            O::PathMtu => self.path_mtu = PathMtu::from_raw(number),
            O::PathMtu6 => self.path_mtu6 = PathMtu::from_raw(number),
            O::Stamped => self.stamped = on,
            O::ReceiveErrors => self.receive_errors = on,
            O::ReceiveErrors6 => self.receive_errors6 = on,
            O::FastOpen => self.fast_open = number,
            O::FastOpenConnect => self.fast_open_connect = on,
        }
    }

    /// Brings a connection's options up to date after [`Options::set`].
    pub(crate) fn apply(&self, name: OptionName, tcb: &mut Tcb, now: Instant) {
        use OptionName as O;
        match name {
            O::NoDelay => tcb.set_nodelay(self.tcp.delay.nodelay),
            O::Cork => tcb.set_cork(self.tcp.delay.cork),
            O::KeepAlive | O::KeepIdle | O::KeepInterval | O::KeepCount => {
                tcb.set_keepalive(self.tcp.keepalive, now);
            }
            O::UserTimeout => tcb.set_user_timeout(self.tcp.user_timeout_ms),
            O::ReceiveBuffer => tcb.set_rcvbuf(self.tcp.rcv.buffer),
            O::QuickAck => tcb.set_quickack(self.tcp.delay.quickack),
            O::Congestion => tcb.set_congestion(self.tcp.congestion, now),
            O::MaxPacingRate => tcb.set_max_pacing_rate(self.tcp.max_pacing_rate),
            O::Linger2 => tcb.set_fin_wait(self.tcp.fin_wait_ms),
            O::SynCount => tcb.set_syn_retries(self.tcp.retries.syn),
            O::WindowClamp => tcb.set_window_clamp(self.tcp.rcv.window_clamp),
            O::MaxSegment => tcb.set_max_segment(self.tcp.mss),
            _ => {}
        }
    }

    /// What a connection's packets to `to` are to have.
    #[inline]
    pub(crate) fn service(&self, to: IpAddr) -> Service {
        let (ttl, tos) = match to {
            IpAddr::V4(_) => (self.ttl, self.tos),
            IpAddr::V6(_) => (self.hops6, self.class6),
        };
        Service {
            ttl,
            tos,
            dont_fragment: true,
        }
    }

    /// What a connection to `remote` begins with.
    pub(crate) fn tcp_to(&self, remote: SocketAddr) -> Config {
        Config {
            ipv6: remote.is_ipv6(),
            ..self.tcp
        }
    }

    /// What closing does, from SO_LINGER's seconds.
    pub(crate) fn linger(seconds: Option<u32>) -> Linger {
        if seconds == Some(0) {
            Linger::Reset
        } else {
            Linger::Background
        }
    }

    /// The flags of the block of a connection that inherits them.
    pub(crate) fn block_flags(&self) -> BlockFlags {
        let v6 = if self.ipv6 {
            BlockFlags::IPV6
        } else {
            BlockFlags::empty()
        };
        v6 | BlockFlags::BOUND
    }
}

impl Socket {
    /// TCP_CORK was set, or taken out.
    pub(crate) fn cork(&mut self, on: bool) {
        self.options.tcp.delay.cork = on;
        match &mut self.kind {
            Kind::Stream(c) => c.tcb.set_cork(on),
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
            holds_port: None,
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

    /// Counts payload in one direction, for the socket and for its session.
    pub(crate) fn count_payload(moved: [&mut Moved; 2], pieces: u64, bytes: u64) {
        for moved in moved {
            moved.count(pieces, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::CONGESTION_NAMES;

    #[test]
    fn every_name_of_a_congestion_control_crosses() {
        assert_eq!(CONGESTION_NAMES, Congestion::ALL.map(Congestion::name));
        let mut options = Options::new(OpenFlags::empty());
        for (name, which) in CONGESTION_NAMES.into_iter().zip(Congestion::ALL) {
            let mut word = [0; 8];
            word[..name.len()].copy_from_slice(name.as_bytes());
            options.set(OptionName::Congestion, u64::from_le_bytes(word));
            assert_eq!(options.tcp.congestion, which);
        }
        options.set(OptionName::Congestion, u64::from_le_bytes(*b"westwood"));
        assert_eq!(options.tcp.congestion, Congestion::Bbr);
    }

    #[test]
    fn a_pacing_rate_and_its_absence_cross() {
        let mut options = Options::new(OpenFlags::empty());
        for rate in [1_000_000, u64::MAX] {
            options.set(OptionName::MaxPacingRate, rate);
            assert_eq!(options.tcp.max_pacing_rate, rate);
        }
    }
}
