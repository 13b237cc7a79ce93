//! What acknowledgments and sends mean for congestion control: from the connection's
//! terms to the controller's.
//!
//! Owns those methods of [`CongestionState`]. `recovery.rs` and `input/fast_path.rs` call them for
//! each acknowledgment, `output/` for each send of new data.

use super::{Ack, CongestionState};
use crate::accounting::Accounting;
use crate::ecn::EcnState;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::rate::{Delivered, Rate};
use crate::recovery::Phase;
use crate::snd::SendSide;
use crate::tcb::{Flags, Pos, Tcb};
use crate::time::Instant;

impl CongestionState {
    /// Whether the congestion window was what limited us when the data that is being
    /// acknowledged was sent. In slow start, it is enough that more than half of it was
    /// in use at some time in this round trip: bursts end below it.
    #[inline(always)]
    pub(crate) fn window_was_used(&mut self, snd: &SendSide) -> bool {
        // First, so that the most of a round trip counts though it began with a full window.
        let half_used = self.controller.in_slow_start()
            && self.most_in_flight(snd) * 2 > self.controller.cwnd();
        half_used || snd.una() <= self.full_at
    }

    /// The most that was in flight since the window's worth of data began that is being
    /// acknowledged, bytes.
    #[inline(always)]
    fn most_in_flight(&mut self, snd: &SendSide) -> u32 {
        // A window at most, which is 1 GiB at most.
        let flight = snd.in_flight() as u32;
        if snd.una() >= self.flight_until || flight > self.most_flight {
            self.most_flight = flight;
            self.flight_until = snd.nxt();
        }
        self.most_flight
    }

    /// `acked` bytes were acknowledged outside of fast recovery, while the window was
    /// in use (RFC 9438 section 5.8, RFC 7661). `rtt` is the latest round trip,
    /// microseconds; 0 if there was none.
    #[inline]
    pub(crate) fn grow_window(&mut self, snd: &SendSide, rtt: u32, acked: u64, now: Instant) {
        let ack = Ack {
            acked: acked.min(1 << 30) as u32,
            una: snd.una(),
            nxt: snd.nxt(),
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

impl CongestionState {
    /// Without a sampler, the rate of delivery is that of the last round trip that was
    /// timed: it is kept, and the next one begins.
    pub(crate) fn turn_round(&mut self, snd: &SendSide, flight: &Flight, liveness: &Liveness) {
        if let Some(rate) = self.last_round(snd, flight, liveness) {
            self.rate.keep(rate);
        }
        self.rate.begin_round(snd.una());
    }

    /// What that one measured, if it is over. It ended with the last acknowledgment: none
    /// is sent, and so none comes, between its end and the next one's beginning, but of
    /// what was in flight beside it.
    fn last_round(&self, snd: &SendSide, flight: &Flight, liveness: &Liveness) -> Option<Rate> {
        if flight.is_timing() {
            return None;
        }
        let elapsed = liveness.last_ack().since(flight.timed_at);
        self.rate.round(snd.una(), elapsed)
    }

    /// The rate of delivery, as tcpi_delivery_rate has it.
    pub(crate) fn delivery_rate(
        &self,
        snd: &SendSide,
        flight: &Flight,
        liveness: &Liveness,
    ) -> Rate {
        let mut rate = self.rate;
        if let Some(round) = self.last_round(snd, flight, liveness) {
            rate.keep(round);
        }
        rate.latest()
    }

    fn sample_rate(
        &mut self,
        snd: &SendSide,
        flight: &Flight,
        repeated: u64,
        delivered: u64,
        now: Instant,
    ) {
        let una = snd.una();
        let delivered = Delivered {
            reached: flight.scoreboard.highest(una),
            in_order: flight.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: flight.recovery.rack.latest_age(now),
            min_rtt: snd.rtt.min_rtt_or(0),
        };
        let mut sample = self.rate.on_delivered(&delivered, now);
        // What is repeated was lost; counted when it goes out again.
        let repeated = repeated as u32;
        sample.lost = repeated.wrapping_sub(self.repeated_seen).min(1 << 30);
        self.repeated_seen = repeated;
        sample.in_flight = flight.pipe(snd).min(1 << 30) as u32;
        sample.recovering = !flight.recovery.is_open();
        self.controller.on_rate(&sample);
    }

    /// New data up to `end` goes out; `idle`: nothing was in flight.
    #[inline]
    pub(crate) fn note_new_data(
        &mut self,
        snd: &SendSide,
        flight: &Flight,
        end: Pos,
        idle: bool,
        now: Instant,
    ) {
        if self.rate.wants(end) || (idle && self.rate.is_on()) {
            self.remember_send(snd, flight, end, idle, now);
        }
    }

    fn remember_send(
        &mut self,
        snd: &SendSide,
        flight: &Flight,
        end: Pos,
        idle: bool,
        now: Instant,
    ) {
        let cwnd = self.controller.cwnd();
        let last = end >= snd.edge() && flight.pipe(snd) < u64::from(cwnd);
        self.rate.on_sent(end, idle, cwnd, now);
        if last {
            self.rate.on_app_limited(flight.pipe(snd));
        }
    }

    /// The algorithm was chosen, or the connection is established: rates are measured
    /// if it goes by them, and it is paced if it wants to be.
    pub(crate) fn start_congestion_control(
        &mut self,
        snd: &SendSide,
        ecn: &EcnState,
        accounting: &Accounting,
        flags: &mut Flags,
        now: Instant,
    ) {
        if self.controller.wants_rates() {
            self.repeated_seen = accounting.counters.bytes_retrans as u32;
            self.rate.start(snd.nxt(), now);
            self.controller.init_pace(snd.rtt.srtt());
        } else {
            self.rate.stop();
        }
        self.update_pacing(snd, ecn, flags);
    }
}

impl Tcb {
    /// An acknowledgment has been dealt with that delivered this many bytes: the rate
    /// of delivery, for an algorithm that goes by it, and the pace.
    #[inline]
    pub(crate) fn note_delivery(&mut self, delivered: u64, now: Instant) {
        let congestion = &mut self.congestion;
        if congestion.rate.is_on() {
            let repeated = self.accounting.counters.bytes_retrans;
            congestion.sample_rate(&self.snd, &self.flight, repeated, delivered, now);
        }
        if congestion.pacer.is_on() {
            congestion.update_pacing(&self.snd, &self.ecn, &mut self.flags);
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
}
