//! The parameters of the path, sample by sample.

use super::*;

const MSS: u32 = 1_000;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: u32::MAX,
        mss: MSS,
    }
}

/// A path with this bandwidth, in bytes per second, and round trip, in microseconds.
fn path(rate: u64, rtt: u32) -> Model {
    let mut m = Model::new();
    let s = RateSample {
        rate,
        total: 1,
        ..RateSample::default()
    };
    m.take(&s, true, &window(10 * MSS));
    assert!(!m.update_min_rtt(rtt, Instant(1)));
    m.end_round();
    m
}

/// `newly` bytes arrive at `now`, in a round that was begun when `prior` had arrived.
fn arrival(now: u64, prior: u64, total: u64, newly: u32, rate: u64) -> RateSample {
    RateSample {
        now: Instant(now),
        prior,
        total,
        newly,
        rate,
        ..RateSample::default()
    }
}

/// Section 5.5.8, BBRBDPMultiple. Until bandwidth and round trip are known it is the window.
#[test]
fn the_product_of_bandwidth_and_delay_is_what_fills_the_path() {
    let m = path(1_000_000, 20_000);
    assert_eq!(m.bdp(100, &window(5)), 20_000);
    assert_eq!(m.bdp(50, &window(5)), 10_000);
    assert_eq!(m.bdp(225, &window(5)), 45_000);
    // No more than a window may be.
    assert_eq!(path(u64::MAX >> 8, 1_000_000).bdp(200, &window(5)), 1 << 30);
    let unknown = Model::new();
    assert_eq!(unknown.bdp(50, &window(30_000)), 30_000);
    assert_eq!(unknown.bdp(50, &window(MSS)), 4 * MSS);
    let mut no_rtt = Model::new();
    no_rtt.take(&arrival(1, 0, 1, 1, 1_000_000), true, &window(30_000));
    assert_eq!(no_rtt.bdp(100, &window(30_000)), 30_000);
    let mut no_bandwidth = Model::new();
    no_bandwidth.update_min_rtt(20_000, Instant(1));
    assert_eq!(no_bandwidth.bdp(100, &window(30_000)), 30_000);
}

/// BBRHeadroom: 15 %, but a segment at least, and four segments are left.
#[test]
fn some_of_the_bound_is_left_to_others() {
    let mut m = Model::new();
    assert_eq!(m.with_headroom(&window(MSS)), u32::MAX);
    for (hi, left) in [
        (100_000, 85_000),
        (10_000, 8_500),
        (6_000, 5_000),
        (4_500, 4_000),
        (500, 4_000),
    ] {
        m.inflight_hi = hi;
        assert_eq!(m.with_headroom(&window(MSS)), left, "{hi}");
    }
}

/// BBRLossThresh: more than 2 % of what was sent in the round.
#[test]
fn losses_are_high_beyond_one_byte_in_fifty() {
    for (lost, delivered, high) in [(20, 980, false), (21, 979, true), (0, 0, false)] {
        let mut m = Model::new();
        let mut s = arrival(1, 0, 1, delivered, 0);
        s.lost = lost;
        m.take(&s, true, &window(MSS));
        assert_eq!(m.is_loss_high(), high, "{lost} {delivered}");
        m.end_round();
        assert!(!m.is_loss_high());
    }
}

/// Section 5.5.1: a round ends when something arrives that was sent after it began.
#[test]
fn a_round_is_one_trip() {
    let (mut m, w) = (Model::new(), window(10 * MSS));
    assert!(m.take(&arrival(1, 0, 1_000, 1_000, 5), true, &w));
    assert!(!m.take(&arrival(2, 500, 2_000, 1_000, 5), true, &w));
    assert!(!m.take(&arrival(3, 999, 3_000, 1_000, 5), true, &w));
    assert!(m.take(&arrival(4, 1_000, 4_000, 1_000, 5), true, &w));
    // What measures nothing ends nothing.
    assert!(!m.take(&arrival(5, 9_000, 5_000, 1_000, 0), true, &w));
    m.begin_round(9_000);
    assert!(!m.take(&arrival(6, 8_999, 9_500, 1_000, 5), true, &w));
    assert!(m.take(&arrival(7, 9_000, 9_600, 1_000, 5), true, &w));
}

