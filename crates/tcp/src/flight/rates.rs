//! Samples of the delivery rate.
//!
//! Owns what congestion control is told of what is in flight. `input/` calls this for each
//! acknowledgment, `output/` when the timing of a round trip begins.

use crate::congestion::{CongestionState, Delivered, Rate};
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::time::Instant;

impl Flight {
    /// An acknowledgment that delivered this many bytes was processed: takes a rate
    /// sample, for algorithms that use the delivery rate. `repeated` is the total of
    /// retransmitted bytes.
    #[inline]
    pub(crate) fn note_delivery(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        repeated: u64,
        delivered: u64,
        now: Instant,
    ) {
        if congestion.rate.is_on() {
            self.sample_rate(snd, congestion, repeated, delivered, now);
        }
    }

    fn sample_rate(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        repeated: u64,
        delivered: u64,
        now: Instant,
    ) {
        let delivered = Delivered {
            reached: self.scoreboard.highest(snd.una()),
            in_order: self.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: self.recovery.rack.latest_age(now),
            min_rtt: snd.rtt.min_rtt_or(0),
        };
        let recovering = !self.recovery.is_open();
        let pipe = self.pipe(snd);
        congestion.sample_rate(&delivered, repeated, pipe, recovering, now);
    }

    /// The duration of the last timed round trip, if it has ended. It ended with the last
    /// acknowledgment, which came at `last_ack`: from then until the next round trip begins
    /// nothing timed is in flight, so no other acknowledgment arrives, except for what was in
    /// flight beside it.
    fn timed_round(&self, last_ack: Instant) -> Option<u64> {
        if self.is_timing() {
            return None;
        }
        Some(last_ack.since(self.timed_at))
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

    /// Ends the timed round trip; the next one begins now.
    #[inline]
    pub(crate) fn start_round(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        last_ack: Instant,
    ) {
        congestion.start_round(snd.una(), self.timed_round(last_ack));
    }

    /// The delivery rate, as in tcpi_delivery_rate.
    pub(crate) fn delivery_rate(
        &self,
        snd: &SendSide,
        congestion: &CongestionState,
        last_ack: Instant,
    ) -> Rate {
        congestion.delivery_rate(snd.una(), self.timed_round(last_ack))
    }
}
