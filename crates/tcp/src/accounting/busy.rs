//! Limits on sending, in time: how long the connection has had data to deliver, how long
//! the peer's window or the send buffer alone delayed it, and how long it took to recover
//! from timeouts. Linux has these as tcpi_busy_time, tcpi_rwnd_limited,
//! tcpi_sndbuf_limited and tcpi_total_rto_time.
//!
//! Owns [`BusyTimes`]. A busy period lasts while data is in flight, or written data waits
//! with nothing in flight. `output/` reports when either begins and when the window
//! limits sending, `input/` when everything is acknowledged, `timeouts.rs` when a timer
//! has expired, and the engine, after each burst, the size of the send buffer. `info.rs`
//! reads the times.

use super::Accounting;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::flight::Phase;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::{Instant, MS};

/// Times of a connection, in microseconds unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusyTimes {
    /// The sum of all finished busy periods, minus the start of the current one, if there
    /// is one (so that starting and ending one is a single addition each).
    sum: u64,
    /// The times limited by the window and by the send buffer, summed up in the same way
    /// in milliseconds, which is Linux's resolution.
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

    /// Everything in flight is acknowledged: the busy period ends.
    #[inline(always)]
    pub(crate) fn end(&mut self, now: Instant) {
        self.sum = self.sum.wrapping_add(now.0);
    }
}

impl Accounting {
    /// Written data begins to wait with nothing in flight.
    pub(crate) fn begin_waiting(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::WAITING) {
            *flags |= Flags::WAITING;
            self.busy.begin(now);
        }
    }

    /// The first segment is sent while nothing was in flight.
    #[inline(always)]
    pub(crate) fn begin_flight(&mut self, flags: &mut Flags, now: Instant) {
        if flags.contains(Flags::WAITING) {
            flags.remove(Flags::WAITING);
        } else {
            self.busy.begin(now);
        }
    }

    /// The peer's window becomes the only limit on sending.
    pub(crate) fn begin_window_limit(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::WINDOW_LIMITED) {
            *flags |= Flags::WINDOW_LIMITED;
            self.busy.window_limited = self.busy.window_limited.wrapping_sub(now.millis32());
        }
    }

    /// New data is sent: the window no longer limits sending.
    pub(crate) fn end_window_limit(&mut self, flags: &mut Flags, now: Instant) {
        flags.remove(Flags::WINDOW_LIMITED);
        self.busy.window_limited = self.busy.window_limited.wrapping_add(now.millis32());
    }

    /// The send buffer becomes the only limit on the user.
    pub(crate) fn begin_buffer_limit(&mut self, flags: &mut Flags, now: Instant) {
        *flags |= Flags::BUFFER_LIMITED;
        self.busy.buffer_limited = self.busy.buffer_limited.wrapping_sub(now.millis32());
    }

    /// The user is notified of space in the send buffer.
    pub(crate) fn end_buffer_limit(&mut self, flags: &mut Flags, now: Instant) {
        flags.remove(Flags::BUFFER_LIMITED);
        self.busy.buffer_limited = self.busy.buffer_limited.wrapping_add(now.millis32());
    }

    /// The retransmission timer has expired.
    pub(crate) fn begin_timeout_recovery(&mut self, flags: &mut Flags, now: Instant) {
        if !flags.contains(Flags::TIMEOUT_RECOVERY) {
            *flags |= Flags::TIMEOUT_RECOVERY;
            self.counters.timeout_recoveries = self.counters.timeout_recoveries.saturating_add(1);
            let sum = self.counters.timeout_recovery_ms;
            self.counters.timeout_recovery_ms = sum.wrapping_sub(now.millis32());
        }
    }

    /// An acknowledgment was processed, which may have completed the recovery from a
    /// timeout.
    #[inline]
    pub(crate) fn end_timeout_recovery(
        &mut self,
        flight: &Flight,
        flags: &mut Flags,
        now: Instant,
    ) {
        if flags.contains(Flags::TIMEOUT_RECOVERY) && flight.recovery.phase != Phase::Loss {
            flags.remove(Flags::TIMEOUT_RECOVERY);
            let sum = self.counters.timeout_recovery_ms;
            self.counters.timeout_recovery_ms = sum.wrapping_add(now.millis32());
        }
    }

    /// tcpi_sndbuf_limited at `now`, in microseconds.
    pub(crate) fn buffer_limited_us(&self, flags: Flags, now: Instant) -> u64 {
        let running = flags.contains(Flags::BUFFER_LIMITED);
        MS * u64::from(until_ms(self.busy.buffer_limited, running, now))
    }

    /// tcpi_total_rto_time at `now`, in milliseconds.
    pub(crate) fn timeout_recovery_ms(&self, flags: Flags, now: Instant) -> u32 {
        let running = flags.contains(Flags::TIMEOUT_RECOVERY);
        until_ms(self.counters.timeout_recovery_ms, running, now)
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

/// The value of a sum in milliseconds at `now`; `running` says that a period has begun.
fn until_ms(sum: u32, running: bool, now: Instant) -> u32 {
    if running {
        sum.wrapping_add(now.millis32())
    } else {
        sum
    }
}

#[cfg(test)]
mod tests;
