//! All ready sets of a process, behind one lock: which sockets are in which,
//! and which of them may be ready.
//!
//! What happens to a socket puts its interests on the ready lists of their
//! sets. A list may name too many, never too few: `ready_set` looks again
//! before it reports one.

use crate::errors::SocketError;
use crate::wake_eventfd::WakeEventfd;
use longshore_hostif::{HostSession, SocketId};
use longshore_ring::{NONE, Waiter};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};

/// One socket in one set, under one descriptor.
#[derive(Debug)]
pub(crate) struct Interest {
    pub(crate) id: SocketId,
    pub(crate) fd: RawFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
    pub(crate) set: u32,
    /// The next of the same socket.
    pub(crate) next: u32,
    /// Where it stands among its set's.
    place: u32,
    pub(crate) queued: bool,
    /// Reported once, and not set again since.
    pub(crate) disarmed: bool,
}

/// One set.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub(crate) ready: VecDeque<u32>,
    /// The interests that it has, in no order.
    pub(crate) members: Vec<u32>,
    pub(crate) waiter: Option<u32>,
    pub(crate) wake_fd: Option<WakeEventfd>,
    /// Threads that sleep for it.
    pub(crate) sleepers: u32,
}

/// All ready sets of a process.
#[derive(Debug, Default)]
pub(crate) struct ReadySets {
    pub(crate) sets: Vec<Option<Set>>,
    pub(crate) interests: Vec<Option<Interest>>,
    pub(crate) free: Vec<u32>,
    /// The first interest in each socket.
    pub(crate) heads: Vec<u32>,
}

impl Interest {
    /// What set `set` is asked to report of a socket under descriptor `fd`.
    pub(crate) fn new(id: SocketId, fd: RawFd, set: u32, (events, data): (u32, u64)) -> Self {
        Self {
            id,
            fd,
            events,
            data,
            set,
            next: NONE,
            place: 0,
            queued: false,
            disarmed: false,
        }
    }
}

impl ReadySets {
    pub(crate) fn of_socket(&self, index: u32) -> u32 {
        self.heads.get(index as usize).copied().unwrap_or(NONE)
    }

    pub(crate) fn queue(&mut self, key: u32) {
        if let Some(Some(interest)) = self.interests.get_mut(key as usize)
            && !interest.queued
            && !interest.disarmed
            && let Some(Some(set)) = self.sets.get_mut(interest.set as usize)
        {
            interest.queued = true;
            set.ready.push_back(key);
        }
    }

    pub(crate) fn queue_socket(&mut self, index: u32) {
        let mut key = self.of_socket(index);
        while let Some(Some(interest)) = self.interests.get(key as usize) {
            let next = interest.next;
            self.queue(key);
            key = next;
        }
    }

    /// Something happened to these sockets. The engine wakes the threads that sleep for
    /// them.
    pub(crate) fn moved(&mut self, sockets: &[u32]) {
        for index in sockets {
            self.queue_socket(*index);
        }
    }

    /// Something happened to a socket that the engine does not know of: wakes
    /// the threads of this process that sleep for it.
    pub(crate) fn moved_by_us(&mut self, session: &HostSession, index: u32) {
        self.queue_socket(index);
        let mut key = self.of_socket(index);
        while let Some(Some(interest)) = self.interests.get(key as usize) {
            self.ring(session, interest.set);
            key = interest.next;
        }
    }

    /// Everything happened: the engine is gone. Wakes whoever sleeps for any of it.
    pub(crate) fn all_moved(&mut self, session: &HostSession) {
        for key in 0..self.interests.len() as u32 {
            self.queue(key);
        }
        for set in 0..self.sets.len() as u32 {
            self.ring(session, set);
        }
    }

    /// Wakes a thread that sleeps for a set.
    pub(crate) fn ring(&self, session: &HostSession, set: u32) {
        if let Some(Some(set)) = self.sets.get(set as usize)
            && let (Some(waiter), Some(wake_fd)) = (set.waiter, &set.wake_fd)
        {
            Waiter::fence();
            if session.waiters().at(waiter).take().is_some() {
                let _ = rustix::io::write(wake_fd, &1u64.to_ne_bytes());
            }
        }
    }

    /// Takes a socket out of all sets.
    pub(crate) fn forget(&mut self, session: &HostSession, index: u32) {
        loop {
            match self.of_socket(index) {
                NONE => return,
                key => self.remove(session, key),
            }
        }
    }

