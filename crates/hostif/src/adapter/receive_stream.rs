//! Placing what arrived in receive streams.
//!
//! A receive stream's chunks are the adapter's: a list in private memory, mirrored to the
//! directory that the host reads. Each socket of the engine owns a [`ReceiveStream`].

mod in_place;
mod lend;
mod short;

use super::receive_slab::ReceiveSlab;
use super::session_meter::ENTRY;
use super::spans::spans;
use crate::abi::{CHUNK, DIRECTORY, STREAM_MAX};
use crate::meter::Moved;
pub use lend::NotLent;
use longshore_ring::{NONE, Room, SharedMemory, Span};
use short::Short;
use std::ops::Range;

/// The receive slab has no chunk left, or the stream spans its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoChunk;

/// A receive stream's chunks: the numbers `first..=last` of the stream.
#[derive(Debug)]
pub struct ReceiveStream {
    head: u32,
    tail: u32,
    first: u64,
    last: u64,
    /// The chunk that was last written to, as long as the stream has it.
    latest: Option<Latest>,
    /// What [`ReceiveStream::room_in_latest`] gave room for and is not counted yet.
    placed: Placed,
    /// Entries of its directory that were written.
    entries: u64,
    /// The newest bytes, if they go to the host in a descriptor.
    short: Option<Short>,
}

/// Where the bytes of a stream from `start` on go.
#[derive(Debug)]
struct Latest {
    start: u64,
    chunk: u32,
    span: Span,
}

/// Payload that was placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Contiguous pieces.
    pub pieces: u32,
    /// Words of 8 bytes that they fill, each by itself.
    pub words: u32,
    /// Bytes in all.
    pub bytes: u64,
}

impl From<Placed> for Moved {
    #[inline]
    fn from(placed: Placed) -> Self {
        Moved {
            transfers: placed.pieces.into(),
            bytes: placed.bytes,
            words: placed.words.into(),
        }
    }
}

impl Placed {
    /// One piece of `len` bytes more. It is taken each turn: none gets anywhere near its end.
    #[inline(always)]
    fn count(&mut self, len: usize) {
        self.pieces = self.pieces.wrapping_add(1);
        self.words = self.words.wrapping_add((len as u32).wrapping_add(7) >> 3);
        self.bytes += len as u64;
    }
}

