//! Payload: where it belongs, and when it is acknowledged (RFC 9293 section
//! 3.10.7.4, seventh; RFC 5681 section 4.2).
//!
//! Called by `input/mod.rs`, and in part by `fast_path.rs`. The payload itself stays
//! with the engine: [`Place`] says what to copy where, in order or not.

use super::{Arrival, Step};
use crate::acks::{DELAY_US, OwedAcks};
use crate::config::Config;
use crate::drop::DropReason;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::open::MAX_QUICK_ACKS;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::{Disposition, Place, Segment};
use crate::snd::SendSide;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::{Instant, MS};
use crate::timers::Timers;
use longshore_wire::tcp::TcpFlags;

impl ReceiveSide {
    /// Cuts the payload to what is new and fits: from RCV.NXT to the end of the
    /// window that was offered, and to the peer's FIN if that is known.
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

    /// The same without timestamps: from the time that a window's worth of data takes.
    pub(super) fn sample_receiver_rtt_by_window(&mut self, now: Instant) {
        if !self.buffer.is_fixed() {
            let window = self.offered();
            self.buffer.sample_window(self.nxt(), window, now);
        }
    }
}

impl OwedAcks {
    /// RFC 5681 section 4.2: at once if a hole is filled, in part or whole; else for
    /// every second full segment; else within the delay.
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
        let quick = cfg.quickack || (self.quick() > 0 && !flags.contains(Flags::INTERACTIVE));
        *flags |= Flags::ACK_OWED;
        if fills || quick || unacked >= 2 * i64::from(self.segment()) {
            *flags |= Flags::ACK_NOW;
        } else if timers.ack.is_never() {
            timers.ack = now.after_us(DELAY_US);
        }
    }

    /// Learns how long the peer's segments are, for "every second full segment". A
    /// merged one tells by its GSO size; without it, no packet is longer than we
    /// allowed.
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
    /// Keeps the order in which ranges were last added to (RFC 2018 section 4).
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

    /// RFC 2883 section 4: part of `start..end` is in the assembler already; reports
    /// the first such part.
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

    /// A segment was a duplicate, wholly or in front.
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