    /// From now on, `new` has the places of the socket of index `old`.
    pub(crate) fn replace(&mut self, session: &HostSession, old: u32, new: SocketId) {
        while let Some(Some(before)) = self.interests.get(self.of_socket(old) as usize) {
            let key = self.of_socket(old);
            let interest = Interest {
                id: new,
                next: NONE,
                queued: false,
                ..*before
            };
            self.remove(session, key);
            let number = interest.set;
            let Some(key) = self.insert(interest) else {
                continue;
            };
            if let Some(Some(Set {
                waiter: Some(waiter),
                ..
            })) = self.sets.get(number as usize)
            {
                session.block(new.index).add_waiter(*waiter);
            }
            self.queue(key);
            self.ring(session, number);
        }
    }

    pub(crate) fn remove(&mut self, session: &HostSession, key: u32) {
        let Some(interest) = self.interests.get_mut(key as usize).and_then(Option::take) else {
            return;
        };
        let index = interest.id.index;
        let mut again = false;
        if self.of_socket(index) == key {
            self.heads[index as usize] = interest.next;
        }
        let mut at = self.of_socket(index);
        while let Some(Some(other)) = self.interests.get_mut(at as usize) {
            again |= other.set == interest.set;
            if other.next == key {
                other.next = interest.next;
            }
            at = other.next;
        }
        if let Some(Some(set)) = self.sets.get_mut(interest.set as usize) {
            let place = interest.place as usize;
            set.members.swap_remove(place);
            let moved = set.members.get(place).map(|key| *key as usize);
            if let Some(Some(moved)) = moved.and_then(|key| self.interests.get_mut(key)) {
                moved.place = interest.place;
            }
            if !again && let Some(waiter) = set.waiter {
                session.block(index).remove_waiter(waiter);
            }
        }
        // Its place is used again when it has left the ready list, where it stays for now: to
        // look for it in there would take time by the square of those that are ready.
        if !interest.queued {
            self.free.push(key);
        }
    }

    /// Enters an interest, as the first of its socket and the last of its set; its key, `None` if
    /// there is no such set.
    pub(crate) fn insert(&mut self, interest: Interest) -> Option<u32> {
        let set = self.sets.get_mut(interest.set as usize)?.as_mut()?;
        let key = self.free.pop().unwrap_or_else(|| {
            self.interests.push(None);
            self.interests.len() as u32 - 1
        });
        let place = set.members.len() as u32;
        set.members.push(key);
        let index = interest.id.index as usize;
        if self.heads.len() <= index {
            self.heads.resize(index + 1, NONE);
        }
        let next = std::mem::replace(&mut self.heads[index], key);
        self.interests[key as usize] = Some(Interest {
            next,
            place,
            ..interest
        });
        Some(key)
    }

    /// The interest of a set in a socket under this descriptor, if there is one. A socket is in
    /// few sets, and under few descriptors: they are looked through.
    pub(crate) fn find(&self, set: u32, index: u32, fd: RawFd) -> Option<u32> {
        let mut key = self.of_socket(index);
        while let Some(Some(interest)) = self.interests.get(key as usize) {
            if interest.fd == fd && interest.set == set {
                return Some(key);
            }
            key = interest.next;
        }
        None
    }

    /// The sockets of a set, by the indices of their blocks.
    pub(crate) fn sockets_of(&self, set: u32) -> impl Iterator<Item = u32> {
        let members = self.sets.get(set as usize).and_then(Option::as_ref);
        let members = members.into_iter().flat_map(|set| &set.members);
        members.filter_map(|key| Some(self.interests.get(*key as usize)?.as_ref()?.id.index))
    }

    /// This is another process now, the child of a fork: the waiters are its parent's, and
    /// so are those that sleep. Gives the eventfds on which they do, to be closed.
    pub(crate) fn leave_to_parent(&mut self) -> Vec<OwnedFd> {
        let mut left = Vec::new();
        for set in self.sets.iter_mut().flatten() {
            (set.waiter, set.sleepers) = (None, 0);
            left.extend(set.wake_fd.take().map(WakeEventfd::into_fd));
        }
        left
    }

    pub(crate) fn set(&mut self, set: u32) -> Result<&mut Set, SocketError> {
        self.sets
            .get_mut(set as usize)
            .and_then(Option::as_mut)
            .ok_or(SocketError::Refused(Errno::BADF))
    }
}
