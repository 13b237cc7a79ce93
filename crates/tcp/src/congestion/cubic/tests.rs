//! RFC 9438 in small numbers; `congestion/tests.rs` has the whole curve.

use super::*;
use crate::congestion::tests::ack;
use proptest::prelude::*;

const MSS: u32 = 1_000;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: 1,
        mss: MSS,
    }
}

/// Section 4.2: K = cbrt((W_max - cwnd_epoch) / C), with C = 0.4.
#[test]
fn the_time_to_the_plateau() {
    let mut c = Cubic::new();
    c.w_max = 2_000 * MSS;
    c.begin(&window(1_400 * MSS), Instant(7));
    // cbrt(600 / 0.4) = 11.447
    assert_eq!((c.k_ms, c.w_max), (11_447, 2_000 * MSS));
    assert_eq!((c.epoch, c.w_est), (Instant(7), 1_400 * MSS));
    // Section 4.8: no plateau above.
    for w_max in [1_400, 1_000, 0] {
        c.w_max = w_max * MSS;
        (c.est_credit, c.credit) = (5, 5);
        c.begin(&window(1_400 * MSS), Instant(7));
        assert_eq!((c.k_ms, c.w_max), (0, 1_400 * MSS));
        assert_eq!((c.est_credit, c.credit), (0, 0));
    }
}

/// W_cubic(t) = C (t - K)^3 + W_max.
#[test]
fn the_cubic_function() {
    let mut c = Cubic::new();
    (c.w_max, c.k_ms) = (100_000, 10_000);
    for (t, bytes) in [
        (0, 0),
        (5_000, 50_000),
        (9_000, 99_600),
        (9_999, 100_000),
        (10_000, 100_000),
        (11_000, 100_400),
        (15_000, 150_000),
        (20_000, 500_000),
        (1 << 40, MAX_CWND),
    ] {
        assert_eq!(c.w_cubic(t, MSS), bytes, "{t}");
    }
    // In segments twice as long.
    assert_eq!(c.w_cubic(15_000, 2 * MSS), 200_000);
    c.w_max = MAX_CWND;
    assert_eq!(c.w_cubic(11_000, MSS), MAX_CWND);
}

/// Section 4.3: 9/17 of a segment for each window acknowledged, a whole one from cwnd_prior on.
#[test]
fn the_estimate_of_reno() {
    let mut c = Cubic::new();
    let w = window(10_000);
    (c.w_est, c.cwnd_prior) = (10_000, 11_000);
    c.grow_reno_estimate(&w, 9_999);
    assert_eq!(c.w_est, 10_000);
    c.grow_reno_estimate(&w, 1);
    assert_eq!(c.w_est, 10_529);
    c.grow_reno_estimate(&w, 15_000);
    assert_eq!((c.w_est, c.est_credit), (11_058, 5_000));
    c.grow_reno_estimate(&w, 5_000);
    assert_eq!((c.w_est, c.est_credit), (12_058, 0));
    (c.w_est, c.cwnd_prior) = (11_000, 11_000);
    c.grow_reno_estimate(&w, 10_000);
    assert_eq!(c.w_est, 12_000);
    c.w_est = MAX_CWND;
    c.grow_reno_estimate(&w, 10_000);
    assert_eq!(c.w_est, MAX_CWND);
}

/// Section 5.8: what passes beyond a round trip without an acknowledgment is left out.
#[test]
fn the_epoch_moves_by_the_time_in_which_the_window_was_not_used() {
    let moved = |epoch: Instant, srtt: u64| {
        let mut c = Cubic::new();
        (c.epoch, c.used_at) = (epoch, Instant(1_000));
        c.leave_out_idle_time(srtt, Instant(6_000));
        assert_eq!(c.used_at, Instant(6_000));
        c.epoch
    };
    assert_eq!(moved(Instant(500), 2_000), Instant(3_500));
    assert_eq!(moved(Instant(500), 5_000), Instant(500));
    assert_eq!(moved(Instant(500), 9_000), Instant(500));
    assert_eq!(moved(Instant(500), 0), Instant(500));
    assert_eq!(
        moved(Instant(4_000), 1_000),
        Instant(6_000),
        "not beyond now"
    );
    assert_eq!(moved(Instant::NEVER, 1_000), Instant::NEVER);
}

/// A window of 100 segments on the plateau; `acked` bytes come `t` milliseconds after that began.
fn grown(t: u64, acked: u32, srtt_ms: u64, set: impl FnOnce(&mut Cubic)) -> (u32, Cubic) {
    let mut c = Cubic::new();
    c.epoch = Instant(1_000_000);
    c.used_at = Instant(1_000_000 + t * 1_000);
    (c.w_max, c.searching) = (100_000, false);
    set(&mut c);
    let mut w = window(100_000);
    c.on_ack(
        &mut w,
        &ack(acked, srtt_ms * 1_000, Instant(1_000_000 + t * 1_000)),
    );
    (w.cwnd, c)
}

