//! The chunks of a session's receive slab, which are the adapter's.
//!
//! Owns the list of free ones, in private memory, and gives the memory of chunks back that
//! have long been free. The receive streams of all sockets take chunks from it, and keep
//! with it what they tell in descriptors.

use super::held_data::{Epochs, HeldData, Reported, Withheld};
use crate::abi::CHUNK;
use crate::transport::Arena;
use longshore_ring::NONE;
#[cfg(debug_assertions)]
use longshore_ring::Span;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The chunks of a session's receive slab: which are free, and for each that
/// is not, the next of its stream; for each that is, its place among the free ones.
#[derive(Debug)]
pub struct ReceiveSlab {
    pub(super) arena: Arc<Arena>,
    pub(super) links: Vec<u32>,
    /// Entries of directories that were written, which its chunks are found by.
    pub(super) entries_written: u64,
    free: Vec<u32>,
    never_used: u32,
    /// One more than the last that it may use, and how many those are.
    end: u32,
    limit: u32,
    available: u32,
    /// So many of `free`, from its beginning, take no memory.
    cold: usize,
    /// The fewest that were free since it was last looked at.
    fewest_free: usize,
    /// What goes to the host in descriptors.
    pub(super) held: HeldData,
    pub(super) epochs: Epochs,
    withheld: Withheld,
    /// In debug builds, the chunks' memory: what is given back is filled with [`POISON`].
    #[cfg(debug_assertions)]
    memory: Option<Span>,
}

/// Of the chunks to which a process may still write, so many are looked at for each that is
/// taken.
const LOOKS: usize = 4;

/// What free chunks are full of in debug builds. Whoever sees it reads what no connection
/// has received.
#[cfg(debug_assertions)]
pub(super) const POISON: u8 = 0xdb;

impl ReceiveSlab {
    /// The chunks of an arena that a worker has: all, if it is the only one.
    pub(super) fn of(arena: &Arc<Arena>, worker: u32) -> Self {
        let geometry = arena.geometry();
        let chunks = geometry.rcv_chunks / geometry.workers;
        let first = worker * chunks;
        Self {
            arena: arena.clone(),
            links: vec![NONE; first as usize],
            entries_written: 0,
            free: Vec::new(),
            never_used: first,
            end: first + chunks,
            limit: chunks,
            available: chunks,
            cold: 0,
            fewest_free: 0,
            held: HeldData::default(),
            epochs: Epochs::new(geometry.channels, geometry.ring(0, worker)),
            withheld: Withheld::default(),
            #[cfg(debug_assertions)]
            memory: arena.rcv_place(0, 0, 0).map(|at| {
                arena
                    .memory()
                    .span(at, geometry.rcv_chunks as usize * CHUNK)
            }),
        }
    }

    /// The first so many chunks of an arena, which keep what is in them.
    #[cfg(test)]
    pub(super) fn limited(arena: &Arc<Arena>, chunks: u32) -> Self {
        let mut slab = Self::of(arena, 0);
        (slab.end, slab.limit, slab.available) = (chunks, chunks, chunks);
        #[cfg(debug_assertions)]
        {
            slab.memory = None;
        }
        slab
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        if !self.withheld.is_empty() {
            self.look_at_withheld(LOOKS);
        }
        let chunk = match self.free.pop() {
            Some(chunk) => {
                self.note_fewer();
                chunk
            }
            None if self.never_used < self.end => {
                self.never_used += 1;
                self.links.push(NONE);
                self.never_used - 1
            }
            None => return None,
        };
        self.note_taken(chunk);
        Some(chunk)
    }

    /// What was noted last of a chunk: the next of its stream, or its place among the free ones.
    #[inline(always)]
    pub(super) fn link(&self, chunk: u32) -> u32 {
        self.links.get(chunk as usize).copied().unwrap_or(NONE)
    }

