//! A stack of free indices in shared memory, which any thread of either side
//! may pop and push without a lock.
//!
//! The head is an index and a tag that counts pops, so that a head which was
//! popped and pushed back in between is not taken for the old one. A process
//! that dies between a pop and its use loses that one index until the session
//! ends.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No index.
pub const NONE: u32 = u32::MAX;

/// How often a pop or push is tried before the other side counts as hostile.
const TRIES: u32 = 1 << 20;

/// The head of a stack of free indices; the links lie in an array beside it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct FreeList {
    head: AtomicU64,
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

    /// Fills the stack with all indices of `next`, the lowest on top. Only
    /// before anybody else uses it.
    pub fn fill(&self, next: &[AtomicU32]) {
        let count = next.len() as u32;
        for (i, link) in next.iter().enumerate() {
            let i = i as u32;
            link.store(if i + 1 == count { NONE } else { i + 1 }, Ordering::Relaxed);
        }
        self.head.store(
            pack(0, if count == 0 { NONE } else { 0 }),
            Ordering::Release,
        );
    }

    /// Takes a free index; `None` when there is none left.
    ///
    /// # Errors
    /// [`Corrupt`] if the list names an index outside `next`.
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
                link.load(Ordering::Relaxed),
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

    /// Gives `index` back.
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
            link.store(head as u32, Ordering::Relaxed);
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
    fn gives_each_index_once_and_the_latest_back_first() {
        let (list, next) = (FreeList::new(), links(4));
        list.fill(&next);
        let all: Vec<_> = std::iter::from_fn(|| list.pop(&next).unwrap()).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        list.push(&next, 2).unwrap();
        list.push(&next, 1).unwrap();
        assert_eq!(list.pop(&next).unwrap(), Some(1));
        assert_eq!(list.pop(&next).unwrap(), Some(2));
        assert_eq!(list.pop(&next).unwrap(), None);
    }

    #[test]
    fn a_forged_link_is_an_error() {
        let (list, next) = (FreeList::new(), links(4));
        list.fill(&next);
        next[0].store(77, Ordering::Relaxed);
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
        list.fill(&next);
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
