//! Virtual time: microseconds since an origin that the caller chose.
//!
//! Owns [`Instant`], the only notion of time in this crate. Nothing here reads a clock;
//! every call that depends on time takes an `Instant`, so that a run can be replayed.
//! Values must not go backwards from one call to the next; if they do, differences count
//! as zero and nothing breaks.

use core::fmt;

/// Microseconds in a millisecond.
pub(crate) const MS: u64 = 1_000;
/// Microseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000;

/// A point in time, in microseconds since an arbitrary origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than every other time: a timer with this deadline is off.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The time `micros` microseconds later; saturates at `NEVER`.
    #[must_use]
    pub const fn after_us(self, micros: u64) -> Instant {
        Instant(self.0.saturating_add(micros))
    }

    /// The time `millis` milliseconds later; saturates at `NEVER`.
    #[must_use]
    pub const fn after_ms(self, millis: u64) -> Instant {
        self.after_us(millis.saturating_mul(MS))
    }

    /// The time `micros` microseconds later, without saturation.
    #[must_use]
    pub(crate) const fn soon(self, micros: u64) -> Instant {
        Instant(self.0.wrapping_add(micros))
    }

    /// The start of the next tick of `1 << granularity` microseconds.
    #[must_use]
    pub(crate) const fn next_tick(self, granularity: u8) -> Instant {
        Instant(self.0 | ((1 << granularity) - 1)).after_us(1)
    }

    /// Microseconds from `earlier` to this time, 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether this is [`Instant::NEVER`].
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// If this deadline has passed, it is off from now on; returns whether it had.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        let due = *self <= now && !self.is_never();
        if due {
            *self = Instant::NEVER;
        }
        due
    }

    /// The value of the wrapping millisecond clock for timestamps (RFC 7323 section 5.4
    /// requires a tick between 1 ms and 1 s).
    #[must_use]
    pub(crate) const fn millis32(self) -> u32 {
        (self.0 / MS) as u32
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() {
            f.write_str("never")
        } else {
            write!(f, "{}.{:06}s", self.0 / SECOND, self.0 % SECOND)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_tick_begins_with_the_next_multiple() {
        for (now, granularity, next) in [
            (0, 0, 1),
            (7, 0, 8),
            (0, 4, 16),
            (15, 4, 16),
            (16, 4, 32),
            (17, 4, 32),
        ] {
            assert_eq!(Instant(now).next_tick(granularity), Instant(next));
        }
    }
}
