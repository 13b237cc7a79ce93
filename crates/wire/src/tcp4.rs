//! A TCP segment over IPv4, read in one pass over both headers.
//!
//! Owns [`Tcp4`], for the packets that nearly all are: an IPv4 header without
//! options, not a fragment, and a plain TCP header ([`Plain`]) behind it.
//! The engine's common path reads packets with it and compares [`Tcp4::flow`] with
//! that of a connection it knows; what it refuses, and what belongs to no such
//! connection, goes through [`Ipv4Header`](crate::ipv4::Ipv4Header) and
//! [`TcpHeader`](crate::tcp::TcpHeader), which also say what is wrong with it.

use crate::checksum::Partial;
use crate::ipv4::{HEADER_LEN, protocol};
use crate::tcp::Plain;
use crate::{get16, get32};
use core::net::Ipv4Addr;

/// Addresses and ports of a segment as they stand in it, to be compared in two
/// operations. The sender's come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow4 {
    /// Source and destination address, in the machine's byte order.
    addresses: u64,
    /// Source and destination port, in the machine's byte order.
    ports: u32,
}

impl Flow4 {
    /// The flow of segments from `source` to `destination`.
    #[must_use]
    pub fn new(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Self {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&source.0.octets());
        bytes[4..].copy_from_slice(&destination.0.octets());
        let addresses = u64::from_ne_bytes(bytes);
        bytes[..2].copy_from_slice(&source.1.to_be_bytes());
        bytes[2..4].copy_from_slice(&destination.1.to_be_bytes());
        let ports = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Self { addresses, ports }
    }

    /// The sender's address and port.
    #[must_use]
    pub fn source(&self) -> (Ipv4Addr, u16) {
        let (a, p) = (self.addresses.to_ne_bytes(), self.ports.to_ne_bytes());
        (
            Ipv4Addr::new(a[0], a[1], a[2], a[3]),
            u16::from_be_bytes([p[0], p[1]]),
        )
    }

    /// The receiver's address and port.
    #[must_use]
    pub fn destination(&self) -> (Ipv4Addr, u16) {
        let (a, p) = (self.addresses.to_ne_bytes(), self.ports.to_ne_bytes());
        (
            Ipv4Addr::new(a[4], a[5], a[6], a[7]),
            u16::from_be_bytes([p[2], p[3]]),
        )
    }

    /// The sum of the pseudo-header (RFC 9293 section 3.1) of a segment of `len`
    /// bytes, TCP header included.
    #[inline]
    #[must_use]
    pub const fn pseudo(&self, len: u16) -> Partial {
        Partial::of_pair(self.addresses).plus_word((protocol::TCP as u16).to_be(), len.to_be())
    }
}

/// A segment, its IPv4 header checked and its TCP checksum not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp4<'a> {
    /// Between whom.
    pub flow: Flow4,
    /// DSCP and ECN.
    pub tos: u8,
    /// The TCP header.
    pub tcp: Plain,
    /// The whole segment, TCP header and payload.
    pub segment: &'a [u8],
}

impl<'a> Tcp4<'a> {
    /// Reads an IPv4 packet; what follows its end (a short frame's padding) is left
    /// out. `None` for whatever is not a whole, valid IPv4 packet without options
    /// (RFC 1122 section 3.2.1: version, length, checksum) that carries TCP with a
    /// plain header.
    #[inline]
    #[must_use]
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        let b: &[u8; HEADER_LEN] = packet.first_chunk()?;
        let total = usize::from(get16(b, 2));
        // Reserved bit, "more fragments" and offset zero, TCP inside; "don't
        // fragment" and hop limit do not matter.
        let inside = get32(b, 4 + 2) & 0xbfff_00ff;
        if b[0] != 0x45 || inside != protocol::TCP as u32 {
            return None;
        }
        let segment = packet.get(HEADER_LEN..total)?;
        if !is_intact(b) {
            return None;
        }
        Some(Self {
            flow: Flow4 {
                addresses: word64(b, 12),
                ports: u32::from_ne_bytes(*segment.first_chunk()?),
            },
            tos: b[1],
            tcp: Plain::read(segment)?,
            segment,
        })
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.segment.get(self.tcp.len()..).unwrap_or_default()
    }

    /// Whether the TCP checksum is right.
    #[inline]
    #[must_use]
    pub fn verify(&self) -> bool {
        let pseudo = self.flow.pseudo(self.segment.len() as u16);
        pseudo.plus(Partial::of(self.segment)).finish() == 0
    }
}

#[inline]
fn word64(b: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from_ne_bytes([
        b[at],
        b[at + 1],
        b[at + 2],
        b[at + 3],
        b[at + 4],
        b[at + 5],
        b[at + 6],
        b[at + 7],
    ])
}

