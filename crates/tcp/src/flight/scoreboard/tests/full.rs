//! A full table: what has room, what is joined when nothing has, and what is given up then.

use super::*;

/// As many ranges as the small table has places for, `less` fewer, sent a millisecond apart.
fn nearly_full(less: usize) -> Scoreboard {
    let b = flight((INLINE_RANGES - less) as i64);
    assert_eq!(b.len(), INLINE_RANGES - less);
    b
}

/// The larger table with all its places taken, by turns in the network and reported. Returns where
/// it ends.
fn without_room() -> (Scoreboard, Pos) {
    let mut b = Scoreboard::new();
    let end = MAX_RANGES as Pos * 1000;
    b.send(end, at(1_000), 0);
    // The last one needs but one place more, the others two.
    for i in (0..MAX_RANGES as Pos).rev().filter(|i| i % 2 == 1) {
        assert_eq!(b.sack(0, i * 1000, (i + 1) * 1000, |_| {}), 1_000);
    }
    assert_eq!(b.len(), MAX_RANGES);
    assert_eq!(b.sacked(), end as u64 / 2);
    (b, end)
}

fn is_right(b: &Scoreboard, end: Pos) {
    assert_eq!(b.check(0, end), Ok(()));
}

/// A report that cuts nothing needs no room.
#[test]
fn whole_ranges_are_reported_without_room() {
    for start in [0, 1_000, 62_000, 63_000] {
        let mut b = nearly_full(0);
        assert_eq!(b.sack(0, start, start + 1_000, |_| {}), 1_000);
        assert_eq!(b.len(), INLINE_RANGES);
        assert!(!b.ranges.are_many());
    }
    // With room for two, a report within a range needs no other table, and loses no time.
    let mut b = nearly_full(2);
    assert_eq!(b.sack(0, 5_200, 5_700, |_| {}), 500);
    assert_eq!(b.len(), INLINE_RANGES);
    assert!(!b.ranges.are_many());
    // The same where the room is at the front.
    let mut b = nearly_full(0);
    b.advance(0, 2_000, |_| {});
    assert_eq!(b.sack(2_000, 10_000, 11_000, |_| {}), 1_000);
    assert_eq!(b.sack(2_000, 5_200, 5_700, |_| {}), 500);
    assert_eq!(b.len(), INLINE_RANGES);
    assert!(!b.ranges.are_many());
}

/// Ranges of several times keep both in the larger table, and go on to be extended there.
#[test]
fn the_larger_table_has_the_times_of_the_smaller_one() {
    let mut b = Scoreboard::new();
    for tick in 0..INLINE_RANGES as i64 {
        for part in 0..2 {
            let us = 64 * tick + 5 * part;
            b.send(2 * tick * 1000 + (part + 1) * 1000, at(us as u64), 6);
        }
    }
    let before: Vec<SentRange> = b.iter(0).collect();
    assert!(before.iter().all(|s| s.at.since(s.first) == 5));
    b.sack(0, 500, 700, |_| {});
    b.sack(0, 2_500, 2_700, |_| {});
    assert!(b.ranges.are_many());
    let after: Vec<SentRange> = b.iter(0).collect();
    assert_eq!(after[after.len() - 20..], before[before.len() - 20..]);
    let (end, us) = (2 * INLINE_RANGES as i64 * 1000, 64 * INLINE_RANGES as u64);
    let len = b.len();
    for (sent, part) in [(1_000, 0), (2_000, 3), (3_000, 60)] {
        b.send(end + sent, at(us + part), 6);
    }
    assert_eq!(b.len(), len + 1, "sent in one tick");
    let last = b.iter(0).last().expect("a range");
    let times = (Stamp::new(at(us)), Stamp::new(at(us + 60)));
    assert_eq!((last.first, last.at), times);
    b.send(end + 4_000, at(us + 64), 6);
    assert_eq!(b.len(), len + 2);
}

/// The small table is left with room for a report.
#[test]
fn the_smaller_table_gets_what_it_has_room_for() {
    for len in INLINE_RANGES - 5..INLINE_RANGES + 8 {
        let mut b = flight(INLINE_RANGES as i64);
        for start in [500, 2_500, 4_500] {
            b.sack(0, start, start + 100, |_| {});
        }
        assert!(b.ranges.are_many());
        let una = 6_000;
        b.advance(0, una, |_| {});
        let mut end = INLINE_RANGES as Pos * 1000;
        while b.len() < len {
            end += 1_000;
            b.send(end, at(end as u64), 0);
        }
        b.shrink(end);
        assert!(!b.ranges.are_many());
        assert_eq!(b.len(), len.min(INLINE_RANGES - 2));
        assert_eq!(b.check(una, end), Ok(()));
    }
}

