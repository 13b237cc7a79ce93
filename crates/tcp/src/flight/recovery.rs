//! Loss detection and recovery.
//!
//! Owns [`Recovery`]. `input/ack.rs` reports what each acknowledgment covers,
//! `timeouts.rs` expired timers; `output/select.rs` asks what to retransmit and how much
//! may be sent.
//!
//! | file | contents |
//! | --- | --- |
//! | `rack.rs` | loss detection by time, with SACK (RFC 8985) |
//! | this file | the phases of recovery; what an acknowledgment means in each; what is sent next (RFC 6675) |
//! | `fast.rs` | loss detection without SACK, fast recovery (RFC 5681, RFC 6582) |
//! | `timeout.rs` | recovery after the retransmission timer (RFC 5681, RFC 2018) |
//! | `uncongested.rs` | retransmission of what no congestion took: too long, or refused |
//! | `prr.rs` | the rate of sending in recovery (RFC 9937) |
//! | `probe.rs` | the tail loss probe (RFC 8985 section 7) |
//! | `stamps.rs` | the timestamps of retransmissions |
//! | `spurious.rs` | undoing spurious recoveries: F-RTO, Eifel, DSACK (RFC 5682, 3522, 4015, 3708) |
//!
//! All kinds of recovery use the scoreboard: a range is in the network, SACKed, or lost
//! and not yet retransmitted. The pipe of RFC 6675 is the sum of the first kind; the
//! third kind is retransmitted, lowest range first. Limited transmit (RFC 3042) follows
//! from this: SACKed data leaves the pipe before anything is considered lost. Without
//! SACK, each duplicate acknowledgment counts as one SACKed segment.

mod fast;
mod probe;
mod prr;
mod rack;
mod spurious;
mod stamps;
mod timeout;
mod uncongested;

pub(crate) use probe::Probe;
pub(crate) use rack::Delivery;

use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::flight::scoreboard::Scoreboard;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;
use crate::violation::{Violation, require};
use prr::Reduction;
use rack::Rack;
use spurious::Undo;

/// DupThresh.
const DUP_THRESH: u8 = 3;

/// The kind of recovery in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// None.
    Open,
    /// Fast recovery.
    Fast,
    /// After a timeout.
    Loss,
    /// The path's MTU has decreased; the window is not reduced.
    Mtu,
}

/// The state of loss detection and repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) phase: Phase,
    /// Consecutive duplicate acknowledgments.
    pub(crate) dup_acks: u8,
    /// The hole at the end was retransmitted once (the rescue of RFC 6675).
    rescued: bool,
    /// The next retransmission is sent regardless of the window.
    pub(crate) forced: bool,
    /// Without SACK: bytes that duplicate acknowledgments account for.
    dup_bytes: u32,
    /// RecoveryPoint: recovery ends when this position is acknowledged.
    recover: Pos,
    /// Our timestamp on the last retransmission.
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

    /// Whether fast recovery is in progress, in which the window only regulates the
    /// sending rate.
    pub(crate) fn is_fast(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// Whether no recovery is in progress.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// `bytes` were sent.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: u32) {
        if self.phase == Phase::Fast {
            self.reduction.count_sent(bytes);
        }
    }

    /// Whether nothing but new data, if any, is to be sent.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase == Phase::Open && !self.probe.due
    }
}

/// What one acknowledgment reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AckReport {
    /// The advance of SND.UNA, bytes.
    pub(crate) acked: u64,
    /// Bytes newly SACKed.
    pub(crate) sacked: u64,
    /// It is a duplicate acknowledgment (RFC 5681 section 2, RFC 6675 section 2).
    pub(crate) duplicate: bool,
    /// Bytes that it acknowledges or SACKs for the first time.
    pub(crate) delivered: u64,
    /// The congestion window was in use when it arrived.
    pub(crate) window_used: bool,
    /// It reports congestion marks (RFC 3168, RFC 9768).
    pub(crate) congested: bool,
    /// Acknowledged bytes that duplicates had already accounted for, without SACK.
    pub(crate) counted_before: u64,
    /// The duplicate range that it reports (RFC 2883).
    pub(crate) dsack: Option<(Pos, Pos)>,
    /// It acknowledges or SACKs data that was sent only once, below the recovery point.
    pub(crate) original: bool,
    /// The timestamp that it echoes.
    pub(crate) echo: Option<u32>,
}

impl AckReport {
    /// Bytes that it delivers (DeliveredData of RFC 9937). Without SACK, a duplicate
    /// acknowledgment counts as one segment.
    fn delivered_data(&self, snd: &SendSide) -> u32 {
        let more = self.duplicate && !snd.sack();
        let bytes = self.delivered + if more { u64::from(snd.mss()) } else { 0 };
        bytes.min(1 << 30) as u32
    }
}

/// What the caller has to do after an acknowledgment was processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) struct Advice {
    /// A recovery was spurious and has been undone.
    pub(crate) undone: bool,
    /// New data is to be sent even in a small segment (RFC 5682 section 2.1 step 2).
    pub(crate) send_small: bool,
}

