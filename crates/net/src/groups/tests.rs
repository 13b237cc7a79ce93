//! Which reports are sent about groups, and when.

mod shares;
mod sources;

use super::*;
use std::iter::empty;

/// A session of a user without bounds.
const ROOTS: Member = Member {
    session: 7,
    user: None,
};

/// Filters of a membership, before and after a change.
type Change<'a, A> = (Filter<'a, A>, Filter<'a, A>);

impl<A: Copy + Ord> Groups<A> {
    /// A membership of [`ROOTS`] changes; whether there is room for that.
    fn turn(&mut self, group: A, change: Change<'_, A>, now: Instant) -> bool {
        self.change(group, ROOTS, change, now).is_ok()
    }

    fn join(&mut self, group: A, now: Instant) -> bool {
        self.turn(group, (Filter::NONE, Filter::ALL), now)
    }

    fn leave(&mut self, group: A, now: Instant) {
        assert!(self.turn(group, (Filter::ALL, Filter::NONE), now));
    }
}

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000)
}

fn told(groups: &mut Groups<u8>, ms: u64) -> Vec<(u8, Record)> {
    let mut all = Vec::new();
    groups.poll(at(ms), |report| all.push((report.group, report.record)));
    all
}

#[test]
fn a_change_is_told_at_once_and_again_within_a_second() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)));
    assert_eq!(told(&mut groups, 0), [(1, Record::ToExclude)]);
    assert!(groups.deadline().is_some_and(|due| due <= at(1_000)));
    assert_eq!(told(&mut groups, 1_000), [(1, Record::ToExclude)]);
    assert_eq!(groups.deadline(), None);
    groups.leave(1, at(5_000));
    assert!(!groups.contains(1));
    assert_eq!(told(&mut groups, 5_000), [(1, Record::ToInclude)]);
    assert_eq!(told(&mut groups, 6_000), [(1, Record::ToInclude)]);
    assert_eq!(
        (told(&mut groups, 9_000), groups.deadline()),
        (vec![], None)
    );
}

#[test]
fn the_last_one_to_leave_is_told_of() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)) && groups.join(1, at(0)));
    told(&mut groups, 0);
    told(&mut groups, 1_000);
    groups.leave(1, at(2_000));
    assert!(groups.contains(1));
    assert_eq!(told(&mut groups, 2_000), []);
    groups.leave(1, at(3_000));
    assert_eq!(told(&mut groups, 3_000), [(1, Record::ToInclude)]);
    // A member that returns before its leave was reported twice has joined.
    assert!(groups.join(1, at(3_001)));
    assert_eq!(told(&mut groups, 3_001), [(1, Record::ToExclude)]);
    assert!(
        groups.turn(9, (Filter::ALL, Filter::NONE), at(4_000)),
        "it has none"
    );
}

#[test]
fn queries_are_answered_in_time_for_what_is_listened_to() {
    let mut groups = Groups::new(7);
    for group in [1, 2] {
        assert!(groups.join(group, at(0)));
    }
    told(&mut groups, 0);
    told(&mut groups, 1_000);
    groups.asked_all(100, at(2_000));
    // A second one does not put the first one's answer off.
    groups.asked_all(100_000, at(2_000));
    assert!(groups.deadline().is_some_and(|due| due <= at(2_100)));
    let both = [(1, Record::IsExclude), (2, Record::IsExclude)];
    assert_eq!(told(&mut groups, 2_100), both);
    groups.asked(2, empty(), 100, at(3_000));
    groups.asked(3, empty(), 100, at(3_000));
    assert_eq!(told(&mut groups, 3_100), [(2, Record::IsExclude)]);
    assert_eq!(groups.deadline(), None);
}

#[test]
fn answers_are_spread() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)));
    told(&mut groups, 0);
    told(&mut groups, 1_000);
    let mut due = Vec::new();
    for round in 0..20 {
        let now = 2_000 + round * 20_000;
        groups.asked_all(10_000, at(now));
        due.extend(groups.deadline().map(|due| due.0 - at(now).0));
        told(&mut groups, now + 10_000);
    }
    assert!(due.iter().any(|d| *d < 5_000_000) && due.iter().any(|d| *d > 5_000_000));
}

