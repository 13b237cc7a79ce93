//! Packets in pieces, whole again or refused.

use super::super::{Limits, fragments_v6};
use super::*;
use core::net::Ipv6Addr;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{FRAGMENT_LEN, HEADER_LEN, next_header};
use proptest::prelude::*;

const T: Instant = Instant(1_000);

fn header(traffic_class: u8) -> Ipv6Header {
    Ipv6Header {
        traffic_class,
        flow_label: 0,
        payload_len: 0,
        next_header: next_header::FRAGMENT,
        hop_limit: 64,
        source: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    }
}

fn part(offset: u16, more: bool) -> FragmentHeader {
    FragmentHeader {
        next_header: protocol::UDP,
        offset,
        more,
        identification: 7,
    }
}

fn reassembler() -> Reassembler<Ipv6Header> {
    Reassembler::new(Limits::for_ipv6())
}

type Got = Result<Option<Reassembled<Ipv6Header>>, DropReason>;

fn add(r: &mut Reassembler<Ipv6Header>, offset: u16, more: bool, bytes: &[u8]) -> Got {
    r.add_v6(&header(0), &part(offset, more), 0, bytes, T)
}

#[test]
fn the_first_fragment_says_what_it_is() {
    let mut r = reassembler();
    // The others may say what they like (RFC 8200 section 4.5).
    let mut second = part(8, false);
    second.next_header = 99;
    assert_eq!(r.add_v6(&header(0), &second, 0, &[2; 5], T), Ok(None));
    let whole = add(&mut r, 0, true, &[1; 8]).unwrap().unwrap();
    assert_eq!(whole.header.next_header, protocol::UDP);
    assert_eq!((whole.payload.len(), whole.header.payload_len), (13, 13));
    assert!(r.is_empty());
}

#[test]
fn an_overlap_ends_the_packet() {
    let mut r = reassembler();
    add(&mut r, 0, true, &[1; 16]).unwrap();
    let overlap = add(&mut r, 8, true, &[2; 16]);
    assert_eq!(overlap, Err(DropReason::FragmentOverlap));
    assert!(r.is_empty());
    // An exact repetition does no harm.
    add(&mut r, 0, true, &[1; 16]).unwrap();
    let again = add(&mut r, 0, true, &[1; 16]);
    assert_eq!(again, Err(DropReason::FragmentDuplicate));
    assert_eq!(r.len(), 1);
}

#[test]
fn headers_must_not_be_cut() {
    let mut r = reassembler();
    let mut options = part(0, true);
    options.next_header = next_header::DESTINATION_OPTIONS;
    let cut = [protocol::UDP, 0, 1, 4, 0, 0, 0, 0];
    let refused = r.add_v6(&header(0), &options, 0, &cut, T);
    assert_eq!(refused, Err(DropReason::FragmentHeaders));
    let whole = [cut, [9; 8]].concat();
    assert_eq!(r.add_v6(&header(0), &options, 0, &whole, T), Ok(None));
}

#[test]
fn lengths_are_checked() {
    let mut r = reassembler();
    let odd = add(&mut r, 0, true, &[1; 13]);
    assert_eq!(odd, Err(DropReason::FragmentBadLength));
    let beyond = add(&mut r, 65_528, false, &[1; 8]);
    assert_eq!(beyond, Err(DropReason::FragmentBeyondEnd));
    assert_eq!(add(&mut r, 65_528, false, &[1; 7]), Ok(None));
    // Headers before it count, too.
    let late = r.add_v6(&header(0), &part(65_520, false), 8, &[1; 8], T);
    assert_eq!(late, Err(DropReason::FragmentBeyondEnd));
}

#[test]
fn it_may_take_a_minute() {
    let mut r = reassembler();
    add(&mut r, 0, true, &[1; 8]).unwrap();
    assert_eq!(r.expire(T.after_ms(59_999)), 0);
    let mut told = 0;
    r.expire_with(T.after_ms(60_000), |_, first| told += first.len());
    assert_eq!((r.len(), told), (0, 8));
}

#[test]
fn congestion_on_the_way_of_one_piece_is_that_of_all() {
    let mut r = reassembler();
    r.add_v6(&header(2), &part(0, true), 0, &[1; 8], T).unwrap();
    let got = r
        .add_v6(&header(3), &part(8, false), 0, &[1; 8], T)
        .unwrap();
    assert_eq!(got.unwrap().header.ecn(), 3);
}

