//! Finding the socket that a packet is for.
//!
//! Connections are found by the last one found (packets come in trains, as the
//! 1989 paper measured), then by a hash of the four-tuple with a secret key;
//! listeners and datagram sockets by port and then by the most specific
//! address. The table names sockets by the engine's keys and owns nothing else.

use crate::timers::Alarm;
use longshore_tcp::TimeWait;
use longshore_wire::tcp4::Flow4;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A connection's four-tuple, IPv4 addresses as they are mapped into IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    remote: u128,
    local: u128,
    ports: u32,
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => 0xffff_0000_0000 | u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Flow {
    pub(crate) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            remote: bits(remote.ip()),
            local: bits(local.ip()),
            ports: u32::from(local.port()) << 16 | u32::from(remote.port()),
        }
    }

    /// The flow of a segment that came in.
    fn of(flow: &Flow4) -> Self {
        let ((remote, remote_port), (local, local_port)) = (flow.source(), flow.destination());
        Self {
            remote: bits(remote.into()),
            local: bits(local.into()),
            ports: u32::from(local_port) << 16 | u32::from(remote_port),
        }
    }

    /// What segments of it have in their headers, if it is of IPv4.
    fn flow4(&self) -> Option<Flow4> {
        let v4 = |ip: u128| Ipv6Addr::from(ip).to_ipv4_mapped();
        let remote = (v4(self.remote)?, self.ports as u16);
        let local = (v4(self.local)?, (self.ports >> 16) as u16);
        Some(Flow4::new(remote, local))
    }
}

impl Hash for Flow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.remote as u64);
        state.write_u64(self.local as u64 ^ u64::from(self.ports).rotate_left(32));
        // Nothing but zeros in mapped addresses.
        let upper = (self.remote >> 64) as u64 | (self.local >> 64) as u64;
        if upper != 0 {
            state.write_u64((self.remote >> 64) as u64);
            state.write_u64((self.local >> 64) as u64);
            state.write_u64(u64::from(self.ports));
        }
    }
}

/// Hashes flows with a secret, so that nobody can choose connections that share a
/// place in the table: each word is multiplied with what came before it, and both
/// halves of the product count. For the table alone; what peers see of a hash is
/// made by [`RandomState`].
#[derive(Debug, Clone)]
struct Keyed {
    secret: [u64; 2],
}

impl Keyed {
    fn new() -> Self {
        let random = RandomState::new();
        Self {
            secret: [random.hash_one(1), random.hash_one(2) | 1],
        }
    }
}

impl BuildHasher for Keyed {
    type Hasher = FlowHasher;

    #[inline]
    fn build_hasher(&self) -> FlowHasher {
        FlowHasher {
            state: self.secret[0],
            factor: self.secret[1],
        }
    }
}

/// See [`Keyed`].
struct FlowHasher {
    state: u64,
    factor: u64,
}

impl Hasher for FlowHasher {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        // The next word meets a factor of its own.
        self.factor = self.factor.rotate_left(23) | 1;
        self.state = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        // What flows that are alike differ in stands where the last product left it,
        // and the table takes bits from both ends.
        let mixed = (self.state ^ self.state >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: TimeWait,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// When that is to be looked at.
    pub(crate) alarm: Alarm,
}

/// What a flow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The socket of this key.
    Socket(u32),
    /// A record in TIME-WAIT.
    TimeWait,
}

/// A bound port: its users, each with the address it is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    address: IpAddr,
    key: u32,
    /// SO_REUSEADDR and SO_REUSEPORT as they were when it was bound.
    reuse_address: bool,
    reuse_port: bool,
    /// IPV6_V6ONLY: the IPv6 wildcard is not IPv4's too.
    v6_only: bool,
    listening: bool,
}

impl Bound {
    /// Whether packets to `ip` may be its: of the wildcards, IPv4's is for IPv4, and
    /// IPv6's for both unless it is for IPv6 only.
    fn covers(&self, ip: IpAddr) -> bool {
        self.address == ip
            || (self.address.is_unspecified()
                && if self.address.is_ipv4() {
                    ip.is_ipv4()
                } else {
                    ip.is_ipv6() || !self.v6_only
                })
    }

