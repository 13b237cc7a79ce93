//! Fixed and extension headers.

use super::next_header::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, NONE, ROUTING};
use super::*;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Ipv6Header> {
    any::<((u8, u8, u8), [u8; 16], [u8; 16])>().prop_flat_map(|((c, n, h), s, d)| {
        (0u32..1 << 20, 0u16..300).prop_map(move |(flow_label, payload_len)| Ipv6Header {
            traffic_class: c,
            flow_label,
            payload_len,
            next_header: n,
            hop_limit: h,
            source: s.into(),
            destination: d.into(),
        })
    })
}

proptest! {
    #[test]
    fn comes_back(h in header(), padding in 0usize..10) {
        let end = HEADER_LEN + usize::from(h.payload_len);
        let mut bytes = vec![0; end + padding];
        prop_assert_eq!(h.emit(&mut bytes), HEADER_LEN);
        prop_assert_eq!(h.ecn(), h.traffic_class % 4, "RFC 3168 section 5");
        prop_assert_eq!(Ipv6Header::parse(&bytes), Ok((h, HEADER_LEN..end)));
        prop_assert_eq!(Ipv6Header::parse_quoted(&bytes[..HEADER_LEN]), Ok(h));
        prop_assert_eq!(Ipv6Header::parse(&bytes[..end - 1]), Err(WireError::Truncated));
        bytes[0] ^= 0x20;
        prop_assert_eq!(Ipv6Header::parse(&bytes), Err(WireError::BadVersion));
    }

    #[test]
    fn a_fragment_header_comes_back(next_header: u8, offset in 0u16..8192, more: bool, identification: u32) {
        let h = FragmentHeader { next_header, offset: offset * 8, more, identification };
        let mut bytes = [0xff; FRAGMENT_LEN];
        h.emit(&mut bytes);
        prop_assert_eq!(FragmentHeader::parse(&bytes), Ok(h));
        prop_assert_eq!(h.is_atomic(), offset == 0 && !more);
    }

    #[test]
    fn any_bytes_are_survived(first: u8, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = Ipv6Header::parse(&bytes);
        for first in [first, HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS] {
            if let Ok(upper) = walk(first, &bytes) {
                prop_assert!(upper.at <= bytes.len());
            }
        }
    }

    /// A legal chain is walked to its end, wherever fragments stand in it; with any
    /// byte changed it is survived.
    #[test]
    fn chains_are_walked(
        kinds in proptest::collection::vec(0usize..3, 0..=MAX_EXTENSIONS),
        words in proptest::array::uniform8(0u8..4),
        fragment: bool,
        change: (u16, u8),
    ) {
        const KINDS: [u8; 3] = [DESTINATION_OPTIONS, ROUTING, FRAGMENT];
        let mut payload = Vec::new();
        for (i, kind) in kinds.iter().enumerate() {
            let next = kinds.get(i + 1).map_or(6, |k| KINDS[*k]);
            let len = if *kind == 2 { 0 } else { words[i] };
            let at = payload.len();
            payload.resize(at + 8 + 8 * usize::from(len), 0);
            payload[at] = next;
            payload[at + 1] = len;
            // A fragment that is not the whole ends the walk.
            payload[at + 3] = u8::from(*kind == 2 && fragment);
        }
        let end = payload.len();
        payload.extend([0xaa; 20]);
        let first = kinds.first().map_or(6, |k| KINDS[*k]);
        let upper = walk(first, &payload).unwrap();
        let is_part = fragment && kinds.contains(&2);
        prop_assert_eq!(upper.fragment.is_some(), is_part);
        if !is_part {
            prop_assert_eq!((upper.next_header, upper.at), (6, end));
        }
        let at = usize::from(change.0) % payload.len();
        payload[at] = change.1;
        let _ = walk(first, &payload);
    }
}

const NO_OPTIONS: [u8; 8] = [NONE, 0, 1, 4, 0, 0, 0, 0];

