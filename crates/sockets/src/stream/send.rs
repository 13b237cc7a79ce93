//! Writing to a send stream: chunks are taken when the edge first enters them,
//! and given back when all in them is acknowledged.

use super::sending::Sending;
use super::{places, split};
use crate::block_words::{host_bits, room_to_write, want_room};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::turn::Wake;
use longshore_hostif::{
    BlockFlags, CHUNK, EdgeFlags, STREAM_MAX, SocketBlock, SocketState, chunk_of,
};
use longshore_ring::Locked;
use std::io::IoSlice;
use std::sync::atomic::Ordering;

/// The bytes that a socket sends, in the order in which they were written: what may be written,
/// in which chunks it stands, and how the engine is told of it. A datagram socket's are records.
#[derive(Debug, Clone, Copy)]
pub struct SendStream<'a> {
    pub(super) socket: &'a Socket,
    pub(super) block: &'static SocketBlock,
}

/// Room at the end of a send stream, to be filled in place and then committed.
/// Nobody else writes to the stream meanwhile.
#[derive(Debug)]
pub struct Reserved<'a> {
    pub(super) stream: SendStream<'a>,
    pub(super) _lock: Locked<'static>,
    pub(super) edge: u64,
    pub(super) len: usize,
    /// Chunks from this number up to that were taken for this reservation.
    pub(super) taken: std::ops::Range<u64>,
}

impl<'a> SendStream<'a> {
    #[inline]
    pub(crate) fn of(socket: &'a Socket) -> Self {
        let block = socket.block();
        Self { socket, block }
    }

    /// What keeps bytes from being written at all, or how many may be.
    fn check_writable(self) -> Result<usize, SocketError> {
        self.socket.pair_end().await_reset();
        let block = self.block;
        let flags = block.flags();
        if flags.contains(BlockFlags::FAILED) {
            self.socket.host.messages().catch_up();
        }
        // Looked at before the error, as another thread or process writes it after that.
        let state = block.state();
        if block.errno.load(Ordering::Relaxed) != 0 {
            match block.take_errno() {
                0 => {}
                errno => return Err(SocketError::failed(errno)),
            }
        }
        if self.socket.host.is_gone() {
            return Err(SocketError::EngineGone);
        }
        if flags.contains(BlockFlags::SHUT_WR) {
            return Err(SocketError::BrokenPipe);
        }
        match state {
            SocketState::Connected => Ok(usize::MAX),
            SocketState::Connecting => Err(SocketError::WouldBlock),
            SocketState::Open if flags.contains(BlockFlags::DATAGRAM) => Ok(usize::MAX),
            // The first write goes with the SYN; what does not fit waits until the
            // connection is made.
            SocketState::Early
                if block.change_state(SocketState::Early, SocketState::Connecting) =>
            {
                // That it is made is to be told anew.
                self.socket.clear_host_bits(host_bits::CONNECT_REPORTED);
                Ok(block.syn_room_or_size_goal.load(Ordering::Acquire).max(1) as usize)
            }
            SocketState::Early => Err(SocketError::WouldBlock),
            _ => Err(SocketError::BrokenPipe),
        }
    }

    /// Nothing was written to a connection that is as good as made: it is made without.
    fn send_nothing(self) -> Result<usize, SocketError> {
        let was_early = self.socket.is_early();
        self.check_writable()?;
        if !was_early {
            return Ok(0);
        }
        let request = self
            .socket
            .host
            .edges(self.block, self.socket.id, EdgeFlags::PUSH);
        self.socket.host.messages().report(&request, Wake::Now)?;
        Err(SocketError::InProgress)
    }

    /// Whether payload may cross with its descriptor.
    pub(super) fn takes_immediate_data(self) -> bool {
        self.socket.host.arena.takes_immediate_data()
    }

    /// Gives back the chunks of which all is acknowledged.
    pub(super) fn free_acked(self) -> Result<(), SocketError> {
        if self
            .socket
            .host
            .session
            .free_acknowledged(self.socket.id.index, self.block)?
        {
            self.socket.host.set_short(false);
        }
        Ok(())
    }

