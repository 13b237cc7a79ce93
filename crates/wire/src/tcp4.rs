//! A TCP segment over IPv4, parsed in one pass over both headers.
//!
//! Owns [`Tcp4`], for nearly all packets: an IPv4 header without options, not a fragment,
//! followed by a TCP segment; and [`CachedHeaders4`], for a packet with the same headers
//! below TCP as the previous one. The engine's fast path compares packets with the
//! previous one, then parses them with `Tcp4` and looks up the connection of
//! [`Tcp4::flow`]; packets that both reject, or that belong to no connection, are parsed
//! by [`Ipv4Header`](crate::ipv4::Ipv4Header) and [`TcpHeader`](crate::tcp::TcpHeader),
//! which also report errors.

use crate::bytes::{array, get16};
use crate::checksum::Partial;
use crate::ethernet;
use crate::ipv4::{HEADER_LEN, protocol};
use crate::start::Start;
use crate::tcp;
use core::net::Ipv4Addr;

/// The addresses of a packet as they are stored in it, the sender's first, in native byte
/// order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Addresses4(u64);

impl Addresses4 {
    /// From `source` to `destination`.
    #[must_use]
    pub fn new(source: Ipv4Addr, destination: Ipv4Addr) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (source.octets(), destination.octets());
        Self(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The flow of a TCP segment between them.
    #[inline(always)]
    #[must_use]
    pub fn with_ports_of(self, segment: &[u8]) -> Flow4 {
        let ports = segment.first_chunk().map_or(0, |p| u32::from_ne_bytes(*p));
        Flow4 {
            addresses: self,
            ports,
        }
    }

    /// The sum of the pseudo-header (RFC 9293 section 3.1) for a segment of `len` bytes
    /// between these addresses, TCP header included.
    #[inline]
    #[must_use]
    pub const fn pseudo(self, len: u16) -> Partial {
        Partial::of_pair(self.0).plus_word((protocol::TCP as u16).to_be(), len.to_be())
    }

    /// Whether the TCP checksum of a segment between these addresses is correct.
    #[inline(never)]
    #[must_use]
    pub fn verify(self, segment: &[u8]) -> bool {
        self.is_right(segment.len(), Partial::of(segment))
    }

    /// As [`verify`](Self::verify), of a segment of `len` bytes whose `sum` is known.
    #[inline]
    #[must_use]
    pub const fn is_right(self, len: usize, sum: Partial) -> bool {
        self.pseudo(len as u16).is_correct_with(sum)
    }
}

/// Addresses and ports of a segment as they are stored in it, so that two operations
/// compare them. The sender's come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow4 {
    addresses: Addresses4,
    /// In native byte order.
    ports: u32,
}

