//! SIGURG for those who own a socket (F_SETOWN, F_SETOWN_EX, FIOSETOWN).
//!
//! The engine sends no signals itself: it may have no right to, and its numbers of
//! processes need not be the program's. The program's kernel does it. Its process hands
//! over a pair of connected Unix sockets of which the first raises SIGURG, for the owner
//! and in the name of whoever has made it the owner, whenever it becomes readable
//! (O_ASYNC, F_SETSIG). Owns those pairs; `post` has them ring after the descriptors that
//! tell of urgent data are published, so that a handler finds them.

use super::Session;
use longshore_hostif::SocketId;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, recv, send, sockopt};
use std::os::fd::OwnedFd;

/// Sockets with an owner, at most in one session: each takes two descriptors.
const MOST: usize = 1024;

/// What raises the signal of one socket.
#[derive(Debug)]
pub(super) struct Owner {
    generation: u32,
    /// Signals when it becomes readable. Closed before the other end, whose closing
    /// would be a signal, too.
    raises: OwnedFd,
    rings: OwnedFd,
}

impl Owner {
    /// Neither end is trusted to be non-blocking, or to be still what it was.
    fn signal(&self) -> Result<(), Errno> {
        let now = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.rings, &[0], now)?;
        recv(&self.raises, &mut [0u8; 16][..], RecvFlags::DONTWAIT)?;
        Ok(())
    }
}

impl Session {
    /// A socket has an owner, or none any more if `pair` is empty. Pairs beyond
    /// [`MOST`], of other kinds or of sockets that are not there are not kept.
    pub(crate) fn set_owner(&mut self, socket: SocketId, pair: Vec<OwnedFd>) {
        self.owners.remove(&socket.index);
        let Ok([raises, rings]) = <[OwnedFd; 2]>::try_from(pair) else {
            return;
        };
        let is_unix = |fd: &OwnedFd| sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX);
        // The descriptor that opens the socket may come later than this.
        let block = self.arena.get_block(socket.index);
        let right = is_unix(&raises) && is_unix(&rings) && block.is_some_and(|b| b.is(socket));
        if !right || self.owners.len() >= MOST {
            self.bad_descriptors += 1;
            return;
        }
        let owner = Owner {
            generation: socket.generation,
            raises,
            rings,
        };
        self.owners.insert(socket.index, owner);
    }

    /// The owner of a socket, if it has one, is to be told after the next publication.
    pub(crate) fn urge(&mut self, socket: SocketId) {
        if self.owners.contains_key(&socket.index) {
            self.urged.push(socket);
        }
    }

    /// Sends the signals that are due.
    #[cold]
    pub(super) fn signal_owners(&mut self) {
        for socket in std::mem::take(&mut self.urged) {
            if let Some(owner) = self.owners.get(&socket.index)
                && owner.generation == socket.generation
                && owner.signal().is_err()
            {
                self.bad_descriptors += 1;
            }
        }
    }
}
