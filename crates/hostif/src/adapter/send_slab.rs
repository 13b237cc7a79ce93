//! The chunks of a session's send slab, which its programs take and give back by themselves.
//!
//! [`SendSlab`] is borrowed of an [`AdapterSession`](super::AdapterSession). The engine gives
//! memory back to the system that free chunks take, and the stack gives back or takes chunks
//! that sockets still have.

use super::blocks::Blocks;
use crate::abi::{CHUNK, DIRECTORY, SocketId};
use crate::transport::ReleaseError;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;

/// The chunks that send streams are in.
#[derive(Debug, Clone, Copy)]
pub struct SendSlab<'a> {
    pub(super) blocks: Blocks<'a>,
}

/// The numbers of the chunks in which a part of a stream lies that is not empty.
fn chunks_of(part: &Range<u64>) -> RangeInclusive<u64> {
    part.start / CHUNK as u64..=(part.end - 1) / CHUNK as u64
}

impl SendSlab<'_> {
    /// Chunks that no socket has, by the lists that its programs keep.
    #[must_use]
    pub fn free(&self) -> u32 {
        let (warm, cold) = self.blocks.arena.free_snd_chunks();
        let all = self.blocks.arena.geometry().snd_chunks;
        warm.saturating_add(cold).min(all)
    }

    /// Whether a free chunk takes memory.
    #[must_use]
    pub fn has_warm(&self) -> bool {
        self.blocks.arena.has_warm_snd_chunk()
    }

    /// Free chunks that take memory, `most` if there are more.
    #[must_use]
    pub fn warm(&self, most: u32) -> u32 {
        self.blocks.arena.warm_snd_chunks(most)
    }

    /// Gives the memory of a free chunk back to the system; says whether
    /// there was one that took some.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub fn cool(&self) -> Result<bool, ReleaseError> {
        self.blocks.arena.cool_snd_chunk()
    }

    /// Gives back the chunks that a closed socket's send stream still has, as its host says.
    pub fn release_chunks(&self, id: SocketId) {
        let held = self.blocks.begun(id).map(|block| block.snd.unreturned());
        let Some(held) = held.filter(|held| !held.is_empty()) else {
            return;
        };
        let directory = self.blocks.arena.snd_directory(id.index);
        // A directory has no more entries than this, whatever the host says. The last goes
        // first, so that those that follow each other are taken so again.
        let numbers = chunks_of(&held);
        let most = numbers.start().saturating_add(DIRECTORY as u64 - 1);
        for number in (*numbers.start()..=most.min(*numbers.end())).rev() {
            let chunk = directory.entry(number).load(Ordering::Acquire);
            self.give_back(chunk);
        }
    }

    /// Takes back the chunks of a send stream whose host has written up to `edge` and to whom
    /// nobody owes anything; says how many were looked at. If a call is at work there, it has
    /// more to write, and none are taken.
    pub fn take_chunks(&self, index: u32, edge: u64) -> u32 {
        let Blocks { arena, meter, .. } = self.blocks;
        let Some((offer, held)) = arena.block(index).snd.offer_chunks(edge) else {
            return 0;
        };
        if held.is_empty() {
            return 0;
        }
        let numbers = chunks_of(&held);
        if numbers.end() - numbers.start() >= DIRECTORY as u64 {
            meter.note_bad_descriptor();
            return 0;
        }
        // Read before they are ours: from then on the host may write to its directory.
        let directory = arena.snd_directory(index);
        let mut chunks = [0; DIRECTORY];
        let count = (numbers.end() - numbers.start() + 1) as usize;
        let chunks = chunks.get_mut(..count).unwrap_or_default();
        for (chunk, number) in chunks.iter_mut().zip(numbers) {
            *chunk = directory.entry(number).load(Ordering::Acquire);
        }
        if offer.take() {
            for chunk in chunks.iter().rev() {
                self.give_back(*chunk);
            }
        }
        count as u32
    }

    /// Gives a chunk back to the list of free ones, if the program has named one that there is.
    fn give_back(&self, chunk: u32) {
        if self.blocks.arena.give_snd_chunk(chunk).is_err() {
            self.blocks.meter.note_bad_descriptor();
        }
    }
}

#[cfg(test)]
mod tests;
