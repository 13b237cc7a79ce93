//! The interests of a set: sockets that are entered, changed and taken out (epoll_ctl(2)).

use super::{ONE_SHOT, Place, ReadySet};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::readiness::{Ready, readiness, without_engine};
use crate::ready_sets::{Interest, ReadySets};
use longshore_ring::Waiter;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// EPOLLEXCLUSIVE.
pub(super) const EXCLUSIVE: u32 = 1 << 28;

impl ReadySet {
    /// Enters a socket under descriptor `fd`. The set does not keep the socket
    /// open.
    ///
    /// # Errors
    /// EEXIST if it is in the set under this descriptor.
    pub fn add(
        &self,
        socket: &Socket,
        fd: RawFd,
        events: u32,
        data: u64,
    ) -> Result<(), SocketError> {
        let interest = Interest::new(socket.id, fd, self.index, (events, data));
        self.enter(socket, interest)
    }

    /// As [`ReadySet::add`], of a socket that was reported once elsewhere ([`ONE_SHOT`]): this
    /// set reports it when it is set again.
    ///
    /// # Errors
    /// As [`ReadySet::add`].
    pub fn add_disarmed(
        &self,
        socket: &Socket,
        fd: RawFd,
        events: u32,
        data: u64,
    ) -> Result<(), SocketError> {
        let mut interest = Interest::new(socket.id, fd, self.index, (events, data));
        interest.disarmed = true;
        self.enter(socket, interest)
    }

    fn enter(&self, socket: &Socket, interest: Interest) -> Result<(), SocketError> {
        let (index, fd) = (socket.id.index, interest.fd);
        let sleeps = {
            let mut ready_sets = self.host.ready_sets.enter()?;
            let set = ready_sets.set(self.index)?;
            let (waiter, sleeps) = (set.waiter, set.sleepers != 0);
            if ready_sets.find(self.index, index, fd).is_some() {
                return Err(SocketError::Refused(Errno::EXIST));
            }
            let Some(key) = ready_sets.insert(interest) else {
                return Err(SocketError::Refused(Errno::BADF));
            };
            self.host.held_sockets.set_watched(index);
            if let Some(waiter) = waiter {
                socket.block().add_waiter(waiter);
            }
            if !sleeps {
                self.look(&mut ready_sets, socket, key);
            }
            sleeps
        };
        if sleeps {
            // What the engine said before it could know whom to wake for it may lie in
            // the channel still, and a thread that sleeps already does not look there again.
            Waiter::fence();
            self.host.messages().drain()?;
            let mut ready_sets = self.host.ready_sets.enter()?;
            if let Some(key) = ready_sets.find(self.index, index, fd) {
                self.look(&mut ready_sets, socket, key);
            }
        }
        Ok(())
    }

    /// What is to be reported of the interest with the word `data` beside what is reported of the
    /// same socket elsewhere, if it is one that is reported once: with that it was.
    ///
    /// # Errors
    /// As [`ReadySet::ring`].
    pub fn report_also(&self, data: u64) -> Result<u32, SocketError> {
        let gone = self.host.is_gone();
        let mut ready_sets = self.host.ready_sets.enter()?;
        let mut events = 0;
        let all = ready_sets.interests.iter_mut().flatten();
        for interest in all.filter(|i| i.set == self.index && i.data == data) {
            if interest.events & ONE_SHOT != 0 {
                events |= self.reported_of(interest, gone);
                interest.disarmed = true;
            }
        }
        Ok(events)
    }

    /// What there is to report of an interest now, if anything; `gone` if the engine is.
    pub(super) fn reported_of(&self, interest: &Interest, gone: bool) -> u32 {
        let (session, index) = (&self.host.session, interest.id.index);
        if interest.disarmed || !(session.block(index).is(interest.id) || gone) {
            return 0;
        }
        let mut ready = readiness(session, index);
        if gone {
            ready |= without_engine(session, index);
        }
        ready.bits() & (interest.events | (Ready::ERR | Ready::HUP).bits())
    }

    /// Changes an interest, and arms it again.
    ///
    /// # Errors
    /// ENOENT if it is not in the set; EINVAL if it is exclusive, or is to be.
    pub fn modify(
        &self,
        socket: &Socket,
        fd: RawFd,
        events: u32,
        data: u64,
    ) -> Result<(), SocketError> {
        let mut ready_sets = self.host.ready_sets.enter()?;
        let key = self.key(&mut ready_sets, socket, fd)?;
        if let Some(Some(interest)) = ready_sets.interests.get_mut(key as usize) {
            if (interest.events | events) & EXCLUSIVE != 0 {
                return Err(SocketError::Refused(Errno::INVAL));
            }
            (interest.events, interest.data) = (events, data);
            interest.disarmed = false;
        }
        self.look(&mut ready_sets, socket, key);
        Ok(())
    }

    /// Where a socket stands in it and is to be reported; none while a signal handler has interrupted
    /// this thread in the midst of a change.
    pub fn places_of(&self, socket: &Socket) -> Vec<Place> {
        let mut places = Vec::new();
        let Ok(ready_sets) = self.host.ready_sets.enter() else {
            return places;
        };
        let mut key = ready_sets.of_socket(socket.id.index);
        while let Some(Some(interest)) = ready_sets.interests.get(key as usize) {
            if interest.set == self.index && interest.id == socket.id && !interest.disarmed {
                places.push(Place {
                    fd: interest.fd,
                    events: interest.events,
                    data: interest.data,
                });
            }
            key = interest.next;
        }
        places
    }

    /// Takes a socket out.
    ///
    /// # Errors
    /// ENOENT if it is not in the set.
    pub fn remove(&self, socket: &Socket, fd: RawFd) -> Result<(), SocketError> {
        let mut ready_sets = self.host.ready_sets.enter()?;
        let key = self.key(&mut ready_sets, socket, fd)?;
        ready_sets.remove(&self.host.session, key);
        Ok(())
    }

    /// The interest in a socket under this descriptor.
    fn key(
        &self,
        ready_sets: &mut ReadySets,
        socket: &Socket,
        fd: RawFd,
    ) -> Result<u32, SocketError> {
        ready_sets.set(self.index)?;
        let key = ready_sets.find(self.index, socket.id.index, fd);
        key.ok_or(SocketError::Refused(Errno::NOENT))
    }

    /// Puts an interest on the ready list if it is ready now, and wakes the thread that
    /// sleeps for it.
    fn look(&self, ready_sets: &mut ReadySets, socket: &Socket, key: u32) {
        let wanted = ready_sets
            .interests
            .get(key as usize)
            .and_then(Option::as_ref);
        let always = (Ready::ERR | Ready::HUP).bits();
        let Some(events) = wanted.filter(|i| !i.disarmed).map(|i| i.events | always) else {
            return;
        };
        if socket.readiness().bits() & events != 0 {
            ready_sets.queue(key);
            ready_sets.ring(&self.host.session, self.index);
        }
    }
}
