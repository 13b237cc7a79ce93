//! The table's own work: joining, and moving to the larger one and back.

use super::*;

/// As `flight`, of sends later than the clock's beginning.
fn later(n: i64) -> Scoreboard {
    let mut b = Scoreboard::new();
    for i in 0..n {
        b.send((i + 1) * 1000, at(50_000 + i as u64 * 1000), 0);
    }
    b
}

fn all(b: &Scoreboard, una: Pos) -> Vec<SentRange> {
    b.iter(una).collect()
}

fn stamp(us: u64) -> Stamp {
    Stamp::new(at(us))
}

/// A range that others have joined was sent from when the first of them was to when the last one
/// was, in whatever order that happened.
#[test]
fn what_is_joined_was_sent_between_the_two_times() {
    let mut b = later(4);
    b.sack(0, 1_000, 3_000, |_| {});
    let ranges = all(&b, 0);
    assert_eq!(ranges.len(), 3);
    assert_eq!(
        (ranges[1].first, ranges[1].at),
        (stamp(51_000), stamp(52_000))
    );
    let mut b = later(3);
    b.mark_lost_within(0, 0, 1_000);
    b.repeat(0, 0, 1_000, at(60_000));
    b.sack(0, 0, 3_000, |_| {});
    let ranges = all(&b, 0);
    assert_eq!(ranges.len(), 1);
    assert_eq!(
        (ranges[0].first, ranges[0].at),
        (stamp(51_000), stamp(60_000))
    );
}

/// What is repeated, or found lost no more, joins its neighbours again.
#[test]
fn neighbours_of_one_state_become_one() {
    let mut b = Scoreboard::new();
    b.send(9_000, at(50_000), 0);
    b.mark_lost_within(0, 3_000, 6_000);
    assert_eq!(b.len(), 3);
    b.unmark_lost(0);
    assert_eq!(b.len(), 1);
    b.mark_lost_within(0, 0, 9_000);
    b.repeat(0, 0, 3_000, at(60_000));
    b.repeat(0, 3_000, 6_000, at(60_000));
    assert_eq!(b.len(), 2, "sent again at one time");
    let mut b = Scoreboard::new();
    b.send(9_000, at(50_000), 0);
    b.sack(0, 6_000, 8_000, |_| {});
    b.sack(0, 4_000, 6_000, |_| {});
    assert_eq!(b.len(), 3, "both on the right and");
    b.sack(0, 8_000, 8_500, |_| {});
    assert_eq!(b.len(), 3, "on the left");
    b.forget_sacked(0);
    assert_eq!(b.len(), 1);
}

/// The larger table's ranges are those of the smaller one, wherever they stood.
#[test]
fn a_table_that_shrinks_loses_nothing() {
    let end = INLINE_RANGES as Pos * 1000;
    for gone in [4, 30] {
        let mut b = later(INLINE_RANGES as i64);
        for start in [50_500, 53_500, 57_500] {
            b.sack(0, start, start + 100, |_| {});
        }
        assert!(b.ranges.are_many());
        let una = gone * 1_000;
        b.advance(0, una, |_| {});
        b.shrink(end);
        assert!(b.ranges.are_many(), "there are holes yet");
        b.forget_sacked(una);
        let before = all(&b, una);
        b.shrink(end);
        assert!(!b.ranges.are_many());
        let after = all(&b, una);
        if before.len() <= INLINE_RANGES - 2 {
            assert_eq!(after, before);
        }
        assert!(after.len() <= INLINE_RANGES - 2);
        assert_eq!(after.last().map(|s| s.end), Some(end));
        assert_eq!(after[0].first, stamp(50_000 + gone as u64 * 1_000));
        assert!(b.plain_from == end && b.is_plain());
        // Nothing is left to be given back.
        let same = b.clone();
        b.shrink(end);
        assert_eq!(b, same);
    }
}

/// Of a full table the two neighbours become one that were sent closest to each other.
#[test]
fn the_closest_are_joined_first() {
    let mut b = Scoreboard::new();
    let mut now = 50_000;
    for i in 0..=INLINE_RANGES as i64 {
        now += match i {
            20 => 10,
            40 => 20,
            _ => 1_000,
        };
        b.send((i + 1) * 1000, at(now), 0);
    }
    assert_eq!(b.len(), INLINE_RANGES);
    let joined: Vec<_> = b.iter(0).filter(|s| s.len() > 1_000).collect();
    assert_eq!(joined.len(), 1);
    assert_eq!((joined[0].start, joined[0].end), (19_000, 21_000));
    now += 1_000;
    b.send((INLINE_RANGES as i64 + 2) * 1000, at(now), 0);
    let joined: Vec<_> = b.iter(0).filter(|s| s.len() > 1_000).collect();
    assert_eq!(joined.len(), 2);
    assert_eq!(joined[1].start, 39_000);
}

/// An age is never negative, and comparisons wrap.
#[test]
fn stamps_are_compared_around_the_clocks_end() {
    let late = stamp(u64::from(u32::MAX));
    let wrapped = stamp(u64::from(u32::MAX) + 11);
    assert_eq!((wrapped.since(late), late.since(wrapped)), (11, -11));
    assert_eq!(late.age(at(u64::from(u32::MAX) + 11)), 11);
    assert_eq!(wrapped.age(at(u64::from(u32::MAX))), 0);
    assert_eq!((late.earlier(wrapped), wrapped.earlier(late)), (late, late));
    assert_eq!(
        (late.later(wrapped), wrapped.later(late)),
        (wrapped, wrapped)
    );
    assert_eq!((late.after(11), wrapped.before(11)), (wrapped, late));
}

/// A tick is what has the same higher bits.
#[test]
fn ticks_begin_at_multiples_of_their_length() {
    for (a, b, granularity, same) in [
        (64, 127, 6, true),
        (63, 64, 6, false),
        (64, 128, 6, false),
        (5, 5, 0, true),
        (4, 5, 0, false),
        (4, 5, 1, true),
    ] {
        assert_eq!(
            stamp(a).is_same_tick(stamp(b), granularity),
            same,
            "{a} {b}"
        );
    }
}

/// Few of those that are reported are enough to be counted.
#[test]
fn segments_are_counted_until_there_are_enough() {
    let mut b = flight(10);
    for start in [1_000, 3_000, 5_000, 7_000] {
        b.sack(0, start, start + 900, |_| {});
    }
    assert_eq!(b.segments_sacked(0, 1_000, 99), 4);
    assert_eq!(b.segments_sacked(0, 1_000, 2), 2);
    assert_eq!(b.segments_sacked(0, 400, 99), 12);
    assert!(b.is_sacked_within(0, 1_000, 1_900));
    assert!(!b.is_sacked_within(0, 1_000, 1_901));
    assert!(!b.is_sacked_within(0, 999, 1_500));
    assert!(!b.is_sacked_within(0, 9_500, 10_500), "beyond all");
}
