//! The receive buffer: its size, and what tunes it.
//!
//! Owns [`ReceiveBuffer`], which `rcv.rs` keeps. Input feeds it the round trip as the
//! receiver sees it, `user.rs` tells what was read, `window.rs` asks for the size.
//!
//! **Auto-tuning** (dynamic right-sizing, Fisk and Feng 2001, as Linux uses it): in
//! each round trip the bytes that the user has read are counted. The peer cannot
//! have had more than the window in flight, so a buffer of twice that count leaves
//! room for its window to double, and the buffer is never what holds it back.

use crate::codec::saved_part;
use crate::pos::{NO_POS, Pos};
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
    advertised_field: u16,
    /// RCV.NXT and the read position together when it was made; as neither goes back,
    /// their sum is the same as long as both are. `NO_POS` if the buffer is another since.
    advertised_at: Pos,
    /// Where the user's reading stood when the present count began.
    mark: Pos,
    mark_at: Instant,
    /// Without timestamps: a window's worth from here is a round trip.
    rtt_mark: Pos,
    rtt_mark_at: Instant,
}

saved_part!(ReceiveBuffer {
    saved {
        size, max, room, space, rtt_us,
    }
    rebuilt {
        advertised_field: 0,
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

    /// The window field of the last segment, if that is still true where RCV.NXT and the
    /// read position together are `at`.
    #[inline(always)]
    pub(crate) fn advertised(&self, at: Pos) -> Option<u16> {
        (self.advertised_at == at).then_some(self.advertised_field)
    }

    /// The next segment has this window field; says which.
    pub(crate) fn advertise(&mut self, at: Pos, field: u16) -> u16 {
        self.advertised_at = at;
        self.advertised_field = field;
        field
    }

    /// The next window is not like the one before: the buffer is another.
    pub(crate) fn forget_advertised(&mut self) {
        self.advertised_at = NO_POS;
    }

    /// How far there is memory for it to grow now, bytes.
    pub(crate) fn set_room(&mut self, bytes: u32) {
        self.room = bytes;
    }

    /// Whether it does not grow any more.
    pub(crate) const fn is_fixed(&self) -> bool {
        self.size >= self.max
    }

    /// The count begins anew, where the user has read up to `consumed`.
    pub(crate) fn restart(&mut self, consumed: Pos, now: Instant) {
        self.mark = consumed;
        self.mark_at = now;
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

#[cfg(test)]
mod tests;
