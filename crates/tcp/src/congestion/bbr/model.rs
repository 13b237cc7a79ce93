//! BBR's model of the path (draft-ietf-ccwg-bbr sections 5.5 and 5.7): bandwidth, minimum
//! round-trip time, bounds of the flight, and aggregation of acknowledgments.
//!
//! Owns [`Model`]; `bbr.rs` passes it each sample and reads the results.

use super::{LOSS_DENOMINATOR, MIN_PIPE};
use crate::congestion::RateSample;
use crate::congestion::Window;
use crate::time::{Instant, SECOND};

/// MinRTTFilterLen.
const MIN_RTT_US: u64 = 10 * SECOND;
/// ProbeRTTInterval.
const PROBE_INTERVAL_US: u64 = 5 * SECOND;
/// Half of BBR.ExtraAckedFilterLen, in rounds.
const EXTRA_ROUNDS: u8 = 5;

/// The parameters of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    /// BBR.max_bw: the maximum in this cycle and in the previous one.
    bw_filter: [u64; 2],
    /// BBR.bw_shortterm, `u64::MAX` for none.
    bw_lo: u64,
    /// BBR.bw_latest and BBR.inflight_latest: the maximum in this round.
    bw_latest: u64,
    pub(super) inflight_latest: u32,
    /// BBR.inflight_longterm and BBR.inflight_shortterm, `u32::MAX` for none.
    pub(super) inflight_hi: u32,
    pub(super) inflight_lo: u32,
    /// BBR.min_rtt, 0 if unknown, and when it was measured.
    min_rtt: u32,
    min_rtt_at: Instant,
    /// BBR.probe_rtt_min_delay and its time.
    probe_min: u32,
    probe_min_at: Instant,
    /// BBR.next_round_delivered.
    round_end: u64,
    /// Bytes lost in this round, `u32::MAX` if more, and delivered.
    lost: u32,
    delivered: u64,
    /// BBR.extra_acked: the maximum in the current and in the previous period of rounds.
    extra: [u32; 2],
    extra_rounds: u8,
    /// BBR.extra_acked_interval_start and BBR.extra_acked_delivered.
    aggregation_start: Instant,
    aggregated: u32,
}

impl Model {
    pub(super) const fn new() -> Model {
        Model {
            bw_filter: [0; 2],
            bw_lo: u64::MAX,
            bw_latest: 0,
            inflight_latest: 0,
            inflight_hi: u32::MAX,
            inflight_lo: u32::MAX,
            min_rtt: 0,
            min_rtt_at: Instant(0),
            probe_min: 0,
            probe_min_at: Instant(0),
            round_end: 0,
            lost: 0,
            delivered: 0,
            extra: [0; 2],
            extra_rounds: 0,
            aggregation_start: Instant(0),
            aggregated: 0,
        }
    }

    /// BBR.max_bw.
    pub(super) fn max_bw(&self) -> u64 {
        self.bw_filter[0].max(self.bw_filter[1])
    }

    /// BBR.bw.
    pub(super) fn bw(&self) -> u64 {
        self.max_bw().min(self.bw_lo)
    }

    pub(super) const fn min_rtt(&self) -> u32 {
        self.min_rtt
    }

    /// BBR.extra_acked.
    pub(super) fn extra(&self) -> u32 {
        self.extra[0].max(self.extra[1])
    }

    /// BBRBDPMultiple: `gain` hundredths of bandwidth times round-trip time; the current
    /// window while either is unknown.
    pub(super) fn bdp(&self, gain: u64, w: &Window) -> u32 {
        if self.min_rtt == 0 || self.bw() == 0 {
            return w.cwnd.max(MIN_PIPE * w.mss);
        }
        let bdp = u128::from(self.bw()) * u128::from(self.min_rtt) * u128::from(gain);
        (bdp / (u128::from(SECOND) * 100)).min(1 << 30) as u32
    }

    /// BBRInflightWithHeadroom: 15 % less than the bound, for other flows.
    pub(super) fn with_headroom(&self, w: &Window) -> u32 {
        if self.inflight_hi == u32::MAX {
            return u32::MAX;
        }
        let headroom = (u64::from(self.inflight_hi) * 15 / 100).max(u64::from(w.mss)) as u32;
        self.inflight_hi
            .saturating_sub(headroom)
            .max(MIN_PIPE * w.mss)
    }

