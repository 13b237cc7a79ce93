//! What an acknowledgment says of what is in flight: delivered ranges, round trips, SACK, and
//! a window that has opened, and what congestion control learns of the rate.
//!
//! `input/ack.rs` calls these for every acknowledgment, `input/handshake.rs` for the first one.

use crate::congestion::{CongestionState, Delivered};
use crate::flight::{AckReport, Delivery, Flight};
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::{Instant, MS};
use longshore_wire::tcp::TcpHeader;

/// How far below the acknowledgment a reported duplicate may lie, bytes: more than any
/// window, and less than would make sequence numbers ambiguous.
const MAX_DSACK_AGE: u32 = 1 << 30;

impl Flight {
    /// Everything from `from`, where the scoreboard begins, to `ack` is delivered.
    #[inline]
    pub(crate) fn mark_delivered(&mut self, from: Pos, ack: Pos, d: &mut Delivery) {
        let rack = &mut self.recovery.rack;
        self.scoreboard
            .advance(from, ack, |s| rack.on_delivered(s, false, d));
    }

    /// RFC 6298 section 3: takes a round-trip sample from the timed segment if nothing
    /// was retransmitted since; otherwise from the echoed timestamp (RFC 7323 section
    /// 4.1), which is valid also for retransmissions unless it was made older.
    #[inline(always)]
    pub(crate) fn sample_round_trip(
        &mut self,
        snd: &mut SendSide,
        stamps: &TimestampState,
        ack: Pos,
        echo: impl FnOnce() -> Option<u32>,
        now: Instant,
    ) {
        if self.round_trip.is_ended_by(ack) {
            self.round_trip.end(&mut snd.rtt, now);
        } else if !self.round_trip.is_running()
            && let Some(echo) = echo()
            && !self.recovery.may_be_backdated(snd, echo)
        {
            let clock = stamps.clock(now);
            let elapsed = clock.wrapping_sub(echo);
            // An echo from the future, or from long ago, is an error of the peer.
            if elapsed < 120_000 {
                snd.rtt.sample((u64::from(elapsed) * MS).max(MS / 2));
            }
        }
    }

    /// RFC 2018 section 5: processes the SACK blocks. Parts below `una` and invalid
    /// blocks are ignored.
    pub(crate) fn handle_sack(
        &mut self,
        snd: &SendSide,
        h: &TcpHeader,
        una: Pos,
        report: &mut AckReport,
        d: &mut Delivery,
    ) {
        if h.options.sack.is_empty() || !snd.sack() {
            return;
        }
        report.dsack = find_dsack(snd, h, una);
        let base = snd.una();
        for (left, right) in h.options.sack.iter() {
            let (start, end) = (snd.pos(left), snd.pos(right));
            let start = start.max(una);
            if start < end && end <= snd.nxt() {
                let rack = &mut self.recovery.rack;
                report.sacked += self
                    .scoreboard
                    .sack(base, start, end, |s| rack.on_delivered(s, true, d));
            }
        }
    }

    /// SND.WND <- SEG.WND, if that is [newer](SendSide::is_newer_window), for a segment
    /// that begins at `start` and acknowledges everything before `ack`.
    pub(crate) fn update_window(&mut self, snd: &mut SendSide, start: Pos, ack: Pos, field: u16) {
        if !snd.is_newer_window(start, ack) {
            return;
        }
        let window = u32::from(field) << snd.wscale();
        if snd.wnd() == 0 && window > 0 && ack == snd.una() {
            self.retransmit_into_open_window(snd);
        }
        snd.take_window(snd.wl1().max(start), ack, window);
    }

    /// The first acknowledgment covers our SYN, and perhaps data sent with it or right
    /// after it.
    pub(crate) fn handle_first_ack(
        &mut self,
        snd: &mut SendSide,
        stamps: &TimestampState,
        ack: Pos,
        now: Instant,
    ) {
        let mut delivery = self
            .recovery
            .start_delivery(&self.scoreboard, snd, stamps, None, now);
        self.mark_delivered(snd.una(), ack, &mut delivery);
        snd.handle_first_ack(ack);
    }

    // ---- The delivery rate. ----

    /// An acknowledgment that delivered this many bytes was processed: takes a rate
    /// sample, for algorithms that use the delivery rate. `repeated` is the total of
    /// retransmitted bytes.
    #[inline]
    pub(crate) fn note_delivery(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        repeated: u64,
        delivered: u64,
        now: Instant,
    ) {
        if congestion.rate.is_on() {
            self.sample_rate(snd, congestion, repeated, delivered, now);
        }
    }

    fn sample_rate(
        &self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        repeated: u64,
        delivered: u64,
        now: Instant,
    ) {
        let delivered = Delivered {
            reached: self.scoreboard.highest(snd.una()),
            in_order: self.scoreboard.is_plain(),
            newly: delivered.min(1 << 30) as u32,
            age: self.recovery.rack.latest_age(now),
            min_rtt: snd.rtt.min_rtt_or(0),
        };
        let recovering = !self.recovery.is_open();
        let pipe = self.pipe(snd);
        congestion.sample_rate(&delivered, repeated, pipe, recovering, now);
    }
}

/// RFC 2883 section 4: the first block reports a duplicate if it lies below the
/// acknowledgment, or within the second block.
fn find_dsack(snd: &SendSide, h: &TcpHeader, una: Pos) -> Option<(Pos, Pos)> {
    let mut blocks = h
        .options
        .sack
        .iter()
        .map(|(left, right)| (snd.pos(left), snd.pos(right)));
    let (start, end) = blocks.next()?;
    let within = |(s, e): (Pos, Pos)| s <= start && end <= e;
    let sane = start < end && end <= snd.nxt() && start >= una - i64::from(MAX_DSACK_AGE);
    (sane && (end <= una || blocks.next().is_some_and(within))).then_some((start, end))
}
