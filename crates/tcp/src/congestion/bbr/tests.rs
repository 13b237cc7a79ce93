//! The phases, on a path of which bandwidth and round trip are known.

mod window;

use super::*;

const MSS: u32 = 1_000;
/// The path's bandwidth in bytes per second, and its round trip in microseconds: a product of
/// 50 segments.
const RATE: u64 = 1_000_000;
const RTT: u32 = 50_000;
const BDP: u32 = 50_000;

/// A connection, and what has arrived of it.
struct Path {
    bbr: Bbr,
    w: Window,
    now: Instant,
    total: u64,
}

impl Path {
    fn new() -> Path {
        Path {
            bbr: Bbr::new(),
            w: Window {
                cwnd: 10 * MSS,
                ssthresh: u32::MAX,
                mss: MSS,
            },
            now: Instant(60 * SECOND),
            total: 0,
        }
    }

    /// What an acknowledgment of one round trip at `rate` says, with `in_flight` bytes behind it.
    fn sample(&self, rate: u64, in_flight: u32) -> RateSample {
        let newly = (rate * u64::from(RTT) / SECOND) as u32;
        RateSample {
            now: self.now.after_us(u64::from(RTT)),
            total: self.total + u64::from(newly),
            newly,
            in_flight,
            rate,
            prior: self.total,
            rtt: RTT,
            ..RateSample::default()
        }
    }

    fn takes(&mut self, s: RateSample) {
        (self.now, self.total) = (s.now, s.total);
        self.bbr.on_rate(&mut self.w, &s);
    }

    fn round(&mut self, rate: u64, in_flight: u32) {
        self.takes(self.sample(rate, in_flight));
    }

    /// Startup is over: the bandwidth has been the same for three rounds.
    fn draining() -> Path {
        let mut p = Path::new();
        for _ in 0..4 {
            assert_eq!(p.bbr.mode, Mode::Startup);
            p.round(RATE, 3 * BDP);
        }
        assert_eq!(p.bbr.mode, Mode::Drain);
        p
    }

    /// The queue of Startup is gone.
    fn cruising() -> Path {
        let mut p = Path::draining();
        p.round(RATE, BDP);
        p.round(RATE, BDP);
        assert_eq!(p.bbr.mode, Mode::Cruise);
        p
    }

    /// Half a round later; nothing was measured.
    fn rest(&mut self, us: u64) {
        let quiet = RateSample {
            now: self.now.after_us(us),
            total: self.total,
            in_flight: BDP,
            ..RateSample::default()
        };
        self.takes(quiet);
    }

    /// It probes for bandwidth: two seconds or more have passed.
    fn refilling() -> Path {
        let mut p = Path::cruising();
        p.rest(4 * SECOND);
        assert_eq!(p.bbr.mode, Mode::Refill);
        p
    }

    fn up() -> Path {
        let mut p = Path::refilling();
        p.round(RATE, BDP);
        assert_eq!(p.bbr.mode, Mode::Up);
        p
    }

    /// The pacing rate, of the bandwidth: 1 % is left for queues to drain.
    fn percent(&self) -> u64 {
        self.bbr.pacing_rate * 10_000 / 99 / RATE
    }
}

/// Section 5.6.2 of the draft: each phase's gain.
#[test]
fn each_phase_has_its_pace() {
    assert_eq!(Path::draining().percent(), 50);
    assert_eq!(Path::cruising().percent(), 100);
    assert_eq!(Path::refilling().percent(), 100);
    assert_eq!(Path::up().percent(), 125);
    let mut p = Path::new();
    p.round(RATE, BDP);
    assert_eq!(p.percent(), 277);
    let mut p = Path::draining();
    p.round(RATE, BDP);
    assert_eq!((p.bbr.mode, p.percent()), (Mode::Down, 90));
    p.bbr.enter(Mode::ProbeRtt, p.now);
    p.round(RATE, BDP);
    assert_eq!((p.bbr.mode, p.percent()), (Mode::ProbeRtt, 100));
}

