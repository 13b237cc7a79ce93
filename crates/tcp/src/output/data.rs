//! What the connection notes when it sends data or its FIN, new or again: positions, timers,
//! round trips, counters.
//!
//! Owns [`Departure`], which `output/mod.rs` and `output/fast_path.rs` tell what is sent.

use crate::accounting::Accounting;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::{Flight, XmitTimer};
use crate::liveness::Liveness;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};
use crate::timers::Timers;

/// Data sent this soon after data was received makes the connection interactive,
/// microseconds.
const ANSWER_US: u64 = 40 * MS;

/// What sending changes.
pub(super) struct Departure<'t> {
    pub(super) cfg: &'t Config,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t mut SendSide,
    pub(super) rcv: &'t ReceiveSide,
    pub(super) stamps: &'t TimestampState,
    pub(super) flight: &'t mut Flight,
    pub(super) congestion: &'t mut CongestionState,
    pub(super) liveness: &'t mut Liveness,
    pub(super) timers: &'t mut Timers,
    pub(super) accounting: &'t mut Accounting,
    /// Header prediction is on: nothing is lost, SACKed or probed for.
    pub(super) is_predicted: bool,
}

impl Departure<'_> {
    /// New data, or the FIN, is sent, with what rate samples and pacing need.
    pub(super) fn new_data(&mut self, start: Pos, end: Pos, now: Instant) {
        let idle = self.snd.una() == self.snd.nxt();
        self.plain_data(start, end, now);
        self.congestion
            .note_new_data(self.snd, || self.flight.pipe(self.snd), end, idle, now);
        self.pace(start, end, now);
    }

    /// As [`new_data`](Self::new_data), where neither rates are sampled nor data is paced.
    #[inline(always)]
    pub(super) fn plain_data(&mut self, start: Pos, end: Pos, now: Instant) {
        let len = end - start;
        if self.snd.una() == self.snd.nxt() {
            self.liveness.arm_user_timeout(self.timers, self.cfg, now);
        }
        let starts = !self.flight.timer.is_running() || self.snd.in_flight() == 0;
        if self.snd.in_flight() == 0 {
            self.liveness.note_progress();
            self.accounting.begin_flight(self.flags, now);
        }
        if self.flags.contains(Flags::WINDOW_LIMITED) {
            self.accounting.end_window_limit(self.flags, now);
        }
        self.snd.advance(end);
        self.flight.send(self.snd, end, now);
        if self.flight.recovery.probe.due {
            self.flight.recovery.probe.on_sent(start, end, false);
        }
        if starts && self.is_predicted {
            self.flight.rearm_loss_timer(self.snd, now);
        } else if starts {
            self.flight.arm_loss_timer(self.snd, now);
        } else if self.flight.timer.kind() == XmitTimer::Probe {
            self.flight.arm_probe(self.snd, now);
        }
        if !self.flight.round_trip.is_running() && self.flight.recovery.is_open() {
            if !self.congestion.rate.is_on() {
                let last_ack = self.liveness.last_ack();
                self.flight
                    .round_trip
                    .start_round(self.snd, self.congestion, last_ack);
            }
            self.flight.round_trip.start(end, now);
        }
        if len != i64::from(self.snd.mss()) && len % i64::from(self.snd.mss()) != 0 {
            self.snd.set_small(end);
        }
        self.flight.recovery.count_sent(len as u32);
        self.note_sent(start, now);
        self.flags.remove(Flags::FORCE_SMALL);
        self.timers.hold = Instant::NEVER;
    }

    /// New data is sent in full packets with other data in flight, and nothing is lost,
    /// SACKed or probed for: [`plain_data`](Self::plain_data) without the steps that do not
    /// apply then.
    #[inline(always)]
    pub(super) fn full_packets(&mut self, end: Pos, now: Instant) {
        self.snd.advance(end);
        if !self.flight.scoreboard.send_with_last(end, now) {
            self.flight.send_apart_outlined(self.snd, end, now);
        }
        if !self.flight.timer.rearm_probe(&self.snd.rtt, now) {
            self.flight.arm_probe_outlined(self.snd, now);
        }
        if !self.flight.round_trip.is_running() {
            if !self.congestion.rate.is_on() {
                let last_ack = self.liveness.last_ack();
                self.flight
                    .round_trip
                    .start_round_outlined(self.snd, self.congestion, last_ack);
            }
            self.flight.round_trip.start(end, now);
        }
        self.note_payload_sent(now);
        self.timers.hold = Instant::NEVER;
    }

    /// A range is retransmitted.
    pub(super) fn again(&mut self, start: Pos, end: Pos, now: Instant) {
        let packets = (end - start) as u64;
        let packets = packets.div_ceil(u64::from(self.snd.mss())) as u32;
        self.accounting.counters.retrans = self.accounting.counters.retrans.wrapping_add(packets);
        self.accounting.counters.bytes_retrans += (end.min(self.snd.edge()) - start).max(0) as u64;
        if start == self.snd.una() || !self.flight.timer.is_running() {
            self.flight.timer.arm_retransmit(&self.snd.rtt, now);
        }
        // RFC 6298 section 3, Karn's algorithm: a retransmitted segment is not timed.
        self.flight.round_trip.cancel(self.congestion);
        self.flight
            .on_retransmitted(self.snd, self.stamps, start, end, now);
        if self.congestion.rate.is_on() {
            self.congestion.rate.on_retransmitted(start, end);
        }
        self.note_sent(start, now);
        self.pace(start, end, now);
    }

    /// Counts payload against the pacing rate.
    fn pace(&mut self, start: Pos, end: Pos, now: Instant) {
        let payload = (end.min(self.snd.edge()) - start).max(0);
        self.congestion.pace(payload as u64, now);
    }

    /// A segment that begins at `start` is sent. Payload soon after the peer's payload is
    /// likely a response: from then on acknowledgments wait to be piggybacked on the
    /// next. A FIN alone is no response.
    #[inline(always)]
    fn note_sent(&mut self, start: Pos, now: Instant) {
        if start >= self.snd.edge() {
            *self.flags |= Flags::FIN_ALONE;
            return;
        }
        self.note_payload_sent(now);
    }

    /// As [`note_sent`](Self::note_sent), for a segment that is known to have payload.
    #[inline(always)]
    fn note_payload_sent(&mut self, now: Instant) {
        self.flight.last_sent = now;
        // The side that sends the first request is not interactive by that: the response
        // may be long.
        if now < self.liveness.last_data().soon(ANSWER_US) && self.rcv.nxt() > 0 {
            *self.flags |= Flags::INTERACTIVE;
        }
    }
}
