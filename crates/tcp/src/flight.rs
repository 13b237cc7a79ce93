//! Data in flight: when each range was sent, what became of it, and the recovery of
//! losses.
//!
//! Owns [`Flight`], which is part of the `Tcb`. Output reports what is sent,
//! `input/ack.rs` what is acknowledged. All of this state may be discarded: outstanding
//! data then counts as lost.

mod plpmtu;
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
use crate::pos::{NO_POS, Pos};
use crate::snd::SendSide;
use crate::time::Instant;
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
}
