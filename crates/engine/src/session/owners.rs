//! Signals for those who own a socket (F_SETOWN, F_SETOWN_EX, FIOSETOWN): SIGURG, and
//! SIGIO if the program wants that (O_ASYNC).
//!
//! The engine sends no signals itself: it may have no right to, and its numbers of
//! processes need not be the program's. The program's kernel does it. The engine makes a
//! pair of connected Unix sockets for each signal, and gives one to the process, which has
//! it raise the signal, for the owner and in the name of whoever has made it the owner,
//! whenever it becomes readable (O_ASYNC, F_SETSIG). Nothing can be sent back over it. Owns
//! those pairs; `post` has them ring after the descriptors that tell the news are published,
//! so that a handler finds them.

use super::Session;
use crate::attach::Share;
use longshore_hostif::{Edges, OwnersSignal, SocketId, is_writable};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Sockets with an owner, at most in one session: each takes two descriptors, or four.
const MOST: usize = 1024;
/// Owners that were asked for and not yet set, at most in one session.
const MOST_TO_BE: usize = 64;

/// What raises one signal.
#[derive(Debug)]
struct Bell {
    /// Signals when it becomes readable. Closed before the other end, whose closing
    /// would be a signal, too.
    raises: OwnedFd,
    rings: OwnedFd,
}

impl Bell {
    /// Whoever has the end that raises the signal can send nothing over it, and so no
    /// descriptors that we would have to close.
    fn make() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (raises, rings) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        shutdown(&raises, Shutdown::Write)?;
        Ok(Self { raises, rings })
    }

    /// The end that the program has is not trusted to be non-blocking.
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
    _share: Option<Share>,
}

/// What was made for the owner of a socket, and does not yet raise signals; nothing, if
/// nobody is to own it any more.
#[derive(Debug)]
pub(super) struct ToBe {
    socket: SocketId,
    bells: Vec<Bell>,
    share: Option<Share>,
}

impl Session {
    /// Makes what raises so many signals for the owner of a socket: the sockets that its
    /// program has raise them. Those beyond [`MOST`] are not made.
    pub(crate) fn make_owner(&mut self, socket: SocketId, signals: u32) -> Vec<BorrowedFd<'_>> {
        self.owners_to_be.retain(|o| o.socket != socket);
        let is_there = self
            .arena
            .get_block(socket.index)
            .is_some_and(|b| b.is(socket));
        let has_room = self.owners.len() < MOST && self.owners_to_be.len() < MOST_TO_BE;
        let share = self.take_descriptors(2 * signals);
        let (true, true, Ok(share)) = (is_there, has_room, share) else {
            self.bad_descriptors += 1;
            return Vec::new();
        };
        let made: Result<Vec<Bell>, Errno> = (0..signals).map(|_| Bell::make()).collect();
        let Ok(bells) = made else {
            return Vec::new();
        };
        self.owners_to_be.push(ToBe {
            socket,
            bells,
            share,
        });
        let last = self.owners_to_be.last();
        let bells = last.into_iter().flat_map(|o| o.bells.iter());
        bells.map(|b| b.raises.as_fd()).collect()
    }

    /// The owner of a socket that stands where `told` says gets signals from now on by what
    /// was made for it last, if anything was: what is there already is no news.
    pub(crate) fn set_owner(&mut self, socket: SocketId, told: Edges) {
        self.owners.remove(&socket.index);
        let at = self.owners_to_be.iter().position(|o| o.socket == socket);
        let Some(ToBe { bells, share, .. }) = at.map(|at| self.owners_to_be.remove(at)) else {
            return;
        };
        let mut bells = bells.into_iter();
        let (Some(urgent), ready) = (bells.next(), bells.next()) else {
            return;
        };
        let snd_limit = self.arena.block(socket.index).snd_limit();
        let owner = Owner {
            generation: socket.generation,
            urgent,
            ready,
            told,
            snd_limit,
            _share: share,
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
