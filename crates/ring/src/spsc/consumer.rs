//! The end of a ring that messages are taken from.
//!
//! Owns [`Consumer`]; what it knows of the ring beside the shared memory is its own.

use super::{CLAIMED, Indices, LEFT_AT, Message, Slot, WORDS};
use crate::Corrupt;
use crate::sync::Ordering;

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
