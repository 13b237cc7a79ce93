//! IPv6 headers (RFC 8200).
//!
//! [`Ipv6Header`] is the fixed header; [`walk`] processes the extension headers after it.

use crate::bytes::{array, get16, get32, put, put16, put32};
use crate::{MacAddr, WireError};
use core::net::Ipv6Addr;
use core::ops::Range;

mod extension;

pub use extension::{
    FRAGMENT_LEN, FragmentHeader, MAX_EXTENSIONS, Refusal, Upper, following, walk,
};

/// The MTU that every link supports (RFC 8200 section 5), in bytes.
pub const MIN_MTU: usize = 1280;
/// Length of the fixed header, bytes.
pub const HEADER_LEN: usize = 40;

/// Values of the next header field, in addition to those that IPv4 shares.
pub mod next_header {
    /// Options for every router on the way.
    pub const HOP_BY_HOP: u8 = 0;
    /// Routing.
    pub const ROUTING: u8 = 43;
    /// A fragment.
    pub const FRAGMENT: u8 = 44;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// No next header.
    pub const NONE: u8 = 59;
    /// Options for the destination.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// A fixed header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; only its 20 bits are sent (RFC 6437).
    pub flow_label: u32,
    /// Bytes after the header, extension headers included.
    pub payload_len: u16,
    /// The type of the next header.
    pub next_header: u8,
    /// Remaining hops.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// Parses a header and returns the range of its payload in `bytes`. Bytes beyond the
    /// packet's end (padding of a short frame) are ignored. Jumbograms (RFC 2675) are not
    /// supported.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadVersion`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, Range<usize>), WireError> {
        let header = Self::parse_quoted(bytes)?;
        let end = HEADER_LEN + usize::from(header.payload_len);
        if end > bytes.len() {
            return Err(WireError::Truncated);
        }
        Ok((header, HEADER_LEN..end))
    }

    /// Parses the header of an incomplete packet, as quoted in an ICMPv6 error.
    ///
    /// # Errors
    /// [`WireError::Truncated`], [`WireError::BadVersion`].
    #[inline]
    pub fn parse_quoted(bytes: &[u8]) -> Result<Self, WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let first = get32(b, 0);
        if first >> 28 != 6 {
            return Err(WireError::BadVersion);
        }
        let address = |at: usize| Ipv6Addr::from(array::<16>(b, at));
        Ok(Self {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            payload_len: get16(b, 4),
            next_header: b[6],
            hop_limit: b[7],
            source: address(8),
            destination: address(24),
        })
    }

    /// The two ECN bits (RFC 3168 section 5).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }

    /// Writes the header; returns its length. `bytes` must not be shorter.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        put32(bytes, 0, first);
        put16(bytes, 4, self.payload_len);
        put(bytes, 6, [self.next_header, self.hop_limit]);
        put(bytes, 8, self.source.octets());
        put(bytes, 24, self.destination.octets());
        HEADER_LEN
    }
}

/// The link-local address derived from a hardware address (RFC 4291 section 2.5.6 and
/// appendix A).
#[must_use]
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    let m = mac.0;
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        u16::from_be_bytes([m[0] ^ 2, m[1]]),
        u16::from_be_bytes([m[2], 0xff]),
        u16::from_be_bytes([0xfe, m[3]]),
        u16::from_be_bytes([m[4], m[5]]),
    )
}

/// All nodes of the link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The solicited-node group of `ip` (RFC 4291 section 2.7.1).
#[must_use]
pub const fn solicited_node(ip: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | ip.to_bits() & 0xff_ffff)
}

#[cfg(test)]
mod tests;
