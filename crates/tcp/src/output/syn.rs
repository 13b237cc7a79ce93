//! The SYN and the SYN-ACK, with data where Fast Open allows it (RFC 7413).

use super::data::Departure;
use super::segment::SegmentBuilder;
use crate::flags::Flags;
use crate::pos::{Pos, SYN_POS};
use crate::segment::{Ecn, Transmit};
use crate::state::State;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

impl Departure<'_> {
    /// The SYN is sent for the first time, with so many bytes of data.
    pub(super) fn syn(&mut self, data: Pos, now: Instant) {
        self.snd.advance(data);
        if data > 0 {
            self.flight.scoreboard.send(data, now, 0);
            self.accounting.counters.data_segs_out = 1;
        }
        self.flight.round_trip.start(0, now);
        self.liveness.arm_user_timeout(self.timers, self.cfg, now);
    }
}

impl SegmentBuilder<'_> {
    /// RFC 9293 section 3.10.1: `<SEQ=ISS><CTL=SYN>`, or in SYN-RECEIVED
    /// `<SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>`, with so many bytes of data; `repeats`: how
    /// often it was sent before.
    pub(super) fn syn(&mut self, data: Pos, repeats: u8, now: Instant) -> Transmit {
        self.flags
            .remove(Flags::SYN_DUE | Flags::ACK_NOW | Flags::ACK_OWED);
        let mut options = self.syn_options(now);
        self.counters.segs_out = self.counters.segs_out.wrapping_add(1);
        let syn_ack = self.state == State::SynReceived;
        let ecn = self.ecn.syn_flags(self.cfg, syn_ack, repeats);
        if syn_ack {
            options.accurate_ecn = self
                .ecn
                .syn_option(repeats == 0, options.fast_open.is_some());
        }
        // The window field of a SYN is never scaled (RFC 7323 section 2.2).
        let window = self.rcv.free_space(self.cfg).min(0xffff);
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
            retransmission: repeats > 0,
            ecn: Ecn::NotCapable,
        }
    }

    /// The options of our SYN or SYN-ACK (a SYN-ACK has only those that the SYN offered:
    /// RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2).
    fn syn_options(&self, now: Instant) -> TcpOptions {
        let answer = self.state == State::SynReceived;
        let (cfg, flags) = (self.cfg, *self.flags);
        let agreed = |was: bool, wanted: bool| if answer { was } else { wanted };
        let has_timestamps = agreed(flags.contains(Flags::TIMESTAMPS), cfg.timestamps);
        TcpOptions {
            mss: Some(self.rcv.mss()),
            window_scale: agreed(flags.contains(Flags::SCALING), cfg.window_scaling)
                .then_some(self.rcv.wscale()),
            sack_permitted: agreed(self.snd.sack(), cfg.sack),
            timestamps: has_timestamps.then(|| Timestamps {
                val: self.stamps.clock(now),
                echo: if answer { self.stamps.recent() } else { 0 },
            }),
            fast_open: self.fast_open.option(self.state),
            user_timeout: cfg.advertised_user_timeout(flags),
            ..TcpOptions::default()
        }
    }
}
