//! The tail loss probe (RFC 8985 section 7): when the last of what was sent is not
//! acknowledged within two round trips, one more segment is sent, so that a lost tail
//! shows by SACK instead of by the retransmission timer.
//!
//! Owns [`Probe`] and when the timer runs. `timeouts.rs` tells that it has run out,
//! `output/select.rs` what was sent for it, `recovery.rs` what came back.

use super::AckReport;
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::flight::XmitTimer;
use crate::pos::{NO_POS, Pos};
use crate::rtt::MIN_VARIANCE;
use crate::snd::SendSide;
use crate::time::{Instant, MS};

/// TLP.max_ack_delay, microseconds: what a peer may wait with the acknowledgment of a
/// single segment. Ours waits 40 ms; Linux's as much, or its round trip if that is more,
/// up to 200 ms.
#[inline(always)]
fn max_ack_delay(srtt: u64) -> u64 {
    srtt.clamp(45 * MS, 200 * MS)
}

/// Time on top of two round trips for a peer that is slow to be scheduled,
/// microseconds; on a link of 50 us, the round trips alone would be no patience.
const SLACK: u64 = 2 * MS;

/// A probe that is due, or whose answer is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    /// TLP.end_seq: SND.NXT after the probe, `NO_POS` if none is outstanding.
    end: Pos,
    /// Where the repeated segment starts.
    start: Pos,
    /// TLP.is_retrans: it repeated the last segment.
    repeats: bool,
    /// One is to be sent.
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

    /// Another kind of repair has taken over.
    pub(crate) fn forget(&mut self) {
        *self = Probe::new();
    }

    /// One has been sent, and its answer is not here.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.end != NO_POS
    }

    /// Whether a DSACK of this range is the probe's own.
    pub(super) fn explains(&self, (start, end): (Pos, Pos)) -> bool {
        self.repeats && self.is_outstanding() && start >= self.start && end <= self.end
    }

    /// `start..end` went out as the probe, or ahead of it; it repeats if `repeats`.
    pub(crate) fn on_sent(&mut self, start: Pos, end: Pos, repeats: bool) {
        *self = Probe {
            end,
            start,
            repeats,
            due: false,
        };
    }
}

impl Flight {
    /// Whether a lost tail may be probed for (RFC 8985 section 7.2): nothing else is
    /// on its track.
    #[inline(always)]
    fn may_probe(&self, snd: &SendSide) -> bool {
        snd.sack()
            && self.recovery.is_quiet()
            && !self.recovery.probe.is_outstanding()
            && self.scoreboard.sacked() == 0
            && snd.is_synchronized()
    }

    /// There is something in flight whose loss a timer must find: starts the
    /// retransmission timer anew, and the probe's in its place if it is earlier.
    #[inline(never)]
    pub(crate) fn arm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        self.arm_retransmit(snd, now);
        self.arm_probe(snd, now);
    }

    /// Starts the probe's timer anew (RFC 8985 section 7.2, TLP_calc_PTO).
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

    /// The same as [`arm_loss_timer`](Flight::arm_loss_timer) where the acknowledgment was
    /// predicted: nothing is lost, reported or probed for.
    #[inline(always)]
    pub(crate) fn rearm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        let slack = if snd.in_flight() <= u64::from(snd.mss()) {
            SLACK + max_ack_delay(snd.rtt.srtt().unwrap_or(0))
        } else {
            SLACK
        };
        match self.soon_to_probe(snd, slack, now, now) {
            Some(deadline) if snd.sack() => {
                self.timer.kind = XmitTimer::Probe;
                self.timer.at = deadline;
                self.timer.from = now;
            }
            _ => self.arm_loss_timer(snd, now),
        }
    }

    /// The same as [`arm_probe`](Flight::arm_probe), where nothing is lost, reported or
    /// probed for, if it is the probe's timer that runs (so there is SACK): a full
    /// segment or more was sent behind what the retransmission timer is for. `false` if
    /// that takes more, and `arm_probe` is to be asked.
    #[inline(always)]
    pub(crate) fn rearm_probe(&mut self, snd: &SendSide, now: Instant) -> bool {
        if self.timer.kind != XmitTimer::Probe {
            return true;
        }
        let soon = self.soon_to_probe(snd, SLACK, now, self.timer.from);
        if let Some(deadline) = soon {
            self.timer.at = deadline;
        }
        soon.is_some()
    }

    /// When a tail is probed for that is sent now, two round trips and `slack` later, if
    /// that is certainly before the retransmission timer, started at `rto_from`, runs
    /// out: it takes 200 ms at least, and need not be worked out then.
    #[inline(always)]
    fn soon_to_probe(
        &self,
        snd: &SendSide,
        slack: u64,
        now: Instant,
        rto_from: Instant,
    ) -> Option<Instant> {
        let deadline = now.soon(2 * snd.rtt.srtt()? + slack);
        (deadline <= rto_from.soon(MIN_VARIANCE)).then_some(deadline)
    }

    /// The probe's timer has run out (RFC 8985 section 7.3).
    /// Says whether a probe is to be sent.
    pub(crate) fn on_probe_timeout(&mut self, snd: &SendSide, now: Instant) -> bool {
        if snd.in_flight() == 0 {
            return false;
        }
        self.arm_retransmit(snd, now);
        let due = self.may_probe(snd);
        self.recovery.probe.due |= due;
        due
    }

    /// The last segment, to be repeated as a probe if there is nothing new to send.
    /// It has `most` bytes at most. None if the peer has no room for it any more: what
    /// went with a SYN may lie beyond a window that was not known then, and then the
    /// retransmission timer tries the first segment.
    pub(crate) fn last_segment(&self, snd: &SendSide, most: i64) -> Option<(Pos, Pos)> {
        let start = snd.nxt() - most.max(1);
        let fits = snd.nxt() <= snd.wnd_edge();
        fits.then_some((start.max(snd.una()), snd.nxt()))
    }

    /// Looks for the probe's answer in an acknowledgment (RFC 8985 section 7.4).
    pub(super) fn on_probe_report(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) {
        let probe = self.recovery.probe;
        if !probe.is_outstanding() || snd.una() < probe.end {
            return;
        }
        let both_arrived = report.dsack.is_some_and(|d| probe.explains(d))
            || (report.acked == 0 && report.sacked == 0 && report.duplicate);
        if !probe.repeats || both_arrived {
            self.recovery.probe.forget();
        } else if snd.una() > probe.end {
            // The probe has repaired a loss that nothing else will tell of: the
            // window comes down as by a fast recovery.
            self.recovery.probe.forget();
            congestion.controller.on_loss(congestion.controller.cwnd());
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
    }
}

#[cfg(test)]
mod tests;
