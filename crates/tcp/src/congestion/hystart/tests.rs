//! RFC 9406's two phases on a path whose queue fills, and on one that only stutters.

use super::*;
use crate::time::Instant;

const MSS: u32 = 1000;

fn window() -> Window {
    Window {
        cwnd: 10 * MSS,
        ssthresh: u32::MAX,
        mss: MSS,
    }
}

/// One round: `count` acknowledgments of a segment each, with round trips that
/// `rtt(i)` gives, in microseconds.
fn round(h: &mut HyStart, w: &mut Window, una: &mut Pos, count: u32, rtt: impl Fn(u32) -> u32) {
    let nxt = *una + i64::from(count * MSS);
    for i in 0..count {
        *una += i64::from(MSS);
        let ack = Ack {
            acked: MSS,
            una: *una,
            // What is sent meanwhile is the next round's.
            nxt: nxt + i64::from((i + 1) * MSS),
            rtt: rtt(i),
            srtt: 0,
            now: Instant(0),
        };
        h.slow_start(w, &ack);
    }
}

#[test]
fn a_growing_queue_ends_slow_start_without_loss() {
    let (mut h, mut w, mut una) = (HyStart::new(), window(), 0);
    for _ in 0..4 {
        let count = w.cwnd / MSS;
        round(&mut h, &mut w, &mut una, count, |_| 40_000);
    }
    assert_eq!(w.cwnd, 160 * MSS);
    // 40 ms / 8 = 5 ms more is a queue.
    let mut rounds = 0;
    while w.ssthresh == u32::MAX {
        let count = (w.cwnd / MSS).min(100);
        let before = w.cwnd;
        round(&mut h, &mut w, &mut una, count, |_| 46_000);
        rounds += 1;
        assert!(rounds <= 8, "still in slow start");
        if rounds > 2 {
            // Conservative slow start: a quarter of what was acknowledged.
            assert!(w.cwnd <= before + count * MSS / 4);
        }
    }
    assert!((6..=7).contains(&rounds), "{rounds}");
    assert!(w.ssthresh <= w.cwnd);
}

#[test]
fn a_delay_that_passes_resumes_slow_start() {
    let (mut h, mut w, mut una) = (HyStart::new(), window(), 0);
    for _ in 0..3 {
        let count = w.cwnd / MSS;
        round(&mut h, &mut w, &mut una, count, |_| 40_000);
    }
    round(&mut h, &mut w, &mut una, 50, |_| 60_000);
    assert_eq!(h.css_rounds, 1);
    round(&mut h, &mut w, &mut una, 50, |_| 40_000);
    assert_eq!(h.css_rounds, 0);
    let before = w.cwnd;
    round(&mut h, &mut w, &mut una, 50, |_| 40_000);
    assert_eq!(w.cwnd, before + 50 * MSS);
    assert_eq!(w.ssthresh, u32::MAX);
}

#[test]
fn few_samples_and_small_changes_say_nothing() {
    let (mut h, mut w, mut una) = (HyStart::new(), window(), 0);
    for i in 0..20 {
        // Seven samples a round.
        round(&mut h, &mut w, &mut una, 7, |_| 40_000 + i * 10_000);
    }
    assert_eq!(h.css_rounds, 0);
    for i in 0..20 {
        // 3 ms more in each round is below the least threshold.
        round(&mut h, &mut w, &mut una, 20, |_| 10_000 + i * 3_000);
    }
    assert_eq!(h.css_rounds, 0);
}

#[test]
fn a_later_slow_start_ends_at_its_threshold() {
    let (mut h, mut w, mut una) = (HyStart::new(), window(), 0);
    w.ssthresh = 15 * MSS;
    round(&mut h, &mut w, &mut una, 10, |_| 40_000);
    assert_eq!(w.cwnd, 15 * MSS);
}

/// Section 4.2: an eighth more than in the last round, of eight samples, is a queue.
#[test]
fn an_eighth_more_is_a_queue() {
    for (samples, rtt, rounds) in [
        (8, 45_000, 1),
        (8, 44_999, 0),
        (7, 45_000, 0),
        (7, 90_000, 0),
    ] {
        let (mut h, mut w, mut una) = (HyStart::new(), window(), 0);
        round(&mut h, &mut w, &mut una, 8, |_| 40_000);
        round(&mut h, &mut w, &mut una, samples, |_| rtt);
        assert_eq!(h.css_rounds, rounds, "{samples} {rtt}");
    }
}