    /// Whether some packet may be of both.
    fn overlaps(&self, other: &Self) -> bool {
        self.covers(other.address) || other.covers(self.address)
    }
}

/// Which options allow two sockets on one port.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reuse {
    pub(crate) address: bool,
    pub(crate) port: bool,
}

/// The bound ports of one protocol.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    bound: HashMap<u16, Vec<Bound>>,
    secret: RandomState,
}

/// First and one past the last port that is given to those who ask for none in
/// particular (Linux: net.ipv4.ip_local_port_range).
const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;

impl Ports {
    /// Binds `key` to `address`, or says that the address is in use. Linux's
    /// rules: with SO_REUSEADDR on both and neither listening, or SO_REUSEPORT
    /// on both, a port may be shared.
    pub(crate) fn bind(
        &mut self,
        address: SocketAddr,
        key: u32,
        reuse: Reuse,
        v6_only: bool,
    ) -> bool {
        let users = self.bound.entry(address.port()).or_default();
        let new = Bound {
            address: address.ip(),
            key,
            reuse_address: reuse.address,
            reuse_port: reuse.port,
            v6_only,
            listening: false,
        };
        let allowed = |b: &Bound| {
            (b.reuse_port && reuse.port) || (b.reuse_address && reuse.address && !b.listening)
        };
        if users
            .iter()
            .any(|b| b.key != key && b.overlaps(&new) && !allowed(b))
        {
            return false;
        }
        users.retain(|b| b.key != key);
        users.push(new);
        true
    }

    /// Marks `key` as listening; `false` if another listens there already and
    /// they may not share the port.
    pub(crate) fn listen(&mut self, address: SocketAddr, key: u32) -> bool {
        let Some(users) = self.bound.get_mut(&address.port()) else {
            return false;
        };
        let Some(me) = users.iter().find(|b| b.key == key).copied() else {
            return false;
        };
        let clashes = |b: &Bound| {
            b.key != key && b.listening && !(b.reuse_port && me.reuse_port) && b.overlaps(&me)
        };
        if users.iter().any(clashes) {
            return false;
        }
        users
            .iter_mut()
            .filter(|b| b.key == key)
            .for_each(|b| b.listening = true);
        true
    }

    /// Gives the port back.
    pub(crate) fn release(&mut self, port: u16, key: u32) {
        if let Some(users) = self.bound.get_mut(&port) {
            users.retain(|b| b.key != key);
            if users.is_empty() {
                self.bound.remove(&port);
            }
        }
    }

    /// Whether nobody has this port.
    pub(crate) fn is_free(&self, port: u16) -> bool {
        !self.bound.contains_key(&port)
    }

    /// A free port for `seed` (RFC 6056 section 3.3.3: a keyed hash of what the
    /// connection is, and onwards from there).
    pub(crate) fn pick(
        &self,
        seed: impl std::hash::Hash,
        usable: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let count = EPHEMERAL.end - EPHEMERAL.start;
        let start = (self.secret.hash_one(seed) % u64::from(count)) as u16;
        (0..count)
            .map(|i| {
                EPHEMERAL.start + ((u32::from(start) + u32::from(i)) % u32::from(count)) as u16
            })
            .find(|port| usable(*port))
    }