impl Flow4 {
    /// The flow of segments from `source` to `destination`.
    #[must_use]
    pub fn new(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Self {
        let addresses = Addresses4::new(source.0, destination.0);
        let ([a, b], [c, d]) = (source.1.to_be_bytes(), destination.1.to_be_bytes());
        let ports = u32::from_ne_bytes([a, b, c, d]);
        Self { addresses, ports }
    }

    /// The addresses and the ports, for hashing: flows are equal if both words are.
    #[inline(always)]
    #[must_use]
    pub const fn words(&self) -> (u64, u32) {
        (self.addresses.0, self.ports)
    }

    /// The sender's address and port.
    #[must_use]
    pub fn source(&self) -> (Ipv4Addr, u16) {
        let (a, p) = (self.addresses.0.to_ne_bytes(), self.ports.to_ne_bytes());
        (
            Ipv4Addr::new(a[0], a[1], a[2], a[3]),
            u16::from_be_bytes([p[0], p[1]]),
        )
    }

    /// The receiver's address and port.
    #[must_use]
    pub fn destination(&self) -> (Ipv4Addr, u16) {
        let (a, p) = (self.addresses.0.to_ne_bytes(), self.ports.to_ne_bytes());
        (
            Ipv4Addr::new(a[4], a[5], a[6], a[7]),
            u16::from_be_bytes([p[2], p[3]]),
        )
    }
}

/// The mask for the word of flags, fragment offset, TTL and protocol: all bits but "don't
/// fragment" and the TTL.
const INSIDE: u32 = u32::from_ne_bytes([0xbf, 0xff, 0, 0xff]);
/// The value of that word in an unfragmented TCP packet.
const TCP_INSIDE: u32 = u32::from_ne_bytes([0, 0, 0, protocol::TCP]);

/// A segment with a validated IPv4 header; the TCP checksum is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp4<'a> {
    /// The addresses.
    pub addresses: Addresses4,
    /// The two ECN bits (RFC 3168 section 5).
    pub ecn: u8,
    /// The segment, TCP header and payload; at least 20 bytes.
    pub segment: &'a [u8],
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Tcp4<'a> {
    /// Parses an IPv4 packet; bytes beyond its end (padding of a short frame) are
    /// ignored. `None` if it is not an unfragmented, valid IPv4 packet without options
    /// (RFC 1122 section 3.2.1: version, length, checksum) with a TCP segment.
    #[inline(always)]
    #[must_use]
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        let b: &[u8; HEADER_LEN] = packet.first_chunk()?;
        let total = usize::from(get16(b, 2));
        if b[0] != 0x45 || u32::from_ne_bytes(array(b, 6)) & INSIDE != TCP_INSIDE {
            return None;
        }
        if total < HEADER_LEN + tcp::HEADER_LEN || !is_intact(b) {
            return None;
        }
        let segment = packet.get(HEADER_LEN..total)?;
        Some(Self {
            addresses: Addresses4(u64::from_ne_bytes(array(b, 12))),
            ecn: b[1] & 3,
            segment,
            header: b,
        })
    }

    /// The headers to compare the next packet with; `link` is the Ethernet header before
    /// this packet, or zeros.
    #[inline]
    #[must_use]
    pub fn cached(&self, link: [u8; ethernet::HEADER_LEN]) -> CachedHeaders4 {
        let b = self.header;
        CachedHeaders4 {
            start: Start::new(&link, [b[0], b[1]]),
            inside: u32::from_ne_bytes(array(b, 6)),
            flow: self.flow(),
            // All words together are a multiple of 65,535.
            sum: MULTIPLE - changing(b),
        }
    }

    /// The addresses and ports.
    #[inline(always)]
    #[must_use]
    pub fn flow(&self) -> Flow4 {
        self.addresses.with_ports_of(self.segment)
    }
}

/// Whether a header's checksum is correct: the one's complement sum of its words is all
/// ones, that is, a multiple of 65,535 (RFC 1071). It cannot be zero, because the version
/// is not. 64-bit words can be summed as well if carries are added at the low end: 2^64
/// is a multiple of 65,535, plus one.
#[inline(always)]
fn is_intact(b: &[u8; HEADER_LEN]) -> bool {
    let word = |at| u64::from_ne_bytes(array(b, at));
    // No carry: the first word ends, or begins, with bytes that are zero or 0x45 in every
    // header that gets here (see `TCP_INSIDE`).
    let ends = word(0).wrapping_add(u64::from(u32::from_ne_bytes(array(b, 16))));
    let (sum, carry) = ends.overflowing_add(word(8));
    // No carry here either: after one, the sum is less than `ends`.
    sum.wrapping_add(u64::from(carry)).is_multiple_of(0xffff)
}

/// The headers of IPv4 and TCP, without options.
const BOTH_LEN: usize = HEADER_LEN + tcp::HEADER_LEN;

/// The headers below TCP, and the ports, of a validated segment. Segments arrive in
/// trains: the next one has the same headers except for length, identification and
/// checksum, so only a few words have to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedHeaders4 {
    /// Ethernet header (zeros on a link without one), version and type of service.
    start: Start,
    /// The bytes from the fragment flags to the protocol.
    inside: u32,
    flow: Flow4,
    /// The sum of the IPv4 header's constant words, up to multiples of 65,535.
    sum: u64,
}

