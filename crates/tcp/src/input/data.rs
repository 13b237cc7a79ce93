//! Payload: where it belongs, and when it is acknowledged (RFC 9293 section 3.10.7.4,
//! seventh; RFC 5681 section 4.2).
//!
//! Owns [`Placement`], which `input/mod.rs` has an acceptable segment placed by, and
//! `fast_path.rs` a predicted one. The payload itself stays with the engine: [`Place`]
//! says what to copy where, in order or not.

use super::Arrival;
use crate::accounting::Accounting;
use crate::acks::MAX_QUICK_ACKS;
use crate::acks::{DELAY_US, OwedAcks};
use crate::config::Config;
use crate::drop::DropReason;
use crate::events::Events;
use crate::flags::Flags;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::rtt::RttEstimator;
use crate::segment::{Disposition, Place, Segment};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};
use crate::timers::Timers;
use longshore_wire::tcp::TcpFlags;

impl ReceiveSide {
    /// Trims the payload to what is new and fits: from RCV.NXT to the end of the
    /// advertised window, and to the peer's FIN if that is known.
    fn trim(&self, a: &Arrival<'_>) -> (Pos, Pos, Option<DropReason>) {
        let start = a.start.max(self.nxt());
        let mut end = a.data_end;
        let mut cut = None;
        if end > self.adv() {
            end = self.adv();
            cut = Some(DropReason::BeyondWindow);
        }
        if end > self.fin() {
            end = self.fin();
            cut = Some(DropReason::AfterFin);
        }
        (start, end, cut)
    }

    /// Samples the round-trip time without timestamps, from the time in which one window
    /// of data arrives.
    pub(super) fn sample_receiver_rtt_by_window(&mut self, now: Instant) {
        if !self.buffer.is_fixed() {
            let window = self.offered();
            self.buffer.sample_window(self.nxt(), window, now);
        }
    }
}

impl OwedAcks {
    /// RFC 5681 section 4.2: an acknowledgment is sent at once if the segment fills a
    /// hole, in part or completely; else for every second full segment; else within the
    /// delay.
    #[inline(always)]
    fn owe_ack(
        &mut self,
        rcv: &ReceiveSide,
        timers: &mut Timers,
        cfg: &Config,
        flags: &mut Flags,
        fills: bool,
        now: Instant,
    ) {
        let unacked = rcv.nxt() - self.last_sent();
        let quick = cfg.delay.quickack || (self.quick() > 0 && !flags.contains(Flags::INTERACTIVE));
        *flags |= Flags::ACK_OWED;
        if fills || quick || unacked >= 2 * i64::from(self.segment()) {
            *flags |= Flags::ACK_NOW;
        } else if timers.ack.is_never() {
            timers.ack = now.after_us(DELAY_US);
        }
    }

    /// Estimates the peer's segment size, for "every second full segment". A merged
    /// segment has it in its GSO size; otherwise no packet is longer than we allow.
    #[inline(always)]
    pub(super) fn estimate_rcv_mss(
        &mut self,
        rcv: &ReceiveSide,
        payload_len: u32,
        gso_size: impl FnOnce() -> u16,
    ) {
        if payload_len > u32::from(self.segment()) {
            self.raise_rcv_mss(rcv, payload_len, gso_size());
        }
    }

    #[cold]
    fn raise_rcv_mss(&mut self, rcv: &ReceiveSide, payload_len: u32, gso_size: u16) {
        let size = match gso_size {
            0 => payload_len,
            size => u32::from(size),
        };
        let most = u32::from(rcv.full_segment());
        self.raise_segment(size.min(most) as u16);
    }
}

impl Reassembly {
    /// Keeps the most recently changed ranges in order (RFC 2018 section 4).
    fn note_recent(&mut self, rcv: &ReceiveSide, pos: Pos) {
        let Some((start, end)) = self.ranges.find(rcv.nxt(), pos) else {
            return;
        };
        let mut r = self.recent;
        let inside = |seq| (start..end).contains(&rcv.pos(seq));
        if !inside(r[0]) {
            if !inside(r[1]) {
                r[2] = r[1];
            }
            r[1] = r[0];
        }
        r[0] = rcv.seq(pos);
        self.recent = r;
    }

    /// RFC 2883 section 4: reports the first part of `start..end` that is already in the
    /// assembler.
    fn note_first_overlap(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        start: Pos,
        end: Pos,
    ) {
        let overlap = self
            .ranges
            .ranges_from(rcv.nxt(), start)
            .next()
            .map(|(s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e);
        if let Some((s, e)) = overlap {
            self.note_dsack(snd, rcv, flags, s, e);
        }
    }

    /// A segment was a duplicate, completely or in front.
    pub(super) fn note_duplicate(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        a: &Arrival<'_>,
    ) {
        let end = a.data_end.min(rcv.nxt());
        let start = if a.has(TcpFlags::SYN) {
            a.start + 1
        } else {
            a.start
        };
        if start < end {
            self.note_dsack(snd, rcv, flags, start, end);
        }
    }

    pub(super) fn note_dsack(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        start: Pos,
        end: Pos,
    ) {
        if snd.sack() {
            *flags |= Flags::DSACK;
            self.duplicate = (rcv.seq(start), rcv.seq(end));
        }
    }
}

impl TimestampState {
    /// Samples the receiver's round-trip time, for buffer tuning, from the echo of our
    /// timestamps; `segment` is the size of the peer's segments.
    #[inline(always)]
    pub(super) fn sample_receiver_rtt(
        &mut self,
        rcv: &mut ReceiveSide,
        rtt: &RttEstimator,
        segment: u16,
        (payload_len, echo): (u32, u32),
        now: Instant,
    ) {
        // Only the first segment that echoes a timestamp gives a round-trip time; later
        // ones add the time in which the peer sent them.
        let tells =
            echo != self.echo() && payload_len >= u32::from(segment) && !rcv.buffer.is_fixed();
        if tells {
            self.on_new_echo(rcv, rtt, echo, now);
        }
    }

    /// Kept out of line, as it is rarely called: once per tick of the peer's clock.
    #[inline(never)]
    fn on_new_echo(&mut self, rcv: &mut ReceiveSide, rtt: &RttEstimator, echo: u32, now: Instant) {
        self.note_echo(echo);
        let elapsed = self.clock(now).wrapping_sub(echo);
        if elapsed < 10_000 {
            // The clock ticks in milliseconds; the handshake was measured more precisely.
            let micros = (u64::from(elapsed) * MS).max(rtt.min_rtt_or(MS).min(MS));
            rcv.buffer.sample_rtt(micros);
        }
    }
}

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

        let (start, end, cut) = self.rcv.trim(a);
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
            .note_duplicate(self.snd, self.rcv, self.flags, a);
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
        self.outcome.events |= Events::RCV_EDGE;
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
