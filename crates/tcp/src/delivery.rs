//! What acknowledgments have delivered: the rate of it, and the pace that follows.
//!
//! Owns those methods of [`Tcb`], which bring congestion control together with what it is
//! told of flight, liveness and ECN. `input/` calls them for each acknowledgment, `output/`
//! when a round trip begins to be timed, `open.rs` and `user.rs` for an algorithm that
//! begins.

use crate::congestion::{Delivered, Rate};
use crate::ecn::Variant;
use crate::tcb::Tcb;
use crate::time::Instant;

impl Tcb {
    /// An acknowledgment has been dealt with that delivered this many bytes: the rate
    /// of delivery, for an algorithm that goes by it, and the pace.
    #[inline]
    pub(crate) fn note_delivery(&mut self, delivered: u64, now: Instant) {
        if self.congestion.rate.is_on() {
            self.sample_rate(delivered, now);
        }
        if self.congestion.pacer.is_on() {
            self.update_pacing();
        }
    }

    /// The same where header prediction took the acknowledgment, which then tells of no
    /// marks.
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

    /// How long the last round trip took that was timed, if it is over. It ended with the
    /// last acknowledgment: none is sent, and so none comes, between its end and the next
    /// one's beginning, but of what was in flight beside it.
    fn timed_round(&self) -> Option<u64> {
        if self.flight.is_timing() {
            return None;
        }
        Some(self.liveness.last_ack().since(self.flight.timed_at))
    }

    /// The next round trip is timed from now on.
    #[inline(never)]
    pub(crate) fn turn_round(&mut self) {
        let elapsed = self.timed_round();
        self.congestion.turn_round(self.snd.una(), elapsed);
    }

    /// The rate of delivery, as tcpi_delivery_rate has it.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let elapsed = self.timed_round();
        self.congestion.delivery_rate(self.snd.una(), elapsed)
    }

    /// The algorithm was chosen, or the connection is established: rates are measured
    /// if it goes by them, and it is paced if it wants to be.
    pub(crate) fn start_congestion_control(&mut self, now: Instant) {
        let repeated = self.accounting.counters.bytes_retrans;
        self.congestion.start_measuring(&self.snd, repeated, now);
        self.update_pacing();
    }

    /// The rate may have changed.
    pub(crate) fn update_pacing(&mut self) {
        let marks = self.ecn.variant() != Variant::Off;
        self.congestion
            .update_pacing(&self.snd.rtt, marks, &mut self.flags);
    }

    /// SO_MAX_PACING_RATE, bytes per second; `u64::MAX` for none.
    pub fn set_max_pacing_rate(&mut self, bytes_per_second: u64) {
        self.cfg.max_pacing_rate = bytes_per_second.max(1);
        self.congestion.bound_pace(self.cfg.max_pacing_rate);
        self.update_pacing();
    }

    /// Data has to wait for its turn: sees to it that a timer runs, if there is any.
    pub(crate) fn wait_for_pace(&mut self) {
        if self.snd.nxt() < self.snd.end() || !self.flight.recovery.is_quiet() {
            self.timers.pace = self.congestion.pacer.next();
        }
    }
}
