//! The receive window: how much we offer, when we say so, and how the buffer grows.
//!
//! Owns [`ReceiveBuffer`]. Output asks [`Tcb::offer_window`] for each segment,
//! `user.rs` asks [`ReceiveSide::window_update_due`] when the user has read, and input
//! feeds the round trip as the receiver sees it.
//!
//! **Auto-tuning** (dynamic right-sizing, Fisk and Feng 2001, as Linux uses it): in
//! each round trip the bytes that the user has read are counted. The peer cannot
//! have had more than the window in flight, so a buffer of twice that count leaves
//! room for its window to double, and the buffer is never what holds it back.

use crate::config::Config;
use crate::events::Events;
use crate::input::UNPREDICTABLE;
use crate::rcv::ReceiveSide;
use crate::tcb::{Flags, NO_POS, Pos, Tcb};
use crate::time::Instant;

/// The receive buffer's size and what tunes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveBuffer {
    /// Bytes that may be unread.
    size: u32,
    /// Up to where it may grow; not above `size` if it is fixed.
    max: u32,
    /// How far there is memory for it to grow now, bytes.
    room: u32,
    /// Most bytes read in a round trip so far.
    space: u32,
    /// The round trip as the receiver sees it, microseconds; 0 if not known.
    rtt_us: u32,
    /// The window field of the last segment.
    told_field: u16,
    /// RCV.NXT and the read position together when it was made; as neither goes back,
    /// their sum is the same as long as both are. `NO_POS` if the buffer is another since.
    told_at: Pos,
    /// Where the user's reading stood when the present count began.
    mark: Pos,
    mark_at: Instant,
    /// Without timestamps: a window's worth from here is a round trip.
    rtt_mark: Pos,
    rtt_mark_at: Instant,
}

impl ReceiveBuffer {
    pub(crate) const fn new(size: u32, max: u32, now: Instant) -> ReceiveBuffer {
        ReceiveBuffer {
            size,
            max,
            room: u32::MAX,
            space: 0,
            rtt_us: 0,
            told_field: 0,
            told_at: NO_POS,
            mark: 0,
            mark_at: now,
            rtt_mark: 0,
            rtt_mark_at: now,
        }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// The window field of the last segment, if that is still true where RCV.NXT and the
    /// read position together are `at`.
    #[inline(always)]
    fn told(&self, at: Pos) -> Option<u16> {
        (self.told_at == at).then_some(self.told_field)
    }

    /// The next segment has this window field; says which.
    fn tell(&mut self, at: Pos, field: u16) -> u16 {
        self.told_at = at;
        self.told_field = field;
        field
    }

    /// The next window is not like the one before: the buffer is another.
    pub(crate) fn forget_told(&mut self) {
        self.told_at = NO_POS;
    }

    /// Whether it does not grow any more.
    pub(crate) const fn is_fixed(&self) -> bool {
        self.size >= self.max
    }

    /// The receiver's round trip in microseconds, 0 if not known.
    pub(crate) const fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// Bytes read in a round trip.
    pub(crate) const fn space(&self) -> u32 {
        self.space
    }

    /// The user has set the size (SO_RCVBUF): no more tuning. What was promised to
    /// the peer stays promised, so a smaller buffer takes effect as it is read.
    pub(crate) fn fix(&mut self, size: u32) {
        self.size = size;
        self.max = size;
    }

    /// A sample of the round trip as the receiver sees it. The least counts, but it
    /// may creep up if the path changes.
    pub(crate) fn sample_rtt(&mut self, micros: u64) {
        let sample = micros.clamp(1, 10_000_000) as u32;
        self.rtt_us = match self.rtt_us {
            0 => sample,
            old if sample < old => sample,
            old => old + ((sample - old) >> 5),
        };
    }

    /// Without timestamps, a window's worth of data takes a round trip at least.
    pub(crate) fn sample_window(&mut self, rcv_nxt: Pos, window: u32, now: Instant) {
        if rcv_nxt < self.rtt_mark {
            return;
        }
        if self.rtt_mark > 0 {
            self.sample_rtt(now.since(self.rtt_mark_at));
        }
        self.rtt_mark = rcv_nxt + i64::from(window);
        self.rtt_mark_at = now;
    }

    /// The user has read up to `consumed`. Says whether the buffer has grown.
    pub(crate) fn on_consumed(&mut self, consumed: Pos, mss: u16, now: Instant) -> bool {
        if self.size >= self.max || self.rtt_us == 0 {
            return false;
        }
        let elapsed = now.since(self.mark_at);
        if elapsed < u64::from(self.rtt_us) {
            return false;
        }
        let copied = (consumed - self.mark) as u64;
        self.mark = consumed;
        self.mark_at = now;
        let space = u64::from(self.space);
        if copied <= space {
            return false;
        }
        self.space = copied.min(u64::from(self.max)) as u32;
        // Twice what was read, and as much again as the growth of it foretells:
        // in slow start the peer's window doubles before this is told to it.
        let growth = if space == 0 { 0 } else { copied - space };
        let wanted = 2 * (copied + growth) + 16 * u64::from(mss);
        let wanted = wanted.min(u64::from(self.max.min(self.room))) as u32;
        let grows = wanted > self.size;
        self.size = self.size.max(wanted);
        grows
    }
}

/// The scale needed to offer a window of `max` bytes (RFC 7323 section 2.3: at most
/// 14).
pub(crate) fn scale_for(max: u32) -> u8 {
    let mut scale = 0;
    while scale < 14 && (max >> scale) > 0xffff {
        scale += 1;
    }
    scale
}

impl ReceiveSide {
    /// Bytes of the receive stream that are there and unread, out-of-order ones not
    /// counted: they lie in the window.
    #[inline]
    fn unread(&self) -> u32 {
        (self.nxt().min(self.fin()) - self.consumed()).max(0) as u32
    }

