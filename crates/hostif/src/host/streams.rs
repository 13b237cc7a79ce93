//! The streams of a session's sockets for a host that is no program: one that relays what
//! programs elsewhere write and read (`link`), in a process of its own and one thread.
//!
//! What programs themselves do with streams, with many threads and processes, is in `sockets`,
//! which gives chunks back as here.

use super::session::HostSession;
use crate::abi::{BlockFlags, CHUNK, OpenFlags, SocketBlock, SocketId, SocketKind, SocketState};
use longshore_ring::{Corrupt, Reentered};
use std::sync::atomic::Ordering;

/// Why bytes could not be written to a stream, or read from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The session's memory is not as it should be.
    #[error("the session's shared memory is broken")]
    Broken,
}

impl From<Corrupt> for StreamError {
    fn from(_: Corrupt) -> Self {
        Self::Broken
    }
}

impl From<Reentered> for StreamError {
    fn from(_: Reentered) -> Self {
        Self::Broken
    }
}

/// The parts of `len` bytes from `at` on, by chunks: number, place within it, length.
pub(super) fn parts(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at + len as u64;
    let mut at = at;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let within = (at % CHUNK as u64) as usize;
        let here = (CHUNK - within).min((end - at) as usize);
        let part = (at / CHUNK as u64, within, here);
        at += here as u64;
        Some(part)
    })
}

