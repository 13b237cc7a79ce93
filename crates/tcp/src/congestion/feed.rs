//! What acknowledgments and sends mean for congestion control: from the connection's
//! terms to the controller's.
//!
//! Owns those methods of [`Tcb`]. `recovery.rs` and `input/fast_path.rs` call them for
//! each acknowledgment, `output/` for each send of new data.

use super::Ack;
use crate::rate::{Delivered, Rate};
use crate::recovery::Phase;
use crate::tcb::{Pos, Tcb};
use crate::time::Instant;

impl Tcb {
    /// `acked` bytes were acknowledged outside of fast recovery, while the window was
    /// in use (RFC 9438 section 5.8, RFC 7661).
    #[inline]
    pub(crate) fn grow_window(&mut self, acked: u64, now: Instant) {
        let ack = Ack {
            acked: acked.min(1 << 30) as u32,
            una: self.snd_una,
            nxt: self.snd_nxt,
            rtt: self.recovery.rack.latest_rtt(),
            srtt: self.rtt.srtt().unwrap_or(0),
            now,
        };
        self.congestion.on_ack(&ack);
    }

    /// RW of RFC 5681 section 4.1, bytes: what a sender may begin with after a silence.
    pub(crate) fn restart_window(&self) -> u32 {
        u32::from(self.cfg.initial_window.max(1)) * u32::from(self.snd_mss)
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
    pub(crate) fn window_in_use(&mut self) -> u32 {
        let flight = self.in_flight().min(u64::from(u32::MAX)) as u32;
        let cwnd = self.congestion.cwnd();
        if self.recovery.phase == Phase::Fast {
            flight
        } else if self.window_was_used() {
            cwnd
        } else {
            flight.max(self.restart_window()).min(cwnd)
        }
    }

    /// An acknowledgment has been dealt with that delivered this many bytes: the rate
    /// of delivery, for an algorithm that goes by it, and the pace.
    #[inline]
    pub(crate) fn note_delivery(&mut self, delivered: u64, now: Instant) {
        if self.rate.is_on() {
            self.sample_rate(delivered, now);
        }
        if self.pacer.is_on() {
            self.update_pacing();
        }
    }

    /// The same where header prediction took the acknowledgment, which then tells of no
    /// marks.
    #[inline]
    pub(crate) fn note_predicted_delivery(&mut self, delivered: u64, now: Instant) {
        if self.congestion.wants_marks() {
            let (una, nxt) = (self.snd_una, self.snd_nxt);
            let acked = delivered.min(1 << 30) as u32;
            self.congestion.on_marks(acked, 0, una, nxt);
        }
        self.note_delivery(delivered, now);
    }

    /// Without a sampler, the rate of delivery is that of the last round trip that was
    /// timed: it is kept, and the next one begins.
    #[inline(never)]
    pub(crate) fn turn_round(&mut self) {
        if let Some(rate) = self.last_round() {
            self.rate.keep(rate);
        }
        self.rate.begin_round(self.snd_una);
    }

    /// What that one measured, if it is over. It ended with the last acknowledgment: none
    /// is sent, and so none comes, between its end and the next one's beginning, but of
    /// what was in flight beside it.
    fn last_round(&self) -> Option<Rate> {
        if self.is_timing() {
            return None;
        }
        let elapsed = self.last_rcv_ack.since(self.rtt_at);
        self.rate.round(self.snd_una, elapsed)
    }

    /// The rate of delivery, as tcpi_delivery_rate has it.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let mut rate = self.rate;
        if let Some(round) = self.last_round() {
            rate.keep(round);
        }
        rate.latest()
    }

    fn sample_rate(&mut self, delivered: u64, now: Instant) {
        let una = self.snd_una;
        let delivered = Delivered {
            reached: self.scoreboard.highest(una),
            in_order: self.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: self.recovery.rack.latest_age(now),
            min_rtt: self.rtt.min_rtt_or(0),
        };
        let mut sample = self.rate.on_delivered(&delivered, now);
        // What is repeated was lost; counted when it goes out again.
        let repeated = self.counters.bytes_retrans as u32;
        sample.lost = repeated.wrapping_sub(self.repeated_seen).min(1 << 30);
        self.repeated_seen = repeated;
        sample.in_flight = self.pipe().min(1 << 30) as u32;
        sample.recovering = !self.recovery.is_open();
        self.congestion.on_rate(&sample);
    }

    /// New data up to `end` goes out; `idle`: nothing was in flight.
    #[inline]
    pub(crate) fn note_new_data(&mut self, end: Pos, idle: bool, now: Instant) {
        if self.rate.wants(end) || (idle && self.rate.is_on()) {
            self.remember_send(end, idle, now);
        }
    }

    fn remember_send(&mut self, end: Pos, idle: bool, now: Instant) {
        let cwnd = self.congestion.cwnd();
        let last = end >= self.snd_edge && self.pipe() < u64::from(cwnd);
        self.rate.on_sent(end, idle, cwnd, now);
        if last {
            self.rate.on_app_limited(self.pipe());
        }
    }

    /// The algorithm was chosen, or the connection is established: rates are measured
    /// if it goes by them, and it is paced if it wants to be.
    pub(crate) fn start_congestion_control(&mut self, now: Instant) {
        if self.congestion.wants_rates() {
            self.repeated_seen = self.counters.bytes_retrans as u32;
            self.rate.start(self.snd_nxt, now);
            self.congestion.init_pace(self.rtt.srtt());
        } else {
            self.rate.stop();
        }
        self.update_pacing();
    }
}
