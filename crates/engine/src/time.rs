//! The loop's clock: one reading per turn, handed down to everything below.

use longshore_tcp::Instant;
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since the engine was made, from the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    start: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }

    /// Now. Never 0, so that 0 can mean "never" in tables.
    pub(crate) fn now(&self) -> Instant {
        Instant(self.start.elapsed().as_micros() as u64 + 1)
    }

    /// So many microseconds go by at once.
    #[cfg(test)]
    pub(crate) fn advance(&mut self, microseconds: u64) {
        self.start -= std::time::Duration::from_micros(microseconds);
    }
}

/// The time of day, in nanoseconds since 1970 (CLOCK_REALTIME): for programs that ask when
/// a datagram came, and nothing else.
pub(crate) fn wall_clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