proptest! {
    /// What is cut for any MTU comes together again, in any order.
    #[test]
    fn cut_and_put_together(len in 1usize..20_000, mtu in 1_000usize..9_100, seed: u64) {
        let message: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let mut parts: Vec<_> = fragments_v6(len, mtu).collect();
        let mtu = mtu.max(1280);
        if let [only] = parts[..] {
            prop_assert!(len <= mtu - HEADER_LEN && !only.more);
            return Ok(());
        }
        prop_assert!(parts.iter().all(|p| p.len + FRAGMENT_LEN + HEADER_LEN <= mtu));
        let by = (seed % parts.len() as u64) as usize;
        parts.rotate_left(by);
        if seed & 1 << 40 != 0 {
            parts.reverse();
        }
        let mut r = reassembler();
        let mut whole = None;
        for p in &parts {
            let bytes = &message[p.offset..p.offset + p.len];
            prop_assert_eq!(&whole, &None);
            whole = add(&mut r, p.offset as u16, p.more, bytes).unwrap();
        }
        prop_assert_eq!(whole.map(|w| w.payload), Some(message));
    }

    #[test]
    fn any_fragments_are_survived(
        pieces in proptest::collection::vec((any::<u16>(), any::<bool>(), any::<u8>(), 0usize..40), 1..30),
    ) {
        let mut r = reassembler();
        for (offset, more, next_header, len) in pieces {
            let fragment = FragmentHeader { next_header, offset: offset & !7, more, identification: 1 };
            let _ = r.add_v6(&header(0), &fragment, 0, &vec![0; len], T);
        }
    }
}

/// RFC 8200 section 4.5 and RFC 3168 section 5.3: the class is the first fragment's, the mark that
/// of any.
#[test]
fn the_class_is_kept_and_the_mark_is_everyones() {
    for (first, second, whole) in [
        (0xb8 | 1, 0xb8 | 3, 0xb8 | 3),
        (0xb8 | 2, 0x28 | 2, 0xb8 | 2),
        (0xfc, 0xfc, 0xfc),
        (0x47, 0x43, 0x47),
    ] {
        let mut r = reassembler();
        assert!(r.is_empty());
        let begun = r.add_v6(&header(first), &part(0, true), 0, &[1; 8], T);
        assert_eq!(begun, Ok(None));
        assert!(!r.is_empty());
        let done = r.add_v6(&header(second), &part(8, false), 0, &[2; 8], T);
        let done = done.unwrap().unwrap();
        assert_eq!(done.header.traffic_class, whole, "{first:x} {second:x}");
    }
}

/// A packet that just fits is one part without a fragment header; a byte more is two.
#[test]
fn what_fits_is_not_cut() {
    let cut = |len, mtu| -> Vec<_> {
        let parts = fragments_v6(len, mtu);
        parts.map(|p| (p.offset, p.len, p.more)).collect()
    };
    assert_eq!(cut(1_460, 1_500), [(0, 1_460, false)]);
    assert_eq!(cut(1_461, 1_500), [(0, 1_448, true), (1_448, 13, false)]);
    assert_eq!(cut(2_900, 1_500), [(0, 1_448, true), (1_448, 1_452, false)]);
    assert_eq!(
        cut(2_901, 1_500),
        [(0, 1_448, true), (1_448, 1_448, true), (2_896, 5, false)]
    );
    assert_eq!(cut(1_240, 0), [(0, 1_240, false)]);
    assert_eq!(cut(1_241, 0), [(0, 1_232, true), (1_232, 9, false)]);
    assert_eq!(cut(0, 1_500), [(0, 0, false)]);
    let cut = |len, mtu| -> Vec<_> {
        let parts = super::super::fragments(len, mtu);
        parts.map(|p| (p.offset, p.len, p.more)).collect()
    };
    assert_eq!(cut(1_480, 1_500), [(0, 1_480, false)]);
    assert_eq!(cut(1_481, 1_500), [(0, 1_480, true), (1_480, 1, false)]);
    assert_eq!(cut(1_479, 1_499), [(0, 1_479, false)]);
    assert_eq!(cut(2_951, 1_499), [(0, 1_472, true), (1_472, 1_479, false)]);
    assert_eq!(cut(48, 0), [(0, 48, false)]);
    assert_eq!(cut(49, 0), [(0, 48, true), (48, 1, false)]);
}
