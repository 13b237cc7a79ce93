//! The adapter's side of a socket's two streams: reading what the host wrote,
//! placing what arrived.
//!
//! The send stream's directory is the host's; every entry read from it is
//! checked. The receive stream's chunks are ours: a list in private memory
//! ([`RcvSlab`]), mirrored to the directory that the host reads.

use longshore_hostif::{Arena, CHUNK, DIRECTORY, STREAM_MAX};
use longshore_ring::{NONE, Room, Span};
use rustix::io::Errno;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Most pieces that a piece of send stream of 64 KiB lies in.
pub(crate) const MAX_PIECES: usize = 3;

/// The host's send stream does not hold what the host said it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadStream;

/// The receive slab has no chunk left, or the stream spans its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoChunk;

/// Where the bytes `range` of a stream lie: (offset in the chunk's place,
/// length), chunk by chunk.
fn spans(range: Range<u64>) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let within = (at % CHUNK as u64) as usize;
        let len = ((range.end - at) as usize).min(CHUNK - within);
        let number = at / CHUNK as u64;
        at += len as u64;
        Some((number, within, len))
    })
}

/// The pieces of send stream `range` of socket `index`, to be handed to the
/// port. `pieces` says how many are filled.
pub(crate) fn snd_pieces<'a>(
    arena: &'a Arena,
    index: u32,
    range: Range<u64>,
    out: &mut [IoSlice<'a>; MAX_PIECES],
) -> Result<usize, BadStream> {
    let directory = arena.snd_directory(index);
    let mut count = 0;
    // A packet nearly always lies in one chunk.
    let (within, len) = (
        range.start as usize % CHUNK,
        (range.end - range.start) as usize,
    );
    if len <= CHUNK - within {
        let number = range.start / CHUNK as u64;
        let chunk = directory.entry(number).load(Ordering::Acquire);
        let place = arena.snd_place(chunk, within, len).ok_or(BadStream)?;
        // SAFETY: as below.
        out[0] = IoSlice::new(unsafe { arena.memory().bytes(place, len) });
        return Ok(1);
    }
    for (number, within, len) in spans(range) {
        let chunk = directory.entry(number).load(Ordering::Acquire);
        let place = arena.snd_place(chunk, within, len).ok_or(BadStream)?;
        let slot = out.get_mut(count).ok_or(BadStream)?;
        // SAFETY: the bytes go to the kernel or are copied or summed; nothing
        // is decided by them.
        *slot = IoSlice::new(unsafe { arena.memory().bytes(place, len) });
        count += 1;
    }
    Ok(count)
}

/// Copies send stream `range` out (for datagrams' headers).
pub(crate) fn snd_copy(
    arena: &Arena,
    index: u32,
    range: Range<u64>,
    to: &mut [u8],
) -> Result<(), BadStream> {
    let directory = arena.snd_directory(index);
    let mut done = 0;
    for (number, within, len) in spans(range) {
        let chunk = directory.entry(number).load(Ordering::Acquire);
        let place = arena.snd_place(chunk, within, len).ok_or(BadStream)?;
        arena
            .memory()
            .read(place, to.get_mut(done..done + len).ok_or(BadStream)?);
        done += len;
    }
    Ok(())
}

/// The chunks of a session's receive slab: which are free, and for each that
/// is not, the next of its stream.
#[derive(Debug)]
pub(crate) struct RcvSlab {
    links: Vec<u32>,
    free: Vec<u32>,
    never_used: u32,
    limit: u32,
    available: u32,
    /// So many of `free`, from its beginning, take no memory.
    cold: usize,
    /// The fewest that were free since it was last looked at.
    fewest_free: usize,
    /// In debug builds, the chunks' memory: what is given back is filled with [`POISON`].
    #[cfg(debug_assertions)]
    memory: Option<Span>,
}

/// What free chunks are full of in debug builds. Whoever sees it reads what no connection
/// has received.
#[cfg(debug_assertions)]
pub(crate) const POISON: u8 = 0xdb;

impl RcvSlab {
    /// All chunks of an arena.
    pub(crate) fn of(arena: &Arena) -> Self {
        let chunks = arena.geometry().rcv_chunks;
        Self {
            #[cfg(debug_assertions)]
            memory: arena
                .rcv_place(0, 0, 0)
                .map(|at| arena.memory().span(at, chunks as usize * CHUNK)),
            ..Self::new(chunks)
        }
    }

