//! Segment input (RFC 9293 section 3.10.7).
//!
//! Owns [`Tcb::on_segment`] and the order of its steps; each step is a file.
//! `fast_path.rs` tries header prediction first. All other segments are processed in the
//! RFC's order: `checks.rs` (sequence number, PAWS, RST and SYN), `ack.rs`,
//! `data.rs`, and the FIN by `closing.rs`; `handshake.rs` has what comes before ESTABLISHED.
//! [`Tcb::on_icmp`] takes errors about what was sent.

mod ack;
mod checks;
mod data;
mod fast_path;
mod handshake;

pub use fast_path::Predicted;

use crate::drop::DropReason;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::icmp::IcmpError;
use crate::pos::Pos;
use crate::reset::sequence_len;
use crate::segment::{Disposition, Segment};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::time_wait::{TimeWait, TimeWaitVerdict};
use ack::Acknowledgment;
use checks::{Checks, Refused};
use data::Placement;
pub(crate) use handshake::Handshake;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

/// A segment in terms of stream positions.
#[derive(Debug, Clone, Copy)]
struct Arrival<'a> {
    segment: &'a Segment<'a>,
    flags: TcpFlags,
    /// Position of its first byte (of the SYN, if it has one).
    start: Pos,
    /// The end of its payload, which is the FIN's position, if it has one.
    data_end: Pos,
    /// The end of the segment, FIN included.
    end: Pos,
    now: Instant,
}

impl<'a> Arrival<'a> {
    fn new(tcb: &Tcb, segment: &'a Segment<'a>, now: Instant) -> Arrival<'a> {
        let flags = segment.header.flags;
        let start = tcb.rcv.pos(segment.header.seq);
        let end = start + i64::from(sequence_len(segment));
        let fin = i64::from(flags.contains(TcpFlags::FIN));
        Arrival {
            segment,
            flags,
            start,
            data_end: end - fin,
            end,
            now,
        }
    }

    /// The position of its first byte of payload.
    fn first_byte(&self) -> Pos {
        self.start + i64::from(self.has(TcpFlags::SYN))
    }

    fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }
}

impl Flags {
    /// The error with which the connection ends if new payload arrives that nobody will
    /// read: RFC 9293 section 3.6.1 and Linux: new payload for a connection that no program
    /// holds, or that is shut down in both directions, is answered by a reset, so that
    /// the peer learns that the data is lost. The reset's sequence number is what the
    /// peer has acknowledged, so the peer accepts it even if it has not received all that
    /// we sent. If only the receiving direction is shut down, arriving data may still be
    /// read.
    fn discarding(self, state: State) -> Option<Error> {
        let is_closing = matches!(state, State::FinWait1 | State::FinWait2);
        if self.contains(Flags::ORPHAN) {
            Some(Error::Aborted)
        } else if self.contains(Flags::RCV_SHUT) && is_closing {
            Some(Error::Reset)
        } else {
            None
        }
    }
}

/// The result of a step of input: continue with the next one, or the segment is done.
type Step = Result<(), Disposition>;

/// RFC 9293 section 3.10.7.1: a closed connection answers everything but a RST by a
/// RST.
fn in_closed(segment: &Segment<'_>) -> Disposition {
    Disposition {
        reset: !segment.header.flags.contains(TcpFlags::RST),
        ..Disposition::dropped(DropReason::Closed)
    }
}

