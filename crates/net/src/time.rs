//! Virtual time: microseconds since an origin that the caller chose.

/// A point in time, in microseconds since an arbitrary origin. It must not go backwards
/// from one call to the next; if it does, differences count as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The time `millis` milliseconds later; saturates on overflow.
    #[must_use]
    pub const fn after_ms(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(1_000)))
    }

    /// Microseconds from `earlier` to this time, 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
