//! Compares the algorithms with their RFCs' formulas.

mod bounds;

use super::*;
use proptest::prelude::*;

const MSS: u32 = 1000;

/// The algorithms with a slow start and a threshold.
const WINDOWED: [Congestion; 3] = [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp];

/// An acknowledgment of so much, with this smoothed round-trip time and no sample.
pub(super) fn ack(acked: u32, srtt: u64, now: Instant) -> Ack {
    Ack {
        acked,
        una: 0,
        nxt: 0,
        rtt: 0,
        srtt,
        now,
    }
}

fn controller(which: Congestion) -> Controller {
    Controller::new(which, MSS as u16, 10)
}

#[test]
fn slow_start_doubles_each_round_trip() {
    for which in WINDOWED {
        let mut c = controller(which);
        assert_eq!(c.cwnd(), 10 * MSS);
        for round in 1..6 {
            c.on_ack(&ack(c.cwnd(), 1000, Instant(round)));
            assert_eq!(c.cwnd(), (10 * MSS) << round, "{which:?}");
        }
    }
}

#[test]
fn slow_start_ends_at_the_threshold() {
    for which in WINDOWED {
        let mut c = controller(which);
        c.set_cwnd(40 * MSS);
        c.on_loss(40 * MSS);
        let threshold = c.ssthresh();
        c.set_cwnd(threshold / 2 + 500);
        c.on_ack(&ack(c.cwnd(), 1000, Instant(1)));
        assert!(
            c.cwnd() >= threshold && c.cwnd() <= threshold + 2 * MSS,
            "{which:?} {}",
            c.cwnd()
        );
    }
}

#[test]
fn newreno_adds_a_segment_each_round_trip() {
    let mut c = controller(Congestion::NewReno);
    c.on_loss(20 * MSS);
    assert_eq!(c.ssthresh(), 10 * MSS);
    c.set_cwnd(10 * MSS);
    for round in 0..20 {
        assert_eq!(c.cwnd(), (10 + round) * MSS);
        // In pieces, as acknowledgments come.
        for _ in 0..10 + round {
            c.on_ack(&ack(MSS, 1000, Instant(0)));
        }
    }
}

#[test]
fn thresholds_after_loss() {
    let mut c = controller(Congestion::NewReno);
    c.on_loss(100 * MSS);
    assert_eq!(c.ssthresh(), 50 * MSS);
    c.on_loss(0);
    assert_eq!(c.ssthresh(), 2 * MSS);
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(100 * MSS);
    c.on_loss(100 * MSS);
    assert_eq!(c.ssthresh(), 70 * MSS);
}

#[test]
fn a_timeout_lowers_the_threshold_once() {
    let mut c = controller(Congestion::NewReno);
    c.set_cwnd(40 * MSS);
    c.on_timeout(40 * MSS, true);
    assert_eq!((c.cwnd(), c.ssthresh()), (MSS, 20 * MSS));
    c.on_timeout(MSS, false);
    assert_eq!((c.cwnd(), c.ssthresh()), (MSS, 20 * MSS));
}

#[test]
fn names() {
    for which in Congestion::ALL {
        assert_eq!(Congestion::by_name(which.name()), Some(which));
    }
    assert_eq!(Congestion::by_name("vegas"), None);
    let mut c = controller(Congestion::NewReno);
    c.choose(Congestion::Cubic);
    assert_eq!(c.which(), Congestion::Cubic);
    assert_eq!(c.cwnd(), 10 * MSS);
}

/// RFC 9438 in floating point: the window after `rounds` round trips of congestion
/// avoidance from a loss at `w_max` segments.
fn formula(w_max: f64, seconds: f64) -> f64 {
    let c = 0.4;
    let cwnd_epoch = 0.7 * w_max;
    let k = ((w_max - cwnd_epoch) / c).cbrt();
    let w_cubic = c * (seconds - k).powi(3) + w_max;
    w_cubic.max(cwnd_epoch)
}

fn grow_cubic(w_max: u32, rtt_ms: u64, rounds: u64) -> Controller {
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(w_max * MSS);
    c.on_loss(w_max * MSS);
    c.set_cwnd(c.ssthresh());
    for round in 0..rounds {
        let now = Instant(1 + round * rtt_ms * 1000);
        let pieces = 10;
        let window = c.cwnd();
        for _ in 0..pieces {
            c.on_ack(&ack(window / pieces, rtt_ms * 1000, now));
        }
    }
    c
}

