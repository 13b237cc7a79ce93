//! A ring of 64-byte messages with one producer and one consumer, which may be in two
//! processes that do not trust each other.
//!
//! Indices count messages and wrap at 2^32; the capacity is a power of two. A producer
//! stages messages and then publishes all of them with one store, so a batch costs one
//! crossing; a producer that dies between the two has published nothing. Each side keeps
//! a private copy of its own index and never reads it back from shared memory.
//!
//! In a ring whose consumer *claims* what it is about to read ([`Consumer::claiming`]), the
//! producer may take its newest message back and put another in its place, as long as that is
//! not claimed ([`Producer::take_back`]). The claim is a bit beside the producer's index: the
//! consumer sets it in one step that cannot fail, the producer clears it with each message
//! that it publishes, and takes one back in one step that fails if the bit is set. So neither
//! can keep the other waiting.

use crate::Corrupt;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

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

    fn load(&self) -> Message {
        #[cfg(loom)]
        self.access.with(|_| ());
        std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed))
    }

    fn store(&self, message: &Message) {
        #[cfg(loom)]
        self.access.with_mut(|_| ());
        for (word, value) in self.words.iter().zip(message) {
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

/// How many messages are published, modulo 2^32, and [`CLAIMED`].
#[repr(C, align(64))]
#[derive(Debug)]
struct Tail(AtomicU64);

/// In [`Tail`]: the consumer has claimed all that was published.
const CLAIMED: u64 = 1 << 32;

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

/// The producer's private state.
#[derive(Debug, Clone, Default)]
pub struct Producer {
    tail: u32,
    published: u32,
    head_seen: u32,
    takes_back: bool,
    /// The newest message was published, can be taken back, and was not yet.
    has_newest: bool,
}

impl Producer {
    /// The producer of an empty ring.
    pub const fn new() -> Self {
        Self {
            tail: 0,
            published: 0,
            head_seen: 0,
            takes_back: false,
            has_newest: false,
        }
    }

    /// The producer of an empty ring whose consumer claims.
    pub const fn taking_back() -> Self {
        Self {
            takes_back: true,
            ..Self::new()
        }
    }

    /// How many more messages fit, according to the consumer's index.
    ///
    /// # Errors
    /// [`Corrupt::RingIndices`] if the consumer claims to have released messages that
    /// were never published.
    pub fn room(&mut self, ring: &Indices, capacity: u32) -> Result<u32, Corrupt> {
        let head = ring.head.0.load(Ordering::Acquire);
        // Staged messages are in the ring too: if the head goes back, there must not be
        // more of them than the capacity.
        let taken = self.tail.wrapping_sub(head);
        if self.published.wrapping_sub(head) > capacity || taken > capacity {
            return Err(Corrupt::RingIndices {
                head,
                tail: self.published,
                capacity,
            });
        }
        self.head_seen = head;
        Ok(capacity - taken)
    }

    /// Stages one message; the consumer does not see it before [`publish`].
    ///
    /// # Errors
    /// `Ok(Err(Full))` if there is no room.
    ///
    /// [`publish`]: Self::publish
    pub fn stage(
        &mut self,
        ring: &Indices,
        slots: &[Slot],
        message: &Message,
    ) -> Result<Result<(), Full>, Corrupt> {
        self.stage_leaving(0, ring, slots, message)
    }

    /// As [`stage`](Self::stage), if `kept` slots remain free after it, which are
    /// reserved.
    ///
    /// # Errors
    /// As [`Producer::stage`].
    pub fn stage_leaving(
        &mut self,
        kept: u32,
        ring: &Indices,
        slots: &[Slot],
        message: &Message,
    ) -> Result<Result<(), Full>, Corrupt> {
        let capacity = slots.len() as u32;
        let taken = self.tail.wrapping_sub(self.head_seen);
        if taken.saturating_add(kept) >= capacity && self.room(ring, capacity)? <= kept {
            return Ok(Err(Full));
        }
        slots[(self.tail & (capacity - 1)) as usize].store(message);
        self.tail = self.tail.wrapping_add(1);
        Ok(Ok(()))
    }

    /// Publishes all staged messages to the consumer; returns how many.
    pub fn publish(&mut self, ring: &Indices) -> u32 {
        let staged = self.tail.wrapping_sub(self.published);
        if staged != 0 {
            if self.takes_back {
                ring.tail.0.swap(self.tail.into(), Ordering::AcqRel);
                self.has_newest = true;
            } else {
                ring.tail.0.store(self.tail.into(), Ordering::Release);
            }
            self.published = self.tail;
        }
        staged
    }

    /// Takes the newest message back, so that another can be staged in its place: one that is
    /// staged, or was published and is not claimed, in a ring where both know of that. Says
    /// whether it could. A producer that dies before it publishes the other has published
    /// neither.
    pub fn take_back(&mut self, ring: &Indices) -> bool {
        if self.tail == self.published {
            let (newest, before) = (self.tail, self.tail.wrapping_sub(1));
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = self.has_newest
                && ring
                    .tail
                    .0
                    .compare_exchange(newest.into(), before.into(), success, failure)
                    .is_ok();
            if !taken {
                return false;
            }
            self.published = before;
            self.has_newest = false;
        }
        self.tail = self.tail.wrapping_sub(1);
        true
    }

    /// The number of the message that is staged next, modulo 2^32.
    pub fn next(&self) -> u32 {
        self.tail
    }

    /// Whether the consumer was last seen to have released message `number`, one of those
    /// staged recently.
    pub fn is_taken(&self, number: u32) -> bool {
        self.head_seen.wrapping_sub(number).cast_signed() > 0
    }

    /// The number of staged messages that are not published yet.
    pub fn staged(&self) -> u32 {
        self.tail.wrapping_sub(self.published)
    }
}

/// The consumer's private state.
#[derive(Debug, Clone, Default)]
pub struct Consumer {
    head: u32,
    released: u32,
    tail_seen: u32,
    claims: bool,
}

impl Consumer {
    /// The consumer of an empty ring.
    pub const fn new() -> Self {
        Self {
            head: 0,
            released: 0,
            tail_seen: 0,
            claims: false,
        }
    }

    /// The consumer of an empty ring whose producer may take messages back.
    pub const fn claiming() -> Self {
        Self {
            claims: true,
            ..Self::new()
        }
    }

    /// Takes the next message, if there is one.
    ///
    /// # Errors
    /// [`Corrupt::RingIndices`] if the producer claims more than the ring holds.
    pub fn take(&mut self, ring: &Indices, slots: &[Slot]) -> Result<Option<Message>, Corrupt> {
        let capacity = slots.len() as u32;
        if self.head == self.tail_seen {
            let mut tail = ring.published();
            if self.claims && tail != self.head {
                tail = ring.tail.0.fetch_or(CLAIMED, Ordering::AcqRel) as u32;
            }
            if tail.wrapping_sub(self.released) > capacity
                || tail.wrapping_sub(self.head) > capacity
            {
                return Err(Corrupt::RingIndices {
                    head: self.head,
                    tail,
                    capacity,
                });
            }
            self.tail_seen = tail;
            if tail == self.head {
                return Ok(None);
            }
        }
        let message = slots[(self.head & (capacity - 1)) as usize].load();
        self.head = self.head.wrapping_add(1);
        Ok(Some(message))
    }

    /// Releases the slots of all messages taken to the producer.
    pub fn release(&mut self, ring: &Indices) {
        if self.head != self.released {
            ring.head.0.store(self.head, Ordering::Release);
            self.released = self.head;
        }
    }

    /// Whether the producer has published messages that were not taken yet.
    pub fn pending(&self, ring: &Indices) -> bool {
        self.head != self.tail_seen || ring.published() != self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
