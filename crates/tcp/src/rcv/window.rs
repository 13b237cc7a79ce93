//! The receive window: its size, and when to advertise it.
//!
//! Owns those methods of [`ReceiveSide`]. Output calls [`ReceiveSide::advertise_window`]
//! for each segment, `user.rs` calls [`ReceiveSide::window_update_due`] when the user has
//! read. The growth of the buffer behind it is in `receive_buffer.rs`, what was
//! told while memory is short in `short_window.rs`.

use crate::config::Config;
use crate::events::Events;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::rcv::ReceiveSide;
use crate::short_window::ROOM;
use crate::time::Instant;

impl ReceiveSide {
    /// Bytes of the receive stream that are ready and unread; out-of-order data is not
    /// counted, since it lies in the window.
    #[inline]
    fn unread(&self) -> u32 {
        (self.nxt().min(self.fin()) - self.consumed()).max(0) as u32
    }

    /// Free space in the receive buffer, bytes.
    #[inline]
    pub(crate) fn free_space(&self, cfg: &Config) -> u32 {
        self.clamped_size(cfg).saturating_sub(self.unread())
    }

    /// The size of the receive buffer, or less if the window is clamped, bytes.
    #[inline]
    fn clamped_size(&self, cfg: &Config) -> u32 {
        match cfg.rcv.window_clamp {
            0 => self.buffer.size(),
            clamp => self.buffer.size().min(clamp),
        }
    }

    /// The widest window that can be advertised at present, with nothing unread, bytes.
    pub(crate) fn widest_window(&self, cfg: &Config, flags: Flags) -> u32 {
        let memory = if flags.intersects(Flags::SHORT_OF_ROOM) {
            ROOM
        } else {
            u32::MAX
        };
        let field = 0xffff << self.wscale();
        self.clamped_size(cfg).min(memory).min(field)
    }

    /// The rest of the advertised window, bytes.
    #[inline]
    pub(crate) fn offered(&self) -> u32 {
        (self.adv() - self.nxt()).max(0) as u32
    }

    /// The window to advertise in the next segment, in bytes.
    ///
    /// RFC 9293 section 3.8.6.2.2, the receiver's silly window avoidance: the right edge
    /// stays until it can be advanced by the lesser of half the buffer and a full
    /// segment. It is never moved back (section 3.8.6).
    #[inline]
    pub(crate) fn window_to_advertise(&self, cfg: &Config) -> u32 {
        let free = self.free_space(cfg);
        let offered = self.offered();
        let step = (self.buffer.size() / 2).min(u32::from(self.full_segment()));
        if free >= offered.saturating_add(step) {
            free
        } else {
            offered
        }
    }

    /// Returns the window's 16-bit field (RFC 7323 section 2.3) and records the edge that
    /// the peer derives from it. Rounding down to the scale may take back less than
    /// `2^scale` bytes (see RFC 7323 section 2.4); the edge that arriving data is checked
    /// against does not follow.
    ///
    /// The field is that of the previous segment as long as neither RCV.NXT nor the read
    /// position has changed.
    #[inline(always)]
    pub(crate) fn advertise_window(&mut self, cfg: &Config, flags: Flags) -> u16 {
        match self.buffer.advertised(self.nxt() + self.consumed()) {
            Some(field) => field,
            None => self.recompute_window_field(cfg, flags),
        }
    }

    /// As [`advertise_window`](Self::advertise_window), with all of it inlined: for a segment
    /// that mostly has a new window.
    #[inline(always)]
    pub(crate) fn advertise_window_inlined(&mut self, cfg: &Config, flags: Flags) -> u16 {
        match self.buffer.advertised(self.nxt() + self.consumed()) {
            Some(field) => field,
            None => self.window_field(cfg, flags),
        }
    }

    /// Computes the window field anew, if the last one is no longer valid.
    #[inline(never)]
    fn recompute_window_field(&mut self, cfg: &Config, flags: Flags) -> u16 {
        self.window_field(cfg, flags)
    }

