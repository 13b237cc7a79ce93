//! A connection's life in the engine: opened, settled after each turn that
//! touched it, closed, retired to TIME-WAIT, forgotten.

use crate::demux::{Flow, Reuse, Waiting};
use crate::engine::Engine;
use crate::output::Sent;
use crate::socket::{Connection, Kind, Socket};
use crate::tcp_input::as_family;
use crate::timers::Alarm;
use longshore_hostif::{CHUNK, Completion, DIRECTORY, EdgeFlags, Edges, SocketId, SocketState};
use longshore_ring::NONE;
use longshore_tcp::{Error, Events, Instant, State, Tcb};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

/// Why a request cannot be done; the host gets the errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestError {
    NoSocket,
    Invalid,
    AddressInUse,
    AddressNotAvailable,
    NoPortLeft,
    Unreachable,
    AlreadyConnected,
    BadEdge,
    Family,
}

impl RequestError {
    /// Linux's errno for it.
    pub(crate) fn errno(self) -> u16 {
        match self {
            Self::NoSocket => 9,
            Self::Invalid | Self::BadEdge => 22,
            Self::Family => 97,
            Self::AddressInUse => 98,
            Self::AddressNotAvailable | Self::NoPortLeft => 99,
            Self::Unreachable => 101,
            Self::AlreadyConnected => 106,
        }
    }
}

/// How long acknowledgments that nobody waits for may stay untold, in
/// microseconds: what rides on nothing else by then goes alone, so that the
/// host can give the memory back.
const TELL_AFTER: u64 = 100_000;

impl Connection {
    /// Where its streams stand.
    #[inline]
    fn edges(&self) -> Edges {
        let mut flags = EdgeFlags::empty();
        flags.set(EdgeFlags::CONNECTED, self.tcb.is_open_to_user());
        flags.set(EdgeFlags::PEER_FIN, self.tcb.peer_closed());
        let mut errno = 0;
        if let Some(error) = self.tcb.error() {
            flags |= EdgeFlags::DEAD;
            errno = if self.unreachable && error == Error::Aborted {
                113
            } else {
                error.errno()
            };
        }
        Edges {
            rcv_edge: self.tcb.rcv_edge(),
            snd_acked: self.tcb.snd_acked(),
            flags,
            errno,
        }
    }

    /// The host has just been told of these.
    #[inline]
    fn note_told(&mut self, edges: &Edges) {
        self.told.rcv_edge = edges.rcv_edge;
        self.told.snd_acked = edges.snd_acked;
        self.told.flags = edges.flags;
        self.tell_by = Instant::NEVER;
    }
}

impl Socket {
    /// Where its streams stand.
    pub(crate) fn edges(&self) -> Edges {
        match &self.kind {
            Kind::Stream(c) => c.edges(),
            Kind::Pair(p) => Edges {
                rcv_edge: p.rcv_edge,
                snd_acked: p.snd_moved,
                flags: p.flags(),
                errno: p.dead.unwrap_or(0),
            },
            Kind::Listener(l) => Edges {
                rcv_edge: l.rcv_edge,
                snd_acked: 0,
                flags: EdgeFlags::empty(),
                errno: 0,
            },
            Kind::Datagram(d) => Edges {
                rcv_edge: d.rcv_edge,
                snd_acked: d.snd_done,
                flags: EdgeFlags::empty(),
                errno: 0,
            },
            Kind::Idle(_) => Edges {
                rcv_edge: 0,
                snd_acked: 0,
                flags: EdgeFlags::empty(),
                errno: 0,
            },
        }
    }

    /// The host has just been told where they stand.
    pub(crate) fn note_told(&mut self) {
        let edges = self.edges();
        match &mut self.kind {
            Kind::Stream(c) => c.note_told(&edges),
            Kind::Pair(p) => {
                p.told = crate::socket::Told {
                    rcv_edge: edges.rcv_edge,
                    snd_acked: edges.snd_acked,
                    flags: edges.flags,
                };
            }
            Kind::Listener(l) => l.told = edges.rcv_edge,
            Kind::Datagram(d) => {
                d.told.rcv_edge = edges.rcv_edge;
                d.told.snd_acked = edges.snd_acked;
                d.tell_by = None;
            }
            Kind::Idle(_) => {}
        }
    }
}

impl Engine {
    pub(crate) fn connection_mut(&mut self, key: u32) -> Option<&mut Connection> {
        match &mut self.sockets.get_mut(key)?.kind {
            Kind::Stream(c) => Some(c),
            _ => None,
        }
    }