    /// Notes that. Chunks that are no more than were ever taken have a place for it.
    #[inline(always)]
    pub(super) fn set_link(&mut self, chunk: u32, to: u32) {
        if let Some(link) = self.links.get_mut(chunk as usize) {
            *link = to;
        }
    }

    /// A stream has this chunk from now on.
    #[inline(always)]
    fn note_taken(&mut self, chunk: u32) {
        self.set_link(chunk, NONE);
        self.available -= 1;
    }

    /// The last of the free chunks was taken.
    #[inline(always)]
    fn note_fewer(&mut self) {
        let left = self.free.len();
        self.fewest_free = self.fewest_free.min(left);
        self.cold = self.cold.min(left);
    }

    pub(super) fn give_back(&mut self, chunk: u32) {
        #[cfg(debug_assertions)]
        self.poison(chunk);
        self.set_link(chunk, self.free.len() as u32);
        self.free.push(chunk);
        self.available += 1;
    }

    /// Whether any chunk was given back that nobody has.
    #[inline]
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes this chunk, if it is free and takes memory, or is the one that is taken next.
    #[inline]
    pub(super) fn take_again(&mut self, chunk: u32) -> bool {
        if !self.withheld.is_empty() {
            self.look_at_withheld(LOOKS);
        }
        if self.free.last() == Some(&chunk) {
            // Nearly always so where one connection is at work.
            self.free.pop();
            self.note_fewer();
        } else if !self.leave_free(chunk) {
            return false;
        }
        self.note_taken(chunk);
        true
    }

    /// Takes this chunk out of the free ones, wherever it is, if it is there and takes memory.
    #[inline(never)]
    fn leave_free(&mut self, chunk: u32) -> bool {
        let place = self.links.get(chunk as usize).map(|place| *place as usize);
        let is_free = |place: &usize| self.free.get(*place) == Some(&chunk);
        let Some(place) = place.filter(|place| *place >= self.cold && is_free(place)) else {
            return false;
        };
        let place = self.leave_long_free(place);
        self.free.swap_remove(place);
        if let Some(moved) = self.free.get(place) {
            self.set_link(*moved, place as u32);
        }
        true
    }

    /// The free chunk in this place is wanted: those that nobody has wanted since that is noted stay
    /// together, at the beginning. Says in which place it is then.
    fn leave_long_free(&mut self, place: usize) -> usize {
        if place >= self.fewest_free {
            return place;
        }
        let last = self.fewest_free - 1;
        self.free.swap(place, last);
        if let Some(moved) = self.free.get(place) {
            self.set_link(*moved, place as u32);
        }
        self.fewest_free = last;
        last
    }

    /// A chunk that no stream has any more, and to which the process that was `told` may still
    /// write.
    pub(super) fn withhold(&mut self, chunk: u32, reported: Reported) {
        self.withheld.insert(chunk, reported, &mut self.epochs);
    }

    /// Gives back those of so many chunks to which nobody may write any more.
    #[cold]
    pub(super) fn look_at_withheld(&mut self, most: usize) {
        for _ in 0..most {
            let taken = self.withheld.take(&self.arena, &mut self.epochs, most);
            let Some(chunk) = taken else { return };
            self.give_back(chunk);
        }
    }

    /// Another process has a channel from now on, or none: the one that had it writes no more.
    pub(super) fn begin_epoch(&mut self, channel: u16) {
        self.epochs.begin(channel);
        if !self.withheld.is_empty() {
            self.look_at_withheld(self.withheld.len() as usize);
        }
    }

    #[cfg(debug_assertions)]
    fn poison(&self, chunk: u32) {
        let at = u64::from(chunk) * CHUNK as u64;
        let room = self.memory.as_ref().and_then(|m| m.room(at, CHUNK));
        if let Some(room) = room {
            room.fill(&[POISON; CHUNK]);
        }
    }

