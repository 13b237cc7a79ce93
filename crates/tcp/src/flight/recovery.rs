//! Finding loss and repairing it.
//!
//! Owns [`Recovery`]. `input/ack.rs` reports what each acknowledgment brought,
//! `timeouts.rs` a deadline; `output/select.rs` asks what to repeat and how much may go.
//!
//! | where | what |
//! | --- | --- |
//! | `rack.rs` | what is lost, by time (RFC 8985), with SACK |
//! | here | what is lost without SACK (RFC 5681, RFC 6582); the phases of repair, what goes next (RFC 6675, RFC 6298) |
//! | `prr.rs` | at which pace (RFC 9937) |
//! | `probe.rs` | the tail loss probe (RFC 8985 section 7) |
//! | `stamps.rs` | which timestamps repetitions have |
//! | `spurious.rs` | what was not lost after all: F-RTO, Eifel, DSACK (RFC 5682, 3522, 4015, 3708) |
//!
//! Every kind of repair looks at one picture, the scoreboard's: a range is in the
//! network, reported, or lost and not yet repeated. The pipe of RFC 6675 is the first
//! kind, and what is to be repeated is the third, lowest first. Limited transmit (RFC
//! 3042) falls out of it: what is reported leaves the pipe before anything is believed
//! lost. Without SACK, each duplicate acknowledgment stands for one segment reported.

mod probe;
mod prr;
mod rack;
mod spurious;
mod stamps;

pub(crate) use rack::Delivery;

use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;
use crate::violation::{Violation, require};
use probe::Probe;
use prr::Reduction;
use rack::Rack;
use spurious::Undo;

/// DupThresh.
const DUP_THRESH: u8 = 3;

/// Which repair is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// None.
    Open,
    /// Fast recovery.
    Fast,
    /// After a timeout.
    Loss,
    /// The path's MTU has shrunk; the window is not reduced for it.
    Mtu,
}

/// The state of loss detection and repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// Duplicate acknowledgments in a row.
    pub(crate) dup_acks: u8,
    /// The hole at the end has been repeated once (RFC 6675's rescue).
    rescued: bool,
    /// The next repetition goes whatever the window says.
    pub(crate) forced: bool,
    /// Without SACK: bytes that duplicate acknowledgments stand for.
    dup_bytes: u32,
    /// RecoveryPoint: recovery ends when it is acknowledged.
    recover: Pos,
    /// Our timestamp on the last repetition.
    pub(crate) last_stamp: u32,
    pub(crate) rack: Rack,
    pub(crate) probe: Probe,
    reduction: Reduction,
    undo: Undo,
}

impl Recovery {
    pub(crate) const fn new() -> Recovery {
        Recovery {
            phase: Phase::Open,
            dup_acks: 0,
            rescued: false,
            forced: false,
            dup_bytes: 0,
            recover: 0,
            last_stamp: 0,
            rack: Rack::new(),
            probe: Probe::new(),
            reduction: Reduction::new(),
            undo: Undo::new(),
        }
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, nxt: Pos) -> Result<(), Violation> {
        require(
            self.recover <= nxt.max(0),
            "a recovery of what was not sent",
        )?;
        require(
            !self.is_open() || self.dup_acks > 0 || self.dup_bytes == 0,
            "duplicates without duplicate acknowledgments",
        )
    }

    /// Whether fast recovery is under way, in which the window is an instrument of its pace.
    pub(crate) fn is_fast(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// Whether no repair is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Nothing but new data, if any, is to be sent.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase == Phase::Open && !self.probe.due
    }
}

/// What one acknowledgment brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AckReport {
    /// SND.UNA advanced by this much.
    pub(crate) acked: u64,
    /// Bytes newly reported by SACK blocks.
    pub(crate) sacked: u64,
    /// It is a duplicate acknowledgment (RFC 5681 section 2, RFC 6675 section 2).
    pub(crate) duplicate: bool,
    /// Bytes that it covers or reports, and that were not reported before.
    pub(crate) delivered: u64,
    /// The congestion window was in use when it came.
    pub(crate) window_used: bool,
    /// It reports marks of congestion (RFC 3168, RFC 9768).
    pub(crate) congested: bool,
    /// Bytes that it covers and that duplicates stood for, without SACK.
    pub(crate) counted_before: u64,
    /// It reports a duplicate (RFC 2883).
    pub(crate) dsack: Option<(Pos, Pos)>,
    /// It covers or reports what was sent once only, below the recovery point.
    pub(crate) original: bool,
    /// The timestamp that it echoes.
    pub(crate) echo: Option<u32>,
}