    /// The active open.
    pub(crate) fn open_connection(
        &mut self,
        key: u32,
        peer: SocketAddr,
    ) -> Result<SocketAddr, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        let (options, bound) = (socket.options, socket.local);
        let remote = Self::meant(&options, peer)?;
        let remote = SocketAddr::new(self.who_is(remote.ip()), remote.port());
        let to = remote.ip();
        let one = match to {
            IpAddr::V4(ip) => !ip.is_broadcast() && !ip.is_multicast(),
            IpAddr::V6(ip) => !ip.is_multicast(),
        };
        if remote.port() == 0 || !one {
            return Err(RequestError::Unreachable);
        }
        // There must be a way even if the address is chosen.
        let source = self.link.source_for(to).ok_or(RequestError::Unreachable)?;
        let ip = match bound.map(|b| b.ip().to_canonical()) {
            Some(ip) if !ip.is_unspecified() => ip,
            _ => source,
        };
        if ip.is_ipv4() != to.is_ipv4() {
            return Err(RequestError::Unreachable);
        }
        let port = match bound {
            Some(bound) => bound.port(),
            None => self.pick_port(key, ip, remote)?,
        };
        let local = SocketAddr::new(ip, port);
        let flow = Flow::new(local, remote);
        if self.demux.is_taken(&flow) {
            return Err(if bound.is_some() {
                RequestError::AddressInUse
            } else {
                RequestError::NoPortLeft
            });
        }
        if self.cut_through && self.link.is_local(to) {
            self.open_pair(key, local, remote)?;
            return Ok(as_family(local, options.ipv6));
        }
        let (mss, iss) = (self.mss_to(remote), self.initial_sequence(local, remote));
        let offset = self.timestamp_offset(local, remote);
        let mut tcb = Tcb::connect(&options.tcp, mss, iss, offset, self.now);
        if options.fast_open_connect {
            self.begin_fast_open(remote.ip(), &mut tcb);
        }
        self.demux.insert(flow, key);
        self.counters.active_opens += 1;
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        socket.kind = Kind::Stream(Connection::new(tcb, local, remote, None));
        socket.local = Some(local);
        self.touch(key);
        Ok(as_family(local, options.ipv6))
    }

    /// Who is meant by `ip`: connecting to the wildcard means to oneself, as in Linux.
    fn who_is(&self, ip: IpAddr) -> IpAddr {
        if !ip.is_unspecified() {
            return ip;
        }
        let mut own = self.link.addresses().map(|c| c.address);
        own.find(|own| own.is_ipv4() == ip.is_ipv4()).unwrap_or(ip)
    }

    fn pick_port(&mut self, key: u32, ip: IpAddr, remote: SocketAddr) -> Result<u16, RequestError> {
        let demux = &self.demux;
        let usable = |port| {
            demux.tcp.is_free(port)
                && !demux.is_taken(&Flow::new(SocketAddr::new(ip, port), remote))
        };
        let port = demux.tcp.pick((ip, remote, key, self.now.0), usable);
        port.ok_or(RequestError::NoPortLeft)
    }

    /// Looks at every socket that this turn has touched: sends what there is to
    /// send, tells the host what there is to tell.
    pub(crate) fn settle(&mut self) -> bool {
        let mut dirty = std::mem::take(&mut self.dirty);
        let any = !dirty.is_empty();
        for key in dirty.drain(..) {
            let Some(socket) = self.sockets.get_mut(key) else {
                continue;
            };
            socket.dirty = false;
            match &socket.kind {
                Kind::Stream(_) => self.settle_connection(key),
                Kind::Pair(_) => self.settle_pair(key),
                Kind::Listener(_) => self.settle_listener(key),
                Kind::Datagram(_) => self.settle_datagram(key),
                Kind::Idle(_) => {}
            }
        }
        // What was touched meanwhile (a connection with more to send) is next
        // turn's.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        any
    }

    fn settle_connection(&mut self, key: u32) {
        match self.transmit(key) {
            Sent::All => {}
            Sent::More => self.touch(key),
            Sent::Unresolved => self.unresolved.push(key),
        }
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let (has_block, orphan) = (socket.has_block(), socket.orphan);
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let events = c.tcb.take_events();
        let mut roomier = false;
        if events.contains(Events::SND_ACKED) {
            self.link.confirm(c.remote.ip(), self.now);
            let wanted = c.tcb.snd_buffer_wanted();
            if wanted > u64::from(socket.options.send_buffer) {
                roomier = self.tune_send_buffer(key, wanted);
            }
        }
        if has_block && !orphan {
            self.report(key, roomier);
        } else if has_block {
            self.release_if_delivered(key);
        }
        if events.contains(Events::TIME_WAIT) {
            self.retire(key);
        } else if events.contains(Events::CLOSED) {
            self.disconnect(key);
        } else {
            self.arm(key);
        }
    }

    /// Tells the host what it may be waiting for. Acknowledgments are told when
    /// a quarter of the buffer has become free, or it has become `roomier`; fewer wait
    /// for something to ride on.
    fn report(&mut self, key: u32, roomier: bool) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let quarter = u64::from(socket.options.send_buffer / 4);
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let mut edges = c.edges();
        let news = edges.rcv_edge > c.told.rcv_edge || edges.flags != c.told.flags || roomier;
        let unacknowledged = edges.snd_acked - c.told.snd_acked;
        if !news && unacknowledged < quarter {
            if unacknowledged != 0 && edges.snd_acked == c.tcb.snd_edge() && c.tell_by.is_never() {
                c.tell_by = now.after_us(TELL_AFTER);
            }
            return;
        }
        if edges.flags == c.told.flags && !edges.flags.contains(EdgeFlags::DEAD) {
            edges.errno = 0;
        }
        c.note_told(&edges);
        socket.meter.to_host.descriptors += 1;
        let id = socket.id;
        if let Some(s) = self.sessions.get_mut(socket.session) {
            let news = Completion::Edges { socket: id, edges };
            s.post(id.index, &socket.subscribers, &news);
        }
    }

    fn settle_listener(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let edges = socket.edges();
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        if edges.rcv_edge <= l.told {
            return;
        }
        let (id, to, session) = (socket.id, socket.subscribers, socket.session);
        socket.note_told();
        socket.meter.to_host.descriptors += 1;
        if let Some(s) = self.sessions.get_mut(session) {
            s.post(id.index, &to, &Completion::Edges { socket: id, edges });
        }
    }

    /// Sees to it that the wheel names the socket when it has a deadline.
    pub(crate) fn arm(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let deadline = match &socket.kind {
            Kind::Stream(c) if c.retired => Some(c.tell_by),
            Kind::Stream(c) => Some(c.tcb.deadline().unwrap_or(Instant::NEVER).min(c.tell_by)),
            Kind::Datagram(d) => d.tell_by,
            Kind::Pair(p) => p.deadline(),
            _ => None,
        };
        match deadline.filter(|d| !d.is_never()) {
            Some(deadline) => self.wheel.set(&mut socket.alarm, key, deadline),
            None => socket.alarm.clear(),
        }
    }

    /// The wheel has named a socket.
    pub(crate) fn socket_timer(&mut self, key: u32) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if !self.wheel.is_due(&mut socket.alarm, key, now) {
            return;
        }
        let mut tell = false;
        match &mut socket.kind {
            Kind::Stream(c) => {
                if !c.retired && c.tcb.deadline().is_some_and(|d| d <= now) {
                    c.tcb.on_timer(now);
                }
                tell = c.tell_by <= now;
            }
            Kind::Datagram(d) => tell = d.tell_by.is_some_and(|t| t <= now),
            _ => {}
        }
        if tell && socket.has_block() && !socket.orphan {
            let (id, to, session, edges) = (
                socket.id,
                socket.subscribers,
                socket.session,
                socket.edges(),
            );
            socket.note_told();
            if let Some(s) = self.sessions.get_mut(session) {
                s.post(id.index, &to, &Completion::Edges { socket: id, edges });
            }
        }
        self.touch(key);
    }

    /// A connection is in TIME-WAIT: a small record takes its place.
    fn retire(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(local) = socket.local else { return };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        if c.retired {
            return;
        }
        let (record, remote, flow) = (c.tcb.time_wait(), c.remote, c.flow);
        c.retired = true;
        let mut alarm = Alarm::OFF;
        self.time_waits.set(&mut alarm, flow, record.expires());
        self.demux.remove(&flow);
        self.demux.wait(
            flow,
            Waiting {
                record,
                local,
                remote,
                alarm,
            },
        );
        self.after_end(key);
    }

    pub(crate) fn time_wait_timer(&mut self, flow: Flow) {
        let now = self.now;
        let Some(waiting) = self.demux.waiting(&flow) else {
            return;
        };
        if !self.time_waits.is_due(&mut waiting.alarm, flow, now) {
            return;
        }
        // A segment may have begun it anew.
        let expires = waiting.record.expires();
        if expires <= now {
            self.demux.end_wait(&flow);
        } else {
            self.time_waits.set(&mut waiting.alarm, flow, expires);
        }
    }

    /// A connection is over.
    fn disconnect(&mut self, key: u32) {
        self.listener_lost_if_half_open(key);
        self.fast_open_done(key);
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        if !c.retired {
            c.retired = true;
            let flow = c.flow;
            self.demux.remove(&flow);
        }
        self.after_end(key);
    }

    fn listener_lost_if_half_open(&mut self, key: u32) {
        if self.sockets.get(key).is_some_and(|s| {
            !s.has_block() && matches!(&s.kind, Kind::Stream(c) if c.listener.is_some())
        }) {
            self.listener_lost(key);
        }
    }

    /// Nothing more is sent or received: the socket goes, unless a process
    /// still holds it.
    fn after_end(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        if socket.orphan || !socket.has_block() {
            self.forget(key);
        } else {
            self.arm(key);
        }
    }

    /// Gives an orphan's block back as soon as all it wrote has arrived.
    fn release_if_delivered(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let Kind::Stream(c) = &socket.kind else {
            return;
        };
        let delivered = c.tcb.snd_acked() == c.tcb.snd_edge() || c.tcb.state() == State::Closed;
        if delivered {
            self.release_block(key);
        }
    }

    /// Gives the block of a socket that no process holds back to its session,
    /// with the chunks that its send stream still has.
    pub(crate) fn release_block(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if !socket.has_block() {
            return;
        }
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        let id = std::mem::replace(
            &mut socket.id,
            SocketId {
                index: NONE,
                generation: 0,
            },
        );
        match &mut socket.kind {
            Kind::Stream(c) => c.rcv.consume(0, true, &mut s.rcv_slab),
            Kind::Pair(p) => p.rcv.consume(0, true, &mut s.rcv_slab),
            Kind::Listener(l) => l.rcv.consume(0, true, &mut s.rcv_slab),
            Kind::Datagram(d) => {
                if let Some(rcv) = &mut d.rcv {
                    rcv.consume(0, true, &mut s.rcv_slab);
                }
            }
            Kind::Idle(_) => {}
        }
        s.leave(id);
        let block = s.arena.block(id.index);
        let (from, to) = (
            block.snd.told.load(Ordering::Acquire),
            block.snd.edge.load(Ordering::Acquire),
        );
        if to > from {
            let (first, last) = (from / CHUNK as u64, (to - 1) / CHUNK as u64);
            let directory = s.arena.snd_directory(id.index);
            // A directory has no more entries than this, whatever the host says.
            for number in (first..=last).take(DIRECTORY) {
                let chunk = directory[number as usize % DIRECTORY].load(Ordering::Acquire);
                let pushed = s
                    .arena
                    .header()
                    .free_snd_chunks
                    .push(s.arena.snd_links(), chunk);
                s.bad_descriptors += u64::from(pushed.is_err());
            }
        }
        block.set_state(SocketState::Free);
        if s.arena
            .header()
            .free_sockets
            .push(s.arena.socket_links(), id.index)
            .is_err()
        {
            s.bad_descriptors += 1;
        }
    }

    /// Forgets a socket altogether.
    pub(crate) fn forget(&mut self, key: u32) {
        self.release_block(key);
        let Some(socket) = self.sockets.remove(key) else {
            return;
        };
        match &socket.kind {
            Kind::Stream(c) => {
                if !c.retired {
                    self.demux.remove(&c.flow);
                }
                if c.listener.is_none()
                    && let Some(local) = socket.local
                {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Pair(p) => {
                self.demux.remove(&p.flow);
                if let Some(local) = socket.local {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Listener(_) | Kind::Idle(longshore_hostif::SocketKind::Stream) => {
                if let Some(local) = socket.local {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Datagram(_) | Kind::Idle(longshore_hostif::SocketKind::Datagram) => {
                if let Some(local) = socket.local {
                    self.demux.udp.release(local.port(), key);
                }
            }
        }
    }

    /// Reuse for a socket that did not say.
    pub(crate) const NO_REUSE: Reuse = Reuse {
        address: false,
        port: false,
    };
}
