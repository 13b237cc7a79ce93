//! Bytes that come from a file or a pipe: they are read into chunks that are no stream's yet,
//! without any lock, and then appended. So a process that is held up by its file, or stopped
//! in the middle, holds up nobody who writes to the same stream.
//!
//! What is prepared begins in its first chunk where the stream ended then. If nobody else has
//! written meanwhile, the chunks become the stream's as they are; only what belongs in the
//! stream's own last chunk is copied.

use super::send::{Reserved, SendStream};
use super::sending::Sending;
use super::{spans, split};
use crate::block_words::want_room;
use crate::errors::SocketError;
use longshore_hostif::{BlockFlags, CHUNK, STREAM_MAX};
use std::sync::atomic::Ordering;

/// Most bytes that are prepared at a time.
pub const MOST_PREPARED: usize = 512 * 1024;
/// Chunks that they lie in, at most.
const MOST_CHUNKS: usize = MOST_PREPARED / CHUNK + 1;

/// Room for bytes that are to be appended to a send stream. Its chunks are given back if they
/// are not.
#[derive(Debug)]
pub struct Prepared<'a> {
    stream: SendStream<'a>,
    /// Where in the first chunk it begins.
    within: usize,
    len: usize,
    chunks: [u32; MOST_CHUNKS],
    /// Of these chunks, those from here on are still to be given back.
    kept: std::ops::Range<usize>,
}

impl<'a> SendStream<'a> {
    /// Room for at most `max` bytes, [`MOST_PREPARED`] at the most, and for at least one, if
    /// there is room for them in the send stream now.
    ///
    /// # Errors
    /// As [`SendStream::reserve`].
    pub fn prepare(self, max: usize) -> Result<Prepared<'a>, SocketError> {
        let mut reserved = self.reserve(max.min(MOST_PREPARED))?;
        let (number, within) = split(reserved.edge);
        let len = reserved.len();
        let taken = std::mem::replace(&mut reserved.taken, number..number);
        let mut prepared = Prepared {
            stream: self,
            within,
            len: 0,
            chunks: [0; MOST_CHUNKS],
            kept: 0..0,
        };
        if taken.start != number {
            // The first bytes belong in a chunk that the stream has: here they have another.
            match self.take_chunk() {
                Ok(Some(chunk)) => prepared.keep(chunk),
                _ => {
                    reserved.taken = taken;
                    self.socket.host.set_short(true);
                    want_room(self.block);
                    return Err(SocketError::WouldBlock);
                }
            }
        }
        for number in taken {
            prepared.keep(self.chunk(number));
        }
        prepared.len = len;
        Ok(prepared)
    }
}

impl Prepared<'_> {
    fn keep(&mut self, chunk: u32) {
        self.chunks[self.kept.end] = chunk;
        self.kept.end += 1;
    }

    /// Bytes that there is room for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none (never, for one that was given).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces of memory, to be filled in order. Until then there is in them what this
    /// session has sent before, on whichever socket, or nothing.
    pub fn pieces(&mut self) -> impl Iterator<Item = Result<&mut [u8], SocketError>> {
        let (stream, chunks) = (self.stream, self.chunks);
        spans(self.within as u64, (self.within + self.len) as u64).map(
            move |(number, within, len)| {
                // SAFETY: the chunks are this call's alone; each piece is given once.
                unsafe { stream.chunk_bytes(chunks[number as usize], within, len) }
            },
        )
    }

    /// Appends the first `len` bytes to the stream, behind what others have written
    /// meanwhile; `more` says that more follows at once. They may pass the limit of the
    /// stream, for they are not to be lost.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is no place for them at all yet: it is to be
    /// tried again. [`SocketError::BrokenPipe`] if somebody has ended the stream; what
    /// [`Reserved::commit`] fails with.
    pub fn append(&mut self, len: usize, more: bool) -> Result<(), SocketError> {
        let len = len.min(self.len);
        if len == 0 {
            return Ok(());
        }
        let stream = self.stream;
        let (socket, block) = (stream.socket, stream.block);
        let lock = block.snd.lock_to_send()?;
        if block.flags().contains(BlockFlags::SHUT_WR) {
            return Err(SocketError::BrokenPipe);
        }
        stream.free_acked()?;
        if block.snd.held() + len as u64 > STREAM_MAX {
            want_room(block);
            return Err(SocketError::WouldBlock);
        }
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let (number, within) = split(edge);
        let reserved = if within == self.within {
            // The stream's last chunk has room for the first bytes, unless all of it is done.
            let shares = within != 0 && block.snd.returned.load(Ordering::Relaxed) != edge;
            if shares {
                socket
                    .host
                    .session
                    .ranges(socket.id.index)
                    .end(number, within)?;
            }
            let own = usize::from(shares)..(within + len).div_ceil(CHUNK);
            for place in own.clone() {
                stream.set_chunk(number + place as u64, self.chunks[place]);
            }
            let taken = number + own.start as u64..number + own.end as u64;
            let mut reserved = Reserved {
                stream,
                _lock: lock,
                edge,
                len,
                taken,
            };
            self.kept.start = own.end;
            if shares {
                let copied = self.copy(&mut reserved, len.min(CHUNK - within));
                stream.give_chunk(self.chunks[0])?;
                copied?;
            }
            reserved
        } else {
            let mut reserved = stream.take_chunks(lock, len)?;
            if reserved.len() < len {
                return Err(SocketError::WouldBlock);
            }
            self.copy(&mut reserved, len)?;
            reserved
        };
        self.len = 0;
        reserved.finish(len, Sending::more(more))
    }

    /// Copies the first `len` bytes.
    fn copy(&mut self, to: &mut Reserved<'_>, len: usize) -> Result<(), SocketError> {
        let mut at = 0;
        for piece in self.pieces() {
            let piece = piece?;
            let part = piece.len().min(len - at);
            to.write_at(at, &piece[..part])?;
            at += part;
        }
        Ok(())
    }
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        for place in self.kept.clone() {
            let _ = self.stream.give_chunk(self.chunks[place]);
        }
    }
}

#[cfg(test)]
mod tests;
