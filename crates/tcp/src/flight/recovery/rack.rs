//! RACK (RFC 8985 section 6): a segment is lost if it was sent at least a reordering
//! window before another one that has been delivered.
//!
//! Owns [`Rack`] and [`Delivery`]. `input/ack.rs` passes [`Rack`] each range that an
//! acknowledgment delivers; `recovery.rs` asks for losses afterwards, `timeouts.rs` when
//! the reordering timer expires.
//!
//! The RFC counts segments; this implementation counts ranges of the scoreboard and
//! bytes. RACK replaces the counting of RFC 6675: while no reordering was seen, three
//! SACKed segments set the window to 0, and RACK then detects what IsLost would.

use super::{AckReport, DUP_THRESH, Recovery};
use crate::flight::scoreboard::{Scoreboard, SentRange, Stamp};
use crate::pos::{NO_POS, Pos};
use crate::rtt::RttEstimator;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};

/// Initial value of RACK.reo_wnd_persist, in recoveries.
const PERSIST: u8 = 16;

/// RACK.end_seq before anything is delivered.
const NOTHING: Pos = Pos::MIN;

/// The state of RACK (RFC 8985 section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq, of the delivered data that was sent last. That may
    /// be a part of a range, which was sent at some time between those of the range's
    /// first and last part.
    at: Stamp,
    first: Stamp,
    /// `NOTHING` before anything is delivered.
    end: Pos,
    /// RACK.rtt, microseconds.
    rtt: u32,
    /// RACK.reordering_seen.
    pub(super) reordering_seen: bool,
    /// RACK.reo_wnd_mult, 1 at first.
    mult: u8,
    /// RACK.reo_wnd_persist.
    persist: u8,
    /// RACK.dsack_round, `NO_POS` if none.
    dsack_round: Pos,
    /// Number of reordering events.
    pub(crate) reorderings: u32,
    /// The longest distance by which data was reordered, bytes.
    pub(crate) max_distance: u32,
}

/// The delivery report of one acknowledgment, filled in while the scoreboard is updated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    now: Instant,
    /// RACK.fack before this acknowledgment: the highest position delivered.
    fack: Pos,
    /// The minimum round-trip time so far, microseconds.
    min_rtt: u64,
    /// Age of the echoed timestamp in microseconds, if there is one.
    echo_age: Option<u64>,
    /// How much older than its transmission the timestamp of a retransmission may be,
    /// microseconds.
    backdating: u64,
    /// The recovery point of the recovery in progress.
    recover: Pos,
    /// Bytes not reported before.
    pub(crate) bytes: u64,
    /// It includes data that was sent only once, below `recover`.
    pub(crate) original: bool,
    /// The longest distance by which some of it was reordered, bytes; 0 if none was.
    overtaken: Pos,
}

impl Rack {
    pub(super) const fn new() -> Rack {
        Rack {
            at: Stamp::new(Instant(0)),
            first: Stamp::new(Instant(0)),
            end: NOTHING,
            rtt: 0,
            reordering_seen: false,
            mult: 1,
            persist: 0,
            dsack_round: NO_POS,
            reorderings: 0,
            max_distance: 0,
        }
    }

    /// Whether anything was delivered since the connection began.
    const fn is_known(&self) -> bool {
        self.end != NOTHING
    }

    /// The round-trip time of the last delivery, microseconds; 0 if there was none.
    pub(crate) const fn latest_rtt(&self) -> u32 {
        self.rtt
    }

    /// Time since the most recently sent delivered data was sent, microseconds.
    pub(crate) fn latest_age(&self, now: Instant) -> u64 {
        self.at.age(now)
    }

    /// RACK_sent_after: whether the most recently sent delivered data was sent after `s`.
    /// New data is sent in stream order; a retransmission may have been sent after the
    /// first parts of a range of new data and before its last ones.
    fn is_after(&self, s: &SentRange) -> bool {
        let at = if s.was_retransmitted() {
            self.first
        } else {
            self.at
        };
        let later = at.since(s.at);
        self.is_known() && (later > 0 || (later == 0 && self.end > s.end))
    }

    /// `s` is delivered: by SACK if `reported`, otherwise by the cumulative
    /// acknowledgment (RFC 8985 section 6.2, steps 1 to 3).
    pub(crate) fn on_delivered(&mut self, s: SentRange, reported: bool, d: &mut Delivery) {
        if s.is_sacked() {
            return;
        }
        d.bytes += s.len();
        let age = s.at.age(d.now);
        if s.was_retransmitted() {
            // If the original was delivered, the time of the retransmission is
            // meaningless. The echo is that of in-order data, so it applies only to the
            // cumulative part.
            let claimed_age = age + d.backdating + 2 * MS;
            let echo_is_older = d.echo_age.is_some_and(|echo| echo > claimed_age);
            if age < d.min_rtt || (echo_is_older && !reported) {
                return;
            }
        } else {
            d.original |= s.start < d.recover;
            if s.end < d.fack {
                d.overtaken = d.overtaken.max(d.fack - s.start);
            }
        }
        self.rtt = s.first.age(d.now).min(u64::from(u32::MAX)) as u32;
        if !self.is_known() || s.at.since(self.at) > 0 || (s.at == self.at && s.end > self.end) {
            self.at = s.at;
            self.first = s.first;
            self.end = s.end;
        }
    }