impl ReceiveStream {
    /// A stream of no bytes, which has no chunk.
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        first: 0,
        last: 0,
        latest: None,
        placed: Placed {
            pieces: 0,
            words: 0,
            bytes: 0,
        },
        entries: 0,
        short: None,
    };

    /// Whether it holds no chunk.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Chunks that it holds.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        if self.head == NONE {
            0
        } else {
            self.last - self.first + 1
        }
    }

    /// What was written to its directory.
    #[must_use]
    pub fn entries_written(&self) -> Moved {
        Moved::equal(self.entries, ENTRY)
    }

    /// Whether there are bytes that go, or went, to the host in a descriptor.
    #[inline]
    #[must_use]
    pub fn has_short(&self) -> bool {
        self.short.is_some()
    }

    /// The chunk that has number `number` of the stream, taken if need be.
    #[inline]
    fn chunk(&mut self, number: u64, slab: &mut ReceiveSlab, index: u32) -> Result<u32, NoChunk> {
        if self.head == NONE {
            let chunk = slab.take().ok_or(NoChunk)?;
            (self.head, self.tail) = (chunk, chunk);
            (self.first, self.last) = (number, number);
            self.entries += slab.enter(index, number, chunk);
            return Ok(chunk);
        }
        if number < self.first || number - self.first >= DIRECTORY as u64 {
            return Err(NoChunk);
        }
        while self.last < number {
            let chunk = slab.take().ok_or(NoChunk)?;
            slab.set_link(self.tail, chunk);
            self.tail = chunk;
            self.last += 1;
            self.entries += slab.enter(index, self.last, chunk);
        }
        if number == self.last {
            return Ok(self.tail);
        }
        let mut chunk = self.head;
        for _ in self.first..number {
            chunk = slab.link(chunk);
        }
        Ok(chunk)
    }

    /// Makes sure that the chunk in which byte `base` lies is there, so that
    /// what comes out of order later finds the stream begun.
    #[inline]
    fn begin(&mut self, base: u64, slab: &mut ReceiveSlab, index: u32) -> Result<(), NoChunk> {
        if self.head == NONE {
            self.chunk(base / CHUNK as u64, slab, index).map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Begins a stream that holds no chunk with the one that its directory names already, if that
    /// is free: then which it is need not cross. Apart from what calls it: the path of those that
    /// hold one is to stay short.
    #[inline(never)]
    fn begin_as_before(&mut self, base: u64, slab: &mut ReceiveSlab, index: u32) {
        let number = base / CHUNK as u64;
        let chunk = slab.entered(index, number);
        if slab.take_again(chunk) {
            (self.head, self.tail) = (chunk, chunk);
            (self.first, self.last) = (number, number);
        }
    }

    /// Room for `len` bytes at offset `at` of the stream, if that is in the chunk that
    /// was written to last. It is not counted: [`note_placed`](Self::note_placed) does that.
    #[inline(always)]
    pub fn room(&self, at: u64, len: usize) -> Option<Room<'_>> {
        let latest = self.latest.as_ref()?;
        latest.span.room(at.wrapping_sub(latest.start), len)
    }

    /// Room for `len` bytes at offset `at` of the stream, if that is in the chunk that was
    /// written to last. It is counted as one piece: the caller fills it for certain.
    #[inline(always)]
    pub fn room_in_latest(&mut self, at: u64, len: usize) -> Option<Room<'_>> {
        let latest = self.latest.as_ref()?;
        let room = latest.span.room(at.wrapping_sub(latest.start), len)?;
        self.placed.count(len);
        Some(room)
    }

    /// A [`room`](Self::room) for `len` bytes was filled, and they are the stream's.
    #[inline]
    pub fn note_placed(&mut self, len: usize) {
        self.placed.count(len);
    }

    /// What was filled so and is not counted yet.
    #[inline]
    pub fn take_placed(&mut self) -> Placed {
        std::mem::take(&mut self.placed)
    }

    /// Copies `bytes` to offset `at` of the stream of socket `index`, all or nothing; says in
    /// how many pieces. `base` is how far the host has consumed: the stream begins there if it
    /// is empty.
    ///
    /// # Errors
    /// [`NoChunk`].
    #[inline(always)]
    pub fn place(
        &mut self,
        base: u64,
        at: u64,
        bytes: &[u8],
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<u64, NoChunk> {
        // Nearly always the bytes go to the chunk that was written to last, and fit.
        if let Some(room) = self.room(at, bytes.len()) {
            room.fill(bytes);
            return Ok(1);
        }
        self.place_anywhere(base, at, bytes, slab, index)
    }

    #[inline(never)]
    fn place_anywhere(
        &mut self,
        base: u64,
        at: u64,
        bytes: &[u8],
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<u64, NoChunk> {
        let put = |memory: &SharedMemory, place, done: usize, len| {
            memory.write(place, bytes.get(done..done + len).unwrap_or_default());
        };
        self.place_by(base, at..at + bytes.len() as u64, slab, index, put)
    }

    /// Has `put` fill the room for bytes `range` of the stream: it is given the memory, a place
    /// there, how many bytes there are before these, and how many go there.
    pub(super) fn place_by(
        &mut self,
        base: u64,
        Range { start: at, end }: Range<u64>,
        slab: &mut ReceiveSlab,
        index: u32,
        put: impl Fn(&SharedMemory, usize, usize, usize),
    ) -> Result<u64, NoChunk> {
        if end.saturating_sub(base) > STREAM_MAX {
            return Err(NoChunk);
        }
        self.begin(base, slab, index)?;
        if at == end {
            return Ok(0);
        }
        self.chunk((end - 1) / CHUNK as u64, slab, index)?;
        let (mut done, mut pieces) = (0, 0);
        for (number, within, len) in spans(at..end) {
            let chunk = self.chunk(number, slab, index)?;
            let place = slab.arena.rcv_place(chunk, within, len).ok_or(NoChunk)?;
            put(slab.arena.memory(), place, done, len);
            done += len;
            pieces += 1;
            if at + done as u64 == end {
                self.note_latest(base, number, chunk, slab);
            }
        }
        Ok(pieces)
    }

    /// What comes next probably goes to chunk `chunk`, which has this number.
    fn note_latest(&mut self, base: u64, number: u64, chunk: u32, slab: &ReceiveSlab) {
        let start = number * CHUNK as u64;
        // No further than the stream may reach from `base`.
        let len = (base + STREAM_MAX).saturating_sub(start).min(CHUNK as u64) as usize;
        self.latest = slab.arena.rcv_place(chunk, 0, len).map(|place| Latest {
            start,
            chunk,
            span: slab.arena.memory().span(place, len),
        });
    }

    /// Copies bytes of the stream from `at` on, as many as `to` takes, of those that are told or
    /// about to be: from its chunks, and what goes to the host in a descriptor from where it is
    /// kept. `false` if it does not have all of them.
    #[must_use]
    pub fn copy_out(&self, at: u64, to: &mut [u8], slab: &ReceiveSlab) -> bool {
        let mut done = 0;
        for (number, within, len) in spans(at..at + to.len() as u64) {
            let chunk = self.chunk_there(number, slab);
            let place = chunk.and_then(|chunk| slab.arena.rcv_place(chunk, within, len));
            let (Some(place), Some(to)) = (place, to.get_mut(done..done + len)) else {
                return false;
            };
            slab.arena.memory().read(place, to);
            done += len;
        }
        self.copy_short(at, to, slab);
        true
    }

    /// The chunk that has number `number` of the stream, if it holds that.
    fn chunk_there(&self, number: u64, slab: &ReceiveSlab) -> Option<u32> {
        if self.head == NONE || !(self.first..=self.last).contains(&number) {
            return None;
        }
        let mut chunk = self.head;
        for _ in self.first..number {
            chunk = *slab.links.get(chunk as usize)?;
        }
        Some(chunk)
    }

    /// Gives back the chunks that lie wholly before `consumed`, and the last
    /// too if `all` of what it holds is consumed.
    pub fn consume(&mut self, consumed: u64, all: bool, slab: &mut ReceiveSlab) {
        let first_kept = consumed / CHUNK as u64;
        while self.head != NONE && (self.first < first_kept || all) {
            let chunk = self.head;
            let next = slab.link(chunk);
            self.let_go(chunk, consumed, slab);
            if chunk == self.tail {
                (self.head, self.tail) = (NONE, NONE);
                self.latest = None;
            } else {
                self.head = next;
                self.first += 1;
            }
        }
        let begin = self.first * CHUNK as u64;
        if self.latest.as_ref().is_some_and(|l| l.start < begin) {
            self.latest = None;
        }
    }

    /// The stream ends at `end`, of which the host has consumed up to `consumed`, and no more
    /// is placed: gives back the chunks in which there is nothing to read.
    pub fn end_at(&mut self, end: u64, consumed: u64, slab: &mut ReceiveSlab) {
        if consumed == end {
            return self.consume(consumed, true, slab);
        }
        let last_kept = (end - 1) / CHUNK as u64;
        let Some(kept) = self.chunk_there(last_kept, slab) else {
            return;
        };
        if kept == self.tail {
            return;
        }
        let mut next = slab.link(kept);
        while next != NONE {
            let chunk = next;
            next = slab.link(chunk);
            self.let_go(chunk, consumed, slab);
        }
        slab.set_link(kept, NONE);
        (self.tail, self.last, self.latest) = (kept, last_kept, None);
    }
}

#[cfg(test)]
mod tests;
