//! Held against RFC 6675's definitions, byte by byte.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MSS: u32 = 10;

/// IsLost (SeqNum) of RFC 6675 section 4, read literally.
fn is_lost(sacked: &BTreeSet<Pos>, pos: Pos) -> bool {
    let above: Vec<Pos> = sacked.range(pos + 1..).copied().collect();
    let mut runs = 0;
    let mut last = None;
    for &p in &above {
        if last != Some(p - 1) {
            runs += 1;
        }
        last = Some(p);
    }
    runs >= DUP_THRESH || above.len() as u32 > (DUP_THRESH - 1) * MSS
}

proptest! {
    #[test]
    fn loss_and_holes(blocks in proptest::collection::vec((0i64..300, 1i64..40), 0..20), una in 0i64..50) {
        let mut board = Scoreboard::new();
        let mut oracle = BTreeSet::new();
        for (start, len) in blocks {
            let (start, end) = (una + start, una + start + len);
            let before = oracle.len();
            oracle.extend(start..end);
            prop_assert_eq!(board.add(una, start, end) as usize, oracle.len() - before);
        }
        prop_assert_eq!(board.sacked() as usize, oracle.len());
        let edge = board.lost_edge(una, MSS);
        for pos in una..una + 400 {
            if !oracle.contains(&pos) {
                prop_assert_eq!(pos < edge, is_lost(&oracle, pos), "{} {}", pos, edge);
            }
        }
        prop_assert_eq!(board.highest(una), oracle.last().map_or(una, |p| p + 1));
        for from in [una, una + 20, una + 100] {
            let limit = una + 250;
            let first = (from..limit).find(|p| !oracle.contains(p));
            let hole = first.map(|s| {
                (s, (s..limit).find(|p| oracle.contains(p)).unwrap_or(limit))
            });
            prop_assert_eq!(board.next_hole(una, from, limit), hole);
            let missing = (from..limit).filter(|p| !oracle.contains(p)).count() as u64;
            prop_assert_eq!(board.missing_within(una, from, limit), missing);
        }
    }

    #[test]
    fn advancing_forgets(blocks in proptest::collection::vec((0i64..300, 1i64..40), 0..20), by in 0i64..300) {
        let mut board = Scoreboard::new();
        let mut oracle = BTreeSet::new();
        for (start, len) in blocks {
            board.add(0, start, start + len);
            oracle.extend(start..start + len);
        }
        let kept = oracle.split_off(&by);
        prop_assert_eq!(board.advance(0, by) as usize, oracle.len());
        prop_assert_eq!(board.sacked() as usize, kept.len());
        prop_assert_eq!(board.is_reneged(by), kept.contains(&by));
    }
}

#[test]
fn thousands_of_blocks_are_bounded() {
    let mut board = Scoreboard::new();
    for i in 1..5_000 {
        board.add(0, i * 10, i * 10 + 1);
    }
    assert_eq!(board.len(), MAX_RANGES);
    assert_eq!(board.sacked() as usize, MAX_RANGES);
    board.clear();
    assert!(board.is_empty() && board.sacked() == 0);
}
