//! The threads that wait for a socket: the list of them in its block, which the engine reads
//! when something has happened to the socket.
//!
//! Called by `sockets` before and after it sleeps, and by the adapter's half when it wakes.

use super::SocketBlock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of the name of one, a word has four of them: most blocks list none, which two loads
/// show.
const NAME_BITS: u32 = 16;

const NAME: u64 = (1 << NAME_BITS) - 1;

/// Where `name` stands in a word of waiters' names, 0 for a free place.
fn place_of(word: u64, name: u16) -> Option<u32> {
    let mut places = (0..u64::BITS).step_by(NAME_BITS as usize);
    places.find(|shift| word >> shift & NAME == u64::from(name))
}

impl SocketBlock {
    /// Lists `waiter` as one to be woken for this socket.
    pub fn add_waiter(&self, waiter: u32) {
        let name = waiter as u16 + 1;
        let has_it = |word: &AtomicU64| place_of(word.load(Ordering::Acquire), name).is_some();
        if self.waiters.iter().any(has_it) {
            return;
        }
        let enter = |word: u64| Some(word | u64::from(name) << place_of(word, 0)?);
        if !self.change_waiters(enter) {
            self.unlisted_waiters.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes `waiter` off the list again.
    pub fn remove_waiter(&self, waiter: u32) {
        let name = waiter as u16 + 1;
        let leave = |word: u64| Some(word & !(NAME << place_of(word, name)?));
        if !self.change_waiters(leave) {
            let _ = self
                .unlisted_waiters
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| n.checked_sub(1));
        }
    }

    /// Changes the first word of waiters that `change` has something for; whether there was
    /// one.
    fn change_waiters(&self, change: impl Fn(u64) -> Option<u64>) -> bool {
        self.waiters.iter().any(|word| {
            word.fetch_update(Ordering::AcqRel, Ordering::Acquire, &change)
                .is_ok()
        })
    }

    /// Whether any waiter waits for this socket, listed or not.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        let listed = self.waiters.iter().map(|word| word.load(Ordering::Relaxed));
        let unlisted = self.unlisted_waiters.load(Ordering::Relaxed);
        listed.fold(u64::from(unlisted), |any, word| any | word) != 0
    }

    /// The waiters listed. What is not an index of a waiter is for the reader
    /// to leave out.
    #[inline]
    pub fn waiters(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiters.iter().flat_map(|word| {
            let mut rest = word.load(Ordering::Relaxed);
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let shift = rest.trailing_zeros() / NAME_BITS * NAME_BITS;
                let name = rest >> shift & NAME;
                rest &= !(NAME << shift);
                Some(name as u32 - 1)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::block::tests::block;
    use std::sync::atomic::Ordering;

    #[test]
    fn waiters_are_listed_once_and_counted_past_the_eighth() {
        let b = block();
        b.add_waiter(3);
        b.add_waiter(3);
        assert_eq!(b.waiters().collect::<Vec<_>>(), [3]);
        for w in 10..20 {
            b.add_waiter(w);
        }
        assert_eq!(b.waiters().count(), 8);
        assert_eq!(b.unlisted_waiters.load(Ordering::Relaxed), 3);
        b.remove_waiter(3);
        b.remove_waiter(19);
        assert_eq!(b.unlisted_waiters.load(Ordering::Relaxed), 2);
    }

    /// Each is found, and leaves, wherever it stands, and its place is the next one's.
    #[test]
    fn waiters_leave_in_any_order() {
        let all = [0, 1, 17, 255, 256, 0xfff0, 0xfffe, 7];
        for first in 0..all.len() {
            let b = block();
            assert!(!b.has_waiters());
            all.iter().for_each(|waiter| b.add_waiter(*waiter));
            assert_eq!(b.waiters().collect::<Vec<_>>(), all);
            let mut left = all.to_vec();
            for at in 0..all.len() {
                let waiter = all[(first + at) % all.len()];
                assert!(b.has_waiters());
                b.remove_waiter(waiter);
                left.retain(|other| *other != waiter);
                assert_eq!(b.waiters().collect::<Vec<_>>(), left);
            }
            assert!(!b.has_waiters());
            assert_eq!(b.unlisted_waiters.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn one_that_is_not_listed_is_one_of_those_that_are_counted() {
        let b = block();
        b.remove_waiter(3);
        assert_eq!(b.unlisted_waiters.load(Ordering::Relaxed), 0, "no fewer");
        b.unlisted_waiters.store(1, Ordering::Relaxed);
        assert!(b.has_waiters() && b.waiters().next().is_none());
        b.remove_waiter(3);
        assert!(!b.has_waiters());
    }

    /// The name of one that is listed may be the number of those that are not.
    #[test]
    fn some_that_are_listed_and_as_many_that_are_not_are_some() {
        let b = block();
        b.add_waiter(0);
        b.unlisted_waiters.store(1, Ordering::Relaxed);
        assert!(b.has_waiters());
    }
}
