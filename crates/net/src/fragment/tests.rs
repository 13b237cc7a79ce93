//! Reassembly against what was cut, in any order, with duplicates, losses and lies.

use super::*;
use core::net::Ipv4Addr;
use proptest::prelude::*;

fn header(identification: u16) -> Ipv4Header {
    Ipv4Header {
        tos: 0,
        payload_len: 0,
        identification,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(10, 0, 0, 2),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    }
}

fn give(
    r: &mut Reassembler,
    id: u16,
    offset: usize,
    more: bool,
    bytes: &[u8],
    now: Instant,
) -> Result<Option<Reassembled<Ipv4Header>>, DropReason> {
    let header = Ipv4Header {
        fragment_offset: offset as u16,
        more_fragments: more,
        payload_len: bytes.len() as u16,
        ..header(id)
    };
    r.add(&header, bytes, now)
}

fn message(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31) >> 3) as u8).collect()
}

const T0: Instant = Instant(5);

proptest! {
    #[test]
    fn parts_cover_the_message(len in 0usize..70_000, mtu in 0usize..10_000) {
        let mut at = 0;
        let parts: Vec<Part> = fragments(len, mtu).collect();
        for (i, p) in parts.iter().enumerate() {
            prop_assert_eq!(p.offset, at);
            prop_assert!(p.len + HEADER_LEN <= mtu.max(68));
            prop_assert_eq!(p.more, i + 1 < parts.len());
            prop_assert!(!p.more || p.len % 8 == 0 && p.len > 0);
            at += p.len;
        }
        prop_assert_eq!(at, len);
        prop_assert!(!parts.is_empty());
    }

    /// Two datagrams, their parts shuffled together and some sent twice.
    #[test]
    fn whatever_the_order(
        lens in proptest::array::uniform2(100usize..5_000),
        mtu in 68usize..1_500,
        order in proptest::collection::vec(any::<u32>(), 300),
        twice in proptest::collection::vec(any::<bool>(), 300),
    ) {
        let messages = lens.map(message);
        let mut parts: Vec<(u16, Part)> = Vec::new();
        for id in 0..2u16 {
            let all: Vec<Part> = fragments(lens[usize::from(id)], mtu).collect();
            // One that is not cut is no matter of reassembly.
            prop_assume!(all.len() > 1);
            for (p, twice) in all.into_iter().zip(&twice) {
                parts.extend(vec![(id, p); 1 + usize::from(*twice)]);
            }
        }
        let mut keyed: Vec<_> = parts.into_iter().zip(order.iter().cycle()).collect();
        keyed.sort_by_key(|(_, k)| **k);
        let mut r = Reassembler::new(Limits::default());
        let mut given = [0usize; 2];
        for ((id, p), _) in keyed {
            let m = &messages[usize::from(id)];
            match give(&mut r, id, p.offset, p.more, &m[p.offset..p.offset + p.len], T0) {
                Ok(Some(whole)) => {
                    prop_assert_eq!(&whole.payload, m);
                    prop_assert_eq!(usize::from(whole.header.payload_len), m.len());
                    prop_assert!(!whole.header.is_fragment());
                    given[usize::from(id)] += 1;
                }
                Ok(None) | Err(DropReason::FragmentDuplicate) => {}
                Err(e) => prop_assert!(false, "{e}"),
            }
        }
        prop_assert!(given.iter().all(|n| *n >= 1));
    }

    /// An oracle that marks bytes: nothing overlapping is ever put together, and
    /// the limits hold, whatever comes.
    #[test]
    fn lies_are_refused(steps in proptest::collection::vec((0u16..3, 0usize..12, 1usize..40, any::<bool>()), 1..60)) {
        let limits = Limits { datagrams: 2, bytes: 600, pieces: 5, ..Limits::default() };
        let mut r = Reassembler::new(limits);
        let mut marks = vec![vec![false; 200]; 3];
        for (id, offset, len, more) in steps {
            let bytes = vec![id as u8; len];
            let drops = *r.drops();
            let result = give(&mut r, id, offset * 8, more, &bytes, T0);
            if *r.drops() != drops {
                // Someone was pushed out: only what is still there is known.
                for (other, m) in marks.iter_mut().enumerate() {
                    if !r.datagrams.iter().any(|d| d.key.identification == other as u32) {
                        m.fill(false);
                    }
                }
            }
            let mark = &mut marks[usize::from(id)];
            let range = offset * 8..offset * 8 + len;
            match result {
                Ok(None) => {
                    if r.datagrams.iter().any(|d| d.key.identification == u32::from(id)) {
                        prop_assert!(mark[range.clone()].iter().all(|m| !m));
                        mark[range].fill(true);
                    }
                }
                Ok(Some(whole)) => {
                    prop_assert!(mark[range.clone()].iter().all(|m| !m));
                    mark[range].fill(true);
                    prop_assert_eq!(mark.iter().filter(|m| **m).count(), whole.payload.len());
                    prop_assert!(mark[..whole.payload.len()].iter().all(|m| *m));
                    prop_assert!(whole.payload.iter().all(|b| *b == id as u8));
                    mark.fill(false);
                }
                Err(DropReason::FragmentDuplicate | DropReason::FragmentBadLength) => {}
                Err(_) => mark.fill(false),
            }
            prop_assert!(r.len() <= limits.datagrams && r.bytes <= limits.bytes);
            let kept: usize = r.datagrams.iter().flat_map(|d| &d.pieces).map(|p| p.bytes.len() + PIECE_COST).sum();
            prop_assert_eq!(kept, r.bytes);
        }
    }
}