/// Section 5.6.2: before the first sample, the window in a round trip, by Startup's gain. In
/// Startup it does not go down again.
#[test]
fn the_first_pace_is_that_of_the_first_window() {
    let mut p = Path::new();
    assert_eq!(p.bbr.pacing_rate(), Some(u64::MAX));
    p.bbr.init_pace(&p.w, 20_000);
    // 10,000 bytes in 20 ms.
    assert_eq!(p.bbr.pacing_rate(), Some(500_000 * 277 / 100));
    p.round(100_000, BDP);
    assert_eq!(p.bbr.pacing_rate(), Some(500_000 * 277 / 100));
    p.round(RATE, BDP);
    assert_eq!(p.percent(), 277);
    // Without a handshake's round trip, that of the first sample.
    let mut p = Path::new();
    p.rest(1);
    assert_eq!(p.bbr.pacing_rate(), Some(u64::MAX));
    let mut s = p.sample(0, BDP);
    s.rtt = 20_000;
    p.takes(s);
    assert_eq!(p.bbr.pacing_rate(), Some(500_000 * 277 / 100));
    let mut p = Path::new();
    p.bbr.init_pace(&p.w, 0);
    assert_eq!(p.bbr.pacing_rate(), Some(10_000 * SECOND * 277 / 100));
}

/// Section 5.3.1.2: three rounds without growth by a quarter.
#[test]
fn startup_ends_when_the_bandwidth_does_not_grow() {
    let mut p = Path::new();
    let mut rate = 100_000;
    for _ in 0..10 {
        p.round(rate, 3 * BDP);
        rate = rate * 5 / 4;
        assert_eq!(p.bbr.full_bw_count, 0);
    }
    // A little less than a quarter, and rounds that the user limits.
    p.round(rate * 99 / 100, 3 * BDP);
    assert_eq!(p.bbr.full_bw_count, 1);
    for _ in 0..5 {
        let mut s = p.sample(rate / 2, 3 * BDP);
        s.app_limited = true;
        p.takes(s);
    }
    assert_eq!((p.bbr.mode, p.bbr.full_bw_count), (Mode::Startup, 1));
    p.round(rate * 99 / 100, 3 * BDP);
    assert_eq!((p.bbr.mode, p.bbr.full_bw_count), (Mode::Startup, 2));
    p.round(rate * 99 / 100, 3 * BDP);
    assert_eq!(p.bbr.mode, Mode::Drain);
}

/// Section 5.3.1.3: six acknowledgments that report losses, and more than 2 % of the round.
#[test]
fn startup_ends_at_high_losses() {
    for (acks, lost, ends) in [(6, 2_000, true), (5, 2_000, false), (6, 10, false)] {
        let mut p = Path::new();
        p.round(RATE, BDP);
        for _ in 1..acks {
            let mut s = p.sample(0, BDP);
            (s.lost, s.newly, s.total) = (lost, 10_000, p.total);
            p.takes(s);
        }
        let mut s = p.sample(2 * RATE, BDP);
        s.lost = lost;
        p.takes(s);
        assert_eq!(p.bbr.full_bw_reached, ends, "{acks} {lost}");
        // The bound is what the path has been seen to take.
        let hi = if ends { 2 * BDP } else { u32::MAX };
        assert_eq!(p.bbr.model.inflight_hi, hi);
        assert_eq!(p.bbr.losses, 0);
    }
}

/// Section 5.3.2: until no more is in flight than fills the path.
#[test]
fn the_queue_of_startup_is_drained() {
    let mut p = Path::draining();
    p.round(RATE, BDP + 1);
    assert_eq!(p.bbr.mode, Mode::Drain);
    p.round(RATE, BDP);
    assert_eq!(p.bbr.mode, Mode::Down);
    p.round(RATE, BDP + 1);
    assert_eq!(p.bbr.mode, Mode::Down);
    p.round(RATE, BDP);
    assert_eq!(p.bbr.mode, Mode::Cruise);
    // Where there is a bound, some of it is left to others.
    let mut p = Path::draining();
    p.bbr.model.inflight_hi = 50_000;
    p.round(RATE, BDP);
    p.round(RATE, 42_501);
    assert_eq!(p.bbr.mode, Mode::Down);
    p.round(RATE, 42_500);
    assert_eq!(p.bbr.mode, Mode::Cruise);
}