/// Whether a header's checksum is right: the one's complement sum of its words is
/// all ones, that is, a multiple of 65,535 (RFC 1071). It cannot be zero, as the
/// version is not.
#[inline]
fn is_intact(b: &[u8; HEADER_LEN]) -> bool {
    let (first, second) = (word64(b, 0), word64(b, 8));
    let third = u32::from_ne_bytes([b[16], b[17], b[18], b[19]]);
    let low = |w: u64| w & 0xffff_ffff;
    let sum = low(first) + (first >> 32) + low(second) + (second >> 32) + u64::from(third);
    sum.is_multiple_of(0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::verify_transport;
    use crate::ipv4::Ipv4Header;
    use crate::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
    use proptest::prelude::*;

    fn packet(ts: bool, payload: &[u8]) -> Vec<u8> {
        let tcp = TcpHeader {
            src_port: 1000,
            dst_port: 80,
            seq: crate::SeqNumber(7),
            ack: crate::SeqNumber(9),
            flags: TcpFlags::ACK,
            window: 3,
            urgent: 0,
            options: TcpOptions {
                timestamps: ts.then_some(Timestamps { val: 1, echo: 2 }),
                ..TcpOptions::default()
            },
        };
        let len = tcp.header_len() + payload.len();
        let ip = Ipv4Header {
            tos: 2,
            payload_len: len as u16,
            identification: 77,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: protocol::TCP,
            source: [10, 0, 0, 2].into(),
            destination: [10, 0, 0, 1].into(),
        };
        let mut bytes = vec![0; HEADER_LEN];
        ip.emit(&mut bytes);
        let mut segment = vec![0; len];
        let at = tcp.emit(&mut segment);
        segment[at..].copy_from_slice(payload);
        let sum = Partial::of_pseudo_v4(ip.source, ip.destination, protocol::TCP, len as u32)
            .plus(Partial::of(&segment))
            .finish();
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(segment);
        bytes
    }

    #[test]
    fn a_segment_is_read_with_its_flow_and_payload() {
        for ts in [false, true] {
            let mut bytes = packet(ts, b"payload");
            bytes.extend([0; 9]);
            let read = Tcp4::read(&bytes).unwrap();
            assert_eq!(read.payload(), b"payload");
            assert_eq!((read.tos, read.tcp.has_timestamps()), (2, ts));
            assert_eq!(read.flow.source(), ([10, 0, 0, 2].into(), 1000));
            assert_eq!(read.flow.destination(), ([10, 0, 0, 1].into(), 80));
            assert_eq!(
                read.flow,
                Flow4::new(read.flow.source(), read.flow.destination())
            );
            assert!(read.verify());
            let last = HEADER_LEN + read.segment.len() - 1;
            bytes[last] ^= 1;
            assert!(!Tcp4::read(&bytes).unwrap().verify());
        }
    }

    proptest! {
        /// A packet changed anywhere, its checksum made right again or not: what is
        /// read is what the parsers of the two headers read.
        #[test]
        fn it_reads_what_the_parsers_read(
            ts: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            changes in proptest::collection::vec((0usize..60, any::<u8>()), 0..3),
            repair: bool,
            cut in 0usize..120,
        ) {
            let mut bytes = packet(ts, &payload);
            for (at, value) in changes {
                if let Some(b) = bytes.get_mut(at) {
                    *b = value;
                }
            }
            if repair {
                bytes[10..12].fill(0);
                let sum = Partial::of(&bytes[..HEADER_LEN]).finish();
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            bytes.truncate(cut);
            let Some(read) = Tcp4::read(&bytes) else { return Ok(()) };
            let (ip, range) = Ipv4Header::parse(&bytes).unwrap();
            let (tcp, len) = TcpHeader::parse(&bytes[range.clone()]).unwrap();
            prop_assert!(ip.protocol == protocol::TCP && !ip.is_fragment());
            prop_assert_eq!(read.flow.source(), (ip.source, tcp.src_port));
            prop_assert_eq!(read.flow.destination(), (ip.destination, tcp.dst_port));
            prop_assert_eq!(read.tos, ip.tos);
            prop_assert_eq!(Plain::of(&tcp), Some(read.tcp));
            prop_assert_eq!(read.payload(), &bytes[range.start + len..range.end]);
            let right = verify_transport(
                ip.source.into(), ip.destination.into(), ip.protocol, &bytes[range],
            );
            prop_assert_eq!(read.verify(), right);
        }

        /// What nearly all packets are is read, and not left to the parsers.
        #[test]
        fn every_usual_packet_is_read(ts: bool, len in 0usize..1500) {
            prop_assert!(Tcp4::read(&packet(ts, &vec![5; len])).is_some());
        }
    }
}
