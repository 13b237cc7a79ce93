//! Ethernet II frames (IEEE 802.3, RFC 894).

use crate::WireError;
use crate::bytes::{array, get16, put, put16};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Length of the header, bytes.
pub const HEADER_LEN: usize = 14;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// The hardware address of an IPv6 group (RFC 2464 section 7).
    #[must_use]
    pub const fn of_group(group: Ipv6Addr) -> Self {
        let o = group.octets();
        Self([0x33, 0x33, o[12], o[13], o[14], o[15]])
    }

    /// The hardware address of an IPv4 group (RFC 1112 section 6.4).
    #[must_use]
    pub const fn of_group_v4(group: Ipv4Addr) -> Self {
        let o = group.octets();
        Self([1, 0, 0x5e, o[1] & 0x7f, o[2], o[3]])
    }

    /// Whether it is the address of one station.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = self.0;
        write!(
            f,
            "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
            m[0], m[1], m[2], m[3], m[4], m[5]
        )
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The protocol of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EtherType {
    /// IPv4.
    Ipv4,
    /// ARP.
    Arp,
    /// IPv6.
    Ipv6,
    /// Another protocol.
    Other(u16),
}

impl From<u16> for EtherType {
    fn from(raw: u16) -> Self {
        match raw {
            0x0800 => Self::Ipv4,
            0x0806 => Self::Arp,
            0x86dd => Self::Ipv6,
            other => Self::Other(other),
        }
    }
}

impl From<EtherType> for u16 {
    fn from(t: EtherType) -> Self {
        match t {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86dd,
            EtherType::Other(raw) => raw,
        }
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// The protocol of the payload.
    pub ether_type: EtherType,
}

impl EthernetHeader {
    /// Parses a header; the payload follows after [`HEADER_LEN`] bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        Ok(Self {
            destination: MacAddr([b[0], b[1], b[2], b[3], b[4], b[5]]),
            source: MacAddr([b[6], b[7], b[8], b[9], b[10], b[11]]),
            ether_type: EtherType::from(get16(b, 12)),
        })
    }

    /// Writes the header; returns its length. `bytes` must not be shorter.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        put(bytes, 0, self.destination.0);
        put(bytes, 6, self.source.0);
        put16(bytes, 12, self.ether_type.into());
        HEADER_LEN
    }
}

/// A station and a protocol, prepared for comparison with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The address, shifted to the end of eight bytes.
    station: u64,
    ether_type: [u8; 2],
}

impl Wanted {
    /// Matches frames to `station` alone with the protocol `what`.
    #[must_use]
    pub fn new(station: MacAddr, what: EtherType) -> Self {
        let [a, b, c, d, e, f] = station.0;
        Self {
            station: u64::from_le_bytes([0, 0, a, b, c, d, e, f]),
            ether_type: u16::from(what).to_be_bytes(),
        }
    }

    /// Whether a frame matches; only its header is read.
    #[inline]
    #[must_use]
    pub fn is(&self, header: &[u8; HEADER_LEN]) -> bool {
        let station = u64::from_le_bytes(array(header, 0)) << 16;
        station == self.station && array(header, 12) == self.ether_type
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn groups_have_their_stations() {
        let group = crate::ipv6::solicited_node("fd00::1:2:abcd:1234".parse().unwrap());
        let mac = MacAddr::of_group(group);
        assert_eq!(mac.to_string(), "33:33:ff:cd:12:34");
        assert!(!mac.is_unicast());
        let mac = MacAddr::of_group_v4(Ipv4Addr::new(239, 129, 2, 3));
        assert_eq!(mac.to_string(), "01:00:5e:01:02:03");
        assert!(!mac.is_unicast());
    }

    /// IEEE 802: the lowest bit of the first byte, alone.
    #[test]
    fn a_bit_tells_a_station_from_a_group() {
        for first in 0..=u8::MAX {
            let mac = MacAddr([first, 0xff, 0xff, 0xff, 0xff, 0xff]);
            assert_eq!(mac.is_unicast(), first.is_multiple_of(2), "{mac}");
        }
    }

    proptest! {
        #[test]
        fn comes_back(d: [u8; 6], s: [u8; 6], t: u16) {
            let h = EthernetHeader { destination: MacAddr(d), source: MacAddr(s), ether_type: t.into() };
            let mut bytes = [0; HEADER_LEN];
            h.emit(&mut bytes);
            prop_assert_eq!(EthernetHeader::parse(&bytes), Ok(h));
            prop_assert!(Wanted::new(h.destination, h.ether_type).is(&bytes));
            prop_assert!(!Wanted::new(h.destination, EtherType::Other(!t)).is(&bytes));
            let mut other = h.destination;
            other.0[usize::from(s[0]) % 6] ^= 1 << (s[1] & 7);
            prop_assert!(!Wanted::new(other, h.ether_type).is(&bytes));
            prop_assert_eq!(EthernetHeader::parse(&bytes[..13]), Err(WireError::Truncated));
        }
    }
}