impl CachedHeaders4 {
    /// Matches no packet of IPv4.
    pub const NONE: Self = Self {
        start: Start::NONE,
        inside: 0,
        flow: Flow4 {
            addresses: Addresses4(0),
            ports: 0,
        },
        sum: 0,
    };

    /// The addresses and ports.
    #[inline(always)]
    #[must_use]
    pub const fn flow(&self) -> &Flow4 {
        &self.flow
    }

    /// The addresses.
    #[inline(always)]
    #[must_use]
    pub const fn addresses(&self) -> Addresses4 {
        self.flow.addresses
    }

    /// The segment in a frame with these headers, as [`Tcp4::read`] would parse it;
    /// `None` for any other frame. `bare` if the link has no header.
    #[inline(always)]
    #[must_use]
    pub fn segment_of<'a>(&self, frame: &'a [u8], bare: bool) -> Option<&'a [u8]> {
        const FRAME: usize = ethernet::HEADER_LEN + BOTH_LEN;
        self.rest(self.start.packet_of::<BOTH_LEN, FRAME>(frame, bare)?)
    }

    /// Compares the bytes after the type of service.
    #[inline(always)]
    fn rest<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let b: &[u8; BOTH_LEN] = packet.first_chunk()?;
        let flow = Flow4 {
            addresses: Addresses4(u64::from_ne_bytes(array(b, 12))),
            ports: u32::from_ne_bytes(array(b, HEADER_LEN)),
        };
        if flow != self.flow || u32::from_ne_bytes(array(b, 6)) != self.inside {
            return None;
        }
        // See `is_intact`.
        if !(self.sum + changing(b)).is_multiple_of(0xffff) {
            return None;
        }
        let total = usize::from(get16(b, 2));
        if total < BOTH_LEN {
            return None;
        }
        packet.get(HEADER_LEN..total)
    }
}

/// A multiple of 65,535 above every result of [`changing`].
const MULTIPLE: u64 = 0xffff << 17;

