//! Payload: where it belongs, and when it is acknowledged (RFC 9293 section 3.10.7.4,
//! seventh; RFC 5681 section 4.2).
//!
//! Owns [`Placement`], which `input/mod.rs` has an acceptable segment placed by, and
//! `fast_path.rs` a predicted one. The payload itself stays with the engine: [`Place`]
//! says what to copy where, in order or not.

use super::Arrival;
use crate::accounting::Accounting;
use crate::acks::MAX_QUICK_ACKS;
use crate::acks::OwedAcks;
use crate::config::Config;
use crate::drop::DropReason;
use crate::events::Events;
use crate::flags::Flags;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::{Disposition, Place, Segment};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;
use crate::timers::Timers;

/// What payload changes, and the acknowledgment that is owed for it.
pub(super) struct Placement<'t> {
    pub(super) cfg: &'t Config,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t SendSide,
    pub(super) rcv: &'t mut ReceiveSide,
    pub(super) stamps: &'t mut TimestampState,
    pub(super) acks: &'t mut OwedAcks,
    pub(super) liveness: &'t mut Liveness,
    pub(super) timers: &'t mut Timers,
    pub(super) outcome: &'t mut Outcome,
    pub(super) accounting: &'t mut Accounting,
    pub(super) reassembly: &'t mut Reassembly,
}

impl Placement<'_> {
    /// Places the payload of an acceptable segment. An error ends its processing.
    pub(super) fn place(&mut self, a: &Arrival<'_>) -> Result<Disposition, Disposition> {
        self.accounting.counters.slow_data_in =
            self.accounting.counters.slow_data_in.wrapping_add(1);
        self.acks
            .estimate_rcv_mss(self.rcv, a.segment.payload_len, || a.segment.gso_size);

        let (start, end, cut) = self.rcv.trim(a.start, a.data_end);
        if start >= end {
            return self.on_nothing_new(a, cut);
        }
        let place = Place {
            stream_offset: start as u64,
            skip: (start - a.start) as u32,
            len: (end - start) as u32,
        };
        if start > a.start {
            // RFC 2883 section 4: the front was received before.
            self.reassembly
                .note_dsack(self.snd, self.rcv, self.flags, a.start, start);
        }
        let kept = if start == self.rcv.nxt() {
            self.place_in_order(end, a.segment, a.now);
            true
        } else {
            self.place_out_of_order(start, end)
        };
        if !kept {
            return Err(Disposition::dropped(DropReason::AssemblerFull));
        }
        let disposition = Disposition {
            place: Some(place),
            drop: cut,
            ..Disposition::default()
        };
        // Trimming at the end also removes the FIN.
        if cut.is_some() {
            return Err(disposition);
        }
        Ok(disposition)
    }

    /// All of a segment's payload has arrived before, or none of it fits, for the reason `cut`:
    /// the peer is notified at once.
    fn on_nothing_new(
        &mut self,
        a: &Arrival<'_>,
        cut: Option<DropReason>,
    ) -> Result<Disposition, Disposition> {
        self.reassembly
            .note_duplicate(self.snd, self.rcv, self.flags, a.first_byte(), a.data_end);
        *self.flags |= Flags::ACK_NOW;
        let disposition = Disposition::dropped(cut.unwrap_or(DropReason::Duplicate));
        if a.end > self.rcv.nxt() && cut.is_none() {
            // Its FIN may still be new.
            Ok(disposition)
        } else {
            Err(disposition)
        }
    }

    /// Payload from RCV.NXT to `end`: advances RCV.NXT over it and over the adjacent
    /// out-of-order data.
    fn place_in_order(&mut self, end: Pos, segment: &Segment<'_>, now: Instant) {
        let old = self.rcv.nxt();
        let fills = !self.reassembly.ranges.is_empty();
        if fills {
            let known = self.reassembly.ranges.covered(old, old, end);
            if known > 0 {
                self.reassembly
                    .note_first_overlap(self.snd, self.rcv, self.flags, old, end);
            }
            let nxt = self.reassembly.ranges.advance(old, end);
            self.rcv.advance(nxt);
        } else {
            self.rcv.advance(end);
        }
        match &segment.header.options.timestamps {
            Some(ts) if self.flags.contains(Flags::TIMESTAMPS) => {
                let echoed = (segment.payload_len, ts.echo);
                let peer_segment = self.acks.segment();
                self.stamps
                    .sample_receiver_rtt(self.rcv, &self.snd.rtt, peer_segment, echoed, now);
            }
            _ => self.rcv.sample_receiver_rtt_by_window(now),
        }
        self.after_in_order(fills, now);
    }

    /// RCV.NXT has advanced over a segment that `fills` a hole, or nothing is missing.
    #[inline(always)]
    pub(super) fn after_in_order(&mut self, fills: bool, now: Instant) {
        self.outcome.report(Events::RCV_EDGE);
        // A long idle period invalidates what was learned about the peer, which may be in
        // slow start again.
        if self
            .snd
            .rtt
            .is_longer_than_rto(self.liveness.last_data(), now)
        {
            self.acks.start_quick_acks(MAX_QUICK_ACKS);
        }
        self.liveness.note_data(now);
        self.acks
            .owe_ack(self.rcv, self.timers, self.cfg, self.flags, fills, now);
    }

    /// Payload beyond a hole. Returns whether there was room to record it.
    ///
    /// RFC 5681 section 4.2: an immediate (duplicate) acknowledgment; one for each
    /// segment if the peer has no SACK and counts them.
    fn place_out_of_order(&mut self, start: Pos, end: Pos) -> bool {
        *self.flags |= Flags::ACK_NOW;
        if !self.snd.sack() {
            self.acks.owe_duplicate();
        }
        self.accounting.counters.rcv_ooo = self.accounting.counters.rcv_ooo.wrapping_add(1);
        if self.reassembly.ranges.covered(self.rcv.nxt(), start, end) > 0 {
            self.reassembly
                .note_first_overlap(self.snd, self.rcv, self.flags, start, end);
        }
        self.reassembly.note_first_hole(self.rcv, self.stamps);
        let kept = self
            .reassembly
            .ranges
            .add(self.rcv.nxt(), start, end)
            .is_ok();
        if kept {
            self.reassembly.note_recent(self.rcv, start);
        }
        kept
    }
}