/// Section 5.3.3.5: two to three seconds after the last probe, counted from Down on, or as many
/// rounds as Reno would take, at most 63.
#[test]
fn the_next_probe_is_due_after_a_time() {
    let mut p = Path::cruising();
    let (begun, wait) = (p.bbr.phase_at, u64::from(p.bbr.wait_us));
    assert!((2 * SECOND..3 * SECOND).contains(&wait), "{wait}");
    p.rest(wait - p.now.since(begun));
    assert_eq!(p.bbr.mode, Mode::Cruise);
    p.rest(1);
    assert_eq!(p.bbr.mode, Mode::Refill);
    // In Down as well.
    let mut p = Path::draining();
    p.round(RATE, BDP);
    let mut s = p.sample(0, 2 * BDP);
    s.now = p.now.after_us(3 * SECOND);
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Refill);
    // Flows do not probe in step.
    let waits: std::collections::BTreeSet<u32> = (0..10)
        .map(|us| {
            let mut bbr = Bbr::new();
            bbr.start_down(Instant(60 * SECOND + us));
            assert!((2 * SECOND..3 * SECOND).contains(&u64::from(bbr.wait_us)));
            bbr.wait_us
        })
        .collect();
    assert_eq!(waits.len(), 10);
}

#[test]
fn the_next_probe_is_due_after_as_many_rounds_as_reno_would_take() {
    for (mss, rounds) in [(MSS, 50), (100, 63), (10_000, 5)] {
        let mut p = Path::cruising();
        p.w.mss = mss;
        p.bbr.start_down(p.now);
        p.bbr.mode = Mode::Cruise;
        p.bbr.wait_us = u32::MAX;
        for _ in 1..rounds {
            p.round(RATE, BDP);
            assert_eq!(p.bbr.mode, Mode::Cruise, "{mss}");
        }
        p.round(RATE, BDP);
        assert_eq!(p.bbr.mode, Mode::Refill, "{mss}");
    }
}

/// Section 5.3.3.3: Refill takes one round, with what earlier losses had lowered forgotten.
#[test]
fn a_probe_begins_with_a_full_path() {
    let mut p = Path::cruising();
    let mut s = p.sample(RATE, BDP);
    s.lost = 1;
    p.takes(s);
    assert_ne!(p.bbr.model.inflight_lo, u32::MAX);
    p.rest(4 * SECOND);
    assert_eq!(p.bbr.mode, Mode::Refill);
    assert_eq!(p.bbr.model.inflight_lo, u32::MAX);
    assert_eq!(p.bbr.model.bw(), RATE);
    // What was on its way when it began ends no round.
    let mut s = p.sample(RATE, BDP);
    s.prior = p.total - 1;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Refill);
    let mut s = p.sample(RATE, BDP);
    s.prior = p.total - u64::from(BDP);
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Up);
    assert_eq!((p.bbr.full_bw, p.bbr.full_bw_count), (0, 0));
    // The round is that of what is sent from then on.
    let mut p = Path::cruising();
    let mut s = p.sample(RATE, BDP);
    (s.now, s.prior) = (p.now.after_us(4 * SECOND), 0);
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Refill);
    let mut s = p.sample(RATE, BDP);
    s.prior = p.total - 1;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Refill);
    p.round(RATE, BDP);
    assert_eq!(p.bbr.mode, Mode::Up);
}

