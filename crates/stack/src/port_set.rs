//! A set of ports, in which a port that is not in it is found in bounded time.
//!
//! `demux` has one of those that are bound, one of those that connections hold, and one for each
//! destination to which hardly a port is left; `local_ports` has one of those that are reserved.

use std::ops::{Range, RangeInclusive};

/// Words of 64 ports.
const WORDS: usize = 1024;

/// A bit for each port.
#[derive(Debug, Clone)]
pub(crate) struct PortSet(Box<[u64; WORDS]>);

impl Default for PortSet {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl PortSet {
    /// Puts a port in, or takes it out.
    pub(crate) fn set(&mut self, port: u16, is_in: bool) {
        let bit = 1 << (port % 64);
        let Some(word) = self.0.get_mut(usize::from(port / 64)) else {
            return;
        };
        if is_in {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    pub(crate) fn contains(&self, port: u16) -> bool {
        self.word(usize::from(port / 64)) & 1 << (port % 64) != 0
    }

    fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    /// How many of `range` are in it.
    pub(crate) fn count(&self, range: &RangeInclusive<u16>) -> u32 {
        let range = wide(range);
        let words = (range.start / 64) as usize..=((range.end - 1) / 64) as usize;
        words
            .map(|word| (self.word(word) & within(word, &range)).count_ones())
            .sum()
    }

    /// The first port of `range` that is in none of these sets, looked for from `start` on
    /// and then from the beginning: in as many steps as the range has words, at most.
    pub(crate) fn first_free(
        sets: &[&Self],
        range: &RangeInclusive<u16>,
        start: u16,
    ) -> Option<u16> {
        let (range, start) = (wide(range), u32::from(start));
        let free = |part: Range<u32>| {
            if part.is_empty() {
                return None;
            }
            ((part.start / 64) as usize..=((part.end - 1) / 64) as usize).find_map(|word| {
                let used = sets.iter().fold(0, |all, set| all | set.word(word));
                let free = !used & within(word, &part);
                (free != 0).then(|| (word * 64) as u16 + free.trailing_zeros() as u16)
            })
        };
        free(start..range.end).or_else(|| free(range.start..start))
    }
}

/// The range up to one past its last port, which may be the last that there is.
fn wide(range: &RangeInclusive<u16>) -> Range<u32> {
    u32::from(*range.start())..u32::from(*range.end()) + 1
}

/// Which bits of a word are of ports in `range`.
fn within(word: usize, range: &Range<u32>) -> u64 {
    let first = word as u32 * 64;
    let low = range.start.saturating_sub(first).min(64);
    let high = range.end.saturating_sub(first).min(64);
    let below = |n: u32| if n == 64 { u64::MAX } else { (1 << n) - 1 };
    below(high) & !below(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_walk_finds(
            used in proptest::collection::vec(1_000u16..1_300, 0..600),
            (start, from, len) in (1_000u16..1_300, 1_000u16..1_100, 1u16..200))
        {
            let (mut one, mut other) = (PortSet::default(), PortSet::default());
            for (i, port) in used.iter().enumerate() {
                if i % 2 == 0 { one.set(*port, true) } else { other.set(*port, true) }
            }
            let range = from..=from + (len - 1);
            let start = start.clamp(*range.start(), *range.end());
            let mut walk = (start..=*range.end()).chain(*range.start()..start);
            let found = walk.find(|p| !used.contains(p));
            prop_assert_eq!(PortSet::first_free(&[&one, &other], &range, start), found);
            let count = range.clone().filter(|p| one.contains(*p)).count() as u32;
            prop_assert_eq!(one.count(&range), count);
        }
    }

    #[test]
    fn the_last_port_of_all_is_one() {
        let (mut set, range) = (PortSet::default(), 65_000..=u16::MAX);
        assert_eq!(
            PortSet::first_free(&[&set], &range, u16::MAX),
            Some(u16::MAX)
        );
        set.set(u16::MAX, true);
        assert_eq!(PortSet::first_free(&[&set], &range, u16::MAX), Some(65_000));
        assert_eq!((set.count(&range), set.count(&(1..=u16::MAX))), (1, 1));
        assert_eq!(
            PortSet::first_free(&[&set], &(u16::MAX..=u16::MAX), u16::MAX),
            None
        );
    }

    #[test]
    fn what_is_taken_out_is_free_again() {
        let mut set = PortSet::default();
        for port in [0, 63, 64, u16::MAX] {
            set.set(port, true);
            assert!(set.contains(port));
            set.set(port, false);
            assert!(!set.contains(port));
        }
    }
}
