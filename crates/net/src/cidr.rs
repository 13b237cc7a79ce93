//! An address and the length of its network's prefix, as in `10.0.0.1/24`.
//!
//! Owns [`Cidr`], by which addresses and routes are configured everywhere.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::str::FromStr;

/// An address and its network. Bits behind the prefix may be set: `10.0.0.1/24`
/// is a host in its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that are the network's, 0 to 32 or 128. A larger number counts as
    /// all.
    pub prefix_len: u8,
}

impl Cidr {
    /// Checks the length.
    ///
    /// # Errors
    /// [`CidrError::Length`] if it is longer than the address.
    pub const fn new(address: IpAddr, prefix_len: u8) -> Result<Self, CidrError> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        if prefix_len > most {
            return Err(CidrError::Length { most });
        }
        Ok(Self {
            address,
            prefix_len,
        })
    }

    /// The network's address: all bits behind the prefix are zero.
    #[must_use]
    pub const fn network(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(a) => IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & mask32(self.prefix_len))),
            IpAddr::V6(a) => IpAddr::V6(core::net::Ipv6Addr::from_bits(
                a.to_bits() & mask128(self.prefix_len),
            )),
        }
    }

    /// Whether `ip` lies in the network.
    #[must_use]
    pub const fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()) & mask32(self.prefix_len) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()) & mask128(self.prefix_len) == 0
            }
            _ => false,
        }
    }

    /// The IPv4 network's directed broadcast address. `None` in IPv6, and with a prefix
    /// of 31 (RFC 3021) or 32 bits.
    #[must_use]
    pub const fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(a) if self.prefix_len < 31 => {
                Some(Ipv4Addr::from_bits(a.to_bits() | !mask32(self.prefix_len)))
            }
            _ => None,
        }
    }
}

const fn mask32(len: u8) -> u32 {
    match u32::MAX.checked_shl(32u32.saturating_sub(len as u32)) {
        Some(mask) => mask,
        None => 0,
    }
}

const fn mask128(len: u8) -> u128 {
    match u128::MAX.checked_shl(128u32.saturating_sub(len as u32)) {
        Some(mask) => mask,
        None => 0,
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// Why a text is not a valid [`Cidr`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CidrError {
    /// It has no slash.
    NoLength,
    /// The text before the slash is not an address.
    Address,
    /// The text after the slash is not a number from 0 to the address's length.
    Length {
        /// How many bits the address has.
        most: u8,
    },
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLength => f.write_str("no prefix length: write ADDRESS/LENGTH"),
            Self::Address => f.write_str("no IP address before the slash"),
            Self::Length { most } => write!(f, "the prefix length must be 0 to {most}"),
        }
    }
}

impl core::error::Error for CidrError {}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, len) = text.split_once('/').ok_or(CidrError::NoLength)?;
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        // `u8::from_str` would take a sign.
        if !len.bytes().all(|b| b.is_ascii_digit()) {
            return Err(CidrError::Length { most });
        }
        let len = len.parse().map_err(|_| CidrError::Length { most })?;
        Self::new(address, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks() {
        assert_eq!(cidr("10.1.2.3/16").network(), IpAddr::from([10, 1, 0, 0]));
        assert_eq!(cidr("10.1.2.3/0").network(), IpAddr::from([0, 0, 0, 0]));
        assert_eq!(cidr("10.1.2.3/32").network(), IpAddr::from([10, 1, 2, 3]));
        assert_eq!(
            cidr("fd00::1:2:3/64").network(),
            "fd00::".parse::<IpAddr>().unwrap()
        );
        assert_eq!(
            cidr("10.1.2.3/20").broadcast(),
            Some(Ipv4Addr::new(10, 1, 15, 255))
        );
        assert_eq!(cidr("10.1.2.3/31").broadcast(), None);
        assert_eq!(cidr("fd00::1/64").broadcast(), None);
        assert!(!cidr("0.0.0.0/0").contains("::1".parse().unwrap()));
    }

    #[test]
    fn what_is_none() {
        for (text, error) in [
            ("10.0.0.1", CidrError::NoLength),
            ("10.0.0/8", CidrError::Address),
            ("10.0.0.1/33", CidrError::Length { most: 32 }),
            ("10.0.0.1/+8", CidrError::Length { most: 32 }),
            ("10.0.0.1/", CidrError::Length { most: 32 }),
            ("::1/129", CidrError::Length { most: 128 }),
            ("::1/256", CidrError::Length { most: 128 }),
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_come_back(v6: bool, bits: u128, len: u8) {
            let address: IpAddr = if v6 {
                core::net::Ipv6Addr::from_bits(bits).into()
            } else {
                Ipv4Addr::from_bits(bits as u32).into()
            };
            let most = if v6 { 128 } else { 32 };
            let c = Cidr { address, prefix_len: len % (most + 1) };
            prop_assert_eq!(c.to_string().parse(), Ok(c));
            prop_assert!(c.contains(address) && c.contains(c.network()));
        }

        #[test]
        fn membership_is_a_common_prefix(a: u32, b: u32, len in 0u8..=32) {
            let c = Cidr { address: Ipv4Addr::from_bits(a).into(), prefix_len: len };
            let expected = (a ^ b).leading_zeros() >= u32::from(len);
            prop_assert_eq!(c.contains(Ipv4Addr::from_bits(b).into()), expected);
        }

        #[test]
        fn illegal_lengths_do_not_panic(a: u32, len: u8) {
            let c = Cidr { address: Ipv4Addr::from_bits(a).into(), prefix_len: len };
            prop_assert!(c.contains(c.network()));
            let _ = c.broadcast();
        }
    }
}
