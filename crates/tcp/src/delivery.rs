//! Delivery rate and pacing, updated by acknowledgments.
//!
//! Owns the methods of [`Tcb`] that pass congestion control what it needs of flight,
//! liveness and ECN. `input/` calls them for each acknowledgment, `output/` when the
//! timing of a round trip begins, `open.rs` and `user.rs` when an algorithm is chosen.

use crate::congestion::{Delivered, Rate};
use crate::ecn::Variant;
use crate::tcb::Tcb;
use crate::time::Instant;

impl Tcb {
    /// An acknowledgment that delivered this many bytes was processed: takes a rate
    /// sample, for algorithms that use the delivery rate, and updates the pacing rate.
    #[inline]
    pub(crate) fn note_delivery(&mut self, delivered: u64, now: Instant) {
        if self.congestion.rate.is_on() {
            self.sample_rate(delivered, now);
        }
        if self.congestion.pacer.is_on() {
            self.update_pacing();
        }
    }

    /// As [`note_delivery`](Self::note_delivery), for an acknowledgment taken by header
    /// prediction, which carries no congestion marks.
    #[inline]
    pub(crate) fn note_predicted_delivery(&mut self, delivered: u64, now: Instant) {
        if self.congestion.controller.wants_marks() {
            let (una, nxt) = (self.snd.una(), self.snd.nxt());
            let acked = delivered.min(1 << 30) as u32;
            self.congestion.controller.on_marks(acked, 0, una, nxt);
        }
        self.note_delivery(delivered, now);
    }

    fn sample_rate(&mut self, delivered: u64, now: Instant) {
        let (flight, una) = (&self.flight, self.snd.una());
        let delivered = Delivered {
            reached: flight.scoreboard.highest(una),
            in_order: flight.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: flight.recovery.rack.latest_age(now),
            min_rtt: self.snd.rtt.min_rtt_or(0),
        };
        let repeated = self.accounting.counters.bytes_retrans;
        let recovering = !flight.recovery.is_open();
        let pipe = flight.pipe(&self.snd);
        self.congestion
            .sample_rate(&delivered, repeated, pipe, recovering, now);
    }

    /// The duration of the last timed round trip, if it has ended. It ended with the last
    /// acknowledgment: from then until the next round trip begins nothing timed is in
    /// flight, so no other acknowledgment arrives, except for what was in flight beside
    /// it.
    fn timed_round(&self) -> Option<u64> {
        if self.flight.is_timing() {
            return None;
        }
        Some(self.liveness.last_ack().since(self.flight.timed_at))
    }

    /// Ends the timed round trip; the next one begins now.
    #[inline(never)]
    pub(crate) fn start_round(&mut self) {
        let elapsed = self.timed_round();
        self.congestion.start_round(self.snd.una(), elapsed);
    }

    /// The delivery rate, as in tcpi_delivery_rate.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let elapsed = self.timed_round();
        self.congestion.delivery_rate(self.snd.una(), elapsed)
    }

    /// The algorithm was chosen, or the connection is established: starts rate
    /// measurement and pacing if the algorithm wants them.
    pub(crate) fn start_congestion_control(&mut self, now: Instant) {
        let repeated = self.accounting.counters.bytes_retrans;
        self.congestion.start_measuring(&self.snd, repeated, now);
        self.update_pacing();
    }

    /// Updates the pacing rate, which may have changed.
    pub(crate) fn update_pacing(&mut self) {
        let marks = self.ecn.variant() != Variant::Off;
        self.congestion
            .update_pacing(&self.snd.rtt, marks, &mut self.flags);
    }

    /// SO_MAX_PACING_RATE, bytes per second; `u64::MAX` for none.
    pub fn set_max_pacing_rate(&mut self, bytes_per_second: u64) {
        self.cfg.max_pacing_rate = bytes_per_second.max(1);
        self.congestion.set_pacing_limit(self.cfg.max_pacing_rate);
        self.update_pacing();
    }

    /// Data is held back by pacing: arms the pacing timer if there is any data to send.
    pub(crate) fn wait_for_pacing(&mut self) {
        if self.snd.nxt() < self.snd.end() || !self.flight.recovery.is_quiet() {
            self.timers.pace = self.congestion.pacer.next();
        }
    }
}