#[test]
fn all_are_told_of_again_when_the_link_has_come_back() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)) && groups.join(2, at(0)));
    for ms in [0, 1_000] {
        assert_eq!(told(&mut groups, ms).len(), 2);
    }
    groups.leave(2, at(2_000));
    for ms in [2_000, 3_000] {
        assert_eq!(told(&mut groups, ms), [(2, Record::ToInclude)]);
    }
    groups.tell_again(at(4_000));
    assert_eq!(groups.deadline(), Some(at(4_000)));
    for ms in [4_000, 5_000] {
        assert_eq!(told(&mut groups, ms), [(1, Record::ToExclude)]);
    }
    assert_eq!(groups.deadline(), None);
}

/// Nothing is said before its time, and what is due then is said; a group that is left is not
/// listened to although its end is not told yet.
#[test]
fn reports_are_due_at_their_time_and_about_members() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(5)) && groups.join(2, at(5)));
    assert_eq!(told(&mut groups, 4), []);
    assert_eq!(told(&mut groups, 5).len(), 2);
    let next = groups.deadline().expect("another report");
    let mut all = vec![];
    groups.poll(Instant(next.0 - 1), |report| all.push(report.group));
    assert_eq!(all, []);
    groups.poll(next, |report| all.push(report.group));
    assert!(!all.is_empty());
    told(&mut groups, 2_000);
    groups.leave(2, at(3_000));
    assert_eq!(groups.iter().collect::<Vec<u8>>(), [1]);
    groups.tell_again(at(3_000));
    let both = [(1, Record::ToExclude), (2, Record::ToInclude)];
    assert_eq!(told(&mut groups, 3_000), both);
    // A query is answered for the one, and not for the other.
    groups.asked(2, empty(), 0, at(3_000));
    groups.asked(1, empty(), 0, at(3_000));
    let answers: Vec<_> = told(&mut groups, 3_000)
        .into_iter()
        .filter(|(_, record)| *record == Record::IsExclude)
        .collect();
    assert_eq!(answers, [(1, Record::IsExclude)]);
    groups.asked_all(0, at(3_000));
    let answers = told(&mut groups, 3_000);
    assert!(answers.contains(&(1, Record::IsExclude)));
    assert!(!answers.contains(&(2, Record::IsExclude)));
    // A join is told from its moment on, within a second.
    for seed in 0..50 {
        let mut groups: Groups<u8> = Groups::new(seed);
        groups.join(1, at(100));
        told(&mut groups, 100);
        let due = groups.deadline().expect("the second report");
        assert!((at(100)..=at(1_100)).contains(&due), "{due:?}");
    }
}

/// A link that comes back changes nothing for a group that was left, nor does a query.
#[test]
fn what_was_left_is_told_of_no_more_often() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)));
    told(&mut groups, 0);
    told(&mut groups, 1_000);
    groups.leave(1, at(2_000));
    assert_eq!(told(&mut groups, 2_000), [(1, Record::ToInclude)]);
    let due = groups.deadline();
    groups.tell_again(at(2_000));
    groups.asked(1, empty(), 0, at(2_000));
    assert_eq!(groups.deadline(), due);
    assert_eq!(told(&mut groups, 3_000), [(1, Record::ToInclude)]);
    assert_eq!(groups.deadline(), None);
}

/// A poll for one group's sake tells nothing of another whose report is due later.
#[test]
fn each_group_is_told_of_at_its_own_time() {
    let mut groups = Groups::new(7);
    assert!(groups.join(1, at(0)));
    told(&mut groups, 0);
    let again = groups.deadline().expect("the second report");
    assert!(again > at(1));
    assert!(groups.join(2, at(1)));
    assert_eq!(told(&mut groups, 1), [(2, Record::ToExclude)]);
}

/// Older routers are told this alone.
#[test]
fn a_report_says_whether_anything_of_the_group_is_received() {
    let mut groups = Groups::new(7);
    let is_member = |groups: &mut Groups<u8>, ms| {
        let mut all = vec![];
        groups.poll(at(ms), |report| all.push(report.is_member));
        all
    };
    assert!(groups.join(1, at(0)));
    assert_eq!(is_member(&mut groups, 0), [true]);
    groups.leave(1, at(1));
    assert_eq!(is_member(&mut groups, 1), [false]);
}
