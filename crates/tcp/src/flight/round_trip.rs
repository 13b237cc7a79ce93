//! The round trip that is being timed (RFC 6298 section 3).
//!
//! Owns [`RoundTripTimer`]. Output starts it with new data if none is timed, `ack.rs` ends it
//! when that data is acknowledged, and whatever is retransmitted cancels it.

use crate::congestion::CongestionState;
use crate::pos::{NO_POS, Pos};
use crate::rtt::RttEstimator;
use crate::snd::SendSide;
use crate::time::Instant;
use crate::violation::{Violation, require};

/// Times one round trip after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTripTimer {
    /// An acknowledgment of this position ends the timed round trip; `NO_POS` if none
    /// is timed.
    end: Pos,
    /// When the round trip began that is timed, or was timed last.
    began: Instant,
}

impl RoundTripTimer {
    /// No round trip is timed.
    pub(crate) const fn new(now: Instant) -> RoundTripTimer {
        RoundTripTimer {
            end: NO_POS,
            began: now,
        }
    }

    /// Whether a round trip is being timed.
    #[inline(always)]
    pub(crate) const fn is_running(&self) -> bool {
        self.end != NO_POS
    }

    /// When the round trip began that is timed, or was timed last.
    pub(crate) const fn began(&self) -> Instant {
        self.began
    }

    /// Starts timing a round trip, which the acknowledgment of `end` ends.
    #[inline(always)]
    pub(crate) fn start(&mut self, end: Pos, now: Instant) {
        self.end = end;
        self.began = now;
    }

    /// Whether an acknowledgment up to `ack` ends the round trip that is timed; never, if none
    /// is.
    #[inline(always)]
    pub(crate) const fn is_ended_by(&self, ack: Pos) -> bool {
        ack >= self.end
    }

    /// The round trip that is timed has ended: its time is a sample.
    #[inline(always)]
    pub(crate) fn end(&mut self, rtt: &mut RttEstimator, now: Instant) {
        self.end = NO_POS;
        rtt.sample_since(self.began, now);
    }

    /// As [`end`](Self::end), if a round trip is timed.
    pub(crate) fn end_if_running(&mut self, rtt: &mut RttEstimator, now: Instant) {
        if self.is_running() {
            self.end(rtt, now);
        }
    }

    /// RFC 6298 section 3, Karn's algorithm: the timed segment may have been
    /// retransmitted.
    #[inline]
    pub(crate) fn cancel(&mut self, congestion: &mut CongestionState) {
        self.end = NO_POS;
        congestion.rate.cancel_round();
    }

    /// The duration of the last timed round trip, if it has ended. It ended with the last
    /// acknowledgment, which came at `last_ack`: from then until the next round trip begins
    /// nothing timed is in flight, so no other acknowledgment arrives, except for what was in
    /// flight beside it.
    pub(crate) fn last(&self, last_ack: Instant) -> Option<u64> {
        (!self.is_running()).then(|| last_ack.since(self.began))
    }

    /// Hands the last round trip to congestion control; the next one begins now.
    #[inline]
    pub(crate) fn start_round(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        last_ack: Instant,
    ) {
        congestion.start_round(snd.una(), self.last(last_ack));
    }

    /// As [`start_round`](Self::start_round), out of line.
    #[inline(never)]
    pub(crate) fn start_round_outlined(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        last_ack: Instant,
    ) {
        self.start_round(snd, congestion, last_ack);
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, snd: &SendSide) -> Result<(), Violation> {
        let is_in_flight = (snd.una()..snd.nxt()).contains(&(self.end - 1));
        require(
            !self.is_running() || is_in_flight,
            "what is timed is not in flight",
        )
    }
}

#[cfg(test)]
mod tests;
