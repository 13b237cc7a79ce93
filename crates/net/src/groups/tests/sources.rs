//! Which sources are received, and what routers are told of them.

use super::super::Mode::{Exclude, Include};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const SOME: [Filter<'static, u8>; 2] = [include(&[1, 2]), exclude(&[2, 3])];

const fn include(sources: &[u8]) -> Filter<'_, u8> {
    Filter {
        mode: Include,
        sources,
    }
}

const fn exclude(sources: &[u8]) -> Filter<'_, u8> {
    Filter {
        mode: Exclude,
        sources,
    }
}

fn told(groups: &mut Groups<u8>, ms: u64) -> Vec<(Record, Vec<u8>)> {
    let mut all = Vec::new();
    groups.poll(at(ms), |report| {
        all.push((report.record, report.sources.to_vec()))
    });
    all
}

/// Group 1, received so, of which routers know.
fn settled(filter: Filter<'_, u8>) -> Groups<u8> {
    let mut groups = Groups::new(7);
    assert!(groups.turn(1, (Filter::NONE, filter), at(0)));
    for ms in [0, 1_000] {
        told(&mut groups, ms);
    }
    assert_eq!(groups.deadline(), None);
    groups
}

/// What routers are told of a change, each time.
fn told_of(from: Filter<'_, u8>, to: Filter<'_, u8>) -> [Vec<(Record, Vec<u8>)>; 3] {
    let mut groups = settled(from);
    assert!(groups.turn(1, (from, to), at(2_000)));
    [2_000, 3_000, 4_000].map(|ms| told(&mut groups, ms))
}

/// The table of RFC 3376 section 5.1.
#[test]
fn changes_are_told_as_differences_and_twice() {
    use Record::{Allow, Block, ToExclude, ToInclude};
    for (from, to, said) in [
        (
            include(&[1, 2]),
            include(&[2, 3]),
            vec![(Allow, vec![3]), (Block, vec![1])],
        ),
        (
            exclude(&[1, 2]),
            exclude(&[2, 3]),
            vec![(Allow, vec![1]), (Block, vec![3])],
        ),
        (
            include(&[1, 2]),
            exclude(&[2, 3]),
            vec![(ToExclude, vec![2, 3])],
        ),
        (
            exclude(&[1, 2]),
            include(&[2, 3]),
            vec![(ToInclude, vec![2, 3])],
        ),
        (Filter::NONE, include(&[3]), vec![(Allow, vec![3])]),
        (include(&[3]), Filter::NONE, vec![(Block, vec![3])]),
        (exclude(&[3]), Filter::NONE, vec![(ToInclude, vec![])]),
        (include(&[3]), include(&[3, 3]), vec![]),
    ] {
        let expected = [said.clone(), said, vec![]];
        assert_eq!(told_of(from, to), expected, "{from:?} to {to:?}");
    }
}

/// A change that comes before the last one was told twice: both are told, the newer one twice
/// more (RFC 3376 section 5.1).
#[test]
fn changes_that_overlap_are_merged() {
    let mut groups = settled(include(&[1]));
    assert!(groups.turn(1, (Filter::NONE, include(&[2])), at(2_000)));
    assert_eq!(told(&mut groups, 2_000), [(Record::Allow, vec![2])]);
    assert!(groups.turn(1, (Filter::NONE, include(&[3])), at(2_000)));
    assert_eq!(told(&mut groups, 2_000), [(Record::Allow, vec![2, 3])]);
    assert_eq!(told(&mut groups, 3_000), [(Record::Allow, vec![3])]);
    // One that is taken back before it was told twice.
    assert!(groups.turn(1, (Filter::NONE, include(&[4])), at(4_000)));
    assert_eq!(told(&mut groups, 4_000), [(Record::Allow, vec![4])]);
    assert!(groups.turn(1, (include(&[4]), Filter::NONE), at(4_000)));
    for ms in [4_000, 5_000] {
        assert_eq!(told(&mut groups, ms), [(Record::Block, vec![4])]);
    }
    // Where the list has another meaning, all of it is told, and what changes in it meanwhile.
    assert!(groups.turn(1, (Filter::NONE, exclude(&[9])), at(6_000)));
    assert_eq!(told(&mut groups, 6_000), [(Record::ToExclude, vec![9])]);
    assert!(groups.turn(1, (exclude(&[9]), exclude(&[8])), at(6_000)));
    assert_eq!(told(&mut groups, 6_000), [(Record::ToExclude, vec![8])]);
    let last = vec![(Record::Allow, vec![9]), (Record::Block, vec![8])];
    assert_eq!(told(&mut groups, 7_000), last);
    assert_eq!(groups.deadline(), None);
}

