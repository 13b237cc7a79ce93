//! How long the connection has had something to deliver, and how long of that the
//! peer's window alone held it up: Linux's tcpi_busy_time and tcpi_rwnd_limited.
//!
//! Owns [`BusyTimes`]. It runs while something is in flight, or something written waits
//! with nothing in flight. `output/` says when either begins and when the window is what
//! holds data back, `input/` when all is acknowledged; `info.rs` reads it.

use crate::tcb::{Flags, Tcb};
use crate::time::Instant;

/// Times of a connection, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusyTimes {
    /// The sum of the busy periods that are over; less the beginning of the present
    /// one, if one is under way (so that either end is one addition).
    sum: u64,
    /// The same of the times at the window's edge.
    window_limited: u64,
}

impl BusyTimes {
    pub(crate) const fn new() -> BusyTimes {
        BusyTimes {
            sum: 0,
            window_limited: 0,
        }
    }

    /// A busy period begins.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.sum = self.sum.wrapping_sub(now.0);
    }

    /// All that was in flight is acknowledged.
    #[inline(always)]
    pub(crate) fn end(&mut self, now: Instant) {
        self.sum = self.sum.wrapping_add(now.0);
    }
}

impl Tcb {
    /// Something that is written waits with nothing in flight.
    pub(crate) fn begin_waiting(&mut self, now: Instant) {
        if !self.flags.contains(Flags::WAITING) {
            self.flags |= Flags::WAITING;
            self.busy.begin(now);
        }
    }

    /// The first thing goes out where nothing was in flight.
    #[inline(always)]
    pub(crate) fn begin_flight(&mut self, now: Instant) {
        if self.flags.contains(Flags::WAITING) {
            self.flags.remove(Flags::WAITING);
        } else {
            self.busy.begin(now);
        }
    }

    /// The peer's window alone holds back what is to be sent next.
    pub(crate) fn begin_window_limit(&mut self, now: Instant) {
        if !self.flags.contains(Flags::WINDOW_LIMITED) {
            self.flags |= Flags::WINDOW_LIMITED;
            self.busy.window_limited = self.busy.window_limited.wrapping_sub(now.0);
        }
    }

    /// New data goes out: whatever held it back does no more.
    pub(crate) fn end_window_limit(&mut self, now: Instant) {
        self.flags.remove(Flags::WINDOW_LIMITED);
        self.busy.window_limited = self.busy.window_limited.wrapping_add(now.0);
    }

    /// tcpi_busy_time at `now`.
    pub(crate) fn busy_us(&self, now: Instant) -> u64 {
        let flying = self.in_flight() > 0 && !self.is_opening();
        if flying || self.flags.contains(Flags::WAITING) {
            self.busy.sum.wrapping_add(now.0)
        } else {
            self.busy.sum
        }
    }

    /// tcpi_rwnd_limited at `now`.
    pub(crate) fn window_limited_us(&self, now: Instant) -> u64 {
        if self.flags.contains(Flags::WINDOW_LIMITED) {
            self.busy.window_limited.wrapping_add(now.0)
        } else {
            self.busy.window_limited
        }
    }
}

#[cfg(test)]
mod tests;