/// Section 5.3.3.4: Up ends after a round trip with a quarter more in flight than fills the
/// path, or when the bandwidth has not grown for three rounds.
#[test]
fn a_probe_ends_with_a_queue_or_without_growth() {
    let mut p = Path::up();
    let begun = p.bbr.phase_at;
    assert_eq!(begun, p.now);
    // No longer than a round trip.
    let mut s = p.sample(0, 2 * BDP);
    s.now = begun.after_us(u64::from(RTT));
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Up);
    let late = begun.after_us(u64::from(RTT) + 1);
    let mut s = p.sample(0, BDP * 5 / 4);
    s.now = late;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Up);
    s.in_flight += 1;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Down);

    let mut p = Path::up();
    for _ in 0..3 {
        p.round(RATE, BDP);
        assert_eq!(p.bbr.mode, Mode::Up);
    }
    let mut s = p.sample(RATE, BDP);
    s.app_limited = true;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Up);
    p.round(RATE, BDP);
    assert_eq!(p.bbr.mode, Mode::Down);
    assert_eq!((p.bbr.rounds, p.bbr.up_step), (0, u32::MAX));
    // The old cycle's bandwidth is kept for one more.
    assert!(p.bbr.filter_due);
    p.round(RATE / 2, BDP);
    assert!(!p.bbr.filter_due);
    assert_eq!(p.bbr.model.max_bw(), RATE);
}

/// Section 5.3.3.6: high losses in a probe say where the path's bound is: at what was in flight
/// then, but no less than 0.7 of what fills the path.
#[test]
fn high_losses_in_a_probe_set_the_bound() {
    // With no more in flight than fills the path, Down is over at once.
    for (in_flight, newly, hi, mode) in [
        (60_000, 5_000, 67_000, Mode::Down),
        (1_000, 1_000, 35_000, Mode::Cruise),
    ] {
        for mut p in [Path::refilling(), Path::up()] {
            let mut s = p.sample(0, in_flight);
            (s.newly, s.lost) = (newly, 2_000);
            p.takes(s);
            assert_eq!((p.bbr.mode, p.bbr.model.inflight_hi), (mode, hi));
        }
    }
    let mut p = Path::cruising();
    let mut s = p.sample(0, 60_000);
    s.lost = 2_000;
    p.takes(s);
    assert_eq!(
        (p.bbr.mode, p.bbr.model.inflight_hi),
        (Mode::Cruise, u32::MAX)
    );
}

/// Section 5.3.3.4, BBRProbeInflightLongTermUpward: as long as the bound is in use it grows by
/// one segment in the first round, two in the second, four in the third.
#[test]
fn a_bound_in_use_is_raised_faster_and_faster() {
    let mut p = Path::refilling();
    p.bbr.model.inflight_hi = 60_000;
    p.w.cwnd = 60_000;
    p.round(RATE, 30_000);
    assert_eq!(p.bbr.mode, Mode::Up);
    let start = p.bbr.model.inflight_hi;
    // Not in use.
    let mut s = p.sample(0, start - 10_001);
    s.newly = 10_000;
    p.takes(s);
    assert_eq!(p.bbr.model.inflight_hi, start);
    // A window acknowledged, in parts, while it is.
    let used = |p: &mut Path, newly: u32| {
        let cwnd = p.w.cwnd;
        let mut s = p.sample(0, cwnd - newly);
        s.newly = newly;
        p.bbr.model.end_round();
        p.bbr.raise_bound(&p.w, &s, false);
        p.bbr.model.inflight_hi
    };
    let step = p.bbr.up_step;
    assert_eq!(step, p.w.cwnd.max(MSS));
    assert_eq!(used(&mut p, step - 1), start);
    assert_eq!(used(&mut p, 1), start + MSS);
    assert_eq!(used(&mut p, step), start + 2 * MSS);
    p.bbr.raise_slope(&p.w);
    assert_eq!(p.bbr.up_step, (p.w.cwnd / 2).max(MSS));
    p.bbr.raise_slope(&p.w);
    assert_eq!(p.bbr.up_step, (p.w.cwnd / 4).max(MSS));
    for _ in 0..40 {
        p.bbr.raise_slope(&p.w);
    }
    assert_eq!(p.bbr.up_step, MSS);
    // As acknowledgments have it: by what they acknowledge, and faster with each round.
    let (bound, rounds) = (p.bbr.model.inflight_hi, p.bbr.up_rounds);
    let mut s = p.sample(RATE, p.w.cwnd - MSS);
    s.newly = MSS;
    p.bbr.up_rounds = 3;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::Up);
    assert_eq!(p.bbr.model.inflight_hi, bound + MSS);
    assert_eq!((p.bbr.up_rounds, rounds), (4, 30));
    // Without a bound there is nothing to raise.
    p.bbr.model.inflight_hi = u32::MAX;
    assert_eq!(used(&mut p, step), u32::MAX);
}

