//! Reading what the host wrote to send streams.
//!
//! A send stream's directory is the host's, so each entry that is read from it is checked.

use super::spans::spans;
use crate::abi::CHUNK;
use crate::transport::Arena;
use longshore_ring::SharedBytes;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most pieces that 64 KiB of a send stream lie in.
pub const MAX_PIECES: usize = 3;

/// The send stream does not hold what its host said that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadStream;

/// The send streams of a session's sockets, by the indices of their blocks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SendStreams {
    pub(super) arena: Arc<Arena>,
    /// Counts how often places of requests were given back, from 1 on.
    pub(super) round: u64,
}

impl SendStreams {
    pub(super) fn of(arena: &Arc<Arena>) -> Self {
        Self {
            arena: arena.clone(),
            round: 1,
        }
    }

    /// Finds the bytes `range` of the send stream of socket `index`, which are read in place.
    /// Says how many of `out` are filled.
    ///
    /// # Errors
    /// [`BadStream`].
    #[inline]
    pub fn gather<'a>(
        &'a self,
        index: u32,
        range: Range<u64>,
        out: &mut [SharedBytes<'a>; MAX_PIECES],
    ) -> Result<usize, BadStream> {
        let directory = self.arena.snd_directory(index);
        // A packet nearly always lies in one chunk.
        let (within, len) = (
            range.start as usize % CHUNK,
            (range.end - range.start) as usize,
        );
        if len <= CHUNK - within {
            let number = range.start / CHUNK as u64;
            let chunk = directory.entry(number).load(Ordering::Acquire);
            let place = self.arena.snd_place(chunk, within, len).ok_or(BadStream)?;
            out[0] = self.arena.memory().shared(place, len);
            return Ok(1);
        }
        self.gather_chunks(index, range, out)
    }

    #[inline(never)]
    fn gather_chunks<'a>(
        &'a self,
        index: u32,
        range: Range<u64>,
        out: &mut [SharedBytes<'a>; MAX_PIECES],
    ) -> Result<usize, BadStream> {
        let (directory, memory) = (self.arena.snd_directory(index), self.arena.memory());
        let mut count = 0;
        // Where the last piece begins and ends.
        let (mut from, mut end) = (0, 0);
        for (number, within, len) in spans(range) {
            let chunk = directory.entry(number).load(Ordering::Acquire);
            let place = self.arena.snd_place(chunk, within, len).ok_or(BadStream)?;
            // Chunks that follow each other in the memory, too, are one piece.
            if count == 0 || place != end {
                (from, count) = (place, count + 1);
            }
            end = place + len;
            let slot = out.get_mut(count - 1).ok_or(BadStream)?;
            *slot = memory.shared(from, end - from);
        }
        Ok(count)
    }

    /// Copies bytes of a send stream out, from `at` on, as many as `to` takes.
    ///
    /// # Errors
    /// [`BadStream`].
    pub fn copy_out(&self, index: u32, at: u64, to: &mut [u8]) -> Result<(), BadStream> {
        let directory = self.arena.snd_directory(index);
        let mut done = 0;
        for (number, within, len) in spans(at..at + to.len() as u64) {
            let chunk = directory.entry(number).load(Ordering::Acquire);
            let place = self.arena.snd_place(chunk, within, len).ok_or(BadStream)?;
            self.arena
                .memory()
                .read(place, to.get_mut(done..done + len).ok_or(BadStream)?);
            done += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Address, DATAGRAM_HEADER, DatagramRecord, Geometry};

    fn streams() -> SendStreams {
        SendStreams::of(&Arc::new(Arena::create(Geometry::SMALL).unwrap()))
    }

    #[test]
    fn a_forged_send_directory_is_refused() {
        let streams = streams();
        let entry = streams.arena.snd_directory(1).entry(0);
        let chunks = Geometry::SMALL.snd_chunks;
        let mut out = [SharedBytes::EMPTY; MAX_PIECES];
        entry.store(chunks, Ordering::Relaxed);
        assert_eq!(streams.gather(1, 0..10, &mut out), Err(BadStream));
        assert_eq!(streams.copy_out(1, 0, &mut [0; 10]), Err(BadStream));
        entry.store(chunks - 1, Ordering::Relaxed);
        assert_eq!(streams.gather(1, 0..10, &mut out), Ok(1));
        let beyond = CHUNK as u64 - 5..CHUNK as u64 + 5;
        streams
            .arena
            .snd_directory(1)
            .entry(1)
            .store(chunks, Ordering::Relaxed);
        assert_eq!(streams.gather(1, beyond, &mut out), Err(BadStream));
    }

    #[test]
    fn bytes_are_found_chunk_by_chunk() {
        let streams = streams();
        for (number, chunk) in [2, 0, 3].into_iter().enumerate() {
            let directory = streams.arena.snd_directory(1);
            directory
                .entry(number as u64)
                .store(chunk, Ordering::Relaxed);
        }
        let (chunk, memory) = (CHUNK as u64, streams.arena.memory());
        let last = streams.arena.snd_place(2, CHUNK - 3, 3).unwrap();
        memory.write(last, b"abc");
        let first = streams.arena.snd_place(3, 0, 2).unwrap();
        memory.write(first, b"yz");
        let mut out = [SharedBytes::EMPTY; MAX_PIECES];
        let count = streams.gather(1, chunk - 3..2 * chunk + 2, &mut out);
        assert_eq!(count, Ok(3));
        assert_eq!(out.map(|p| p.len()), [3, CHUNK, 2]);
        let mut got = [0; 3];
        out[0].copy_to(&mut got);
        assert_eq!(&got, b"abc");
        let mut got = vec![0; CHUNK + 5];
        streams.copy_out(1, chunk - 3, &mut got).unwrap();
        assert_eq!((&got[..3], &got[CHUNK + 3..]), (&b"abc"[..], &b"yz"[..]));
        // Chunks that lie one behind the other are one piece.
        for (number, chunk) in [0, 1, 2].into_iter().enumerate() {
            let directory = streams.arena.snd_directory(2);
            directory
                .entry(number as u64)
                .store(chunk, Ordering::Relaxed);
        }
        let mut joined = [SharedBytes::EMPTY; MAX_PIECES];
        let count = streams.gather(2, chunk - 3..2 * chunk + 2, &mut joined);
        assert_eq!((count, joined[0].len()), (Ok(1), CHUNK + 5));
        // A fourth piece has no room.
        let far = streams.gather(1, chunk - 3..3 * chunk + 2, &mut out);
        assert_eq!(far, Err(BadStream));
    }

    /// A datagram's record is read from a stream as it was written.
    #[test]
    fn a_record_is_copied_out_across_chunks() {
        let streams = streams();
        let directory = streams.arena.snd_directory(1);
        directory.entry(0).store(1, Ordering::Relaxed);
        directory.entry(1).store(0, Ordering::Relaxed);
        let record = DatagramRecord::new(77, Address::NONE).encode();
        let (a, b) = record.split_at(10);
        let memory = streams.arena.memory();
        let end = streams.arena.snd_place(1, CHUNK - 10, 10).unwrap();
        memory.write(end, a);
        let start = streams.arena.snd_place(0, 0, b.len()).unwrap();
        memory.write(start, b);
        let mut got = [0; DATAGRAM_HEADER];
        streams.copy_out(1, CHUNK as u64 - 10, &mut got).unwrap();
        assert_eq!(got, record);
    }
}
