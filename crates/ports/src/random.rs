//! Reproducible random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014).

/// The generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // 53 random bits, as many as an f64 holds exactly. Drawn even if the result is
        // certain, so that one rate does not change the sequence of the others.
        let draw = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        draw < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_rates_are_met() {
        let draw = |seed| {
            let mut r = Random::new(seed);
            (0..10).map(|_| r.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let mut r = Random::new(1);
        let hits = (0..100_000).filter(|_| r.chance(0.02)).count();
        assert!((1800..2200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| r.below(3) < 3));
        assert!(!r.chance(0.0) && r.chance(1.0));
    }
}
