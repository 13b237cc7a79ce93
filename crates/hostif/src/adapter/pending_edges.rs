//! Which sockets' edges a process has not been told for want of room in its completion
//! ring: each at most once, however often it moves, since edges are cumulative.
//!
//! Each end of a channel owns one; a socket is put in when there is no room for where its edges
//! are, and taken out when the process has made room. It takes no memory until the first overflow,
//! then one bit for each socket of the session, and putting in and taking out cost the same for any
//! number of them.

/// A set of socket indices that is emptied in turn.
#[derive(Debug, Default)]
pub(super) struct PendingEdges {
    /// A bit for each socket.
    words: Vec<u64>,
    /// A bit for each of the words that is not 0.
    summary: Vec<u64>,
    count: usize,
    /// Where taking goes on, so that each has its turn.
    next: usize,
}

/// The first bit at or after `from` in `words`.
fn first_from(words: &[u64], from: usize) -> Option<usize> {
    let (word, bit) = (from / 64, from % 64);
    let here = words.get(word)? & (u64::MAX << bit);
    let rest = words.iter().enumerate().skip(word + 1);
    let mut from_here = std::iter::once((word, here)).chain(rest.map(|(i, w)| (i, *w)));
    let (word, bits) = from_here.find(|(_, bits)| *bits != 0)?;
    Some(word * 64 + bits.trailing_zeros() as usize)
}

impl PendingEdges {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts a socket in, of `sockets` that there are.
    pub(super) fn insert(&mut self, index: u32, sockets: usize) {
        let index = index as usize;
        if self.words.is_empty() {
            self.words = vec![0; sockets.div_ceil(64)];
            self.summary = vec![0; self.words.len().div_ceil(64)];
        }
        let (word, bit) = (index / 64, 1 << (index % 64));
        if let Some(bits) = self.words.get_mut(word)
            && *bits & bit == 0
        {
            *bits |= bit;
            if let Some(summary) = self.summary.get_mut(word / 64) {
                *summary |= 1 << (word % 64);
            }
            self.count += 1;
        }
    }

    /// Takes the next one out.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let index = match self.first_from(self.next) {
            Some(index) => index,
            None => self.first_from(0)?,
        };
        let word = index / 64;
        let bits = self.words.get_mut(word)?;
        *bits &= !(1 << (index % 64));
        if *bits == 0
            && let Some(summary) = self.summary.get_mut(word / 64)
        {
            *summary &= !(1 << (word % 64));
        }
        self.count -= 1;
        self.next = index + 1;
        Some(index as u32)
    }

    fn first_from(&self, from: usize) -> Option<usize> {
        let (word, bit) = (from / 64, from % 64);
        let here = self.words.get(word)? & (u64::MAX << bit);
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        let word = first_from(&self.summary, word + 1)?;
        Some(word * 64 + self.words.get(word)?.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_is_taken_once_and_in_turn(steps in proptest::collection::vec(
            prop_oneof![(0u32..10_000).prop_map(Some), Just(None)], 0..300))
        {
            let (mut pending, mut model, mut next) = (PendingEdges::default(), BTreeSet::new(), 0);
            for step in steps {
                match step {
                    Some(index) => {
                        pending.insert(index, 10_000);
                        model.insert(index);
                    }
                    None => {
                        let due = model.range(next..).next().or(model.first()).copied();
                        prop_assert_eq!(pending.take(), due);
                        if let Some(index) = due {
                            model.remove(&index);
                            next = index + 1;
                        }
                    }
                }
                prop_assert_eq!(pending.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn an_index_that_cannot_be_is_left_out() {
        let mut pending = PendingEdges::default();
        pending.insert(u32::MAX, 64);
        assert_eq!(pending.take(), None);
    }
}