/// What there is to do besides when an acknowledgment has been dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Advice {
    /// A recovery proved needless, and was undone.
    pub(crate) undone: bool,
    /// New data is to go even if it makes a small segment (RFC 5682 section 2.1 step 2).
    pub(crate) send_small: bool,
}

impl Flight {
    /// Bytes believed to be in the network (RFC 6675 section 4, SetPipe).
    #[inline]
    pub(crate) fn pipe(&self, snd: &SendSide) -> u64 {
        let gone = self.scoreboard.sacked() + self.scoreboard.lost();
        snd.in_flight()
            .saturating_sub(gone + u64::from(self.recovery.dup_bytes))
    }

    /// Takes what an acknowledgment brought, after SND.UNA and the scoreboard were
    /// updated: detects loss, goes on with recovery or grows the window.
    pub(crate) fn on_ack_report(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        mut report: AckReport,
        now: Instant,
    ) -> Advice {
        let held = self.recovery.undo.holds_repetition();
        report.counted_before = self.count_duplicates(snd, report);
        self.on_probe_report(snd, congestion, report);
        self.on_mtu_probe_report(snd, congestion, report);
        self.adapt_reordering_window(snd, report);
        let undone = self.undo_if_spurious(snd, congestion, report);
        let advice = Advice {
            undone,
            send_small: !held && self.recovery.undo.holds_repetition(),
        };
        if undone {
            self.grow(snd, congestion, report, now);
            return advice;
        }
        match self.recovery.phase {
            Phase::Open => {
                if self.detect_loss(snd, now) > 0 {
                    self.repair(snd, congestion, self.delivered(snd, report));
                } else {
                    self.grow(snd, congestion, report, now);
                }
            }
            Phase::Fast => self.on_ack_in_recovery(snd, congestion, report, now),
            Phase::Loss | Phase::Mtu => self.on_ack_in_loss(snd, congestion, report, now),
        }
        advice
    }

    /// Counts what duplicates stand for. Says how much of what is acknowledged now they
    /// stood for.
    fn count_duplicates(&mut self, snd: &SendSide, report: AckReport) -> u64 {
        let mss = u32::from(snd.mss());
        let r = &mut self.recovery;
        let counted_before = report.acked.min(u64::from(r.dup_bytes));
        if report.acked > 0 {
            r.dup_acks = 0;
            // It covers the repeated segment and, beyond that, some of what the
            // duplicates stood for (RFC 6582 section 3.2 step 3).
            let beyond = report.acked.saturating_sub(u64::from(mss)).min(1 << 30);
            r.dup_bytes = r.dup_bytes.saturating_sub(beyond as u32);
            if r.is_open() {
                r.dup_bytes = 0;
            }
        }
        if report.duplicate {
            r.dup_acks = r.dup_acks.saturating_add(1);
            if !snd.sack() {
                // RFC 5681 section 3.2 step 4: no more of them count than segments were
                // out when the loss was found, or a peer could draw out data with
                // duplicates alone.
                let out = if r.is_open() { snd.nxt() } else { r.recover };
                let flight = (out - snd.una()).max(0) as u64;
                let most = flight.saturating_sub(u64::from(mss)).min(1 << 30) as u32;
                r.dup_bytes = r.dup_bytes.saturating_add(mss).min(most);
            }
        }
        counted_before
    }

    /// Marks what is lost; says how many bytes were not known to be.
    fn detect_loss(&mut self, snd: &SendSide, now: Instant) -> u64 {
        if snd.in_flight() == 0 {
            return 0;
        }
        if snd.sack() {
            return self.detect_loss_by_time(snd, now);
        }
        // RFC 5681 section 3.2.
        if self.recovery.is_open() && self.recovery.dup_acks >= DUP_THRESH {
            return self.lose_first_segment(snd);
        }
        0
    }

