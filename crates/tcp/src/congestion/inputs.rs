//! Translates acknowledgments and sends of a connection into calls of the controller.
//!
//! Owns those methods of [`CongestionState`]. `flight/recovery.rs` and `flight/rates.rs` call
//! them for each acknowledgment, `output/` for each send of new data.

use super::rate::{Delivered, Rate};
use super::{Ack, CongestionState};
use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::time::Instant;

impl CongestionState {
    /// Whether the congestion window was the limit when the data that is being
    /// acknowledged was sent. In slow start it is enough that more than half of the
    /// window was in use at some time in this round trip, since bursts end below it.
    #[inline(always)]
    pub(crate) fn window_was_used(&mut self, snd: &SendSide) -> bool {
        // Evaluated first, so that `most_flight` is updated even if the round trip began
        // with a full window.
        let half_used = self.controller.in_slow_start()
            && self.most_in_flight(snd) * 2 > self.controller.cwnd();
        half_used || snd.una() <= self.full_at
    }

    /// The largest flight since the start of the window of data that is being
    /// acknowledged, bytes.
    #[inline(always)]
    fn most_in_flight(&mut self, snd: &SendSide) -> u32 {
        // The flight is at most one window, which is at most 1 GiB.
        let flight = snd.in_flight() as u32;
        if snd.una() >= self.flight_until || flight > self.most_flight {
            self.most_flight = flight;
            self.flight_until = snd.nxt();
        }
        self.most_flight
    }

    /// `acked` bytes were acknowledged outside of fast recovery, while the window was in
    /// use (RFC 9438 section 5.8, RFC 7661). `rtt` is the latest round-trip sample,
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

    /// The amount that a congestion signal reduces (FlightSize in RFC 5681 equation 4),
    /// bytes: the window, if it was in use (RFC 9438 section 4.6 allows both). The bytes
    /// in flight may be much fewer by now: an acknowledgment, or a burst of them, that
    /// moves SND.UNA up to the loss has emptied the path before anything could follow.
    /// Data sent by limited transmit does not count (RFC 5681 section 3.2). In fast
    /// recovery the window only regulates the rate of retransmission, so the flight is
    /// used.
    ///
    /// If the window was not in use, the amount is at least the restart window: otherwise
    /// a sender of little data would be slower after a loss than an idle one.
    pub(crate) fn window_in_use(&mut self, snd: &SendSide, recovering: bool) -> u32 {
        let flight = snd.in_flight().min(u64::from(u32::MAX)) as u32;
        let cwnd = self.controller.cwnd();
        if recovering {
            flight
        } else if self.window_was_used(snd) {
            cwnd
        } else {
            flight.max(self.controller.restart_window()).min(cwnd)
        }
    }

    // ---- Delivery rate and pacing. ----

    /// Without a sampler, the delivery rate is that of the last timed round trip, which
    /// took `elapsed` microseconds if it has ended: records that rate and begins the next
    /// round trip.
    pub(crate) fn start_round(&mut self, una: Pos, elapsed: Option<u64>) {
        if let Some(rate) = elapsed.and_then(|elapsed| self.rate.round(una, elapsed)) {
            self.rate.keep(rate);
        }
        self.rate.begin_round(una);
    }

    /// The delivery rate, as in tcpi_delivery_rate; `elapsed` as for
    /// [`start_round`](Self::start_round).
    pub(crate) fn delivery_rate(&self, una: Pos, elapsed: Option<u64>) -> Rate {
        let mut rate = self.rate;
        if let Some(round) = elapsed.and_then(|elapsed| self.rate.round(una, elapsed)) {
            rate.keep(round);
        }
        rate.latest()
    }

