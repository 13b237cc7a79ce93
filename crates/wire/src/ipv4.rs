//! IPv4 headers (RFC 791).

use crate::WireError;
use crate::bytes::{front, get16, put16};
use crate::checksum::Partial;
use core::net::Ipv4Addr;
use core::ops::Range;

/// Length of a header without options, the only kind that is sent, bytes.
pub const HEADER_LEN: usize = 20;

/// Stands for the length of a payload that makes a packet longer than 65,535 bytes. The total
/// length of such a packet is 0; only a kernel takes it that is known to (BIG TCP).
const BEYOND: u16 = u16::MAX - HEADER_LEN as u16 + 1;

/// The length of a payload as the header of its packet has it: up to 65,515 bytes, and one
/// value for all that are longer.
#[inline]
#[must_use]
pub fn payload_len(bytes: usize) -> u16 {
    u16::try_from(bytes).map_or(BEYOND, |len| len.min(BEYOND))
}

/// Protocol numbers.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
}

/// A header. Options are skipped on input and never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Header {
    /// DSCP and ECN.
    pub tos: u8,
    /// Bytes that follow the header, as [`payload_len`] has them.
    pub payload_len: u16,
    /// Identifies the datagram that a fragment belongs to.
    pub identification: u16,
    /// The packet must not be fragmented.
    pub dont_fragment: bool,
    /// More fragments follow.
    pub more_fragments: bool,
    /// Offset of the fragment, in bytes (a multiple of 8).
    pub fragment_offset: u16,
    /// Remaining hops.
    pub ttl: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// Parses a header and returns the range of its payload in `bytes`. Bytes beyond the
    /// packet's end (padding of a short frame) are ignored.
    ///
    /// # Errors
    /// [`WireError`] if it is not a valid IPv4 packet by RFC 1122 section 3.2.1: wrong
    /// version, length or checksum.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, Range<usize>), WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let (header_len, total) = Self::lengths(b)?;
        if total > bytes.len() {
            return Err(WireError::Truncated);
        }
        if Partial::of(front(bytes, header_len)).finish() != 0 {
            return Err(WireError::BadChecksum);
        }
        Ok((Self::read(b, total - header_len), header_len..total))
    }

    /// Parses the header of a packet quoted in an ICMP error; returns its length with
    /// options. The quoted payload may be incomplete, and routers may have changed the
    /// header after computing its checksum, so neither is checked.
    ///
    /// # Errors
    /// [`WireError`] if the header is incomplete or inconsistent.
    pub fn parse_quoted(bytes: &[u8]) -> Result<(Self, usize), WireError> {
        let b: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(WireError::Truncated)?;
        let (header_len, total) = Self::lengths(b)?;
        if header_len > bytes.len() {
            return Err(WireError::Truncated);
        }
        Ok((Self::read(b, total - header_len), header_len))
    }

    /// The header's length and the packet's.
    #[inline]
    fn lengths(b: &[u8; HEADER_LEN]) -> Result<(usize, usize), WireError> {
        if b[0] >> 4 != 4 {
            return Err(WireError::BadVersion);
        }
        let header_len = usize::from(b[0] & 15) * 4;
        let total = usize::from(get16(b, 2));
        if header_len < HEADER_LEN || total < header_len {
            return Err(WireError::BadLength);
        }
        Ok((header_len, total))
    }

    #[inline]
    fn read(b: &[u8; HEADER_LEN], payload_len: usize) -> Self {
        let fragment = get16(b, 6);
        Self {
            tos: b[1],
            payload_len: payload_len as u16,
            identification: get16(b, 4),
            dont_fragment: fragment & 0x4000 != 0,
            more_fragments: fragment & 0x2000 != 0,
            fragment_offset: (fragment & 0x1fff) * 8,
            ttl: b[8],
            protocol: b[9],
            source: Ipv4Addr::new(b[12], b[13], b[14], b[15]),
            destination: Ipv4Addr::new(b[16], b[17], b[18], b[19]),
        }
    }

    /// The two ECN bits (RFC 3168 section 5).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// The DSCP (RFC 2474).
    #[must_use]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Whether it is a fragment of a datagram.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Writes the header with its checksum; returns its length. Panics if `bytes` is
    /// shorter than that, and in debug builds if the length of the payload is none that
    /// [`payload_len`] gives.
    #[inline]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        debug_assert!(self.payload_len <= BEYOND);
        let b: &mut [u8; HEADER_LEN] = bytes.first_chunk_mut().expect("room for a header");
        b[0] = 0x45;
        b[1] = self.tos;
        put16(b, 2, (HEADER_LEN as u16).wrapping_add(self.payload_len));
        put16(b, 4, self.identification);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        put16(b, 6, flags | (self.fragment_offset / 8));
        b[8] = self.ttl;
        b[9] = self.protocol;
        put16(b, 10, 0);
        b[12..16].copy_from_slice(&self.source.octets());
        b[16..20].copy_from_slice(&self.destination.octets());
        let sum = Partial::of(b).finish();
        put16(b, 10, sum);
        HEADER_LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn options_are_skipped() {
        let mut bytes = [0; 30];
        bytes[..20].copy_from_slice(&[
            0x46, 0xb9, 0, 30, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        bytes[20..24].copy_from_slice(&[148, 4, 0, 0]);
        let sum = Partial::of(&bytes[..24]).finish();
        put16(&mut bytes, 10, sum);
        let (header, payload) = Ipv4Header::parse(&bytes).unwrap();
        assert_eq!((payload, header.payload_len), (24..30, 6));
        assert_eq!((header.dscp(), header.ecn()), (46, 1));
        assert!(header.dont_fragment && !header.is_fragment());
    }

    /// RFC 791: the first has more after it, the last an offset, those between both.
    #[test]
    fn a_fragment_has_others_before_or_after_it() {
        for (fragment, is_fragment) in [
            (0x4000, false),
            (0, false),
            (0x2000, true),
            (1, true),
            (0x2001, true),
        ] {
            let mut bytes = [0; HEADER_LEN];
            bytes[0] = 0x45;
            bytes[3] = HEADER_LEN as u8;
            put16(&mut bytes, 6, fragment);
            let (header, _) = Ipv4Header::parse_quoted(&bytes).unwrap();
            assert_eq!(header.is_fragment(), is_fragment, "{fragment:#x}");
        }
    }

    #[test]
    fn a_packet_that_is_too_long_for_its_header_has_no_length() {
        let mut bytes = [0; HEADER_LEN];
        let mut header = Ipv4Header {
            tos: 0,
            payload_len: payload_len(300_000),
            identification: 7,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: protocol::TCP,
            source: Ipv4Addr::LOCALHOST,
            destination: Ipv4Addr::LOCALHOST,
        };
        header.emit(&mut bytes);
        assert_eq!(get16(&bytes, 2), 0);
        assert_eq!(Partial::of(&bytes).finish(), 0);
        // As others see it, it is none.
        assert_eq!(Ipv4Header::parse(&bytes), Err(WireError::BadLength));
        assert_eq!(payload_len(65_516), header.payload_len);
        header.payload_len = payload_len(65_515);
        header.emit(&mut bytes);
        assert_eq!(get16(&bytes, 2), u16::MAX);
    }

    fn header() -> impl Strategy<Value = Ipv4Header> {
        (
            any::<(u8, u16, bool, bool, u8, u8)>(),
            0u16..8192,
            0u16..1000,
            any::<([u8; 4], [u8; 4])>(),
        )
            .prop_map(
                |(
                    (tos, identification, dont_fragment, more_fragments, ttl, protocol),
                    offset,
                    payload_len,
                    (s, d),
                )| {
                    Ipv4Header {
                        tos,
                        payload_len,
                        identification,
                        dont_fragment,
                        more_fragments,
                        fragment_offset: offset * 8,
                        ttl,
                        protocol,
                        source: s.into(),
                        destination: d.into(),
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn comes_back(h in header(), padding in 0usize..10) {
            let len = HEADER_LEN + usize::from(h.payload_len);
            let mut bytes = vec![0xee; len + padding];
            h.emit(&mut bytes);
            prop_assert_eq!(Ipv4Header::parse(&bytes), Ok((h, HEADER_LEN..len)));
            let whole = !h.more_fragments && h.fragment_offset == 0;
            prop_assert_eq!(h.is_fragment(), !whole);
        }

        #[test]
        fn a_flipped_bit_is_seen(h in header(), bit in 0usize..160) {
            let mut bytes = vec![0; HEADER_LEN + usize::from(h.payload_len)];
            h.emit(&mut bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Ipv4Header::parse(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Ipv4Header::parse(&bytes);
            let _ = Ipv4Header::parse_quoted(&bytes);
        }

        /// Changed and cut packets whose checksum is right again.
        #[test]
        fn changed_packets_are_survived(h in header(), at in 0usize..20, value: u8, cut in 0usize..80) {
            let mut bytes = vec![0; 60.max(HEADER_LEN + usize::from(h.payload_len))];
            h.emit(&mut bytes);
            bytes[at] = value;
            bytes[10..12].fill(0);
            let len = usize::from(bytes[0] & 15) * 4;
            let sum = Partial::of(&bytes[..len]).finish();
            put16(&mut bytes, 10, sum);
            let bytes = &bytes[..cut.min(bytes.len())];
            if let Ok((parsed, payload)) = Ipv4Header::parse(bytes) {
                prop_assert!(payload.end <= bytes.len() && payload.start >= HEADER_LEN);
                prop_assert_eq!(payload.len(), usize::from(parsed.payload_len));
                prop_assert_eq!(Ipv4Header::parse_quoted(bytes), Ok((parsed, payload.start)));
            }
        }

        /// Of what an error quotes, only the header must be there.
        #[test]
        fn a_quoted_header_comes_back(h in header(), more in 0usize..20, checksum: u16) {
            let mut bytes = vec![0; HEADER_LEN + more];
            h.emit(&mut bytes);
            put16(&mut bytes, 10, checksum);
            prop_assert_eq!(Ipv4Header::parse_quoted(&bytes), Ok((h, HEADER_LEN)));
            bytes.truncate(HEADER_LEN + 3);
            bytes[0] = 0x46;
            put16(&mut bytes, 2, 24);
            prop_assert_eq!(Ipv4Header::parse_quoted(&bytes), Err(WireError::Truncated));
        }
    }
}