/// The sum of the words of an IPv4 header that change from packet to packet: length,
/// identification, checksum. Two words may be added as one, since the upper one counts
/// 65,536 times, which is equivalent to once.
#[inline(always)]
fn changing(b: &[u8]) -> u64 {
    let checksum = u16::from_ne_bytes(array(b, 10));
    u64::from(u32::from_ne_bytes(array(b, 2))) + u64::from(checksum)
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
            let header_len = if ts { 32 } else { 20 };
            assert_eq!(&read.segment[header_len..], b"payload");
            assert_eq!(read.ecn, 2);
            assert_eq!(read.flow().source(), ([10, 0, 0, 2].into(), 1000));
            assert_eq!(read.flow().destination(), ([10, 0, 0, 1].into(), 80));
            assert_eq!(
                read.flow(),
                Flow4::new(read.flow().source(), read.flow().destination())
            );
            assert!(read.addresses.verify(read.segment));
            let last = HEADER_LEN + read.segment.len() - 1;
            bytes[last] ^= 1;
            assert!(!Tcp4::read(&bytes).is_some_and(|r| r.addresses.verify(r.segment)));
        }
    }

    /// A packet whose header says it has `total` bytes, its checksum right.
    fn of_length(total: u16) -> Vec<u8> {
        let mut bytes = packet(false, b"payload");
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[10..12].fill(0);
        let sum = Partial::of(&bytes[..HEADER_LEN]).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn a_packet_has_room_for_a_header_of_tcp_at_least() {
        let first = packet(false, b"payload");
        let cached = Tcp4::read(&first).unwrap();
        let cached = cached.cached([0; ethernet::HEADER_LEN]);
        for (total, segment) in [(40, Some(20)), (47, Some(27)), (39, None), (20, None)] {
            let bytes = of_length(total);
            let read = Tcp4::read(&bytes).map(|read| read.segment.len());
            let known = cached.segment_of(&bytes, true).map(<[u8]>::len);
            assert_eq!((read, known), (segment, segment), "{total}");
        }
    }

    #[test]
    fn flows_are_told_apart_by_their_words() {
        let ends = [
            ([10, 0, 0, 1], 80),
            ([10, 0, 0, 2], 80),
            ([10, 0, 0, 1], 81),
        ];
        let ends = ends.map(|(host, port): ([u8; 4], u16)| (Ipv4Addr::from(host), port));
        let flows = ends
            .iter()
            .flat_map(|from| ends.map(|to| Flow4::new(*from, to)));
        let words: std::collections::BTreeSet<_> = flows.map(|flow| flow.words()).collect();
        assert_eq!(words.len(), 9);
    }

    #[test]
    fn known_headers_have_the_addresses_of_their_packet() {
        let bytes = packet(true, b"payload");
        let read = Tcp4::read(&bytes).unwrap();
        let cached = read.cached([0; ethernet::HEADER_LEN]);
        assert_eq!(cached.addresses(), read.addresses);
        assert_ne!(cached.addresses(), Addresses4::default());
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
            prop_assert!(ip.protocol == protocol::TCP && !ip.is_fragment());
            prop_assert_eq!(read.flow().source().0, ip.source);
            prop_assert_eq!(read.flow().destination().0, ip.destination);
            if let Ok((tcp, _)) = TcpHeader::parse(read.segment) {
                prop_assert_eq!(read.flow().source().1, tcp.src_port);
                prop_assert_eq!(read.flow().destination().1, tcp.dst_port);
            }
            prop_assert_eq!(read.ecn, ip.ecn());
            prop_assert_eq!(read.segment, &bytes[range.clone()]);
            let right = verify_transport(
                ip.source.into(), ip.destination.into(), ip.protocol, &bytes[range],
            );
            prop_assert_eq!(read.addresses.verify(read.segment), right);
        }

        /// A packet changed anywhere after it became known: what is taken for the next
        /// of its kind is what `Tcp4` reads as the next of its flow, and the same bytes;
        /// and one with nothing but the usual changes is taken.
        #[test]
        fn what_is_known_is_what_is_read(
            ts: bool,
            before in proptest::collection::vec(any::<u8>(), 0..40),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            identification: u16,
            changes in proptest::collection::vec((0usize..74, any::<u8>()), 0..3),
            repair: bool,
            cut in 30usize..140,
        ) {
            let link = *b"to-themfrom-us";
            let first = packet(ts, &before);
            let cached = Tcp4::read(&first).unwrap().cached(link);
            prop_assert_eq!(*cached.flow(), Tcp4::read(&first).unwrap().flow());
            let mut frame = link.to_vec();
            frame.extend(packet(ts, &payload));
            frame[18..20].copy_from_slice(&identification.to_be_bytes());
            let unchanged = repair && changes.is_empty() && cut >= frame.len();
            for (at, value) in changes {
                if let Some(b) = frame.get_mut(at) {
                    *b = value;
                }
            }
            if repair {
                frame[24..26].fill(0);
                let sum = Partial::of(&frame[14..34]).finish();
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            frame.truncate(cut);
            let (taken, bare) = (cached.segment_of(&frame, false), cached.segment_of(&frame[14..], true));
            prop_assert_eq!(taken.is_some(), bare.is_some() && frame[..14] == link);
            if unchanged {
                prop_assert!(taken.is_some());
            }
            if let Some(segment) = bare {
                let read = Tcp4::read(&frame[14..]).unwrap();
                prop_assert_eq!((read.segment, read.flow()), (segment, *cached.flow()));
                prop_assert_eq!(read.ecn, 2);
            }
        }

        /// What nearly all packets are is read, and not left to the parsers.
        #[test]
        fn every_usual_packet_is_read(ts: bool, len in 0usize..1500) {
            prop_assert!(Tcp4::read(&packet(ts, &vec![5; len])).is_some());
        }
    }
}
