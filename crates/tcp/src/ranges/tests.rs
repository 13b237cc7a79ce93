//! Held against a set of single positions.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn positions<const N: usize, const M: usize>(set: &RangeSet<N, M>, base: Pos) -> BTreeSet<Pos> {
    set.iter(base).flat_map(|(s, e)| s..e).collect()
}

fn is_canonical<const N: usize, const M: usize>(set: &RangeSet<N, M>, base: Pos) -> bool {
    let all: Vec<_> = set.iter(base).collect();
    all.iter().all(|(s, e)| s < e) && all.windows(2).all(|w| w[0].1 < w[1].0)
}

#[derive(Debug, Clone)]
enum Op {
    Insert(Pos, Pos),
    Trim(Pos),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let insert = (0i64..200, 0i64..30).prop_map(|(s, len)| Op::Insert(s, s + len));
    let trim = (0i64..40).prop_map(Op::Trim);
    proptest::collection::vec(prop_oneof![6 => insert, 1 => trim], 0..60)
}

proptest! {
    #[test]
    fn is_the_set_of_its_positions(
        ops in ops(),
        base in prop_oneof![Just(0i64), Just(u32::MAX as i64 - 100), 0i64..1 << 40],
    ) {
        let mut set = RangeSet::<2, 4>::new();
        let mut oracle = BTreeSet::new();
        let mut low = base;
        for op in ops {
            match op {
                Op::Insert(s, e) => {
                    let (s, e) = (low + s, low + e);
                    let before = oracle.len();
                    let mut with = oracle.clone();
                    with.extend(s..e);
                    match set.insert(low, s, e) {
                        Ok(new) => {
                            oracle = with;
                            prop_assert_eq!(new as usize, oracle.len() - before);
                        }
                        Err(Full) => {
                            prop_assert_eq!(set.len(), 4);
                            // It touches nothing that is there.
                            prop_assert!(!(s - 1..=e).any(|p| oracle.contains(&p)));
                        }
                    }
                }
                Op::Trim(by) => {
                    let gone = set.trim_below(low, low + by);
                    low += by;
                    let kept = oracle.split_off(&low);
                    prop_assert_eq!(gone as usize, oracle.len());
                    oracle = kept;
                }
            }
            prop_assert!(is_canonical(&set, low));
            prop_assert!(!set.is_empty() || set.more.is_none());
            prop_assert_eq!(&positions(&set, low), &oracle);
            for probe in [low, low + 7, low + 50] {
                prop_assert_eq!(set.find(low, probe).is_some(), oracle.contains(&probe));
                let count = oracle.range(low..probe).count() as u64;
                prop_assert_eq!(set.count_within(low, low, probe), count);
            }
        }
    }
}

/// Where no more may be kept than there is room for inline, nothing is allocated for one more.
#[test]
fn a_set_of_what_fits_inline_is_full_with_that() {
    let mut set = RangeSet::<2, 2>::new();
    assert_eq!(set.insert(0, 0, 5), Ok(5));
    assert_eq!(set.insert(0, 10, 15), Ok(5));
    assert_eq!(set.insert(0, 20, 25), Err(Full));
    assert_eq!(set.iter(0).collect::<Vec<_>>(), [(0, 5), (10, 15)]);
    assert!(set.more.is_none());
}
