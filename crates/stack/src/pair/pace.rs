//! The pace that a program has set for what it sends (SO_MAX_PACING_RATE), kept to between two
//! sockets of one engine, too, as Linux keeps to it on its loopback. `copy` asks how much may
//! go, and notes when the next may.

use crate::socket::Options;
use longshore_tcp::Instant;

/// What goes at once is what the pace lets through in this time, microseconds, as Linux has
/// it (pacing shift), and no less than [`LEAST`].
const SLICE_US: u64 = 1_000;
/// Two segments of Ethernet, bytes.
const LEAST: u64 = 2 * 1448;

/// Bytes a second, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace(u64);

impl Pace {
    /// The one that is set; as in Linux, zero is none.
    pub(super) fn of(options: &Options) -> Option<Self> {
        match options.tcp.max_pacing_rate {
            u64::MAX | 0 => None,
            rate => Some(Self(rate)),
        }
    }

    /// Bytes that may go together.
    pub(super) fn at_once(self) -> u64 {
        (self.0 / (1_000_000 / SLICE_US)).max(LEAST)
    }

    /// When the next bytes may go after `len` of them have at `now`, which were allowed to
    /// from `since` on. Bytes that are late by less than a slice cost no time.
    pub(super) fn after(self, len: u64, since: Instant, now: Instant) -> Instant {
        let late = now.since(since);
        let takes = u128::from(len) * 1_000_000 / u128::from(self.0);
        let takes = u64::try_from(takes).unwrap_or(u64::MAX);
        now.after_us(takes.saturating_sub(late.min(SLICE_US)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let pace = Pace(1_000_000);
        let now = Instant(0).after_us(5_000_000);
        assert_eq!(pace.after(3_000, now, now), now.after_us(3_000));
        // A slice of lateness is made good, and no more.
        let since = Instant(0).after_us(4_999_600);
        assert_eq!(pace.after(3_000, since, now), now.after_us(2_600));
        assert_eq!(pace.after(3_000, Instant(0), now), now.after_us(2_000));
        assert_eq!(pace.at_once(), LEAST);
        assert_eq!(Pace(100_000_000).at_once(), 100_000);
        // A byte a second, and as much as there is.
        assert!(Pace(1).after(u64::MAX, now, now) > now);
    }
}