    /// Chunks that can still be taken.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.available
    }

    /// Whether so few chunks are in use that sockets may keep one that they do not need: all
    /// that do so keep an eighth of them at most.
    #[must_use]
    pub fn is_nearly_empty(&self) -> bool {
        u64::from(self.in_use()) * 8 < u64::from(self.limit)
    }

    /// Bytes that the receive buffer of one connection may grow to: a quarter of what is
    /// free, so that many that grow at once leave room for each other.
    #[must_use]
    pub fn room_to_grow(&self) -> u64 {
        u64::from(self.available) * CHUNK as u64 / 4
    }

    /// Free chunks that take memory.
    #[must_use]
    pub fn warm(&self) -> usize {
        self.free.len() - self.cold
    }

    /// From now on it is noted how many chunks stay free.
    pub fn note_free(&mut self) {
        if !self.withheld.is_empty() {
            self.look_at_withheld(self.withheld.len() as usize);
        }
        self.fewest_free = self.free.len();
    }

    /// Gives the memory of chunks back to the system that were free ever since
    /// [`note_free`](Self::note_free), `most` at most; says of how many.
    ///
    /// # Errors
    /// The kernel's.
    pub fn cool(&mut self, most: usize) -> Result<usize, Errno> {
        let end = self.fewest_free.min(self.cold.saturating_add(most));
        let mut cooled = 0;
        while self.cold < end {
            let Some(chunk) = self.free.get(self.cold) else {
                break;
            };
            self.arena.cool_rcv_chunk(*chunk)?;
            self.cold += 1;
            cooled += 1;
        }
        Ok(cooled)
    }

    /// Entries of directories that were written: each is how a host finds a chunk.
    pub(super) fn entries_written(&self) -> u64 {
        self.entries_written
    }

    /// The chunk that the directory of socket `index` names for part `number` of its stream: no
    /// more than a guess, as a program may have written there.
    pub(super) fn entered(&self, index: u32, number: u64) -> u32 {
        let entry = self.arena.rcv_directory(index).entry(number);
        entry.load(Ordering::Relaxed)
    }

    /// Says in the directory of socket `index` which chunk has part `number` of its stream;
    /// how many entries were written for that.
    pub(super) fn enter(&mut self, index: u32, number: u64, chunk: u32) -> u64 {
        let entry = self.arena.rcv_directory(index).entry(number);
        // A stream that is empty again and again often has the chunk again that it had.
        let is_other = entry.load(Ordering::Relaxed) != chunk;
        if is_other {
            entry.store(chunk, Ordering::Release);
            self.entries_written += 1;
        }
        is_other.into()
    }

    /// Chunks that streams have.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.limit - self.available - self.withheld.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Geometry;
    use crate::adapter::AdapterSession;
    use longshore_ring::EventfdSignaler;

    fn slab(rcv_chunks: u32) -> ReceiveSlab {
        let geometry = Geometry {
            rcv_chunks,
            ..Geometry::SMALL
        };
        let signaler = Arc::new(EventfdSignaler::for_one());
        AdapterSession::create(geometry, signaler).unwrap().receive
    }

    #[test]
    fn it_is_nearly_empty_below_an_eighth() {
        let mut slab = slab(17);
        for in_use in 0..17 {
            assert_eq!(slab.in_use(), in_use);
            assert_eq!(slab.is_nearly_empty(), in_use < 3, "{in_use}");
            let free = u64::from(17 - in_use);
            assert_eq!(slab.room_to_grow(), free * CHUNK as u64 / 4);
            assert!(slab.take().is_some());
        }
        assert!(slab.take().is_none() && !slab.has_free());
        slab.give_back(5);
        assert!(slab.has_free() && slab.available() == 1);
    }

    /// With 16 chunks an eighth is two.
    #[test]
    fn an_eighth_is_not_nearly_empty() {
        let mut slab = slab(16);
        assert!(slab.is_nearly_empty() && slab.take().is_some());
        assert!(slab.is_nearly_empty() && slab.take().is_some());
        assert!(!slab.is_nearly_empty());
    }
}
