//! The timer for outstanding data: retransmission (RFC 6298), and what runs in its place.
//!
//! Owns [`LossTimer`], one deadline that is overwritten rather than re-armed. Output, `input/`
//! and `recovery/` start it; `timeouts.rs` takes it when it has expired.

use crate::rtt::{MIN_VARIANCE, RttEstimator};
use crate::snd::SendSide;
use crate::time::{Instant, MS};

/// Added to two round trips for a peer that is slow to be scheduled, microseconds; on a
/// link of 50 us, two round trips alone would be too short.
const SLACK: u64 = 2 * MS;

/// TLP.max_ack_delay, microseconds: how long a peer may delay the acknowledgment of a
/// single segment. Longshore delays it by 40 ms, Linux by as much or by its round-trip
/// time if that is longer, up to 200 ms.
#[inline(always)]
fn max_ack_delay(srtt: u64) -> u64 {
    srtt.clamp(45 * MS, 200 * MS)
}

/// The purpose of the running timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum XmitTimer {
    /// The retransmission timer.
    Retransmit,
    /// The persist timer: the peer's window is closed.
    Persist,
    /// The tail loss probe's timer, which replaces the retransmission timer (RFC 8985
    /// section 7.2).
    Probe,
    /// The reordering timer, which replaces the retransmission timer (RFC 8985 section
    /// 6.2 step 5).
    Reorder,
}

/// The timer for outstanding data, or for data that waits for the peer's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossTimer {
    /// When it expires; `Instant::NEVER` if it is off.
    at: Instant,
    kind: XmitTimer,
    /// When the retransmission timer was started, also while another timer replaces it;
    /// see [`rto_deadline`](Self::rto_deadline).
    from: Instant,
}

impl LossTimer {
    /// A timer that is off.
    pub(crate) const fn new() -> LossTimer {
        LossTimer {
            at: Instant::NEVER,
            kind: XmitTimer::Retransmit,
            from: Instant::NEVER,
        }
    }

    // ---- Getters. ----

    /// When it expires; `Instant::NEVER` if it is off.
    #[inline(always)]
    pub(crate) const fn at(&self) -> Instant {
        self.at
    }

    /// What it is for, or was when it last ran.
    #[inline(always)]
    pub(crate) const fn kind(&self) -> XmitTimer {
        self.kind
    }

    /// Whether it runs.
    #[inline(always)]
    pub(crate) const fn is_running(&self) -> bool {
        !self.at.is_never()
    }

    /// When the retransmission timer expires, also while another timer replaces it.
    fn rto_deadline(&self, rtt: &RttEstimator) -> Instant {
        self.from.after_us(rtt.rto())
    }

    // ---- Stopping it. ----

    /// Nothing is outstanding any more (RFC 6298 section 5.2).
    #[inline(always)]
    pub(crate) fn stop(&mut self) {
        self.at = Instant::NEVER;
    }

    /// If it has expired, it is off from now on; returns whether it had.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        self.at.take_due(now)
    }

    // ---- The retransmission timer. ----

    /// Restarts the retransmission timer (RFC 6298 sections 5.1 and 5.3).
    #[inline]
    pub(crate) fn arm_retransmit(&mut self, rtt: &RttEstimator, now: Instant) {
        self.kind = XmitTimer::Retransmit;
        self.at = now.after_us(rtt.rto());
        self.from = now;
    }

    /// The retransmission timer runs, and expires at `at`.
    pub(crate) fn resume_retransmit(&mut self, rtt: &RttEstimator, at: Instant) {
        self.kind = XmitTimer::Retransmit;
        self.at = at;
        self.from = Instant(at.0.saturating_sub(rtt.rto()));
    }

    /// The timer that replaced the retransmission timer is done: the latter runs again.
    pub(crate) fn wait_for_rto(&mut self, rtt: &RttEstimator, now: Instant) {
        self.kind = XmitTimer::Retransmit;
        self.at = self.rto_deadline(rtt).max(now.after_us(1));
    }

    // ---- The persist timer. ----

    /// Data waits for the peer's window, which is probed after a timeout (RFC 9293 section
    /// 3.8.6.1).
    pub(crate) fn arm_persist(&mut self, rtt: &RttEstimator, now: Instant) {
        self.kind = XmitTimer::Persist;
        self.at = now.after_us(rtt.rto());
    }

    // ---- The reordering timer. ----

    /// Data counts as lost at `then` (RFC 8985 section 6.2 step 5), unless the
    /// retransmission timer expires before.
    pub(crate) fn arm_reorder(&mut self, rtt: &RttEstimator, then: Instant) {
        if then < self.rto_deadline(rtt) {
            self.kind = XmitTimer::Reorder;
            self.at = then;
        }
    }

    // ---- The timer of the tail loss probe. ----

    /// Starts the probe's timer in place of the retransmission timer (RFC 8985 section 7.2,
    /// TLP_calc_PTO).
    #[inline(always)]
    pub(crate) fn arm_probe(&mut self, snd: &SendSide, now: Instant) {
        let srtt = snd.rtt.srtt();
        let mut pto = srtt.map_or(1000 * MS, |srtt| 2 * srtt + SLACK);
        if snd.in_flight() <= u64::from(snd.mss()) {
            pto += max_ack_delay(srtt.unwrap_or(0));
        }
        self.kind = XmitTimer::Probe;
        self.at = now.after_us(pto).min(self.rto_deadline(&snd.rtt));
    }

    /// As [`arm_retransmit`](Self::arm_retransmit) and [`arm_probe`](Self::arm_probe) after it,
    /// if the probe's timer certainly expires first. Returns `false`, and changes nothing, if
    /// that needs the full computation.
    #[inline(always)]
    pub(crate) fn arm_early_probe(&mut self, snd: &SendSide, now: Instant) -> bool {
        let slack = if snd.in_flight() <= u64::from(snd.mss()) {
            SLACK + max_ack_delay(snd.rtt.srtt().unwrap_or(0))
        } else {
            SLACK
        };
        match early_pto(&snd.rtt, slack, now, now) {
            Some(deadline) if snd.sack() => {
                self.kind = XmitTimer::Probe;
                self.at = deadline;
                self.from = now;
                true
            }
            _ => false,
        }
    }

    /// As [`arm_probe`](Self::arm_probe) while nothing is lost, SACKed or probed for,
    /// if the probe's timer is running (so SACK is in use): a full segment or more was
    /// sent after the data that the retransmission timer covers. Returns `false` if the
    /// deadline needs the full computation of `arm_probe`.
    #[inline(always)]
    pub(crate) fn rearm_probe(&mut self, rtt: &RttEstimator, now: Instant) -> bool {
        if self.kind != XmitTimer::Probe {
            return true;
        }
        let soon = early_pto(rtt, SLACK, now, self.from);
        if let Some(deadline) = soon {
            self.at = deadline;
        }
        soon.is_some()
    }
}

/// The probe's deadline for data sent now, two round trips and `slack` later, if that
/// is certainly before the retransmission timer, started at `rto_from`, expires: an
/// RTO is at least 200 ms and need not be computed then.
#[inline(always)]
fn early_pto(rtt: &RttEstimator, slack: u64, now: Instant, rto_from: Instant) -> Option<Instant> {
    let deadline = now.soon(2 * rtt.srtt()? + slack);
    (deadline <= rto_from.soon(MIN_VARIANCE)).then_some(deadline)
}

#[cfg(test)]
mod tests;
