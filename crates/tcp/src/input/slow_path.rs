//! The steps of a segment that was not predicted, in the order of RFC 9293 section 3.10.7.
//!
//! Owns [`SlowPath`], by which [`Tcb::slow_path`] takes a segment. Each step works on the parts of the
//! connection that it needs: [`Checks`], [`Handshake`](super::Handshake), [`Acknowledgment`] and
//! [`Placement`](super::Placement).

use super::Arrival;
use super::ack::Acknowledgment;
use super::checks::{Checks, Refused};
use crate::drop::DropReason;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::segment::{Disposition, Segment};
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::time_wait::{TimeWait, TimeWaitVerdict};
use longshore_wire::tcp::TcpFlags;

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

/// RFC 9293 section 3.10.7.1: a closed connection answers everything but a RST by a
/// RST.
fn in_closed(segment: &Segment<'_>) -> Disposition {
    Disposition {
        reset: !segment.header.flags.contains(TcpFlags::RST),
        ..Disposition::dropped(DropReason::Closed)
    }
}

/// What takes a segment that was not predicted.
pub(super) struct SlowPath<'t> {
    pub(super) tcb: &'t mut Tcb,
}

impl SlowPath<'_> {
    /// Takes a segment by the rules of the connection's state.
    pub(super) fn take(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        match self.tcb.state {
            State::Closed => in_closed(segment),
            State::SynSent => self.in_syn_sent(segment, now),
            State::TimeWait => self.in_time_wait(segment, now),
            _ => {
                let arrival = Arrival::new(self.tcb, segment, now);
                match self.in_order_of_rfc(&arrival) {
                    Ok(d) | Err(d) => d,
                }
            }
        }
    }

    /// RFC 9293 section 3.10.7.4, "Otherwise".
    fn in_order_of_rfc(&mut self, a: &Arrival<'_>) -> Result<Disposition, Disposition> {
        let mut checks = Checks {
            state: self.tcb.state,
            flags: &mut self.tcb.flags,
            snd: &self.tcb.snd,
            rcv: &self.tcb.rcv,
            acks: &self.tcb.acks,
            stamps: &mut self.tcb.stamps,
            reassembly: &mut self.tcb.reassembly,
            liveness: &mut self.tcb.liveness,
        };
        if let Err(refused) = checks.check(a) {
            return Err(self.refuse(refused));
        }
        if self.tcb.state == State::SynReceived {
            self.tcb.handshake().on_ack(a)?;
        }
        let mut acknowledgment = Acknowledgment {
            cfg: &self.tcb.cfg,
            flags: &mut self.tcb.flags,
            snd: &mut self.tcb.snd,
            flight: &mut self.tcb.flight,
            congestion: &mut self.tcb.congestion,
            ecn: &mut self.tcb.ecn,
            stamps: &self.tcb.stamps,
            liveness: &mut self.tcb.liveness,
            timers: &mut self.tcb.timers,
            outcome: &mut self.tcb.outcome,
            accounting: &mut self.tcb.accounting,
        };
        acknowledgment.take(a);
        if self.tcb.snd.fin_acked() && self.tcb.closing().on_fin_acked(a.now) {
            return Err(Disposition::default());
        }
        if self.tcb.ecn.is_on() {
            self.tcb
                .ecn
                .on_arrival(&self.tcb.rcv, &self.tcb.cfg, &mut self.tcb.flags, a.segment);
        }
        self.tcb.liveness.handle_user_timeout_option(
            &self.tcb.flight,
            &mut self.tcb.timers,
            &mut self.tcb.cfg,
            &mut self.tcb.flags,
            a.segment.header.options.user_timeout,
        );
        if a.has(TcpFlags::URG) && self.tcb.state.may_receive_data() {
            self.tcb.rcv.handle_urgent_pointer(
                &self.tcb.cfg,
                &mut self.tcb.outcome,
                a.segment.header,
                a.start,
            );
        }
        let disposition = self.on_payload(a)?;
        self.on_fin(a);
        Ok(disposition)
    }

    /// The FIN of an acceptable segment, or one that came before what it follows.
    fn on_fin(&mut self, a: &Arrival<'_>) {
        let fin = a.has(TcpFlags::FIN).then_some(a.data_end);
        if fin.is_some() || self.tcb.rcv.nxt() == self.tcb.rcv.fin() {
            self.tcb.closing().on_fin(fin, a.now);
        }
    }

    /// A segment that is not processed any further: it is dropped, or ends the connection.
    fn refuse(&mut self, refused: Refused) -> Disposition {
        match refused {
            Refused::Dropped(disposition) => disposition,
            Refused::Reset(error) => {
                self.tcb.closing().die(error, Events::RESET);
                Disposition::default()
            }
        }
    }

    /// RFC 9293 section 3.10.7.3.
    fn in_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let mut handshake = self.tcb.handshake();
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
            ..Arrival::new(self.tcb, segment, now)
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
        if !self.tcb.state.may_receive_data() {
            // The peer has closed: "This should not occur". The payload is ignored and,
            // as in Linux, not answered.
            return Err(Disposition::dropped(DropReason::AfterFin));
        }
        let is_new = a.data_end > self.tcb.rcv.nxt();
        if is_new && let Some(error) = self.tcb.flags.discarding(self.tcb.state) {
            self.tcb.closing().die(Some(error), Events::empty());
            return Err(Disposition {
                reset: true,
                ..Disposition::dropped(DropReason::AfterClose)
            });
        }
        if is_new && self.tcb.flags.contains(Flags::NO_ROOM) {
            // Without memory the window counts as closed (RFC 9293 section 3.10.7.4,
            // first): the acknowledgment says so, also in answer to the peer's probes.
            self.tcb.flags |= Flags::ACK_NOW;
            return Err(Disposition::dropped(DropReason::NoRoom));
        }
        self.tcb.placement().place(a)
    }

    /// Processes a segment in TIME-WAIT by the rules of [`TimeWait`].
    fn in_time_wait(&mut self, segment: &Segment<'_>, now: Instant) -> Disposition {
        let mut record = TimeWait::of(self.tcb);
        let verdict = record.on_segment(segment, now);
        self.tcb.timers.state = record.expires();
        self.tcb.liveness.note_challenge(record.last_ack());
        match verdict {
            TimeWaitVerdict::Drop(reason) => Disposition::dropped(reason),
            TimeWaitVerdict::Ack(_) => {
                self.tcb.flags |= Flags::ACK_NOW;
                Disposition::dropped(DropReason::TimeWait)
            }
            TimeWaitVerdict::Reopen { iss_after } => Disposition {
                reopen: Some(iss_after),
                ..Disposition::default()
            },
            TimeWaitVerdict::Close => {
                self.tcb.closing().die(None, Events::empty());
                Disposition::default()
            }
        }
    }
}