#[test]
fn an_overlap_ends_the_datagram() {
    let mut r = Reassembler::new(Limits::default());
    assert_eq!(give(&mut r, 1, 0, true, &[1; 24], T0), Ok(None));
    let overlap = give(&mut r, 1, 16, false, &[1; 24], T0);
    assert_eq!(overlap, Err(DropReason::FragmentOverlap));
    assert!(r.is_empty());
}

#[test]
fn the_same_place_with_other_bytes_is_an_overlap() {
    let mut r = Reassembler::new(Limits::default());
    assert_eq!(give(&mut r, 1, 0, true, &[1; 8], T0), Ok(None));
    assert_eq!(
        give(&mut r, 1, 0, true, &[1; 8], T0),
        Err(DropReason::FragmentDuplicate)
    );
    assert_eq!(
        give(&mut r, 1, 0, true, &[2; 8], T0),
        Err(DropReason::FragmentOverlap)
    );
}

#[test]
fn lengths_that_cannot_be() {
    let mut r = Reassembler::new(Limits::default());
    let bad = Err(DropReason::FragmentBadLength);
    assert_eq!(give(&mut r, 1, 0, true, &[0; 9], T0), bad);
    assert_eq!(give(&mut r, 1, 8, false, &[], T0), bad);
    let beyond = Err(DropReason::FragmentBeyondEnd);
    assert_eq!(give(&mut r, 1, 65_528, false, &[0; 8], T0), beyond);
    assert!(r.is_empty());
    // Beyond the last fragment, before it, and two last fragments.
    assert_eq!(give(&mut r, 1, 16, false, &[0; 8], T0), Ok(None));
    assert_eq!(give(&mut r, 1, 24, true, &[0; 8], T0), beyond);
    assert_eq!(give(&mut r, 2, 16, true, &[0; 8], T0), Ok(None));
    assert_eq!(give(&mut r, 2, 8, false, &[0; 8], T0), beyond);
    assert_eq!(give(&mut r, 3, 16, false, &[0; 8], T0), Ok(None));
    assert_eq!(give(&mut r, 3, 8, false, &[0; 8], T0), beyond);
    assert!(r.is_empty());
}

#[test]
fn the_longest_datagram() {
    let mut r = Reassembler::new(Limits::default());
    let m = message(MAX_IPV4_PAYLOAD as usize);
    let mut whole = None;
    for p in fragments(m.len(), 1500) {
        let bytes = &m[p.offset..p.offset + p.len];
        whole = give(&mut r, 1, p.offset, p.more, bytes, T0).unwrap();
    }
    assert_eq!(whole.unwrap().payload, m);
    assert_eq!(r.bytes, 0);
}

