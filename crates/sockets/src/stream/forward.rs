//! What one connection has received, sent by another where it lies: what a proxy does with most
//! of what goes through it. The engine keeps the bytes until the far end has acknowledged them,
//! and then says that they were read.
//!
//! Called by [`Stream::forward`](crate::Stream::forward).

use super::kept::KeptBytes;
use super::send::Reserved;
use crate::block_words::{advance, flags_of_written, want_room};
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::{LEAST_FORWARD, Request, SocketState};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Why bytes have to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotForwarded {
    /// The engine does not speak of it, or the sockets are of different sessions, or one.
    Unsupported,
    /// One of them is no connection that is made, or one within the session, and the engine
    /// does not speak of that.
    Kind,
    /// Another process has one of them, too, and its requests come over another channel.
    Shared,
    /// They are too few.
    Short,
    /// They lie in what their sender has lent, and the engine does not speak of that.
    Lent,
    /// What came before them was read and is kept where it lies.
    Kept,
}

/// How forwarding went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// So many bytes are in the other stream; 0 at the end of this one.
    Bytes(usize),
    /// What comes next is to be copied.
    Copy(NotForwarded),
}

/// What one connection has received, on its way into the send stream of another.
#[derive(Debug, Clone, Copy)]
pub struct Forwarding<'a> {
    source: &'a Socket,
    sink: &'a Socket,
}

impl<'a> Forwarding<'a> {
    pub(crate) fn between(source: &'a Socket, sink: &'a Socket) -> Self {
        Self { source, sink }
    }

    /// Whether what the one receives may be sent by the other where it lies.
    fn check(self) -> Result<(), NotForwarded> {
        let host = self.source.host;
        let is_one = std::ptr::eq(host, self.sink.host) && self.source.id != self.sink.id;
        if !is_one || !host.session.takes_forwards() {
            return Err(NotForwarded::Unsupported);
        }
        for socket in [self.source, self.sink] {
            let is_possible = !socket.is_within() || host.session.takes_forwards_within();
            if !is_possible || socket.block().state() != SocketState::Connected {
                return Err(NotForwarded::Kind);
            }
            if host.sockets().is_held_elsewhere(socket.id.index) {
                return Err(NotForwarded::Shared);
            }
        }
        Ok(())
    }

    /// Moves at most `max` bytes that have arrived to the end of the other's send stream
    /// without copying them. `more` says that more follows at once.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`](super::ReceiveStream::peek) of the one, and as
    /// [`SendStream::reserve`](super::SendStream::reserve) of the other.
    pub fn forward(self, max: usize, more: bool) -> Result<Forwarded, SocketError> {
        let source = self.source;
        if let Err(why) = self.check() {
            return Ok(Forwarded::Copy(why));
        }
        if source.host.held_sockets.keeps(source.id.index) {
            return Ok(Forwarded::Copy(NotForwarded::Kept));
        }
        let peeked = source.receive_stream().look(max.max(1), false)?;
        let len = peeked.len().min(max);
        if len == 0 {
            return Ok(Forwarded::Bytes(0));
        }
        if (len as u64) < LEAST_FORWARD {
            return Ok(Forwarded::Copy(NotForwarded::Short));
        }
        let mut reserved = self.sink.send_stream().reserve(len)?;
        let len = reserved.len();
        if (len as u64) < LEAST_FORWARD {
            return Ok(Forwarded::Copy(NotForwarded::Short));
        }
        let range = peeked.from..peeked.from + len as u64;
        let Some(copied) = self.write(&range, &mut reserved)? else {
            return Ok(Forwarded::Copy(NotForwarded::Lent));
        };
        self.report(&range, &reserved, (copied, more), || {
            source.block().rcv.done.store(range.end, Ordering::Release);
        })?;
        drop((reserved, peeked));
        source.peek_offset().note_consumed(len);
        Ok(Forwarded::Bytes(len))
    }