impl Tcb {
    /// Processes a segment of this connection. The caller must copy the payload where the
    /// result says before it calls any other method.
    #[inline]
    pub fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        match Predicted::take_parsed(self, segment, now) {
            Some(disposition) => disposition,
            None => self.slow_path(segment, now),
        }
    }

    /// Checks whether a segment matches the prediction. `header` is its beginning (more
    /// bytes may follow); `payload_len` is the length of the payload behind the header,
    /// whose length is its data offset. The packet must not be marked by congestion
    /// ([`Ecn::Congested`](crate::Ecn::Congested)).
    ///
    /// Returns `None` for any other segment, which [`on_segment`](Tcb::on_segment) takes.
    #[inline(always)]
    pub fn predicts<'t, 'h>(
        &'t mut self,
        header: &'h [u8],
        payload_len: u32,
    ) -> Option<Predicted<'t, 'h>> {
        Predicted::of_header(self, header, payload_len)
    }

    /// As [`predicts`](Self::predicts), for a complete `segment`, returned with its
    /// payload; `TIMESTAMPS` says whether timestamps are in use, which determines the
    /// header's length.
    #[inline(always)]
    pub fn predicts_segment<'t, 'h, const TIMESTAMPS: bool>(
        &'t mut self,
        segment: &'h [u8],
    ) -> Option<(Predicted<'t, 'h>, &'h [u8])> {
        Predicted::of_segment::<TIMESTAMPS>(self, segment)
    }

    /// Handles an ICMP error that quotes a segment of this connection with sequence
    /// number `seq`. "Packet too big" is not among these: the engine keeps the path MTU
    /// and calls [`SegmentSize::set_path_mss`](crate::SegmentSize::set_path_mss).
    ///
    /// RFC 5927 section 4.1: an error is accepted only if it quotes a segment in flight.
    /// RFC 5461 section 4 and Linux: a connection that is not established yet is aborted;
    /// an established one only records a soft error (RFC 9293 section 3.9.2.2 treats all
    /// unreachables as soft).
    pub fn on_icmp(&mut self, kind: IcmpError, seq: SeqNumber) {
        if !self.send_status().is_in_flight(seq) {
            return;
        }
        if self.state.is_opening() && !self.is_fast_opened() {
            return self.closing().die(Some(kind.error()), Events::empty());
        }
        self.outcome.set_soft_error(kind.error());
    }

    /// As [`on_segment`](Self::on_segment), without header prediction.
    pub(crate) fn slow_path(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        self.accounting.counters.slow_segs_in =
            self.accounting.counters.slow_segs_in.wrapping_add(1);
        let mut disposition = match self.state {
            State::Closed => in_closed(segment),
            State::SynSent => self.in_syn_sent(segment, now),
            State::TimeWait => self.in_time_wait(segment, now),
            _ => {
                let arrival = Arrival::new(self, segment, now);
                match self.in_order_of_rfc(&arrival) {
                    Ok(d) | Err(d) => d,
                }
            }
        };
        disposition.ack_now |= self.flags.contains(Flags::ACK_NOW);
        self.predict_next();
        self.debug_check();
        disposition
    }

    /// RFC 9293 section 3.10.7.4, "Otherwise".
    fn in_order_of_rfc(&mut self, a: &Arrival<'_>) -> Result<Disposition, Disposition> {
        let mut checks = Checks {
            state: self.state,
            flags: &mut self.flags,
            snd: &self.snd,
            rcv: &self.rcv,
            acks: &self.acks,
            stamps: &mut self.stamps,
            reassembly: &mut self.reassembly,
            liveness: &mut self.liveness,
        };
        if let Err(refused) = checks.check(a) {
            return Err(self.refuse(refused));
        }
        if self.state == State::SynReceived {
            self.handshake().on_ack(a)?;
        }
        let mut acknowledgment = Acknowledgment {
            cfg: &self.cfg,
            flags: &mut self.flags,
            snd: &mut self.snd,
            flight: &mut self.flight,
            congestion: &mut self.congestion,
            ecn: &mut self.ecn,
            stamps: &self.stamps,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            outcome: &mut self.outcome,
            accounting: &mut self.accounting,
        };
        acknowledgment.take(a);
        if self.snd.fin_acked() && self.closing().on_fin_acked(a.now) {
            return Err(Disposition::default());
        }
        if self.ecn.is_on() {
            self.ecn
                .on_arrival(&self.rcv, &self.cfg, &mut self.flags, a.segment);
        }
        self.liveness.handle_user_timeout_option(
            &self.flight,
            &mut self.timers,
            &mut self.cfg,
            &mut self.flags,
            a.segment.header.options.user_timeout,
        );
        if a.has(TcpFlags::URG) && self.state.may_receive_data() {
            self.rcv
                .handle_urgent_pointer(&self.cfg, &mut self.outcome, a.segment.header, a.start);
        }
        let disposition = self.on_payload(a)?;
        self.on_fin(a);
        Ok(disposition)
    }

    /// The FIN of an acceptable segment, or one that came before what it follows.
    fn on_fin(&mut self, a: &Arrival<'_>) {
        let fin = a.has(TcpFlags::FIN).then_some(a.data_end);
        if fin.is_some() || self.rcv.nxt() == self.rcv.fin() {
            self.closing().on_fin(fin, a.now);
        }
    }

    /// A segment that is not processed any further: it is dropped, or ends the connection.
    fn refuse(&mut self, refused: Refused) -> Disposition {
        match refused {
            Refused::Dropped(disposition) => disposition,
            Refused::Reset(error) => {
                self.closing().die(error, Events::RESET);
                Disposition::default()
            }
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn in_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let mut handshake = self.handshake();
        match handshake.check_answer(segment.header) {
            Ok(true) => {}
            Ok(false) => return handshake.on_simultaneous_syn(segment, now),
            Err(refused) => return self.refuse(refused),
        }
        if let Err(disposition) = handshake.on_syn_ack(segment, now) {
            return disposition;
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

    /// Processes the payload of an acceptable segment: discards it, or has it placed.
    fn on_payload(&mut self, a: &Arrival<'_>) -> Result<Disposition, Disposition> {
        if a.data_end <= a.start {
            return Ok(Disposition::default());
        }
        if !self.state.may_receive_data() {
            // The peer has closed: "This should not occur". The payload is ignored and,
            // as in Linux, not answered.
            return Err(Disposition::dropped(DropReason::AfterFin));
        }
        let is_new = a.data_end > self.rcv.nxt();
        if is_new && let Some(error) = self.flags.discarding(self.state) {
            self.closing().die(Some(error), Events::empty());
            return Err(Disposition {
                reset: true,
                ..Disposition::dropped(DropReason::AfterClose)
            });
        }
        if is_new && self.is_denied_room() {
            // Without memory the window counts as closed (RFC 9293 section 3.10.7.4,
            // first): the acknowledgment says so, also in answer to the peer's probes.
            self.flags |= Flags::ACK_NOW;
            return Err(Disposition::dropped(DropReason::NoRoom));
        }
        self.placement().place(a)
    }

    /// What the handshake changes.
    pub(crate) fn handshake(&mut self) -> Handshake<'_> {
        Handshake {
            state: &mut self.state,
            flags: &mut self.flags,
            snd: &mut self.snd,
            stamps: &mut self.stamps,
            acks: &mut self.acks,
            rcv: &mut self.rcv,
            liveness: &mut self.liveness,
            cfg: &mut self.cfg,
            ecn: &mut self.ecn,
            fast_open: &mut self.fast_open,
            outcome: &mut self.outcome,
            timers: &mut self.timers,
            congestion: &mut self.congestion,
            accounting: &mut self.accounting,
            reassembly: &mut self.reassembly,
            flight: &mut self.flight,
        }
    }

    /// What payload changes.
    #[inline(always)]
    fn placement(&mut self) -> Placement<'_> {
        Placement {
            cfg: &self.cfg,
            flags: &mut self.flags,
            snd: &self.snd,
            rcv: &mut self.rcv,
            stamps: &mut self.stamps,
            acks: &mut self.acks,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            outcome: &mut self.outcome,
            accounting: &mut self.accounting,
            reassembly: &mut self.reassembly,
        }
    }

    /// Processes a segment in TIME-WAIT by the rules of [`TimeWait`].
    fn in_time_wait(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let mut record = TimeWait::of(self);
        let verdict = record.on_segment(segment, now);
        self.timers.state = record.expires();
        self.liveness.note_challenge(record.last_ack());
        match verdict {
            TimeWaitVerdict::Drop(reason) => Disposition::dropped(reason),
            TimeWaitVerdict::Ack(_) => {
                self.flags |= Flags::ACK_NOW;
                Disposition::dropped(DropReason::TimeWait)
            }
            TimeWaitVerdict::Reopen { iss_after } => Disposition {
                reopen: Some(iss_after),
                ..Disposition::default()
            },
            TimeWaitVerdict::Close => {
                self.closing().die(None, Events::empty());
                Disposition::default()
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
