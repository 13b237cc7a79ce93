//! The workers of an engine, and which of them has a socket.
//!
//! A session has rings, pending words and a doorbell for each worker of its engine. A socket is one
//! worker's for its whole life, and its name says whose: in the upper bits of its generation, where
//! both sides of a session agree to that ([`Features::WORKERS`]). Owns [`Naming`], which the blocks
//! of sockets, the two halves and `sockets` ask.

use super::{Features, SocketId};

/// Workers that an engine may have.
pub const MAX_WORKERS: u32 = 64;
/// Bits of a generation that count the uses of a block, where the others say which worker has it.
const COUNTED: u32 = 26;

/// How the sockets of a session are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// The bits of a generation that count.
    counted: u32,
}

impl Naming {
    /// Where both sides have these.
    #[must_use]
    pub const fn of(features: Features) -> Self {
        let counted = if features.contains(Features::WORKERS) {
            (1 << COUNTED) - 1
        } else {
            u32::MAX
        };
        Self { counted }
    }

    /// The worker that has a socket, as its name says. That there is such a worker is for the
    /// caller to see.
    #[inline]
    #[must_use]
    pub const fn worker(self, socket: SocketId) -> u32 {
        (socket.generation & !self.counted) >> COUNTED
    }

    /// The generation of a block's next use, by a socket that `worker` has.
    #[must_use]
    pub fn next(self, generation: u32, worker: u32) -> u32 {
        let counts_all = self.counted == u32::MAX;
        let next = generation.wrapping_add(1) & self.counted;
        // 0 is the generation of a block that was never used.
        let next = if counts_all { next } else { next.max(1) };
        next | worker << COUNTED & !self.counted
    }

    /// Whether `next` is the generation of the next use of a block of this one, in either way of
    /// naming, whichever worker has the socket.
    #[inline]
    pub(super) fn is_next(generation: u32, next: u32) -> bool {
        // Where all bits count, one that is this far ahead has not been for 2^26 uses; and where
        // they do not, none that follows the last is of another worker, as there is no 0.
        generation.wrapping_add(1) == next
            || Self::NAMED.next(generation, 0) == next & Self::NAMED.counted
    }

    /// With workers.
    pub(super) const NAMED: Self = Self::of(Features::WORKERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: Naming = Naming::NAMED;
    const PLAIN: Naming = Naming::of(Features::empty());

    fn socket(generation: u32) -> SocketId {
        SocketId {
            index: 5,
            generation,
        }
    }

    #[test]
    fn a_name_says_which_worker_has_the_socket() {
        for worker in [0, 1, MAX_WORKERS - 1] {
            let next = socket(NAMED.next(41, worker));
            assert_eq!(NAMED.worker(next), worker);
            let is_next = |generation| Naming::is_next(generation, next.generation);
            assert!(is_next(41) && is_next(9 << COUNTED | 41) && !is_next(42));
            // Whoever had the block before.
            assert_eq!(NAMED.worker(socket(NAMED.next(next.generation, 3))), 3);
            assert!(!is_next(next.generation));
        }
        assert_eq!(MAX_WORKERS << COUNTED, 0, "all bits of it are used");
    }

    #[test]
    fn generations_begin_anew_behind_the_last_and_none_is_that_of_an_unused_block() {
        let last = (1 << COUNTED) - 1;
        assert_eq!(NAMED.next(last, 0), 1);
        assert_eq!(NAMED.next(NAMED.next(last - 1, 7), 7), 7 << COUNTED | 1);
        assert_eq!(
            (PLAIN.next(last, 0), PLAIN.next(u32::MAX, 0)),
            (last + 1, 0)
        );
        for naming in [NAMED, PLAIN] {
            assert!(Naming::is_next(last, naming.next(last, 0)));
        }
    }

    #[test]
    fn without_workers_all_bits_count() {
        let next = socket(PLAIN.next(u32::MAX - 1, 9));
        assert_eq!((next.generation, PLAIN.worker(next)), (u32::MAX, 0));
        assert!(Naming::is_next(u32::MAX - 1, u32::MAX));
    }
}
