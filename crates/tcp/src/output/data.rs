//! What the connection notes when it sends data or its FIN, new or again: positions, timers,
//! round trips, counters.

use crate::flags::Flags;
use crate::flight::XmitTimer;
use crate::pos::Pos;
use crate::segment::Transmit;
use crate::tcb::Tcb;
use crate::time::{Instant, MS};

/// Data sent this soon after data was received makes the connection interactive,
/// microseconds.
const ANSWER_US: u64 = 40 * MS;

impl Tcb {
    pub(crate) fn emit_new(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let idle = self.snd.una() == self.snd.nxt();
        self.note_new(start, end, now);
        self.congestion
            .note_new_data(&self.snd, || self.flight.pipe(&self.snd), end, idle, now);
        self.emit_data(start, end, false, now)
    }

    /// New data, or the FIN, is sent. `output/fast_path.rs` has a shorter version.
    #[inline(always)]
    pub(super) fn note_new(&mut self, start: Pos, end: Pos, now: Instant) {
        let len = end - start;
        if self.snd.una() == self.snd.nxt() {
            self.liveness
                .arm_user_timeout(&mut self.timers, &self.cfg, now);
        }
        let starts = self.flight.timer.at.is_never() || self.snd.in_flight() == 0;
        if self.snd.in_flight() == 0 {
            self.liveness.note_progress();
            self.accounting.begin_flight(&mut self.flags, now);
        }
        if self.flags.contains(Flags::WINDOW_LIMITED) {
            self.accounting.end_window_limit(&mut self.flags, now);
        }
        self.snd.advance(end);
        self.flight.send(&self.snd, end, now);
        if self.flight.recovery.probe.due {
            self.flight.recovery.probe.on_sent(start, end, false);
        }
        if starts && self.prediction.is_on() {
            self.flight.rearm_loss_timer(&self.snd, now);
        } else if starts {
            self.flight.arm_loss_timer(&self.snd, now);
        } else if self.flight.timer.kind == XmitTimer::Probe {
            self.flight.arm_probe(&self.snd, now);
        }
        if !self.flight.is_timing() && self.flight.recovery.is_open() {
            self.time_round_trip(end, now);
        }
        if len != i64::from(self.snd.mss()) && len % i64::from(self.snd.mss()) != 0 {
            self.snd.set_small(end);
        }
        self.flight.count_sent(len as u32);
        self.note_data_sent(start, now);
        self.flags.remove(Flags::FORCE_SMALL);
        self.timers.hold = Instant::NEVER;
    }

    /// Starts timing a round trip, which the acknowledgment of `end` ends.
    #[inline]
    pub(super) fn time_round_trip(&mut self, end: Pos, now: Instant) {
        if !self.congestion.rate.is_on() {
            let last_ack = self.liveness.last_ack();
            self.flight
                .start_round(&self.snd, &mut self.congestion, last_ack);
        }
        self.flight.timed = end;
        self.flight.timed_at = now;
    }

    /// Retransmits a range.
    pub(super) fn emit_retransmission(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let packets = (end - start) as u64;
        let packets = packets.div_ceil(u64::from(self.snd.mss())) as u32;
        self.accounting.counters.retrans = self.accounting.counters.retrans.wrapping_add(packets);
        self.accounting.counters.bytes_retrans += (end.min(self.snd.edge()) - start).max(0) as u64;
        if start == self.snd.una() || self.flight.timer.at.is_never() {
            self.flight.arm_retransmit(&self.snd, now);
        }
        // RFC 6298 section 3, Karn's algorithm: a retransmitted segment is not timed.
        self.flight.stop_timing(&mut self.congestion);
        self.flight
            .on_retransmitted(&self.snd, &self.stamps, start, end, now);
        if self.congestion.rate.is_on() {
            self.congestion.rate.on_retransmitted(start, end);
        }
        self.note_data_sent(start, now);
        let mut transmit = self.emit_data(start, end, true, now);
        if let Some(stamps) = &mut transmit.options.timestamps {
            stamps.val = self.flight.recovery.last_stamp;
        }
        transmit
    }

    /// Sends the selected MTU probe: one packet, longer than the MSS.
    pub(crate) fn emit_mtu_probe(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let (small, segments) = (self.snd.small(), self.accounting.counters.data_segs_out);
        let mut probe = self.emit_new(start, end, now);
        self.snd.set_small(small);
        self.accounting.counters.data_segs_out = segments.wrapping_add(1);
        probe.mss = (end - start) as u16;
        probe
    }

    /// A segment that begins at `start` is sent. Payload soon after the peer's payload is
    /// likely a response: from then on acknowledgments wait to be piggybacked on the
    /// next. A FIN alone is no response.
    #[inline(always)]
    pub(super) fn note_data_sent(&mut self, start: Pos, now: Instant) {
        if start >= self.snd.edge() {
            self.flags |= Flags::FIN_ALONE;
            return;
        }
        self.note_payload_sent(now);
    }

    /// As [`note_data_sent`](Self::note_data_sent), for a segment that is known to have
    /// payload.
    #[inline(always)]
    pub(super) fn note_payload_sent(&mut self, now: Instant) {
        self.flight.last_sent = now;
        // The side that sends the first request is not interactive by that: the response
        // may be long.
        if now < self.liveness.last_data().soon(ANSWER_US) && self.rcv.nxt() > 0 {
            self.flags |= Flags::INTERACTIVE;
        }
    }
}
