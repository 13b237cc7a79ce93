//! Pseudo-random numbers for randomised intervals. [`dhcp`](crate::dhcp),
//! [`router`](crate::router) and [`groups`](crate::groups) each own a generator, with a
//! seed from the engine.

/// A pseudo-random number generator (Marsaglia's xorshift).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub(crate) const fn new(seed: u64) -> Self {
        // Zero is a fixed point of xorshift.
        Self(seed | 1)
    }

    /// The next number.
    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