    /// Data was delivered, after which `in_flight` bytes are in the network. `repeated`
    /// is the total of retransmitted bytes; `recovering` says that a recovery is in
    /// progress.
    pub(crate) fn sample_rate(
        &mut self,
        delivered: &Delivered,
        repeated: u64,
        in_flight: u64,
        recovering: bool,
        now: Instant,
    ) {
        let mut sample = self.rate.on_delivered(delivered, now);
        // What is retransmitted was lost; it is counted when it is sent again.
        let repeated = repeated as u32;
        sample.lost = repeated.wrapping_sub(self.repeated_seen).min(1 << 30);
        self.repeated_seen = repeated;
        sample.in_flight = in_flight.min(1 << 30) as u32;
        sample.recovering = recovering;
        self.controller.on_rate(&sample);
    }

    /// New data up to `end` is sent; `idle`: nothing was in flight. `pipe` returns how
    /// much is in the network.
    #[inline]
    pub(crate) fn note_new_data(
        &mut self,
        snd: &SendSide,
        pipe: impl FnOnce() -> u64,
        end: Pos,
        idle: bool,
        now: Instant,
    ) {
        if self.rate.wants(end) || (idle && self.rate.is_on()) {
            self.record_send(end >= snd.edge(), pipe(), end, idle, now);
        }
    }

    /// Records a send for rate samples; `last`: the user has written nothing after it.
    fn record_send(&mut self, last: bool, pipe: u64, end: Pos, idle: bool, now: Instant) {
        let cwnd = self.controller.cwnd();
        self.rate.on_sent(end, idle, cwnd, now);
        if last && pipe < u64::from(cwnd) {
            self.rate.on_app_limited(pipe);
        }
    }

    /// The algorithm was chosen, or the connection is established: starts rate
    /// measurement if the algorithm wants rates. `repeated` is the total of retransmitted
    /// bytes.
    pub(crate) fn start_measuring(&mut self, snd: &SendSide, repeated: u64, now: Instant) {
        if self.controller.wants_rates() {
            self.repeated_seen = repeated as u32;
            self.rate.start(snd.nxt(), now);
            self.controller.init_pace(snd.rtt.srtt());
        } else {
            self.rate.stop();
        }
    }

    /// Header prediction has taken an acknowledgment of so many bytes, which carries no
    /// congestion marks.
    #[inline]
    pub(crate) fn note_unmarked(&mut self, snd: &SendSide, acked: u64) {
        if self.controller.wants_marks() {
            let acked = acked.min(1 << 30) as u32;
            self.controller.on_marks(acked, 0, snd.una(), snd.nxt());
        }
    }

    /// The algorithm was chosen, or the connection is established: starts rate measurement
    /// and pacing if the algorithm wants them; `marks`: outgoing packets may be ECN-capable.
    pub(crate) fn start(
        &mut self,
        snd: &SendSide,
        repeated: u64,
        marks: bool,
        flags: &mut Flags,
        now: Instant,
    ) {
        self.start_measuring(snd, repeated, now);
        self.update_pacing(&snd.rtt, marks, flags);
    }

    /// As `Selection::new_data` in `output/select.rs`, for the simple case: the connection is
    /// established, data is in flight, both windows have room for all available data or
    /// for one batch, in full packets, and no FIN follows. The result is that of
    /// `new_data`.
    #[inline(always)]
    pub(crate) fn full_packets(
        &self,
        snd: &SendSide,
        min_batch: u8,
        max_payload: usize,
    ) -> Option<(Pos, Pos)> {
        let (start, mss) = (snd.nxt(), i64::from(snd.mss()));
        let mut len = (snd.edge() - start).min(max_payload as i64);
        if len < mss {
            return None;
        }
        if len != mss {
            len = len.min(self.batch_payload(snd, min_batch, max_payload) as i64);
            if len < mss || len % mss != 0 {
                return None;
            }
        }
        let (end, sent) = (start + len, start + len - snd.una());
        let fits =
            sent > len && sent <= i64::from(snd.wnd()) && sent <= i64::from(self.controller.cwnd());
        fits.then_some((start, end))
    }
}
