//! The receive window: how much we offer, and when we say so.
//!
//! Owns those methods of [`ReceiveSide`] and [`Tcb`]. Output asks [`Tcb::offer_window`] for
//! each segment, `user.rs` asks [`ReceiveSide::window_update_due`] when the user has read.
//! How the buffer behind it grows is `receive_buffer.rs`'s.

use crate::config::Config;
use crate::events::Events;
use crate::flags::Flags;
use crate::rcv::ReceiveSide;
use crate::tcb::Tcb;
use crate::tcb::UNPREDICTABLE;
use crate::time::Instant;

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
        self.buffer.advertise(at, field as u16)
    }

    /// The window is told as closed. What arrives is held against the edge that it had.
    #[cold]
    fn offer_no_window(&mut self) -> u16 {
        self.promise(self.nxt());
        let at = self.nxt() + self.consumed();
        self.buffer.advertise(at, 0)
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
        match self
            .rcv
            .buffer
            .advertised(self.rcv.nxt() + self.rcv.consumed())
        {
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
        let bytes = bytes.min(u64::from(u32::MAX)) as u32;
        self.rcv.buffer.set_room(bytes);
    }

    /// There is no memory for payload: until [`grant_room`](Tcb::grant_room) none is taken,
    /// and the peer is told that the window is closed, which takes back what was promised
    /// (`docs/rfc.md`, D53). What has arrived before stays, and acknowledgments count. Says
    /// whether that is news.
    pub fn deny_room(&mut self) -> bool {
        let new = !self.is_denied_room();
        if new {
            self.flags |= Flags::NO_ROOM;
            self.rcv.buffer.forget_advertised();
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
        self.rcv.buffer.forget_advertised();
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
