//! Signals for those who own a socket (F_SETOWN, F_SETOWN_EX, FIOSETOWN): SIGURG, and
//! SIGIO if the program wants that (O_ASYNC).
//!
//! The engine sends no signals itself: it may have no right to, and its numbers of
//! processes need not be the program's. The program's kernel does it. The engine makes a
//! pair of connected Unix sockets for each signal, and gives one to the process, which has
//! it raise the signal, for the owner and in the name of whoever has made it the owner,
//! whenever it becomes readable (O_ASYNC, F_SETSIG). Nothing can be sent back over it.
//! [`OwnerTable`] owns those pairs, and [`Owners`] borrows it; `completions` has the signals raised after the descriptors that say why
//! are published, so that a handler finds them.

use super::eventfds::Charge;
use super::session_meter::SessionMeter;
use crate::abi::{Edges, OwnersSignal, SocketId};
use crate::transport::Arena;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Sockets with an owner, at most in one session: each takes two descriptors, or four.
const MOST: usize = 1024;
/// Owners that were asked for and not yet set, at most in one session.
const MOST_TO_BE: usize = 64;

/// What raises one signal.
#[derive(Debug)]
struct SignalPair {
    /// Signals when it becomes readable. Closed before the other end, whose closing
    /// would be a signal, too.
    raises: OwnedFd,
    rings: OwnedFd,
}

impl SignalPair {
    /// Whoever has the end that raises the signal can send nothing over it, and so no
    /// descriptors that we would have to close.
    fn make() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (raises, rings) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        shutdown(&raises, Shutdown::Write)?;
        Ok(Self { raises, rings })
    }

    /// The end that the program has is not trusted to be non-blocking.
    fn raise(&self) -> Result<(), Errno> {
        let now = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        send(&self.rings, &[0], now)?;
        recv(&self.raises, &mut [0u8; 16][..], RecvFlags::DONTWAIT)?;
        Ok(())
    }
}

/// What raises the signals of one socket.
#[derive(Debug)]
struct Owner {
    generation: u32,
    urgent: SignalPair,
    /// If it wants SIGIO.
    ready: Option<SignalPair>,
    /// What SIGIO was raised for last.
    reported: Edges,
    /// What the send stream might hold then: a larger buffer makes room, too.
    snd_limit: u64,
    _charge: Charge,
}

/// What was made for the owner of a socket, and does not yet raise signals; nothing, if
/// nobody is to own it any more.
#[derive(Debug)]
struct ToBe {
    socket: SocketId,
    pairs: Vec<SignalPair>,
    charge: Charge,
}

/// The owners of a session's sockets.
#[derive(Debug, Default)]
pub(super) struct OwnerTable {
    /// By the block's index.
    set: HashMap<u32, Owner>,
    /// Made and not yet set.
    to_be: Vec<ToBe>,
    /// Sockets whose owners to signal what after the next publication.
    due: Vec<(SocketId, OwnersSignal)>,
}

impl OwnerTable {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    #[inline]
    pub(super) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// How many signals are due.
    #[inline]
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// The owner of a socket is to be told that it is ready, if it wants that.
    pub(super) fn note_due(&mut self, socket: SocketId) {
        let owner = self.set.get(&socket.index);
        if owner.is_some_and(|owner| owner.ready.is_some()) {
            self.due.push((socket, OwnersSignal::Ready));
        }
    }

    /// Only the first so many signals are due.
    #[inline]
    pub(super) fn take_back(&mut self, first: usize) {
        self.due.truncate(first);
    }
}

/// The owners of a session's sockets, and what raises their signals.
#[derive(Debug)]
pub struct Owners<'a> {
    pub(super) table: &'a mut OwnerTable,
    pub(super) arena: &'a Arena,
    pub(super) meter: &'a SessionMeter,
}

