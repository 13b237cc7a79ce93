//! How much room each session and each user has.

use super::super::Mode::Include;
use super::*;

const HALF: u32 = MOST as u32 / 2;
const QUARTER: u32 = HALF / 2;

const fn root(session: u32) -> Member {
    Member {
        session,
        user: None,
    }
}

const fn of_user(user: u32, session: u32) -> Member {
    Member {
        session,
        user: Some(user),
    }
}

const fn include(sources: &[u32]) -> Filter<'_, u32> {
    Filter {
        mode: Include,
        sources,
    }
}

fn joins(groups: &mut Groups<u32>, by: Member, group: u32) -> Result<(), Full> {
    groups.change(group, by, (Filter::NONE, Filter::ALL), at(0))
}

fn leaves(groups: &mut Groups<u32>, by: Member, group: u32) {
    let change = (Filter::ALL, Filter::NONE);
    groups.change(group, by, change, at(0)).expect("it leaves");
}

/// How many of these groups are joined until one is not, and why not.
fn fill(
    groups: &mut Groups<u32>,
    by: Member,
    mut all: std::ops::Range<u32>,
) -> (u32, Option<Full>) {
    let first = all.start;
    let refused = all.find_map(|group| Some((group, joins(groups, by, group).err()?)));
    match refused {
        Some((group, full)) => (group - first, Some(full)),
        None => (all.end - first, None),
    }
}

/// A session has half of the room, a user a quarter in all of its sessions, and there is an end to
/// all of it.
#[test]
fn nobody_takes_all_of_the_room() {
    let mut groups = Groups::new(7);
    let taken = fill(&mut groups, root(1), 0..10_000);
    assert_eq!(taken, (HALF, Some(Full::Session)));
    let of_one = fill(&mut groups, of_user(5, 2), 20_000..20_003);
    assert_eq!(of_one, (3, None));
    let of_same = fill(&mut groups, of_user(5, 3), 30_000..40_000);
    assert_eq!(of_same, (QUARTER - 3, Some(Full::User)));
    let of_other = fill(&mut groups, of_user(6, 4), 40_000..50_000);
    assert_eq!(of_other, (QUARTER, Some(Full::User)));
    assert_eq!(groups.iter().count(), MOST);
    assert_eq!(joins(&mut groups, root(9), 60_000), Err(Full::Link));
    assert_eq!(groups.iter().count(), MOST, "who was refused joined none");
    // What is there takes no more.
    assert_eq!(joins(&mut groups, root(9), 0), Ok(()));
    assert_eq!(joins(&mut groups, root(1), 0), Ok(()));
}

/// A group counts once for each session and user that has members in it, and until the last of
/// them has left.
#[test]
fn a_group_counts_once_for_each_that_is_in_it() {
    let mut groups = Groups::new(7);
    let (one, other) = (of_user(5, 1), of_user(5, 2));
    for by in [one, one, other] {
        assert_eq!(joins(&mut groups, by, 0), Ok(()));
    }
    let taken = fill(&mut groups, of_user(5, 3), 1..10_000);
    assert_eq!(taken, (QUARTER - 1, Some(Full::User)));
    for by in [one, other, one] {
        leaves(&mut groups, by, 0);
        assert_eq!(joins(&mut groups, one, 999), Err(Full::User));
    }
    // Somebody else keeps the group; this user has left it.
    assert_eq!(joins(&mut groups, root(9), 0), Ok(()));
    assert_eq!(joins(&mut groups, one, 999), Ok(()));
    assert_eq!(joins(&mut groups, one, 0), Err(Full::User));
}

/// A group that was left takes its last member's room until that was told as often as it has to be:
/// nobody fills the table with groups that are joined and left again.
#[test]
fn what_was_left_takes_room_until_it_was_told() {
    let mut groups = Groups::new(7);
    let (one, other) = (of_user(5, 1), of_user(6, 2));
    for group in 0..QUARTER {
        assert_eq!(joins(&mut groups, one, group), Ok(()));
        leaves(&mut groups, one, group);
    }
    assert_eq!(joins(&mut groups, one, 999), Err(Full::User));
    assert_eq!(joins(&mut groups, one, 3), Ok(()), "it has room for that");
    leaves(&mut groups, one, 3);
    // Of the last one, and once another is in it, not of the one before.
    assert_eq!(joins(&mut groups, other, 3), Ok(()));
    assert_eq!(joins(&mut groups, one, 999), Ok(()));
    assert_eq!(joins(&mut groups, one, 998), Err(Full::User));
    for ms in [0, 1_000, 2_000] {
        groups.poll(at(ms), |_| ());
    }
    let taken = fill(&mut groups, one, 1_000..10_000);
    assert_eq!(taken, (QUARTER - 1, Some(Full::User)));
}

