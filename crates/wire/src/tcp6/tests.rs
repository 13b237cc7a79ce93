//! What is taken for the next segment of a flow, against the parser of the header.

use super::*;
use crate::checksum::verify_transport;
use crate::ipv6::Ipv6Header;
use core::net::Ipv6Addr;
use proptest::prelude::*;

const LINK: [u8; 14] = *b"to-themfrom-u\x60";

fn packet(label: u32, payload: &[u8]) -> Vec<u8> {
    let ip = Ipv6Header {
        traffic_class: 2,
        flow_label: label,
        payload_len: (tcp::HEADER_LEN + payload.len()) as u16,
        next_header: protocol::TCP,
        hop_limit: 64,
        source: Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7),
        destination: Ipv6Addr::new(0xfd00, 9, 8, 7, 6, 5, 4, 3),
    };
    let mut bytes = vec![0; HEADER_LEN + tcp::HEADER_LEN];
    ip.emit(&mut bytes);
    bytes[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&[3, 0xe8, 0, 80]);
    bytes[HEADER_LEN + 12] = 0x50;
    bytes.extend(payload);
    let pseudo = Partial::of_pseudo_v6(
        ip.source,
        ip.destination,
        protocol::TCP,
        u32::from(ip.payload_len),
    );
    let sum = pseudo.plus(Partial::of(&bytes[HEADER_LEN..])).finish();
    bytes[HEADER_LEN + 16..HEADER_LEN + 18].copy_from_slice(&sum.to_be_bytes());
    bytes
}

#[test]
fn only_plain_segments_are_kept() {
    let good = packet(7, b"some");
    assert!(CachedHeaders6::of(&LINK, &good).is_some());
    assert_eq!(CachedHeaders6::of(&LINK, &good[..BOTH_LEN - 1]), None);
    for (at, value) in [(0, 0x45), (6, 17), (6, 0)] {
        let mut other = good.clone();
        other[at] = value;
        assert_eq!(CachedHeaders6::of(&LINK, &other), None);
    }
    // Nothing is like no packet but what is not of IPv6.
    assert_eq!(CachedHeaders6::NONE.segment_of(&good, true), None);
}

proptest! {
    /// A packet changed anywhere after it became known: what is taken is what the parser
    /// reads as a segment between the same ends, and the same bytes; and one with nothing
    /// but another length is taken.
    #[test]
    fn what_is_known_is_what_is_read(
        label in 0u32..1 << 20,
        before in proptest::collection::vec(any::<u8>(), 0..40),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        changes in proptest::collection::vec((0usize..64, any::<u8>()), 0..3),
        cut in 40usize..140,
    ) {
        let first = packet(label, &before);
        let known = CachedHeaders6::of(&LINK, &first).unwrap();
        let mut frame = LINK.to_vec();
        frame.extend(packet(label, &payload));
        let unchanged = changes.is_empty() && cut >= frame.len();
        for (at, value) in changes {
            if let Some(b) = frame.get_mut(at) {
                *b = value;
            }
        }
        frame.truncate(cut);
        let (taken, bare) = (known.segment_of(&frame, false), known.segment_of(&frame[14..], true));
        prop_assert_eq!(taken.is_some(), bare.is_some() && frame[..14] == LINK);
        prop_assert!(taken.is_some() || !unchanged);
        if let Some(segment) = bare {
            let (ip, range) = Ipv6Header::parse(&frame[14..]).unwrap();
            let (was, _) = Ipv6Header::parse(&first).unwrap();
            prop_assert_eq!(Ipv6Header { payload_len: was.payload_len, ..ip }, was);
            prop_assert_eq!(segment, &frame[14..][range]);
            prop_assert_eq!(&segment[..4], &first[HEADER_LEN..HEADER_LEN + 4]);
            let right = verify_transport(
                ip.source.into(), ip.destination.into(), ip.next_header, segment,
            );
            prop_assert_eq!(known.verify(segment), right);
        }
    }
}