/// RFC 1122 section 3.3.2: what comes after the time is the beginning of another datagram, not the
/// end of the one that is over.
#[test]
fn what_comes_too_late_completes_nothing() {
    for (late, whole) in [(TIMEOUT_MS - 1, true), (TIMEOUT_MS, false)] {
        let mut r = Reassembler::new(Limits::default());
        assert_eq!(give(&mut r, 1, 0, true, &[7; 8], T0), Ok(None));
        let last = give(&mut r, 1, 8, false, &[8; 8], T0.after_ms(late));
        assert_eq!(last.map(|all| all.is_some()), Ok(whole), "{late}");
        let timeouts = r.drops().get(DropReason::ReassemblyTimeout);
        assert_eq!(
            (timeouts, r.len()),
            (u64::from(!whole), usize::from(!whole))
        );
    }
    let mut r = Reassembler::new(Limits::default());
    assert_eq!(give(&mut r, 1, 0, true, &[7; 8], T0), Ok(None));
    assert_eq!(give(&mut r, 2, 0, true, &[7; 8], T0.after_ms(1)), Ok(None));
    assert_eq!(r.expire(T0.after_ms(TIMEOUT_MS)), 1);
    assert_eq!(r.expire(T0.after_ms(TIMEOUT_MS)), 0);
    assert_eq!(r.len(), 1);
}

#[test]
fn time_runs_out() {
    let mut r = Reassembler::new(Limits::default());
    assert_eq!(give(&mut r, 1, 0, true, &[7; 8], T0), Ok(None));
    assert_eq!(give(&mut r, 2, 8, true, &[8; 8], T0.after_ms(10)), Ok(None));
    assert_eq!(r.deadline(), Some(T0.after_ms(TIMEOUT_MS)));
    assert_eq!(r.expire(T0.after_ms(TIMEOUT_MS - 1)), 0);
    assert_eq!(r.len(), 2);
    let mut told = Vec::new();
    let gone = r.expire_with(T0.after_ms(TIMEOUT_MS + 10), |h, first| {
        told.push((h.identification, first.to_vec()));
    });
    assert_eq!(gone, 2);
    assert_eq!(told, [(1, vec![7; 8])], "only whose beginning is there");
    assert_eq!(r.drops().get(DropReason::ReassemblyTimeout), 2);
    assert!(r.is_empty() && r.deadline().is_none());
}

#[test]
fn the_oldest_makes_room() {
    let limits = Limits {
        datagrams: 3,
        bytes: 10_000,
        pieces: 2,
        ..Limits::default()
    };
    let mut r = Reassembler::new(limits);
    for id in 0..5 {
        assert_eq!(give(&mut r, id, 0, true, &[0; 8], T0), Ok(None));
    }
    assert_eq!(r.len(), 3);
    assert_eq!(r.drops().get(DropReason::ReassemblyEvicted), 2);
    assert_eq!(give(&mut r, 4, 16, true, &[0; 8000], T0), Ok(None));
    assert_eq!(give(&mut r, 3, 16, true, &[0; 8000], T0), Ok(None));
    assert_eq!(r.len(), 1, "for bytes 2 goes, then 4");
    assert_eq!(r.drops().get(DropReason::ReassemblyEvicted), 4);
    assert_eq!(
        give(&mut r, 3, 8, true, &[0; 8], T0),
        Err(DropReason::FragmentTooMany)
    );
    assert_eq!((r.len(), r.bytes), (0, 0), "it went with its datagram");
}

#[test]
fn congestion_experienced_survives() {
    let ecn = |bits: [u8; 2]| {
        let mut r = Reassembler::new(Limits::default());
        let mut last = Ok(None);
        for (i, ecn) in bits.into_iter().enumerate() {
            let h = Ipv4Header {
                tos: 0xb8 | ecn,
                fragment_offset: i as u16 * 8,
                more_fragments: i == 0,
                ..header(9)
            };
            last = r.add(&h, &[0; 8], T0);
        }
        last.map(|w| w.map(|w| w.header.tos))
    };
    assert_eq!(ecn([2, 3]), Ok(Some(0xbb)));
    assert_eq!(ecn([0, 0]), Ok(Some(0xb8)));
    assert_eq!(ecn([1, 1]), Ok(Some(0xb9)));
    assert_eq!(ecn([3, 0]), Err(DropReason::FragmentEcn));
}

