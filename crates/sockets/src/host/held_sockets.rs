//! How often this process uses each socket of its session, and what it notes of each.
//!
//! Owns [`HeldSockets`]. `holds` takes and releases uses by it; the marks are of those parts of
//! the process that [`SUBSCRIBED`] and the others name.

use crate::reported_edges::Having;
use longshore_hostif::SocketId;
use std::sync::atomic::{AtomicU64, Ordering};

/// The engine sends us what happens to this socket.
pub(crate) const SUBSCRIBED: u64 = 1;
/// It is on the list of those of which not all that was consumed was reported.
pub(crate) const LISTED: u64 = 2;
/// A ready set of this process has it.
pub(crate) const WATCHED: u64 = 4;
/// No other process can have it: it was made or accepted here, and not handed
/// on since.
pub(crate) const ALONE: u64 = 8;
/// It came from elsewhere, so that what was said of it on this channel may have been said to
/// the image of the process before an `exec`.
pub(crate) const INHERITED: u64 = 16;
/// Some of what it has received was read and is kept where it lies.
pub(crate) const KEEPS: u64 = 32;

/// The half of a word that counts; the other has the socket's generation.
const COUNT: u64 = 0xffff_ffff;

/// The uses and the marks of sockets, by the indices of their blocks.
#[derive(Debug)]
pub(crate) struct HeldSockets {
    uses: &'static [AtomicU64],
    marks: &'static [AtomicU64],
}

/// Atomics that are zero and take no memory until they are touched.
fn zeroed(count: usize) -> &'static [AtomicU64] {
    let words: &'static mut [u64] = vec![0u64; count].leak();
    // SAFETY: an `AtomicU64` is laid out as a `u64`; the memory lives for ever
    // and is reached through this slice alone.
    unsafe { std::slice::from_raw_parts(words.as_mut_ptr().cast(), count) }
}

fn generation_word(id: SocketId) -> u64 {
    u64::from(id.generation) << 32
}

/// Whether a word counts uses of this very socket.
fn counts(word: u64, id: SocketId) -> bool {
    word & !COUNT == generation_word(id) && word & COUNT != 0
}

impl HeldSockets {
    /// Of a session with so many sockets, of which none is used.
    pub(crate) fn new(sockets: usize) -> Self {
        Self {
            uses: zeroed(sockets),
            marks: zeroed(sockets),
        }
    }

    /// The sockets that the session may have.
    pub(crate) fn capacity(&self) -> usize {
        self.uses.len()
    }

    // ---- uses ----

