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

/// The producer's private state.
#[derive(Debug, Clone, Default)]
pub struct Producer {
    tail: u32,
    published: u32,
    head_seen: u32,
    takes_back: bool,
    /// Slots of the newest message, which was not taken back; 0 if there is none.
    newest: u32,
    /// Words at the end of the last slot of the newest one that mean nothing.
    left: u32,
}

impl Producer {
    /// The producer of an empty ring.
    pub const fn new() -> Self {
        Self {
            tail: 0,
            published: 0,
            head_seen: 0,
            takes_back: false,
            newest: 0,
            left: 0,
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
    #[inline]
    pub fn stage(
        &mut self,
        ring: &Indices,
        slots: &[Slot],
        message: &Message,
    ) -> Result<Result<(), Full>, Corrupt> {
        let staged = self.stage_long(0, 0, ring, slots, message)?;
        Ok(staged.map(|_| ()))
    }

    /// Stages a message that takes `more` slots behind its own, if `kept` slots remain free
    /// after it; says which of `slots` is its own. Only the words `first` of that are written:
    /// the rest is the caller's to write before it publishes, from there on and behind the last
    /// slot from the first one on. In the place of one that was taken back there still is what
    /// was written then.
    ///
    /// # Errors
    /// As [`Producer::stage`].
    #[inline]
    pub fn stage_long(
        &mut self,
        more: u32,
        kept: u32,
        ring: &Indices,
        slots: &[Slot],
        first: &[u64],
    ) -> Result<Result<usize, Full>, Corrupt> {
        let capacity = slots.len() as u32;
        let taken = self.tail.wrapping_sub(self.head_seen);
        let wanted = more.saturating_add(kept);
        if taken.saturating_add(wanted) >= capacity && self.room(ring, capacity)? <= wanted {
            return Ok(Err(Full));
        }
        let own = (self.tail & (capacity - 1)) as usize;
        slots[own].store(first);
        #[cfg(loom)]
        (1..=more).for_each(|i| slots[(self.tail + i & (capacity - 1)) as usize].store(&[]));
        self.newest = 1 + more;
        self.left = 0;
        self.tail = self.tail.wrapping_add(self.newest);
        Ok(Ok(own))
    }

    /// Says of the message that was staged last that the last `words` of its last slot, fewer
    /// than [`WORDS`], mean nothing, in a ring whose consumer claims.
    #[inline]
    pub fn leave_words(&mut self, words: u32) {
        self.left = words % WORDS as u32;
    }

    /// What stands beside the consumer's index when all is published.
    #[inline]
    fn tail_word(&self) -> u64 {
        u64::from(self.tail) | u64::from(self.left) << LEFT_AT
    }

    /// Publishes all staged messages to the consumer; returns how many.
    #[inline]
    pub fn publish(&mut self, ring: &Indices) -> u32 {
        let staged = self.tail.wrapping_sub(self.published);
        if staged != 0 {
            if self.takes_back {
                ring.tail.0.swap(self.tail_word(), Ordering::AcqRel);
            } else {
                ring.tail.0.store(self.tail.into(), Ordering::Release);
                self.newest = 0;
            }
            self.published = self.tail;
        }
        staged
    }

    /// Whether [`take_back`](Self::take_back) is worth a try: the newest message was not claimed
    /// a moment ago.
    #[inline]
    pub fn may_take_back(&self, ring: &Indices) -> bool {
        self.newest != 0
            && (self.tail != self.published
                || ring.tail.0.load(Ordering::Relaxed) == self.tail_word())
    }

    /// Takes the newest message back, so that another can be staged in its place: one that is
    /// staged, or was published and is not claimed, in a ring where both know of that. Says
    /// whether it could; those before it stay. A producer that dies before it publishes the
    /// other has published neither.
    pub fn take_back(&mut self, ring: &Indices) -> bool {
        let before = self.tail.wrapping_sub(self.newest);
        if self.tail == self.published {
            let newest = self.tail_word();
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            let taken = self.newest != 0
                && ring
                    .tail
                    .0
                    .compare_exchange(newest, before.into(), success, failure)
                    .is_ok();
            if !taken {
                return false;
            }
            self.published = before;
        }
        let is_there = self.newest != 0;
        (self.newest, self.left) = (0, 0);
        self.tail = before;
        is_there
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

    /// Whether the message that was staged last, of one slot, is not contiguous with one before
    /// it of the same batch: it is the first, or the ring goes on at its beginning. `capacity`
    /// is that of the ring.
    #[inline]
    pub fn begins_move(&self, capacity: u32) -> bool {
        self.staged() == 1 || self.tail.wrapping_sub(1) & (capacity - 1) == 0
    }

    /// The number of staged messages that are not published yet.
    #[inline]
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
    /// Where it was when it saw that.
    head_then: u32,
    /// Words at the end of the last slot before `tail_seen` that mean nothing.
    left: u32,
    claims: bool,
}

impl Consumer {
    /// The consumer of an empty ring.
    pub const fn new() -> Self {
        Self {
            head: 0,
            released: 0,
            tail_seen: 0,
            head_then: 0,
            left: 0,
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
                let word = ring.tail.0.fetch_or(CLAIMED, Ordering::AcqRel);
                tail = word as u32;
                self.left = (word >> LEFT_AT) as u32 % WORDS as u32;
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
            self.head_then = self.head;
            if tail == self.head {
                return Ok(None);
            }
        }
        let message = slots[(self.head & (capacity - 1)) as usize].load();
        self.head = self.head.wrapping_add(1);
        Ok(Some(message))
    }

    /// How many words at the end of the slot that was taken last mean nothing, as its producer
    /// says of the last one that it has published.
    #[inline]
    pub fn words_left(&self) -> u32 {
        if self.head == self.tail_seen {
            self.left
        } else {
            0
        }
    }

    /// Whether the message that was taken last, with `more` slots behind its own, is not
    /// contiguous with the one before it, as far as both were seen at once: it is the first of
    /// those, or the ring goes on at its beginning. `capacity` is that of the ring.
    #[inline]
    pub fn begins_move(&self, more: u32, capacity: u32) -> bool {
        let taken = self.head.wrapping_sub(1 + more);
        taken == self.head_then || taken & (capacity - 1) == 0
    }

    /// Passes over `count` slots behind the message that was taken last, which belong to it;
    /// says which of `slots` is that message's own. `None` if the producer has published
    /// fewer.
    pub fn take_more(&mut self, count: u32, slots: &[Slot]) -> Option<usize> {
        if count > self.tail_seen.wrapping_sub(self.head) {
            return None;
        }
        let own = self.head.wrapping_sub(1) as usize & (slots.len() - 1);
        #[cfg(loom)]
        (1..=count as usize).for_each(|i| drop(slots[own + i & (slots.len() - 1)].load()));
        self.head = self.head.wrapping_add(count);
        Some(own)
    }

    /// Releases the slots of all messages taken to the producer.
    #[inline]
    pub fn release(&mut self, ring: &Indices) {
        if self.head != self.released {
            ring.head.0.store(self.head, Ordering::Release);
            self.released = self.head;
        }
    }

    /// How many messages were taken, with the slots behind them, modulo 2^32.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.head
    }

    /// Whether slots of messages that were taken are to be released.
    #[inline]
    pub fn keeps_any(&self) -> bool {
        self.head != self.released
    }

    /// Releases the slots of messages that were taken when so many were
    /// ([`taken`](Self::taken)), if they are not released yet.
    pub fn release_to(&mut self, ring: &Indices, taken: u32) {
        let more = taken.wrapping_sub(self.released);
        if more != 0 && more <= self.head.wrapping_sub(self.released) {
            ring.head.0.store(taken, Ordering::Release);
            self.released = taken;
        }
    }

    /// How many published messages were not taken yet, `most` if there are more, where
    /// `behind` says of a message how many slots belong to it. None of them is claimed: the
    /// producer may take its newest one back while it is looked at. What no ring can hold
    /// counts as `most`, for [`take`](Self::take) to refuse.
    pub fn waiting(
        &self,
        ring: &Indices,
        slots: &[Slot],
        most: u32,
        behind: impl Fn(&Message) -> u32,
    ) -> u32 {
        let capacity = slots.len() as u32;
        let mut left = ring.published().wrapping_sub(self.head);
        if left > capacity {
            return most;
        }
        let (mut at, mut count) = (self.head, 0);
        while left != 0 && count < most {
            let slot = &slots[(at & (capacity - 1)) as usize];
            let message = std::array::from_fn(|i| slot.words[i].load(Ordering::Relaxed));
            let taken = behind(&message).saturating_add(1).min(left);
            at = at.wrapping_add(taken);
            left -= taken;
            count += 1;
        }
        count
    }

    /// Whether the producer has published messages that were not taken yet.
    #[inline]
    pub fn pending(&self, ring: &Indices) -> bool {
        self.head != self.tail_seen || ring.published() != self.head
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
