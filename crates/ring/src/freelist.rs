//! A lock-free stack of free indices in shared memory, which any thread of either side
//! may pop and push.
//!
//! The head is an index and a tag that counts pops, so that a head which was popped and
//! pushed back in between is not mistaken for the old one (the ABA problem). A process
//! that dies between a pop and its use loses that one index until the session ends.
//!
//! A link that was never written, 0, stands for the next index. So a stack of all indices
//! exists as soon as the memory does, and a page of links takes memory only when one of
//! its indices is pushed.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No index.
pub const NONE: u32 = u32::MAX;

/// How often a pop or push is retried before the other side counts as hostile: an honest
/// peer causes only a few failures.
const TRIES: u32 = 1 << 12;

/// The head of a stack of free indices; the links are in a separate array.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct FreeList {
    head: AtomicU64,
}

/// The index after `index` in a list of `count`, by its link.
fn follow(link: u32, index: u32, count: u32) -> u32 {
    match link {
        0 if index + 1 < count => index + 1,
        0 | NONE => NONE,
        next => next - 1,
    }
}

/// The link that stands for `next`.
fn link_to(next: u32) -> u32 {
    if next == NONE { NONE } else { next + 1 }
}

fn pack(tag: u32, index: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(index)
}

impl FreeList {
    /// An empty stack.
    pub fn new() -> Self {
        Self {
            head: AtomicU64::new(pack(0, NONE)),
        }
    }

    /// Fills the stack with all of `count` indices, the lowest on top. Call it before any
    /// other use, with links that are all 0.
    pub fn fill(&self, count: u32) {
        let first = if count == 0 { NONE } else { 0 };
        self.head.store(pack(0, first), Ordering::Release);
    }

    /// Pops a free index; `None` if there is none left.
    ///
    /// # Errors
    /// [`Corrupt`] if the list contains an index outside `next`.
    pub fn pop(&self, next: &[AtomicU32]) -> Result<Option<u32>, Corrupt> {
        let mut head = self.head.load(Ordering::Acquire);
        for _ in 0..TRIES {
            let index = head as u32;
            if index == NONE {
                return Ok(None);
            }
            let Some(link) = next.get(index as usize) else {
                return Err(Corrupt::FreeIndex {
                    index,
                    limit: next.len() as u32,
                });
            };
            let new = pack(
                ((head >> 32) as u32).wrapping_add(1),
                follow(link.load(Ordering::Relaxed), index, next.len() as u32),
            );
            match self
                .head
                .compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => return Ok(Some(index)),
                Err(now) => head = now,
            }
        }
        Err(Corrupt::Livelock)
    }

    /// Whether no index is free at present.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Acquire) as u32 == NONE
    }

    /// The number of free indices. If other threads pop and push at the same time it is
    /// approximate, but never more than there are indices. It takes as many steps as
    /// indices have been pushed.
    pub fn count(&self, next: &[AtomicU32]) -> u32 {
        self.count_up_to(next, u32::MAX)
    }

    /// As [`count`](Self::count), but at most `most`, in at most that many steps.
    pub fn count_up_to(&self, next: &[AtomicU32], most: u32) -> u32 {
        let limit = next.len() as u32;
        let most = most.min(limit);
        let mut index = self.head.load(Ordering::Acquire) as u32;
        let mut count = 0;
        while count < most
            && let Some(link) = next.get(index as usize)
        {
            let link = link.load(Ordering::Relaxed);
            if link == 0 {
                // It was never pushed, so none of the indices after it was ever popped.
                return (count + limit - index).min(most);
            }
            count += 1;
            index = follow(link, index, limit);
        }
        count
    }

    /// Pushes `index`.
    ///
    /// # Errors
    /// [`Corrupt`] if `index` is outside `next`.
    pub fn push(&self, next: &[AtomicU32], index: u32) -> Result<(), Corrupt> {
        let Some(link) = next.get(index as usize) else {
            return Err(Corrupt::FreeIndex {
                index,
                limit: next.len() as u32,
            });
        };
        let mut head = self.head.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            link.store(link_to(head as u32), Ordering::Relaxed);
            let new = pack((head >> 32) as u32, index);
            match self
                .head
                .compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
        Err(Corrupt::Livelock)
    }
}