/// Section 5.3.4: five seconds without a round trip near the minimum; then half of what fills
/// the path, for 200 ms and a round, and the window is as before.
#[test]
fn the_round_trip_is_probed_with_half_a_window() {
    let mut p = Path::cruising();
    p.bbr.wait_us = u32::MAX;
    p.bbr.rounds = 0;
    let cwnd = p.w.cwnd;
    let mut s = p.sample(RATE, BDP);
    (s.now, s.rtt) = (p.now.after_us(5 * SECOND), RTT + 1);
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::ProbeRtt);
    assert_eq!(p.w.cwnd, BDP / 2);
    // What was in flight has to arrive first.
    p.round(RATE, BDP / 2 + 1);
    assert!(p.bbr.probe_rtt_done.is_never());
    let mut s = p.sample(RATE, BDP / 2);
    s.prior = 0;
    p.takes(s);
    let begun = p.now;
    assert_eq!(p.bbr.probe_rtt_done, begun.after_us(200_000));
    // The time is over, the round is not: of what was sent before nothing ends it.
    p.rest(200_000);
    assert_eq!((p.bbr.mode, p.w.cwnd), (Mode::ProbeRtt, BDP / 2));
    let mut s = p.sample(RATE, BDP / 2);
    s.prior = p.total - 1;
    p.takes(s);
    assert_eq!(p.bbr.mode, Mode::ProbeRtt);
    p.bbr.filter_due = false;
    p.round(RATE, BDP / 2);
    assert_eq!((p.bbr.mode, p.w.cwnd), (Mode::Cruise, cwnd));
    assert_eq!(p.bbr.prior_cwnd, 0);
    // What waits for the next probe begins anew, of the bandwidth and of the round trip.
    assert!(p.bbr.filter_due && p.bbr.rounds == 0 && p.bbr.phase_at == p.now);
    let mut s = p.sample(RATE, BDP / 2);
    (s.now, s.rtt) = (p.now.after_us(5 * SECOND), RTT + 1);
    p.takes(s);
    assert_ne!(p.bbr.mode, Mode::ProbeRtt);
    // The round is over, the time is not.
    let mut p = Path::cruising();
    p.bbr.enter(Mode::ProbeRtt, p.now);
    p.round(RATE, BDP / 2);
    for _ in 0..3 {
        p.round(RATE, BDP / 2);
        assert_eq!(p.bbr.mode, Mode::ProbeRtt);
    }
    p.round(RATE, BDP / 2);
    assert_eq!(p.bbr.mode, Mode::Cruise);
    // In Startup it goes on after it.
    let mut p = Path::new();
    p.round(RATE, BDP);
    p.bbr.enter(Mode::ProbeRtt, p.now);
    for doublings in 1..=5 {
        assert_eq!(p.bbr.mode, Mode::ProbeRtt);
        p.round(RATE << doublings, MSS);
    }
    assert_eq!(p.bbr.mode, Mode::Startup);
    // A path too small for half of it has four segments.
    let mut p = Path::cruising();
    p.w.mss = 10_000;
    p.bbr.enter(Mode::ProbeRtt, p.now);
    p.round(RATE, BDP);
    assert_eq!(p.w.cwnd, 40_000);
    assert!(p.bbr.probe_rtt_done.is_never());
    p.round(RATE, 40_000);
    assert!(!p.bbr.probe_rtt_done.is_never());
}

