//! The waiters that this process has given back. They are claimed again before others: the engine
//! has made eventfds for them, and makes one anew in the place of the old one.
//!
//! Owns [`GivenBack`], which the host has, and a child of `fork` a copy of. Another process may
//! have claimed one of them meanwhile, so each is only a proposal.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each waiter of the session.
#[derive(Debug)]
pub(crate) struct GivenBack {
    words: Box<[AtomicU64]>,
}

impl GivenBack {
    /// None of so many.
    pub(crate) fn new(waiters: u32) -> Self {
        let words = waiters.div_ceil(u64::BITS);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The waiter of this index is free.
    pub(crate) fn add(&self, index: u32) {
        if let Some(word) = self.words.get((index / u64::BITS) as usize) {
            word.fetch_or(1 << (index % u64::BITS), Ordering::Relaxed);
        }
    }

    /// The lowest of them, which is not among them any more.
    pub(crate) fn take(&self) -> Option<u32> {
        for (at, word) in self.words.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let lowest = bits.trailing_zeros();
                let bit = 1 << lowest;
                bits = word.fetch_and(!bit, Ordering::Relaxed);
                if bits & bit != 0 {
                    return Some(at as u32 * u64::BITS + lowest);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_is_taken_first_and_each_once() {
        let given_back = GivenBack::new(130);
        assert_eq!(given_back.take(), None);
        for index in [129, 64, 5, 63, 5, 200] {
            given_back.add(index);
        }
        let all: Vec<u32> = std::iter::from_fn(|| given_back.take()).collect();
        assert_eq!(all, [5, 63, 64, 129]);
    }

    #[test]
    fn threads_that_take_at_once_get_different_ones() {
        const MANY: u32 = 1_000;
        let given_back = GivenBack::new(MANY);
        (0..MANY).for_each(|index| given_back.add(index));
        let mut all: Vec<u32> = std::thread::scope(|scope| {
            let take_all = || std::iter::from_fn(|| given_back.take()).collect::<Vec<_>>();
            let threads = [(); 4].map(|()| scope.spawn(take_all));
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..MANY).collect::<Vec<_>>());
    }
}
