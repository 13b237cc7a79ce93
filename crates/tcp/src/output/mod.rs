//! Segments out.
//!
//! Owns [`Tcb::poll_transmit`] and how a chosen stretch becomes a [`Transmit`]. The
//! engine calls it after each burst until it gives nothing. `select.rs` decides what
//! goes, `options.rs` which options it carries.

mod options;
mod select;

pub(crate) use options::{TIMESTAMPS_LEN, plain_ack};

use crate::ecn::Variant;
use crate::scoreboard;
use crate::segment::{Ecn, Transmit};
use crate::state::State;
use crate::tcb::{Flags, Pos, SYN_POS, Tcb};
use crate::time::{Instant, MS};
use crate::timers::XmitTimer;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpOptions};

/// Data that goes out this soon after some came in makes a connection interactive.
const ANSWER_US: u64 = 40 * MS;

impl Tcb {
    /// The next segment to send, if any. `max_payload` is how much one may carry:
    /// the MSS, or more if it is cut up later (then a multiple of the MSS is used).
    /// Whatever is handed out counts as sent.
    #[inline]
    pub fn poll_transmit(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let idle = self.snd_nxt >= self.snd_end()
            && self.recovery.is_quiet()
            && !self.flags.intersects(Flags::OWED_NOW);
        if idle {
            return None;
        }
        self.poll_something(now, max_payload)
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
        if self.pacer.holds(now) {
            self.wait_for_pace();
        } else if self.state.may_transmit_data()
            && let Some(transmit) = self.poll_data(now, max_payload)
        {
            return Some(transmit);
        }
        if self.flags.contains(Flags::PROBE_DUE) {
            self.flags.remove(Flags::PROBE_DUE);
            // One below SND.UNA: outside the peer's window, so that it answers.
            let pos = self.snd_una - 1;
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
        }
        if self.flags.contains(Flags::ACK_NOW) {
            let pos = self.ack_pos();
            if let Some((ack, flags)) = self.ecn_change() {
                let mut before = plain_ack(
                    self.snd_seq(pos),
                    self.rcv_seq(ack),
                    self.offer_window(),
                    self.timestamps(now).map(|t| (t.val, t.echo)),
                );
                before.flags |= flags;
                self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
                return Some(before);
            }
            return Some(self.emit(pos, pos, TcpFlags::ACK, now));
        }
        None
    }

    /// Data, again or new, or the FIN.
    fn poll_data(&mut self, now: Instant, max_payload: usize) -> Option<Transmit> {
        let max_payload = self.ecn_payload(self.paced_payload(max_payload));
        if let Some((start, end)) = self.select_repetition(max_payload) {
            return Some(self.emit_repetition(start, end, now));
        }
        if let Some((start, end)) = self.select_new(now, max_payload) {
            return Some(self.emit_new(start, end, now));
        }
        if self.recovery.probe.due {
            let (start, end) = self.last_segment(self.packet_payload().min(max_payload as i64));
            self.recovery.probe.on_sent(start, end, true);
            return Some(self.emit_repetition(start, end, now));
        }
        None
    }

    /// The sequence number of a segment without payload: SND.NXT, but not beyond the
    /// peer's window if that has shrunk, or the peer would not look at it.
    fn ack_pos(&self) -> Pos {
        self.snd_nxt.min(self.snd_wnd_edge().max(self.snd_una))
    }

    /// New data, or the FIN, goes out.
    fn emit_new(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let len = end - start;
        let idle = self.snd_una == self.snd_nxt;
        if idle {
            self.arm_user_timeout(now);
        }
        let starts = self.timers.xmit.is_never() || self.in_flight() == 0;
        self.retries = if self.in_flight() == 0 {
            0
        } else {
            self.retries
        };
        self.snd_nxt = end;
        let grain = scoreboard::grain(self.rtt.srtt().unwrap_or(0));
        self.scoreboard.send(end, now, grain);
        if self.recovery.probe.due {
            self.recovery.probe.on_sent(start, end, false);
        }
        if starts {
            self.arm_loss_timer(now);
        } else if self.timers.xmit_kind == XmitTimer::Probe {
            self.arm_probe(now);
        }
        if !self.flags.contains(Flags::TIMING) && self.recovery.is_open() {
            self.flags |= Flags::TIMING;
            self.rtt_pos = end;
            self.rtt_at = now;
        }
        if len % i64::from(self.snd_mss) != 0 {
            self.snd_sml = end;
        }
        self.count_sent(len as u32);
        self.note_new_data(end, idle, now);
        self.note_data_sent(now);
        self.flags.remove(Flags::FORCE_SMALL);
        self.timers.hold = Instant::NEVER;
        self.emit_data(start, end, false, now)
    }

    /// A stretch that was sent before goes out again.
    fn emit_repetition(&mut self, start: Pos, end: Pos, now: Instant) -> Transmit {
        let packets = (end - start) as u64;
        let packets = packets.div_ceil(u64::from(self.snd_mss)) as u32;
        self.counters.retrans = self.counters.retrans.wrapping_add(packets);
        self.counters.bytes_retrans += (end.min(self.snd_edge) - start).max(0) as u64;
        if start == self.snd_una || self.timers.xmit.is_never() {
            self.arm_retransmit(now);
        }
        // RFC 6298 section 3, Karn: nothing that was repeated is timed.
        self.flags.remove(Flags::TIMING);
        self.on_repeated(start, end, now);
        if self.rate.is_on() {
            self.rate.on_repeated(start, end);
        }
        self.note_data_sent(now);
        self.emit_data(start, end, true, now)
    }