impl Recovery {
    /// Updates the bytes that duplicate acknowledgments account for. Returns how many of
    /// the bytes acknowledged now were among them.
    fn count_duplicates(&mut self, snd: &SendSide, report: AckReport) -> u64 {
        let mss = u32::from(snd.mss());
        let r = &mut *self;
        let counted_before = report.acked.min(u64::from(r.dup_bytes));
        if report.acked > 0 {
            r.dup_acks = 0;
            // It covers the retransmitted segment and, beyond that, some of what the
            // duplicates accounted for (RFC 6582 section 3.2 step 3).
            let beyond = report.acked.saturating_sub(u64::from(mss)).min(1 << 30);
            r.dup_bytes = r.dup_bytes.saturating_sub(beyond as u32);
            if r.is_open() {
                r.dup_bytes = 0;
            }
        }
        if report.duplicate {
            r.dup_acks = r.dup_acks.saturating_add(1);
            if !snd.sack() {
                // RFC 5681 section 3.2 step 4: no more duplicates count than segments
                // were in flight when the loss was detected; otherwise a peer could
                // elicit data by duplicates alone.
                let out = if r.is_open() { snd.nxt() } else { r.recover };
                let flight = (out - snd.una()).max(0) as u64;
                let most = flight.saturating_sub(u64::from(mss)).min(1 << 30) as u32;
                r.dup_bytes = r.dup_bytes.saturating_add(mss).min(most);
            }
        }
        counted_before
    }

    /// Grows the congestion window for newly acknowledged bytes, if the window was the
    /// limit (RFC 9438 section 5.8, RFC 7661). Bytes that SACK or duplicates reported
    /// earlier left the network then and do not count again; an acknowledgment that
    /// reports congestion does not grow the window (RFC 3168 section 6.1.2).
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
            congestion.grow_window(snd, self.rack.latest_rtt(), bytes, now);
        }
    }

    /// The next range to retransmit, if any: RFC 6675 section 4, NextSeg rules (1) and
    /// (4). Rule (3), retransmitting data that is not known to be lost, is left out: it
    /// is harmful where reordering is common.
    pub(crate) fn next_retransmission(
        &self,
        sent: &Scoreboard,
        snd: &SendSide,
    ) -> Option<(Pos, Pos)> {
        if self.is_open() || self.undo.holds_retransmission() {
            return None;
        }
        let una = snd.una();
        if let Some(lost) = sent.first_lost(una) {
            return Some((lost.start, lost.end));
        }
        // The rescue, rule (4): once per recovery, the last segment below the recovery
        // point, so that a lost tail does not wait for the timer.
        if !self.rescued && snd.sack() && snd.nxt() == snd.end() {
            let from = una.max(sent.highest(una));
            let start = from.max(self.recover - i64::from(snd.mss()));
            return (start < self.recover).then_some((start, self.recover));
        }
        None
    }
}

impl Flight {
    /// Bytes that are presumed to be in the network (RFC 6675 section 4, SetPipe).
    #[inline]
    pub(crate) fn pipe(&self, snd: &SendSide) -> u64 {
        let gone = self.scoreboard.sacked() + self.scoreboard.lost();
        snd.in_flight()
            .saturating_sub(gone + u64::from(self.recovery.dup_bytes))
    }

    /// Processes the report of an acknowledgment, after SND.UNA and the scoreboard were
    /// updated: detects loss, continues recovery or grows the window.
    pub(crate) fn on_ack_report(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        mut report: AckReport,
        now: Instant,
    ) -> Advice {
        report.counted_before = self.recovery.count_duplicates(snd, report);
        self.recovery.on_probe_report(snd, congestion, report);
        self.on_mtu_probe_report(snd, congestion, report);
        self.recovery.adapt_reordering_window(snd, report);
        let undone = self
            .recovery
            .undo_if_spurious(&mut self.scoreboard, snd, congestion, report);
        let advice = Advice {
            undone,
            send_small: self.recovery.undo.holds_retransmission(),
        };
        match self.recovery.phase {
            Phase::Open => {
                // Also after an undo: what else is missing is waited for with the wider
                // reordering window.
                if self.detect_loss(snd, now) > 0 {
                    self.repair(snd, congestion, report.delivered_data(snd));
                } else {
                    self.recovery.grow(snd, congestion, report, now);
                }
            }
            Phase::Fast => self.on_ack_in_recovery(snd, congestion, report, now),
            Phase::Loss | Phase::Mtu => self.on_ack_in_loss(snd, congestion, report, now),
        }
        if self.recovery.is_open() {
            self.scoreboard.shrink(snd.nxt());
        }
        advice
    }

    /// The path's MTU is known to be larger if an acknowledgment covers the probe of it; not if
    /// it may have been retransmitted in smaller segments.
    pub(crate) fn on_mtu_probe_report(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
    ) {
        if !self.mtu.has_arrived(&self.scoreboard, snd.una(), report) {
            return;
        }
        if self.recovery.is_open() {
            self.mtu.use_probed(snd, congestion, self.last_sent);
        } else {
            self.mtu.forget_probe();
        }
    }

    /// `start..end` was retransmitted.
    pub(crate) fn on_retransmitted(
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
        let r = &mut self.recovery;
        r.note_retransmission(snd, stamps, end - start, age, now);
        r.rescued |= lost.is_none();
        r.forced = false;
        r.count_sent((end - start) as u32);
    }
}

#[cfg(test)]
pub(crate) mod tests;
