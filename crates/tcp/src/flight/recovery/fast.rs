//! Loss detection without SACK, and fast recovery: beginning it, what an acknowledgment means
//! meanwhile, leaving it.

use super::{AckReport, DUP_THRESH, Phase, Recovery};
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::time::Instant;

impl Recovery {
    /// Returns to the open phase.
    pub(super) fn reopen(&mut self) {
        let r = &mut *self;
        r.phase = Phase::Open;
        r.forced = false;
        r.dup_acks = 0;
        r.dup_bytes = 0;
    }
}

impl Flight {
    /// Marks lost data; returns the number of newly lost bytes.
    pub(super) fn detect_loss(&mut self, snd: &SendSide, now: Instant) -> u64 {
        if snd.in_flight() == 0 {
            return 0;
        }
        if snd.sack() {
            return self.detect_loss_by_time(snd, now);
        }
        // RFC 5681 section 3.2.
        if self.recovery.is_open() && self.recovery.dup_acks >= DUP_THRESH {
            return self.mark_first_segment_lost(snd);
        }
        0
    }

    /// Marks the first unacknowledged segment as lost.
    pub(super) fn mark_first_segment_lost(&mut self, snd: &SendSide) -> u64 {
        let una = snd.una();
        let end = (una + i64::from(snd.mss())).min(snd.nxt());
        self.scoreboard.mark_lost_within(una, una, end)
    }

    /// Starts recovery of a loss, found by an acknowledgment that delivered this much.
    pub(super) fn repair(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        delivered: u32,
    ) {
        if self.mtu_probe_alone_is_lost(snd) {
            // RFC 4821 section 7.6.2: the loss of a probe is no sign of congestion.
            self.recovery.enter_mtu_recovery(snd);
        } else {
            self.enter_fast_recovery(snd, congestion, delivered);
        }
    }

    /// RFC 6675 section 5 step 4, RFC 6582 section 3.2 step 2.
    pub(super) fn enter_fast_recovery(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        delivered: u32,
    ) {
        self.recovery.save_for_undo(snd, congestion);
        self.mtu.forget_probe();
        let window = congestion.window_in_use(snd, self.recovery.is_fast());
        congestion.controller.on_loss(window);
        self.start_reduction(snd, delivered);
        let nxt = snd.nxt();
        let r = &mut self.recovery;
        r.phase = Phase::Fast;
        r.recover = nxt;
        r.rescued = false;
        r.forced = true;
        r.probe.forget();
        self.reduce_proportionally(snd, congestion, delivered, false);
    }

    pub(super) fn on_ack_in_recovery(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
        now: Instant,
    ) {
        if snd.una() >= self.recovery.recover {
            self.leave_recovery(congestion);
            // Data sent since then may be lost too, which starts a new recovery.
            if self.scoreboard.lost() + self.detect_loss(snd, now) > 0 {
                self.enter_fast_recovery(snd, congestion, self.delivered(snd, report));
            }
            return;
        }
        let sack = snd.sack();
        let mut newly_lost = self.detect_loss(snd, now);
        if report.acked > 0 && !sack {
            // RFC 6582 section 3.2 step 3: a partial acknowledgment means that the
            // next segment is lost as well.
            newly_lost = self.mark_first_segment_lost(snd);
            self.recovery.forced |= newly_lost > 0;
        }
        // RFC 9937: the ACK is safe if SND.UNA advances and nothing more is lost.
        let safe = report.acked > 0 && (newly_lost == 0 || !sack);
        self.reduce_proportionally(snd, congestion, self.delivered(snd, report), safe);
    }

    /// Bytes that an acknowledgment delivers (DeliveredData of RFC 9937). Without SACK, a
    /// duplicate acknowledgment counts as one segment.
    pub(super) fn delivered(&self, snd: &SendSide, report: AckReport) -> u32 {
        let more = report.duplicate && !snd.sack();
        let bytes = report.delivered + if more { u64::from(snd.mss()) } else { 0 };
        bytes.min(1 << 30) as u32
    }

    /// Everything outstanding when the loss was detected is acknowledged: the window is
    /// set to the threshold (RFC 9937, as in RFC 5681 and RFC 6582).
    pub(super) fn leave_recovery(&mut self, congestion: &mut CongestionState) {
        if self.recovery.phase == Phase::Fast {
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
        self.recovery.reopen();
        self.recovery.rack.on_recovered();
    }
}