    /// Room in the receive buffer.
    #[inline]
    pub(crate) fn free_space(&self, cfg: &Config) -> u32 {
        let mut size = self.buffer.size();
        if cfg.window_clamp != 0 {
            size = size.min(cfg.window_clamp);
        }
        size.saturating_sub(self.unread())
    }

    /// What is left of the window that was offered.
    #[inline]
    pub(crate) fn offered(&self) -> u32 {
        (self.adv() - self.nxt()).max(0) as u32
    }

    /// The window to have in the next segment, in bytes.
    ///
    /// RFC 9293 section 3.8.6.2.2, silly window avoidance of the receiver: the right
    /// edge stays until it can be moved by the lesser of half the buffer and a full
    /// segment. It is never moved back (section 3.8.6).
    #[inline]
    pub(crate) fn window_to_offer(&self, cfg: &Config) -> u32 {
        let free = self.free_space(cfg);
        let offered = self.offered();
        let step = (self.buffer.size() / 2).min(u32::from(self.full_segment()));
        if free >= offered.saturating_add(step) {
            free
        } else {
            offered
        }
    }

    /// The same for what the last segment did not tell; see [`Tcb::offer_window`].
    fn offer_window_anew(&mut self, cfg: &Config, flags: Flags) -> u16 {
        if flags.contains(Flags::NO_ROOM) {
            return self.offer_no_window();
        }
        let scale = self.wscale();
        let field = (self.window_to_offer(cfg) >> scale).min(0xffff);
        let edge = self.nxt() + i64::from(field << scale);
        self.promise(edge);
        let at = self.nxt() + self.consumed();
        self.buffer.tell(at, field as u16)
    }

    /// The window is told as closed. What arrives is held against the edge that it had.
    #[cold]
    fn offer_no_window(&mut self) -> u16 {
        self.promise(self.nxt());
        let at = self.nxt() + self.consumed();
        self.buffer.tell(at, 0)
    }

    /// Whether the peer should hear of the room that reading has made, without
    /// another reason to send: the edge can move by two segments or half the buffer,
    /// and what it knows of is at most half of what there is. The second condition,
    /// as in Linux, keeps a fast reader from doubling every acknowledgment.
    pub(crate) fn window_update_due(&self, cfg: &Config) -> bool {
        // What the field cannot say is no news (a peer without window scaling).
        let free = self.free_space(cfg).min(0xffff << self.wscale());
        let offered = self.offered();
        let opens = free.saturating_sub(offered);
        let step = (self.buffer.size() / 2).min(2 * u32::from(self.full_segment()));
        opens >= step.max(1) && free / 2 >= offered
    }
}

impl Tcb {
    /// Puts the window into its 16-bit field (RFC 7323 section 2.3) and remembers
    /// what the peer will understand. Rounding down to the scale may take back up to
    /// `2^scale - 1` bytes (RFC 7323 section 2.4 knows it); the edge that arrivals are
    /// held against does not follow.
    ///
    /// As long as neither the peer has sent nor the user read anything, it is what it
    /// was in the segment before.
    #[inline(always)]
    pub(crate) fn offer_window(&mut self) -> u16 {
        match self.rcv.buffer.told(self.rcv.nxt() + self.rcv.consumed()) {
            Some(field) => field,
            None => self.offer_window_anew(),
        }
    }

    #[inline(never)]
    fn offer_window_anew(&mut self) -> u16 {
        self.rcv.offer_window_anew(&self.cfg, self.flags)
    }

    /// How far there is memory for the receive buffer to grow now, bytes: tuning stays
    /// within, and what was granted before stays granted. To be told before
    /// [`Tcb::set_rcv_consumed`].
    #[inline]
    pub fn set_rcv_room(&mut self, bytes: u64) {
        self.rcv.buffer.room = bytes.min(u64::from(u32::MAX)) as u32;
    }

    /// There is no memory for payload: until [`grant_room`](Tcb::grant_room) none is taken,
    /// and the peer is told that the window is closed, which takes back what was promised
    /// (`docs/rfc.md`, D53). What has arrived before stays, and acknowledgments count. Says
    /// whether that is news.
    pub fn deny_room(&mut self) -> bool {
        let new = !self.is_denied_room();
        if new {
            self.flags |= Flags::NO_ROOM;
            self.rcv.buffer.forget_told();
            self.predict = UNPREDICTABLE;
        }
        new
    }

    /// Whether there is no memory for payload, as far as this block knows.
    #[inline]
    #[must_use]
    pub fn is_denied_room(&self) -> bool {
        self.flags.contains(Flags::NO_ROOM)
    }

    /// There is memory for payload again: the peer hears of it at once.
    pub fn grant_room(&mut self) {
        if !self.is_denied_room() {
            return;
        }
        self.flags.remove(Flags::NO_ROOM);
        self.rcv.buffer.forget_told();
        if self.state.may_receive_data() {
            self.flags |= Flags::ACK_NOW;
        }
    }

    /// The user has read: tunes the buffer.
    pub(crate) fn tune_receive_buffer(&mut self, now: Instant) {
        let mss = self.rcv.full_segment();
        if self.rcv.buffer.on_consumed(self.rcv.consumed(), mss, now) {
            self.outcome.events |= Events::RCVBUF;
        }
    }
}

#[cfg(test)]
mod tests;