#[test]
fn cubic_follows_the_cubic_function() {
    for w_max in [200, 1000, 5000] {
        for rtt_ms in [50, 100, 200] {
            for rounds in [5, 20, 60, 150] {
                let c = grow_cubic(w_max, rtt_ms, rounds);
                let seconds = (rounds * rtt_ms) as f64 / 1000.0;
                let expected = formula(f64::from(w_max), seconds);
                let got = f64::from(c.cwnd()) / f64::from(MSS);
                // Reno-friendly growth may be ahead where the function is flat.
                let reno = 0.7 * f64::from(w_max) + 1.1 * rounds as f64;
                assert!(
                    got > 0.93 * expected && got < 1.07 * expected.max(reno) + 2.0,
                    "w_max {w_max} rtt {rtt_ms} rounds {rounds}: {got} for {expected}"
                );
            }
        }
    }
}

#[test]
fn cubic_is_no_slower_than_reno_on_short_paths() {
    // RFC 9438 section 4.3: W_est grows by 9/17 of a segment for each round trip.
    let c = grow_cubic(50, 1, 100);
    let got = f64::from(c.cwnd()) / f64::from(MSS);
    let reno = 0.7 * 50.0 + 100.0 * 9.0 / 17.0;
    assert!(got >= 0.9 * reno, "{got} for {reno}");
}

#[test]
fn cubic_converges_fast() {
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(1000 * MSS);
    c.on_loss(1000 * MSS);
    c.set_cwnd(c.ssthresh());
    // A second loss below the last plateau: W_max is reduced (section 4.7).
    c.on_loss(700 * MSS);
    let Chosen::Cubic(cubic) = c.chosen else {
        panic!()
    };
    assert_eq!(cubic.w_max(), 595 * MSS);
}

#[test]
fn idle_time_forgets_the_epoch() {
    let mut c = grow_cubic(1000, 100, 20);
    let before = c.cwnd();
    c.on_idle();
    assert_eq!(c.cwnd(), 10 * MSS);
    c.set_cwnd(before);
    // A day later: no jump as if the time had been used.
    c.on_ack(&ack(before, 100_000, Instant(86_400_000_000)));
    assert!(c.cwnd() < before + before / 10);
}

/// RFC 9438 section 5.8: the same without the idle time of an RTO.
#[test]
fn time_in_which_the_window_is_not_used_does_not_count() {
    let mut c = grow_cubic(1000, 100, 20);
    let before = c.cwnd();
    // The user was slow for a minute.
    c.on_ack(&ack(
        before,
        100_000,
        Instant(1 + 20 * 100_000 + 60_000_000),
    ));
    assert!(c.cwnd() < before + before / 20, "{before} {}", c.cwnd());
}

/// RFC 9438 section 4.9: as if it had not been.
#[test]
fn a_spurious_loss_leaves_no_trace() {
    for which in WINDOWED {
        let mut c = controller(which);
        c.set_cwnd(800 * MSS);
        c.on_loss(800 * MSS);
        c.set_cwnd(c.ssthresh());
        let undisturbed = c;
        let (cwnd, ssthresh) = (c.cwnd(), c.ssthresh());
        // A fast recovery, and a timeout in the middle of it.
        c.save_for_undo();
        c.on_loss(cwnd);
        c.set_cwnd(c.ssthresh());
        c.on_timeout(c.cwnd(), true);
        c.undo(cwnd, ssthresh);
        let (mut a, mut b) = (c, undisturbed);
        for round in 1..50 {
            let now = Instant(round * 100_000);
            a.on_ack(&ack(100 * MSS, 100_000, now));
            b.on_ack(&ack(100 * MSS, 100_000, now));
        }
        let gap = a.cwnd().abs_diff(b.cwnd());
        assert!(gap <= MSS, "{which:?}: {} {}", a.cwnd(), b.cwnd());
    }
}

/// RFC 9438 section 4.8: the plateau before a timeout is discarded.
#[test]
fn after_a_timeout_cubic_starts_from_where_avoidance_begins() {
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(1000 * MSS);
    c.on_timeout(1000 * MSS, true);
    c.set_cwnd(c.ssthresh());
    c.on_ack(&ack(MSS, 100_000, Instant(1)));
    let Chosen::Cubic(cubic) = c.chosen else {
        panic!()
    };
    assert_eq!(cubic.w_max(), 700 * MSS);
}

