//! What acknowledgments and sends mean for congestion control: from the connection's
//! terms to the controller's.
//!
//! Owns those methods of [`Tcb`]. `recovery.rs` and `input/fast_path.rs` call them for
//! each acknowledgment, `output/` for each send of new data.

use super::{Ack, CongestionState};
use crate::rate::{Delivered, Rate};
use crate::recovery::Phase;
use crate::snd::SendSide;
use crate::tcb::{Pos, Tcb};
use crate::time::Instant;

impl CongestionState {
    /// `acked` bytes were acknowledged outside of fast recovery, while the window was
    /// in use (RFC 9438 section 5.8, RFC 7661). `rtt` is the latest round trip,
    /// microseconds; 0 if there was none.
    #[inline]
    pub(crate) fn grow_window(&mut self, snd: &SendSide, rtt: u32, acked: u64, now: Instant) {
        let ack = Ack {
            acked: acked.min(1 << 30) as u32,
            una: snd.una,
            nxt: snd.nxt,
            rtt,
            srtt: snd.rtt.srtt().unwrap_or(0),
            now,
        };
        self.controller.on_ack(&ack);
    }

    /// What a sign of congestion reduces (FlightSize in RFC 5681 equation 4), bytes: the
    /// window, if it was in use (RFC 9438 section 4.6 has both). In flight may be much
    /// less by now: an acknowledgment, or a burst of them, that moves SND.UNA up to the
    /// loss has emptied the path before anything could follow. And what limited transmit
    /// has sent does not count (RFC 5681 section 3.2). In fast recovery the window is an
    /// instrument of its pace and says nothing.
    ///
    /// Of a window that was not in use, what a silence would have left counts in any
    /// case: who sends little and loses it would else go on slower than who sent nothing.
    pub(crate) fn window_in_use(&mut self, snd: &SendSide, phase: Phase) -> u32 {
        let flight = snd.in_flight().min(u64::from(u32::MAX)) as u32;
        let cwnd = self.controller.cwnd();
        if phase == Phase::Fast {
            flight
        } else if self.window_was_used(snd) {
            cwnd
        } else {
            flight.max(self.controller.restart_window()).min(cwnd)
        }
    }
}

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
            let (una, nxt) = (self.snd.una, self.snd.nxt);
            let acked = delivered.min(1 << 30) as u32;
            self.congestion.controller.on_marks(acked, 0, una, nxt);
        }
        self.note_delivery(delivered, now);
    }

    /// Without a sampler, the rate of delivery is that of the last round trip that was
    /// timed: it is kept, and the next one begins.
    #[inline(never)]
    pub(crate) fn turn_round(&mut self) {
        if let Some(rate) = self.last_round() {
            self.congestion.rate.keep(rate);
        }
        self.congestion.rate.begin_round(self.snd.una);
    }

    /// What that one measured, if it is over. It ended with the last acknowledgment: none
    /// is sent, and so none comes, between its end and the next one's beginning, but of
    /// what was in flight beside it.
    fn last_round(&self) -> Option<Rate> {
        if self.flight.is_timing() {
            return None;
        }
        let elapsed = self.liveness.last_ack.since(self.flight.timed_at);
        self.congestion.rate.round(self.snd.una, elapsed)
    }

    /// The rate of delivery, as tcpi_delivery_rate has it.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let mut rate = self.congestion.rate;
        if let Some(round) = self.last_round() {
            rate.keep(round);
        }
        rate.latest()
    }

    fn sample_rate(&mut self, delivered: u64, now: Instant) {
        let una = self.snd.una;
        let delivered = Delivered {
            reached: self.flight.scoreboard.highest(una),
            in_order: self.flight.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: self.flight.recovery.rack.latest_age(now),
            min_rtt: self.snd.rtt.min_rtt_or(0),
        };
        let mut sample = self.congestion.rate.on_delivered(&delivered, now);
        // What is repeated was lost; counted when it goes out again.
        let repeated = self.accounting.counters.bytes_retrans as u32;
        sample.lost = repeated
            .wrapping_sub(self.congestion.repeated_seen)
            .min(1 << 30);
        self.congestion.repeated_seen = repeated;
        sample.in_flight = self.flight.pipe(&self.snd).min(1 << 30) as u32;
        sample.recovering = !self.flight.recovery.is_open();
        self.congestion.controller.on_rate(&sample);
    }

    /// New data up to `end` goes out; `idle`: nothing was in flight.
    #[inline]
    pub(crate) fn note_new_data(&mut self, end: Pos, idle: bool, now: Instant) {
        if self.congestion.rate.wants(end) || (idle && self.congestion.rate.is_on()) {
            self.remember_send(end, idle, now);
        }
    }

    fn remember_send(&mut self, end: Pos, idle: bool, now: Instant) {
        let cwnd = self.congestion.controller.cwnd();
        let last = end >= self.snd.edge && self.flight.pipe(&self.snd) < u64::from(cwnd);
        self.congestion.rate.on_sent(end, idle, cwnd, now);
        if last {
            self.congestion
                .rate
                .on_app_limited(self.flight.pipe(&self.snd));
        }
    }

    /// The algorithm was chosen, or the connection is established: rates are measured
    /// if it goes by them, and it is paced if it wants to be.
    pub(crate) fn start_congestion_control(&mut self, now: Instant) {
        if self.congestion.controller.wants_rates() {
            self.congestion.repeated_seen = self.accounting.counters.bytes_retrans as u32;
            self.congestion.rate.start(self.snd.nxt, now);
            self.congestion.controller.init_pace(self.snd.rtt.srtt());
        } else {
            self.congestion.rate.stop();
        }
        self.update_pacing();
    }
}
