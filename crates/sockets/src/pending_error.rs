//! The pending error of a socket (SO_ERROR): which call tells of it, and what it leaves behind.

use crate::block_words::more_bits;
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::SocketState;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// What went wrong on a socket, for the next call that may tell of it.
#[derive(Debug, Clone, Copy)]
pub struct PendingError<'a> {
    socket: &'a Socket,
}

impl<'a> PendingError<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Takes the pending error (SO_ERROR): an errno, 0 if there is none.
    pub fn take(self) -> u32 {
        self.socket.pair_end().await_reset();
        self.socket.connector().catch_up_unreported();
        if self.socket.host.is_gone() && self.socket.block().state() != SocketState::Dead {
            return Errno::NETDOWN.raw_os_error() as u32;
        }
        let errno = self.socket.block().take_errno();
        if errno != 0 {
            self.socket.clear_more_bits(more_bits::IS_TAKEN);
        }
        // A program that has cancelled an attempt may make another, with whatever call that was told.
        if errno == Errno::CANCELED.raw_os_error() as u32 {
            let _ = self.socket.connector().report_failure(errno);
        }
        errno
    }

    /// The pending error goes before anything else, and is taken.
    pub(crate) fn report(self) -> Result<(), SocketError> {
        let block = self.socket.block();
        if block.errno.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match block.take_errno() {
            0 => Ok(()),
            errno => {
                self.socket.clear_more_bits(more_bits::IS_TAKEN);
                Err(SocketError::failed(errno))
            }
        }
    }

    /// Gives it a pending error, an errno.
    pub fn set(self, errno: i32) {
        self.socket
            .block()
            .errno
            .store(errno.unsigned_abs(), Ordering::Release);
    }

    /// A call that has done a part of its work says so, and not what kept it from the rest: the
    /// pending error, if it has taken that, is the next call's.
    pub fn leave(self, error: SocketError) {
        if let SocketError::Failed(errno) = error {
            let errno = errno.raw_os_error().unsigned_abs();
            let place = &self.socket.block().errno;
            // One that has come since stays.
            let _ = place.compare_exchange(0, errno, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
