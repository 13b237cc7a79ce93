//! Data in flight: when each range was sent, what became of it, and the recovery of
//! losses.
//!
//! Owns [`Flight`], which is part of the `Tcb`. Output reports what is sent,
//! `input/ack.rs` what is acknowledged. All of this state may be discarded: outstanding
//! data then counts as lost.

mod ack;
mod plpmtu;
mod rates;
mod record_ends;
pub(crate) mod recovery;
#[allow(
    clippy::indexing_slicing,
    reason = "indices are the table's own, found by position; nothing of the wire is one"
)]
mod scoreboard;

pub(crate) use plpmtu::{MtuSearch, ProbeChoice};
pub(crate) use recovery::{AckReport, Delivery, Phase, Recovery};

use crate::congestion::CongestionState;
use crate::pos::{NO_POS, Pos, SYN_POS};
use crate::snd::SendSide;
use crate::time::Instant;
use crate::timers::Timers;
use crate::violation::{Violation, require};
pub(crate) use record_ends::RecordEnds;
use scoreboard::{Scoreboard, granularity};

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
    pub(crate) at: Instant,
    pub(crate) kind: XmitTimer,
    /// When the retransmission timer was started, also while another timer replaces it;
    /// see [`Flight::rto_deadline`].
    pub(crate) from: Instant,
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
}

/// The scoreboard, loss recovery, and the round trip that is being timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    /// An acknowledgment of this position ends the timed round trip; `NO_POS` if none
    /// is timed.
    pub(crate) timed: Pos,
    pub(crate) timed_at: Instant,
    /// When we last sent payload.
    pub(crate) last_sent: Instant,
    pub(crate) timer: LossTimer,
    pub(crate) recovery: Recovery,
    /// The search for the path's MTU.
    pub(crate) mtu: MtuSearch,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) record_ends: RecordEnds,
}

impl Flight {
    /// Nothing is in flight; the path is assumed to take segments of `path_mss` bytes.
    pub(crate) const fn new(path_mss: u16, now: Instant) -> Flight {
        Flight {
            timed: NO_POS,
            timed_at: now,
            last_sent: now,
            timer: LossTimer::new(),
            recovery: Recovery::new(),
            mtu: MtuSearch::new(path_mss),
            scoreboard: Scoreboard::new(),
            record_ends: RecordEnds::new(),
        }
    }

    /// New data up to `end`, which follows everything sent before, is sent.
    #[inline(always)]
    pub(crate) fn send(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        if !self.scoreboard.send_with_last(end, now) {
            self.send_apart(snd, end, now);
        }
    }

    /// As [`send`](Self::send), if the last range cannot be extended.
    pub(crate) fn send_apart(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        let granularity = granularity(snd.rtt.srtt().unwrap_or(0));
        self.scoreboard.send_apart(end, now, granularity);
    }

    /// As [`send_apart`](Self::send_apart), out of line.
    #[inline(never)]
    pub(crate) fn send_apart_outlined(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        self.send_apart(snd, end, now);
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, snd: &SendSide) -> Result<(), Violation> {
        self.scoreboard.check(snd.una(), snd.nxt())?;
        let is_timed = (snd.una()..snd.nxt()).contains(&(self.timed - 1));
        require(
            !self.is_timing() || is_timed,
            "what is timed is not in flight",
        )?;
        self.recovery.check(snd.nxt())
    }

    /// Whether a round trip is being timed.
    #[inline]
    pub(crate) fn is_timing(&self) -> bool {
        self.timed != NO_POS
    }

    /// Starts timing a round trip, which the acknowledgment of `end` ends.
    #[inline(always)]
    pub(crate) fn time_round_trip(&mut self, end: Pos, now: Instant) {
        self.timed = end;
        self.timed_at = now;
    }

    /// RFC 6298 section 3, Karn's algorithm: the timed segment may have been
    /// retransmitted.
    #[inline]
    pub(crate) fn stop_timing(&mut self, congestion: &mut CongestionState) {
        self.timed = NO_POS;
        congestion.rate.cancel_round();
    }

    /// Restarts the retransmission timer (RFC 6298 sections 5.1 and 5.3).
    #[inline]
    pub(crate) fn arm_retransmit(&mut self, snd: &SendSide, now: Instant) {
        self.timer.kind = XmitTimer::Retransmit;
        self.timer.at = now.after_us(snd.rtt.rto());
        self.timer.from = now;
    }

    /// When the retransmission timer expires, also while another timer replaces it.
    pub(crate) fn rto_deadline(&self, snd: &SendSide) -> Instant {
        self.timer.from.after_us(snd.rtt.rto())
    }

    /// The timer that replaced the retransmission timer is done: the latter runs again.
    pub(crate) fn wait_for_rto(&mut self, snd: &SendSide, now: Instant) {
        self.timer.kind = XmitTimer::Retransmit;
        self.timer.at = self.rto_deadline(snd).max(now.after_us(1));
    }

    /// Nothing is outstanding: stops the retransmission timer and the user timeout (RFC
    /// 6298 section 5.2).
    #[inline(always)]
    pub(crate) fn disarm_xmit(&mut self, timers: &mut Timers) {
        self.timer.at = Instant::NEVER;
        timers.user = Instant::NEVER;
    }

    /// Bytes that may be sent before the congestion window is full.
    #[inline]
    pub(crate) fn congestion_room(&self, snd: &SendSide, congestion: &CongestionState) -> i64 {
        i64::from(congestion.controller.cwnd()) - self.pipe(snd) as i64
    }

    /// Whether the range that begins at `pos` is the next to be retransmitted.
    pub(crate) fn is_lost_from(&self, snd: &SendSide, pos: Pos) -> bool {
        let lost = self.scoreboard.first_lost(snd.una());
        lost.is_some_and(|l| l.start == pos)
    }

    /// The data between SND.UNA and SND.NXT was sent by another process: it counts as
    /// retransmitted now, so that its acknowledgment gives no round-trip sample (RFC 6298
    /// section 3). A SYN was sent at `syn_at`.
    pub(crate) fn resume(&mut self, snd: &SendSide, syn_at: Instant, now: Instant) {
        let (una, nxt) = (snd.una(), snd.nxt());
        if nxt > una.max(0) {
            self.send_apart(snd, nxt, now);
            self.scoreboard.repeat(una, una, nxt, now);
        }
        if una == SYN_POS && nxt > una {
            self.timed = 0;
            self.timed_at = syn_at;
        }
    }
}
