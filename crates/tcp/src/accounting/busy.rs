//! How long the connection has had something to deliver, how long of that the peer's
//! window or the send buffer alone held it up, and how long it was at repairing what
//! timeouts had found: Linux's tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited and
//! tcpi_total_rto_time.
//!
//! Owns [`BusyTimes`]. The first runs while something is in flight, or something written
//! waits with nothing in flight. `output/` says when either begins and when the window is
//! what holds data back, `input/` when all is acknowledged, `timeouts.rs` when a timer has
//! run out, and the engine after each burst how large the send buffer is; `info.rs` reads
//! it.

use super::Accounting;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::flight::Phase;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::{Instant, MS};

/// Times of a connection, in microseconds if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusyTimes {
    /// The sum of the busy periods that are over; less the beginning of the present
    /// one, if one is under way (so that either end is one addition).
    sum: u64,
    /// The same of the times at the window's edge and at the end of the send buffer, in
    /// milliseconds, which is as fine as Linux's.
    window_limited: u32,
    buffer_limited: u32,
}

impl BusyTimes {
    pub(crate) const fn new() -> BusyTimes {
        BusyTimes {
            sum: 0,
            window_limited: 0,
            buffer_limited: 0,
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

impl Accounting {
    /// Something that is written waits with nothing in flight.
    pub(crate) fn begin_waiting(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::WAITING) {
            *flags |= Flags::WAITING;
            self.busy.begin(now);
        }
    }

    /// The first thing goes out where nothing was in flight.
    #[inline(always)]
    pub(crate) fn begin_flight(&mut self, flags: &mut Flags, now: Instant) {
        if flags.contains(Flags::WAITING) {
            flags.remove(Flags::WAITING);
        } else {
            self.busy.begin(now);
        }
    }

    /// The peer's window alone holds back what is to be sent next.
    pub(crate) fn begin_window_limit(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::WINDOW_LIMITED) {
            *flags |= Flags::WINDOW_LIMITED;
            self.busy.window_limited = self.busy.window_limited.wrapping_sub(now.millis32());
        }
    }

    /// New data goes out: whatever held it back does no more.
    pub(crate) fn end_window_limit(&mut self, flags: &mut Flags, now: Instant) {
        flags.remove(Flags::WINDOW_LIMITED);
        self.busy.window_limited = self.busy.window_limited.wrapping_add(now.millis32());
    }

    /// The send buffer alone holds the user up.
    pub(crate) fn begin_buffer_limit(&mut self, flags: &mut Flags, now: Instant) {
        *flags |= Flags::BUFFER_LIMITED;
        self.busy.buffer_limited = self.busy.buffer_limited.wrapping_sub(now.millis32());
    }

    /// The user hears of room in it.
    pub(crate) fn end_buffer_limit(&mut self, flags: &mut Flags, now: Instant) {
        flags.remove(Flags::BUFFER_LIMITED);
        self.busy.buffer_limited = self.busy.buffer_limited.wrapping_add(now.millis32());
    }

    /// The retransmission timer has run out.
    pub(crate) fn begin_timeout_repair(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::REPAIRS_TIMEOUT) {
            *flags |= Flags::REPAIRS_TIMEOUT;
            self.counters.timeout_repairs = self.counters.timeout_repairs.saturating_add(1);
            let sum = self.counters.timeout_repair_ms;
            self.counters.timeout_repair_ms = sum.wrapping_sub(now.millis32());
        }
    }

    /// An acknowledgment was dealt with: what a timeout found may be repaired by now.
    #[inline]
    pub(crate) fn end_timeout_repair(&mut self, flight: &Flight, flags: &mut Flags, now: Instant) {
        if flags.contains(Flags::REPAIRS_TIMEOUT) && flight.recovery.phase != Phase::Loss {
            flags.remove(Flags::REPAIRS_TIMEOUT);
            let sum = self.counters.timeout_repair_ms;
            self.counters.timeout_repair_ms = sum.wrapping_add(now.millis32());
        }
    }

    /// tcpi_sndbuf_limited at `now`, in microseconds.
    pub(crate) fn buffer_limited_us(&self, flags: Flags, now: Instant) -> u64 {
        let running = flags.contains(Flags::BUFFER_LIMITED);
        MS * u64::from(until_ms(self.busy.buffer_limited, running, now))
    }

    /// tcpi_total_rto_time at `now`, in milliseconds.
    pub(crate) fn timeout_repair_ms(&self, flags: Flags, now: Instant) -> u32 {
        let running = flags.contains(Flags::REPAIRS_TIMEOUT);
        until_ms(self.counters.timeout_repair_ms, running, now)
    }

    /// tcpi_busy_time at `now`.
    pub(crate) fn busy_us(&self, snd: &SendSide, flags: Flags, state: State, now: Instant) -> u64 {
        let flying = snd.in_flight() > 0 && !state.is_opening();
        let running = flying || flags.contains(Flags::WAITING);
        if running {
            self.busy.sum.wrapping_add(now.0)
        } else {
            self.busy.sum
        }
    }

    /// tcpi_rwnd_limited at `now`.
    pub(crate) fn window_limited_us(&self, flags: Flags, now: Instant) -> u64 {
        let running = flags.contains(Flags::WINDOW_LIMITED);
        MS * u64::from(until_ms(self.busy.window_limited, running, now))
    }
}

/// What a sum in milliseconds comes to at `now`; `running`: a period of it is under way.
fn until_ms(sum: u32, running: bool, now: Instant) -> u32 {
    if running {
        sum.wrapping_add(now.millis32())
    } else {
        sum
    }
}

#[cfg(test)]
mod tests;
