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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_clock_counts_microseconds_since_the_engine_was_made_and_is_never_at_zero() {
        let began = std::time::Instant::now();
        let mut clock = Clock::new();
        let first = clock.now();
        assert!(first.0 >= 1);
        std::thread::sleep(Duration::from_millis(5));
        let passed = clock.now().0 - first.0;
        let all = began.elapsed().as_micros() as u64;
        assert!((4_000..=all).contains(&passed), "{passed} of {all}");
        clock.advance(7_000_000);
        assert!(clock.now().0 >= 7_000_000);
        // However soon it is read.
        assert!((0..1_000).all(|_| Clock::new().now().0 != 0));
    }

    #[test]
    fn the_time_of_day_is_that_of_the_system() {
        let seconds = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.unwrap().as_secs()
        };
        let (before, now, after) = (seconds(), wall_clock_ns(), seconds());
        assert!((before..=after).contains(&(now / 1_000_000_000)));
    }
}
