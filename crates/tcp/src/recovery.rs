//! Finding loss and repairing it: fast retransmit and recovery with SACK (RFC 6675)
//! or without (RFC 6582), limited transmit (RFC 3042), recovery after a timeout (RFC
//! 6298, RFC 5681), all at the pace of proportional rate reduction (RFC 6937).
//!
//! Owns [`Recovery`]. `input/ack.rs` reports what each acknowledgment brought,
//! `timers.rs` a timeout; `output/select.rs` asks what to repeat and how much may go.
//!
//! One picture serves every kind of recovery. Everything not reported below
//! `lost_edge` is believed lost; everything not reported below `high_rxt` has been
//! repeated. So with `missing(a..b)` for the unreported bytes,
//!
//! ```text
//!   pipe = missing(lost_edge..snd_nxt) + missing(snd_una..high_rxt)
//! ```
//!
//! which is RFC 6675's pipe; without SACK, each duplicate acknowledgment stands for
//! one segment reported. Limited transmit falls out of it: reported bytes leave the
//! pipe before anything is believed lost. RACK (RFC 8985) would set `lost_edge` by
//! time, in [`Tcb::detect_loss`].

use crate::input::UNPREDICTABLE;
use crate::tcb::{Flags, Pos, Tcb};
use crate::time::Instant;

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
    /// The first segment must be repeated, whatever the window says.
    pub(crate) force_first: bool,
    /// Without SACK: bytes that duplicate acknowledgments stand for.
    dup_bytes: u32,
    /// RecoveryPoint: recovery ends when it is acknowledged.
    recover: Pos,
    /// HighRxt.
    pub(crate) high_rxt: Pos,
    pub(crate) lost_edge: Pos,
    /// RFC 6937: bytes delivered and sent since recovery began, and what was in
    /// flight then.
    prr_delivered: u32,
    prr_out: u32,
    recover_fs: u32,
    /// SND.NXT when the segment at SND.UNA was last repeated: if what was sent
    /// later is reported, the repetition is lost too.
    una_repeated_at: Pos,
}

impl Recovery {
    pub(crate) const fn new() -> Recovery {
        Recovery {
            phase: Phase::Open,
            dup_acks: 0,
            rescued: false,
            force_first: false,
            dup_bytes: 0,
            recover: 0,
            high_rxt: 0,
            lost_edge: 0,
            prr_delivered: 0,
            prr_out: 0,
            recover_fs: 0,
            una_repeated_at: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }
}

/// What one acknowledgment brought.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AckNews {
    /// SND.UNA advanced by this much.
    pub(crate) acked: u64,
    /// Bytes newly reported by SACK blocks.
    pub(crate) sacked: u64,
    /// It is a duplicate acknowledgment (RFC 5681 section 2, RFC 6675 section 2).
    pub(crate) duplicate: bool,
    /// The congestion window was in use when it came.
    pub(crate) window_used: bool,
}

impl Tcb {
    /// Bytes believed to be in the network (RFC 6675 section 4, SetPipe).
    pub(crate) fn pipe(&self) -> u64 {
        let r = &self.recovery;
        if r.is_open() && self.scoreboard.is_empty() && r.dup_bytes == 0 {
            return self.in_flight();
        }
        let una = self.snd_una;
        let lost = r.lost_edge.max(una);
        let sent = self.scoreboard.missing_within(una, lost, self.snd_nxt);
        let repeated = self.scoreboard.missing_within(una, una, r.high_rxt);
        (sent + repeated).saturating_sub(u64::from(r.dup_bytes))
    }

    /// Takes what an acknowledgment brought, after SND.UNA and the scoreboard were
    /// updated: detects loss, goes on with recovery or grows the window.
    pub(crate) fn on_ack_news(&mut self, news: AckNews, now: Instant) {
        self.count_duplicates(news);
        match self.recovery.phase {
            Phase::Open => {
                if self.detect_loss() {
                    self.enter_fast_recovery();
                } else {
                    self.grow(news, now);
                }
            }
            Phase::Fast => self.on_ack_in_recovery(news),
            Phase::Loss | Phase::Mtu => self.on_ack_in_loss(news, now),
        }
    }

    fn count_duplicates(&mut self, news: AckNews) {
        let mss = u32::from(self.snd_mss);
        let r = &mut self.recovery;
        if news.acked > 0 {
            r.dup_acks = 0;
            // It covers the repeated segment and, beyond that, some of what the
            // duplicates stood for (RFC 6582 section 3.2 step 3).
            let beyond = news.acked.saturating_sub(u64::from(mss)).min(1 << 30);
            r.dup_bytes = r.dup_bytes.saturating_sub(beyond as u32);
            if self.scoreboard.is_empty() && r.is_open() {
                r.dup_bytes = 0;
            }
        }
        if news.duplicate {
            r.dup_acks = r.dup_acks.saturating_add(1);
            if !self.flags.contains(Flags::SACK) {
                let flight = (self.snd_nxt - self.snd_una) as u64;
                let most = flight.saturating_sub(u64::from(mss)).min(1 << 30) as u32;
                r.dup_bytes = r.dup_bytes.saturating_add(mss).min(most);
            }
        }
    }

