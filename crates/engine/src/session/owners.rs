//! Signals for those who own a socket (F_SETOWN, F_SETOWN_EX, FIOSETOWN): SIGURG, and
//! SIGIO if the program wants that (O_ASYNC).
//!
//! The engine sends no signals itself: it may have no right to, and its numbers of
//! processes need not be the program's. The program's kernel does it. Its process hands
//! over a pair of connected Unix sockets for each signal, of which the first raises it,
//! for the owner and in the name of whoever has made it the owner, whenever it becomes
//! readable (O_ASYNC, F_SETSIG). Owns those pairs; `post` has them ring after the
//! descriptors that tell the news are published, so that a handler finds them.

use super::Session;
use longshore_hostif::{Edges, OwnersSignal, SocketId, is_writable};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, recv, send, sockopt};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// Sockets with an owner, at most in one session: each takes two descriptors, or four.
const MOST: usize = 1024;

/// What raises one signal.
#[derive(Debug)]
struct Bell {
    /// Signals when it becomes readable. Closed before the other end, whose closing
    /// would be a signal, too.
    raises: OwnedFd,
    rings: OwnedFd,
}

impl Bell {
    /// Of a process's descriptors, if they are Unix sockets.
    fn new(raises: OwnedFd, rings: OwnedFd) -> Option<Self> {
        let is_unix = |fd: &OwnedFd| sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX);
        let right = is_unix(&raises) && is_unix(&rings);
        right.then_some(Self { raises, rings })
    }

    /// Neither end is trusted to be non-blocking, or to be still what it was.
    fn ring(&self) -> Result<(), Errno> {
        let now = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.rings, &[0], now)?;
        recv(&self.raises, &mut [0u8; 16][..], RecvFlags::DONTWAIT)?;
        Ok(())
    }
}

/// What raises the signals of one socket.
#[derive(Debug)]
pub(super) struct Owner {
    generation: u32,
    urgent: Bell,
    /// If it wants SIGIO.
    ready: Option<Bell>,
    /// What SIGIO was raised for last.
    told: Edges,
    /// What the send stream might hold then: a larger buffer makes room, too.
    snd_limit: u64,
}

impl Session {
    /// A socket that stands where `told` says has an owner, or none any more if there are
    /// no `fds`: a pair for SIGURG and perhaps one for SIGIO. Those beyond [`MOST`], of
    /// other kinds or of sockets that are not there are not kept.
    pub(crate) fn set_owner(&mut self, socket: SocketId, fds: Vec<OwnedFd>, told: Edges) {
        self.owners.remove(&socket.index);
        if fds.is_empty() {
            return;
        }
        let mut fds = fds.into_iter();
        let mut bell = || Bell::new(fds.next()?, fds.next()?);
        let (urgent, ready) = (bell(), bell());
        // The descriptor that opens the socket may come later than this.
        let block = self.arena.get_block(socket.index);
        let is_there = block.is_some_and(|b| b.is(socket)) && self.owners.len() < MOST;
        let Some(urgent) = urgent.filter(|_| is_there) else {
            self.bad_descriptors += 1;
            return;
        };
        let snd_limit = self.arena.block(socket.index).snd_limit();
        let owner = Owner {
            generation: socket.generation,
            urgent,
            ready,
            told,
            snd_limit,
        };
        self.owners.insert(socket.index, owner);
    }

    /// The owner of a socket that stands where `edges` says, if it has one, is to be told
    /// of urgent data after the next publication. A handler that interrupts its process
    /// while that takes descriptors finds the byte all the same: the block says where it
    /// is, if it has come.
    pub(crate) fn urge(&mut self, socket: SocketId, edges: &Edges) {
        if !self.owners.contains_key(&socket.index) {
            return;
        }
        if edges.rcv_edge >= edges.rcv_urgent {
            let come = &self.arena.block(socket.index).rcv.urgent_come;
            come.fetch_max(edges.rcv_urgent, Ordering::AcqRel);
        }
        self.urged.push((socket, OwnersSignal::Urgent));
    }

    /// The same for an owner who wants to hear of what is new: of data, connections, the
    /// end, and of room where there was none.
    #[cold]
    pub(super) fn stir(&mut self, socket: SocketId, edges: &Edges) {
        let Some(owner) = self.owners.get_mut(&socket.index) else {
            return;
        };
        let block = self.arena.block(socket.index);
        // The block is the program's, which is served as it says.
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let is_writable = |acked: u64, limit| is_writable(edge.saturating_sub(acked), limit);
        let limit = block.snd_limit();
        let told = std::mem::replace(&mut owner.told, *edges);
        let before = std::mem::replace(&mut owner.snd_limit, limit);
        let has_room = is_writable(edges.snd_acked, limit) && !is_writable(told.snd_acked, before);
        let news = edges.rcv_edge > told.rcv_edge || edges.flags != told.flags || has_room;
        if news && owner.ready.is_some() {
            self.urged.push((socket, OwnersSignal::Ready));
        }
    }

    /// Sends the signals that are due.
    #[cold]
    pub(super) fn signal_owners(&mut self) {
        for (socket, signal) in std::mem::take(&mut self.urged) {
            let owner = self.owners.get(&socket.index);
            let Some(owner) = owner.filter(|o| o.generation == socket.generation) else {
                continue;
            };
            let bell = match signal {
                OwnersSignal::Urgent => Some(&owner.urgent),
                OwnersSignal::Ready => owner.ready.as_ref(),
            };
            let block = self.arena.block(socket.index);
            if let Some(bell) = bell
                && block.raise(signal, || bell.ring()).is_err()
            {
                self.bad_descriptors += 1;
            }
        }
    }
}