    /// The first unacknowledged segment is lost.
    fn lose_first_segment(&mut self, snd: &SendSide) -> u64 {
        let una = snd.una();
        let end = (una + i64::from(snd.mss())).min(snd.nxt());
        self.scoreboard.mark_lost_within(una, una, end)
    }

    /// Something is lost, found by an acknowledgment that delivered this much.
    fn repair(&mut self, snd: &SendSide, congestion: &mut CongestionState, delivered: u32) {
        if self.mtu_probe_alone_is_lost(snd) {
            // RFC 4821 section 7.6.2: no sign of congestion.
            self.enter_mtu_repair(snd, congestion);
        } else {
            self.enter_fast_recovery(snd, congestion, delivered);
        }
    }

    /// RFC 6675 section 5 step 4, RFC 6582 section 3.2 step 2.
    fn enter_fast_recovery(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        delivered: u32,
    ) {
        self.remember_for_undo(snd, congestion);
        self.forget_mtu_probe();
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
        self.stop_timing(congestion);
        self.reduce_proportionally(snd, congestion, delivered, false);
    }

    fn on_ack_in_recovery(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
        now: Instant,
    ) {
        if snd.una() >= self.recovery.recover {
            self.leave_recovery(snd, congestion);
            // What was sent since may be lost too: that is another episode.
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
            newly_lost = self.lose_first_segment(snd);
            self.recovery.forced |= newly_lost > 0;
        }
        // RFC 9937: the ACK is safe if SND.UNA advances and nothing more is lost.
        let safe = report.acked > 0 && (newly_lost == 0 || !sack);
        self.reduce_proportionally(snd, congestion, self.delivered(snd, report), safe);
    }

    /// Bytes that an acknowledgment says to be delivered (DeliveredData of RFC 9937).
    /// Without SACK, a duplicate one stands for a segment.
    fn delivered(&self, snd: &SendSide, report: AckReport) -> u32 {
        let more = report.duplicate && !snd.sack();
        let bytes = report.delivered + if more { u64::from(snd.mss()) } else { 0 };
        bytes.min(1 << 30) as u32
    }

    /// All that was outstanding when the loss was found is acknowledged: RFC 9937,
    /// the window is the threshold; RFC 5681 and 6582 the same.
    fn leave_recovery(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        if self.recovery.phase == Phase::Fast {
            congestion
                .controller
                .set_cwnd(congestion.controller.ssthresh());
        }
        self.reopen();
        self.scoreboard.shrink(snd.nxt());
        self.recovery.rack.on_recovered();
    }

    /// No repair is under way any more.
    fn reopen(&mut self) {
        let r = &mut self.recovery;
        r.phase = Phase::Open;
        r.forced = false;
        r.dup_acks = 0;
        r.dup_bytes = 0;
        r.undo.end_frto();
    }

    /// The retransmission timer has run out, `retries` times in a row.
    ///
    /// RFC 5681 section 3.1: the threshold comes down once, the window to one
    /// segment. RFC 2018 section 8: what was reported may have been thrown away;
    /// we believe it until it shows (the first hole is gone) or a second timeout.
    pub(crate) fn enter_loss(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        retries: u8,
        now: Instant,
    ) {
        let window = congestion.window_in_use(snd, self.recovery.is_fast());
        let first = self.recovery.phase != Phase::Loss || retries <= 1;
        let una = snd.una();
        if retries > 1 || self.scoreboard.is_reneged(una) {
            self.scoreboard.forget_sacked(una);
        }
        self.forget_mtu_probe();
        self.start_frto(snd, congestion, first);
        congestion.controller.on_timeout(window, first);
        self.mark_lost_on_timeout(snd, now);
        let nxt = snd.nxt();
        let r = &mut self.recovery;
        r.phase = Phase::Loss;
        r.recover = nxt;
        r.dup_acks = 0;
        r.dup_bytes = 0;
        r.rescued = true;
        r.forced = true;
        r.probe.forget();
    }

