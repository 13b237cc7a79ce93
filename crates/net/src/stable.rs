//! Interface identifiers that reveal nothing about the hardware and are stable within one
//! network (RFC 7217).
//!
//! Owns [`Identifiers`], the secret from which they are derived.
//! [`router`](crate::router) generates addresses with it.

use core::net::Ipv6Addr;
use sha2::{Digest, Sha256};

/// The inputs of the identifiers.
#[derive(Clone)]
pub struct Identifiers {
    secret: [u8; 32],
    interface: Vec<u8>,
}

impl core::fmt::Debug for Identifiers {
    /// Without the secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Identifiers").finish_non_exhaustive()
    }
}

impl Identifiers {
    /// From this machine's secret and the interface's name (RFC 7217's Net_Iface), which
    /// must be the same each time.
    #[must_use]
    pub fn new(secret: [u8; 32], interface: &[u8]) -> Self {
        Self {
            secret,
            interface: interface.to_vec(),
        }
    }

    /// An address with the first 64 bits of `prefix`; always the same for each `attempt`.
    #[must_use]
    pub fn address(&self, prefix: Ipv6Addr, attempt: u8) -> Ipv6Addr {
        const NETWORK: u128 = !(u64::MAX as u128);
        let network = prefix.to_bits() & NETWORK;
        let identifier = (0..=u8::MAX)
            .map(|round| self.identifier(network, attempt, round))
            .find(|id| !is_reserved(*id))
            .unwrap_or(1);
        Ipv6Addr::from_bits(network | u128::from(identifier))
    }

    /// The hash of RFC 7217 section 5; `round` counts reserved identifiers that were
    /// skipped.
    fn identifier(&self, network: u128, attempt: u8, round: u8) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(network.to_be_bytes());
        hash.update([attempt, round]);
        hash.update(&self.interface);
        let digest = hash.finalize();
        let first = digest.iter().take(8);
        first.fold(0, |id, byte| id << 8 | u64::from(*byte))
    }
}

/// Whether an identifier is reserved (RFC 5453).
const fn is_reserved(identifier: u64) -> bool {
    matches!(
        identifier,
        0 | 0x0200_5eff_fe00_0000..=0x0200_5eff_feff_ffff
            | 0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_depends_on_all_and_on_nothing_else() {
        let make = |secret: u8, name: &str, prefix: u16, attempt| {
            let ids = Identifiers::new([secret; 32], name.as_bytes());
            ids.address(Ipv6Addr::new(prefix, 0, 0, 1, 9, 9, 9, 9), attempt)
        };
        let one = make(1, "eth0", 0xfd00, 0);
        assert_eq!(one.segments()[..4], [0xfd00, 0, 0, 1]);
        assert_eq!(one, make(1, "eth0", 0xfd00, 0));
        for other in [
            make(2, "eth0", 0xfd00, 0),
            make(1, "eth1", 0xfd00, 0),
            make(1, "eth0", 0xfd01, 0),
            make(1, "eth0", 0xfd00, 1),
        ] {
            assert_ne!(other.segments()[4..], one.segments()[4..]);
        }
    }

    #[test]
    fn reserved_identifiers_are_known() {
        for id in [0, 0x0200_5eff_fe00_5213, 0xfdff_ffff_ffff_fffe] {
            assert!(is_reserved(id), "{id:x}");
        }
        assert!(!is_reserved(1) && !is_reserved(0xfdff_ffff_ffff_ff7f));
    }

    /// RFC 7217 section 5: the leading bits of a hash of secret, prefix, attempt and interface.
    #[test]
    fn an_identifier_is_the_beginning_of_the_hash() {
        let ids = Identifiers::new([7; 32], b"eth0");
        let prefix: Ipv6Addr = "fd00:1:2:3::".parse().unwrap();
        for attempt in 0..3 {
            let mut input = vec![7; 32];
            input.extend(prefix.octets());
            input.extend([attempt, 0]);
            input.extend(b"eth0");
            let hash = Sha256::digest(&input);
            let address = ids.address(prefix, attempt).octets();
            assert_eq!(address[..8], prefix.octets()[..8]);
            assert_eq!(address[8..], hash[..8]);
        }
    }
}
