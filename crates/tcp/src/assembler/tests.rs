//! Compares a receiver with one that records every byte.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #[test]
    fn arrivals_in_any_order(arrivals in proptest::collection::vec((0i64..300, 1i64..40), 1..80)) {
        let mut assembler = Assembler::new();
        let mut oracle = BTreeSet::new();
        let mut rcv_nxt = 0;
        for (start, len) in arrivals {
            let end = start + len;
            if end <= rcv_nxt {
                continue;
            }
            let start = start.max(rcv_nxt);
            if start == rcv_nxt {
                oracle.extend(start..end);
                let old = rcv_nxt;
                rcv_nxt = assembler.advance(old, end);
            } else {
                let known = oracle.range(start..end).count() as u64;
                prop_assert_eq!(assembler.covered(rcv_nxt, start, end), known);
                if let Ok(new) = assembler.add(rcv_nxt, start, end) {
                    prop_assert_eq!(new, len.min(end - start) as u64 - known);
                    oracle.extend(start..end);
                }
            }
            let expected = (0..).find(|p| !oracle.contains(p)).unwrap();
            prop_assert_eq!(rcv_nxt, expected);
            let held: Vec<Pos> = assembler.iter(rcv_nxt).flat_map(|(s, e)| s..e).collect();
            let above: Vec<Pos> = oracle.range(rcv_nxt..).copied().collect();
            prop_assert_eq!(held, above);
        }
    }
}

#[test]
fn thousands_of_holes_are_bounded() {
    let mut assembler = Assembler::new();
    let mut refused = 0;
    for i in 1..5_000 {
        refused += u32::from(assembler.add(0, i * 10, i * 10 + 1).is_err());
    }
    assert_eq!(assembler.len(), MAX_RANGES);
    assert_eq!(refused as usize, 4_999 - MAX_RANGES);
    // What continues the stream is always taken, and gives room.
    assert_eq!(assembler.advance(0, 10), 11);
    assert_eq!(assembler.len(), MAX_RANGES - 1);
    assert!(assembler.add(11, 4_000, 4_001).is_ok());
}
