//! Finding the socket that a packet is for.
//!
//! Connections are found by the headers of the segment before (packets come in trains,
//! as the 1989 paper measured), then by a hash of the four-tuple with a secret key, those
//! of IPv4 in a table of their own;
//! listeners and datagram sockets by port and then by the most specific
//! address. The table names sockets by the engine's keys and owns nothing else.

mod automatic;
mod flow;
mod held;
mod ports;
mod table4;
mod used_ports;

pub(crate) use flow::Flow;
pub(crate) use ports::{Ports, Receivers, Reuse};

use crate::local_ports::{LocalPorts, ReservedPorts};
use crate::secrets::{KeyedHash, Purpose, Secrets};
use crate::timers::{Alarm, Wheel};
use automatic::Automatic;
use flow::Keyed;
use longshore_hostif::SocketKind;
use longshore_tcp::{Instant, TimeWait};
use longshore_wire::SeqNumber;
use longshore_wire::tcp4::{CachedHeaders4, Flow4};
use longshore_wire::tcp6::CachedHeaders6;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use table4::{NO_KEY, Table4};
use used_ports::UsedPorts;

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: TimeWait,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// How it lets others have its port.
    pub(crate) reuse: Reuse,
    /// When that is to be looked at; [`Demux::wait`] sets it.
    pub(crate) alarm: Alarm,
}

/// What a flow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The socket of this key.
    Socket(u32),
    /// The half-open connection of this key.
    HalfOpen(u32),
    /// A record in TIME-WAIT.
    TimeWait,
}

/// In a key of the tables of flows: it is one of a half-open connection. No socket has such
/// a key, so that header prediction finds none.
const IS_HALF_OPEN: u32 = 1 << 31;

impl Found {
    fn of(key: u32) -> Self {
        if key & IS_HALF_OPEN == 0 {
            Self::Socket(key)
        } else {
            Self::HalfOpen(key & !IS_HALF_OPEN)
        }
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Demux {
    /// The headers of the last segment of IPv4 that belonged to a connection, and the
    /// key of that.
    cached: (CachedHeaders4, u32),
    /// The headers of the last such segment of IPv6, its connection's key, and what that is called.
    cached6: (CachedHeaders6, u32, Option<Flow>),
    flows4: Table4,
    /// The last connection that [`find`](Self::find) has found.
    last: Option<(Flow, u32)>,
    flows6: HashMap<Flow, u32, Keyed>,
    waiting: HashMap<Flow, Waiting, Keyed>,
    /// When those in `waiting` are to be looked at.
    time_waits: Wheel<Flow>,
    /// Those that are being looked at; kept for its memory.
    over: Vec<Flow>,
    used_ports: UsedPorts,
    secret: KeyedHash,
    /// TCP ports.
    pub(crate) tcp: Ports,
    /// UDP ports.
    pub(crate) udp: Ports,
    /// Segments whose connection was not that of the one before.
    pub(crate) cache_misses: u64,
}

impl Demux {
    pub(crate) fn new(secrets: &Secrets, now: Instant) -> Self {
        Self {
            cached: (CachedHeaders4::NONE, NO_KEY),
            cached6: (CachedHeaders6::NONE, NO_KEY, None),
            flows4: Table4::new(Keyed::new(secrets, Purpose::Table4).secret),
            last: None,
            flows6: HashMap::with_hasher(Keyed::new(secrets, Purpose::Table6)),
            waiting: HashMap::with_hasher(Keyed::new(secrets, Purpose::TimeWaits)),
            time_waits: Wheel::new(now),
            over: Vec::new(),
            used_ports: UsedPorts::default(),
            secret: secrets.keyed(Purpose::Connections),
            tcp: Ports::new(secrets.keyed(Purpose::TcpPorts)),
            udp: Ports::new(secrets.keyed(Purpose::UdpPorts)),
            cache_misses: 0,
        }
    }

    /// The ports that sockets of this kind are bound to.
    pub(crate) fn ports(&mut self, kind: SocketKind) -> &mut Ports {
        match kind {
            SocketKind::Stream => &mut self.tcp,
            SocketKind::Datagram => &mut self.udp,
        }
    }

    /// The headers of the segment before, if it was one of IPv4 that belonged to a
    /// connection, and the key of that.
    #[inline(always)]
    pub(crate) fn cached(&self) -> (&CachedHeaders4, u32) {
        (&self.cached.0, self.cached.1)
    }

    /// A segment with these headers belongs to the connection of this key.
    #[inline]
    pub(crate) fn cache(&mut self, cached: CachedHeaders4, key: u32) {
        self.cached = (cached, key);
    }

    /// The headers of the last segment of IPv6 that belonged to a connection, and the key
    /// of that.
    #[inline(always)]
    pub(crate) fn cached6(&self) -> (&CachedHeaders6, u32) {
        (&self.cached6.0, self.cached6.1)
    }

    /// The key of the connection of the last segment of this version of IP.
    pub(crate) fn cached_key(&self, is_v6: bool) -> u32 {
        if is_v6 { self.cached6.1 } else { self.cached.1 }
    }

    /// The segment in a frame whose headers below TCP are those of that segment; `is_bare` if the
    /// link has no header.
    pub(crate) fn cached_segment_of<'f>(
        &self,
        is_v6: bool,
        frame: &'f [u8],
        is_bare: bool,
    ) -> Option<&'f [u8]> {
        if is_v6 {
            self.cached6.0.segment_of(frame, is_bare)
        } else {
            self.cached.0.segment_of(frame, is_bare)
        }
    }

