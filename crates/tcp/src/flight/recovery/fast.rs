//! Loss detection, by time with SACK (`rack.rs`) and by duplicates without it, and fast recovery:
//! beginning it, what an acknowledgment means meanwhile, leaving it.

use super::prr::Reduction;
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

    /// Everything outstanding when the loss was detected is acknowledged: the window is
    /// set to the threshold (RFC 9937, as in RFC 5681 and RFC 6582).
    pub(super) fn leave(&mut self, congestion: &mut CongestionState) {
        if self.phase == Phase::Fast {
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
        self.reopen();
        self.rack.on_recovered();
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

    /// RFC 8985 section 6.2 step 5: marks lost data, returns the number of newly lost
    /// bytes, and starts the reordering timer for data that may be lost soon.
    fn detect_loss_by_time(&mut self, snd: &SendSide, now: Instant) -> u64 {
        let reordering = self.recovery.reordering_window(&self.scoreboard, snd);
        let rack = self.recovery.rack;
        let (lost, wait) = rack.mark_lost(&mut self.scoreboard, snd.una(), reordering, now);
        if wait > 0 {
            self.timer.arm_reorder(&snd.rtt, now.after_us(wait));
        }
        lost
    }

    /// The reordering timer has expired.
    pub(crate) fn on_reorder_timeout(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        now: Instant,
    ) {
        if snd.in_flight() == 0 {
            return;
        }
        self.timer.wait_for_rto(&snd.rtt, now);
        if self.detect_loss_by_time(snd, now) > 0 && self.recovery.is_open() {
            self.repair(snd, congestion, 0);
        }
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
        let probe_alone = self
            .mtu
            .is_lost_alone(&self.scoreboard, snd, self.last_sent);
        if probe_alone {
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
        let rest = snd.in_flight() - self.scoreboard.sacked();
        self.recovery.reduction = Reduction::of(rest + u64::from(delivered));
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
            self.recovery.leave(congestion);
            // Data sent since then may be lost too, which starts a new recovery.
            if self.scoreboard.lost() + self.detect_loss(snd, now) > 0 {
                self.enter_fast_recovery(snd, congestion, report.delivered_data(snd));
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
        self.reduce_proportionally(snd, congestion, report.delivered_data(snd), safe);
    }

    /// The window is the data in the network plus what an acknowledgment permits that
    /// delivered this much; see [`Reduction::permit`].
    pub(super) fn reduce_proportionally(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        delivered: u32,
        safe: bool,
    ) {
        let pipe = self.pipe(snd).min(u64::from(u32::MAX)) as u32;
        let (ssthresh, mss) = (congestion.controller.ssthresh(), u32::from(snd.mss()));
        let safe = if safe { mss } else { 0 };
        let r = &mut self.recovery;
        let mut count = r.reduction.permit(pipe, ssthresh, delivered, safe);
        if r.forced {
            count = count.max(mss);
        }
        congestion.controller.set_cwnd(pipe.saturating_add(count));
    }
}
