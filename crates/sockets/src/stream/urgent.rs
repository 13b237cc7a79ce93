//! Urgent data (MSG_OOB) as Linux gives it: one byte of a stream stands apart from the
//! rest. Reading stops before it (the *mark*), and passes over it unless the program
//! wants it in its place (SO_OOBINLINE).
//!
//! All of it follows from three positions in the block: where the mark is (`rcv.urgent`,
//! which the engine tells and which only moves forward), how far the program has read
//! (`rcv.done`), and whether it has read the byte apart (`rcv.urgent_read`).

use crate::block_words::{ahead, ahead_of, is_at_mark, is_inline, stands_at_mark};
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::{BlockFlags, OwnersSignal, Raised, SocketState};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// The urgent byte of a socket's receive stream: where reading in order stops for it, and how it
/// is read apart.
#[derive(Debug, Clone, Copy)]
pub struct UrgentData<'a> {
    socket: &'a Socket,
}

impl<'a> UrgentData<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Where reading in order goes on, and how many bytes there are, for a reader that has read up
    /// to `from`, not past the mark, of a stream that holds `held` bytes more. If there
    /// is nothing but the urgent byte, it is thrown away, unless the call is to `keep`
    /// what it finds.
    #[cold]
    pub(super) fn front_at_urgent(
        self,
        from: u64,
        held: usize,
        keep: bool,
    ) -> Result<(u64, usize), SocketError> {
        let block = self.socket.block();
        let before = self.before_mark(held);
        if held == 0 || !stands_at_mark(block) {
            return Ok((from, before));
        }
        if held == 1 && !keep {
            block.rcv.done.store(from + 1, Ordering::Release);
            self.socket.host.sockets().list_unreported(self.socket.id)?;
        }
        Ok((from + 1, held - 1))
    }

    /// What FIONREAD says of `held` bytes, as Linux has it: not even at the mark is what
    /// comes after it counted, if it is not read in its place.
    pub(super) fn readable_in_order(self, held: usize) -> usize {
        let block = self.socket.block();
        match ahead(block) {
            Some((_, before)) if !is_inline(block) => {
                held.min(usize::try_from(before).unwrap_or(usize::MAX))
            }
            _ => held,
        }
    }

    /// How many of the `held` bytes come before the mark, for a program that does not stand at it,
    /// or reads on in order from there.
    fn before_mark(self, held: usize) -> usize {
        match ahead(self.socket.block()) {
            Some((_, 0)) | None => held,
            Some((_, before)) => held.min(usize::try_from(before).unwrap_or(usize::MAX)),
        }
    }

    /// Whether the program has read up to an urgent byte and not past it (SIOCATMARK).
    pub fn is_at_mark(self) -> bool {
        is_at_mark(self.socket.block())
    }

    /// Whether there is nothing to be read in order but an urgent byte, and that has come.
    pub fn holds_reader(self) -> bool {
        let block = self.socket.block();
        is_at_mark(block) && block.rcv.held() != 0
    }

    /// The urgent byte that the peer told of last is the one before this; 0 if there was
    /// none.
    #[cfg(any(test, feature = "testing"))]
    pub fn end(self) -> u64 {
        self.socket.block().rcv.urgent.load(Ordering::Acquire)
    }

    /// How often this socket's owner was signalled.
    pub fn raised(self, signal: OwnersSignal) -> Raised {
        self.socket.block().raised(signal)
    }

    /// Sets whether the urgent byte is read in its place (SO_OOBINLINE).
    pub fn set_inline(self, on: bool) {
        if on {
            self.socket.block().set_flags(BlockFlags::URGENT_INLINE);
        } else {
            self.socket.block().clear_flags(BlockFlags::URGENT_INLINE);
        }
        self.socket.wake_local();
    }

    /// Reads the urgent byte (MSG_OOB), and leaves it to be read again if `keep`. Never
    /// waits. `None` if it will never come.
    ///
    /// # Errors
    /// EINVAL if there is no urgent data, if the byte was read, or is to be read in its
    /// place; [`SocketError::WouldBlock`] if it is still on its way; ENOTCONN.
    pub fn recv(self, keep: bool) -> Result<Option<u8>, SocketError> {
        let block = self.socket.block();
        self.socket.pair_end().await_coming();
        self.socket.host.messages().catch_up();
        // A signal handler in the midst of a call of its own thread on this half goes on
        // without the lock: that call has it, and goes on only after us, and what we do does
        // not touch what it does.
        let _lock = block.rcv.lock.lock().ok();
        let none = SocketError::Refused(Errno::INVAL);
        // The call that a handler interrupts may have kept us from hearing of the byte.
        let come = block.rcv.urgent_come.load(Ordering::Acquire);
        let urgent = block.rcv.urgent.load(Ordering::Acquire).max(come);
        let mark = match block.state() {
            SocketState::Listening => return Err(SocketError::Refused(Errno::NOTCONN)),
            _ if is_inline(block) => return Err(none),
            _ => ahead_of(block, urgent).ok_or(none)?.0,
        };
        if block.rcv.urgent_read.load(Ordering::Acquire) > mark {
            return Err(none);
        }
        let flags = block.flags();
        let ended = flags.intersects(BlockFlags::PEER_FIN | BlockFlags::SHUT_RD);
        // That the program has shut its half down makes no end of a reset.
        if block.state() == SocketState::Dead && !flags.contains(BlockFlags::PEER_FIN) {
            return Err(SocketError::Refused(Errno::NOTCONN));
        }
        if come > mark || block.rcv.edge.load(Ordering::Acquire) > mark {
            let mut byte = [0];
            self.socket.receive_stream().copy_from(mark, &mut byte)?;
            if !keep {
                block.rcv.urgent_read.store(mark + 1, Ordering::Release);
            }
            return Ok(Some(byte[0]));
        }
        if ended {
            return Ok(None);
        }
        Err(SocketError::WouldBlock)
    }
}

#[cfg(test)]
mod tests;