#[test]
fn many_changes_at_once_are_told_as_the_whole_list() {
    let mut groups: Groups<u32> = Groups::new(7);
    assert!(groups.turn(1, (Filter::NONE, Filter::ALL), at(0)));
    for ms in [0, 1_000] {
        groups.poll(at(ms), |_| ());
    }
    let mut said = vec![];
    for source in 0..2_000 {
        let one = Filter {
            mode: Exclude,
            sources: &[source],
        };
        assert!(groups.turn(1, (Filter::ALL, one), at(2_000)));
        assert!(groups.turn(1, (one, Filter::ALL), at(2_000)));
    }
    for ms in [2_000, 3_000, 4_000] {
        groups.poll(at(ms), |r| said.push((r.record, r.sources.len())));
    }
    let most = said.iter().map(|(_, len)| *len).max();
    assert!(most <= Some(MOST_SOURCES), "{said:?}");
    assert_eq!(said[0], (Record::ToExclude, 0));
}

/// What the whole list says is told by it alone: what changes after that is told one by one again.
#[test]
fn the_whole_list_stands_for_the_changes_before_it() {
    let mut groups: Groups<u32> = Groups::new(7);
    assert!(groups.turn(1, (Filter::NONE, Filter::ALL), at(0)));
    for ms in [0, 1_000] {
        groups.poll(at(ms), |_| ());
    }
    for source in 0..=1_024 {
        let one = Filter {
            mode: Exclude,
            sources: &[source],
        };
        assert!(groups.turn(1, (Filter::ALL, one), at(2_000)));
        assert!(groups.turn(1, (one, Filter::ALL), at(2_000)));
    }
    let said = |groups: &mut Groups<u32>, ms| {
        let mut all = vec![];
        groups.poll(at(ms), |r| all.push((r.record, r.sources.to_vec())));
        all
    };
    assert_eq!(said(&mut groups, 2_000), [(Record::ToExclude, vec![])]);
    let last = Filter {
        mode: Exclude,
        sources: &[9_999],
    };
    assert!(groups.turn(1, (Filter::ALL, last), at(2_000)));
    assert_eq!(said(&mut groups, 2_000), [(Record::ToExclude, vec![9_999])]);
    assert_eq!(said(&mut groups, 3_000), [(Record::Block, vec![9_999])]);
}

/// RFC 3376 section 5.2: of the sources asked for, those that are received.
#[test]
fn queries_for_sources_are_answered_for_those_that_are_received() {
    for (filter, asked, answer) in [
        (SOME[0], vec![2, 3], Some((Record::IsInclude, vec![2]))),
        (SOME[1], vec![1, 2], Some((Record::IsInclude, vec![1]))),
        (SOME[0], vec![3, 4], None),
        (SOME[1], vec![2], None),
        (SOME[0], vec![], Some((Record::IsInclude, vec![1, 2]))),
        (SOME[1], vec![], Some((Record::IsExclude, vec![2, 3]))),
    ] {
        let mut groups = settled(filter);
        groups.asked(1, asked.iter().copied(), 100, at(2_000));
        let said: Vec<_> = answer.into_iter().collect();
        assert_eq!(told(&mut groups, 2_100), said, "{filter:?}: {asked:?}");
        assert_eq!(groups.deadline(), None);
    }
}

#[test]
fn what_is_asked_before_an_answer_is_answered_with_it() {
    let mut groups = settled(exclude(&[]));
    let asks = |groups: &mut Groups<u8>, sources: &[u8]| {
        groups.asked(1, sources.iter().copied(), 100, at(2_000));
    };
    asks(&mut groups, &[1, 2]);
    asks(&mut groups, &[2, 3]);
    assert_eq!(
        told(&mut groups, 2_100),
        [(Record::IsInclude, vec![1, 2, 3])]
    );
    // The sooner time counts.
    for within_ms in [100, 100_000] {
        groups.asked(1, [1].into_iter(), within_ms, at(2_000));
    }
    assert_eq!(told(&mut groups, 2_100), [(Record::IsInclude, vec![1])]);
    // All of it includes any source, in either order.
    for [first, second] in [[&[1][..], &[]], [&[], &[1]]] {
        asks(&mut groups, first);
        asks(&mut groups, second);
        assert_eq!(told(&mut groups, 2_100), [(Record::IsExclude, vec![])]);
    }
    // Of more than are kept, it is all.
    asks(&mut groups, &(0..=64).collect::<Vec<_>>());
    assert_eq!(told(&mut groups, 2_100), [(Record::IsExclude, vec![])]);
    asks(&mut groups, &(0..64).collect::<Vec<_>>());
    assert_eq!(told(&mut groups, 2_100)[0].1.len(), 64);
    // What was asked about a group that is then left is not answered.
    asks(&mut groups, &[1]);
    groups.leave(1, at(2_000));
    assert!(groups.join(1, at(2_000)));
    let joined = vec![(Record::ToExclude, vec![])];
    assert_eq!(told(&mut groups, 2_100), joined);
}