    /// After a timeout the window grows as in slow start (RFC 5681 section 3.1).
    fn on_ack_in_loss(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
        now: Instant,
    ) {
        self.detect_loss(snd, now);
        if snd.una() >= self.recovery.recover {
            self.leave_recovery(snd, congestion);
            if self.scoreboard.lost() > 0 {
                return self.enter_fast_recovery(snd, congestion, self.delivered(snd, report));
            }
        }
        self.grow(snd, congestion, report, now);
    }

    /// Lets the congestion window grow for what was acknowledged, if it was the
    /// window that limited us (RFC 9438 section 5.8, RFC 7661). What SACK, or duplicates,
    /// have told of before was let go of the network then, and does not count again; and
    /// what reports congestion is no reason to grow (RFC 3168 section 6.1.2).
    fn grow(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
        now: Instant,
    ) {
        let bytes = if snd.sack() {
            report.acked.min(report.delivered)
        } else {
            report.acked - report.counted_before
        };
        if bytes > 0 && report.window_used && !report.congested {
            congestion.grow_window(snd, self.recovery.rack.latest_rtt(), bytes, now);
        }
    }

    /// The path's MTU has shrunk: what is in flight was cut too large.
    pub(crate) fn repeat_for_smaller_mss(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
    ) {
        self.scoreboard.mark_lost(snd.una(), |_| true);
        self.forget_mtu_probe();
        if self.recovery.is_open() {
            self.enter_mtu_repair(snd, congestion);
        }
    }

    /// A closed window has opened. What a timeout had repeated meanwhile was a probe of it
    /// (RFC 9293 section 3.8.6.1), and refused: it goes again at once.
    pub(crate) fn repeat_into_open_window(&mut self, snd: &SendSide) {
        if self.recovery.phase == Phase::Loss {
            self.scoreboard.mark_lost(snd.una(), |_| true);
            self.recovery.forced = true;
        }
    }

    /// What went with the SYN was not taken (RFC 7413); that is no loss.
    pub(crate) fn repeat_refused_data(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        self.scoreboard.mark_lost(snd.una(), |_| true);
        self.enter_mtu_repair(snd, congestion);
    }

    /// What is lost was too long, or not wanted yet; the window is not to blame.
    fn enter_mtu_repair(&mut self, snd: &SendSide, congestion: &mut CongestionState) {
        let nxt = snd.nxt();
        let r = &mut self.recovery;
        r.phase = Phase::Mtu;
        r.recover = nxt;
        r.rescued = true;
        r.forced = true;
        r.probe.forget();
        self.stop_timing(congestion);
    }

    /// The next range to repeat, if any: RFC 6675 section 4, NextSeg rules (1) and
    /// (4). Rule (3), repeating what is not known to be lost, is left out: it
    /// defeats the purpose where reordering is common.
    pub(crate) fn next_repetition(&self, snd: &SendSide) -> Option<(Pos, Pos)> {
        let r = &self.recovery;
        if r.is_open() || r.undo.holds_repetition() {
            return None;
        }
        let una = snd.una();
        if let Some(lost) = self.scoreboard.first_lost(una) {
            return Some((lost.start, lost.end));
        }
        // The rescue, rule (4): once in a recovery, the last segment below the
        // recovery point, so that a lost tail does not wait for the timer.
        if !r.rescued && snd.sack() && snd.nxt() == snd.end() {
            let from = una.max(self.scoreboard.highest(una));
            let start = from.max(r.recover - i64::from(snd.mss()));
            return (start < r.recover).then_some((start, r.recover));
        }
        None
    }

    /// `start..end` has been repeated.
    pub(crate) fn on_repeated(
        &mut self,
        snd: &SendSide,
        stamps: &TimestampState,
        start: Pos,
        end: Pos,
        now: Instant,
    ) {
        let una = snd.una();
        let lost = self.scoreboard.first_lost(una);
        let age = lost.map_or(u64::MAX, |l| l.at.age(now));
        self.scoreboard.repeat(una, start, end, now);
        self.note_repetition(snd, stamps, end - start, age, now);
        let r = &mut self.recovery;
        r.rescued |= lost.is_none();
        r.forced = false;
        self.count_sent((end - start) as u32);
    }
}

#[cfg(test)]
pub(crate) mod tests;