    pub(crate) fn new(chunks: u32) -> Self {
        Self {
            links: Vec::new(),
            free: Vec::new(),
            never_used: 0,
            limit: chunks,
            available: chunks,
            cold: 0,
            fewest_free: 0,
            #[cfg(debug_assertions)]
            memory: None,
        }
    }

    fn take(&mut self) -> Option<u32> {
        let chunk = match self.free.pop() {
            Some(chunk) => {
                let left = self.free.len();
                self.fewest_free = self.fewest_free.min(left);
                self.cold = self.cold.min(left);
                chunk
            }
            None if self.never_used < self.limit => {
                self.never_used += 1;
                self.links.push(NONE);
                self.never_used - 1
            }
            None => return None,
        };
        self.links[chunk as usize] = NONE;
        self.available -= 1;
        Some(chunk)
    }

    fn give_back(&mut self, chunk: u32) {
        #[cfg(debug_assertions)]
        self.poison(chunk);
        self.free.push(chunk);
        self.available += 1;
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
    pub(crate) fn available(&self) -> u32 {
        self.available
    }

    /// Free chunks that take memory.
    pub(crate) fn warm(&self) -> usize {
        self.free.len() - self.cold
    }

    /// From now on it is noted how many chunks stay free.
    pub(crate) fn note_free(&mut self) {
        self.fewest_free = self.free.len();
    }

    /// Gives the memory of chunks back to the system that were free ever since
    /// [`note_free`](Self::note_free), `most` at most; says of how many.
    pub(crate) fn cool(&mut self, arena: &Arena, most: usize) -> Result<usize, Errno> {
        let end = self.fewest_free.min(self.cold.saturating_add(most));
        let mut cooled = 0;
        while self.cold < end {
            arena.cool_rcv_chunk(self.free[self.cold])?;
            self.cold += 1;
            cooled += 1;
        }
        Ok(cooled)
    }

    /// Chunks in use.
    pub(crate) fn in_use(&self) -> u32 {
        self.limit - self.available
    }
}

/// A receive stream's chunks: the numbers `first..=last` of the stream.
#[derive(Debug)]
pub(crate) struct RcvStream {
    head: u32,
    tail: u32,
    first: u64,
    last: u64,
    /// The chunk that was last written to, as long as the stream has it.
    landing: Option<Landing>,
    /// What [`RcvStream::landing`] was given room for and is not counted yet.
    landed: Landed,
}

/// Where the bytes of a stream from `start` on go.
#[derive(Debug)]
struct Landing {
    start: u64,
    span: Span,
}

/// Payload that was placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Landed {
    pub(crate) pieces: u32,
    pub(crate) bytes: u64,
}