impl HostSession {
    /// Takes a free block for a socket that is about to be opened, and notes that the process
    /// of `channel` holds it. `None` if no block is free.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn open_block(
        &self,
        channel: u32,
        kind: SocketKind,
        flags: OpenFlags,
    ) -> Result<Option<SocketId>, StreamError> {
        let free = &self.arena.header().free_sockets;
        let Some(index) = free.pop(self.arena.socket_links())? else {
            return Ok(None);
        };
        let block = self.get_block(index).ok_or(StreamError::Broken)?;
        let mut of = BlockFlags::empty();
        of.set(BlockFlags::DATAGRAM, kind == SocketKind::Datagram);
        of.set(BlockFlags::IPV6, flags.contains(OpenFlags::IPV6));
        let worker = self.worker_for(channel);
        let generation = block.begin_at(worker, SocketState::Open, of);
        self.note_used(index);
        self.set_held(channel, index, true);
        Ok(Some(SocketId { index, generation }))
    }

    /// Gives a block back that was taken for a socket that is not opened after all.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn give_unopened_back(&self, channel: u32, id: SocketId) -> Result<(), StreamError> {
        let block = self.get_block(id.index).ok_or(StreamError::Broken)?;
        self.set_held(channel, id.index, false);
        block.set_state(SocketState::Free);
        let free = &self.arena.header().free_sockets;
        Ok(free.push(self.arena.socket_links(), id.index)?)
    }

    /// Notes whether the process of `channel` holds a socket: what it holds when it dies is
    /// closed.
    pub fn set_held(&self, channel: u32, index: u32, held: bool) {
        if self.get_block(index).is_some() {
            self.arena.set_held(channel, index, held);
        }
    }

    /// Appends bytes to the send stream of a socket, as many as there are chunks for; says how
    /// many. They count once the engine is told of the edge.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn append(&self, index: u32, bytes: &[u8]) -> Result<usize, StreamError> {
        let block = self.get_block(index).ok_or(StreamError::Broken)?;
        let _lock = block.snd.lock_to_send()?;
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let has_chunk = block.snd.returned.load(Ordering::Relaxed) != edge;
        let directory = self.arena.snd_directory(index);
        let mut written = 0;
        for (number, within, len) in parts(edge, bytes.len()) {
            let entry = directory.entry(number);
            let is_new = within == 0 || (written == 0 && !has_chunk);
            if is_new {
                let Some(chunk) = self.arena.take_snd_chunk()? else {
                    break;
                };
                entry.store(chunk, Ordering::Release);
            }
            let chunk = entry.load(Ordering::Relaxed);
            let place = self.arena.snd_place(chunk, within, len);
            let place = place.ok_or(StreamError::Broken)?;
            let part = &bytes[written..written + len];
            self.arena.memory().write(place, part);
            written += len;
        }
        let edge = edge + written as u64;
        block.snd.edge.store(edge, Ordering::Release);
        Ok(written)
    }

    /// The send stream of a socket is acknowledged up to `acked`: chunks of which all is are
    /// given back.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn acknowledge(&self, index: u32, acked: u64) -> Result<(), StreamError> {
        let block = self.get_block(index).ok_or(StreamError::Broken)?;
        let _lock = block.snd.lock_to_send()?;
        block.snd.done.fetch_max(acked, Ordering::AcqRel);
        self.free_acknowledged(index, block)?;
        Ok(())
    }

    /// Gives back the chunks of a send stream of which all is acknowledged; whether there were
    /// any. `block` is that of `index`, and the caller has the lock of its send half.
    ///
    /// # Errors
    /// [`Corrupt`] if the session's memory is not as it should be.
    pub fn free_acknowledged(&self, index: u32, block: &SocketBlock) -> Result<bool, Corrupt> {
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let done = block.snd.done.load(Ordering::Acquire).min(edge);
        let returned = block.snd.returned.load(Ordering::Relaxed);
        let returned_now = if done == edge {
            edge
        } else {
            done - done % CHUNK as u64
        };
        if returned_now <= returned {
            return Ok(false);
        }
        let directory = self.arena.snd_directory(index);
        // The edge moves first: whoever takes over after our death must not
        // free them a second time.
        block.snd.returned.store(returned_now, Ordering::Release);
        // The last goes first, so that those that follow each other in the memory are taken
        // so again.
        for number in (returned / CHUNK as u64..returned_now.div_ceil(CHUNK as u64)).rev() {
            let chunk = directory.entry(number).load(Ordering::Relaxed);
            self.arena.give_snd_chunk(chunk)?;
        }
        Ok(true)
    }

    /// Copies bytes of the receive stream of a socket, from `at` on. The engine has said that
    /// they are there.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn copy_received(&self, index: u32, at: u64, to: &mut [u8]) -> Result<(), StreamError> {
        if self.get_block(index).is_none() {
            return Err(StreamError::Broken);
        }
        let directory = self.arena.rcv_directory(index);
        let mut done = 0;
        for (number, within, len) in parts(at, to.len()) {
            let entry = directory.entry(number).load(Ordering::Acquire);
            let place = self.arena.received_place(entry, within, len);
            let place = place.ok_or(StreamError::Broken)?;
            self.arena.memory().read(place, &mut to[done..done + len]);
            done += len;
        }
        Ok(())
    }

    /// Notes that the receive stream of a socket was consumed up to `consumed`: what the
    /// engine finds should this process die before it is told.
    pub fn note_consumed(&self, index: u32, consumed: u64) {
        if let Some(block) = self.get_block(index) {
            block.rcv.done.fetch_max(consumed, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Geometry;
    use crate::adapter::{AdapterSession, ReceiveStream};
    use crate::pattern::pattern;
    use longshore_ring::EventfdSignaler;
    use std::sync::Arc;

    fn both() -> (AdapterSession, HostSession, SocketId) {
        let signaler = Arc::new(EventfdSignaler::for_one());
        let adapter = AdapterSession::create(Geometry::SMALL, signaler).unwrap();
        let host = HostSession::of(adapter.arena());
        let opened = host.open_block(0, SocketKind::Stream, OpenFlags::empty());
        (adapter, host, opened.unwrap().unwrap())
    }

    /// What is appended is what the adapter reads, over any number of rounds, each of which
    /// ends somewhere else in a chunk; and no chunk is lost.
    #[test]
    #[cfg_attr(miri, ignore = "it takes minutes there, and nothing is unsafe")]
    fn what_is_appended_is_read_and_its_chunks_come_back() {
        let (adapter, host, id) = both();
        let all = adapter.send_slab().free();
        let mut edge = 0;
        for round in 0..200u64 {
            let bytes: Vec<u8> = (0..round * 997 % 150_000)
                .map(|i| (i * 7 + round) as u8)
                .collect();
            assert_eq!(host.append(id.index, &bytes), Ok(bytes.len()));
            let mut got = vec![0; bytes.len()];
            adapter.send.copy_out(id.index, edge, &mut got).unwrap();
            assert_eq!(got, bytes);
            edge += bytes.len() as u64;
            // Some of it first, then the rest.
            host.acknowledge(id.index, edge - bytes.len() as u64 / 3)
                .unwrap();
            host.acknowledge(id.index, edge).unwrap();
            assert_eq!(adapter.send_slab().free(), all, "round {round}");
        }
    }

    #[test]
    fn what_finds_no_chunk_is_not_written() {
        let (adapter, host, id) = both();
        let most = Geometry::SMALL.snd_chunks as usize * CHUNK;
        let bytes = vec![7; most + 10];
        assert_eq!(host.append(id.index, &bytes), Ok(most));
        assert_eq!(host.append(id.index, &bytes), Ok(0));
        assert_eq!(adapter.send_slab().free(), 0);
        host.acknowledge(id.index, CHUNK as u64 + 1).unwrap();
        assert_eq!(host.append(id.index, &bytes), Ok(CHUNK));
    }

    /// The engine takes the chunks of a stream that is idle; the next bytes have others.
    #[test]
    fn a_stream_whose_chunks_were_taken_goes_on() {
        let (adapter, host, id) = both();
        host.append(id.index, b"abc").unwrap();
        assert_eq!(adapter.send_slab().take_chunks(id.index, 3), 1);
        assert_eq!(host.append(id.index, b"def"), Ok(3));
        assert_eq!(adapter.send_slab().free(), Geometry::SMALL.snd_chunks - 1);
        let mut got = [0; 3];
        adapter.send.copy_out(id.index, 3, &mut got).unwrap();
        assert_eq!(&got, b"def");
        host.acknowledge(id.index, 6).unwrap();
        assert_eq!(adapter.send_slab().free(), Geometry::SMALL.snd_chunks);
    }

    #[test]
    fn what_was_placed_is_copied() {
        let (mut adapter, host, id) = both();
        let mut stream = ReceiveStream::EMPTY;
        let bytes = pattern(CHUNK + 100);
        let slab = &mut adapter.receive;
        stream.place(0, 0, &bytes, slab, id.index).unwrap();
        let mut got = vec![0; CHUNK];
        host.copy_received(id.index, 50, &mut got).unwrap();
        assert_eq!(got, bytes[50..50 + CHUNK]);
    }

    #[test]
    fn a_block_says_what_was_opened_and_who_holds_it() {
        let (adapter, host, first) = both();
        let arena = adapter.arena();
        let (ipv6, none) = (OpenFlags::IPV6, OpenFlags::empty());
        for (kind, flags, of) in [
            (SocketKind::Stream, none, BlockFlags::empty()),
            (SocketKind::Datagram, none, BlockFlags::DATAGRAM),
            (SocketKind::Stream, ipv6, BlockFlags::IPV6),
            (
                SocketKind::Datagram,
                ipv6,
                BlockFlags::IPV6 | BlockFlags::DATAGRAM,
            ),
        ] {
            let id = host.open_block(3, kind, flags).unwrap().unwrap();
            let block = host.block(id.index);
            assert!(block.is(id));
            assert_eq!((block.state(), block.flags()), (SocketState::Open, of));
            assert!(arena.holds(3, id.index) && !arena.holds(0, id.index));
            assert_eq!(host.used_blocks(), 0..id.index + 1);
        }
        assert!(arena.holds(0, first.index));
        host.set_held(0, first.index, false);
        assert!(!arena.holds(0, first.index));
        // One that there is not.
        host.set_held(0, 64, true);
    }

    #[test]
    fn a_block_that_is_not_used_is_the_next_ones() {
        let (adapter, host, first) = both();
        host.give_unopened_back(0, first).unwrap();
        assert!(!host.block(first.index).is_in_use());
        assert!(!adapter.arena().holds(0, first.index));
        let next = host.open_block(3, SocketKind::Stream, OpenFlags::empty());
        let next = next.unwrap().unwrap();
        assert_eq!(next.index, first.index);
        assert_ne!(next.generation, first.generation);
    }

    /// Each chunk once, when all of it is acknowledged, or all that was written.
    #[test]
    fn chunks_come_back_as_they_are_acknowledged() {
        let (adapter, host, id) = both();
        let block = host.block(id.index);
        let chunk = CHUNK as u64;
        assert_eq!(
            host.append(id.index, &vec![1; 5 * CHUNK / 2]),
            Ok(5 * CHUNK / 2)
        );
        for (done, returned, gives) in [
            (chunk - 1, 0, false),
            (chunk * 3 / 2, chunk, true),
            (chunk * 3 / 2, chunk, false),
            (chunk * 5 / 2, chunk * 5 / 2, true),
            (chunk * 5 / 2, chunk * 5 / 2, false),
        ] {
            block.snd.done.store(done, Ordering::Relaxed);
            assert_eq!(host.free_acknowledged(id.index, block), Ok(gives), "{done}");
            assert_eq!(block.snd.returned.load(Ordering::Relaxed), returned);
            let held = (chunk * 5 / 2).div_ceil(chunk) - returned.div_ceil(chunk);
            assert_eq!(adapter.send_slab().free(), 4 - held as u32);
        }
    }

    #[test]
    fn what_was_consumed_only_grows() {
        let (_adapter, host, id) = both();
        for (consumed, done) in [(7, 7), (5, 7), (9, 9)] {
            host.note_consumed(id.index, consumed);
            assert_eq!(host.block(id.index).rcv.done.load(Ordering::Relaxed), done);
        }
        host.note_consumed(64, 1);
    }
}
