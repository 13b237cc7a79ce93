//! Shutting the halves of a connection down.

use crate::block_words::host_bits;
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::{BlockFlags, EdgeFlags, SocketState};
use rustix::io::Errno;

/// Which half of a connection is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The receiving half.
    Read,
    /// The sending half.
    Write,
    /// Both.
    Both,
}

/// The two halves of a connection: which of them has ended, by the program or by the peer.
#[derive(Debug, Clone, Copy)]
pub struct Halves<'a> {
    socket: &'a Socket,
}

impl<'a> Halves<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Which halves were shut down: the receiving one, the sending one.
    pub fn shut(self) -> (bool, bool) {
        let flags = self.socket.block().flags();
        (
            flags.contains(BlockFlags::SHUT_RD),
            flags.contains(BlockFlags::SHUT_WR),
        )
    }

    /// Whether the peer has ended its half of the connection.
    pub fn has_peer_ended(self) -> bool {
        self.socket.block().flags().contains(BlockFlags::PEER_FIN)
    }

    /// Whether it is a connection that both sides have ended, all of which has arrived.
    pub fn is_ended_by_both(self) -> bool {
        let both = BlockFlags::SHUT_WR | BlockFlags::PEER_FIN;
        let has_arrived = || {
            self.socket.send_stream().unacked_bytes() == 0 || self.socket.pair_end().has_all_gone()
        };
        self.socket.block().flags().contains(both) && has_arrived()
    }

    /// Whether a connection that both sides have ended is none any more to Linux: the peer has
    /// acknowledged the end of this side, too.
    pub fn are_over(self) -> bool {
        self.socket.pair_end().await_end();
        self.is_ended_by_both() && (self.socket.is_within() || self.socket.queries().is_gone())
    }

    /// Shuts a half down, or both.
    ///
    /// # Errors
    /// ENOTCONN if it is not connected.
    pub fn shut_down(self, half: Half) -> Result<(), SocketError> {
        self.socket.pair_end().await_reset();
        self.socket.host.messages().catch_up();
        let block = self.socket.block();
        match block.state() {
            _ if !self.socket.is_datagram() && self.are_over() => {
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            SocketState::Listening => return self.socket.accept_queue().stop(half),
            SocketState::Connecting => {
                if self.socket.connector().give_up(Errno::CONNRESET)? {
                    return Ok(());
                }
            }
            SocketState::Connected | SocketState::Closing | SocketState::Early => {
                // As Linux has it, it counts as told that it was made.
                self.socket.set_host_bits(host_bits::CONNECT_REPORTED);
            }
            SocketState::Open if self.socket.is_datagram() && block.peer().get().is_some() => {}
            SocketState::Open if self.socket.is_datagram() => {
                // As Linux has it, it is shut down and a thread that waits for it wakes, though the call
                // fails.
                self.report(half, EdgeFlags::PUSH)?;
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            SocketState::Open => {
                self.note(half != Half::Write, half != Half::Read);
                self.socket.wake_local();
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            _ => return Err(SocketError::Refused(Errno::NOTCONN)),
        }
        self.report(half, EdgeFlags::PUSH)
    }

    /// Notes that halves of a socket without a connection were shut down, of which the engine
    /// has nothing to know. That lasts until it listens, or an attempt to connect has failed.
    pub fn note(self, read: bool, write: bool) {
        let mut mark = BlockFlags::empty();
        mark.set(BlockFlags::SHUT_RD, read);
        mark.set(BlockFlags::SHUT_WR, write);
        if !mark.is_empty() {
            self.socket.block().set_flags(mark);
        }
    }

    /// A stream that was shut down without a connection is so no more.
    pub fn forget(self) {
        let both = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR;
        self.socket.block().clear_flags(both);
        self.socket.wake_local();
    }

    /// Shuts the sending half down to wait until the peer has acknowledged the end of it
    /// ([`Halves::is_end_acked`]).
    ///
    /// # Errors
    /// As [`Halves::shut_down`].
    pub fn shut_down_to_linger(self) -> Result<(), SocketError> {
        match self.socket.block().state() {
            SocketState::Connected | SocketState::Closing => {
                self.report(Half::Write, EdgeFlags::PUSH | EdgeFlags::LINGERS)
            }
            _ => Err(SocketError::Refused(Errno::NOTCONN)),
        }
    }

    /// Whether the peer has acknowledged the end of the sending half, for a caller that has shut it
    /// down to linger; or never will.
    pub fn is_end_acked(self) -> bool {
        let block = self.socket.block();
        block.flags().contains(BlockFlags::FIN_ACKED) || block.state() != SocketState::Connected
    }

    fn report(self, half: Half, mut flags: EdgeFlags) -> Result<(), SocketError> {
        let block = self.socket.block();
        let mut mark = BlockFlags::empty();
        if half != Half::Write {
            mark |= BlockFlags::SHUT_RD;
            flags |= EdgeFlags::SHUT_RD;
        }
        if half != Half::Read {
            mark |= BlockFlags::SHUT_WR;
            flags |= EdgeFlags::SHUT_WR;
        }
        if mark.contains(BlockFlags::SHUT_WR) {
            // Behind whoever is writing.
            let _lock = block.snd.lock_to_send()?;
            block.set_flags(mark);
        } else {
            block.set_flags(mark);
        }
        let request = self.socket.host.edges(block, self.socket.id, flags);
        self.socket.host.messages().report_written(&request, 0)?;
        self.socket.pair_end().note_done();
        self.socket.wake_local();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
