//! How sockets stand, and how many there are: for those who ask, never for a packet.

use crate::access::Transport;
use crate::answer_limit::AnswerLimits;
use crate::endpoints::Endpoints;
use crate::fragments::Fragments;
use crate::info::state_of_pair;
use crate::link::Link;
use crate::link::automatic::MissingAddress;
use crate::socket::{Kind, Socket};
use longshore_hostif::Meter;
use longshore_net::Cidr;
use longshore_tcp::{Instant, TcpInfo};
use std::net::{IpAddr, SocketAddr};

/// What the stack's own memory of one socket takes, apart from payload, in bytes.
pub const SOCKET_BYTES: usize = size_of::<Socket>();
/// With its block, its part of the tables and what a server like nginx has of a connection, some
/// 1,100 bytes, it is to stay below a page, before a request and after it.
const _: () = assert!(SOCKET_BYTES <= 2_880);

/// How a socket stands.
#[derive(Debug)]
pub struct SocketStatus {
    /// The key of its session.
    pub session: u32,
    /// The index of its block, if it has one.
    pub block: Option<u32>,
    /// Its protocol.
    pub transport: Transport,
    /// In the words of RFC 9293, or as Linux says it.
    pub state: &'static str,
    /// As its program is told, and as it sends.
    pub local: Option<SocketAddr>,
    /// The other end, if it has one.
    pub peer: Option<SocketAddr>,
    /// What has come and is not read, of a listener the connections that wait.
    pub recv_q: u64,
    /// What was written and is not acknowledged, of a listener how many may wait.
    pub send_q: u64,
    /// The timer that goes off next, and in how many microseconds.
    pub timer: Option<(&'static str, u64)>,
    /// Of a TCP connection, what its block says.
    pub tcp: Option<TcpInfo>,
    /// What has crossed for it.
    pub meter: Meter,
}

/// A half-open connection.
#[derive(Debug, Clone, Copy)]
pub struct HalfOpenStatus {
    /// The key of its listener's session.
    pub session: u32,
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// In how many microseconds the SYN-ACK is retransmitted.
    pub retransmitted_in: u64,
    /// How often it was.
    pub repeats: u8,
}

/// A connection in TIME-WAIT.
#[derive(Debug, Clone, Copy)]
pub struct WaitStatus {
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// For so many microseconds still.
    pub lasts: u64,
}

/// How everything stands: [`Stack::status`](crate::Stack::status) gives it to those who ask.
#[derive(Clone, Copy)]
pub struct Status<'a> {
    pub(super) endpoints: &'a Endpoints,
    pub(super) fragments: &'a Fragments,
    pub(super) link: &'a Link,
    pub(super) limits: &'a AnswerLimits,
    pub(super) now: Instant,
}