/// As of groups, of the sources of one.
#[test]
fn nobody_lists_all_of_the_sources() {
    let mut groups = Groups::new(7);
    let all: Vec<u32> = (0..=MOST_SOURCES as u32).collect();
    let mut lists = |by, group, sources: std::ops::Range<usize>| {
        let change = (Filter::NONE, include(&all[sources]));
        groups.change(group, by, change, at(0))
    };
    let (half, quarter) = (MOST_SOURCES / 2, MOST_SOURCES / 4);
    assert_eq!(lists(of_user(5, 2), 1, 0..quarter), Ok(()));
    assert_eq!(
        lists(of_user(5, 3), 1, quarter..quarter + 1),
        Err(Full::User)
    );
    // What it lists already takes no more.
    assert_eq!(lists(of_user(5, 3), 1, 0..quarter), Ok(()));
    assert_eq!(lists(of_user(5, 3), 2, 0..quarter), Ok(()), "another group");
    assert_eq!(lists(root(1), 1, quarter..quarter + half), Ok(()));
    assert_eq!(lists(root(1), 1, 0..1), Err(Full::Session));
    assert_eq!(lists(root(4), 1, quarter + half..all.len() - 1), Ok(()));
    assert_eq!(lists(root(8), 1, all.len() - 1..all.len()), Err(Full::Link));
    assert_eq!(lists(root(8), 1, 0..half), Ok(()));
    assert_eq!(
        groups.change(1, root(8), (Filter::NONE, Filter::ALL), at(0)),
        Ok(())
    );
    assert!(groups.permits(1, 9_999));
}

/// A change that has no room leaves the membership as it is; of what it lists no longer there is room
/// for others.
#[test]
fn a_list_that_has_no_room_stays_as_it_is() {
    let mut groups = Groups::new(7);
    let all: Vec<u32> = (0..MOST_SOURCES as u32 / 4).collect();
    let by = of_user(5, 1);
    let change = |groups: &mut Groups<u32>, from, to| groups.change(1, by, (from, to), at(0));
    let (first, rest) = all.split_at(2);
    assert_eq!(change(&mut groups, Filter::NONE, include(first)), Ok(()));
    assert_eq!(change(&mut groups, Filter::NONE, include(rest)), Ok(()));
    let longer = include(&[7_777, 8_888, 9_999]);
    assert_eq!(change(&mut groups, include(first), longer), Err(Full::User));
    assert!(groups.permits(1, first[0]) && !groups.permits(1, 7_777));
    // What it lists before and after takes its room on.
    let longer = include(&[0, 1, 9_999]);
    assert_eq!(change(&mut groups, include(first), longer), Err(Full::User));
    let other = [first[0], 9_999];
    let done = change(&mut groups, include(first), include(&other));
    assert_eq!(done, Ok(()));
    assert!(groups.permits(1, first[0]) && groups.permits(1, 9_999));
    assert!(!groups.permits(1, first[1]));
}

/// What was left and told of as often as it has to be is forgotten: there is room for another.
#[test]
fn a_group_that_was_left_makes_room() {
    let mut groups = Groups::new(7);
    for session in [1, 2] {
        let mut own = (0..HALF).map(|group| session * HALF + group);
        assert!(own.all(|group| joins(&mut groups, root(session), group).is_ok()));
    }
    leaves(&mut groups, root(1), HALF + 3);
    let last = |groups: &mut Groups<u32>| joins(groups, root(3), 9_999);
    assert_eq!(last(&mut groups), Err(Full::Link), "its end is to be told");
    for ms in [0, 1_000, 2_000] {
        groups.poll(at(ms), |_| ());
    }
    assert_eq!(last(&mut groups), Ok(()));
    assert_eq!(joins(&mut groups, root(1), HALF + 3), Err(Full::Link));
}

/// Of who has no group any more nothing is kept, for sessions come and go.
#[test]
fn who_has_left_all_groups_is_forgotten() {
    let mut groups = Groups::new(7);
    for session in [1, 2] {
        assert_eq!(joins(&mut groups, of_user(5, session), 0), Ok(()));
    }
    for session in [1, 2] {
        leaves(&mut groups, of_user(5, session), 0);
    }
    for ms in [0, 1_000, 2_000] {
        groups.poll(at(ms), |_| ());
    }
    assert_eq!(format!("{:?}", groups.taken), format!("{:?}", Taken::NONE));
}

/// To leave a group without being in it takes no room, whether there is such a group or not.
#[test]
fn who_leaves_what_it_is_not_in_takes_no_room() {
    let mut groups = Groups::new(7);
    let (one, other) = (of_user(5, 1), of_user(6, 2));
    for group in 0..QUARTER {
        leaves(&mut groups, one, group);
    }
    assert_eq!(joins(&mut groups, one, 999), Ok(()));
    for group in 0..QUARTER - 1 {
        assert_eq!(joins(&mut groups, one, group), Ok(()));
        leaves(&mut groups, one, group);
        let none = (Filter::NONE, Filter::NONE);
        assert_eq!(groups.change(group, other, none, at(0)), Ok(()));
    }
    let taken = fill(&mut groups, other, 1_000..10_000);
    assert_eq!(taken, (QUARTER, Some(Full::User)));
}
