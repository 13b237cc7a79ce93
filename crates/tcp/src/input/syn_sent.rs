//! Segments in SYN-SENT (RFC 9293 section 3.10.7.3), and the end of the handshake in
//! SYN-RECEIVED.
//!
//! `input/mod.rs` calls these.

use super::{Arrival, Step};
use crate::drop::DropReason;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::pos::SYN_POS;
use crate::segment::{Disposition, Segment};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

impl Tcb {
    /// RFC 9293 section 3.10.7.3.
    pub(super) fn in_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let h = segment.header;
        let has_ack = h.flags.contains(TcpFlags::ACK);
        // First: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST
        // bit is set)".
        let acceptable = has_ack && (0..=self.snd.nxt()).contains(&self.snd.pos(h.ack));
        if has_ack && !acceptable {
            let rst = h.flags.contains(TcpFlags::RST);
            return Disposition {
                reset: !rst,
                ..Disposition::dropped(if rst {
                    DropReason::RstUnacceptable
                } else {
                    DropReason::AckUnsent
                })
            };
        }
        // Second: a RST counts only with an acceptable ACK (RFC 5961 section 3.2).
        if h.flags.contains(TcpFlags::RST) {
            if !acceptable {
                return Disposition::dropped(DropReason::RstUnacceptable);
            }
            self.die(Some(Error::Refused), Events::RESET);
            return Disposition::default();
        }
        // Fourth: the SYN.
        if !h.flags.contains(TcpFlags::SYN) {
            return Disposition::dropped(DropReason::NoFlags);
        }
        if acceptable {
            return self.on_syn_ack(segment, now);
        }
        // A simultaneous open: "enter SYN-RECEIVED, form a SYN,ACK segment". Payload and
        // FIN are left for the peer to retransmit.
        self.handle_syn(h, now);
        self.state = State::SynReceived;
        self.flags |= Flags::SYN_DUE;
        let early = segment.payload_len > 0;
        Disposition {
            drop: early.then_some(DropReason::EarlyData),
            ack_now: true,
            ..Disposition::default()
        }
    }

    /// The SYN-ACK that completes an active open. "If there are other controls or text in
    /// the segment, then continue processing at the sixth step": payload and FIN are
    /// processed.
    fn on_syn_ack(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let h = segment.header;
        if self
            .flight
            .answers_another_syn(&self.cfg, &self.stamps, h, now)
        {
            return Disposition {
                reset: true,
                ..Disposition::dropped(DropReason::Paws)
            };
        }
        self.handle_syn(h, now);
        self.ecn.on_syn_ack(segment);
        self.handle_syn_ack(h, now);
        if h.flags.contains(TcpFlags::URG) {
            self.rcv
                .handle_urgent_pointer(&self.cfg, &mut self.outcome, h, SYN_POS);
        }
        let arrival = Arrival {
            // After the SYN.
            start: 0,
            ..Arrival::new(self, segment, now)
        };
        match self.on_payload(&arrival) {
            Ok(disposition) => {
                self.on_fin(&arrival);
                disposition
            }
            Err(disposition) => disposition,
        }
    }

    /// Processes the acknowledgment of the SYN-ACK, which ends the handshake.
    fn handle_syn_ack(&mut self, h: &TcpHeader, now: Instant) {
        let ack = self.snd.pos(h.ack);
        self.fast_open.handle_answer(ack, h.options.fast_open);
        self.flight.sample_timed(&mut self.snd, now);
        self.flight.disarm_xmit(&mut self.timers);
        self.flight
            .handle_first_ack(&mut self.snd, &self.stamps, ack, now);
        if ack > 0 {
            self.outcome.report(Events::SND_ACKED);
        }
        self.establish(now);
        self.flags |= Flags::ACK_NOW;
        if self.snd.nxt() < self.snd.edge() {
            // More was written than was sent with the SYN (RFC 7413): the acknowledgment
            // is piggybacked on it, and the connection is interactive from the start.
            self.flags |= Flags::INTERACTIVE;
        }
        if self.snd.in_flight() > 0 {
            // RFC 7413 section 4.2.1: the server did not accept the data on the SYN.
            self.flight.retransmit_refused_data(&self.snd);
            self.flight.arm_loss_timer(&self.snd, now);
        }
    }

    /// RFC 9293 section 3.10.7.4, fifth, SYN-RECEIVED: the ACK of our SYN.
    pub(super) fn on_handshake_ack(&mut self, a: &Arrival<'_>) -> Step {
        let h = a.segment.header;
        let simultaneous = a.has(TcpFlags::SYN);
        self.flight.sample_timed(&mut self.snd, a.now);
        self.flight.disarm_xmit(&mut self.timers);
        self.flight
            .handle_first_ack(&mut self.snd, &self.stamps, 0, a.now);
        // "Set SND.WND <- SEG.WND, SND.WL1 <- SEG.SEQ, SND.WL2 <- SEG.ACK"; a SYN's
        // window is not scaled.
        let scale = if simultaneous { 0 } else { self.snd.wscale() };
        let window = u32::from(h.window) << scale;
        self.snd.take_window(a.start, self.snd.una(), window);
        self.ecn.on_handshake_ack(a.segment);
        self.establish(a.now);
        if self.snd.in_flight() > 0 {
            self.flight.arm_loss_timer(&self.snd, a.now);
        }
        if simultaneous {
            // The peer may still wait for the ACK of its SYN, and that SYN has arrived
            // twice (RFC 2883).
            self.reassembly
                .note_dsack(&self.snd, &self.rcv, &mut self.flags, SYN_POS, 0);
            self.flags |= Flags::ACK_NOW;
            return Err(Disposition::default());
        }
        Ok(())
    }
}
