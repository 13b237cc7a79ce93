//! The waiters of a session, which all its processes share: what a thread sleeps on until the
//! engine wakes it.
//!
//! A process claims one for each of its threads that sleeps and for each of its sets of sockets,
//! and gives it back; the engine gives back what a process had that has ended. `sockets` and
//! `link` reach them by [`HostSession::waiters`](super::HostSession::waiters).

use crate::transport::Arena;
use longshore_ring::Waiter;
use std::sync::atomic::Ordering;

/// The waiters of a session.
#[derive(Debug, Clone, Copy)]
pub struct Waiters<'a> {
    arena: &'a Arena,
}

impl<'a> Waiters<'a> {
    pub(super) fn of(arena: &'a Arena) -> Self {
        Self { arena }
    }

    /// A waiter that this process has claimed.
    ///
    /// # Panics
    /// If there is none of this index.
    #[must_use]
    pub fn at(self, index: u32) -> &'a Waiter {
        &self.arena.waiters()[index as usize]
    }

    /// The waiter of this index, if there is one.
    #[must_use]
    pub fn get(self, index: u32) -> Option<&'a Waiter> {
        self.arena.waiters().get(index as usize)
    }

    /// Claims a waiter for the process of this name, the first that is free from `start` on.
    #[must_use]
    pub fn claim(self, name: u32, start: u32) -> Option<u32> {
        let count = self.arena.waiters().len() as u32;
        (0..count)
            .map(|i| (start % count + i) % count)
            .find(|index| self.claim_this(name, *index))
    }

    /// Claims the waiter of this index for the process of this name, if it is free.
    #[must_use]
    pub fn claim_this(self, name: u32, index: u32) -> bool {
        let Some(waiter) = self.get(index) else {
            return false;
        };
        // Before it is claimed: should its process die, the engine looks so far for it.
        let end = &self.arena.header().waiters_end;
        if end.load(Ordering::Relaxed) <= index {
            end.fetch_max(index + 1, Ordering::AcqRel);
        }
        let owner = &waiter.owner;
        let is_free = owner.load(Ordering::Relaxed) == 0;
        let claim = || owner.compare_exchange(0, name, Ordering::AcqRel, Ordering::Relaxed);
        let is_claimed = is_free && claim().is_ok();
        if is_claimed {
            waiter.cancel();
        }
        is_claimed
    }

    /// Gives a waiter back; says whether there is one of this index.
    pub fn free(self, index: u32) -> bool {
        let waiter = self.get(index);
        if let Some(waiter) = waiter {
            waiter.cancel();
            waiter.owner.store(0, Ordering::Release);
        }
        waiter.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Geometry;
    use longshore_ring::Sleep;

    #[test]
    fn each_waiter_has_one_owner_and_is_claimed_again_when_it_is_free() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let waiters = Waiters::of(&arena);
        let count = Geometry::SMALL.waiters;
        let claimed: Vec<u32> = (0..count)
            .filter_map(|i| waiters.claim(7, i * 5 + 3))
            .collect();
        let mut sorted = claimed.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        assert_eq!(claimed[0], 3);
        assert_eq!(waiters.claim(8, 0), None);
        assert_eq!(arena.claimed_waiters().len(), count as usize);
        assert!(waiters.free(5) && !waiters.free(count));
        assert_eq!(waiters.claim(8, u32::MAX), Some(5));
        assert_eq!(waiters.at(5).owner.load(Ordering::Relaxed), 8);
    }

    /// Whoever had it before may have died while it slept.
    #[test]
    fn a_waiter_is_awake_when_it_is_claimed_and_when_it_is_free() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let waiters = Waiters::of(&arena);
        waiters.at(3).declare(Sleep::Futex);
        assert_eq!(waiters.claim(7, 3), Some(3));
        assert!(!waiters.at(3).is_declared());
        waiters.at(3).declare(Sleep::Futex);
        assert!(waiters.free(3) && !waiters.at(3).is_declared());
    }
}
