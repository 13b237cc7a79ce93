//! What a connection is called, and the hash that finds it.

use crate::bytes::put;
use crate::secrets::{KeyedHash, Purpose, Secrets};
use longshore_wire::tcp4::Flow4;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection's four-tuple, IPv4 addresses as they are mapped into IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    remote: u128,
    local: u128,
    ports: u32,
}

/// An address, one of IPv4 as it is mapped into IPv6.
pub(super) fn bits(ip: IpAddr) -> u128 {
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

    /// Where it goes, and from which of our addresses: all but its local port.
    pub(super) fn destination(&self) -> (u128, u128, u16) {
        (self.remote, self.local, self.ports as u16)
    }

    pub(super) fn local_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// Its two ends, ours first.
    pub(crate) fn sides(&self) -> (SocketAddr, SocketAddr) {
        let ip = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical();
        (
            SocketAddr::new(ip(self.local), self.local_port()),
            SocketAddr::new(ip(self.remote), self.ports as u16),
        )
    }

    /// What segments of it have in their headers, if it is of IPv4.
    pub(super) fn flow4(&self) -> Option<Flow4> {
        let v4 = |ip: u128| (ip >> 32 == 0xffff).then_some(Ipv4Addr::from_bits(ip as u32));
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
/// made by [`KeyedHash`].
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    pub(super) secret: [u64; 2],
}

impl Keyed {
    pub(super) fn new(secrets: &Secrets, purpose: Purpose) -> Self {
        Self::of(&secrets.keyed(purpose))
    }

    /// As secret as `keyed`.
    pub(super) fn of(keyed: &KeyedHash) -> Self {
        Self {
            secret: [keyed.hash_one(1), keyed.hash_one(2) | 1],
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
pub(crate) struct FlowHasher {
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

    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    #[inline]
    fn write_u128(&mut self, word: u128) {
        self.write_u64(word as u64);
        self.write_u64((word >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            put(&mut word, 0, chunk);
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
