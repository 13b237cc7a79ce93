//! Acknowledgment processing (RFC 9293 section 3.10.7.4, fifth): SND.UNA, the scoreboard,
//! the round-trip time, the peer's window.
//!
//! Owns [`Acknowledgment`], which `input/mod.rs` has every acceptable segment taken by;
//! `fast_path.rs` uses parts of it. Congestion control and recovery follow at the end
//! (`Flight::on_ack_report`).

use super::Arrival;
use crate::accounting::Accounting;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::ecn::EcnState;
use crate::events::Events;
use crate::flags::Flags;
use crate::flight::AckReport;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;
use crate::timers::Timers;
use longshore_wire::tcp::TcpHeader;

impl Flags {
    /// The timestamp that a segment echoes, if timestamps are in use and it has one.
    pub(super) fn echo(self, h: &TcpHeader) -> Option<u32> {
        let echo = h.options.timestamps.as_ref()?.echo;
        (self.contains(Flags::TIMESTAMPS) && echo != 0).then_some(echo)
    }
}

/// What an acknowledgment changes.
pub(super) struct Acknowledgment<'t> {
    pub(super) cfg: &'t Config,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t mut SendSide,
    pub(super) flight: &'t mut Flight,
    pub(super) congestion: &'t mut CongestionState,
    pub(super) ecn: &'t mut EcnState,
    pub(super) stamps: &'t TimestampState,
    pub(super) liveness: &'t mut Liveness,
    pub(super) timers: &'t mut Timers,
    pub(super) outcome: &'t mut Outcome,
    pub(super) accounting: &'t mut Accounting,
}

impl Acknowledgment<'_> {
    /// Processes the acknowledgment of an acceptable segment.
    pub(super) fn take(&mut self, a: &Arrival<'_>) {
        let h = a.segment.header;
        let ack = self.snd.pos(h.ack);
        self.liveness.note_segment(a.now);
        let old_una = self.snd.una();
        let acked = (ack - old_una).max(0) as u64;
        let feedback = self.ecn.feedback(self.snd, a.segment, acked);
        let mut report = AckReport {
            acked,
            window_used: acked > 0 && self.congestion.window_was_used(self.snd),
            congested: feedback.congested,
            echo: self.flags.echo(h),
            ..AckReport::default()
        };
        let mut delivery = self.flight.recovery.start_delivery(
            &self.flight.scoreboard,
            self.snd,
            self.stamps,
            report.echo,
            a.now,
        );
        self.flight
            .handle_sack(self.snd, h, ack.max(old_una), &mut report, &mut delivery);
        let old_window = self.snd.wnd();
        self.flight.update_window(self.snd, a.start, ack, h.window);
        report.duplicate = ack == old_una
            && self.snd.in_flight() > 0
            && a.end == a.start
            && (report.sacked > 0 || (self.snd.wnd() == old_window && !self.snd.sack()));
        if report.acked > 0 {
            self.flight.mark_delivered(old_una, ack, &mut delivery);
            self.advance_una(ack, report.echo, a.now);
        }
        self.flight.recovery.rack.on_ack(&delivery);
        report.delivered = delivery.bytes;
        report.original = delivery.original;
        if report.acked > 0 || report.sacked > 0 || report.duplicate || report.dsack.is_some() {
            self.report(report, a.now);
        }
        self.ecn
            .on_feedback(self.snd, self.flight, self.congestion, feedback);
        if self.snd.in_flight() == 0 || self.snd.wnd() == 0 {
            self.liveness.note_answered(self.snd, *self.flags);
        }
    }

    /// SND.UNA <- SEG.ACK, with the updates of timers and round-trip time. `echo` is the
    /// echoed timestamp, if there is a usable one.
    fn advance_una(&mut self, ack: Pos, echo: Option<u32>, now: Instant) {
        let old = self.snd.una();
        self.snd.acknowledge(ack);
        if ack.min(self.snd.edge()) > old {
            self.outcome.report(Events::SND_ACKED);
        }
        self.flight
            .sample_round_trip(self.snd, self.stamps, ack, || echo, now);
        self.liveness.note_acknowledged(self.snd, self.outcome);
        // RFC 6298 section 5.2 and 5.3.
        if self.snd.in_flight() == 0 {
            self.flight.disarm_xmit(self.timers);
            self.accounting.busy.end(now);
        } else {
            self.flight.arm_loss_timer(self.snd, now);
            self.liveness.arm_user_timeout(self.timers, self.cfg, now);
        }
    }

    /// Loss recovery and congestion control.
    fn report(&mut self, report: AckReport, now: Instant) {
        let advice = self
            .flight
            .on_ack_report(self.snd, self.congestion, report, now);
        self.accounting
            .note_report(report.dsack.is_some(), advice.undone);
        if advice.send_small {
            *self.flags |= Flags::FORCE_SMALL;
        }
        self.accounting
            .end_timeout_recovery(self.flight, self.flags, now);
        let repeated = self.accounting.counters.bytes_retrans;
        self.flight
            .note_delivery(self.snd, self.congestion, repeated, report.delivered, now);
        self.congestion
            .follow_window(&self.snd.rtt, self.ecn.is_on(), self.flags);
    }
}
