//! The tail loss probe (RFC 8985 section 7): when the last segments are not acknowledged
//! within two round trips, one more segment is sent, so that SACK shows the loss of the
//! tail instead of the retransmission timer.
//!
//! Owns [`Probe`] and the timer's deadline. `timeouts.rs` reports that it has expired,
//! `output/select.rs` what was sent as a probe, `recovery.rs` what was acknowledged.

use super::AckReport;
use crate::congestion::CongestionState;
use crate::flight::XmitTimer;
use crate::flight::{Flight, Recovery};
use crate::pos::{NO_POS, Pos};
use crate::rtt::MIN_VARIANCE;
use crate::snd::SendSide;
use crate::time::{Instant, MS};

/// TLP.max_ack_delay, microseconds: how long a peer may delay the acknowledgment of a
/// single segment. Longshore delays it by 40 ms, Linux by as much or by its round-trip
/// time if that is longer, up to 200 ms.
#[inline(always)]
fn max_ack_delay(srtt: u64) -> u64 {
    srtt.clamp(45 * MS, 200 * MS)
}

/// Added to two round trips for a peer that is slow to be scheduled, microseconds; on a
/// link of 50 us, two round trips alone would be too short.
const SLACK: u64 = 2 * MS;

/// A probe that is due, or outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// TLP.end_seq: SND.NXT after the probe, `NO_POS` if none is outstanding.
    end: Pos,
    /// Where the retransmitted segment starts.
    start: Pos,
    /// TLP.is_retrans: it is a retransmission of the last segment.
    repeats: bool,
    /// A probe is to be sent.
    pub(crate) due: bool,
}

impl Probe {
    pub(super) const fn new() -> Probe {
        Probe {
            end: NO_POS,
            start: 0,
            repeats: false,
            due: false,
        }
    }

    /// Another kind of recovery has begun.
    pub(crate) fn forget(&mut self) {
        *self = Probe::new();
    }

    /// Whether a probe was sent and is not answered yet.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.end != NO_POS
    }

    /// Whether a DSACK of this range was caused by the probe.
    pub(super) fn caused(&self, (start, end): (Pos, Pos)) -> bool {
        self.repeats && start >= self.start && end <= self.end
    }

    /// `start..end` was sent as the probe, or instead of it; `repeats`: it is a
    /// retransmission.
    pub(crate) fn on_sent(&mut self, start: Pos, end: Pos, repeats: bool) {
        *self = Probe {
            end,
            start,
            repeats,
            due: false,
        };
    }
}

impl Recovery {
    /// Checks whether an acknowledgment answers the probe (RFC 8985 section 7.4).
    pub(super) fn on_probe_report(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) {
        let probe = self.probe;
        if !probe.is_outstanding() || snd.una() < probe.end {
            return;
        }
        let both_arrived = report.dsack.is_some_and(|d| probe.caused(d))
            || (report.sacked == 0 && report.duplicate);
        if !probe.repeats || both_arrived {
            self.probe.forget();
        } else if snd.una() > probe.end {
            // The probe has repaired a loss that nothing else reports: the window is
            // reduced as in a fast recovery.
            self.probe.forget();
            congestion.controller.on_loss(congestion.controller.cwnd());
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
    }
}

impl Flight {
    /// Whether a tail loss probe is allowed (RFC 8985 section 7.2): no other recovery is
    /// in progress.
    #[inline(always)]
    fn may_probe(&self, snd: &SendSide) -> bool {
        snd.sack()
            && self.recovery.is_quiet()
            && !self.recovery.probe.is_outstanding()
            && self.scoreboard.sacked() == 0
            && snd.is_synchronized()
    }

    /// Data is in flight whose loss a timer must detect: restarts the retransmission
    /// timer, or the probe's instead if it is earlier.
    #[inline(never)]
    pub(crate) fn arm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        self.arm_retransmit(snd, now);
        self.arm_probe(snd, now);
    }