    /// Whether something is lost; moves `lost_edge`.
    ///
    /// RFC 6675 section 5: DupThresh duplicate acknowledgments, or IsLost of the
    /// first unacknowledged byte. RFC 5681 section 3.2 without SACK.
    fn detect_loss(&mut self) -> bool {
        let una = self.snd_una;
        let nothing_odd = self.scoreboard.is_empty() && self.recovery.dup_acks < DUP_THRESH;
        if self.in_flight() == 0 || nothing_odd {
            return false;
        }
        let mut edge = self.scoreboard.lost_edge(una, u32::from(self.snd_mss));
        if self.recovery.dup_acks >= DUP_THRESH {
            edge = edge.max(self.first_segment_end());
        }
        let r = &mut self.recovery;
        r.lost_edge = if r.is_open() {
            edge
        } else {
            r.lost_edge.max(edge)
        };
        edge > una
    }

    /// The end of the first unacknowledged segment, as far as we know.
    fn first_segment_end(&self) -> Pos {
        let end = self.snd_una + i64::from(self.snd_mss);
        let hole_end = self
            .scoreboard
            .iter(self.snd_una)
            .next()
            .map_or(self.snd_nxt, |(start, _)| start);
        end.min(hole_end.max(self.snd_una + 1)).min(self.snd_nxt)
    }

    /// RFC 6675 section 5 step 4, RFC 6582 section 3.2 step 2 and RFC 6937 section 3.
    fn enter_fast_recovery(&mut self) {
        let flight = self.in_flight().min(u64::from(u32::MAX)) as u32;
        self.congestion.on_loss(flight);
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let r = &mut self.recovery;
        r.phase = Phase::Fast;
        r.recover = nxt;
        r.high_rxt = una;
        r.rescued = false;
        r.force_first = true;
        r.prr_delivered = 0;
        r.prr_out = 0;
        r.recover_fs = flight.max(1);
        self.flags.remove(Flags::TIMING);
        self.reduce_proportionally(0);
    }

    fn on_ack_in_recovery(&mut self, news: AckNews) {
        if self.snd_una >= self.recovery.recover {
            return self.leave_recovery();
        }
        let sack = self.flags.contains(Flags::SACK);
        self.detect_loss();
        if news.acked > 0 && !sack {
            // RFC 6582 section 3.2 step 3: a partial acknowledgment means that the
            // next segment is lost as well.
            let end = self.first_segment_end();
            let una = self.snd_una;
            let r = &mut self.recovery;
            r.lost_edge = r.lost_edge.max(end);
            r.high_rxt = r.high_rxt.max(una);
            r.force_first = r.high_rxt <= una;
        }
        self.detect_lost_repetition();
        let mut delivered = news.acked + news.sacked;
        if news.duplicate && !sack {
            delivered += u64::from(self.snd_mss);
        }
        self.reduce_proportionally(delivered.min(1 << 30) as u32);
    }

    /// If bytes sent after the first hole was last repeated are reported, as many as
    /// make anything else lost, its repetition is lost too. RFC 6675 leaves this to
    /// the timer; RACK generalises it.
    fn detect_lost_repetition(&mut self) {
        let una = self.snd_una;
        let r = &self.recovery;
        if r.high_rxt <= una || r.una_repeated_at <= una {
            return;
        }
        let mss = i64::from(self.snd_mss);
        let from = r.una_repeated_at;
        let later = (self.snd_nxt - from).max(0) as u64
            - self.scoreboard.missing_within(una, from, self.snd_nxt);
        if later > 2 * mss as u64 {
            self.recovery.high_rxt = una;
            self.recovery.una_repeated_at = 0;
            self.recovery.force_first = true;
        }
    }

    /// RFC 6937 section 3: the window is what is in the network plus what this
    /// acknowledgment lets go.
    fn reduce_proportionally(&mut self, delivered: u32) {
        let pipe = self.pipe().min(u64::from(u32::MAX)) as u32;
        let ssthresh = self.congestion.ssthresh();
        let mss = u32::from(self.snd_mss);
        let r = &mut self.recovery;
        r.prr_delivered = r.prr_delivered.saturating_add(delivered);
        let mut count = if pipe > ssthresh {
            let share = u64::from(r.prr_delivered) * u64::from(ssthresh);
            let share = share.div_ceil(u64::from(r.recover_fs)).min(1 << 30) as u32;
            share.saturating_sub(r.prr_out)
        } else {
            // The slow start reduction bound (PRR-SSRB).
            let limit = r.prr_delivered.saturating_sub(r.prr_out).max(delivered) + mss;
            limit.min(ssthresh - pipe)
        };
        if r.force_first {
            count = count.max(mss);
        }
        self.congestion.set_cwnd(pipe.saturating_add(count));
    }