    /// A segment of IPv6 with these headers belongs to a connection: says which, and
    /// remembers it.
    pub(crate) fn find6(&mut self, flow: Flow, cached: CachedHeaders6) -> Option<u32> {
        let key = *self.flows6.get(&flow)?;
        self.cache_misses += 1;
        self.cached6 = (cached, key, Some(flow));
        Some(key)
    }

    /// The headers of the segments before say nothing of the next.
    pub(crate) fn forget_known(&mut self) {
        self.cached = (CachedHeaders4::NONE, NO_KEY);
        self.cached6 = (CachedHeaders6::NONE, NO_KEY, None);
    }

    /// The key of the connection of this flow, which is not that of the segment before or
    /// has other headers.
    #[inline(always)]
    pub(crate) fn find4(&mut self, flow: &Flow4) -> Option<u32> {
        let key = self.flows4.get(flow)?;
        self.cache_misses += 1;
        Some(key)
    }

    /// Whether the first slot that is looked at has the connection of this flow.
    #[cfg(feature = "bench")]
    pub(crate) fn is_found_at_once(&self, flow: &Flow4) -> bool {
        self.flows4.is_at_home(flow)
    }

    /// What `flow` belongs to.
    pub(crate) fn find(&mut self, flow: &Flow) -> Option<Found> {
        if let Some((last, key)) = self.last
            && last == *flow
        {
            return Some(Found::Socket(key));
        }
        let (cached, key) = self.cached();
        if key != NO_KEY && flow.flow4() == Some(*cached.flow()) {
            return Some(Found::of(key));
        }
        self.cache_misses += 1;
        let found = self.peek(flow);
        if let Some(Found::Socket(key)) = found {
            self.last = Some((*flow, key));
        }
        found
    }

    /// As `find`, for what is no segment of it.
    pub(crate) fn peek(&self, flow: &Flow) -> Option<Found> {
        if let Some(key) = self.key_of(flow) {
            return Some(Found::of(key));
        }
        self.waiting.contains_key(flow).then_some(Found::TimeWait)
    }

    fn key_of(&self, flow: &Flow) -> Option<u32> {
        match flow.flow4() {
            Some(flow4) => self.flows4.get(&flow4),
            None => self.flows6.get(flow).copied(),
        }
    }

    /// The socket of the connection between two addresses, if there is one.
    pub(crate) fn connection_of(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        match self.peek(&Flow::new(local, remote))? {
            Found::Socket(key) => Some(key),
            Found::HalfOpen(_) | Found::TimeWait => None,
        }
    }

    /// Whether the four-tuple is in use.
    pub(crate) fn is_taken(&self, flow: &Flow) -> bool {
        self.key_of(flow).is_some() || self.waiting.contains_key(flow)
    }

    /// From now on those who ask for no port in particular get one of this range that is not
    /// reserved.
    pub(crate) fn use_local_ports(
        &mut self,
        range: LocalPorts,
        reserved: Option<&Arc<ReservedPorts>>,
    ) {
        if self.tcp.automatic.are(range, reserved) {
            return;
        }
        let automatic = Automatic::new(range, reserved.cloned());
        self.used_ports = UsedPorts::new(automatic.clone());
        (self.tcp.automatic, self.udp.automatic) = (automatic.clone(), automatic);
    }

    /// A local port for a connection from `ip` to `remote` whose socket is not bound: some
    /// are tried at random (RFC 6056 section 3.3.2), and where hardly any is left, one is
    /// taken of those that are. `None` if there is none.
    pub(crate) fn pick_port(
        &mut self,
        seed: impl std::hash::Hash,
        ip: IpAddr,
        remote: SocketAddr,
    ) -> Option<u16> {
        let flow = |port| Flow::new(SocketAddr::new(ip, port), remote);
        let usable = |port| self.tcp.is_free(port) && !self.is_taken(&flow(port));
        let seed = self.hash(seed);
        if let Some(port) = self.tcp.automatic.tries(seed).find(|port| usable(*port)) {
            return Some(port);
        }
        let mut used_ports = std::mem::take(&mut self.used_ports);
        let taken = used_ports.ports(&flow(0), |port| self.is_taken(&flow(port)));
        let picked = self.tcp.first_free(seed, taken);
        self.used_ports = used_ports;
        picked
    }

