//! Segment output.
//!
//! Owns [`Tcb::poll_transmit`] and builds a [`Transmit`] from a selected range. The
//! engine calls it after each burst until it returns `None`. `select.rs` decides what is
//! sent, `options.rs` which options it carries.

mod fast_path;
mod options;
mod select;

pub(crate) use options::{TIMESTAMPS_LEN, plain_ack};

use crate::ecn::Variant;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::flight::ProbeChoice;
use crate::flight::XmitTimer;
use crate::pos::{Pos, SYN_POS};
use crate::segment::{Ecn, Transmit};
use crate::snd::SendSide;
use crate::state::State;
use crate::tcb::Tcb;
use crate::tcb::UNPREDICTABLE;
use crate::time::{Instant, MS};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{Plain, TcpFlags, TcpOptions, control};

/// Data sent this soon after data was received makes the connection interactive,
/// microseconds.
const ANSWER_US: u64 = 40 * MS;

impl Flight {
    /// Whether the range that begins at `pos` is the next to be retransmitted.
    fn is_lost_from(&self, snd: &SendSide, pos: Pos) -> bool {
        let lost = self.scoreboard.first_lost(snd.una());
        lost.is_some_and(|l| l.start == pos)
    }
}

impl SendSide {
    /// The sequence number of a segment without payload: SND.NXT, but not beyond the
    /// peer's window if that has shrunk, since the peer would drop the segment. The part
    /// of the window that rounding to the scale has taken back is still accepted (RFC
    /// 7323 section 2.4) and may already contain data, so a number below that would be
    /// dropped as well.
    #[inline]
    fn ack_pos(&self) -> Pos {
        let edge = self.wnd_edge().max(self.una());
        if self.nxt() - edge < 1 << self.wscale() {
            self.nxt()
        } else {
            edge
        }
    }
}

