//! A ring of 64-byte messages with one producer and one consumer, which may be in two
//! processes that do not trust each other.
//!
//! Indices count messages and wrap at 2^32; the capacity is a power of two. A producer
//! stages messages and then publishes all of them with one store, so a batch costs one
//! crossing; a producer that dies between the two has published nothing. A message may take
//! slots behind its own, for as many bytes ([`Producer::stage_long`],
//! [`Consumer::take_more`]). Each side keeps a private copy of its own index and never reads
//! it back from shared memory.
//!
//! In a ring whose consumer *claims* what it is about to read ([`Consumer::claiming`]), the
//! producer may take its newest message back and put another in its place, as long as that is
//! not claimed ([`Producer::take_back`]). The claim is a bit beside the producer's index: the
//! consumer sets it in one step that cannot fail, the producer clears it with each message
//! that it publishes, and takes one back in one step that fails if the bit is set. So neither
//! can keep the other waiting. Beside that bit the producer says how many words at the end of
//! the last slot mean nothing ([`Producer::leave_words`]), so that the consumer need not read
//! them to know ([`Consumer::words_left`]).

mod consumer;
mod producer;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

pub use consumer::Consumer;
pub use producer::Producer;

/// Words of 64 bits in a message.
pub const WORDS: usize = 8;

/// One message: 64 bytes, one cache line.
pub type Message = [u64; WORDS];

/// The slot of a message in shared memory.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot {
    words: [AtomicU64; WORDS],
    /// In a model, a message is not read while another is stored in its slot.
    #[cfg(loom)]
    access: loom::cell::UnsafeCell<()>,
}

// SAFETY: what is not atomic has no contents.
#[cfg(loom)]
unsafe impl Sync for Slot {}

impl Slot {
    /// An empty slot, for rings that do not come from zeroed shared memory.
    pub fn new() -> Self {
        Self {
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            #[cfg(loom)]
            access: loom::cell::UnsafeCell::new(()),
        }
    }

    #[inline]
    fn load(&self) -> Message {
        #[cfg(loom)]
        self.access.with(|_| ());
        std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed))
    }

    /// Stores the first words; the others stay as they are.
    #[inline]
    fn store(&self, first: &[u64]) {
        #[cfg(loom)]
        self.access.with_mut(|_| ());
        for (word, value) in self.words.iter().zip(first) {
            word.store(*value, Ordering::Relaxed);
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Line(AtomicU32);

/// How many messages are published, modulo 2^32, [`CLAIMED`], and from [`LEFT_AT`] on how many
/// words of the last slot mean nothing.
#[repr(C, align(64))]
#[derive(Debug)]
struct Tail(AtomicU64);

/// In [`Tail`]: the consumer has claimed all that was published.
const CLAIMED: u64 = 1 << 32;
/// The lowest of the three bits of [`Tail`] for the words that are left.
const LEFT_AT: u32 = 33;

/// Distance in bytes between the index of published messages in [`Indices`] and that of
/// released ones.
pub const INDEX_STRIDE: usize = std::mem::offset_of!(Indices, head);

/// A ring's two indices, each on its own cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Indices {
    tail: Tail,
    head: Line,
}

impl Indices {
    /// Indices of an empty ring.
    pub fn new() -> Self {
        Self {
            tail: Tail(AtomicU64::new(0)),
            head: Line(AtomicU32::new(0)),
        }
    }

    /// The number of messages that the producer has published, modulo 2^32.
    #[inline]
    pub fn published(&self) -> u32 {
        self.tail.0.load(Ordering::Acquire) as u32
    }

    /// Whether the consumer has claimed all that was published, in a ring where it does.
    pub fn is_claimed(&self) -> bool {
        self.tail.0.load(Ordering::Acquire) & CLAIMED != 0
    }

    /// The number of them that the consumer has released.
    pub fn given_back(&self) -> u32 {
        self.head.0.load(Ordering::Acquire)
    }

    /// Whether all published messages were released, according to both indices.
    pub fn are_even(&self) -> bool {
        self.published() == self.given_back()
    }

    /// Empties the ring. Neither side may be using it.
    pub fn reset(&self) {
        self.tail.0.store(0, Ordering::Relaxed);
        self.head.0.store(0, Ordering::Release);
    }
}

impl Default for Indices {
    fn default() -> Self {
        Self::new()
    }
}

/// The ring is full; the message was not staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

#[cfg(all(test, not(loom)))]
mod tests;