    /// BBRIsInflightTooHigh, over the round: more than one byte in fifty is lost.
    pub(super) const fn is_loss_high(&self) -> bool {
        let lost = self.lost as u64;
        lost * LOSS_DENOMINATOR > lost + self.delivered
    }

    /// Adds a sample and returns whether it begins a round. `probing`: losses do not
    /// lower the short-term bounds.
    pub(super) fn take(&mut self, s: &RateSample, probing: bool, w: &Window) -> bool {
        self.lost = self.lost.saturating_add(s.lost);
        self.delivered += u64::from(s.newly);
        let round = s.rate != 0 && s.prior >= self.round_end;
        if s.rate != 0 {
            self.bw_latest = self.bw_latest.max(s.rate);
            let volume = (s.total - s.prior).min(1 << 30) as u32;
            self.inflight_latest = self.inflight_latest.max(volume);
            if !s.app_limited || s.rate >= self.max_bw() {
                self.bw_filter[0] = self.bw_filter[0].max(s.rate);
            }
        }
        if round {
            self.round_end = s.total;
            if self.lost > 0 && !probing {
                self.adapt_lower_bounds(w);
            }
        }
        self.update_aggregation(s, round, w);
        round
    }

    /// BBRAdaptLowerBoundsFromCongestion: 0.7 of the bounds, but no less than what the
    /// round has delivered.
    fn adapt_lower_bounds(&mut self, w: &Window) {
        if self.bw_lo == u64::MAX {
            self.bw_lo = self.max_bw();
        }
        if self.inflight_lo == u32::MAX {
            self.inflight_lo = w.cwnd;
        }
        self.bw_lo = self.bw_latest.max(self.bw_lo / 10 * 7);
        self.inflight_lo = self.inflight_latest.max(self.inflight_lo / 10 * 7);
    }

    /// BBRUpdateACKAggregation: bytes delivered beyond what the bandwidth predicts.
    fn update_aggregation(&mut self, s: &RateSample, round: bool, w: &Window) {
        if round {
            self.extra_rounds += 1;
            if self.extra_rounds >= EXTRA_ROUNDS {
                self.extra_rounds = 0;
                self.extra = [0, self.extra[0]];
            }
        }
        let elapsed = s.now.since(self.aggregation_start);
        let expected = (u128::from(self.bw()) * u128::from(elapsed) / u128::from(SECOND)) as u64;
        let mut expected = expected.min(1 << 30) as u32;
        if self.aggregated <= expected {
            self.aggregated = 0;
            self.aggregation_start = s.now;
            expected = 0;
        }
        self.aggregated = self.aggregated.saturating_add(s.newly);
        let extra = (self.aggregated - expected.min(self.aggregated)).min(w.cwnd);
        self.extra[0] = self.extra[0].max(extra);
    }

    /// The round has ended: resets its counts.
    pub(super) fn end_round(&mut self) {
        self.lost = 0;
        self.delivered = 0;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    /// BBRStartRound: a round begins now, whatever is in flight.
    pub(super) fn begin_round(&mut self, total: u64) {
        self.round_end = total;
    }

    /// BBRAdvanceMaxBwFilter.
    pub(super) fn advance_bw_filter(&mut self) {
        if self.bw_filter[0] != 0 {
            self.bw_filter = [0, self.bw_filter[0]];
        }
    }

    /// BBRResetShortTermModel.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_lo = u64::MAX;
        self.inflight_lo = u32::MAX;
    }

    /// BBRUpdateMinRTT; returns whether the round-trip time has to be probed.
    pub(super) fn update_min_rtt(&mut self, rtt: u32, now: Instant) -> bool {
        let expired = self.probe_min != 0 && now.since(self.probe_min_at) > PROBE_INTERVAL_US;
        if rtt != 0 && (self.probe_min == 0 || rtt < self.probe_min || expired) {
            self.probe_min = rtt;
            self.probe_min_at = now;
        }
        let old = now.since(self.min_rtt_at) > MIN_RTT_US;
        if self.probe_min != 0 && (self.min_rtt == 0 || self.probe_min < self.min_rtt || old) {
            self.min_rtt = self.probe_min;
            self.min_rtt_at = self.probe_min_at;
        }
        expired
    }

    /// The round-trip time was just probed.
    pub(super) fn note_probed(&mut self, now: Instant) {
        self.probe_min_at = now;
    }
}

#[cfg(test)]
mod tests;
