//! What an acknowledgment says of what is in flight: delivered ranges, round trips, SACK, and
//! a window that has opened.
//!
//! `input/ack.rs` calls these for every acknowledgment, `input/syn_sent.rs` for the first one.

use crate::config::Config;
use crate::flight::{AckReport, Delivery, Flight};
use crate::pos::{NO_POS, Pos};
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
        if ack >= self.timed {
            self.end_timing(snd, now);
        } else if !self.is_timing()
            && let Some(echo) = echo()
            && !self.may_be_backdated(snd, echo)
        {
            let clock = stamps.clock(now);
            let elapsed = clock.wrapping_sub(echo);
            // An echo from the future, or from long ago, is an error of the peer.
            if elapsed < 120_000 {
                snd.rtt.sample((u64::from(elapsed) * MS).max(MS / 2));
            }
        }
    }

    /// Ends the timed round trip, if there is one.
    pub(crate) fn sample_timed(&mut self, snd: &mut SendSide, now: Instant) {
        if self.is_timing() {
            self.end_timing(snd, now);
        }
    }

    #[inline(always)]
    fn end_timing(&mut self, snd: &mut SendSide, now: Instant) {
        self.timed = NO_POS;
        snd.rtt.sample_since(self.timed_at, now);
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
        report.dsack = self.find_dsack(snd, h, una);
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

    /// RFC 2883 section 4: the first block reports a duplicate if it lies below the
    /// acknowledgment, or within the second block.
    fn find_dsack(&self, snd: &SendSide, h: &TcpHeader, una: Pos) -> Option<(Pos, Pos)> {
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

    // ---- The handshake. ----

    /// Whether a SYN-ACK echoes a timestamp that none of our SYNs had: it answers the SYN
    /// of an earlier connection. As in Linux it is answered by a reset, and the right one
    /// may still arrive.
    pub(crate) fn answers_another_syn(
        &self,
        cfg: &Config,
        stamps: &TimestampState,
        h: &TcpHeader,
        now: Instant,
    ) -> bool {
        let Some(ts) = h.options.timestamps.as_ref().filter(|ts| ts.echo != 0) else {
            return false;
        };
        // `timed_at` is when the first SYN was sent.
        let age = stamps.clock(now).wrapping_sub(ts.echo);
        cfg.timestamps && age > stamps.clock(now).wrapping_sub(stamps.clock(self.timed_at))
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
        let mut delivery = self.start_delivery(snd, stamps, None, now);
        self.mark_delivered(snd.una(), ack, &mut delivery);
        snd.handle_first_ack(ack);
    }
}