impl Default for FreeList {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn links(n: u32) -> Vec<AtomicU32> {
        (0..n).map(|_| AtomicU32::new(0)).collect()
    }

    #[test]
    fn counts_what_is_free_whatever_the_links_say() {
        let (list, next) = (FreeList::new(), links(5));
        list.fill(5);
        assert_eq!(list.count(&next), 5);
        let all: Vec<_> = (0..4).map(|_| list.pop(&next).unwrap().unwrap()).collect();
        assert_eq!(list.count(&next), 1);
        for (index, free) in all.into_iter().zip(2..) {
            list.push(&next, index).unwrap();
            assert_eq!(list.count(&next), free);
        }
        assert_eq!(list.count_up_to(&next, 3), 3);
        // A circle, and a link that leads nowhere.
        next[0].store(link_to(0), Ordering::Relaxed);
        list.push(&next, 0).unwrap();
        next[0].store(link_to(0), Ordering::Relaxed);
        assert_eq!(list.count(&next), 5);
        next[0].store(99, Ordering::Relaxed);
        assert_eq!(list.count(&next), 1);
    }

    #[test]
    fn gives_each_index_once_and_the_latest_back_first() {
        let (list, next) = (FreeList::new(), links(4));
        list.fill(next.len() as u32);
        let all: Vec<_> = std::iter::from_fn(|| list.pop(&next).unwrap()).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        list.push(&next, 2).unwrap();
        list.push(&next, 1).unwrap();
        assert_eq!(list.pop(&next).unwrap(), Some(1));
        assert_eq!(list.pop(&next).unwrap(), Some(2));
        assert_eq!(list.pop(&next).unwrap(), None);
    }

    /// A thread that was held up between reading the head and changing it must not take the head
    /// for the one that it read, though the same index is on top again: its link may be another.
    #[test]
    fn a_head_that_was_popped_and_pushed_back_is_another() {
        let (list, next) = (FreeList::new(), links(3));
        list.fill(3);
        let held_up = list.head.load(Ordering::Relaxed);
        let (a, b) = (list.pop(&next).unwrap().unwrap(), list.pop(&next).unwrap());
        list.push(&next, a).unwrap();
        let now = list.head.load(Ordering::Relaxed);
        assert_eq!((held_up as u32, b), (now as u32, Some(1)));
        assert_ne!(held_up, now);
    }

    /// Nor for any that it had in between.
    #[test]
    fn a_head_is_another_after_each_pop() {
        let (list, next) = (FreeList::new(), links(3));
        list.fill(3);
        let mut heads = std::collections::BTreeSet::new();
        for _ in 0..10 {
            let index = list.pop(&next).unwrap().unwrap();
            list.push(&next, index).unwrap();
            assert!(heads.insert(list.head.load(Ordering::Relaxed)));
        }
    }

    #[test]
    fn it_is_empty_while_no_index_is_free() {
        let (list, next) = (FreeList::new(), links(1));
        assert!(list.is_empty());
        list.fill(1);
        assert!(!list.is_empty());
        let index = list.pop(&next).unwrap().unwrap();
        assert!(list.is_empty());
        list.push(&next, index).unwrap();
        assert!(!list.is_empty());
    }

    #[test]
    fn a_forged_link_is_an_error() {
        let (list, next) = (FreeList::new(), links(4));
        list.fill(next.len() as u32);
        next[0].store(link_to(77), Ordering::Relaxed);
        assert_eq!(list.pop(&next).unwrap(), Some(0));
        assert_eq!(
            list.pop(&next),
            Err(Corrupt::FreeIndex {
                index: 77,
                limit: 4
            })
        );
        assert!(list.push(&next, 4).is_err());
    }

    #[test]
    fn threads_never_hold_the_same_index() {
        let (list, next) = (FreeList::new(), links(8));
        list.fill(next.len() as u32);
        let owners = links(8);
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..rounds {
                        if let Some(i) = list.pop(&next).unwrap() {
                            assert_eq!(owners[i as usize].swap(1, Ordering::AcqRel), 0);
                            owners[i as usize].store(0, Ordering::Release);
                            list.push(&next, i).unwrap();
                        }
                    }
                });
            }
        });
    }
}
