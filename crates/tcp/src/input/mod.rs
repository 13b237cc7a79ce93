//! Segment input (RFC 9293 section 3.10.7).
//!
//! Owns [`Tcb::on_segment`] and the order of its steps; each step is a file.
//! `fast_path.rs` tries header prediction first. All other segments are processed by `slow_path.rs`
//! in the RFC's order: `checks.rs` (sequence number, PAWS, RST and SYN), `ack.rs`,
//! `data.rs`, and the FIN by `closing.rs`; `handshake.rs` has what comes before ESTABLISHED.
//! [`Tcb::on_icmp`] takes errors about what was sent.

mod ack;
mod checks;
mod data;
mod fast_path;
mod handshake;
mod slow_path;

pub use fast_path::Predicted;

use crate::events::Events;
use crate::flags::Flags;
use crate::icmp::IcmpError;
use crate::pos::Pos;
use crate::reset::sequence_len;
use crate::segment::{Disposition, Segment};
use crate::tcb::Tcb;
use crate::time::Instant;
use data::Placement;
pub(crate) use handshake::Handshake;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use slow_path::SlowPath;

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

/// The result of a step of input: continue with the next one, or the segment is done.
type Step = Result<(), Disposition>;

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
        let mut disposition = SlowPath { tcb: self }.take(segment, now);
        disposition.ack_now |= self.flags.contains(Flags::ACK_NOW);
        self.predict_next();
        self.debug_check();
        disposition
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
}

#[cfg(test)]
pub(crate) mod tests;