/// Where nothing can be joined, new data is counted to the last range, as not reported.
#[test]
fn new_data_always_has_a_place() {
    let (mut b, end) = without_room();
    b.send(end + 500, at(9_000), 0);
    assert_eq!(b.len(), MAX_RANGES);
    assert_eq!(b.sacked(), end as u64 / 2 - 1_000);
    let last = b.iter(0).last().expect("a range");
    assert_eq!((last.start, last.end), (end - 1_000, end + 500));
    assert!(last.in_network());
    assert_eq!(last.at, Stamp::new(at(9_000)));
    is_right(&b, end + 500);
    // So it is if the last one is lost.
    let (mut b, end) = without_room();
    b.forget_sacked(0);
    for i in (0..MAX_RANGES as Pos).filter(|i| i % 2 == 0) {
        b.sack(0, i * 1000, (i + 1) * 1000, |_| {});
    }
    b.mark_lost_within(0, end - 1_000, end);
    assert_eq!((b.len(), b.lost()), (MAX_RANGES, 1_000));
    b.send(end + 500, at(9_000), 0);
    assert_eq!((b.len(), b.lost()), (MAX_RANGES, 0));
    is_right(&b, end + 500);
}

/// A retransmission that cannot be told from the rest of its range counts for all of it, and for
/// no other.
#[test]
fn a_retransmission_that_has_no_room_counts_for_its_whole_range() {
    let (mut b, end) = without_room();
    b.mark_lost(0, |s| s.start < 6_000);
    assert_eq!(b.lost(), 3_000);
    b.repeat(0, 2_300, 2_600, at(9_000));
    let ranges: Vec<SentRange> = b.iter(0).take(6).collect();
    let states: Vec<RangeState> = ranges.iter().map(|s| s.state).collect();
    let (sacked, lost) = (RangeState::SACKED, RangeState::LOST);
    let again = RangeState::RETRANSMITTED;
    assert_eq!(states, [lost, sacked, again, sacked, lost, sacked]);
    assert_eq!((ranges[2].start, ranges[2].end), (2_000, 3_000));
    let times = |s: &SentRange| (s.first, s.at);
    let stamp = |us| (Stamp::new(at(us)), Stamp::new(at(us)));
    assert_eq!(times(&ranges[2]), stamp(9_000));
    assert_eq!(
        (times(&ranges[0]), times(&ranges[4])),
        (stamp(1_000), stamp(1_000))
    );
    assert!(!b.is_in_order(0));
    // From within one range to within the next but one: what lies between is reported.
    b.repeat(0, 2_999, 4_001, at(9_500));
    assert_eq!(b.lost(), 1_000);
    // What goes a third time was sent more than once, too.
    assert_eq!(b.retransmitted_in_network(0), 2_000);
    is_right(&b, end);
    // A range that only touches it is another one.
    let (mut b, end) = without_room();
    b.repeat(0, 1_000, 2_500, at(9_000));
    assert_eq!(b.retransmitted_in_network(0), 1_000);
    let (mut c, _) = without_room();
    c.repeat(0, 2_500, 4_000, at(9_000));
    assert_eq!(c.retransmitted_in_network(0), 1_000);
    is_right(&b, end);
}

/// Neighbours of which only one was retransmitted are joined if nothing else can be: it all
/// counts as retransmitted then, and the times are those of both.
#[test]
fn retransmitted_or_not_is_the_first_distinction_to_go() {
    let (mut b, end) = without_room();
    b.advance(0, 2_000, |_| {});
    b.repeat(2_000, 2_500, 3_000, at(5_000));
    b.send(end + 500, at(9_000), 0);
    assert_eq!(b.len(), MAX_RANGES);
    let sacked = b.sacked();
    assert_eq!(b.retransmitted_in_network(2_000), 500);
    b.send(end + 1_000, at(9_500), 0);
    assert_eq!((b.len(), b.sacked()), (MAX_RANGES, sacked));
    assert_eq!(b.retransmitted_in_network(2_000), 1_000);
    let first = b.iter(2_000).next().expect("a range");
    assert_eq!((first.end, first.state), (3_000, RangeState::RETRANSMITTED));
    let times = (Stamp::new(at(1_000)), Stamp::new(at(5_000)));
    assert_eq!((first.first, first.at), times);
    assert_eq!(b.check(2_000, end + 1_000), Ok(()));
}

/// Where all is acknowledged, the plain way is open again, unless the ranges lie in the larger table,
/// which it does not know.
#[test]
fn an_empty_table_is_in_order_if_it_is_the_small_one() {
    let mut b = nearly_full(0);
    let end = INLINE_RANGES as Pos * 1000;
    for start in (0..end).step_by(2_000) {
        b.repeat(0, start, start + 1_000, at(90_000));
    }
    b.send(end + 1_000, at(100_000), 0);
    assert!(!b.ranges.are_many() && !b.is_in_order(end));
    b.advance(0, end + 1_000, |_| {});
    assert!(b.is_in_order(end + 1_000));
    let (mut b, end) = without_room();
    b.advance(0, end, |_| {});
    assert!(!b.is_in_order(end));
}

/// What was sent again and is sent again was sent again.
#[test]
fn a_second_retransmission_is_one() {
    let mut b = flight(3);
    for us in [5_000, 9_000] {
        b.mark_lost_within(0, 1_000, 2_000);
        b.repeat(0, 1_000, 2_000, at(us));
        let second = b.iter(0).nth(1).expect("three ranges");
        assert_eq!(second.state, RangeState::RETRANSMITTED);
    }
}
