//! RFC 8985 section 6.2, steps 1 to 3: what a delivery says of what was sent before it.

use crate::flight::recovery::rack::{Delivery, Rack};
use crate::flight::scoreboard::{RangeState, SentRange, Stamp};
use crate::time::{Instant, MS};

const NOW: Instant = Instant(1_000 * MS);

fn delivery() -> Delivery {
    Delivery {
        now: NOW,
        fack: 0,
        min_rtt: 20 * MS,
        echo_age: None,
        backdating: 0,
        recover: 5_000,
        bytes: 0,
        original: false,
        overtaken: 0,
    }
}

/// 1,000 bytes from `start`, sent `ago` milliseconds before now.
fn range(start: i64, ago: u64, state: RangeState) -> SentRange {
    let at = Stamp::new(Instant(NOW.0 - ago * MS));
    SentRange {
        start,
        end: start + 1_000,
        first: at,
        at,
        state,
    }
}

const ONCE: RangeState = RangeState::empty();
const AGAIN: RangeState = RangeState::RETRANSMITTED;

#[test]
fn the_latest_that_was_sent_is_kept() {
    let mut rack = Rack::new();
    assert!(!rack.is_known());
    assert_eq!(rack.rtt, 0);
    let mut d = delivery();
    rack.on_delivered(range(1_000, 30, ONCE), false, &mut d);
    assert!(rack.is_known());
    assert_eq!((rack.end, u64::from(rack.rtt)), (2_000, 30 * MS));
    // Sent before, or at the same time and lower.
    rack.on_delivered(range(3_000, 31, ONCE), false, &mut d);
    rack.on_delivered(range(0, 30, ONCE), false, &mut d);
    assert_eq!(rack.end, 2_000);
    rack.on_delivered(range(2_000, 30, ONCE), false, &mut d);
    assert_eq!(rack.end, 3_000);
    rack.on_delivered(range(0, 25, ONCE), false, &mut d);
    assert_eq!((rack.end, d.bytes), (1_000, 5_000));
    // What was reported before is nothing new.
    rack.on_delivered(range(7_000, 1, RangeState::SACKED), false, &mut d);
    assert_eq!((rack.end, d.bytes), (1_000, 5_000));
}

/// If it was less than a round trip ago, or the echo is older than it, the original has arrived.
#[test]
fn a_repetition_tells_only_if_it_was_what_arrived() {
    let tells = |ago, echo: Option<u64>, reported| {
        let mut rack = Rack::new();
        let mut d = delivery();
        d.echo_age = echo.map(|ms| ms * MS);
        d.backdating = 5 * MS;
        rack.on_delivered(range(0, ago, AGAIN), reported, &mut d);
        assert_eq!((d.bytes, d.original), (1_000, false));
        rack.is_known()
    };
    assert!(!tells(19, None, false));
    assert!(tells(20, None, false));
    assert!(tells(20, Some(27), false));
    assert!(!tells(20, Some(28), false));
    assert!(
        tells(20, Some(28), true),
        "the echo is not of what SACK reports"
    );
    assert!(!tells(19, Some(1), true));
}

/// Step 3: what lies below what has arrived was overtaken, by so much; a repetition was not.
#[test]
fn what_comes_late_was_overtaken() {
    let overtaken = |start, state, fack| {
        let (mut rack, mut d) = (Rack::new(), delivery());
        d.fack = fack;
        rack.on_delivered(range(start, 30, state), false, &mut d);
        rack.on_ack(&d);
        assert_eq!(rack.reordering_seen, d.overtaken > 0);
        assert_eq!(rack.reorderings, u32::from(d.overtaken > 0));
        (d.overtaken, rack.max_distance)
    };
    assert_eq!(overtaken(1_000, ONCE, 2_000), (0, 0));
    assert_eq!(overtaken(1_000, ONCE, 2_001), (1_001, 1_001));
    assert_eq!(overtaken(1_000, AGAIN, 9_000), (0, 0));
    // Of several, the farthest.
    let (mut rack, mut d) = (Rack::new(), delivery());
    d.fack = 9_000;
    for start in [3_000, 1_000, 2_000] {
        rack.on_delivered(range(start, 30, ONCE), false, &mut d);
    }
    rack.on_ack(&d);
    assert_eq!((rack.max_distance, rack.reorderings), (8_000, 1));
    // And whether something below the recovery point was sent once.
    for (start, original) in [(4_999, true), (5_000, false)] {
        let (mut rack, mut d) = (Rack::new(), delivery());
        rack.on_delivered(range(start, 30, ONCE), false, &mut d);
        assert_eq!(d.original, original);
    }
}

/// Section 6.2 step 5: sent before, or at the same time and lower.
#[test]
fn what_was_sent_before_the_latest_may_be_lost() {
    let mut rack = Rack::new();
    assert!(!rack.is_after(&range(0, 99, ONCE)));
    rack.on_delivered(range(5_000, 30, ONCE), false, &mut delivery());
    for (start, ago, state, after) in [
        (0, 31, ONCE, true),
        (0, 30, ONCE, true),
        (5_000, 30, ONCE, false),
        (9_000, 31, ONCE, true),
        (0, 29, ONCE, false),
        (0, 31, AGAIN, true),
        (0, 29, AGAIN, false),
    ] {
        let s = range(start, ago, state);
        assert_eq!(rack.is_after(&s), after, "{start} {ago} {state:?}");
    }
}

/// In order, the last one is the latest; one that was sent before is not.
#[test]
fn deliveries_in_order_move_on() {
    let stamp = |ago: u64| {
        let at = Stamp::new(Instant(NOW.0 - ago * MS));
        (at, at)
    };
    let mut rack = Rack::new();
    rack.on_delivered_in_order(1_000, stamp(30), NOW);
    assert_eq!((rack.end, rack.latest_age(NOW)), (1_000, 30 * MS));
    rack.on_delivered_in_order(2_000, stamp(30), NOW);
    assert_eq!(rack.end, 2_000);
    rack.on_delivered_in_order(3_000, stamp(20), NOW);
    assert_eq!((rack.end, rack.latest_age(NOW)), (3_000, 20 * MS));
    // A retransmission was delivered after this was sent.
    rack.on_delivered_in_order(4_000, stamp(25), NOW);
    assert_eq!((rack.end, rack.latest_age(NOW)), (3_000, 20 * MS));
    assert_eq!(u64::from(rack.rtt), 25 * MS);
    // The first delivery, on a clock whose half has passed.
    let mut rack = Rack::new();
    let late = Stamp::new(Instant((1 << 31) + 5));
    rack.on_delivered_in_order(1_000, (late, late), Instant((1 << 31) + 9));
    assert_eq!(rack.end, 1_000);
}

/// Two in one acknowledgment are as good as one.
#[test]
fn any_original_below_the_recovery_point_counts() {
    let (mut rack, mut d) = (Rack::new(), delivery());
    for start in [0, 1_000] {
        rack.on_delivered(range(start, 30, ONCE), false, &mut d);
        assert!(d.original);
    }
}
