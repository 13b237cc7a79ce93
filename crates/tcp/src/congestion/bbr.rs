//! BBR (draft-ietf-ccwg-bbr, which is BBRv3): a model of the path's bandwidth and minimum
//! round-trip time, and the pacing rate and window derived from it.
//!
//! Owns [`Bbr`], the state machine; `bbr/model.rs` has the model. Its input is the
//! samples of `rate.rs`; `congestion/mod.rs` calls it for every acknowledgment, also in
//! recovery. It does not halve the window for a loss, but bounds the flight once a round
//! loses more than one byte in fifty.
//!
//! | mode | pacing rate / bandwidth | ends when |
//! | --- | --- | --- |
//! | Startup | 2.77 | the bandwidth has not grown by a quarter for three rounds, or losses are high |
//! | Drain | 0.5 | the queue is drained |
//! | Down | 0.9 | the flight leaves some headroom |
//! | Cruise | 1 | 2 to 3 s have passed, or as many rounds as Reno would need |
//! | Refill | 1 | one round has passed |
//! | Up | 1.25 | losses are high, or the flight exceeds the BDP by a quarter |
//! | ProbeRtt | 1, half the window | 200 ms and a round have passed |
//!
//! Quantities are in bytes, bytes per second and microseconds. `docs/rfc.md` lists the
//! deviations from the draft.

mod model;

use super::{Algorithm, Kind, MAX_CWND, Window};
use crate::congestion::RateSample;
use crate::time::{Instant, MS, SECOND};
use model::Model;

/// The phase of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// Gains are in hundredths. BBRStartupPacingGain is 4 ln 2.
const STARTUP_GAIN: u64 = 277;
/// BBRLossThresh: losses are high when a round loses more than one byte in this many.
const LOSS_DENOMINATOR: u64 = 50;
/// BBRStartupFullLossCnt: acknowledgments in a round that report losses.
const STARTUP_LOSSES: u8 = 6;
/// BBRMinPipeCwnd, segments.
const MIN_PIPE: u32 = 4;
/// BBRProbeRTTDuration.
const PROBE_RTT_US: u64 = 200 * MS;
/// The largest burst of the port, for BBRQuantizationBudget.
const BURST: u32 = 65_536;

/// The state of BBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bbr {
    mode: Mode,
    /// BBR.full_bw_reached: Startup has found the bandwidth.
    full_bw_reached: bool,
    /// BBR.full_bw_count: consecutive rounds without growth.
    full_bw_count: u8,
    /// Acknowledgments in this round that reported losses.
    losses: u8,
    /// BBR.bw_probe_up_rounds.
    up_rounds: u8,
    /// Rounds since the last probe for bandwidth.
    rounds: u8,
    /// The last sample was taken in recovery.
    recovering: bool,
    /// The bandwidth filter advances at the next round.
    filter_due: bool,
    /// BBR.probe_rtt_round_done.
    round_done: bool,
    model: Model,
    /// BBR.full_bw.
    full_bw: u64,
    /// When the current phase began.
    phase_at: Instant,
    /// BBR.bw_probe_wait.
    wait_us: u32,
    /// BBR.bw_probe_up_acks and BBR.probe_up_cnt, bytes.
    up_acked: u32,
    up_step: u32,
    /// BBR.probe_rtt_done_stamp, `NEVER` if not known yet.
    probe_rtt_done: Instant,
    /// BBR.prior_cwnd.
    prior_cwnd: u32,
    /// BBR.pacing_rate.
    pacing_rate: u64,
}

impl Bbr {
    const fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    // ---- Detecting a full pipe. ----