    /// Reserves room for at most `max` bytes at the end of the send stream, and
    /// for at least one.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is none now, what keeps the socket
    /// from being written to otherwise.
    pub fn reserve(self, max: usize) -> Result<Reserved<'a>, SocketError> {
        self.again_if_caught_up(|| self.try_reserve(max))
    }

    /// Tries, and once more if there is no room and the engine has told something meanwhile: that
    /// may be room, or the end. A program that tries again and again without waiting has nobody
    /// else to look.
    #[inline]
    fn again_if_caught_up<T>(
        self,
        attempt: impl Fn() -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        match attempt() {
            Err(SocketError::WouldBlock) if self.socket.host.messages().catch_up() => attempt(),
            other => other,
        }
    }

    fn try_reserve(self, max: usize) -> Result<Reserved<'a>, SocketError> {
        let most = self.check_writable()?;
        let reserved = self.reserve_writable(max.min(most));
        if reserved.is_err() && most != usize::MAX {
            self.block
                .change_state(SocketState::Connecting, SocketState::Early);
        }
        reserved
    }

    fn reserve_writable(self, max: usize) -> Result<Reserved<'a>, SocketError> {
        let block = self.block;
        let lock = block.snd.lock_to_send()?;
        self.free_acked()?;
        let room = || room_to_write(block);
        let mut free = room();
        if free == 0 {
            if want_room(block) {
                self.free_acked()?;
                free = room();
            }
            if free == 0 {
                // What was told for later may be what makes room: of ranges little is copied,
                // by which a turn would end.
                self.socket.host.messages().end_turn();
                return Err(SocketError::WouldBlock);
            }
        }
        self.take_chunks(lock, max.min(free as usize))
    }

    /// Reserves exactly `len` bytes, for a record that must not be torn.
    pub(crate) fn reserve_record(self, len: usize) -> Result<Reserved<'a>, SocketError> {
        self.again_if_caught_up(|| self.try_reserve_record(len))
    }

    fn try_reserve_record(self, len: usize) -> Result<Reserved<'a>, SocketError> {
        self.check_writable()?;
        let block = self.block;
        let lock = block.snd.lock_to_send()?;
        self.free_acked()?;
        // A record may pass the limit, if there was room for its beginning.
        let fits = |held: u64| held < block.snd_limit() && held + len as u64 <= STREAM_MAX;
        if !fits(block.snd.held()) {
            want_room(block);
            self.free_acked()?;
            if !fits(block.snd.held()) {
                return Err(SocketError::WouldBlock);
            }
        }
        let reserved = self.take_chunks(lock, len)?;
        if reserved.len < len {
            return Err(SocketError::WouldBlock);
        }
        Ok(reserved)
    }

    pub(super) fn take_chunks(
        self,
        lock: Locked<'static>,
        len: usize,
    ) -> Result<Reserved<'a>, SocketError> {
        let (host, block) = (self.socket.host, self.block);
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let empty = block.snd.returned.load(Ordering::Relaxed) == edge;
        let (number, within) = split(edge);
        let first = if within != 0 && !empty {
            number + 1
        } else {
            number
        };
        let last = split(edge + len as u64 - 1).0;
        if first != number {
            host.session
                .ranges(self.socket.id.index)
                .end(number, within)?;
        }
        let mut reserved = Reserved {
            stream: self,
            _lock: lock,
            edge,
            len,
            taken: first..first,
        };
        let arena = &host.arena;
        let directory = arena.snd_directory(self.socket.id.index);
        while reserved.taken.end <= last {
            let Some(chunk) = arena.take_snd_chunk()? else {
                break;
            };
            directory
                .entry(reserved.taken.end)
                .store(chunk, Ordering::Release);
            reserved.taken.end += 1;
        }
        if reserved.taken.end <= last {
            let reached = reserved.taken.end * CHUNK as u64;
            reserved.len = reached.saturating_sub(edge) as usize;
            host.set_short(true);
            if reserved.len == 0 {
                want_room(block);
                return Err(SocketError::WouldBlock);
            }
        }
        Ok(reserved)
    }

    /// Writes what fits of `parts`; returns how many bytes. `more` says that
    /// more follows at once (MSG_MORE).
    ///
    /// # Errors
    /// As [`SendStream::reserve`].
    pub fn send(self, parts: &[IoSlice<'_>], more: bool) -> Result<usize, SocketError> {
        self.send_with(parts, Sending::more(more))
    }

    /// As `send`; what `sending` says is said of what fits, but that a record ends if all
    /// does alone.
    ///
    /// # Errors
    /// As [`SendStream::reserve`].
    pub fn send_with(
        self,
        parts: &[IoSlice<'_>],
        mut sending: Sending,
    ) -> Result<usize, SocketError> {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        if total == 0 {
            return self.send_nothing();
        }
        let mut reserved = self.reserve(total)?;
        let mut written = 0;
        for part in parts {
            let fits = part.len().min(reserved.len() - written);
            reserved.write_at(written, &part[..fits])?;
            written += fits;
            if written == reserved.len() {
                break;
            }
        }
        if written < total {
            sending -= Sending::RECORD_END;
            if !sending.contains(Sending::STAMPED_IN_PART) {
                sending -= Sending::STAMPED;
            }
        }
        reserved.finish(written, sending)?;
        if written < total {
            self.expect_room();
        }
        Ok(written)
    }

    /// Bytes that were written and are not acknowledged yet, as far as we were told
    /// ([`Queries::send_queue`](crate::Queries::send_queue) asks).
    pub fn unacked_bytes(self) -> usize {
        self.block.snd.held().min(STREAM_MAX) as usize
    }

    /// Bytes that may be on their way to the peer: what the program has set (SO_SNDBUF), or what the
    /// connection has come to.
    pub fn limit(self) -> u64 {
        self.socket.host.messages().catch_up();
        self.block.snd_limit()
    }

    /// Less was written than was to be: whoever takes that for the end of the room, and waits
    /// for EPOLLOUT with EPOLLET, is told when there is some.
    fn expect_room(self) {
        let is_there = want_room(self.block);
        if is_there && let Ok(mut ready_sets) = self.socket.host.ready_sets.enter() {
            ready_sets.moved_by_us(&self.socket.host.session, self.socket.id.index);
        }
    }

    // ---- chunks of the send slab, one by one ----

    /// Takes one that nobody has, if there is one.
    pub(super) fn take_chunk(self) -> Result<Option<u32>, SocketError> {
        Ok(self.socket.host.arena.take_snd_chunk()?)
    }

    /// Gives one back.
    pub(super) fn give_chunk(self, chunk: u32) -> Result<(), SocketError> {
        Ok(self.socket.host.arena.give_snd_chunk(chunk)?)
    }

    /// What the stream has for its chunk of this number.
    pub(super) fn chunk(self, number: u64) -> u32 {
        let directory = self.socket.host.arena.snd_directory(self.socket.id.index);
        directory.entry(number).load(Ordering::Relaxed)
    }

    /// Gives the stream a chunk for this number, for a caller that has its lock.
    pub(super) fn set_chunk(self, number: u64, chunk: u32) {
        let directory = self.socket.host.arena.snd_directory(self.socket.id.index);
        directory.entry(number).store(chunk, Ordering::Release);
    }

    /// A part of a chunk.
    ///
    /// # Safety
    /// The chunk is the caller's alone, and so is this part of it while the result is used.
    pub(super) unsafe fn chunk_bytes(
        self,
        chunk: u32,
        within: usize,
        len: usize,
    ) -> Result<&'a mut [u8], SocketError> {
        let arena = &self.socket.host.arena;
        let place = arena.snd_place(chunk, within, len);
        let place = place.ok_or(SocketError::Broken)?;
        // SAFETY: the caller's promise; the memory is there as long as the program.
        Ok(unsafe { arena.memory().bytes_mut(place, len) })
    }
}

