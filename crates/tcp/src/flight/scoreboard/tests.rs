//! The table against one that remembers every byte.

mod full;
mod tables;

use super::*;
use proptest::prelude::*;

fn at(us: u64) -> Instant {
    Instant(us)
}

/// Flights of `n` ranges of 1000, sent a millisecond apart.
fn flight(n: i64) -> Scoreboard {
    let mut b = Scoreboard::new();
    for i in 0..n {
        b.send((i + 1) * 1000, at(i as u64 * 1000), 0);
    }
    b
}

fn shape(b: &Scoreboard, una: Pos) -> Vec<(Pos, Pos, RangeState)> {
    b.iter(una).map(|s| (s.start, s.end, s.state)).collect()
}

#[test]
fn what_goes_out_in_one_tick_is_one_range() {
    let mut b = Scoreboard::new();
    for i in 0..1000 {
        b.send((i + 1) * 1000, at(i as u64), 6);
    }
    assert_eq!(b.len(), 1000 / 64 + 1);
    // The time is that of the latest part.
    let first = b.iter(0).next().expect("a range");
    assert_eq!((first.end, first.at), (64_000, Stamp::new(at(63))));
    assert_eq!(first.first, Stamp::new(at(0)));
}

#[test]
fn a_tick_is_a_small_part_of_the_round_trip() {
    assert_eq!(granularity(0), 0);
    for srtt in [20, 100, 1_000, 50_000, 300_000, 10_000_000] {
        let tick = 1 << granularity(srtt);
        assert!(tick <= (srtt / 32).max(1), "{srtt} {tick}");
        assert!(tick >= (srtt / 128).min(1 << 15), "{srtt} {tick}");
        assert!(tick <= 1 << 16, "the difference of two times has 16 bits");
    }
}

#[test]
fn a_block_cuts_and_counts_once() {
    let mut b = flight(10);
    let mut news = Vec::new();
    assert_eq!(
        b.sack(0, 2_500, 4_500, |s| news.push((s.start, s.end))),
        2_000
    );
    assert_eq!(news, [(2_500, 3_000), (3_000, 4_000), (4_000, 4_500)]);
    assert_eq!(b.sack(0, 2_000, 5_000, |_| {}), 1_000);
    assert_eq!(b.sack(0, 2_000, 5_000, |_| panic!("known")), 0);
    assert_eq!((b.sacked(), b.highest(0)), (3_000, 5_000));
    // 0, 1, [2..5], 5, 6, 7, 8, 9.
    assert_eq!(b.len(), 8);
    assert_eq!(b.segments_sacked(0, 1000, 99), 3);
}

#[test]
fn an_advance_takes_from_the_front() {
    let mut b = flight(4);
    b.sack(0, 1_000, 2_000, |_| {});
    b.mark_lost_within(0, 0, 500);
    let mut news = Vec::new();
    b.advance(0, 2_500, |s| news.push((s.start, s.end, s.state)));
    assert_eq!(
        news,
        [
            (0, 500, RangeState::LOST),
            (500, 1_000, RangeState::empty()),
            (1_000, 2_000, RangeState::SACKED),
            (2_000, 2_500, RangeState::empty()),
        ]
    );
    assert!(b.is_plain());
    b.advance(2_500, 4_000, |_| {});
    assert_eq!(b.len(), 0);
}

#[test]
fn what_is_lost_is_repeated_from_the_front() {
    let mut b = flight(4);
    assert_eq!(b.mark_lost(0, |s| s.end <= 3_000), 3_000);
    assert_eq!(b.first_lost(0).map(|s| (s.start, s.end)), Some((0, 3_000)));
    b.repeat(0, 0, 1_000, at(9_000));
    assert_eq!(b.lost(), 2_000);
    assert_eq!(b.first_lost(0).map(|s| s.start), Some(1_000));
    assert_eq!(b.retransmitted_in_network(0), 1_000);
    // The repetition gets lost too, and is no longer marked as an original.
    assert_eq!(b.mark_lost(0, SentRange::was_retransmitted), 1_000);
    assert_eq!(
        shape(&b, 0),
        [
            (0, 1_000, RangeState::LOST | RangeState::RETRANSMITTED),
            (1_000, 3_000, RangeState::LOST),
            (3_000, 4_000, RangeState::empty()),
        ]
    );
    b.unmark_lost(0);
    assert_eq!(b.lost(), 0);
}

