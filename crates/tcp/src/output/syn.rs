//! The SYN and the SYN-ACK, with data where Fast Open allows it (RFC 7413).

use crate::flags::Flags;
use crate::pos::{Pos, SYN_POS};
use crate::segment::{Ecn, Transmit};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

impl Tcb {
    /// RFC 9293 section 3.10.1: `<SEQ=ISS><CTL=SYN>`, or in SYN-RECEIVED
    /// `<SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>`.
    pub(super) fn emit_syn(&mut self, now: Instant) -> Transmit {
        self.flags
            .remove(Flags::SYN_DUE | Flags::ACK_NOW | Flags::ACK_OWED);
        let first = self.snd.nxt() == SYN_POS;
        let mut options = self.syn_options(now);
        let data = if first {
            self.begin_flight(now)
        } else {
            self.accounting.counters.retrans = self.accounting.counters.retrans.wrapping_add(1);
            0
        };
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

    /// The SYN is sent for the first time, with so many bytes of data.
    fn begin_flight(&mut self, now: Instant) -> Pos {
        let written = self.flight.within_record(self.flags, 0, self.snd.edge());
        let data = self
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
        data
    }
}
