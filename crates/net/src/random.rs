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

#[cfg(test)]
mod tests {
    use super::*;

    /// Marsaglia's generator with the shifts 13, 7 and 17, from 1.
    #[test]
    fn the_numbers_are_those_of_xorshift64() {
        for seed in [0, 1] {
            let mut random = Random::new(seed);
            let drawn = [random.draw(), random.draw(), random.draw()];
            let known = [
                1_082_269_761,
                1_152_992_998_833_853_505,
                11_177_516_664_432_764_457,
            ];
            assert_eq!(drawn, known, "{seed}");
        }
    }
}