    /// Restarts the probe's timer (RFC 8985 section 7.2, TLP_calc_PTO).
    pub(crate) fn arm_probe(&mut self, snd: &SendSide, now: Instant) {
        if !self.may_probe(snd) {
            return;
        }
        let srtt = snd.rtt.srtt();
        let mut pto = srtt.map_or(1000 * MS, |srtt| 2 * srtt + SLACK);
        if snd.in_flight() <= u64::from(snd.mss()) {
            pto += max_ack_delay(srtt.unwrap_or(0));
        }
        self.timer.kind = XmitTimer::Probe;
        self.timer.at = now.after_us(pto).min(self.rto_deadline(snd));
    }

    /// As [`arm_probe`](Flight::arm_probe), out of line.
    #[inline(never)]
    pub(crate) fn arm_probe_outlined(&mut self, snd: &SendSide, now: Instant) {
        self.arm_probe(snd, now);
    }

    /// As [`arm_loss_timer`](Flight::arm_loss_timer) for a predicted acknowledgment:
    /// nothing is lost, SACKed or probed for.
    #[inline(always)]
    pub(crate) fn rearm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        let slack = if snd.in_flight() <= u64::from(snd.mss()) {
            SLACK + max_ack_delay(snd.rtt.srtt().unwrap_or(0))
        } else {
            SLACK
        };
        match self.early_pto(snd, slack, now, now) {
            Some(deadline) if snd.sack() => {
                self.timer.kind = XmitTimer::Probe;
                self.timer.at = deadline;
                self.timer.from = now;
            }
            _ => self.arm_loss_timer(snd, now),
        }
    }

    /// As [`arm_probe`](Flight::arm_probe) while nothing is lost, SACKed or probed for,
    /// if the probe's timer is running (so SACK is in use): a full segment or more was
    /// sent after the data that the retransmission timer covers. Returns `false` if the
    /// deadline needs the full computation of `arm_probe`.
    #[inline(always)]
    pub(crate) fn rearm_probe(&mut self, snd: &SendSide, now: Instant) -> bool {
        if self.timer.kind != XmitTimer::Probe {
            return true;
        }
        let soon = self.early_pto(snd, SLACK, now, self.timer.from);
        if let Some(deadline) = soon {
            self.timer.at = deadline;
        }
        soon.is_some()
    }

    /// The probe's deadline for data sent now, two round trips and `slack` later, if that
    /// is certainly before the retransmission timer, started at `rto_from`, expires: an
    /// RTO is at least 200 ms and need not be computed then.
    #[inline(always)]
    fn early_pto(
        &self,
        snd: &SendSide,
        slack: u64,
        now: Instant,
        rto_from: Instant,
    ) -> Option<Instant> {
        let deadline = now.soon(2 * snd.rtt.srtt()? + slack);
        (deadline <= rto_from.soon(MIN_VARIANCE)).then_some(deadline)
    }

    /// The probe's timer has expired (RFC 8985 section 7.3). Returns whether a probe is
    /// to be sent.
    pub(crate) fn on_probe_timeout(&mut self, snd: &SendSide, now: Instant) -> bool {
        if snd.in_flight() == 0 {
            return false;
        }
        self.arm_retransmit(snd, now);
        let due = self.may_probe(snd);
        self.recovery.probe.due |= due;
        due
    }

    /// The last segment, of at most `most` bytes, to be retransmitted as a probe if there
    /// is no new data. `None` if the peer's window no longer has room for it: data sent
    /// with a SYN may exceed a window that was unknown then, and the retransmission timer
    /// retransmits the first segment in that case.
    pub(crate) fn last_segment(&self, snd: &SendSide, most: i64) -> Option<(Pos, Pos)> {
        let start = snd.nxt() - most.max(1);
        let fits = snd.nxt() <= snd.wnd_edge();
        fits.then_some((start.max(snd.una()), snd.nxt()))
    }
}

#[cfg(test)]
mod tests;
