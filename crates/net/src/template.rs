//! IP header templates, made once for a connection and patched for each packet.

use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};
use longshore_wire::ipv6::{self, Ipv6Header};

/// A header of which only length and identification change. The sum of all other words is
/// kept, so a packet costs two additions and a fold (RFC 1624).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Template {
    bytes: [u8; HEADER_LEN],
    /// The sum of the fixed words.
    sum: u32,
}

impl Ipv4Template {
    /// A template for unfragmented packets with the fields of `header`; its length,
    /// identification and fragment fields are ignored, except for "don't fragment".
    #[must_use]
    pub fn new(header: &Ipv4Header) -> Self {
        let fixed = Ipv4Header {
            payload_len: 0,
            identification: 0,
            more_fragments: false,
            fragment_offset: 0,
            ..*header
        };
        let mut bytes = [0; HEADER_LEN];
        fixed.emit(&mut bytes);
        // Length and checksum are set for each packet.
        bytes[2..4].fill(0);
        bytes[10..12].fill(0);
        let sum = bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|word| u32::from(u16::from_be_bytes(*word)))
            .sum();
        Self { bytes, sum }
    }

    /// Writes the header of a packet with `payload_len` bytes of payload. If that is more than
    /// the header can say, 65,515, it has a total length of 0: such a packet is for a kernel that
    /// takes it to be as long as its frame (BIG TCP), and goes over no wire.
    #[inline]
    pub fn write(&self, to: &mut [u8; HEADER_LEN], payload_len: u32, identification: u16) {
        let total = payload_len.saturating_add(HEADER_LEN as u32);
        let total = u16::try_from(total).unwrap_or(0);
        let sum = self.sum + u32::from(total) + u32::from(identification);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        *to = self.bytes;
        to[2..4].copy_from_slice(&total.to_be_bytes());
        to[4..6].copy_from_slice(&identification.to_be_bytes());
        to[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }

    /// DSCP and ECN of the packets.
    #[inline]
    #[must_use]
    pub const fn tos(&self) -> u8 {
        self.bytes[1]
    }

    /// Whether no router may cut the packets.
    #[inline]
    #[must_use]
    pub const fn dont_fragment(&self) -> bool {
        self.bytes[6] & 0x40 != 0
    }

    /// The hops that the packets may take.
    #[inline]
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        self.bytes[8]
    }
}

/// An IPv6 header of which only the length changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Template {
    bytes: [u8; ipv6::HEADER_LEN],
}

impl Ipv6Template {
    /// A template for packets with the fields of `header`; its length is ignored.
    #[must_use]
    pub fn new(header: &Ipv6Header) -> Self {
        let mut bytes = [0; ipv6::HEADER_LEN];
        header.emit(&mut bytes);
        Self { bytes }
    }

    /// DSCP and ECN of the packets.
    #[inline]
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.bytes[0] << 4 | self.bytes[1] >> 4
    }

    /// The hops that the packets may take.
    #[inline]
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.bytes[7]
    }

    /// Writes the header of a packet with `payload_len` bytes behind it.
    #[inline]
    pub fn write(&self, to: &mut [u8; ipv6::HEADER_LEN], payload_len: u16) {
        *to = self.bytes;
        to[4..6].copy_from_slice(&payload_len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_wire::checksum::Partial;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_patched_header_is_the_built_one(
            (tos, ttl, protocol, dont_fragment) in any::<(u8, u8, u8, bool)>(),
            (s, d) in any::<([u8; 4], [u8; 4])>(),
            packets in proptest::collection::vec((0u16..=65_515, any::<u16>()), 1..5),
            beyond in 65_516u32..,
        ) {
            let mut header = Ipv4Header {
                tos,
                payload_len: 77,
                identification: 99,
                dont_fragment,
                more_fragments: false,
                fragment_offset: 0,
                ttl,
                protocol,
                source: s.into(),
                destination: d.into(),
            };
            let template = Ipv4Template::new(&header);
            prop_assert_eq!((template.tos(), template.ttl()), (tos, ttl));
            prop_assert_eq!(template.dont_fragment(), dont_fragment);
            for (payload_len, identification) in packets {
                header.payload_len = payload_len;
                header.identification = identification;
                let (mut built, mut patched) = ([0; HEADER_LEN], [0; HEADER_LEN]);
                header.emit(&mut built);
                template.write(&mut patched, payload_len.into(), identification);
                prop_assert_eq!(built, patched);
            }
            let mut longer = [0; HEADER_LEN];
            template.write(&mut longer, beyond, 7);
            prop_assert_eq!(&longer[2..4], &[0, 0]);
            prop_assert_eq!(Partial::of(&longer).finish(), 0);
        }
    }

    proptest! {
        #[test]
        fn a_patched_header_of_ipv6_is_the_built_one(
            (traffic_class, flow_label, next_header, hop_limit) in any::<(u8, u32, u8, u8)>(),
            (s, d) in any::<([u8; 16], [u8; 16])>(),
            lengths in proptest::collection::vec(any::<u16>(), 1..5),
        ) {
            let mut header = Ipv6Header {
                traffic_class,
                flow_label,
                payload_len: 77,
                next_header,
                hop_limit,
                source: s.into(),
                destination: d.into(),
            };
            let template = Ipv6Template::new(&header);
            prop_assert_eq!(template.traffic_class(), traffic_class);
            prop_assert_eq!(template.hop_limit(), hop_limit);
            for payload_len in lengths {
                header.payload_len = payload_len;
                let (mut built, mut patched) = ([0; ipv6::HEADER_LEN], [0; ipv6::HEADER_LEN]);
                header.emit(&mut built);
                template.write(&mut patched, payload_len);
                prop_assert_eq!(built, patched);
            }
        }
    }

    /// Whatever the sum is, and however often it has to be folded (RFC 1071).
    #[test]
    fn every_identification_has_its_checksum() {
        let header = Ipv4Header {
            tos: 0,
            payload_len: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: 6,
            source: [255, 255, 255, 255].into(),
            destination: [255, 254, 10, 1].into(),
        };
        let template = Ipv4Template::new(&header);
        let mut written = [0; HEADER_LEN];
        for identification in 0..=u16::MAX {
            template.write(&mut written, 1_480, identification);
            assert_eq!(Partial::of(&written).finish(), 0, "{identification}");
        }
    }
}
