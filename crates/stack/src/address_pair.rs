//! The two addresses of a packet to be sent, of one version of IP, and what else of its IP
//! header is chosen.
//!
//! Owns [`AddressPair`] and [`Service`]; `output` and `datagram` make them, and
//! `link::packets` builds packets of them.

use longshore_wire::{ipv4, ipv6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection's two ends, ours first.
pub(crate) type Sides = (SocketAddr, SocketAddr);

/// Bytes of IP and TCP headers without options towards `to`.
pub(crate) const fn headers_of_segment(to: IpAddr) -> usize {
    longshore_wire::tcp::HEADER_LEN
        + match to {
            IpAddr::V4(_) => ipv4::HEADER_LEN,
            IpAddr::V6(_) => ipv6::HEADER_LEN,
        }
}

/// The hop limit of what we send (RFC 1122 section 3.2.1.7; Linux's default).
pub(crate) const DEFAULT_TTL: u8 = 64;

/// What of an IP header a program may choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    /// Hops it may take.
    pub(crate) ttl: u8,
    /// DSCP and ECN.
    pub(crate) tos: u8,
    /// Whether no router may cut it (DF in IPv4).
    pub(crate) dont_fragment: bool,
}

impl Service {
    /// For what belongs to no socket.
    pub(crate) const DEFAULT: Self = Self {
        ttl: DEFAULT_TTL,
        tos: 0,
        dont_fragment: false,
    };

    /// What a program may choose for TCP: the lower two bits are the stack's
    /// (RFC 3168 section 5).
    #[inline]
    pub(crate) fn without_ecn(self) -> Self {
        Self {
            tos: self.tos & !3,
            ..self
        }
    }

    /// What it is with these ECN bits.
    #[inline]
    pub(crate) fn marked(self, ecn: u8) -> Self {
        Self {
            tos: self.tos | ecn,
            ..self
        }
    }
}

/// From which address, and to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressPair {
    V4 { from: Ipv4Addr, to: Ipv4Addr },
    V6 { from: Ipv6Addr, to: Ipv6Addr },
}

impl AddressPair {
    /// Between these two, if they are of one version; an IPv4 address in disguise is
    /// what it is.
    #[inline]
    pub(crate) fn new(from: IpAddr, to: IpAddr) -> Option<Self> {
        match (from.to_canonical(), to.to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Some(Self::V4 { from, to }),
            (IpAddr::V6(from), IpAddr::V6(to)) => Some(Self::V6 { from, to }),
            _ => None,
        }
    }

    /// From which.
    pub(crate) const fn from(&self) -> IpAddr {
        match *self {
            Self::V4 { from, .. } => IpAddr::V4(from),
            Self::V6 { from, .. } => IpAddr::V6(from),
        }
    }

    /// To which.
    pub(crate) const fn to(&self) -> IpAddr {
        match *self {
            Self::V4 { to, .. } => IpAddr::V4(to),
            Self::V6 { to, .. } => IpAddr::V6(to),
        }
    }

    /// Bytes of the IP header.
    pub(crate) const fn header_len(&self) -> usize {
        match self {
            Self::V4 { .. } => ipv4::HEADER_LEN,
            Self::V6 { .. } => ipv6::HEADER_LEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_of_one_version() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mapped = AddressPair::new(ip("10.0.0.1"), ip("::ffff:10.0.0.2"));
        assert_eq!(mapped, AddressPair::new(ip("10.0.0.1"), ip("10.0.0.2")));
        assert_eq!(mapped.map(|e| e.header_len()), Some(20));
        assert_eq!(AddressPair::new(ip("10.0.0.1"), ip("fd00::1")), None);
        let v6 = AddressPair::new(ip("fd00::1"), ip("fd00::2")).unwrap();
        assert_eq!((v6.to(), v6.header_len()), (ip("fd00::2"), 40));
    }

    /// RFC 3168 section 5: of the byte a program has the upper six bits, and the stack the others.
    #[test]
    fn a_program_has_no_say_in_ecn() {
        let all = Service {
            tos: 0xff,
            ..Service::DEFAULT
        };
        let service = all.without_ecn();
        assert_eq!(service.tos, 0xfc);
        assert_eq!(Service::DEFAULT.without_ecn().tos, 0);
        for (mark, expected) in [(0, 0xfc), (1, 0xfd), (2, 0xfe), (3, 0xff)] {
            assert_eq!(service.marked(mark).tos, expected);
            assert_eq!(service.marked(mark).marked(mark).tos, expected);
        }
    }
}