/// Section 5.5.5: the maximum of this cycle and the last one. A user with little to send is
/// no reason to take the path for slower, but for faster.
#[test]
fn the_bandwidth_is_the_maximum_of_two_cycles() {
    let (mut m, w) = (Model::new(), window(10 * MSS));
    let take = |m: &mut Model, rate, app_limited| {
        let s = RateSample {
            rate,
            app_limited,
            total: 1,
            ..RateSample::default()
        };
        m.take(&s, true, &w);
        m.max_bw()
    };
    assert_eq!(take(&mut m, 500, false), 500);
    assert_eq!(take(&mut m, 400, false), 500);
    m.advance_bw_filter();
    assert_eq!(take(&mut m, 300, false), 500);
    assert_eq!(take(&mut m, 450, true), 500);
    m.advance_bw_filter();
    assert_eq!(m.max_bw(), 300, "450 was limited by the user");
    assert_eq!(take(&mut m, 300, true), 300);
    assert_eq!(take(&mut m, 700, true), 700);
    // As much as the maximum is as good.
    m.advance_bw_filter();
    assert_eq!(take(&mut m, 300, false), 700);
    assert_eq!(take(&mut m, 700, true), 700);
    m.advance_bw_filter();
    assert_eq!(m.max_bw(), 700);
    // A cycle without samples forgets nothing.
    m.advance_bw_filter();
    m.advance_bw_filter();
    assert_eq!(m.max_bw(), 700);
}

/// Section 5.5.6.2: losses outside of probes lower the bounds by 30 %, once a round, but not
/// below what that round has delivered.
#[test]
fn losses_lower_the_short_term_bounds() {
    let lossy = |m: &mut Model, from: u64, newly: u32, rate, probing| {
        let mut s = arrival(1, from, from + u64::from(newly), newly, rate);
        s.lost = 1;
        let w = window(100_000);
        assert!(m.take(&s, probing, &w));
        m.end_round();
        (m.bw(), m.inflight_lo)
    };
    let mut m = path(1_000_000, 20_000);
    assert_eq!(lossy(&mut m, 1, 10, 10, true), (1_000_000, u32::MAX));
    assert_eq!(lossy(&mut m, 11, 10, 10, false), (700_000, 70_000));
    assert_eq!(lossy(&mut m, 21, 10, 10, false), (490_000, 49_000));
    // It has delivered more than that.
    assert_eq!(lossy(&mut m, 31, 45_000, 600_000, false), (600_000, 45_000));
    m.reset_short_term();
    assert_eq!((m.bw(), m.inflight_lo), (1_000_000, u32::MAX));
    // Without losses nothing is lowered.
    let s = arrival(1, 100_000, 100_001, 1, 10);
    assert!(m.take(&s, false, &window(100_000)));
    assert_eq!((m.bw(), m.inflight_lo), (1_000_000, u32::MAX));
}

/// What a round has delivered at most, and at what rate, is of that round alone.
#[test]
fn the_latest_signals_are_those_of_the_round() {
    let (mut m, w) = (path(1_000_000, 20_000), window(100_000));
    m.take(&arrival(1, 1_000, 41_000, 40_000, 800_000), false, &w);
    m.take(&arrival(2, 21_000, 51_000, 10_000, 200_000), false, &w);
    assert_eq!(m.inflight_latest, 40_000);
    m.end_round();
    assert_eq!(m.inflight_latest, 0);
    // 10 and 30 % less: the 800,000 are forgotten.
    let mut s = arrival(3, 51_000, 52_000, 1_000, 1_000);
    s.lost = 1;
    m.take(&s, false, &w);
    assert_eq!((m.bw(), m.inflight_lo), (700_000, 70_000));
}

