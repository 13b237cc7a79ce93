//! Sequence numbers: 32 bits with wrap-around (RFC 9293 section 3.4).

use core::fmt;

/// A sequence number. Comparison uses the shorter distance around the circle, so there is
/// no total order and no `Ord`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// The number plus `n`.
    #[inline]
    #[must_use]
    pub const fn add(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number minus `n`.
    #[inline]
    #[must_use]
    pub const fn back(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }

    /// The distance from `other`; negative if it is before it.
    #[inline]
    #[must_use]
    pub const fn sub(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether it is before `other`.
    #[inline]
    #[must_use]
    pub const fn lt(self, other: Self) -> bool {
        self.sub(other) < 0
    }

    /// Whether it is before or equal to `other`.
    #[inline]
    #[must_use]
    pub const fn le(self, other: Self) -> bool {
        self.sub(other) <= 0
    }

    /// Whether it is after `other`.
    #[inline]
    #[must_use]
    pub const fn gt(self, other: Self) -> bool {
        self.sub(other) > 0
    }

    /// Whether it is after or equal to `other`.
    #[inline]
    #[must_use]
    pub const fn ge(self, other: Self) -> bool {
        self.sub(other) >= 0
    }

    /// The later of two numbers.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.ge(other) { self } else { other }
    }

    /// The earlier of two numbers.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.le(other) { self } else { other }
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_that_of_the_distance(a: u32, d in 1u32..0x7fff_ffff) {
            let (x, y) = (SeqNumber(a), SeqNumber(a).add(d));
            prop_assert!(x.lt(y) && y.gt(x) && x.le(y) && y.ge(x));
            prop_assert!(!y.lt(x) && !x.gt(y) && !y.le(x) && !x.ge(y));
            prop_assert!(!x.lt(x) && !x.gt(x) && x.le(x) && x.ge(x));
            prop_assert_eq!(y.sub(x), d as i32);
            prop_assert_eq!(y.back(d), x);
            prop_assert_eq!((x.max(y), y.max(x), x.min(y), y.min(x)), (y, y, x, x));
        }
    }

    #[test]
    fn wraps() {
        assert!(SeqNumber(u32::MAX).lt(SeqNumber(0)));
        assert!(SeqNumber(5).le(SeqNumber(5)) && SeqNumber(5).ge(SeqNumber(5)));
    }
}