    /// BBRCheckFullBWReached, BBRCheckStartupHighLoss: called at the end of a round.
    fn check_full(&mut self, w: &Window, s: &RateSample) {
        if self.full_bw_reached {
            return;
        }
        if self.model.is_loss_high() && self.losses >= STARTUP_LOSSES {
            self.full_bw_reached = true;
            let bdp = self.model.bdp(100, w);
            self.model.inflight_hi = bdp.max(self.model.inflight_latest);
        }
        if s.app_limited {
            return;
        }
        if self.bw_grows() {
            return;
        }
        self.full_bw_reached |= self.full_bw_count >= 3;
    }

    /// Whether the bandwidth has grown by a quarter since the last time it did.
    fn bw_grows(&mut self) -> bool {
        if self.model.max_bw() >= self.full_bw.saturating_mul(5) / 4 {
            self.full_bw = self.model.max_bw();
            self.full_bw_count = 0;
            return true;
        }
        self.full_bw_count = self.full_bw_count.saturating_add(1);
        false
    }

    fn reset_full_bw(&mut self) {
        self.full_bw = 0;
        self.full_bw_count = 0;
    }

    // ---- The cycle. ----

    fn enter(&mut self, mode: Mode, now: Instant) {
        self.mode = mode;
        self.phase_at = now;
    }

    /// BBRStartProbeBW_DOWN.
    fn start_down(&mut self, now: Instant) {
        self.enter(Mode::Down, now);
        self.rounds = 0;
        self.up_step = u32::MAX;
        self.filter_due = true;
        // BBRPickProbeWait: 2 s plus up to one more, so that flows do not probe in step;
        // the clock's microseconds are random enough.
        self.wait_us = (2 * SECOND + now.0.wrapping_mul(0x9e37_79b9) % SECOND) as u32;
    }

    /// BBRIsTimeToProbeBW: after a time, or after as many rounds as Reno would take to
    /// grow by the flight.
    fn is_time_to_probe(&self, w: &Window, now: Instant) -> bool {
        let reno = (self.model.bdp(100, w) / w.mss.max(1)).min(63);
        now.since(self.phase_at) > u64::from(self.wait_us) || u32::from(self.rounds) >= reno
    }

    /// BBRUpdateProbeBWCyclePhase.
    fn update_phase(&mut self, w: &Window, s: &RateSample, round: bool) {
        match self.mode {
            Mode::Startup if self.full_bw_reached => self.enter(Mode::Drain, s.now),
            Mode::Drain if s.in_flight <= self.model.bdp(100, w) => self.start_down(s.now),
            Mode::Down | Mode::Cruise if self.is_time_to_probe(w, s.now) => self.start_refill(s),
            Mode::Down => {
                let enough = self.model.with_headroom(w);
                if s.in_flight <= enough.min(self.model.bdp(100, w)) {
                    // The phase's start time is kept.
                    self.mode = Mode::Cruise;
                }
            }
            Mode::Refill if round => {
                self.enter(Mode::Up, s.now);
                self.reset_full_bw();
                self.up_rounds = 0;
                self.raise_slope(w);
            }
            Mode::Up => self.update_up_phase(w, s, round),
            _ => {}
        }
    }

    /// BBRStartProbeBW_REFILL.
    fn start_refill(&mut self, s: &RateSample) {
        self.model.reset_short_term();
        self.model.begin_round(s.total);
        self.enter(Mode::Refill, s.now);
        self.up_acked = 0;
    }

    fn update_up_phase(&mut self, w: &Window, s: &RateSample, round: bool) {
        let full = round && !s.app_limited && !self.bw_grows() && self.full_bw_count >= 3;
        let long = s.now.since(self.phase_at) > u64::from(self.model.min_rtt());
        let queue = s.in_flight > self.model.bdp(125, w);
        if full || (long && queue) {
            return self.start_down(s.now);
        }
        self.raise_bound(w, s, round);
    }

    /// BBRAdaptLongTermModel for high losses: the flight at which they occurred is the
    /// bound.
    fn adapt_to_losses(&mut self, w: &Window, s: &RateSample) {
        if self.model.is_loss_high() && matches!(self.mode, Mode::Up | Mode::Refill) {
            let before = s.in_flight.saturating_add(s.newly).saturating_add(s.lost);
            let target = self.model.bdp(100, w).min(w.cwnd);
            self.model.inflight_hi = before.max(target / 10 * 7);
            self.start_down(s.now);
        }
    }

