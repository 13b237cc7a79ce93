//! Accounting of the time in which the send buffer alone limits the user.
//!
//! Owns [`BufferLimit`]: whether it does, which [`SendStream::note_buffer`](crate::SendStream) asks
//! after each burst; `busy.rs` sums the times up.

use super::Accounting;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;

/// Whether the send buffer alone limits the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferLimit {
    /// It does: it is full, everything in it was sent, and both windows have room.
    Begins,
    /// It does not: the user is notified of space, which is when a quarter of it is free.
    Ends,
    /// As before.
    Stays,
}

impl BufferLimit {
    /// What a send buffer of `size` bytes means for the user now.
    #[inline(never)]
    pub(crate) fn of(
        flight: &Flight,
        snd: &SendSide,
        congestion: &CongestionState,
        state: State,
        size: u32,
    ) -> BufferLimit {
        let (held, mss) = (snd.unacknowledged(), i64::from(snd.mss()));
        if snd.nxt() < snd.edge() || held < i64::from(size - size / 4) {
            return BufferLimit::Ends;
        }
        let limited = held >= i64::from(size)
            && state.may_write()
            && flight.congestion_room(snd, congestion) >= mss
            && snd.wnd_edge() - snd.nxt() >= mss;
        if limited {
            BufferLimit::Begins
        } else {
            BufferLimit::Stays
        }
    }
}

impl Accounting {
    /// Counts the time from when the send buffer alone limits the user to when it does not.
    pub(crate) fn note_buffer_limit(
        &mut self,
        limit: BufferLimit,
        flags: &mut Flags,
        now: Instant,
    ) {
        let limited = flags.contains(Flags::BUFFER_LIMITED);
        match limit {
            BufferLimit::Begins if !limited => self.begin_buffer_limit(flags, now),
            BufferLimit::Ends if limited => self.end_buffer_limit(flags, now),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