impl Reserved<'_> {
    /// Bytes reserved.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is reserved (never, for one that was given).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to offset `at` of the reservation, inside which they must
    /// lie.
    ///
    /// # Errors
    /// [`SocketError::Broken`] if the session's memory is.
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) -> Result<(), SocketError> {
        let memory = self.stream.socket.host.arena.memory();
        let mut done = 0;
        for place in self.places(at, bytes.len()) {
            let (place, len) = place?;
            memory.write(place, &bytes[done..done + len]);
            done += len;
        }
        Ok(())
    }

    /// The pieces of memory of `len` reserved bytes from `at` on, to be filled
    /// in order. Until then there is in them what this session has sent before, on whichever
    /// socket, or nothing: never what one has received.
    pub fn pieces(
        &mut self,
        at: usize,
        len: usize,
    ) -> impl Iterator<Item = Result<&mut [u8], SocketError>> {
        let memory = self.stream.socket.host.arena.memory();
        self.places(at, len).map(move |place| {
            let (place, len) = place?;
            // SAFETY: the bytes lie past the edge, in chunks of this stream
            // that only the holder of its lock writes to; each is given once.
            Ok(unsafe { memory.bytes_mut(place, len) })
        })
    }

    fn places(
        &self,
        at: usize,
        len: usize,
    ) -> impl Iterator<Item = Result<(usize, usize), SocketError>> + use<> {
        assert!(at <= self.len && len <= self.len - at);
        let arena = &self.stream.socket.host.arena;
        let directory = arena.snd_directory(self.stream.socket.id.index);
        places(
            self.edge + at as u64,
            len,
            move |number| chunk_of(directory.entry(number).load(Ordering::Relaxed)),
            |chunk, within, len| arena.snd_place(chunk, within, len),
        )
    }
}

impl Drop for Reserved<'_> {
    /// Gives back the chunks that the edge did not enter.
    fn drop(&mut self) {
        let edge = self.stream.block.snd.edge.load(Ordering::Relaxed);
        let needed = if edge == self.edge {
            self.taken.start
        } else {
            edge.div_ceil(CHUNK as u64).max(self.taken.start)
        };
        let arena = &self.stream.socket.host.arena;
        let directory = arena.snd_directory(self.stream.socket.id.index);
        for number in (needed..self.taken.end).rev() {
            let chunk = directory.entry(number).load(Ordering::Relaxed);
            let _ = arena.give_snd_chunk(chunk);
        }
    }
}

#[cfg(test)]
mod tests;
