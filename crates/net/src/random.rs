//! Numbers that look random, for times that are to be spread. Owned by whoever draws
//! them, [`dhcp`](crate::dhcp), [`router`](crate::router) and [`groups`](crate::groups),
//! from a seed of the engine's.

/// A row of numbers (Marsaglia's xorshift).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The row that begins with `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        // From zero no other number follows.
        Self(seed | 1)
    }

    /// The next of the row.
    pub(crate) const fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