impl<'a> Owners<'a> {
    /// Makes what raises so many signals for the owner of a socket: the sockets that its
    /// program has raise them. Those beyond 1,024 of a session are not made, nor is what
    /// `charge` refuses by `None`; it is told how many descriptors they are.
    pub fn make(
        self,
        socket: SocketId,
        signals: u32,
        charge: impl FnOnce(u32) -> Option<Charge>,
    ) -> Vec<BorrowedFd<'a>> {
        let owners = self.table;
        owners.to_be.retain(|o| o.socket != socket);
        let block = self.arena.get_block(socket.index);
        let is_there = block.is_some_and(|b| b.is(socket));
        let has_room = owners.set.len() < MOST && owners.to_be.len() < MOST_TO_BE;
        let charge = charge(2 * signals);
        let (true, true, Some(charge)) = (is_there, has_room, charge) else {
            self.meter.note_bad_descriptor();
            return Vec::new();
        };
        let made: Result<Vec<_>, Errno> = (0..signals).map(|_| SignalPair::make()).collect();
        let Ok(pairs) = made else {
            return Vec::new();
        };
        owners.to_be.push(ToBe {
            socket,
            pairs,
            charge,
        });
        let last = owners.to_be.last();
        let pairs = last.into_iter().flat_map(|o| o.pairs.iter());
        pairs.map(|b| b.raises.as_fd()).collect()
    }

    /// The owner of a socket that stands where `told` says gets signals from now on by what
    /// was made for it last, if anything was: of what is there already it is not told again.
    pub fn set(&mut self, socket: SocketId, reported: Edges) {
        let owners = &mut *self.table;
        owners.set.remove(&socket.index);
        let at = owners.to_be.iter().position(|o| o.socket == socket);
        let Some(ToBe { pairs, charge, .. }) = at.map(|at| owners.to_be.remove(at)) else {
            return;
        };
        let mut pairs = pairs.into_iter();
        let (Some(urgent), ready) = (pairs.next(), pairs.next()) else {
            return;
        };
        let snd_limit = self.arena.block(socket.index).snd_limit();
        let owner = Owner {
            generation: socket.generation,
            urgent,
            ready,
            reported,
            snd_limit,
            _charge: charge,
        };
        owners.set.insert(socket.index, owner);
    }

    /// The socket with this block has no owner any more.
    #[inline]
    pub fn forget(&mut self, index: u32) {
        if !self.table.is_empty() {
            self.table.set.remove(&index);
        }
    }

    /// The owner of a socket that stands where `edges` says, if it has one, is to be told
    /// of urgent data after the next publication. A handler that interrupts its process
    /// while that takes descriptors finds the byte all the same: the block says where it
    /// is, if it has come.
    pub fn note_urgent(&mut self, socket: SocketId, edges: &Edges) {
        if !self.table.set.contains_key(&socket.index) {
            return;
        }
        if edges.rcv_edge >= edges.rcv_urgent {
            let come = &self.arena.block(socket.index).rcv.urgent_come;
            come.fetch_max(edges.rcv_urgent, Ordering::AcqRel);
            self.meter.note_word(socket.index, size_of::<u64>());
        }
        self.table.due.push((socket, OwnersSignal::Urgent));
    }

    /// The owner of a socket that stands where `edges` says, if it wants to be told of what is
    /// new, is told after the next publication of data, connections, the end, and of room
    /// where there was none.
    #[cold]
    pub(super) fn note_ready(&mut self, socket: SocketId, edges: &Edges) {
        let Some(owner) = self.table.set.get_mut(&socket.index) else {
            return;
        };
        let block = self.arena.block(socket.index);
        // The block is the program's, which is served as it says.
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let is_writable =
            |acked: u64, limit| block.is_writable_at(edge.saturating_sub(acked), limit);
        let limit = block.snd_limit();
        let reported = std::mem::replace(&mut owner.reported, *edges);
        let before = std::mem::replace(&mut owner.snd_limit, limit);
        let has_room =
            is_writable(edges.snd_acked, limit) && !is_writable(reported.snd_acked, before);
        let is_new =
            edges.rcv_edge > reported.rcv_edge || edges.flags != reported.flags || has_room;
        if is_new {
            self.table.note_due(socket);
        }
    }

    /// Sends the signals that are due.
    #[cold]
    pub(super) fn signal(&mut self) {
        for (socket, signal) in std::mem::take(&mut self.table.due) {
            let owner = self.table.set.get(&socket.index);
            let Some(owner) = owner.filter(|o| o.generation == socket.generation) else {
                continue;
            };
            let pair = match signal {
                OwnersSignal::Urgent => Some(&owner.urgent),
                OwnersSignal::Ready => owner.ready.as_ref(),
            };
            let block = self.arena.block(socket.index);
            if let Some(pair) = pair {
                self.meter.note_word(socket.index, size_of::<u16>());
                if block.raise(signal, || pair.raise()).is_err() {
                    self.meter.note_bad_descriptor();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
