//! The window: what it is a multiple of, what bounds it, and what recovery does with it.

use super::*;

/// Section 5.6.4: twice what fills the path, and what arrives in bursts; in Up a quarter and two
/// segments more.
#[test]
fn the_window_is_a_multiple_of_what_fills_the_path() {
    let until_steady = |p: &mut Path| {
        p.bbr.wait_us = u32::MAX;
        for _ in 0..8 {
            p.bbr.rounds = 0;
            p.rest(1);
            let mut s = p.sample(0, BDP);
            (s.newly, s.now) = (BDP, p.now.after_us(60_000));
            p.takes(s);
        }
        (p.w.cwnd, p.bbr.model.extra())
    };
    let mut p = Path::cruising();
    let (cwnd, extra) = until_steady(&mut p);
    assert_eq!(cwnd, 2 * BDP + extra);
    p.bbr.mode = Mode::Up;
    p.bbr.phase_at = p.now;
    p.w.cwnd = 300_000;
    p.rest(1);
    let extra = p.bbr.model.extra();
    assert_eq!(p.w.cwnd, BDP * 9 / 4 + extra + 2 * MSS);
    // On a short path, three bursts of two segments.
    let mut p = Path::cruising();
    p.bbr.model = Model::new();
    let mut s = p.sample(10_000, 0);
    (s.rtt, s.newly) = (1_000, 1_000);
    p.takes(s);
    p.w.cwnd = 300_000;
    p.takes(p.sample(0, 0));
    assert_eq!(p.w.cwnd, 6 * MSS);
    // A burst is what the pace allows in a millisecond, at most 64 KiB.
    for (pace, burst) in [(7_654_321, 7_654), (100_000_000, 65_536)] {
        p.w.cwnd = 300_000;
        p.bbr.pacing_rate = pace;
        let s = p.sample(0, 0);
        p.bbr.set_window(&mut p.w, &s);
        assert_eq!(p.w.cwnd, 3 * burst);
    }
}

/// It grows by what is delivered and no faster: in Startup without a bound as long as the model
/// wants more, or fewer than ten segments have arrived.
#[test]
fn the_window_grows_by_what_is_delivered() {
    let mut p = Path::new();
    let mut s = p.sample(RATE, BDP);
    s.newly = 4_321;
    p.takes(s);
    assert_eq!(p.w.cwnd, 14_321);
    p.w.cwnd = 500_000;
    p.round(RATE, BDP);
    assert_eq!(p.w.cwnd, 500_000);
    let most = p.bbr.model.bdp(200, &p.w) + p.bbr.model.extra();
    for (cwnd, grown) in [(most - 1, most - 1 + 4_321), (most, most)] {
        p.w.cwnd = cwnd;
        s.total = p.total;
        p.bbr.set_window(&mut p.w, &s);
        assert_eq!(p.w.cwnd, grown);
    }
    // When Startup is over, up to what the model wants.
    let mut p = Path::cruising();
    let most = p.bbr.model.bdp(200, &p.w) + p.bbr.model.extra();
    for (cwnd, grown) in [(20_000, 24_321), (most - 1, most)] {
        p.w.cwnd = cwnd;
        p.bbr.set_window(&mut p.w, &s);
        assert_eq!(p.w.cwnd, grown);
    }
    // So long nothing that is measured is believed.
    let mut p = Path::new();
    p.w.cwnd = 500_000;
    let mut s = p.sample(RATE, BDP);
    (s.newly, s.total) = (1_000, 9_999);
    p.takes(s);
    assert_eq!(p.w.cwnd, 501_000);
    let mut p = Path::new();
    p.w.cwnd = 500_000;
    s.total = 10_000;
    p.takes(s);
    assert_eq!(p.w.cwnd, 500_000);
    // Four segments are the least, the largest window the most.
    let mut p = Path::cruising();
    p.w.cwnd = MSS;
    p.rest(1);
    assert_eq!(p.w.cwnd, 4 * MSS);
}

/// Section 5.6.4.4: in recovery the window is at least what is in the network and was just
/// delivered; losses come off. After it, the window is as it was.
#[test]
fn recovery_keeps_to_what_arrives_and_gives_the_window_back() {
    let mut p = Path::cruising();
    let cwnd = p.w.cwnd;
    assert_eq!(p.bbr.on_loss(&p.w, 1), p.w.ssthresh);
    let recovering = |p: &Path, in_flight, newly, lost| RateSample {
        now: p.now,
        total: p.total,
        in_flight,
        newly,
        lost,
        recovering: true,
        ..RateSample::default()
    };
    let s = recovering(&p, 1_000, 0, 2_000);
    p.takes(s);
    assert_eq!(p.w.cwnd, cwnd - 2_000);
    let s = recovering(&p, 30_000, 5_000, 900_000);
    p.takes(s);
    assert_eq!(p.w.cwnd, 35_000);
    assert_eq!(p.bbr.prior_cwnd, cwnd);
    p.rest(1);
    assert_eq!((p.w.cwnd, p.bbr.prior_cwnd), (cwnd, 0));
    // While the round trip is probed, the window is not the one to be kept.
    p.bbr.enter(Mode::ProbeRtt, p.now);
    p.bbr.on_loss(&p.w, 1);
    assert_eq!(p.bbr.prior_cwnd, 0);
}

/// Section 5.6.4.7: in Cruise with headroom below the long-term bound, while probing up to it,
/// and never above the short-term bound.
#[test]
fn the_bounds_of_the_model_hold() {
    let bounded = |mode, hi, lo| {
        let mut p = Path::cruising();
        p.bbr.mode = mode;
        (p.bbr.model.inflight_hi, p.bbr.model.inflight_lo) = (hi, lo);
        p.w.cwnd = 80_000;
        p.bbr.set_window(&mut p.w, &RateSample::default());
        p.w.cwnd
    };
    let none = u32::MAX;
    assert_eq!(bounded(Mode::Cruise, 60_000, none), 51_000);
    assert_eq!(bounded(Mode::ProbeRtt, 20_000, none), 17_000);
    assert_eq!(bounded(Mode::ProbeRtt, 60_000, none), BDP / 2);
    for mode in [Mode::Down, Mode::Refill, Mode::Up] {
        assert_eq!(bounded(mode, 60_000, none), 60_000);
        assert_eq!(bounded(mode, 60_000, 50_000), 50_000);
    }
    for mode in [Mode::Startup, Mode::Drain] {
        assert_eq!(bounded(mode, 60_000, none), 80_000);
    }
    assert_eq!(bounded(Mode::Cruise, none, 40_000), 40_000);
    assert_eq!(bounded(Mode::Cruise, 100, 100), 4 * MSS);
}