    pub(crate) fn insert(&mut self, flow: Flow, key: u32) {
        self.used_ports.note(&flow, true);
        match flow.flow4() {
            Some(flow4) => self.flows4.insert(&flow4, key),
            None => {
                self.flows6.insert(flow, key);
            }
        }
    }

    /// As `insert`, for a half-open connection.
    pub(crate) fn insert_half_open(&mut self, flow: Flow, key: u32) {
        self.insert(flow, key | IS_HALF_OPEN);
    }

    pub(crate) fn remove(&mut self, flow: &Flow) {
        self.used_ports.note(flow, false);
        if self.last.is_some_and(|(last, _)| last == *flow) {
            self.last = None;
        }
        let Some(flow4) = flow.flow4() else {
            self.flows6.remove(flow);
            if self.cached6.2 == Some(*flow) {
                self.forget_known();
            }
            return;
        };
        self.flows4.remove(&flow4);
        if flow4 == *self.cached.0.flow() {
            self.forget_known();
        }
    }

    /// A record takes the place of a connection that is in TIME-WAIT, until it expires.
    pub(crate) fn wait(&mut self, flow: Flow, mut waiting: Waiting) {
        let expires = waiting.record.expires();
        self.time_waits.set(&mut waiting.alarm, flow, expires);
        self.tcp.hold(waiting.local, waiting.reuse);
        self.used_ports.note(&flow, true);
        if let Some(old) = self.waiting.insert(flow, waiting) {
            self.tcp.let_go(old.local, old.reuse);
        }
    }

    pub(crate) fn waiting(&mut self, flow: &Flow) -> Option<&mut Waiting> {
        self.waiting.get_mut(flow)
    }

    pub(crate) fn end_wait(&mut self, flow: &Flow) {
        if let Some(waiting) = self.waiting.remove(flow) {
            // A connection of the same name may have begun meanwhile.
            let is_there = self.key_of(flow).is_some();
            self.used_ports.note(flow, is_there);
            self.tcp.let_go(waiting.local, waiting.reuse);
        }
    }

    /// Ends those whose time is over.
    pub(crate) fn expire_waits(&mut self, now: Instant) {
        let mut over = std::mem::take(&mut self.over);
        self.time_waits.advance(now, &mut over);
        for flow in over.drain(..) {
            self.expire_wait(&flow, now);
        }
        self.over = over;
    }

    fn expire_wait(&mut self, flow: &Flow, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(flow) else {
            return;
        };
        if !self.time_waits.is_due(&mut waiting.alarm, *flow, now) {
            return;
        }
        // A segment may have begun it anew.
        let expires = waiting.record.expires();
        if expires <= now {
            self.end_wait(flow);
        } else {
            self.time_waits.set(&mut waiting.alarm, *flow, expires);
        }
    }

    /// When [`expire_waits`](Self::expire_waits) has something to do, at the earliest.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.time_waits.next()
    }

    /// How many connections are in TIME-WAIT.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The connections in TIME-WAIT.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// Forgets all connections, and what is bound of sockets that are not there.
    pub(crate) fn begin_anew(&mut self, is_there: impl Fn(u32) -> bool) {
        self.forget_known();
        self.last = None;
        self.flows4.clear();
        self.flows6.clear();
        self.used_ports = UsedPorts::new(self.tcp.automatic.clone());
        self.udp.retain(&is_there);
        self.tcp.retain(&is_there);
        for waiting in self.waiting.values() {
            self.tcp.hold(waiting.local, waiting.reuse);
        }
    }

    /// How many flows belong to sockets and to half-open connections.
    pub(crate) fn flows(&self) -> usize {
        self.flows4.len() + self.flows6.len()
    }

    /// An initial sequence number (RFC 6528 section 3): a clock of 4 us and a keyed hash
    /// of the four-tuple.
    pub(crate) fn initial_sequence(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        now: Instant,
    ) -> SeqNumber {
        let clock = (now.0 / 4) as u32;
        SeqNumber(clock.wrapping_add(self.hash(("iss", local, remote)) as u32))
    }

    /// RFC 7323 section 7.1: timestamps start elsewhere for each peer.
    pub(crate) fn timestamp_offset(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        self.hash(("timestamps", local.ip(), remote.ip())) as u32
    }

    /// A keyed hash: for other secrets of a connection, and for spreading.
    pub(crate) fn hash(&self, what: impl std::hash::Hash) -> u64 {
        self.secret.hash_one(what)
    }
}

#[cfg(test)]
mod tests;