#[test]
fn a_link_that_returns_is_told_of_lists() {
    let mut groups = settled(include(&[1, 2]));
    groups.tell_again(at(4_000));
    for ms in [4_000, 5_000] {
        assert_eq!(told(&mut groups, ms), [(Record::ToInclude, vec![1, 2])]);
    }
    assert_eq!(groups.deadline(), None);
}

/// The state of a link by its definition (RFC 3376 section 3.2).
fn merged(members: &[Filter<'_, u8>]) -> (Mode, BTreeSet<u8>) {
    let lists = |mode| {
        let of_mode = members.iter().filter(move |m| m.mode == mode);
        of_mode.map(|m| m.sources.iter().copied().collect::<BTreeSet<u8>>())
    };
    let included: BTreeSet<u8> = lists(Include).flatten().collect();
    match lists(Exclude).reduce(|a, b| &a & &b) {
        Some(excluded) => (Exclude, &excluded - &included),
        None => (Include, included),
    }
}

/// A router that applies what it is told (RFC 3376 section 6.4, without its timers).
fn apply((mode, list): &mut (Mode, BTreeSet<u8>), record: Record, sources: &[u8]) {
    let sources: BTreeSet<u8> = sources.iter().copied().collect();
    match record {
        Record::ToInclude => (*mode, *list) = (Include, sources),
        Record::ToExclude => (*mode, *list) = (Exclude, sources),
        Record::Allow if *mode == Include => list.extend(sources),
        Record::Block if *mode == Exclude => list.extend(sources),
        Record::Allow | Record::Block => *list = &*list - &sources,
        Record::IsInclude | Record::IsExclude => unreachable!("nobody has asked"),
    }
}

fn filters() -> impl Strategy<Value = (bool, Vec<u8>)> {
    (any::<bool>(), proptest::collection::vec(0u8..6, 0..5))
}

proptest! {
    /// Memberships come, change and go, at any pace: the link receives what it should by
    /// definition, and a router that hears every report, or only the last one of each change,
    /// knows that.
    #[test]
    fn the_link_receives_what_its_memberships_do(
        steps in proptest::collection::vec((0usize..4, filters(), any::<bool>(), any::<bool>()), 0..40),
    ) {
        let mut groups = Groups::new(7);
        let mut members: Vec<(bool, Vec<u8>)> = vec![(true, vec![]); 4];
        let filter = |(includes, list): &(bool, Vec<u8>)| Filter {
            mode: if *includes { Include } else { Exclude },
            sources: list.clone().leak(),
        };
        let mut router = (Include, BTreeSet::new());
        let mut now = 0;
        for (who, to, heard, waits) in steps {
            let change = (filter(&members[who]), filter(&to));
            prop_assert!(groups.turn(1, change, at(now)));
            members[who] = to;
            let all: Vec<_> = members.iter().map(filter).collect();
            let expected = merged(&all);
            for source in 0..8 {
                let permits = all.iter().any(|f| f.permits(source));
                prop_assert_eq!(groups.permits(1, source), permits);
            }
            prop_assert_eq!(groups.contains(1), expected != (Include, BTreeSet::new()));
            if heard {
                groups.poll(at(now), |r| apply(&mut router, r.record, r.sources));
                prop_assert_eq!(&router, &expected);
            }
            if waits {
                // The first report of each change is lost, and the second one is not.
                groups.poll(at(now), |_| ());
                now += 1_000;
                groups.poll(at(now), |r| apply(&mut router, r.record, r.sources));
                prop_assert_eq!(&router, &expected);
            }
        }
    }
}