/// Section 5.5.5: the bandwidth is the maximum of this cycle and the last; a cycle begins in the
/// round after a probe.
#[test]
fn a_cycle_later_the_bandwidth_of_the_last_is_forgotten() {
    let mut p = Path::cruising();
    p.round(2 * RATE, BDP);
    for expected in [2 * RATE, RATE] {
        p.bbr.start_down(p.now);
        for _ in 0..3 {
            p.round(RATE, BDP);
            assert!(!p.bbr.filter_due);
            assert_eq!(p.bbr.model.max_bw(), expected);
        }
    }
}

/// What the connection recovers from, BBR is told with each acknowledgment, and that it is over.
#[test]
fn a_connection_tells_what_it_recovers_from() {
    use crate::congestion::Chosen;
    use crate::flight::recovery::tests::{flight, sacks};
    let recovering = |s: &crate::script::Script| match s.tcb.congestion.controller.chosen {
        Chosen::Bbr(bbr) => bbr.recovering,
        _ => panic!("another algorithm"),
    };
    let mut s = flight(true);
    s.tcb
        .settings()
        .set_congestion(crate::Congestion::Bbr, s.now);
    sacks(&mut s, 1_000, &[]);
    assert!(!recovering(&s));
    sacks(&mut s, 1_000, &[(2_000, 20_000)]);
    assert!(recovering(&s));
    s.waits_ms(10);
    s.sent();
    s.waits_ms(20);
    let end = s.tcb.snd.nxt();
    sacks(&mut s, end, &[]);
    assert!(s.tcb.flight.recovery.is_open() && !recovering(&s));
}

/// Losses while it probes do not lower the short-term bounds; others do.
#[test]
fn losses_of_a_probe_are_no_bound() {
    for (mut p, lowers) in [
        (Path::new(), false),
        (Path::refilling(), false),
        (Path::up(), false),
        (Path::cruising(), true),
    ] {
        let mut s = p.sample(RATE, BDP);
        s.lost = 1;
        p.takes(s);
        assert_eq!(p.bbr.model.inflight_lo != u32::MAX, lowers);
    }
}

/// Startup that ends for two reasons at once has ended.
#[test]
fn startup_ends_for_two_reasons_as_for_one() {
    let mut p = Path::new();
    for _ in 0..3 {
        p.round(RATE, BDP);
    }
    assert_eq!((p.bbr.mode, p.bbr.full_bw_count), (Mode::Startup, 2));
    for _ in 1..6 {
        let mut s = p.sample(0, BDP);
        (s.lost, s.newly, s.total) = (2_000, 10_000, p.total);
        p.takes(s);
    }
    let mut s = p.sample(RATE, BDP + 1);
    s.lost = 2_000;
    p.takes(s);
    assert!(p.bbr.full_bw_reached);
    assert_eq!(p.bbr.mode, Mode::Drain);
}

/// The connection passes on what was lost, what is in the network and that it recovers.
#[test]
fn a_sample_has_what_the_connection_knows() {
    use crate::congestion::{Chosen, Congestion, CongestionState, Controller, Delivered};
    let mut state = CongestionState::new(Controller::new(Congestion::Bbr, MSS as u16, 10));
    let delivered = Delivered {
        reached: 1_000,
        in_order: true,
        newly: 1_000,
        age: 10,
        min_rtt: 1,
    };
    let bbr = |state: &CongestionState| match state.controller.chosen {
        Chosen::Bbr(bbr) => bbr,
        _ => panic!("another algorithm"),
    };
    state.sample_rate(&delivered, 2_000, 600_000, true, Instant(5));
    assert_eq!((bbr(&state).losses, bbr(&state).recovering), (1, true));
    assert_eq!(state.controller.cwnd(), 601_000);
    // What was counted once is not lost again.
    state.sample_rate(&delivered, 2_000, 600_000, true, Instant(6));
    assert_eq!(bbr(&state).losses, 1);
}