    /// BBRProbeInflightLongTermUpward: the bound grows by one segment, then two, then
    /// four in a round, as long as it is in use.
    fn raise_bound(&mut self, w: &Window, s: &RateSample, round: bool) {
        let hi = self.model.inflight_hi;
        if hi == u32::MAX || s.in_flight.saturating_add(s.newly) < hi.min(w.cwnd) {
            return;
        }
        self.up_acked = self.up_acked.saturating_add(s.newly);
        let step = self.up_step.max(1);
        let segments = self.up_acked / step;
        self.up_acked %= step;
        self.model.inflight_hi = hi.saturating_add(segments.saturating_mul(w.mss));
        if round {
            self.raise_slope(w);
        }
    }

    fn raise_slope(&mut self, w: &Window) {
        let growth = 1u32 << self.up_rounds.min(30);
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_step = (w.cwnd / growth).max(w.mss);
    }

    // ---- Probing the round-trip time. ----

    /// BBRCheckProbeRTT.
    fn check_probe_rtt(&mut self, w: &Window, s: &RateSample, round: bool, expired: bool) {
        if self.mode != Mode::ProbeRtt {
            if expired && self.model.min_rtt() != 0 {
                self.prior_cwnd = self.prior_cwnd.max(w.cwnd);
                self.enter(Mode::ProbeRtt, s.now);
                self.probe_rtt_done = Instant::NEVER;
                self.round_done = false;
            }
            return;
        }
        if self.probe_rtt_done.is_never() {
            if s.in_flight <= self.probe_rtt_cwnd(w) {
                self.probe_rtt_done = s.now.after_us(PROBE_RTT_US);
                self.model.begin_round(s.total);
            }
            return;
        }
        self.round_done |= round;
        if self.round_done && s.now >= self.probe_rtt_done {
            self.model.note_probed(s.now);
            if self.full_bw_reached {
                self.start_down(s.now);
                self.mode = Mode::Cruise;
            } else {
                self.enter(Mode::Startup, s.now);
            }
        }
    }

    /// BBRProbeRTTCwnd.
    fn probe_rtt_cwnd(&self, w: &Window) -> u32 {
        self.model.bdp(50, w).max(MIN_PIPE * w.mss)
    }

    // ---- Pacing rate and window. ----