impl Tcb {
    /// Places the payload of an acceptable segment.
    pub(super) fn on_payload(&mut self, a: &Arrival<'_>) -> Result<Disposition, Disposition> {
        if a.data_end <= a.start {
            return Ok(Disposition::default());
        }
        if !self.state.may_receive_data() {
            // The peer has closed: "This should not occur". Ignore the payload; like
            // Linux, do not answer it either.
            return Err(Disposition::dropped(DropReason::AfterFin));
        }
        self.discard_check(a)?;
        self.room_check(a)?;
        self.accounting.counters.slow_data_in =
            self.accounting.counters.slow_data_in.wrapping_add(1);
        self.acks
            .estimate_rcv_mss(&self.rcv, a.segment.payload_len, || a.segment.gso_size);

        let (start, end, cut) = self.rcv.trim(a);
        if start >= end {
            // All of it was there, or none of it fits: say so at once.
            self.reassembly
                .note_duplicate(&self.snd, &self.rcv, &mut self.flags, a);
            self.flags |= Flags::ACK_NOW;
            let reason = cut.unwrap_or(DropReason::Duplicate);
            return if a.end > self.rcv.nxt() && cut.is_none() {
                // Its FIN may still be new.
                Ok(Disposition::dropped(reason))
            } else {
                Err(Disposition::dropped(reason))
            };
        }
        let place = Place {
            stream_offset: start as u64,
            skip: (start - a.start) as u32,
            len: (end - start) as u32,
        };
        if start > a.start {
            // RFC 2883 section 4: the front was received before.
            self.reassembly
                .note_dsack(&self.snd, &self.rcv, &mut self.flags, a.start, start);
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
        // What is cut at the end takes the FIN with it.
        if cut.is_some() {
            return Err(disposition);
        }
        Ok(disposition)
    }

    /// RFC 9293 section 3.6.1 and Linux: new payload for a connection that no program
    /// holds, or of which one has shut both halves down, is answered by a reset, so that
    /// the peer learns that it is lost. Its number is what the peer has acknowledged, so
    /// the peer believes it even if it has not seen all that we sent. With the receiving
    /// half alone shut down, what comes may still be read.
    fn discard_check(&mut self, a: &Arrival<'_>) -> Step {
        let is_orphan = self.flags.contains(Flags::ORPHAN);
        let both_shut = self.flags.contains(Flags::RCV_SHUT)
            && matches!(self.state, State::FinWait1 | State::FinWait2);
        if (is_orphan || both_shut) && a.data_end > self.rcv.nxt() {
            let error = if is_orphan {
                Error::Aborted
            } else {
                Error::Reset
            };
            self.die(Some(error), Events::empty());
            return Err(Disposition {
                reset: true,
                ..Disposition::dropped(DropReason::AfterClose)
            });
        }
        Ok(())
    }

    /// Where there is no memory, the window is as good as closed (RFC 9293 section
    /// 3.10.7.4, first): the peer is told so, in answer to its probes too.
    fn room_check(&mut self, a: &Arrival<'_>) -> Step {
        if self.is_denied_room() && a.data_end > self.rcv.nxt() {
            self.flags |= Flags::ACK_NOW;
            return Err(Disposition::dropped(DropReason::NoRoom));
        }
        Ok(())
    }

    /// Payload from RCV.NXT to `end`: moves RCV.NXT over it and over what had arrived
    /// beyond.
    fn place_in_order(&mut self, end: Pos, segment: &Segment<'_>, now: Instant) {
        let old = self.rcv.nxt();
        let fills = !self.reassembly.ranges.is_empty();
        if fills {
            let known = self.reassembly.ranges.covered(old, old, end);
            if known > 0 {
                self.reassembly
                    .note_first_overlap(&self.snd, &self.rcv, &mut self.flags, old, end);
            }
            let nxt = self.reassembly.ranges.advance(old, end);
            self.rcv.advance(nxt);
        } else {
            self.rcv.advance(end);
        }
        match &segment.header.options.timestamps {
            Some(ts) if self.flags.contains(Flags::TIMESTAMPS) => {
                self.sample_receiver_rtt_by_echo(segment.payload_len, ts.echo, now);
            }
            _ => self.rcv.sample_receiver_rtt_by_window(now),
        }
        self.after_in_order(fills, now);
    }

    /// RCV.NXT has moved over a segment that `fills` a hole, or nothing is missing.
    #[inline(always)]
    pub(super) fn after_in_order(&mut self, fills: bool, now: Instant) {
        self.outcome.events |= Events::RCV_EDGE;
        // A long silence ends what was learned of the peer's habits: it may be in
        // slow start again.
        if self
            .snd
            .rtt
            .is_longer_than_rto(self.liveness.last_data(), now)
        {
            self.acks.be_quick(MAX_QUICK_ACKS);
        }
        self.liveness.got_data(now);
        self.acks.owe_ack(
            &self.rcv,
            &mut self.timers,
            &self.cfg,
            &mut self.flags,
            fills,
            now,
        );
    }

    /// Payload beyond a hole. Says whether there was room to remember it.
    ///
    /// RFC 5681 section 4.2: an immediate (duplicate) acknowledgment; one for each
    /// segment if the peer has no SACK and counts them.
    fn place_out_of_order(&mut self, start: Pos, end: Pos) -> bool {
        self.flags |= Flags::ACK_NOW;
        if !self.snd.sack() {
            self.acks.owe_duplicate();
        }
        self.accounting.counters.rcv_ooo = self.accounting.counters.rcv_ooo.wrapping_add(1);
        if self.reassembly.ranges.covered(self.rcv.nxt(), start, end) > 0 {
            self.reassembly
                .note_first_overlap(&self.snd, &self.rcv, &mut self.flags, start, end);
        }
        self.reassembly.note_first_hole(&self.rcv, &self.stamps);
        let kept = self
            .reassembly
            .ranges
            .add(self.rcv.nxt(), start, end)
            .is_ok();
        if kept {
            self.reassembly.note_recent(&self.rcv, start);
        }
        kept
    }

    /// Whether a duplicate is to be reported. An acknowledgment reports one (RFC 2883 section
    /// 4), so it is to go out before the next segment is taken.
    #[must_use]
    pub fn owes_dsack(&self) -> bool {
        self.flags.contains(Flags::DSACK)
    }

    /// The round trip as a receiver sees it, for the buffer's tuning: from the echo
    /// of our timestamps.
    #[inline(always)]
    pub(super) fn sample_receiver_rtt_by_echo(
        &mut self,
        payload_len: u32,
        echo: u32,
        now: Instant,
    ) {
        // The first segment that echoes a timestamp tells of the round trip; later ones
        // add the time that the peer took to send them.
        let tells = echo != self.stamps.echo()
            && payload_len >= u32::from(self.acks.segment())
            && !self.rcv.buffer.is_fixed();
        if tells {
            self.on_new_echo(echo, now);
        }
    }

    /// Apart from the rest, as it is seldom wanted: once in a tick of the peer's clock.
    #[inline(never)]
    fn on_new_echo(&mut self, echo: u32, now: Instant) {
        self.stamps.note_echo(echo);
        let clock = now.millis32().wrapping_add(self.stamps.offset());
        let elapsed = clock.wrapping_sub(echo);
        if elapsed < 10_000 {
            // The clock ticks in milliseconds; the handshake measured finer.
            let micros = (u64::from(elapsed) * MS).max(self.snd.rtt.min_rtt_or(MS).min(MS));
            self.rcv.buffer.sample_rtt(micros);
        }
    }
}
