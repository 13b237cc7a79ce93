//! Accounting of the time in which the send buffer alone limits the user.
//!
//! Owns [`Tcb::note_send_buffer`], which the engine calls after each burst;
//! `accounting/busy.rs` sums the times up.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use crate::tcb::Tcb;
use crate::time::Instant;

impl SendSide {
    /// Bytes that were written and are not acknowledged.
    #[inline]
    fn unacknowledged(&self) -> Pos {
        self.edge() - self.una()
    }
}

impl Tcb {
    /// The send buffer has `size` bytes (SO_SNDBUF). Called after each burst, when
    /// everything that may be sent was sent.
    #[inline]
    pub fn note_send_buffer(&mut self, size: u32, now: Instant) {
        if self.snd.unacknowledged() >= i64::from(size)
            || self.flags.contains(Flags::BUFFER_LIMITED)
        {
            self.update_buffer_limit(size, now);
        }
    }

    /// The send buffer alone limits the user if it is full, everything in it was sent,
    /// and both windows have room; this ends when the user is notified of space, which is
    /// when a quarter of it is free.
    #[inline(never)]
    fn update_buffer_limit(&mut self, size: u32, now: Instant) {
        let (held, mss) = (self.snd.unacknowledged(), i64::from(self.snd.mss()));
        let over = self.snd.nxt() < self.snd.edge() || held < i64::from(size - size / 4);
        let limited = !over
            && held >= i64::from(size)
            && self.state.may_write()
            && self.flight.congestion_room(&self.snd, &self.congestion) >= mss
            && self.snd.wnd_edge() - self.snd.nxt() >= mss;
        if limited && !self.flags.contains(Flags::BUFFER_LIMITED) {
            self.accounting.begin_buffer_limit(&mut self.flags, now);
        } else if over && self.flags.contains(Flags::BUFFER_LIMITED) {
            self.accounting.end_buffer_limit(&mut self.flags, now);
        }
    }
}

#[cfg(test)]
mod tests;