fn with_option(kind: u8) -> Result<Upper, Refusal> {
    walk(HOP_BY_HOP, &[NONE, 0, 0, kind, 2, 9, 9, 0])
}

#[test]
fn an_unknown_option_says_what_is_to_be_done() {
    assert!(with_option(0x05).is_ok());
    let silently = Err(Refusal::Silently(WireError::BadField));
    assert_eq!(with_option(0x45), silently);
    for (kind, to_group_too) in [(0x85, true), (0xc5, false)] {
        let refusal = Refusal::Problem {
            code: 2,
            pointer: 43,
            to_group_too,
        };
        assert_eq!(with_option(kind), Err(refusal));
    }
}

#[test]
fn options_end_where_their_header_ends() {
    assert!(walk(DESTINATION_OPTIONS, &NO_OPTIONS).is_ok());
    let too_long = walk(DESTINATION_OPTIONS, &[NONE, 0, 1, 5, 0, 0, 0, 0]);
    assert_eq!(too_long, Err(Refusal::Silently(WireError::BadLength)));
    let cut = walk(DESTINATION_OPTIONS, &[NONE, 0, 1, 3, 0, 0, 0, 1]);
    assert_eq!(cut, Err(Refusal::Silently(WireError::Truncated)));
}

/// A fragment header has no length of its own (RFC 8200 section 4.5); the others count words of
/// eight bytes behind the first.
#[test]
fn a_header_says_what_follows_it_and_where() {
    let bytes = [NONE, 2];
    for kind in [HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS] {
        assert_eq!(following(kind, &bytes), Some((NONE, 24)));
    }
    assert_eq!(following(FRAGMENT, &bytes), Some((NONE, 8)));
    for kind in [NONE, ICMPV6, 6] {
        assert_eq!(following(kind, &bytes), None);
    }
    assert_eq!(following(ROUTING, &bytes[..1]), None);
}

#[test]
fn hop_by_hop_stands_first() {
    let mut payload = [NO_OPTIONS, NO_OPTIONS].concat();
    payload[0] = HOP_BY_HOP;
    let misplaced = Refusal::Problem {
        code: 1,
        pointer: 40,
        to_group_too: false,
    };
    assert_eq!(walk(DESTINATION_OPTIONS, &payload), Err(misplaced));
    // Nor does it stand behind the header of a fragment that is the whole.
    let behind = [[HOP_BY_HOP, 0, 0, 0, 0, 0, 0, 0], NO_OPTIONS].concat();
    assert_eq!(walk(FRAGMENT, &behind), Err(misplaced));
    payload[0] = DESTINATION_OPTIONS;
    assert_eq!(walk(HOP_BY_HOP, &payload).unwrap().at, 16);
}

#[test]
fn nobody_is_visited_for_a_routing_header() {
    let visits = walk(ROUTING, &[NONE, 0, 0, 1, 0, 0, 0, 0]);
    let expected = Refusal::Problem {
        code: 0,
        pointer: 42,
        to_group_too: false,
    };
    assert_eq!(visits, Err(expected));
}

#[test]
fn endless_chains_are_not_followed() {
    let mut payload = Vec::new();
    for _ in 0..=MAX_EXTENSIONS {
        payload.extend([DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0]);
    }
    let refused = Err(Refusal::Silently(WireError::BadField));
    assert_eq!(walk(DESTINATION_OPTIONS, &payload), refused);
}

#[test]
fn who_listens_for_questions() {
    let ip = "fd00::1:2:abcd:1234".parse().unwrap();
    assert_eq!(solicited_node(ip).to_string(), "ff02::1:ffcd:1234");
}

#[test]
fn a_station_has_a_link_local_address() {
    let mac = crate::MacAddr([0x02, 0x12, 0x34, 0x56, 0x78, 0x9a]);
    assert_eq!(link_local(mac).to_string(), "fe80::12:34ff:fe56:789a");
    assert!(link_local(mac).is_unicast_link_local());
}
