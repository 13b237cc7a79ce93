//! Bytes of a receive stream that the kernel writes to where the host reads them.
//!
//! Methods of [`ReceiveStream`], called before and after a frame is read whose payload is
//! expected to be the next of this stream. What is written there and turns out to be something
//! else lies beyond the stream's edge, where no host looks, and is written over later.

use super::{NoChunk, ReceiveStream};
use crate::abi::{CHUNK, STREAM_MAX};
use crate::adapter::receive_slab::ReceiveSlab;
use crate::adapter::spans::spans;
use longshore_ring::SharedRooms;

impl ReceiveStream {
    /// Takes the chunks for `len` bytes from offset `at` of the stream of socket `index` on;
    /// they are the stream's from now on. `base` is how far the host has consumed.
    ///
    /// # Errors
    /// [`NoChunk`].
    pub fn reserve(
        &mut self,
        base: u64,
        at: u64,
        len: usize,
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<(), NoChunk> {
        let end = at + len as u64;
        if len == 0 || end.saturating_sub(base) > STREAM_MAX {
            return Err(NoChunk);
        }
        self.begin(base, slab, index)?;
        if self.last < (end - 1) / CHUNK as u64 {
            self.chunk((end - 1) / CHUNK as u64, slab, index)?;
        }
        Ok(())
    }

    /// The places of these bytes, for which chunks are [reserved](Self::reserve); `None` if they
    /// are not, or lie in more than two. The caller has the kernel write there only where the
    /// stream has no bytes yet.
    #[must_use]
    pub fn rooms<'s>(&self, at: u64, len: usize, slab: &'s ReceiveSlab) -> Option<SharedRooms<'s>> {
        let mut rooms = SharedRooms::default();
        for (number, within, len) in spans(at..at + len as u64) {
            let chunk = self.chunk_near_end(number, slab)?;
            let place = slab.arena.rcv_place(chunk, within, len)?;
            if !rooms.push(slab.arena.memory(), place, len) {
                return None;
            }
        }
        Some(rooms)
    }

    /// The first `len` bytes of what [`rooms`](Self::rooms) has given for `at` are the stream's,
    /// and are counted as placed, as those of [`room_in_latest`](Self::room_in_latest) are.
    pub fn take_in_place(&mut self, base: u64, at: u64, len: usize, slab: &ReceiveSlab) {
        let mut last = None;
        for (number, _, len) in spans(at..at + len as u64) {
            self.placed.count(len);
            last = Some(number);
        }
        let Some(number) = last else { return };
        let is_latest = |start| start == number * CHUNK as u64;
        if !self.latest.as_ref().is_some_and(|l| is_latest(l.start))
            && let Some(chunk) = self.chunk_near_end(number, slab)
        {
            self.note_latest(base, number, chunk, slab);
        }
    }

    /// The chunk that has number `number` of the stream, if it holds that; found at once where
    /// it was written to last, or is its last.
    fn chunk_near_end(&self, number: u64, slab: &ReceiveSlab) -> Option<u32> {
        match &self.latest {
            Some(latest) if latest.start == number * CHUNK as u64 => Some(latest.chunk),
            _ if self.head != longshore_ring::NONE && number == self.last => Some(self.tail),
            _ => self.chunk_there(number, slab),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Geometry;
    use crate::meter::Moved;
    use crate::pattern::pattern;
    use crate::transport::Arena;
    use std::sync::Arc;

    const GEOMETRY: Geometry = Geometry {
        channels: 64,
        waiters: 8,
        sockets: 64,
        snd_chunks: 8,
        rcv_chunks: 8,
        workers: 1,
    };
    const CHUNK_LEN: u64 = CHUNK as u64;

    fn slab(chunks: u32) -> (Arc<Arena>, ReceiveSlab) {
        let arena = Arc::new(Arena::create(GEOMETRY).unwrap());
        let slab = ReceiveSlab::limited(&arena, chunks);
        (arena, slab)
    }

    fn copied(stream: &ReceiveStream, at: u64, len: usize, slab: &ReceiveSlab) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(stream.copy_out(at, &mut bytes, slab));
        bytes
    }

    #[test]
    fn what_is_written_in_place_is_the_streams() {
        let (_arena, mut slab) = slab(8);
        let mut stream = ReceiveStream::EMPTY;
        stream.place(0, 0, &[1; 100], &mut slab, 3).unwrap();
        // In the chunk that is there, across its end, and in the next one.
        for (at, len, pieces) in [
            (100, 50, 1),
            (150, CHUNK, 2),
            (CHUNK_LEN + 150, 7, 1),
            (CHUNK_LEN + 157, CHUNK - 157, 1),
            (2 * CHUNK_LEN, CHUNK, 1),
        ] {
            stream.take_placed();
            stream.reserve(0, at, len, &mut slab, 3).unwrap();
            let rooms = stream.rooms(at, len, &slab).unwrap();
            assert_eq!(rooms.len(), len);
            let bytes = pattern(len);
            rooms.fill(&bytes);
            stream.take_in_place(0, at, len, &slab);
            assert_eq!(copied(&stream, at, len, &slab), bytes);
            let moved = Moved::of_stream(pieces, at, len as u64);
            assert_eq!(Moved::from(stream.take_placed()), moved);
            // Copies go on there.
            let end = at + len as u64;
            let may_go_on = !end.is_multiple_of(CHUNK_LEN);
            assert_eq!(stream.room_in_latest(end, 1).is_some(), may_go_on, "{at}");
        }
        assert_eq!(copied(&stream, 0, 100, &slab), [1; 100]);
        assert_eq!((stream.chunks(), slab.in_use()), (3, 3));
        stream.consume(3 * CHUNK_LEN, true, &mut slab);
        assert_eq!(slab.in_use(), 0);
    }

    /// What was reserved and not used is written over by what comes by another way.
    #[test]
    fn what_is_reserved_in_vain_is_used_for_the_next_bytes_or_given_back() {
        let (_arena, mut slab) = slab(8);
        let mut stream = ReceiveStream::EMPTY;
        let at = CHUNK_LEN + 10;
        stream.reserve(at, at, CHUNK, &mut slab, 3).unwrap();
        assert_eq!((stream.chunks(), slab.in_use()), (2, 2));
        stream.rooms(at, CHUNK, &slab).unwrap().fill(&[9; CHUNK]);
        stream.place(at, at, &[1; 20], &mut slab, 3).unwrap();
        assert_eq!(copied(&stream, at, 21, &slab)[19..], [1, 9]);
        assert_eq!(slab.in_use(), 2);
        stream.consume(at + 20, true, &mut slab);
        assert_eq!((stream.chunks(), slab.in_use()), (0, 0));
        // A stream that ends keeps no chunk beyond its end.
        stream.reserve(0, 0, CHUNK, &mut slab, 3).unwrap();
        stream.place(0, 0, &[1; 20], &mut slab, 3).unwrap();
        stream.reserve(0, 20, CHUNK, &mut slab, 3).unwrap();
        stream.end_at(20, 0, &mut slab);
        assert_eq!((stream.chunks(), slab.in_use()), (1, 1));
    }

    #[test]
    fn no_more_is_reserved_than_there_may_be() {
        let (_arena, mut slab) = slab(2);
        let mut stream = ReceiveStream::EMPTY;
        let reserved = stream.reserve(0, 0, 0, &mut slab, 3);
        assert_eq!((reserved, slab.in_use()), (Err(NoChunk), 0));
        stream.reserve(0, CHUNK_LEN, CHUNK, &mut slab, 3).unwrap();
        assert!(stream.rooms(0, 2 * CHUNK, &slab).is_some());
        assert!(stream.rooms(1, 2 * CHUNK, &slab).is_none(), "one more");
        let reserved = stream.reserve(0, 2 * CHUNK_LEN, 1, &mut slab, 3);
        assert_eq!(reserved, Err(NoChunk));
    }

    #[test]
    fn no_more_is_reserved_than_a_stream_may_have() {
        let geometry = Geometry {
            rcv_chunks: 300,
            ..GEOMETRY
        };
        let arena = Arc::new(Arena::create(geometry).unwrap());
        let mut slab = ReceiveSlab::limited(&arena, 300);
        let mut stream = ReceiveStream::EMPTY;
        let at = 7 + STREAM_MAX - 10;
        assert_eq!(stream.reserve(7, at, 11, &mut slab, 3), Err(NoChunk));
        assert_eq!(stream.chunks(), 0);
        assert_eq!(stream.reserve(7, at, 10, &mut slab, 3), Ok(()));
    }

    #[test]
    fn bytes_in_three_chunks_have_no_rooms() {
        let (_arena, mut slab) = slab(8);
        let mut stream = ReceiveStream::EMPTY;
        let len = CHUNK + 2;
        let at = CHUNK_LEN - 1;
        stream.reserve(0, at, len, &mut slab, 3).unwrap();
        assert_eq!(stream.chunks(), 3);
        assert!(stream.rooms(at, len, &slab).is_none());
        assert_eq!(stream.rooms(at, len - 1, &slab).unwrap().len(), len - 1);
    }
}