/// Sections 4.4 and 4.5: (target - cwnd) / cwnd for each segment acknowledged, the target being
/// W_cubic one round trip ahead, at most one and a half windows.
#[test]
fn the_window_follows_the_function_a_round_trip_ahead() {
    // W_cubic(5 s + 0) = 150,000: half a window for a window.
    let none = |_: &mut Cubic| ();
    assert_eq!(grown(5_000, 100_000, 0, none).0, 150_000);
    assert_eq!(grown(5_000, 10_000, 0, none).0, 105_000);
    assert_eq!(grown(4_000, 10_000, 1_000, none).0, 105_000);
    assert_eq!(grown(50_000, 10_000, 0, none).0, 105_000, "no faster");
    assert_eq!(grown(0, 100_000, 0, none).0, 100_000);
    // What is less than a byte is kept for the next.
    let (cwnd, mut c) = grown(5_000, 1, 0, none);
    assert_eq!((cwnd, c.credit), (100_000, 50_000));
    let mut w = window(100_000);
    c.on_ack(&mut w, &ack(1, 0, Instant(6_000_000)));
    assert_eq!((w.cwnd, c.credit), (100_001, 0));
}

/// Section 4.3, the Reno-friendly region: never slower than Reno.
#[test]
fn where_the_function_is_flat_reno_is_faster() {
    let reno = |c: &mut Cubic| {
        (c.w_est, c.credit) = (100_200, 77);
        c.cwnd_prior = 200_000;
    };
    let (cwnd, c) = grown(0, 1_000, 0, reno);
    assert_eq!((cwnd, c.credit), (100_200, 0));
    // As high is no faster.
    let equal = |c: &mut Cubic| c.w_est = 150_000;
    assert_eq!(grown(5_000, 10_000, 0, equal).0, 105_000);
    // The estimate grows first.
    let due = |c: &mut Cubic| (c.w_est, c.est_credit) = (100_000, 99_000);
    assert_eq!(grown(0, 1_000, 0, due).0, 101_000);
}

/// Before the first loss, a twentieth of what is acknowledged at least.
#[test]
fn while_the_capacity_is_not_known_it_is_searched_for() {
    let searching = |c: &mut Cubic| c.searching = true;
    assert_eq!(grown(0, 2_000, 0, searching).0, 100_100);
    let both = |c: &mut Cubic| (c.searching, c.w_est) = (true, 100_050);
    assert_eq!(grown(0, 2_000, 0, both).0, 100_100);
    let more = |c: &mut Cubic| (c.searching, c.w_est) = (true, 100_150);
    assert_eq!(grown(0, 2_000, 0, more).0, 100_150);
}

/// Section 4.7, fast convergence: a loss below the last plateau leaves room for others.
#[test]
fn a_loss_sets_the_plateau() {
    let lost = |w_max: u32| {
        let mut c = Cubic::new();
        (c.w_max, c.epoch) = (w_max, Instant(5));
        assert_eq!(c.on_loss(&window(100_000), 80_000), 56_000);
        assert!(c.epoch.is_never() && !c.searching);
        assert_eq!(c.cwnd_prior, 100_000);
        c.w_max
    };
    assert_eq!(lost(0), 100_000);
    assert_eq!(lost(100_000), 100_000);
    assert_eq!(lost(100_001), 85_000);
}

/// Section 4.9; but after an idle time there is nothing to be put back.
#[test]
fn a_spurious_loss_is_undone_once() {
    let mut c = Cubic::new();
    (c.w_max, c.w_est, c.cwnd_prior, c.k_ms) = (1, 2, 3, 4);
    (c.epoch, c.searching) = (Instant(5), true);
    let before = c;
    c.save_for_undo();
    c.on_loss(&window(100_000), 1);
    c.on_timeout();
    assert_eq!((c.w_max, c.epoch), (0, Instant::NEVER));
    (c.w_est, c.k_ms) = (8, 9);
    c.undo();
    assert_eq!(c, before);
    c.save_for_undo();
    c.on_loss(&window(100_000), 1);
    c.on_idle();
    let idle = c;
    c.undo();
    assert_eq!(c, idle);
    assert!(c.epoch.is_never());
}

proptest! {
    #[test]
    fn the_root_is_the_largest_whose_cube_is_no_larger(x in 0u128..1 << 66) {
        let root = cube_root(x);
        prop_assert!(root * root * root <= x);
        prop_assert!((root + 1) * (root + 1) * (root + 1) > x || root == 1 << 22);
    }
}

#[test]
fn the_root_of_a_cube_is_exact() {
    for root in (0..200).chain([1 << 21, (1 << 22) - 1, 1 << 22]) {
        assert_eq!(cube_root(root * root * root), root);
    }
}