    /// All that was outstanding when the loss was found is acknowledged: RFC 6937,
    /// the window is the threshold; RFC 5681 and 6582 the same.
    fn leave_recovery(&mut self) {
        if self.recovery.phase == Phase::Fast {
            self.congestion.set_cwnd(self.congestion.ssthresh());
        }
        let r = &mut self.recovery;
        r.phase = Phase::Open;
        r.force_first = false;
        r.dup_acks = 0;
        r.dup_bytes = 0;
        r.una_repeated_at = 0;
        r.high_rxt = self.snd_una;
        r.lost_edge = self.snd_una;
    }

    /// The retransmission timer has run out: everything not reported is lost.
    ///
    /// RFC 5681 section 3.1: the threshold comes down once, the window to one
    /// segment. RFC 2018 section 8: what was reported may have been thrown away;
    /// we believe it until it shows (the first hole is gone) or a second timeout.
    pub(crate) fn enter_loss(&mut self) {
        let flight = self.in_flight().min(u64::from(u32::MAX)) as u32;
        let first = self.recovery.phase != Phase::Loss || self.retries <= 1;
        self.congestion.on_timeout(flight, first);
        if self.retries > 1 || self.scoreboard.is_reneged(self.snd_una) {
            self.scoreboard.clear();
        }
        self.predict = UNPREDICTABLE;
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let r = &mut self.recovery;
        r.phase = Phase::Loss;
        r.recover = nxt;
        r.lost_edge = nxt;
        r.high_rxt = una;
        r.dup_acks = 0;
        r.dup_bytes = 0;
        r.rescued = true;
        r.force_first = true;
        r.una_repeated_at = 0;
    }

    /// After a timeout the window grows as in slow start (RFC 5681 section 3.1).
    fn on_ack_in_loss(&mut self, news: AckNews, now: Instant) {
        if self.snd_una >= self.recovery.recover {
            self.leave_recovery();
        } else {
            let una = self.snd_una;
            self.recovery.high_rxt = self.recovery.high_rxt.max(una);
            self.detect_lost_repetition();
        }
        self.grow(news, now);
    }

    /// Lets the congestion window grow for what was acknowledged, if it was the
    /// window that limited us (RFC 9438 section 5.8, RFC 7661).
    fn grow(&mut self, news: AckNews, now: Instant) {
        if news.acked > 0 && news.window_used {
            let acked = news.acked.min(1 << 30) as u32;
            let srtt = self.rtt.srtt().unwrap_or(0);
            self.congestion.on_ack(acked, srtt, now);
        }
    }

    /// The path's MTU has shrunk: what is in flight was cut too large.
    pub(crate) fn repeat_for_smaller_mss(&mut self) {
        self.predict = UNPREDICTABLE;
        if !self.recovery.is_open() {
            // The repair under way starts over with the smaller size.
            self.recovery.high_rxt = self.snd_una;
            self.recovery.lost_edge = self.snd_nxt;
            return;
        }
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let r = &mut self.recovery;
        r.phase = Phase::Mtu;
        r.recover = nxt;
        r.lost_edge = nxt;
        r.high_rxt = una;
        r.rescued = true;
        r.force_first = true;
        self.flags.remove(Flags::TIMING);
    }

    /// The next stretch to repeat, if any: RFC 6675 section 4, NextSeg rules (1) and
    /// (4). Rule (3), repeating what is not known to be lost, is left out: it
    /// defeats the purpose where reordering is common.
    pub(crate) fn next_repetition(&self) -> Option<(Pos, Pos)> {
        let r = &self.recovery;
        if r.is_open() {
            return None;
        }
        let una = self.snd_una;
        let from = r.high_rxt.max(una);
        if let Some(hole) = self.scoreboard.next_hole(una, from, r.lost_edge) {
            return Some(hole);
        }
        // The rescue, rule (4): once in a recovery, the last segment below the
        // recovery point, so that a lost tail does not wait for the timer.
        if !r.rescued && self.flags.contains(Flags::SACK) && self.snd_nxt == self.snd_end() {
            let limit = r.recover;
            let from = from.max(self.scoreboard.highest(una));
            let start = from.max(limit - i64::from(self.snd_mss));
            return (start < limit).then_some((start, limit));
        }
        None
    }

    /// `start..end` has been repeated.
    pub(crate) fn on_repeated(&mut self, start: Pos, end: Pos) {
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let r = &mut self.recovery;
        if start >= r.lost_edge {
            r.rescued = true;
            return self.count_sent((end - start) as u32);
        }
        if start <= una {
            r.una_repeated_at = nxt;
            r.force_first = false;
        }
        r.high_rxt = r.high_rxt.max(end);
        self.count_sent((end - start) as u32);
    }

    /// Bytes have gone out during recovery (prr_out of RFC 6937).
    pub(crate) fn count_sent(&mut self, bytes: u32) {
        let r = &mut self.recovery;
        if r.phase == Phase::Fast {
            r.prr_out = r.prr_out.saturating_add(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