#[test]
fn a_full_table_joins_the_nearest_times() {
    let mut b = Scoreboard::new();
    for i in 0..200_i64 {
        // Two at a time, 10 us apart, then a pause.
        let t = (i / 2) * 1000 + (i % 2) * 10;
        b.send((i + 1) * 1000, at(t as u64), 0);
    }
    assert_eq!(b.len(), INLINE_RANGES);
    assert!(!b.ranges.are_many(), "nothing is allocated without a loss");
    let end = b.iter(0).last().map(|s| s.end);
    assert_eq!(end, Some(200_000));
    // Never earlier than it was.
    for s in b.iter(0) {
        let last = s.end / 1000 - 1;
        let sent = (last / 2) * 1000 + (last % 2) * 10;
        assert!(s.at.since(Stamp::new(at(sent as u64))) >= 0, "{s:?}");
    }
}

#[test]
fn a_table_full_of_holes_passes_blocks_over_and_goes_on() {
    let mut b = Scoreboard::new();
    b.send(4_000_000, at(0), 0);
    let mut taken = 0;
    for i in 0..1_500 {
        taken += b.sack(0, i * 2000 + 1000, i * 2000 + 2000, |_| {});
    }
    assert_eq!(taken, b.sacked());
    assert!(b.len() <= MAX_RANGES && taken >= 1_000_000, "{taken}");
    // More is sent, and all of it is lost and repeated.
    for i in 0..100 {
        b.send(4_000_000 + (i + 1) * 1000, at(5_000 * i as u64), 0);
    }
    b.mark_lost(0, |_| true);
    let mut rounds = 0;
    while let Some(s) = b.first_lost(0) {
        b.repeat(0, s.start, s.end.min(s.start + 1000), at(1_000_000));
        rounds += 1;
        assert!(rounds < 5_000);
    }
    assert_eq!(b.lost(), 0);
}

#[test]
fn reneging_is_seen() {
    let mut b = flight(4);
    b.sack(0, 1_000, 2_000, |_| {});
    assert!(!b.is_reneged(0));
    b.advance(0, 1_000, |_| {});
    assert!(b.is_reneged(1_000));
    b.forget_sacked(1_000);
    assert!(!b.is_reneged(1_000) && b.is_plain());
}

/// A scoreboard that keeps each byte by itself.
#[derive(Debug, Clone, Default)]
struct Model {
    una: usize,
    bytes: Vec<(u64, RangeState)>,
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Repeat(usize, usize),
    Sack(usize, usize),
    Lose(usize, usize),
    Advance(usize),
    Unmark,
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    step_within(300)
}

/// A step in the first `most` bytes above SND.UNA.
fn step_within(most: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..most / 10).prop_map(Step::Send),
        2 => (0..most, 1..20_usize).prop_map(|(a, n)| Step::Repeat(a, n)),
        4 => (0..most, 1..20_usize).prop_map(|(a, n)| Step::Sack(a, n)),
        2 => (0..most, 1..20_usize).prop_map(|(a, n)| Step::Lose(a, n)),
        2 => (1..40_usize).prop_map(Step::Advance),
        1 => Just(Step::Unmark),
        1 => Just(Step::Forget),
    ]
}

impl Model {
    /// The part of `a..a + n` above SND.UNA that is in flight.
    fn range(&self, a: usize, n: usize) -> Option<(usize, usize)> {
        let start = (self.una + a).min(self.bytes.len());
        let end = (start + n).min(self.bytes.len());
        (start < end).then_some((start, end))
    }

    fn sum(&self, state: RangeState) -> u64 {
        self.bytes[self.una..]
            .iter()
            .filter(|b| b.1.contains(state))
            .count() as u64
    }
}