/// Slow start ended at half of what the path takes: the function alone would need
/// cbrt(4000 / 0.4) = 21 seconds for the rest.
#[test]
fn before_the_first_loss_cubic_grows_by_a_twentieth_in_a_round_trip() {
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(4000 * MSS);
    c.window.ssthresh = 4000 * MSS;
    let grow = |c: &mut Controller, rounds: std::ops::Range<u64>| {
        for round in rounds {
            let window = c.cwnd();
            for _ in 0..10 {
                let now = Instant(1 + round * 100_000);
                c.on_ack(&ack(window / 10, 100_000, now));
            }
        }
    };
    grow(&mut c, 0..15);
    let got = c.cwnd() / MSS;
    assert!((7_900..8_700).contains(&got), "{got}");
    // A loss has shown its capacity.
    c.on_loss(c.cwnd());
    c.set_cwnd(c.ssthresh());
    let before = c.cwnd();
    grow(&mut c, 15..16);
    assert!(c.cwnd() < before + before / 30, "{before} {}", c.cwnd());
}

#[test]
fn dctcp_comes_down_by_the_share_of_marks() {
    let mut c = controller(Congestion::Dctcp);
    let alpha = |c: &Controller| match c.chosen {
        Chosen::Dctcp(d) => d.alpha_permille(),
        _ => panic!(),
    };
    assert_eq!(alpha(&c), 1000);
    // One byte in ten is marked, window after window.
    for round in 0..100i64 {
        c.on_marks(100_000, 10_000, round * 100_000, (round + 1) * 100_000);
    }
    assert!((95..=105).contains(&alpha(&c)), "{}", alpha(&c));
    c.set_cwnd(100 * MSS);
    c.on_congestion_marked(100 * MSS);
    // 1 - 0.1 / 2 of it.
    assert!((94 * MSS..=96 * MSS).contains(&c.cwnd()), "{}", c.cwnd());
    assert_eq!(c.cwnd(), c.ssthresh());
    // Loss is answered as by any TCP (RFC 8257 section 3.5).
    c.on_loss(90 * MSS);
    assert_eq!(c.ssthresh(), 45 * MSS);
    // And nothing marked for long is nothing at all.
    for round in 0..200i64 {
        c.on_marks(100_000, 0, round * 100_000, (round + 1) * 100_000);
    }
    assert_eq!(alpha(&c), 0);
}

#[test]
fn a_mark_is_answered_like_a_loss_but_at_once() {
    for (which, expected) in [(Congestion::NewReno, 50), (Congestion::Cubic, 70)] {
        let mut c = controller(which);
        c.set_cwnd(100 * MSS);
        c.on_congestion_marked(100 * MSS);
        assert_eq!((c.cwnd(), c.ssthresh()), (expected * MSS, expected * MSS));
    }
}

proptest! {
    #[test]
    fn windows_stay_within_bounds(
        which in proptest::sample::select(&Congestion::ALL),
        ops in proptest::collection::vec((0u8..8, any::<u32>(), 0u64..10_000_000), 0..200),
    ) {
        let mut c = controller(which);
        let mut now = 0;
        for (op, n, micros) in ops {
            now += micros;
            let now = Instant(now);
            let before = c.cwnd();
            match op {
                0 => c.on_loss(n),
                1 => c.on_timeout(n, n.is_multiple_of(2)),
                2 => c.on_idle(),
                3 => c.set_mss((n % 9000).max(48) as u16),
                4 => c.on_congestion_marked(n),
                5 => c.on_marks(n, n / 3, i64::from(n), i64::from(n) + 9),
                6 => c.on_rate(&RateSample {
                    now,
                    total: u64::from(n) * 3,
                    newly: n % 100_000,
                    lost: n % 7_000,
                    in_flight: n,
                    rate: u64::from(n) << (n % 9),
                    prior: u64::from(n),
                    rtt: n % 1_000_000,
                    recovering: n % 5 == 0,
                    app_limited: n % 3 == 0,
                }),
                _ => {
                    let acked = n % (2 * c.cwnd());
                    c.on_ack(&ack(acked, u64::from(n), now));
                    prop_assert!(c.cwnd() >= before, "{which:?}");
                    prop_assert!(c.cwnd() <= before.saturating_add(acked).saturating_add(before));
                }
            }
            prop_assert!(c.cwnd() >= c.window.mss && c.cwnd() <= MAX_CWND);
            prop_assert!(c.ssthresh() >= 2 * 48);
        }
    }
}