    /// As [`on_delivered`](Self::on_delivered), for a cumulative acknowledgment up to
    /// `end` of data that was all sent once and not SACKed before. The last range was
    /// sent from `first` to `at`; earlier ranges were sent earlier and change nothing.
    #[inline(always)]
    pub(crate) fn on_delivered_in_order(
        &mut self,
        end: Pos,
        (first, at): (Stamp, Stamp),
        now: Instant,
    ) {
        self.rtt = first.age(now) as u32;
        // Of two ranges sent at the same time, this one ends higher.
        if at.since(self.at) >= 0 || !self.is_known() {
            self.at = at;
            self.first = first;
            self.end = end;
        }
    }

    /// All ranges of the acknowledgment were processed.
    pub(crate) fn on_ack(&mut self, d: &Delivery) {
        if d.overtaken > 0 {
            let bytes = d.overtaken.min(Pos::from(u32::MAX)) as u32;
            self.max_distance = self.max_distance.max(bytes);
            self.note_reordering();
        }
    }

    pub(super) fn note_reordering(&mut self) {
        self.reordering_seen = true;
        self.reorderings = self.reorderings.saturating_add(1);
    }

    /// A recovery has ended (RFC 8985 section 6.2 step 4).
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }

    /// RFC 8985 section 6.2 step 4: the window is widened once per round trip in which a
    /// retransmission proved unnecessary.
    fn adapt(&mut self, una: Pos, nxt: Pos, dsack: bool) {
        if self.dsack_round != NO_POS && una >= self.dsack_round {
            self.dsack_round = NO_POS;
        }
        if dsack && self.dsack_round == NO_POS {
            self.dsack_round = nxt;
            self.mult = self.mult.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// RFC 8985 section 6.2 step 5, with a reordering window of `reordering` microseconds:
    /// marks lost data. Returns the number of newly lost bytes, and in how many microseconds
    /// other data may be lost, 0 if none may.
    pub(super) fn mark_lost(
        &self,
        sent: &mut Scoreboard,
        una: Pos,
        reordering: u64,
        now: Instant,
    ) -> (u64, u64) {
        let threshold = u64::from(self.rtt) + reordering;
        let mut wait = 0;
        let lost = sent.mark_lost(una, |s| {
            if !self.is_after(s) {
                return false;
            }
            let age = s.at.age(now);
            if age < threshold {
                wait = wait.max(threshold - age);
            }
            age >= threshold
        });
        (lost, wait)
    }

    /// RACK.reo_wnd, microseconds. `at_once`: in recovery, or DupThresh segments are
    /// SACKed.
    pub(super) fn window(&self, at_once: bool, rtt: &RttEstimator) -> u64 {
        if !self.reordering_seen && at_once {
            return 0;
        }
        let srtt = rtt.srtt().unwrap_or(MS);
        (u64::from(self.mult) * rtt.min_rtt_or(srtt) / 4).min(srtt)
    }
}

impl Recovery {
    /// A DSACK widens the reordering window, unless the tail loss probe caused it.
    pub(super) fn adapt_reordering_window(&mut self, snd: &SendSide, report: AckReport) {
        let dsack = report.dsack.is_some_and(|d| !self.probe.caused(d));
        let (una, nxt) = (snd.una(), snd.nxt());
        self.rack.adapt(una, nxt, dsack);
    }

    /// The state before an acknowledgment that echoes `echo` is processed.
    pub(crate) fn start_delivery(
        &self,
        sent: &Scoreboard,
        snd: &SendSide,
        stamps: &TimestampState,
        echo: Option<u32>,
        now: Instant,
    ) -> Delivery {
        let clock = stamps.clock(now);
        Delivery {
            now,
            fack: sent.highest(snd.una()),
            min_rtt: snd.rtt.min_rtt_or(0),
            echo_age: echo.map(|echo| u64::from(clock.wrapping_sub(echo)) * MS),
            backdating: u64::from(self.timestamp_backdating(snd)) * MS,
            recover: self.recover,
            bytes: 0,
            original: false,
            overtaken: 0,
        }
    }

    /// RACK.reo_wnd at present, microseconds.
    pub(super) fn reordering_window(&self, sent: &Scoreboard, snd: &SendSide) -> u64 {
        let three = u64::from(DUP_THRESH);
        let at_once = !self.is_open()
            || self.dup_acks >= DUP_THRESH
            || sent.segments_sacked(snd.una(), snd.mss(), three) >= three;
        self.rack.window(at_once, &snd.rtt)
    }

    /// RFC 8985 section 6.3: after a timeout the first segment is lost, and all data that
    /// was sent longer ago than the loss threshold. Before any delivery, everything is
    /// lost.
    pub(super) fn mark_lost_on_timeout(&self, sent: &mut Scoreboard, snd: &SendSide, now: Instant) {
        let (una, rack) = (snd.una(), self.rack);
        let threshold = u64::from(rack.rtt) + self.reordering_window(sent, snd);
        sent.mark_lost(una, |s| {
            !rack.is_known() || s.start == una || s.at.age(now) >= threshold
        });
    }
}

#[cfg(test)]
mod tests;