#[test]
fn ipv6_uses_the_same() {
    let mut r = Reassembler::<u8>::new(Limits::default());
    let key = Key {
        source: "fd00::1".parse().unwrap(),
        destination: "fd00::2".parse().unwrap(),
        identification: 0xdead_beef,
        protocol: 0,
    };
    let part = |offset, more| Fragment {
        offset,
        more,
        ecn: 0,
        bytes: &[9; 8],
    };
    assert_eq!(r.put(key, &2, &part(8, false), 65_535, T0), Ok(None));
    let whole = r
        .put(key, &1, &part(0, true), 65_535, T0)
        .unwrap()
        .unwrap()
        .0;
    assert_eq!((whole.header, whole.payload), (1, vec![9; 16]));
}

/// A fragment of datagram `id` from host `host`, no other following at once.
fn from(r: &mut Reassembler, host: u8, id: u16, len: usize) -> Result<(), DropReason> {
    let h = Ipv4Header {
        source: Ipv4Addr::new(10, 0, 0, host),
        more_fragments: true,
        ..header(id)
    };
    r.add(&h, &vec![0; len], T0)
        .map(|whole| assert!(whole.is_none()))
}

fn kept(r: &Reassembler) -> Vec<(IpAddr, u32)> {
    let keys = r.datagrams.iter().map(|d| d.key);
    keys.map(|k| (k.source, k.identification)).collect()
}

#[test]
fn one_source_cannot_push_out_another_by_number() {
    let limits = Limits {
        datagrams: 8,
        source_datagrams: 3,
        ..Limits::default()
    };
    let mut r = Reassembler::new(limits);
    from(&mut r, 7, 1, 8).unwrap();
    for id in 0..50 {
        from(&mut r, 9, id, 8).unwrap();
    }
    let (other, greedy) = (IpAddr::from([10, 0, 0, 7]), IpAddr::from([10, 0, 0, 9]));
    assert_eq!(
        kept(&r),
        [(other, 1), (greedy, 47), (greedy, 48), (greedy, 49)]
    );
    assert_eq!(r.drops().get(DropReason::ReassemblyEvicted), 47);
}

#[test]
fn one_source_cannot_push_out_another_by_bytes() {
    let limits = Limits {
        source_bytes: 2_000,
        bytes: 4_000,
        ..Limits::default()
    };
    let mut r = Reassembler::new(limits);
    from(&mut r, 7, 1, 800).unwrap();
    for id in 0..50 {
        from(&mut r, 9, id, 800).unwrap();
    }
    let (other, greedy) = (IpAddr::from([10, 0, 0, 7]), IpAddr::from([10, 0, 0, 9]));
    assert_eq!(kept(&r), [(other, 1), (greedy, 48), (greedy, 49)]);
    // More than the share in one datagram: all of the source's go, no others.
    from(&mut r, 9, 99, 2_400).unwrap();
    assert_eq!(kept(&r), [(other, 1)]);
    assert_eq!(r.bytes, 800 + PIECE_COST);
}

/// What is just at its limit stays.
#[test]
fn the_limits_can_be_reached() {
    for source in [true, false] {
        let cost = 800 + PIECE_COST;
        let mut limits = Limits::default();
        if source {
            limits.source_bytes = 2 * cost;
        } else {
            limits.bytes = 2 * cost;
        }
        let mut r = Reassembler::new(limits);
        for id in [1, 2] {
            assert_eq!(give(&mut r, id, 0, true, &[7; 800], T0), Ok(None));
        }
        assert_eq!((r.len(), r.is_empty()), (2, false));
        assert_eq!(give(&mut r, 2, 800, true, &[7; 8], T0), Ok(None));
        assert_eq!(r.len(), 1);
    }
}