/// Section 5.5.9: what arrives beyond what the bandwidth predicts since the last time that it
/// was not ahead, at most a window; the maximum of five to ten rounds.
#[test]
fn acknowledgments_in_bursts_are_allowed_for() {
    let (mut m, w) = (path(1_000_000, 20_000), window(12_000));
    // Nothing was ahead: this begins an interval.
    let mut at = 10_000_000;
    m.take(&arrival(at, 0, 0, 3_000, 0), true, &w);
    assert_eq!(m.extra(), 3_000);
    // In 1 ms 1,000 bytes are expected: 3,000 + 4,000 - 1,000.
    at += 1_000;
    m.take(&arrival(at, 0, 0, 4_000, 0), true, &w);
    assert_eq!(m.extra(), 6_000);
    // The window bounds it.
    m.take(&arrival(at, 0, 0, 40_000, 0), true, &w);
    assert_eq!(m.extra(), 12_000);
    // 47,000 bytes are what 47 ms have brought: the interval begins anew.
    at += 46_000;
    m.take(&arrival(at, 0, 0, 500, 0), true, &w);
    assert_eq!(m.aggregated, 500);
    // The period of five rounds, of which one was over, and the next one.
    for round in 1..=10_u64 {
        at += 1_000_000;
        m.take(&arrival(at, round * 9, round * 9 + 9, 9, 1), true, &w);
        let kept = if round < 9 { 12_000 } else { 9 };
        assert_eq!(m.extra(), kept, "{round}");
    }
}

/// Section 5.5.7: the minimum, of ten seconds; it is measured on purpose if no packet has come
/// near it for five.
#[test]
fn the_least_round_trip_is_kept_for_ten_seconds() {
    const S: u64 = SECOND;
    let mut m = Model::new();
    assert!(!m.update_min_rtt(0, Instant(S)));
    assert_eq!(m.min_rtt(), 0);
    assert!(!m.update_min_rtt(20_000, Instant(20 * S)));
    assert_eq!(m.min_rtt(), 20_000);
    assert!(!m.update_min_rtt(30_000, Instant(21 * S)));
    assert!(!m.update_min_rtt(0, Instant(21 * S)));
    assert_eq!(m.min_rtt(), 20_000);
    assert!(!m.update_min_rtt(10_000, Instant(22 * S)));
    assert_eq!(m.min_rtt(), 10_000);
    // Five seconds later, to the microsecond, there is time yet.
    assert!(!m.update_min_rtt(12_000, Instant(27 * S)));
    assert!(m.update_min_rtt(12_000, Instant(27 * S + 1)));
    assert_eq!(m.min_rtt(), 10_000);
    // Which was a new minimum of five seconds.
    assert!(!m.update_min_rtt(13_000, Instant(28 * S)));
    // After ten the path has changed: what was measured since holds.
    assert!(!m.update_min_rtt(13_000, Instant(32 * S)));
    assert_eq!(m.min_rtt(), 10_000);
    assert!(!m.update_min_rtt(13_000, Instant(32 * S + 1)));
    assert_eq!(m.min_rtt(), 12_000);
    // A probe is one that was just made, whatever it measured.
    m.note_probed(Instant(40 * S));
    assert!(!m.update_min_rtt(15_000, Instant(45 * S)));
}

/// BBR.min_rtt_stamp is that of the first time that the minimum was measured, as the draft has it.
#[test]
fn a_minimum_that_is_met_again_is_no_younger() {
    let mut m = path(1_000_000, 20_000);
    assert!(m.update_min_rtt(20_000, Instant(6 * SECOND)));
    assert!(m.update_min_rtt(30_000, Instant(12 * SECOND)));
    assert_eq!(m.min_rtt(), 30_000);
}
