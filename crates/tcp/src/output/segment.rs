//! The header fields of a segment after the handshake, and of a reset.
//!
//! Owns [`SegmentBuilder`], which the rest of `output` gives a range that was selected.

use super::options;
use crate::accounting::Counters;
use crate::acks::OwedAcks;
use crate::config::Config;
use crate::ecn::EcnState;
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::{Ecn, PlainTransmit, Transmit};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::time::Instant;
use crate::timers::Timers;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{Plain, TcpFlags, TcpOptions, control};

/// Builds segments: what the parts have to say in a header, and that it has been said.
pub(super) struct SegmentBuilder<'t> {
    pub(super) cfg: &'t Config,
    pub(super) state: State,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t SendSide,
    pub(super) rcv: &'t mut ReceiveSide,
    pub(super) stamps: &'t TimestampState,
    pub(super) acks: &'t mut OwedAcks,
    pub(super) ecn: &'t mut EcnState,
    pub(super) timers: &'t mut Timers,
    pub(super) counters: &'t mut Counters,
    pub(super) reassembly: &'t Reassembly,
    pub(super) flight: &'t Flight,
    pub(super) fast_open: &'t FastOpen,
}

impl SegmentBuilder<'_> {
    /// A segment with payload or FIN; `again`: it is a retransmission.
    pub(super) fn data(&mut self, start: Pos, end: Pos, again: bool, now: Instant) -> Transmit {
        let (mut flags, data_end) = self.flags_of(start, end);
        if again && data_end > start {
            if self.fast_open.ends_syn_data(*self.flags, data_end) {
                flags |= TcpFlags::PSH;
            } else if data_end != self.snd.push()
                && !self.flight.record_ends.ends(*self.flags, data_end)
                && self.flight.scoreboard.is_lost_from(self.snd.una(), end)
            {
                // PSH within a hole has no use: the receiver waits for the rest.
                flags = flags & !TcpFlags::PSH;
            }
        }
        let mut transmit = self.with(start, data_end, flags, !again, now);
        transmit.retransmission = again;
        if data_end > start {
            transmit.ecn = self.ecn.field(self.cfg, again);
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
        let written =
            data_end == self.snd.push() || self.flight.record_ends.ends(*self.flags, data_end);
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
            self.counters.data_segs_out = self.counters.data_segs_out.wrapping_add(packets);
        }
        (flags, data_end.max(start))
    }

    /// The flags that [`flags_of`](Self::flags_of) adds to ACK for full packets without
    /// FIN.
    #[inline(always)]
    pub(super) fn flags_of_full_packets(&mut self, end: Pos, len: u32) -> TcpFlags {
        let mss = u32::from(self.snd.mss());
        let (packets, batch) = if len == mss {
            (1, false)
        } else {
            (len.div_ceil(mss.max(1)), true)
        };
        self.counters.data_segs_out = self.counters.data_segs_out.wrapping_add(packets);
        if batch || end == self.snd.push() {
            TcpFlags::PSH
        } else {
            TcpFlags(0)
        }
    }

    /// A segment without payload.
    pub(super) fn bare(&mut self, pos: Pos, flags: TcpFlags, now: Instant) -> Transmit {
        self.with(pos, pos, flags, false, now)
    }

    /// Builds any segment with an acknowledgment.
    fn with(
        &mut self,
        start: Pos,
        data_end: Pos,
        flags: TcpFlags,
        new_data: bool,
        now: Instant,
    ) -> Transmit {
        let mut options = self.options(now);
        let mut flags = flags;
        if self.ecn.is_on() {
            flags |= self.ecn.segment_flags(new_data && data_end > start);
            if data_end == start {
                options.accurate_ecn = self.ecn.option();
            }
        }
        let (urg, urgent) = self.snd.urgent_field(*self.flags, start);
        flags |= urg;
        let h = self.header(start, flags, now);
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

    /// The options of all segments but SYN and RST.
    fn options(&mut self, now: Instant) -> TcpOptions {
        let mut options = TcpOptions {
            timestamps: self.stamps.timestamps(*self.flags, now),
            ..TcpOptions::default()
        };
        if self.flags.contains(Flags::USER_TIMEOUT_DUE)
            && self.reassembly.has_room_for_timeout(self.snd, *self.flags)
        {
            options.user_timeout = self.cfg.advertised_user_timeout(*self.flags);
            self.flags.remove(Flags::USER_TIMEOUT_DUE);
        }
        if self.reassembly.owes_sack(self.snd, *self.flags) {
            options.sack = self.reassembly.sack_blocks(self.rcv, *self.flags);
            self.flags.remove(Flags::DSACK);
        }
        options
    }

    /// The acknowledgment of what came before the congestion marks changed, if it must be
    /// sent first (RFC 8257 section 3.2).
    pub(super) fn before_change(&mut self, now: Instant) -> Option<Transmit> {
        let (ack, flags) = self.ecn.take_change()?;
        let mut before = options::plain_ack(
            self.snd.seq(self.snd.ack_pos()),
            self.rcv.seq(ack),
            self.rcv.advertise_window(self.cfg, *self.flags),
            self.stamps
                .timestamps(*self.flags, now)
                .map(|t| (t.val, t.echo)),
        );
        before.flags |= flags;
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        Some(before)
    }

    /// RFC 9293 section 3.10.5: `<SEQ=SND.NXT><CTL=RST>`, with an ACK as in Linux.
    pub(super) fn reset(&mut self, now: Instant) -> Transmit {
        self.flags.remove(Flags::RST_DUE);
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
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
                timestamps: self.stamps.timestamps(*self.flags, now),
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
    fn header(&mut self, start: Pos, flags: TcpFlags, now: Instant) -> Plain {
        let control = control(flags, self.flags.contains(Flags::TIMESTAMPS));
        self.header_with(start, control, now)
    }

    /// As [`header`](Self::header), with data offset and flags as in [`control`].
    #[inline(always)]
    pub(super) fn header_with(&mut self, start: Pos, control: u16, now: Instant) -> Plain {
        let window = self.rcv.advertise_window(self.cfg, *self.flags);
        self.header_of(start, control, window, now)
    }

    /// As [`header_with`](Self::header_with), with the window that is advertised.
    #[inline(always)]
    fn header_of(&mut self, start: Pos, control: u16, window: u16, now: Instant) -> Plain {
        self.acks.sent(self.rcv.nxt());
        if self.flags.intersects(Flags::ACK_NOW | Flags::ACK_OWED) {
            if self.acks.take_duplicate() {
                self.flags.remove(Flags::ACK_NOW | Flags::ACK_OWED);
            }
            self.timers.ack = Instant::NEVER;
        }
        self.acks.count_quick_ack();
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        Plain {
            control,
            window,
            seq: self.snd.seq(start),
            ack: self.rcv.seq(self.rcv.nxt()),
            timestamps: self.stamps.timestamps_if_agreed(now),
        }
    }

    /// A segment with a plain header.
    #[inline(always)]
    pub(super) fn plain(
        &mut self,
        start: Pos,
        data_end: Pos,
        flags: TcpFlags,
        now: Instant,
    ) -> PlainTransmit {
        let window = self.rcv.advertise_window_inlined(self.cfg, *self.flags);
        let control = control(flags, self.flags.contains(Flags::TIMESTAMPS));
        let header = self.header_of(start, control, window, now);
        PlainTransmit {
            header,
            payload_start: start.max(0) as u64,
            payload_len: (data_end - start).max(0) as u32,
            mss: self.snd.mss(),
        }
    }
}