    fn word(&self, index: u32) -> &'static AtomicU64 {
        &self.uses[index as usize]
    }

    /// The first use of a socket.
    pub(crate) fn begin(&self, id: SocketId, marks: u64) {
        self.marks[id.index as usize].store(marks, Ordering::Relaxed);
        self.word(id.index)
            .store(generation_word(id) | 1, Ordering::Release);
    }

    /// A use of a socket whose name came from elsewhere: the first one, of a socket with these marks,
    /// unless another thread has taken it just now. `false` if the name is stale, and this process
    /// uses the socket that has its place now.
    pub(crate) fn take(&self, id: SocketId, marks: u64) -> bool {
        let uses = self.word(id.index);
        let mut word = uses.load(Ordering::Acquire);
        loop {
            let next = match word {
                _ if counts(word, id) => word + 1,
                _ if word & COUNT != 0 => return false,
                _ => generation_word(id) | 1,
            };
            match uses.compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next & COUNT == 1 => {
                    self.mark(id.index, marks);
                    return true;
                }
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Another use of a socket, if there is one.
    pub(crate) fn acquire(&self, id: SocketId) -> bool {
        let Some(uses) = self.uses.get(id.index as usize) else {
            return false;
        };
        let mut word = uses.load(Ordering::Acquire);
        loop {
            if !counts(word, id) {
                return false;
            }
            match uses.compare_exchange_weak(word, word + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Another use of a socket of which the caller has one.
    pub(crate) fn acquire_another(&self, id: SocketId) {
        self.word(id.index).fetch_add(1, Ordering::AcqRel);
    }

    /// Gives a use back. Says whether it was the last.
    pub(crate) fn release(&self, id: SocketId) -> bool {
        let uses = self.word(id.index);
        let mut word = uses.load(Ordering::Acquire);
        loop {
            if !counts(word, id) {
                return false;
            }
            let less = if word & COUNT == 1 { 0 } else { word - 1 };
            match uses.compare_exchange_weak(word, less, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return less == 0,
                Err(now) => word = now,
            }
        }
    }

    /// Whether this process uses this very socket.
    pub(crate) fn has(&self, id: SocketId) -> bool {
        let uses = self.uses.get(id.index as usize);
        uses.is_some_and(|uses| counts(uses.load(Ordering::Acquire), id))
    }

    /// How often the process uses whatever socket stands at `index`.
    pub(crate) fn count(&self, index: u32) -> u32 {
        (self.word(index).load(Ordering::Acquire) & COUNT) as u32
    }

    /// Sets how often a socket is used, after a fork, with no marks.
    pub(crate) fn set_count(&self, id: SocketId, uses: u32) {
        let word = match uses {
            0 => 0,
            uses => generation_word(id) | u64::from(uses),
        };
        self.word(id.index).store(word, Ordering::Release);
        self.marks[id.index as usize].store(0, Ordering::Relaxed);
    }

    /// No use of any socket. Touches no memory that was not touched before.
    pub(crate) fn forget_all(&self) {
        for word in self.uses {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Release);
            }
        }
    }

    // ---- marks ----

    /// Whether a socket has this mark.
    #[inline]
    pub(crate) fn is_marked(&self, index: u32, mark: u64) -> bool {
        self.marks[index as usize].load(Ordering::Relaxed) & mark != 0
    }

    /// Sets a mark. Says whether it was not set.
    pub(crate) fn mark(&self, index: u32, mark: u64) -> bool {
        self.marks[index as usize].fetch_or(mark, Ordering::AcqRel) & mark == 0
    }

    /// Takes marks out.
    pub(crate) fn unmark(&self, index: u32, marks: u64) {
        self.marks[index as usize].fetch_and(!marks, Ordering::AcqRel);
    }

    /// Takes all marks out, and gives them.
    pub(crate) fn take_marks(&self, index: u32) -> u64 {
        self.marks[index as usize].swap(0, Ordering::AcqRel)
    }

    // ---- what the marks say ----

    /// How this process has a socket.
    pub(crate) fn having(&self, id: SocketId) -> Having {
        if !self.has(id) {
            Having::Not
        } else if self.is_marked(id.index, ALONE) {
            Having::Alone
        } else {
            Having::Shared
        }
    }

    /// Whether what this channel was told of the connections that wait at listener `id` was
    /// told to this image of the process. If not, what is accepted is asked for again, at the
    /// price of a request.
    pub(crate) fn knows_waiting(&self, id: SocketId) -> bool {
        !self.is_marked(id.index, INHERITED)
    }

    /// Whether some of what a socket has received was read and is kept.
    #[inline]
    pub(crate) fn keeps(&self, index: u32) -> bool {
        self.is_marked(index, KEEPS)
    }

    /// Notes whether some of that is kept.
    pub(crate) fn set_keeps(&self, index: u32, keeps: bool) {
        if keeps {
            self.mark(index, KEEPS);
        } else {
            self.unmark(index, KEEPS);
        }
    }

    /// A ready set has the socket.
    pub(crate) fn set_watched(&self, index: u32) {
        self.mark(index, WATCHED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(generation: u32) -> SocketId {
        SocketId {
            index: 1,
            generation,
        }
    }

    /// Two threads that take the same socket over have a use each.
    #[test]
    fn what_two_threads_take_over_is_used_twice() {
        for generation in 1..500 {
            let held = HeldSockets::new(2);
            std::thread::scope(|scope| {
                let take = || assert!(held.take(id(generation), INHERITED));
                scope.spawn(take);
                scope.spawn(take);
            });
            assert_eq!(held.count(1), 2);
            assert!(!held.release(id(generation)));
            assert!(held.is_marked(1, INHERITED));
            assert!(held.release(id(generation)));
        }
    }

    /// A socket that others may have is not this process's alone because it was named once more.
    #[test]
    fn what_is_taken_over_again_is_marked_as_before() {
        let held = HeldSockets::new(2);
        assert!(held.take(id(7), INHERITED) && held.take(id(7), ALONE));
        assert!(held.is_marked(1, INHERITED) && !held.is_marked(1, ALONE));
    }

    #[test]
    fn a_place_without_uses_has_no_socket() {
        let held = HeldSockets::new(2);
        for generation in [0, 1] {
            assert!(!held.has(id(generation)) && !held.acquire(id(generation)));
            held.begin(id(generation), ALONE);
            assert!(held.has(id(generation)));
            assert!(held.release(id(generation)) && !held.has(id(generation)));
        }
    }

    /// A name whose socket is gone takes nothing from the socket that has its place.
    #[test]
    fn a_stale_name_does_no_harm() {
        let held = HeldSockets::new(2);
        held.begin(id(8), ALONE | SUBSCRIBED);
        assert!(!held.take(id(7), INHERITED));
        assert!(!held.release(id(7)));
        assert!(held.has(id(8)) && held.count(1) == 1);
        assert!(!held.is_marked(1, INHERITED));
        // Nor if the other comes to its place when the name has just been taken.
        let held = HeldSockets::new(2);
        assert!(held.take(id(7), INHERITED));
        held.begin(id(8), ALONE | SUBSCRIBED);
        assert!(!held.release(id(7)));
        assert!(held.has(id(8)) && held.count(1) == 1);
    }
}
