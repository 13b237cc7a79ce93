//! The receive buffer: its size and its auto-tuning.
//!
//! Owns [`ReceiveBuffer`], which is part of `rcv.rs`. Input passes it samples of the
//! receiver's round-trip time, `user.rs` reports what was read, `rcv/window.rs` asks for the
//! size.
//!
//! **Auto-tuning** (dynamic right-sizing, Fisk and Feng 2001, as in Linux): in each round
//! trip the bytes that the user has read are counted. The peer cannot have had more than
//! the window in flight, so a buffer of twice that count leaves room for its window to
//! double, and the buffer never limits it.

use crate::codec::saved_part;
use crate::pos::{NO_POS, Pos};
use crate::short_window::ShortWindow;
use crate::time::Instant;

/// The receive buffer's size and the state of its tuning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveBuffer {
    /// Bytes that may be unread.
    size: u32,
    /// Upper bound of its growth; not above `size` if it is fixed.
    max: u32,
    /// How far memory allows it to grow at present, bytes.
    room: u32,
    /// Most bytes read in a round trip so far.
    space: u32,
    /// The receiver's round-trip time, microseconds; 0 if unknown.
    rtt_us: u32,
    /// The window field of the last segment.
    advertised_field: u16,
    /// What the peer was told while memory is short.
    pub(crate) short: ShortWindow,
    /// RCV.NXT plus the read position when that segment was sent; as neither decreases,
    /// an equal sum means that both are unchanged. `NO_POS` if the buffer has changed
    /// since.
    advertised_at: Pos,
    /// The read position when the present count began.
    mark: Pos,
    mark_at: Instant,
    /// Without timestamps: a round trip ends when RCV.NXT reaches this position.
    rtt_mark: Pos,
    rtt_mark_at: Instant,
}

saved_part!(ReceiveBuffer {
    saved {
        size, max, room, space, rtt_us,
    }
    rebuilt {
        advertised_field: 0,
        short: ShortWindow::NONE,
        advertised_at: NO_POS,
        mark: 0,
        mark_at: Instant(0),
        rtt_mark: 0,
        rtt_mark_at: Instant(0),
    }
});

impl ReceiveBuffer {
    pub(crate) const fn new(size: u32, max: u32, now: Instant) -> ReceiveBuffer {
        ReceiveBuffer {
            size,
            max,
            room: u32::MAX,
            space: 0,
            rtt_us: 0,
            advertised_field: 0,
            short: ShortWindow::NONE,
            advertised_at: NO_POS,
            mark: 0,
            mark_at: now,
            rtt_mark: 0,
            rtt_mark_at: now,
        }
    }

    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    /// The window field of the last segment, if it is still valid; `at` is RCV.NXT plus
    /// the read position.
    #[inline(always)]
    pub(crate) fn advertised(&self, at: Pos) -> Option<u16> {
        (self.advertised_at == at).then_some(self.advertised_field)
    }

    /// The next segment has this window field, which is returned.
    pub(crate) fn advertise(&mut self, at: Pos, field: u16) -> u16 {
        self.advertised_at = at;
        self.advertised_field = field;
        field
    }

    /// Invalidates the last window field, because the buffer has changed.
    pub(crate) fn forget_advertised(&mut self) {
        self.advertised_at = NO_POS;
    }

    /// Sets how far memory allows it to grow at present, bytes.
    pub(crate) fn set_room(&mut self, bytes: u32) {
        self.room = bytes;
    }

    /// Whether it no longer grows.
    pub(crate) const fn is_fixed(&self) -> bool {
        self.size >= self.max
    }

    /// Restarts the count, with the user's read position at `consumed`.
    pub(crate) fn restart(&mut self, consumed: Pos, now: Instant) {
        self.mark = consumed;
        self.mark_at = now;
    }

    /// The receiver's round-trip time in microseconds, 0 if unknown.
    pub(crate) const fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// Most bytes read in a round trip.
    pub(crate) const fn space(&self) -> u32 {
        self.space
    }

    /// The user has set the size (SO_RCVBUF): tuning ends. The advertised window is not
    /// taken back, so a smaller buffer takes effect as data is read.
    pub(crate) fn fix(&mut self, size: u32) {
        self.size = size;
        self.max = size;
    }

    /// The user waits for so much at once: tuning goes on from `size`.
    pub(crate) fn grow(&mut self, size: u32) {
        self.size = self.size.max(size.min(self.max));
    }

    /// A sample of the receiver's round-trip time. The minimum is kept, but it may
    /// increase slowly if the path changes.
    pub(crate) fn sample_rtt(&mut self, micros: u64) {
        let sample = micros.clamp(1, 10_000_000) as u32;
        self.rtt_us = match self.rtt_us {
            0 => sample,
            old if sample < old => sample,
            old => old + ((sample - old) >> 5),
        };
    }

    /// Without timestamps: one window of data takes at least a round trip.
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

    /// The user has read up to `consumed`. Returns whether the buffer has grown.
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
        // Twice what was read, and as much again for the expected growth: in slow start
        // the peer's window doubles before the new size is advertised.
        let growth = if space == 0 { 0 } else { copied - space };
        let wanted = 2 * (copied + growth) + 16 * u64::from(mss);
        let wanted = wanted.min(u64::from(self.max.min(self.room))) as u32;
        let grows = wanted > self.size;
        self.size = self.size.max(wanted);
        grows
    }
}

/// The scale needed to advertise a window of `max` bytes (RFC 7323 section 2.3: at most
/// 14).
pub(crate) fn scale_for(max: u32) -> u8 {
    let mut scale = 0;
    while scale < 14 && (max >> scale) > 0xffff {
        scale += 1;
    }
    scale
}

#[cfg(test)]
mod tests;