impl RcvStream {
    pub(crate) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        first: 0,
        last: 0,
        landing: None,
        landed: Landed {
            pieces: 0,
            bytes: 0,
        },
    };

    /// Whether it holds no chunk.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The chunk that has number `number` of the stream, taken if need be.
    fn chunk(
        &mut self,
        number: u64,
        slab: &mut RcvSlab,
        arena: &Arena,
        index: u32,
    ) -> Result<u32, NoChunk> {
        if self.head == NONE {
            let chunk = slab.take().ok_or(NoChunk)?;
            (self.head, self.tail) = (chunk, chunk);
            (self.first, self.last) = (number, number);
            arena
                .rcv_directory(index)
                .entry(number)
                .store(chunk, Ordering::Release);
            return Ok(chunk);
        }
        if number < self.first || number - self.first >= DIRECTORY as u64 {
            return Err(NoChunk);
        }
        while self.last < number {
            let chunk = slab.take().ok_or(NoChunk)?;
            slab.links[self.tail as usize] = chunk;
            self.tail = chunk;
            self.last += 1;
            arena
                .rcv_directory(index)
                .entry(self.last)
                .store(chunk, Ordering::Release);
        }
        if number == self.last {
            return Ok(self.tail);
        }
        let mut chunk = self.head;
        for _ in self.first..number {
            chunk = slab.links[chunk as usize];
        }
        Ok(chunk)
    }

    /// Makes sure that the chunk in which byte `base` lies is there, so that
    /// what comes out of order later finds the stream begun.
    fn begin(
        &mut self,
        base: u64,
        slab: &mut RcvSlab,
        arena: &Arena,
        index: u32,
    ) -> Result<(), NoChunk> {
        if self.head == NONE {
            self.chunk(base / CHUNK as u64, slab, arena, index)
                .map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Room for `len` bytes at offset `at` of the stream, if that is in the chunk that
    /// was written to last.
    #[inline(always)]
    fn room(&self, at: u64, len: usize) -> Option<Room<'_>> {
        let landing = self.landing.as_ref()?;
        landing.span.room(at.wrapping_sub(landing.start), len)
    }

    /// The same to be filled for certain: it is counted as one piece.
    #[inline(always)]
    pub(crate) fn landing(&mut self, at: u64, len: usize) -> Option<Room<'_>> {
        let landing = self.landing.as_ref()?;
        let room = landing.span.room(at.wrapping_sub(landing.start), len)?;
        // Counted each turn: neither gets anywhere near its end.
        self.landed.pieces = self.landed.pieces.wrapping_add(1);
        self.landed.bytes += len as u64;
        Some(room)
    }

    /// What was filled so and is not counted yet.
    #[inline]
    pub(crate) fn take_landed(&mut self) -> Landed {
        std::mem::take(&mut self.landed)
    }

    /// Copies `bytes` to offset `at` of the stream, all or nothing. `base` is
    /// how far the host has consumed: the stream begins there if it is empty.
    #[inline(always)]
    pub(crate) fn place(
        &mut self,
        base: u64,
        at: u64,
        bytes: &[u8],
        slab: &mut RcvSlab,
        arena: &Arena,
        index: u32,
    ) -> Result<u64, NoChunk> {
        // Nearly always the bytes go to the chunk that was written to last, and fit.
        if let Some(room) = self.room(at, bytes.len()) {
            room.fill(bytes);
            return Ok(1);
        }
        self.place_anywhere(base, at, bytes, slab, arena, index)
    }

    #[inline(never)]
    fn place_anywhere(
        &mut self,
        base: u64,
        at: u64,
        bytes: &[u8],
        slab: &mut RcvSlab,
        arena: &Arena,
        index: u32,
    ) -> Result<u64, NoChunk> {
        if at.saturating_sub(base) + bytes.len() as u64 > STREAM_MAX {
            return Err(NoChunk);
        }
        self.begin(base, slab, arena, index)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let end = at + bytes.len() as u64;
        self.chunk((end - 1) / CHUNK as u64, slab, arena, index)?;
        let (mut done, mut pieces) = (0, 0);
        for (number, within, len) in spans(at..end) {
            let chunk = self.chunk(number, slab, arena, index)?;
            let place = arena.rcv_place(chunk, within, len).ok_or(NoChunk)?;
            arena.memory().write(place, &bytes[done..done + len]);
            done += len;
            pieces += 1;
            if at + done as u64 == end {
                self.land(base, number, chunk, arena);
            }
        }
        Ok(pieces)
    }

    /// What comes next probably goes to chunk `chunk`, which has this number.
    fn land(&mut self, base: u64, number: u64, chunk: u32, arena: &Arena) {
        let start = number * CHUNK as u64;
        // No further than the stream may reach from `base`.
        let len = (base + STREAM_MAX).saturating_sub(start).min(CHUNK as u64) as usize;
        self.landing = arena.rcv_place(chunk, 0, len).map(|place| Landing {
            start,
            span: arena.memory().span(place, len),
        });
    }

    /// Gives back the chunks that lie wholly before `consumed`, and the last
    /// too if `all` of what it holds is consumed.
    pub(crate) fn consume(&mut self, consumed: u64, all: bool, slab: &mut RcvSlab) {
        let first_kept = consumed / CHUNK as u64;
        while self.head != NONE && (self.first < first_kept || all) {
            let chunk = self.head;
            slab.give_back(chunk);
            if chunk == self.tail {
                (self.head, self.tail) = (NONE, NONE);
                self.landing = None;
            } else {
                self.head = slab.links[chunk as usize];
                self.first += 1;
            }
        }
        let begin = self.first * CHUNK as u64;
        if self.landing.as_ref().is_some_and(|l| l.start < begin) {
            self.landing = None;
        }
    }
}

#[cfg(test)]
mod tests;