    /// See [`advertise_window`](Self::advertise_window).
    #[inline(always)]
    fn window_field(&mut self, cfg: &Config, flags: Flags) -> u16 {
        if flags.intersects(Flags::SHORT_OF_ROOM) {
            return self.advertise_short_window(cfg, flags);
        }
        let scale = self.wscale();
        let field = (self.window_to_advertise(cfg) >> scale).min(0xffff);
        let edge = self.nxt() + i64::from(field << scale);
        self.advertise_to(edge);
        let at = self.nxt() + self.consumed();
        self.buffer.advertise(at, field as u16)
    }

    /// Advertises the window for which there is memory. Arriving data is still checked against
    /// the edge of before, if that is further.
    #[cold]
    fn advertise_short_window(&mut self, cfg: &Config, flags: Flags) -> u16 {
        let scale = self.wscale();
        let field = (self.short_window(cfg, flags) >> scale).min(0xffff);
        let edge = self.nxt() + i64::from(field << scale);
        self.buffer.short.tell(edge);
        self.advertise_to(edge);
        let at = self.nxt() + self.consumed();
        self.buffer.advertise(at, field as u16)
    }

    /// Whether the space freed by reading should be advertised without another reason to
    /// send: the edge can advance by two segments or half the buffer, and the peer knows
    /// of at most half of the free space. The second condition, as in Linux, keeps a fast
    /// reader from doubling the number of acknowledgments.
    pub(crate) fn window_update_due(&self, cfg: &Config) -> bool {
        // Space beyond what the field can express does not count (a peer without window
        // scaling).
        let free = self.free_space(cfg).min(0xffff << self.wscale());
        let offered = self.offered();
        let opens = free.saturating_sub(offered);
        let step = (self.buffer.size() / 2).min(2 * u32::from(self.full_segment()));
        opens >= step.max(1) && free / 2 >= offered
    }

    /// Space for what arrives, and the rest of the window that the peer was told, bytes.
    fn short_space(&self, cfg: &Config) -> (u32, u32) {
        let free = ROOM.saturating_sub(self.unread()).min(self.free_space(cfg));
        (free, self.buffer.short.rest(self.nxt(), free))
    }

    /// The window to advertise, bytes. The edge that was told stays until it can be advanced by
    /// a full segment or half of the room (RFC 9293 section 3.8.6.2.2).
    fn short_window(&self, cfg: &Config, flags: Flags) -> u32 {
        if flags.contains(Flags::NO_ROOM) {
            return 0;
        }
        let (free, offered) = self.short_space(cfg);
        let step = (ROOM / 2).min(u32::from(self.full_segment()));
        if free >= offered.saturating_add(step) {
            free
        } else {
            offered
        }
    }

    /// Whether the peer is to be told of the space that was freed by reading: as
    /// [`window_update_due`](Self::window_update_due), by what is told while memory is short.
    pub(crate) fn short_update_due(&self, cfg: &Config) -> bool {
        let (free, offered) = self.short_space(cfg);
        let step = (ROOM / 2).min(2 * u32::from(self.full_segment()));
        free.saturating_sub(offered) >= step.max(1) && free / 2 >= offered
    }

    /// The user has read: tunes the buffer.
    pub(crate) fn tune_buffer(&mut self, outcome: &mut Outcome, now: Instant) {
        let mss = self.full_segment();
        if self.buffer.on_consumed(self.consumed(), mss, now) {
            outcome.report(Events::RCVBUF);
        }
    }

    /// Samples the round-trip time without timestamps, from the time in which one window
    /// of data arrives.
    pub(crate) fn sample_receiver_rtt_by_window(&mut self, now: Instant) {
        if !self.buffer.is_fixed() {
            let window = self.offered();
            self.buffer.sample_window(self.nxt(), window, now);
        }
    }
}

#[cfg(test)]
mod tests;