    /// The listener or datagram socket at `local`: the most specific address,
    /// then, among those that share it, one chosen by `spread`.
    pub(crate) fn find(&self, local: SocketAddr, listening: bool, spread: u64) -> Option<u32> {
        let users = self.bound.get(&local.port())?;
        let best = |matches: &dyn Fn(&Bound) -> bool| {
            let fit = |b: &&Bound| b.listening == listening && matches(b);
            let count = users.iter().filter(fit).count() as u64;
            let chosen = if count > 1 {
                (spread % count) as usize
            } else {
                0
            };
            users.iter().filter(fit).nth(chosen).map(|b| b.key)
        };
        let own_wildcard =
            |b: &Bound| b.covers(local.ip()) && b.address.is_ipv4() == local.is_ipv4();
        best(&|b| b.address == local.ip())
            .or_else(|| best(&own_wildcard))
            .or_else(|| best(&|b| b.covers(local.ip())))
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Demux {
    flows: HashMap<Flow, u32, Keyed>,
    waiting: HashMap<Flow, Waiting, Keyed>,
    last: Option<(Flow, u32)>,
    /// The last one too, as it stands in its segments, with its key.
    last4: (Flow4, u32),
    secret: RandomState,
    /// TCP ports.
    pub(crate) tcp: Ports,
    /// UDP ports.
    pub(crate) udp: Ports,
    /// Segments whose connection was not that of the one before.
    pub(crate) cache_misses: u64,
}

/// In [`Demux::last4`], beside the flow that no segment of a connection has: no socket
/// has this key.
const NO_KEY: u32 = u32::MAX;

impl Demux {
    pub(crate) fn new() -> Self {
        Self {
            flows: HashMap::with_hasher(Keyed::new()),
            waiting: HashMap::with_hasher(Keyed::new()),
            last: None,
            last4: (Flow4::default(), NO_KEY),
            secret: RandomState::new(),
            tcp: Ports::default(),
            udp: Ports::default(),
            cache_misses: 0,
        }
    }

    /// The key of the last connection found, if it is of this flow.
    #[inline(always)]
    pub(crate) fn last4(&self, flow: &Flow4) -> Option<u32> {
        (self.last4.0 == *flow).then_some(self.last4.1)
    }

    /// The key of the connection of this flow.
    pub(crate) fn find4(&mut self, flow: &Flow4) -> Option<u32> {
        let long = Flow::of(flow);
        let key = self.flows.get(&long).copied()?;
        if self.last != Some((long, key)) {
            self.cache_misses += 1;
            self.last = Some((long, key));
        }
        self.last4 = (*flow, key);
        Some(key)
    }

    /// What `flow` belongs to.
    #[inline]
    pub(crate) fn find(&mut self, flow: &Flow) -> Option<Found> {
        if let Some((last, key)) = self.last
            && last == *flow
        {
            return Some(Found::Socket(key));
        }
        self.cache_misses += 1;
        let found = self.peek(flow);
        if let Some(Found::Socket(key)) = found {
            self.last = Some((*flow, key));
        }
        found
    }

    /// The same for what is no segment of it.
    pub(crate) fn peek(&self, flow: &Flow) -> Option<Found> {
        if let Some(key) = self.flows.get(flow) {
            return Some(Found::Socket(*key));
        }
        self.waiting.contains_key(flow).then_some(Found::TimeWait)
    }

    /// Whether the four-tuple is in use.
    pub(crate) fn is_taken(&self, flow: &Flow) -> bool {
        self.flows.contains_key(flow) || self.waiting.contains_key(flow)
    }

    pub(crate) fn insert(&mut self, flow: Flow, key: u32) {
        self.flows.insert(flow, key);
    }

    pub(crate) fn remove(&mut self, flow: &Flow) {
        self.flows.remove(flow);
        if self.last.is_some_and(|(last, _)| last == *flow) {
            self.last = None;
        }
        if flow.flow4() == Some(self.last4.0) {
            self.last4 = (Flow4::default(), NO_KEY);
        }
    }

    pub(crate) fn wait(&mut self, flow: Flow, waiting: Waiting) {
        self.waiting.insert(flow, waiting);
    }

    pub(crate) fn waiting(&mut self, flow: &Flow) -> Option<&mut Waiting> {
        self.waiting.get_mut(flow)
    }

    pub(crate) fn end_wait(&mut self, flow: &Flow) {
        self.waiting.remove(flow);
    }

    /// How many connections are in TIME-WAIT.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The connections in TIME-WAIT.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// A keyed hash, for initial sequence numbers (RFC 6528) and for spreading.
    pub(crate) fn hash(&self, what: impl std::hash::Hash) -> u64 {
        self.secret.hash_one(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn addr(s: &str) -> SocketAddr {
        s.parse().unwrap()
    }

    const BOTH: Reuse = Reuse {
        address: true,
        port: true,
    };
    const ADDRESS: Reuse = Reuse {
        address: true,
        port: false,
    };
    const NONE: Reuse = Reuse {
        address: false,
        port: false,
    };

    #[test]
    fn the_most_specific_listener_is_found() {
        let mut ports = Ports::default();
        assert!(ports.bind(addr("0.0.0.0:80"), 1, ADDRESS, false));
        assert!(ports.bind(addr("10.0.0.2:80"), 2, ADDRESS, false));
        assert!(ports.listen(addr("0.0.0.0:80"), 1));
        assert_eq!(ports.find(addr("10.0.0.2:80"), true, 0), Some(1));
        assert!(!ports.listen(addr("10.0.0.2:80"), 2));
        ports.release(80, 1);
        assert_eq!(ports.find(addr("10.0.0.2:80"), true, 0), None);
        assert!(ports.listen(addr("10.0.0.2:80"), 2));
        assert_eq!(ports.find(addr("10.0.0.2:80"), true, 0), Some(2));
    }

    #[test]
    fn a_port_in_use_is_refused_unless_both_allow_it() {
        let mut ports = Ports::default();
        assert!(ports.bind(addr("10.0.0.2:80"), 1, NONE, false));
        assert!(!ports.bind(addr("0.0.0.0:80"), 2, ADDRESS, false));
        assert!(ports.bind(addr("10.0.0.3:80"), 3, NONE, false));
        assert!(
            ports.bind(addr("10.0.0.2:81"), 4, BOTH, false)
                && ports.bind(addr("10.0.0.2:81"), 5, BOTH, false)
        );
        assert!(ports.listen(addr("10.0.0.2:81"), 4) && ports.listen(addr("10.0.0.2:81"), 5));
        let spread: Vec<_> = (0..4)
            .map(|s| ports.find(addr("10.0.0.2:81"), true, s).unwrap())
            .collect();
        assert_eq!(spread, [4, 5, 4, 5]);
    }

    #[test]
    fn the_ipv6_wildcard_is_for_both_unless_it_says_no() {
        let mut ports = Ports::default();
        assert!(ports.bind(addr("[::]:80"), 1, NONE, false));
        assert!(!ports.bind(addr("0.0.0.0:80"), 2, NONE, false));
        assert!(!ports.bind(addr("10.0.0.2:80"), 2, NONE, false));
        assert_eq!(ports.find(addr("10.0.0.2:80"), false, 0), Some(1));
        assert_eq!(ports.find(addr("[fd00::2]:80"), false, 0), Some(1));
        let mut ports = Ports::default();
        assert!(ports.bind(addr("[::]:80"), 1, NONE, true));
        assert!(ports.bind(addr("0.0.0.0:80"), 2, NONE, false));
        assert!(!ports.bind(addr("[fd00::2]:80"), 3, NONE, false));
        assert!(ports.listen(addr("[::]:80"), 1) && ports.listen(addr("0.0.0.0:80"), 2));
        assert_eq!(ports.find(addr("10.0.0.2:80"), true, 0), Some(2));
        assert_eq!(ports.find(addr("[fd00::2]:80"), true, 0), Some(1));
    }

    #[test]
    fn of_two_wildcards_the_packets_own_is_taken() {
        let mut ports = Ports::default();
        assert!(ports.bind(addr("[::]:80"), 1, ADDRESS, false));
        assert!(ports.bind(addr("0.0.0.0:80"), 2, ADDRESS, false));
        assert_eq!(ports.find(addr("10.0.0.2:80"), false, 0), Some(2));
        assert_eq!(ports.find(addr("[fd00::2]:80"), false, 0), Some(1));
        ports.release(80, 2);
        assert_eq!(ports.find(addr("10.0.0.2:80"), false, 0), Some(1));
    }

    #[test]
    fn ports_are_picked_until_none_is_left() {
        let ports = Ports::default();
        let port = ports.pick(7, |_| true).unwrap();
        assert!(EPHEMERAL.contains(&port));
        assert_eq!(ports.pick(7, |p| p == 40_000), Some(40_000));
        assert_eq!(ports.pick(7, |_| false), None);
    }

    #[test]
    fn the_last_flow_is_found_again_without_the_table() {
        let mut demux = Demux::new();
        let flow = Flow::new(addr("10.0.0.2:80"), addr("10.0.0.1:5000"));
        assert_eq!(demux.find(&flow), None);
        demux.insert(flow, 3);
        assert_eq!(demux.find(&flow), Some(Found::Socket(3)));
        assert_eq!(demux.find(&flow), Some(Found::Socket(3)));
        assert_eq!(demux.cache_misses, 2);
        demux.remove(&flow);
        assert_eq!(demux.find(&flow), None);
    }

    #[test]
    fn a_segments_flow_leads_to_its_connection() {
        let mut demux = Demux::new();
        let (local, remote) = (addr("10.0.0.2:80"), addr("10.0.0.1:5000"));
        let (l, r) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
        let (flow, segment) = (Flow::new(local, remote), Flow4::new((r, 5000), (l, 80)));
        assert_eq!(flow.flow4(), Some(segment));
        assert_eq!(demux.find4(&segment), None);
        // An empty cache is no connection's, not even that of nonsense.
        assert_eq!(demux.last4(&Flow4::default()), Some(NO_KEY));
        demux.insert(flow, 3);
        demux.insert(Flow::new(local, addr("10.0.0.1:5001")), 4);
        assert_eq!(demux.last4(&segment), None);
        assert_eq!(demux.find4(&segment), Some(3));
        assert_eq!(demux.last4(&segment), Some(3));
        assert_eq!(demux.find4(&Flow4::new((r, 5001), (l, 80))), Some(4));
        assert_eq!(demux.last4(&segment), None);
        assert_eq!(demux.find4(&segment), Some(3));
        assert_eq!(demux.cache_misses, 3);
        demux.remove(&flow);
        assert_eq!(demux.last4(&segment), None);
        assert_eq!(demux.find4(&segment), None);
    }

    /// The buckets of a table of a million get what chance would give them: flows
    /// that differ in a few bits do not meet.
    #[test]
    fn flows_that_are_alike_are_spread() {
        let local = addr("10.0.0.2:80");
        for key in 0..20u64 {
            // Keys that look like nothing, the same on every run.
            let secret = [key, !key].map(|k| {
                let product = u128::from(k ^ 0x5851_f42d_4c95_7f2d) * 0xda94_2042_e4dd_58b5;
                product as u64 ^ (product >> 64) as u64
            });
            let keyed = Keyed {
                secret: [secret[0], secret[1] | 1],
            };
            let mut buckets = vec![0u8; 1 << 16];
            for host in 0..64u8 {
                for port in 0..1024 {
                    let remote = SocketAddr::new([10, 0, 1, host].into(), 1024 + port);
                    let hash = keyed.hash_one(Flow::new(local, remote));
                    buckets[hash as usize & 0xffff] += 1;
                }
            }
            // Chance has 8 or 9 in the fullest of 65,536 buckets.
            let most = buckets.iter().max().copied().unwrap_or(0);
            assert!(most < 14, "{most} flows in a bucket");
            let used = buckets.iter().filter(|b| **b > 0).count();
            assert!((39_000..44_000).contains(&used), "{used} buckets in use");
        }
    }

    #[test]
    fn flows_of_ipv6_are_spread_too() {
        let keyed = Keyed::new();
        let hash = |local: &str, remote: &str| keyed.hash_one(Flow::new(addr(local), addr(remote)));
        let one = hash("[fd00:1::1]:80", "[fd00:2::2]:1000");
        assert_ne!(one, hash("[fd00:2::1]:80", "[fd00:1::2]:1000"));
        assert_ne!(one, hash("[fd00:1::1]:80", "[fd00:3::2]:1000"));
        assert_ne!(one, hash("[fd00:1::2]:80", "[fd00:2::2]:1000"));
    }
}
