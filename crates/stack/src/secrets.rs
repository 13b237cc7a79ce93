//! What nobody outside may know or guess: the keys of initial sequence numbers, cookies,
//! ports, tables and identifications.
//!
//! Owns [`Secrets`], one key of a stack, and [`KeyedHash`], what is derived of it for one
//! purpose. The engine takes the key from the kernel; a test gives a number, so that a
//! stack does the same again.

use core::fmt;
use siphasher::sip::SipHasher13;
use std::hash::{BuildHasher, Hasher};

/// The key of a stack's secrets. Two stacks with the same one that are told the same do the
/// same.
#[derive(Clone, Copy)]
pub struct Secrets([u8; 16]);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// What a secret is for. What one of them gives away says nothing of the others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Sequence numbers, timestamps, cookies, ports of connections, spreading.
    Connections,
    /// Places in the table of connections over IPv4.
    Table4,
    /// And over IPv6.
    Table6,
    /// And of those in TIME-WAIT.
    TimeWaits,
    TcpPorts,
    UdpPorts,
    /// When reports of groups of IPv4 are made.
    Groups4,
    /// And of IPv6.
    Groups6,
    /// When our own addresses of IPv6 are asked for.
    AddressDelay,
    /// The identification of the first fragment over IPv6 (RFC 7739).
    Identification6,
    /// Transactions and delays of the DHCP client.
    Dhcp,
    /// Delays of what is asked of routers.
    Routers,
    /// The identification of the first packet of IPv4 that may be fragmented.
    Identification4,
}

impl Secrets {
    /// With a key of which nobody else knows anything.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// With a key that everybody can know, for what is to be done again in the same way.
    #[cfg(any(test, feature = "bench"))]
    pub const fn from_seed(seed: u64) -> Self {
        Self((seed as u128).to_le_bytes())
    }

    /// A number for one purpose.
    pub(crate) fn number(&self, purpose: Purpose) -> u64 {
        self.derive(purpose, 0)
    }

    /// A hash for one purpose.
    pub(crate) fn keyed(&self, purpose: Purpose) -> KeyedHash {
        let (one, two) = (self.derive(purpose, 1), self.derive(purpose, 2));
        KeyedHash(SipHasher13::new_with_keys(one, two))
    }

    fn derive(&self, purpose: Purpose, part: u8) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&[purpose as u8, part]);
        hasher.finish()
    }
}

/// A hash with a secret key (SipHash-1-3), of which what it gives for one thing says nothing
/// of what it gives for another.
#[derive(Clone)]
pub(crate) struct KeyedHash(SipHasher13);

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash(..)")
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_purposes_are_told_apart_and_a_seed_repeats() {
        let (one, other) = (Secrets::from_seed(1), Secrets::from_seed(2));
        let hash = |s: &Secrets, purpose| s.keyed(purpose).hash_one("what");
        let first = hash(&one, Purpose::Connections);
        assert_eq!(first, hash(&Secrets::from_seed(1), Purpose::Connections));
        assert_ne!(first, hash(&other, Purpose::Connections));
        assert_ne!(first, hash(&one, Purpose::UdpPorts));
        assert_ne!(one.number(Purpose::Dhcp), one.number(Purpose::Routers));
        assert_ne!(one.number(Purpose::Dhcp), other.number(Purpose::Dhcp));
    }

    #[test]
    fn keys_are_not_printed() {
        let secrets = Secrets::from_seed(0x5ec2_e7c0_de00_1234);
        let printed = format!("{secrets:?} {:?}", secrets.keyed(Purpose::Table4));
        assert_eq!(printed, "Secrets(..) KeyedHash(..)");
    }
}