proptest! {
    /// As long as the table is not full it knows every byte's state and time.
    #[test]
    fn it_remembers_every_byte(steps in prop::collection::vec(step(), 1..40)) {
        let (mut b, mut m, mut now) = (Scoreboard::new(), Model::default(), 0);
        for step in steps {
            now += 10;
            let una = m.una as Pos;
            match step {
                Step::Send(n) => {
                    m.bytes.extend(std::iter::repeat_n((now, RangeState::empty()), n));
                    b.send(m.bytes.len() as Pos, at(now), 0);
                }
                Step::Repeat(a, n) => if let Some((s, e)) = m.range(a, n) {
                    for x in m.bytes[s..e].iter_mut().filter(|x| !x.1.contains(RangeState::SACKED)) {
                        *x = (now, RangeState::RETRANSMITTED);
                    }
                    b.repeat(una, s as Pos, e as Pos, at(now));
                },
                Step::Sack(a, n) => if let Some((s, e)) = m.range(a, n) {
                    let before = m.sum(RangeState::SACKED);
                    m.bytes[s..e].iter_mut().for_each(|x| x.1 = RangeState::SACKED);
                    let new = b.sack(una, s as Pos, e as Pos, |_| {});
                    prop_assert_eq!(new, m.sum(RangeState::SACKED) - before);
                },
                Step::Lose(a, n) => if let Some((s, e)) = m.range(a, n) {
                    for x in m.bytes[s..e].iter_mut().filter(|x| !x.1.contains(RangeState::SACKED)) {
                        x.1 |= RangeState::LOST;
                    }
                    b.mark_lost_within(una, s as Pos, e as Pos);
                },
                Step::Advance(n) => {
                    let to = (m.una + n).min(m.bytes.len());
                    let mut told = 0;
                    b.advance(una, to as Pos, |s| told += s.len());
                    prop_assert_eq!(told, (to - m.una) as u64);
                    m.una = to;
                }
                Step::Unmark => {
                    m.bytes.iter_mut().for_each(|x| x.1.remove(RangeState::LOST));
                    b.unmark_lost(una);
                }
                Step::Forget => {
                    m.bytes.iter_mut().for_each(|x| x.1.remove(RangeState::SACKED));
                    b.forget_sacked(una);
                }
            }
            let una = m.una as Pos;
            prop_assert!(b.len() <= MAX_RANGES);
            prop_assert_eq!(b.sacked(), m.sum(RangeState::SACKED));
            prop_assert_eq!(b.lost(), m.sum(RangeState::LOST));
            let mut next = una;
            for s in b.iter(una) {
                prop_assert!(s.start == next && s.end > s.start);
                next = s.end;
                for x in &m.bytes[s.start as usize..s.end as usize] {
                    prop_assert_eq!(x.1, s.state);
                    // Between the two times; joined while SACKED or LOST, they may
                    // lie wide apart.
                    let sent = Stamp::new(at(x.0));
                    prop_assert!(s.at.since(sent) >= 0 && sent.since(s.first) >= 0);
                }
            }
            prop_assert_eq!(next, m.bytes.len() as Pos);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The table under any load: sums and edges still agree, nothing panics.
    #[test]
    fn it_survives_being_full(steps in prop::collection::vec(step_within(40_000), 2_000..2_400)) {
        let (mut b, mut end, mut una, mut now) = (Scoreboard::new(), 0_i64, 0_i64, 0);
        for step in steps {
            now += 10;
            let range = |a: usize, n: usize| {
                let s = (una + a as i64).min(end);
                (s, (s + n as i64).min(end))
            };
            match step {
                Step::Send(n) => {
                    end += n as i64;
                    b.send(end, at(now), 0);
                }
                Step::Repeat(a, n) => {
                    let (s, e) = range(a, n);
                    if s < e { b.repeat(una, s, e, at(now)); }
                }
                Step::Sack(a, n) => {
                    let (s, e) = range(a, n);
                    if s < e { b.sack(una, s, e, |_| {}); }
                }
                Step::Lose(a, n) => {
                    let (s, e) = range(a, n);
                    if s < e { b.mark_lost_within(una, s, e); }
                }
                // Rarely, so that it fills up.
                Step::Advance(n) if n < 4 => {
                    let to = (una + n as i64).min(end);
                    b.advance(una, to, |_| {});
                    una = to;
                }
                _ => {}
            }
            let sum = |want: fn(&SentRange) -> bool| -> u64 {
                b.iter(una).filter(want).map(|s| s.len()).sum()
            };
            prop_assert_eq!(b.sacked(), sum(SentRange::is_sacked));
            prop_assert_eq!(b.lost(), sum(SentRange::is_lost));
            prop_assert_eq!(b.iter(una).last().map_or(una, |s| s.end), end);
        }
        prop_assert!(b.ranges.are_many());
        // The recovery ends, whatever the table looks like.
        b.forget_sacked(una);
        b.unmark_lost(una);
        b.shrink(end);
        prop_assert!(!b.ranges.are_many() && b.len() <= INLINE_RANGES);
        prop_assert_eq!(b.iter(una).last().map_or(una, |s| s.end), end);
    }
}

/// The range where it ends says when it was sent; what was repeated is out of order
/// until it is acknowledged.
#[test]
fn an_advance_in_order_tells_the_times_of_its_end() {
    let times = |us| (Stamp::new(at(us)), Stamp::new(at(us)));
    let mut b = flight(6);
    assert_eq!(b.advance_in_order(500), times(0));
    assert_eq!(b.len(), 6);
    assert_eq!(b.advance_in_order(1_000), times(0));
    assert_eq!(b.len(), 5);
    assert_eq!(b.advance_in_order(2_500), times(2_000));
    assert_eq!(b.len(), 4);
    assert!(b.is_in_order(2_500));
    b.repeat(2_500, 2_500, 3_000, at(9_000));
    assert!(!b.is_in_order(2_500));
    b.advance(2_500, 3_000, |_| {});
    assert!(b.is_in_order(3_000));
    assert_eq!(b.finish_in_order(), times(5_000));
    assert!(b.is_plain() && b.len() == 0 && b.first == 0);
}

/// What is remembered in the larger table is out of order until that is given back.
#[test]
fn a_larger_table_is_out_of_order() {
    let mut b = flight(INLINE_RANGES as i64);
    let end = INLINE_RANGES as Pos * 1000;
    for start in [1_500, 3_500, 5_500] {
        b.sack(0, start, start + 100, |_| {});
    }
    assert!(b.ranges.are_many());
    b.forget_sacked(0);
    assert!(b.is_plain() && !b.is_in_order(0));
    b.shrink(end);
    assert!(!b.is_in_order(0) && b.is_in_order(end));
}

/// A range that others join is closed by whatever happens to it.
#[test]
fn nothing_joins_a_range_that_is_reported_or_delivered() {
    let sent = |b: &mut Scoreboard, end| b.send(end, at(end as u64), 10);
    let mut b = Scoreboard::new();
    sent(&mut b, 10);
    sent(&mut b, 20);
    assert_eq!(b.len(), 1);
    b.sack(0, 10, 20, |_| {});
    sent(&mut b, 30);
    assert_eq!(
        shape(&b, 0)[1..],
        [(10, 20, RangeState::SACKED), (20, 30, RangeState::empty())]
    );
    b.advance(0, 30, |_| {});
    sent(&mut b, 40);
    sent(&mut b, 50);
    assert_eq!(shape(&b, 30), [(30, 50, RangeState::empty())]);
    b.finish_in_order();
    sent(&mut b, 60);
    assert_eq!(shape(&b, 50), [(50, 60, RangeState::empty())]);
    b.repeat(50, 50, 60, at(70));
    sent(&mut b, 80);
    assert_eq!(
        shape(&b, 50),
        [
            (50, 60, RangeState::RETRANSMITTED),
            (60, 80, RangeState::empty())
        ]
    );
}