    /// Moves at most `max` of what was kept of the one, from its front, as
    /// [`forward`](Self::forward) does; `take_out` takes so many out of where they were seen
    /// before they are sent.
    ///
    /// # Errors
    /// As [`SendStream::reserve`](super::SendStream::reserve) of the other; what `take_out` fails
    /// with.
    pub fn forward_kept(
        self,
        kept: &mut KeptBytes,
        (max, more): (usize, bool),
        take_out: impl FnOnce(usize) -> Result<(), SocketError>,
    ) -> Result<Forwarded, SocketError> {
        let source = self.source;
        if let Err(why) = self.check() {
            return Ok(Forwarded::Copy(why));
        }
        let len = kept.len().min(max);
        if (len as u64) < LEAST_FORWARD {
            return Ok(Forwarded::Copy(NotForwarded::Short));
        }
        let mut reserved = self.sink.send_stream().reserve(len)?;
        if (reserved.len() as u64) < LEAST_FORWARD && source.host.messages().catch_up() {
            drop(reserved);
            reserved = self.sink.send_stream().reserve(len)?;
        }
        if (reserved.len() as u64) < LEAST_FORWARD {
            drop(reserved);
            // There is more as soon as it counts as writable.
            return if want_room(self.sink.block()) {
                Ok(Forwarded::Copy(NotForwarded::Short))
            } else {
                source.host.messages().end_turn();
                Err(SocketError::WouldBlock)
            };
        }
        let len = reserved.len();
        let range = kept.begin()..kept.begin() + len as u64;
        let Some(copied) = self.write(&range, &mut reserved)? else {
            return Ok(Forwarded::Copy(NotForwarded::Lent));
        };
        take_out(len)?;
        self.report(&range, &reserved, (copied, more), || {})?;
        drop(reserved);
        source.keeping().note_not_kept(kept, len)?;
        source.host.sockets().list_unreported(source.id)?;
        Ok(Forwarded::Bytes(len))
    }

    /// Has the send stream's directory name what the one has received in `range`; how many bytes
    /// of it are copied. `None` if it cannot.
    fn write(
        self,
        range: &Range<u64>,
        reserved: &mut Reserved<'_>,
    ) -> Result<Option<usize>, SocketError> {
        let len = (range.end - range.start) as usize;
        let source = (self.source.id.index, range.start);
        let ranges = self.source.host.session.ranges(self.sink.id.index);
        let written = ranges.write_forwarded(reserved.edge, source, len)?;
        if written.is_some() {
            reserved.len = len;
        }
        Ok(written)
    }

    /// Tells the engine that what is `reserved` of the send stream is what the one has received
    /// in `range`; `copied` bytes of it are copied. `read` notes that they were read.
    fn report(
        self,
        range: &Range<u64>,
        reserved: &Reserved<'_>,
        (copied, more): (usize, bool),
        read: impl FnOnce(),
    ) -> Result<(), SocketError> {
        let (host, sink) = (self.source.host, self.sink);
        let block = sink.block();
        let edge = reserved.edge + reserved.len() as u64;
        let rcv_consumed = host.read_to_report(block, sink.id);
        let request = Request::Forward {
            socket: sink.id,
            snd_edge: edge,
            rcv_consumed,
            flags: flags_of_written(block, more),
            source: self.source.id,
            from: range.start,
            to: range.end,
        };
        advance(&block.rcv.reported, rcv_consumed);
        host.messages()
            .report_forwarded(&request, copied as u64, || {
                block.snd.edge.store(edge, Ordering::Release);
                read();
                advance(&self.source.block().rcv.reported, range.end);
            })?;
        sink.pair_end().note_done();
        Ok(())
    }

    /// As [`forward`](Self::forward), by a copy, for what cannot be moved otherwise; how many bytes.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn copy(self, max: usize, more: bool) -> Result<usize, SocketError> {
        let peeked = self.source.receive_stream().look(max.max(1), false)?;
        let len = peeked.len().min(max);
        if len == 0 {
            return Ok(0);
        }
        let mut reserved = self.sink.send_stream().reserve(len)?;
        let len = reserved.len();
        let mut done = 0;
        for piece in peeked.pieces(0, len) {
            let piece = piece?;
            reserved.write_at(done, piece)?;
            done += piece.len();
        }
        reserved.commit(len, more)?;
        peeked.consume(len)?;
        self.source.peek_offset().note_consumed(len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