    fn note_data_sent(&mut self, now: Instant) {
        self.last_sent_data = now;
        if now.since(self.last_rcv_data) < ANSWER_US {
            self.flags |= Flags::INTERACTIVE;
        }
    }

    /// A segment with payload or FIN, `again` or for the first time.
    fn emit_data(&mut self, start: Pos, end: Pos, again: bool, now: Instant) -> Transmit {
        let mut flags = TcpFlags::ACK;
        let data_end = end.min(self.snd_edge);
        // RFC 9293 section 3.9.1.2: PSH on the last segment of what was written.
        if data_end > start && (data_end == self.snd_edge || data_end == self.snd_push) {
            flags |= TcpFlags::PSH;
        }
        if end > self.snd_edge {
            flags |= TcpFlags::FIN;
        }
        if data_end > start {
            self.pace((data_end - start) as u64, now);
            let packets = ((data_end - start) as u64).div_ceil(u64::from(self.snd_mss)) as u32;
            self.counters.data_segs_out = self.counters.data_segs_out.wrapping_add(packets);
        }
        let mut transmit = self.emit_with(start, data_end.max(start), flags, !again, now);
        transmit.retransmission = again;
        if data_end > start {
            transmit.ecn = self.ecn_field(again);
        }
        transmit
    }

    /// A segment without payload.
    fn emit(&mut self, start: Pos, data_end: Pos, flags: TcpFlags, now: Instant) -> Transmit {
        self.emit_with(start, data_end, flags, false, now)
    }

    /// Any segment with an acknowledgment: settles what is owed of one.
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
            flags |= self.ecn_flags(new_data && data_end > start);
            if data_end == start {
                options.accurate_ecn = self.ecn_option();
            }
        }
        let window = self.offer_window();
        self.last_ack_sent = self.rcv_nxt;
        self.acks_owed = self.acks_owed.saturating_sub(1);
        if self.acks_owed == 0 {
            self.flags.remove(Flags::ACK_NOW | Flags::ACK_OWED);
        }
        self.timers.ack = Instant::NEVER;
        self.quick_acks = self.quick_acks.saturating_sub(1);
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        let payload = if data_end > start {
            start as u64..data_end as u64
        } else {
            0..0
        };
        Transmit {
            seq: self.snd_seq(start),
            ack: self.rcv_seq(self.rcv_nxt),
            flags,
            window,
            urgent: 0,
            mss: self.snd_mss - options::sack_len(&options),
            options,
            payload,
            retransmission: false,
            ecn: Ecn::NotCapable,
        }
    }

    /// RFC 9293 section 3.10.1: `<SEQ=ISS><CTL=SYN>`, or in SYN-RECEIVED
    /// `<SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>`.
    fn emit_syn(&mut self, now: Instant) -> Transmit {
        self.flags
            .remove(Flags::SYN_DUE | Flags::ACK_NOW | Flags::ACK_OWED);
        let first = self.snd_nxt == SYN_POS;
        if first {
            self.snd_nxt = 0;
            self.flags |= Flags::TIMING;
            self.rtt_pos = 0;
            self.rtt_at = now;
            self.arm_user_timeout(now);
        } else {
            self.counters.retrans = self.counters.retrans.wrapping_add(1);
        }
        if self.timers.xmit.is_never() {
            self.arm_retransmit(now);
        }
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        let syn_ack = self.state == State::SynReceived;
        let ecn = self.ecn_syn_flags(syn_ack, first);
        // The window field of a SYN is never scaled (RFC 7323 section 2.2).
        let window = self.free_space().min(0xffff);
        self.rcv_adv = self.rcv_adv.max(self.rcv_nxt + i64::from(window));
        self.last_ack_sent = self.rcv_nxt;
        Transmit {
            seq: self.snd_seq(SYN_POS),
            ack: if syn_ack {
                self.rcv_seq(self.rcv_nxt)
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
            options: self.syn_options(now),
            payload: 0..0,
            mss: self.snd_mss,
            retransmission: !first,
            ecn: Ecn::NotCapable,
        }
    }

    /// RFC 9293 section 3.10.5: `<SEQ=SND.NXT><CTL=RST>`, with an ACK as Linux sends
    /// it.
    fn emit_reset(&mut self, now: Instant) -> Transmit {
        self.flags.remove(Flags::RST_DUE);
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        let mut flags = TcpFlags::RST;
        let mut ack = SeqNumber(0);
        if self.flags.contains(Flags::RST_ACK) {
            flags |= TcpFlags::ACK;
            ack = self.rcv_seq(self.rcv_nxt);
        }
        Transmit {
            seq: self.snd_seq(self.ack_pos()),
            ack,
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions {
                timestamps: self.timestamps(now),
                ..TcpOptions::default()
            },
            payload: 0..0,
            mss: self.snd_mss,
            retransmission: false,
            ecn: Ecn::NotCapable,
        }
    }
}

#[cfg(test)]
mod tests;
