//! What one connection has received, sent by another where it lies: what a proxy does with most
//! of what goes through it. The engine keeps the bytes until the far end has acknowledged them,
//! and then says that they were read.
//!
//! Called by [`Stream::forward`](crate::Stream::forward).

use super::Reserved;
use crate::block_words::said_of_written;
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

impl Socket {
    /// Whether what `self` receives may be sent by `to` where it lies.
    pub(super) fn check_forward(&self, to: &Self) -> Result<(), NotForwarded> {
        let host = self.host;
        let is_one = std::ptr::eq(host, to.host) && self.id != to.id;
        if !is_one || !host.session.takes_forwards() {
            return Err(NotForwarded::Unsupported);
        }
        for socket in [self, to] {
            let is_possible = !socket.is_within() || host.session.takes_forwards_within();
            if !is_possible || socket.block().state() != SocketState::Connected {
                return Err(NotForwarded::Kind);
            }
            if host.is_held_elsewhere(socket.id.index) {
                return Err(NotForwarded::Shared);
            }
        }
        Ok(())
    }

    /// Moves at most `max` bytes that have arrived to the end of the send stream of `to`
    /// without copying them. `more` says that more follows at once.
    ///
    /// # Errors
    /// As [`Socket::peek`], and as [`Socket::reserve`] of `to`.
    pub fn forward(&self, to: &Self, max: usize, more: bool) -> Result<Forwarded, SocketError> {
        if let Err(why) = self.check_forward(to) {
            return Ok(Forwarded::Copy(why));
        }
        if self.host.keeps(self.id.index) {
            return Ok(Forwarded::Copy(NotForwarded::Kept));
        }
        let peeked = self.look(max.max(1), false)?;
        let len = peeked.len().min(max);
        if len == 0 {
            return Ok(Forwarded::Bytes(0));
        }
        if (len as u64) < LEAST_FORWARD {
            return Ok(Forwarded::Copy(NotForwarded::Short));
        }
        let mut reserved = to.reserve(len)?;
        let len = reserved.len();
        if (len as u64) < LEAST_FORWARD {
            return Ok(Forwarded::Copy(NotForwarded::Short));
        }
        let sink = (to.id.index, reserved.edge);
        let source = (self.id.index, peeked.from);
        let written = self.host.session.write_forwarded(sink, source, len)?;
        let Some(copied) = written else {
            return Ok(Forwarded::Copy(NotForwarded::Lent));
        };
        reserved.len = len;
        let range = peeked.from..peeked.from + len as u64;
        self.tell_forwarded(&range, (to, &reserved), (copied, more), || {
            peeked.block.rcv.done.store(range.end, Ordering::Release);
        })?;
        drop((reserved, peeked));
        self.note_consumed(len);
        Ok(Forwarded::Bytes(len))
    }

    /// Tells the engine that what is `reserved` of the send stream of `to` is what `self` has
    /// received in `range`; `copied` bytes of it are copied. `read` notes that they were read.
    pub(super) fn tell_forwarded(
        &self,
        range: &Range<u64>,
        (to, reserved): (&Self, &Reserved<'_>),
        (copied, more): (usize, bool),
        read: impl FnOnce(),
    ) -> Result<(), SocketError> {
        let edge = reserved.edge + reserved.len() as u64;
        let rcv_consumed = self.host.told_read(to.block(), to.id);
        let request = Request::Forward {
            socket: to.id,
            snd_edge: edge,
            rcv_consumed,
            flags: said_of_written(to.block(), more),
            source: self.id,
            from: range.start,
            to: range.end,
        };
        to.block()
            .rcv
            .told
            .fetch_max(rcv_consumed, Ordering::AcqRel);
        self.host.tell_forwarded(&request, copied as u64, || {
            reserved.block.snd.edge.store(edge, Ordering::Release);
            read();
            let told = &self.block().rcv.told;
            told.fetch_max(range.end, Ordering::AcqRel);
        })?;
        to.note_done();
        Ok(())
    }

    /// As `tell_forwarded`, by a copy, for what cannot be moved otherwise; how many bytes.
    ///
    /// # Errors
    /// As [`Socket::forward`].
    pub fn copy_to(&self, to: &Self, max: usize, more: bool) -> Result<usize, SocketError> {
        let peeked = self.look(max.max(1), false)?;
        let len = peeked.len().min(max);
        if len == 0 {
            return Ok(0);
        }
        let mut reserved = to.reserve(len)?;
        let len = reserved.len();
        let mut done = 0;
        for piece in peeked.pieces(0, len) {
            let piece = piece?;
            reserved.write_at(done, piece)?;
            done += piece.len();
        }
        reserved.commit(len, more)?;
        peeked.consume(len)?;
        self.note_consumed(len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