impl Tcb {
    /// The next segment to send, if any. `max_payload` is the largest payload of a
    /// segment: the MSS, or more if the segment is segmented later (then a multiple of
    /// the MSS is used). A probe of the path's MTU may be longer, but fits the interface
    /// in one packet. A returned segment counts as sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        if !self.may_have_to_send() {
            return None;
        }
        let transmit = self.poll_something(now, max_payload);
        self.debug_check();
        transmit
    }

    /// Whether [`poll_transmit`](Tcb::poll_transmit) may return a segment. `false` is
    /// exact; it is the result for most blocks that a burst has touched.
    #[inline]
    #[must_use]
    pub fn may_have_to_send(&self) -> bool {
        self.snd.nxt() < self.snd.end()
            || !self.flight.recovery.is_quiet()
            || self.flags.intersects(Flags::OWED_NOW)
    }

    fn poll_something(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        if self.flags.contains(Flags::RST_DUE) {
            return Some(self.emit_reset(now));
        }
        if self.flags.contains(Flags::SYN_DUE) {
            return Some(self.emit_syn(now));
        }
        if matches!(self.state, State::Closed | State::SynSent) {
            return None;
        }
        if self.flags.contains(Flags::URGENT) {
            self.snd.end_urgent_mode(&mut self.flags);
        }
        if self.flags.contains(Flags::RECORD_ENDS) {
            self.forget_record_ends();
        }
        if self.congestion.pacer.must_wait(now) {
            self.wait_for_pacing();
        } else if (self.state.may_transmit_data() || self.is_fast_opened())
            && let Some(transmit) = self.poll_data(now, max_payload)
        {
            return Some(transmit);
        }
        // The announcement of urgent data is sent before the probe, and acknowledges too.
        let urges = self.flags.contains(Flags::URGENT | Flags::ACK_NOW);
        if self.flags.contains(Flags::PROBE_DUE) && !urges {
            self.flags.remove(Flags::PROBE_DUE);
            // The number is one below SND.UNA: outside the peer's window, so that it
            // answers.
            let pos = self.snd.una() - 1;
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.snd.ack_pos();
            if let Some((ack, flags)) = self.ecn.take_change() {
                let mut before = plain_ack(
                    self.snd.seq(pos),
                    self.rcv.seq(ack),
                    self.advertise_window(),
                    self.timestamps(now).map(|t| (t.val, t.echo)),
                );
                before.flags |= flags;
                self.accounting.counters.segs_out =
                    self.accounting.counters.segs_out.wrapping_add(1);
                return Some(before);
            }
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
        }
        None
    }

    /// Retransmitted or new data, or the FIN.
    fn poll_data(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let max_payload = self.snd.urgent_payload(
            self.flags,
            self.ecn.bound_payload(
                &self.snd,
                self.congestion
                    .paced_payload(&self.snd, self.cfg.min_batch, max_payload),
            ),
        );
        if let Some((start, end)) = self.select_retransmission(max_payload) {
            return Some(self.emit_retransmission(start, end, now));
        }
        if let Some(new) = self.poll_new(now, max_payload) {
            return Some(new);
        }
        if self.flight.recovery.probe.due {
            return self.poll_probe(now, max_payload);
        }
        None
    }

    /// The tail loss probe, if there is no new data.
    fn poll_probe(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let most = self.packet_payload().min(max_payload as i64);
        let Some((start, end)) = self.flight.last_segment(&self.snd, most) else {
            self.flight.recovery.probe.forget();
            return None;
        };
        let start = start.max(self.last_boundary(end));
        self.flight.recovery.probe.on_sent(start, end, true);
        Some(self.emit_retransmission(start, end, now))
    }

    /// The last boundary of segments before `end` that a retransmission keeps, as Linux does:
    /// the end of a record, or of the data before a FIN that was sent alone.
    fn last_boundary(&self, end: Pos) -> Pos {
        if self.flags.contains(Flags::FIN_ALONE) && end > self.snd.edge() {
            return self.snd.edge();
        }
        let record = self.flight.record_ends.before(end.min(self.snd.edge()));
        record.unwrap_or(Pos::MIN)
    }

    fn poll_new(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        // A probe is longer than a segment: it would have bytes of several records.
        if self.flight.mtu.is_due(now) && !self.flags.contains(Flags::RECORD_ENDS) {
            let extra = self.extra_len_due();
            match self
                .flight
                .select_mtu_probe(&self.snd, &self.congestion, extra, now)
            {
                ProbeChoice::None => {}
                ProbeChoice::Hold => return None,
                ProbeChoice::Send(start, end) => {
                    self.predict = UNPREDICTABLE;
                    return Some(self.emit_mtu_probe(start, end, now));
                }
            }
        }
        let (start, end) = self.select_new(now, max_payload)?;
        Some(self.emit_new(start, end, now))
    }

    pub(crate) fn emit_new(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let idle = self.snd.una() == self.snd.nxt();
        self.note_new(start, end, now);
        self.congestion
            .note_new_data(&self.snd, || self.flight.pipe(&self.snd), end, idle, now);
        self.emit_data(start, end, false, now)
    }

    /// New data, or the FIN, is sent. `output/fast_path.rs` has a shorter version.
    #[inline(always)]
    fn note_new(&mut self, start: Pos, end: Pos, now: Instant) {
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
        if starts && self.predict != UNPREDICTABLE {
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
    fn time_round_trip(&mut self, end: Pos, now: Instant) {
        if !self.congestion.rate.is_on() {
            self.start_round();
        }
        self.flight.timed = end;
        self.flight.timed_at = now;
    }

    /// Retransmits a range.
    fn emit_retransmission(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
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

    /// A segment that begins at `start` is sent. Payload soon after the peer's payload is
    /// likely a response: from then on acknowledgments wait to be piggybacked on the
    /// next. A FIN alone is no response.
    #[inline(always)]
    fn note_data_sent(&mut self, start: Pos, now: Instant) {
        if start >= self.snd.edge() {
            self.flags |= Flags::FIN_ALONE;
            return;
        }
        self.note_payload_sent(now);
    }

    /// As [`note_data_sent`](Self::note_data_sent), for a segment that is known to have
    /// payload.
    #[inline(always)]
    fn note_payload_sent(&mut self, now: Instant) {
        self.flight.last_sent = now;
        // The side that sends the first request is not interactive by that: the response
        // may be long.
        if now < self.liveness.last_data().soon(ANSWER_US) && self.rcv.nxt() > 0 {
            self.flags |= Flags::INTERACTIVE;
        }
    }

    /// A segment with payload or FIN; `again`: it is a retransmission.
    fn emit_data(&mut self, start: Pos, end: Pos, again: bool, now: Instant) -> Transmit {
        let (mut flags, data_end) = self.flags_of(start, end);
        if again && data_end > start {
            if self.fast_open.ends_syn_data(self.flags, data_end) {
                flags |= TcpFlags::PSH;
            } else if data_end != self.snd.push()
                && !self.ends_record(data_end)
                && self.flight.is_lost_from(&self.snd, end)
            {
                // PSH within a hole has no use: the receiver waits for the rest.
                flags = flags & !TcpFlags::PSH;
            }
        }
        self.congestion.pace((data_end - start) as u64, now);
        let mut transmit = self.emit_with(start, data_end, flags, !again, now);
        transmit.retransmission = again;
        if data_end > start {
            transmit.ecn = self.ecn.field(&self.cfg, again);
        }
        transmit
    }

    /// The flags of a segment with payload or FIN, and where its payload ends. Counts its
    /// packets.
    #[inline(always)]
    fn flags_of(&mut self, start: Pos, end: Pos) -> (TcpFlags, Pos) {
        let mut flags = TcpFlags::ACK;
        let data_end = end.min(self.snd.edge());
        // RFC 9293 section 3.9.1.2: PSH is set on the last segment of what was written,
        // unless more is announced (MSG_MORE); and, as in Linux, on the last packet of
        // every batch, which ends the receiver's wait for more packets to merge (GRO).
        let written = data_end == self.snd.push() || self.ends_record(data_end);
        let batch = data_end - start > i64::from(self.snd.mss());
        if data_end > start && (written || batch) {
            flags |= TcpFlags::PSH;
        }
        if end > self.snd.edge() {
            flags |= TcpFlags::FIN;
        }
        if data_end > start {
            let len = (data_end - start) as u32;
            let packets = if len <= u32::from(self.snd.mss()) {
                1
            } else {
                len.div_ceil(u32::from(self.snd.mss()))
            };
            self.accounting.counters.data_segs_out =
                self.accounting.counters.data_segs_out.wrapping_add(packets);
        }
        (flags, data_end.max(start))
    }

    /// A segment without payload.
    fn emit(&mut self, start: Pos, data_end: Pos, flags: TcpFlags, now: Instant) -> Transmit {
        self.emit_with(start, data_end, flags, false, now)
    }

    /// Builds any segment with an acknowledgment.
    fn emit_with(
        &mut self,
        start: Pos,
        data_end: Pos,
        flags: TcpFlags,
        new_data: bool,
        now: Instant,
    ) -> Transmit {
        let mut options = self.segment_options(now);
        let mut flags = flags;
        if self.ecn.variant() != Variant::Off {
            flags |= self.ecn.segment_flags(new_data && data_end > start);
            if data_end == start {
                options.accurate_ecn = self.ecn.option();
            }
        }
        let (urg, urgent) = self.snd.urgent_field(self.flags, start);
        flags |= urg;
        let h = self.build_header(start, flags, now);
        let payload = if data_end > start {
            start as u64..data_end as u64
        } else {
            0..0
        };
        Transmit {
            seq: h.seq,
            ack: h.ack,
            flags,
            window: h.window,
            urgent,
            mss: self.snd.mss() - options::extra_len(&options),
            options,
            payload,
            retransmission: false,
            ecn: Ecn::NotCapable,
        }
    }

    /// Builds the header of a segment that starts at `start`, and clears the owed
    /// acknowledgment, which it carries.
    #[inline(always)]
    fn build_header(&mut self, start: Pos, flags: TcpFlags, now: Instant) -> Plain {
        let control = control(flags, self.flags.contains(Flags::TIMESTAMPS));
        self.build_header_with(start, control, now)
    }

    /// As [`build_header`](Self::build_header), with data offset and flags as in [`control`].
    #[inline(always)]
    fn build_header_with(&mut self, start: Pos, control: u16, now: Instant) -> Plain {
        let window = self.advertise_window();
        self.acks.sent(self.rcv.nxt());
        if self.flags.intersects(Flags::ACK_NOW | Flags::ACK_OWED) {
            if self.acks.take_duplicate() {
                self.flags.remove(Flags::ACK_NOW | Flags::ACK_OWED);
            }
            self.timers.ack = Instant::NEVER;
        }
        self.acks.count_quick_ack();
        self.accounting.counters.segs_out = self.accounting.counters.segs_out.wrapping_add(1);
        Plain {
            control,
            window,
            seq: self.snd.seq(start),
            ack: self.rcv.seq(self.rcv.nxt()),
            timestamps: self.stamps.timestamps_if_agreed(now),
        }
    }

    /// RFC 9293 section 3.10.1: `<SEQ=ISS><CTL=SYN>`, or in SYN-RECEIVED
    /// `<SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>`.
    fn emit_syn(&mut self, now: Instant) -> Transmit {
        self.flags
            .remove(Flags::SYN_DUE | Flags::ACK_NOW | Flags::ACK_OWED);
        let first = self.snd.nxt() == SYN_POS;
        let mut options = self.syn_options(now);
        let mut data = 0;
        if first {
            let written = self.within_record(0, self.snd.edge());
            data = self
                .fast_open
                .data_on_syn(&self.snd, written, &self.cfg, self.state);
            self.snd.advance(data);
            if data > 0 {
                self.flight.scoreboard.send(data, now, 0);
                self.accounting.counters.data_segs_out = 1;
            }
            self.flight.timed = 0;
            self.flight.timed_at = now;
            self.liveness
                .arm_user_timeout(&mut self.timers, &self.cfg, now);
        } else {
            self.accounting.counters.retrans = self.accounting.counters.retrans.wrapping_add(1);
        }
        if self.flight.timer.at.is_never() {
            self.flight.arm_retransmit(&self.snd, now);
        }
        self.accounting.counters.segs_out = self.accounting.counters.segs_out.wrapping_add(1);
        let syn_ack = self.state == State::SynReceived;
        // A SYN may also be retransmitted for other reasons than a timeout.
        let repeats = if first {
            0
        } else {
            self.liveness.retries().max(1)
        };
        let ecn = self.ecn.syn_flags(&self.cfg, syn_ack, repeats);
        if syn_ack {
            options.accurate_ecn = self.ecn.syn_option(first, options.fast_open.is_some());
        }
        // The window field of a SYN is never scaled (RFC 7323 section 2.2).
        let window = self.rcv.free_space(&self.cfg).min(0xffff);
        self.rcv.advertise_to(self.rcv.nxt() + i64::from(window));
        self.acks.sent(self.rcv.nxt());
        Transmit {
            seq: self.snd.seq(SYN_POS),
            ack: if syn_ack {
                self.rcv.seq(self.rcv.nxt())
            } else {
                SeqNumber(0)
            },
            flags: if syn_ack {
                TcpFlags::SYN | TcpFlags::ACK | ecn
            } else {
                TcpFlags::SYN | ecn
            },
            window: window as u16,
            urgent: 0,
            options,
            payload: 0..data as u64,
            mss: self.snd.mss().max(data as u16),
            retransmission: !first,
            ecn: Ecn::NotCapable,
        }
    }

    /// RFC 9293 section 3.10.5: `<SEQ=SND.NXT><CTL=RST>`, with an ACK as in Linux.
    fn emit_reset(&mut self, now: Instant) -> Transmit {
        self.flags.remove(Flags::RST_DUE);
        self.accounting.counters.segs_out = self.accounting.counters.segs_out.wrapping_add(1);
        let mut flags = TcpFlags::RST;
        let mut ack = SeqNumber(0);
        if self.flags.contains(Flags::RST_ACK) {
            flags |= TcpFlags::ACK;
            ack = self.rcv.seq(self.rcv.nxt());
        }
        Transmit {
            seq: self.snd.seq(self.snd.ack_pos()),
            ack,
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions {
                timestamps: self.timestamps(now),
                ..TcpOptions::default()
            },
            payload: 0..0,
            mss: self.snd.mss(),
            retransmission: false,
            ecn: Ecn::NotCapable,
        }
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
}

#[cfg(test)]
mod tests;