    /// BBRSetPacingRate; 1 % below the bandwidth, to drain queues.
    fn set_pace(&mut self) {
        let gain = match self.mode {
            Mode::Startup => STARTUP_GAIN,
            Mode::Drain => 50,
            Mode::Down => 90,
            Mode::Cruise | Mode::Refill | Mode::ProbeRtt => 100,
            Mode::Up => 125,
        };
        let rate = self.model.bw().saturating_mul(gain) / 100 * 99 / 100;
        if rate != 0 && (self.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    /// BBRInitPacingRate, once a round-trip time is known.
    fn set_first_pace(&mut self, w: &Window, rtt: u32) {
        let rate = u64::from(w.cwnd) * SECOND / u64::from(rtt.max(1));
        self.pacing_rate = rate.saturating_mul(STARTUP_GAIN) / 100;
    }

    /// BBRSetCwnd.
    fn set_window(&self, w: &mut Window, s: &RateSample) {
        let gain = if self.mode == Mode::Up { 225 } else { 200 };
        let least = MIN_PIPE * w.mss;
        // BBRQuantizationBudget: room for bursts at both ends.
        let mut most = self.model.bdp(gain, w).saturating_add(self.model.extra());
        let burst = BURST.min((self.pacing_rate / 1_000).min(1 << 30) as u32);
        most = most.max(3 * burst.max(2 * w.mss)).max(least);
        if self.mode == Mode::Up {
            most = most.saturating_add(2 * w.mss);
        }
        if self.full_bw_reached {
            w.grow(s.newly);
            w.cwnd = w.cwnd.min(most);
        } else if w.cwnd < most || s.total < u64::from(10 * w.mss) {
            w.grow(s.newly);
        }
        // BBRModulateCwndForRecovery.
        w.cwnd = w.cwnd.saturating_sub(s.lost);
        if s.recovering {
            w.cwnd = w.cwnd.max(s.in_flight.saturating_add(s.newly));
        }
        // BBRBoundCwndForModel and BBRBoundCwndForProbeRTT.
        let mut bound = match self.mode {
            Mode::Cruise | Mode::ProbeRtt => self.model.with_headroom(w),
            Mode::Startup | Mode::Drain => u32::MAX,
            _ => self.model.inflight_hi,
        };
        bound = bound.min(self.model.inflight_lo);
        if self.mode == Mode::ProbeRtt {
            bound = bound.min(self.probe_rtt_cwnd(w));
        }
        w.cwnd = w.cwnd.min(bound.max(least)).clamp(least, MAX_CWND);
    }
}

impl Kind for Bbr {
    const NAME: &'static str = "bbr";
    const WANTS_RATES: bool = true;

    fn new() -> Bbr {
        Bbr {
            mode: Mode::Startup,
            full_bw_reached: false,
            full_bw_count: 0,
            losses: 0,
            up_rounds: 0,
            rounds: 0,
            recovering: false,
            filter_due: false,
            round_done: false,
            model: Model::new(),
            full_bw: 0,
            phase_at: Instant(0),
            wait_us: 0,
            up_acked: 0,
            up_step: u32::MAX,
            probe_rtt_done: Instant::NEVER,
            prior_cwnd: 0,
            pacing_rate: u64::MAX,
        }
    }
}

impl Algorithm for Bbr {
    fn init_pace(&mut self, w: &Window, srtt: u32) {
        self.set_first_pace(w, srtt);
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }

    fn on_ack(&mut self, _w: &mut Window, _ack: &super::Ack) {}

    /// BBRUpdateOnACK.
    fn on_rate(&mut self, w: &mut Window, s: &RateSample) {
        self.losses = self.losses.saturating_add(u8::from(s.lost > 0));
        let round = self.model.take(s, self.is_probing(), w);
        if round {
            self.rounds = self.rounds.saturating_add(1);
            self.check_full(w, s);
            self.losses = 0;
            if self.filter_due && self.mode != Mode::Up {
                self.filter_due = false;
                self.model.advance_bw_filter();
            }
        }
        let expired = self.model.update_min_rtt(s.rtt, s.now);
        self.adapt_to_losses(w, s);
        self.update_phase(w, s, round);
        let was_probing_rtt = self.mode == Mode::ProbeRtt;
        self.check_probe_rtt(w, s, round, expired);
        if round {
            self.model.end_round();
        }
        if self.pacing_rate == u64::MAX && s.rtt != 0 {
            self.set_first_pace(w, s.rtt);
        }
        self.set_pace();
        self.set_window(w, s);
        let recovered = self.recovering && !s.recovering;
        if recovered || (was_probing_rtt && self.mode != Mode::ProbeRtt) {
            // BBRRestoreCwnd.
            w.cwnd = w.cwnd.max(self.prior_cwnd).min(MAX_CWND);
            self.prior_cwnd = 0;
        }
        self.recovering = s.recovering;
    }

    /// Loss alone changes nothing; the window is saved until recovery ends (BBRSaveCwnd).
    fn on_loss(&mut self, w: &Window, _window: u32) -> u32 {
        if self.mode != Mode::ProbeRtt {
            self.prior_cwnd = self.prior_cwnd.max(w.cwnd);
        }
        w.ssthresh
    }
}

#[cfg(test)]
mod tests;
