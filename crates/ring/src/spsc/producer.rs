//! The end of a ring that messages are put into.
//!
//! Owns [`Producer`]; what it knows of the ring beside the shared memory is its own.

use super::{Full, Indices, LEFT_AT, Message, Slot, WORDS};
use crate::Corrupt;
use crate::sync::Ordering;

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
