//! Bytes that a program has taken out of a receive stream and not copied: they stay where they
//! lie, as what `splice` leaves in a pipe does, until they are sent by another connection or
//! given back. To everybody who reads the stream they are read; the engine is told of them only
//! then, and so leaves their memory alone.
//!
//! Owns [`KeptBytes`], of which a socket has one at a time, and what a process knows of them.
//! Called by the shim's `splice`; [`Host`](crate::Host) asks whenever it tells the engine how far a
//! stream was read.

use crate::block_words::small_room;
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::{LEAST_FORWARD, SocketId, SocketState};
use std::sync::atomic::Ordering;

/// Part of what the engine holds for it that may be kept, with what was read behind it: with
/// more, the window of the far end would be shut while the program waits for what comes next.
const MOST_KEPT: u64 = 2;

/// Most pieces that are given at a time to what takes them.
pub const MOST_PIECES_KEPT: usize = 8;

/// Bytes of a receive stream that were read and are kept. Not dropped, but sent or given back.
#[derive(Debug)]
pub struct KeptBytes {
    socket: SocketId,
    from: u64,
    to: u64,
}

impl KeptBytes {
    /// The socket that has received them.
    pub fn socket(&self) -> SocketId {
        self.socket
    }

    /// Where they begin in the stream.
    pub fn begin(&self) -> u64 {
        self.from
    }

    /// Where they end.
    pub fn end(&self) -> u64 {
        self.to
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        (self.to - self.from) as usize
    }

    /// Whether there are none any more.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }
}

/// What of a socket's receive stream is taken out of it and kept where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    socket: &'a Socket,
}

impl<'a> Keeping<'a> {
    #[inline]
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Whether bytes of its receive stream may be kept, and sent by another connection later.
    pub fn is_possible(self) -> bool {
        let session = &self.socket.host.session;
        session.takes_forwards()
            && (!self.socket.is_within() || session.takes_forwards_within())
            && self.socket.block().state() == SocketState::Connected
            && !self
                .socket
                .host
                .sockets()
                .is_held_elsewhere(self.socket.id.index)
    }

    /// Takes bytes that have arrived, at most `max`, out of the stream where they lie. `put` is
    /// given pieces that follow each other, and says how many bytes of them are taken: with less
    /// than all it ends. They are added to `kept`, if they follow what is there. `None` if they
    /// are to be copied.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`](crate::ReceiveStream::peek), and what `put` fails with before anything was taken.
    pub fn take(
        self,
        kept: &mut Option<KeptBytes>,
        max: usize,
        put: impl FnMut(&[&[u8]]) -> Result<usize, SocketError>,
    ) -> Result<Option<usize>, SocketError> {
        let peeked = self.socket.receive_stream().look(1, false)?;
        let (from, before) = (peeked.from, kept.as_ref().map_or(0, KeptBytes::len));
        let follows = match kept {
            Some(kept) => kept.socket == self.socket.id && kept.to == from,
            None => !self.socket.host.held_sockets.keeps(self.socket.id.index),
        };
        let room = self.most() as usize;
        let len = peeked.len().min(max).min(room.saturating_sub(before));
        if !follows || len == 0 || ((before + len) as u64) < LEAST_FORWARD {
            return Ok(None);
        }
        let taken = hand_over(peeked.pieces(0, len), put)?;
        if taken == 0 {
            return Ok(Some(0));
        }
        if kept.is_none() {
            self.socket
                .host
                .kept
                .enter()?
                .insert(self.socket.id.index, from);
            self.socket
                .host
                .held_sockets
                .set_keeps(self.socket.id.index, true);
        }
        let to = from + taken as u64;
        self.socket.block().rcv.done.store(to, Ordering::Release);
        drop(peeked);
        let all = kept.get_or_insert(KeptBytes {
            socket: self.socket.id,
            from,
            to,
        });
        all.to = to;
        self.socket.peek_offset().note_consumed(taken);
        Ok(Some(taken))
    }

    /// Gives the memory of the first `len` bytes back, which were copied or are not wanted.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::Reentered`].
    pub fn give_back(self, kept: &mut KeptBytes, len: usize) -> Result<(), SocketError> {
        self.note_not_kept(kept, len)?;
        self.socket.receive_stream().note_read()
    }

    /// The stream was read up to `done`: what is kept is given back if that is too far beyond.
    #[inline]
    pub(super) fn limit(self, done: u64) {
        let most = self.most();
        if self.socket.host.held_sockets.keeps(self.socket.id.index)
            && self
                .socket
                .host
                .kept_from(self.socket.id.index)
                .is_some_and(|from| done.saturating_sub(from) > most)
        {
            (self.socket.host.hooks.give_back)(self.socket.id);
        }
    }

    /// Bytes that may be kept.
    fn most(self) -> u64 {
        let block = self.socket.block();
        let limit = block.rcv_limit();
        small_room(block).map_or(limit, |room| room.min(limit)) / MOST_KEPT
    }

    /// The first `len` bytes are not kept any more.
    pub(super) fn note_not_kept(self, kept: &mut KeptBytes, len: usize) -> Result<(), SocketError> {
        kept.from += len.min(kept.len()) as u64;
        let mut all = self.socket.host.kept.enter()?;
        if kept.is_empty() {
            all.remove(&self.socket.id.index);
            self.socket
                .host
                .held_sockets
                .set_keeps(self.socket.id.index, false);
        } else {
            all.insert(self.socket.id.index, kept.from);
        }
        Ok(())
    }
}

/// Gives `put` pieces of a stream, several at a time, until it takes less than all of them; how
/// many bytes it has taken.
///
/// # Errors
/// What finding a piece fails with, and what `put` fails with, before anything was taken.
fn hand_over<'a>(
    mut pieces: impl Iterator<Item = Result<&'a [u8], SocketError>>,
    mut put: impl FnMut(&[&[u8]]) -> Result<usize, SocketError>,
) -> Result<usize, SocketError> {
    let mut taken = 0;
    loop {
        let (mut given, mut count): ([&[u8]; MOST_PIECES_KEPT], _) = ([&[]; MOST_PIECES_KEPT], 0);
        for (slot, piece) in given.iter_mut().zip(&mut pieces) {
            match piece {
                Ok(piece) => (*slot, count) = (piece, count + 1),
                Err(e) if taken == 0 => return Err(e),
                Err(_) => return Ok(taken),
            }
        }
        let given = &given[..count];
        if given.is_empty() {
            return Ok(taken);
        }
        match put(given) {
            Ok(n) => {
                taken += n;
                if n < given.iter().map(|piece| piece.len()).sum() {
                    return Ok(taken);
                }
            }
            Err(e) if taken == 0 => return Err(e),
            Err(_) => return Ok(taken),
        }
    }
}

#[cfg(test)]
mod tests;
