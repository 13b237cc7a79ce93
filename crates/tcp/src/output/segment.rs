//! The header fields of a segment after the handshake, and of a reset.
//!
//! Called by the rest of `output` with a range that was selected; returns the [`Transmit`].

use super::options;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::segment::{Ecn, Transmit};
use crate::snd::SendSide;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{Plain, TcpFlags, TcpOptions, control};

impl Flight {
    /// Whether the range that begins at `pos` is the next to be retransmitted.
    fn is_lost_from(&self, snd: &SendSide, pos: Pos) -> bool {
        let lost = self.scoreboard.first_lost(snd.una());
        lost.is_some_and(|l| l.start == pos)
    }
}

impl Tcb {
    /// A segment with payload or FIN; `again`: it is a retransmission.
    pub(super) fn emit_data(
        &mut self,
        start: Pos,
        end: Pos,
        again: bool,
        now: Instant,
    ) -> Transmit {
        let (mut flags, data_end) = self.flags_of(start, end);
        if again && data_end > start {
            if self.fast_open.ends_syn_data(self.flags, data_end) {
                flags |= TcpFlags::PSH;
            } else if data_end != self.snd.push()
                && !self.flight.ends_record(self.flags, data_end)
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
    pub(super) fn flags_of(&mut self, start: Pos, end: Pos) -> (TcpFlags, Pos) {
        let mut flags = TcpFlags::ACK;
        let data_end = end.min(self.snd.edge());
        // RFC 9293 section 3.9.1.2: PSH is set on the last segment of what was written,
        // unless more is announced (MSG_MORE); and, as in Linux, on the last packet of
        // every batch, which ends the receiver's wait for more packets to merge (GRO).
        let written = data_end == self.snd.push() || self.flight.ends_record(self.flags, data_end);
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
    pub(super) fn emit(
        &mut self,
        start: Pos,
        data_end: Pos,
        flags: TcpFlags,
        now: Instant,
    ) -> Transmit {
        self.emit_with(start, data_end, flags, false, now)
    }

    /// Builds any segment with an acknowledgment.
    pub(super) fn emit_with(
        &mut self,
        start: Pos,
        data_end: Pos,
        flags: TcpFlags,
        new_data: bool,
        now: Instant,
    ) -> Transmit {
        let mut options = self.segment_options(now);
        let mut flags = flags;
        if self.ecn.is_on() {
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

    /// RFC 9293 section 3.10.5: `<SEQ=SND.NXT><CTL=RST>`, with an ACK as in Linux.
    pub(super) fn emit_reset(&mut self, now: Instant) -> Transmit {
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

    /// Builds the header of a segment that starts at `start`, and clears the owed
    /// acknowledgment, which it carries.
    #[inline(always)]
    pub(super) fn build_header(&mut self, start: Pos, flags: TcpFlags, now: Instant) -> Plain {
        let control = control(flags, self.flags.contains(Flags::TIMESTAMPS));
        self.build_header_with(start, control, now)
    }

    /// As [`build_header`](Self::build_header), with data offset and flags as in [`control`].
    #[inline(always)]
    pub(super) fn build_header_with(&mut self, start: Pos, control: u16, now: Instant) -> Plain {
        let window = self.rcv.advertise_window(&self.cfg, self.flags);
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
}