impl<'a> Status<'a> {
    /// Its addresses, with their prefixes.
    pub fn addresses(self) -> impl Iterator<Item = Cidr> + 'a {
        self.link.addresses.iter()
    }

    /// The routers to everywhere else.
    pub fn gateways(self) -> &'a [IpAddr] {
        self.link.output.hops.gateways()
    }

    /// Whether `ip` is an address of the stack.
    pub fn is_local(&self, ip: IpAddr) -> bool {
        self.link.addresses.contains(ip)
    }

    /// What is still to be found out before the first program can run.
    pub fn missing_addresses(&self) -> Option<MissingAddress> {
        self.link.missing()
    }

    /// Whether packets wait for fragments, of which
    /// [`Stack::expire_fragments`](crate::Stack::expire_fragments) forgets those that do not come.
    pub fn has_fragments(&self) -> bool {
        !self.fragments.is_empty()
    }

    /// Whether no process holds a socket, as far as was said here.
    pub fn is_orphan(&self, key: u32) -> bool {
        self.endpoints
            .sockets
            .get(key)
            .is_none_or(|socket| socket.orphan)
    }

    /// The sockets with keys from this on, each with its key.
    pub fn sockets(self, from: u32) -> impl Iterator<Item = (u32, SocketStatus)> + 'a {
        let all = self
            .endpoints
            .sockets
            .iter()
            .filter(move |(key, _)| *key >= from);
        all.map(move |(key, socket)| (key, self.of_socket(socket)))
    }

    /// The half-open connections with keys from this on, each with its key.
    pub fn half_open(self, from: u32) -> impl Iterator<Item = (u32, HalfOpenStatus)> + 'a {
        let all = self
            .endpoints
            .half_open
            .iter()
            .filter(move |(key, _)| *key >= from);
        all.filter_map(move |(key, half)| {
            let (local, peer) = half.flow.sides();
            let listener = self.endpoints.half_open.listener_of(half)?;
            let status = HalfOpenStatus {
                session: self.endpoints.sockets.get(listener)?.session,
                local,
                peer,
                retransmitted_in: half.record.retransmit_at().since(self.now),
                repeats: half.record.repeats(),
            };
            Some((key, status))
        })
    }

    /// How many half-open connections there are.
    pub fn half_open_count(&self) -> usize {
        self.endpoints.half_open.len()
    }

    /// The connections in TIME-WAIT.
    pub fn waits(self) -> impl Iterator<Item = WaitStatus> + 'a {
        self.endpoints.demux.all_waiting().map(move |w| WaitStatus {
            local: w.local,
            peer: w.remote,
            lasts: w.record.expires().since(self.now),
        })
    }

    /// How many connections are in TIME-WAIT.
    pub fn wait_count(&self) -> usize {
        self.endpoints.demux.waiting_count()
    }

    /// How many sockets there are, half-open connections and those in TIME-WAIT left out.
    pub fn socket_count(&self) -> usize {
        self.endpoints.sockets.len()
    }

    /// Segments for which the tables of connections were asked.
    pub fn connection_cache_misses(&self) -> u64 {
        self.endpoints.demux.cache_misses
    }

    /// SYNs that the port has dropped before its queue, as far as can be told.
    pub fn syns_dropped_at_port(&self) -> u64 {
        self.limits.syns_dropped()
    }

    /// What has crossed for a socket: what its session knows of it, its payload and the
    /// entries of its directory.
    fn meter(&self, socket: &Socket) -> Meter {
        let session = self.endpoints.sessions.get(socket.session);
        let mut meter = session.map_or(Meter::default(), |s| s.host.meter.of(socket.id));
        meter.to_adapter.payload = socket.payload.to_adapter;
        if let Kind::Stream(c) = &socket.kind {
            meter.to_adapter.control = c.fetched.records();
        }
        meter.to_host.payload = socket.payload.to_host;
        if let Some(stream) = socket.kind.receive_stream() {
            meter.to_host.control.add(&stream.entries_written());
        }
        meter
    }

    fn of_socket(&self, socket: &Socket) -> SocketStatus {
        let mut status = SocketStatus {
            session: socket.session,
            block: socket.has_block().then_some(socket.id.index),
            transport: Transport::Tcp,
            state: "UNCONN",
            local: socket.bound.local(),
            peer: None,
            recv_q: 0,
            send_q: 0,
            timer: None,
            tcp: None,
            meter: self.meter(socket),
        };
        match &socket.kind {
            Kind::Stream(c) => {
                status.state = c.tcb.state().name();
                status.peer = Some(c.remote);
                status.recv_q = c.tcb.rcv_edge() - c.tcb.rcv_consumed();
                status.send_q = c.tcb.snd_edge() - c.tcb.snd_acked();
                let timer = c.tcb.running_timer();
                status.timer = timer.map(|(timer, at)| (timer.name(), at.since(self.now)));
                status.tcp = Some(c.tcb.info(self.now));
            }
            Kind::Pair(p) => {
                status.state = state_of_pair(p).name();
                status.peer = Some(p.remote);
                status.recv_q = p.rcv.edge() - p.rcv.consumed();
                status.send_q = p.snd.unmoved();
            }
            Kind::Listener(l) => {
                status.state = "LISTEN";
                status.recv_q = u64::from(l.listener.waiting());
                status.send_q = u64::from(l.listener.backlog());
            }
            Kind::Datagram(d) => {
                status.transport = Transport::Udp;
                if let Some(peer) = d.peer {
                    status.state = "ESTAB";
                    status.peer = Some(peer).filter(|_| socket.bound.local().is_some());
                    if let Some(local) = socket.bound.local()
                        && local.ip().is_unspecified()
                        && let Some(source) = self.link.source_for(peer.ip())
                    {
                        status.local = Some(SocketAddr::new(source, local.port()));
                    }
                }
                status.recv_q = d.rcv_edge - d.rcv_consumed;
                status.send_q = d.snd_edge - d.snd_done;
            }
            Kind::Idle(_) => {}
        }
        status
    }
}
