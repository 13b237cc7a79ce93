//! Sets of sockets of which some become ready: the engine's half of an epoll
//! instance.
//!
//! `harvest` looks at each socket on the set's ready list again and reports
//! what it finds. All sets of a process stand in one [`ReadySets`](crate::ready_sets::ReadySets).

mod interests;

use crate::errors::SocketError;
use crate::host::Host;
use crate::ready_sets::Set;
use longshore_hostif::{OwnersSignal, Raised, SocketId};
use longshore_ring::{Sleep, is_confined};
use rustix::io::Errno;
use std::ops::Add;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

/// What a set reports of an interest once, and then no more until it is set
/// again (EPOLLONESHOT).
pub const ONE_SHOT: u32 = 1 << 30;
/// A set reports it when it becomes ready, not while it is (EPOLLET).
pub const EDGE: u32 = 1 << 31;

/// What a set reports: the events, and the word that came with the interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What the socket can do.
    pub events: u32,
    /// The interest's word.
    pub data: u64,
    /// The descriptor that it was entered under.
    pub fd: RawFd,
    /// Whether it is reported no more until it is set again ([`ONE_SHOT`]).
    pub is_last: bool,
}

/// Where a socket stands in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The descriptor that it was entered under.
    pub fd: RawFd,
    /// What is asked for.
    pub events: u32,
    /// The word that came with that.
    pub data: u64,
}

/// A set of sockets to wait for.
#[derive(Debug, Clone, Copy)]
pub struct ReadySet {
    host: &'static Host,
    index: u32,
}

impl ReadySet {
    /// Makes an empty set.
    ///
    /// # Errors
    /// [`SocketError::Reentered`].
    pub fn new(host: &'static Host) -> Result<Self, SocketError> {
        let mut ready_sets = host.ready_sets.enter()?;
        let set = Set::default();
        let free = ready_sets.sets.iter().position(Option::is_none);
        let index = free.unwrap_or(ready_sets.sets.len());
        match free {
            Some(index) => ready_sets.sets[index] = Some(set),
            None => ready_sets.sets.push(Some(set)),
        }
        Ok(Self {
            host,
            index: index as u32,
        })
    }

    /// The set of this number, which [`ReadySet::number`] gave.
    pub fn of(host: &'static Host, number: u32) -> Self {
        Self {
            host,
            index: number,
        }
    }

    /// Its number among the sets of the process.
    pub fn number(&self) -> u32 {
        self.index
    }

    /// Takes it away.
    pub fn close(self) {
        let Ok(mut ready_sets) = self.host.ready_sets.enter() else {
            return;
        };
        let keys: Vec<u32> = match ready_sets.set(self.index) {
            Ok(set) => set.members.clone(),
            Err(_) => return,
        };
        for key in keys {
            ready_sets.remove(&self.host.session, key);
        }
        if let Some(set) = ready_sets.sets[self.index as usize].take() {
            // They have left the set, and now its ready list too.
            ready_sets.free.extend(&set.ready);
            if let Some(waiter) = set.waiter {
                self.host.threads().free_waiter(waiter);
            }
            if let Some(wake_fd) = set.wake_fd {
                (self.host.hooks.discard)(wake_fd.into_fd());
            }
        }
    }

    /// Wakes whoever sleeps on its eventfd, if it has one.
    ///
    /// # Errors
    /// [`SocketError::Reentered`], or if the set is gone.
    pub fn ring(&self) -> Result<(), SocketError> {
        let mut ready_sets = self.host.ready_sets.enter()?;
        if let Some(wake_fd) = &ready_sets.set(self.index)?.wake_fd {
            let _ = rustix::io::write(wake_fd, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Silences its eventfd.
    ///
    /// # Errors
    /// As [`ReadySet::ring`].
    pub fn silence(&self) -> Result<(), SocketError> {
        let mut ready_sets = self.host.ready_sets.enter()?;
        if let Some(wake_fd) = &ready_sets.set(self.index)?.wake_fd {
            let _ = rustix::io::read(wake_fd, &mut [0u8; 8]);
        }
        Ok(())
    }

    /// The eventfd on which its threads sleep, if it was made.
    pub fn wake_fd_if_made(&self) -> Option<RawFd> {
        let mut ready_sets = self.host.ready_sets.enter().ok()?;
        let wake_fd = ready_sets.set(self.index).ok()?.wake_fd.as_ref()?;
        Some(wake_fd.as_raw_fd())
    }

    /// The eventfd on which its threads sleep, made if it is not there yet, and whether it was made
    /// now. After a fork the child gets one of its own. `None` without a waiter or a descriptor, of
    /// which there may be one the next time, or under a filter of system calls if nothing was
    /// prepared: a thread that sleeps for the set is not woken, and must not sleep for long.
    ///
    /// # Errors
    /// [`SocketError::Reentered`], or if the set is gone.
    pub fn wake_fd(&self) -> Result<Option<(RawFd, bool)>, SocketError> {
        let mut ready_sets = self.host.ready_sets.enter()?;
        let set = ready_sets.set(self.index)?;
        if set.waiter.is_some() {
            let wake_fd = set.wake_fd.as_ref().ok_or(SocketError::Broken)?;
            return Ok(Some((wake_fd.as_raw_fd(), false)));
        }
        if is_confined() {
            return Ok(None);
        }
        let Some(waiter) = self.host.threads().claim_waiter() else {
            return Ok(None);
        };
        let Some(wake_fd) = self.host.descriptor_requests().make_eventfd(waiter) else {
            self.host.threads().free_waiter(waiter);
            return Ok(None);
        };
        let fd = wake_fd.as_raw_fd();
        (set.wake_fd, set.waiter) = (Some(wake_fd), Some(waiter));
        let sockets: Vec<u32> = ready_sets.sockets_of(self.index).collect();
        // Before anybody takes one out again, and with it the waiter off its block.
        for index in &sockets {
            self.host.session.block(*index).add_waiter(waiter);
        }
        drop(ready_sets);
        for index in sockets {
            let block = self.host.session.block(index);
            let generation = block.generation.load(Ordering::Acquire);
            // Taking a use of it makes the engine tell us of it.
            drop(self.host.sockets().acquire(SocketId { index, generation }));
        }
        Ok(Some((fd, true)))
    }

    /// Whether any socket is in it.
    pub fn is_empty(&self) -> bool {
        self.host.ready_sets.enter().is_ok_and(|mut ready_sets| {
            ready_sets
                .set(self.index)
                .is_ok_and(|s| s.members.is_empty())
        })
    }

    /// How often the owners of its sockets were signalled, all together.
    pub fn raised(&self, signal: OwnersSignal) -> Raised {
        let Ok(ready_sets) = self.host.ready_sets.enter() else {
            return Raised::default();
        };
        let indices = ready_sets.sockets_of(self.index);
        let each = indices.map(|index| self.host.session.block(index).raised(signal));
        each.fold(Raised::default(), Raised::add)
    }

    /// Looks at the ready list and reports at most `room` sockets by `report`;
    /// returns how many.
    ///
    /// # Errors
    /// EBADF if the set is closed.
    pub fn harvest(
        &self,
        room: usize,
        mut report: impl FnMut(Report),
    ) -> Result<usize, SocketError> {
        let gone = self.host.is_gone();
        let mut ready_sets = self.host.ready_sets.enter()?;
        let ready_sets = &mut *ready_sets;
        let Some(Some(set)) = ready_sets.sets.get_mut(self.index as usize) else {
            return Err(SocketError::Refused(Errno::BADF));
        };
        let mut found = 0;
        for _ in 0..set.ready.len() {
            if found == room {
                break;
            }
            let Some(key) = set.ready.pop_front() else {
                break;
            };
            let Some(Some(interest)) = ready_sets.interests.get_mut(key as usize) else {
                // It has left the set meanwhile.
                ready_sets.free.push(key);
                continue;
            };
            interest.queued = false;
            let events = self.reported_of(interest, gone);
            if events == 0 {
                continue;
            }
            report(Report {
                events,
                data: interest.data,
                fd: interest.fd,
                is_last: interest.events & ONE_SHOT != 0,
            });
            found += 1;
            if interest.events & ONE_SHOT != 0 {
                interest.disarmed = true;
            } else if interest.events & EDGE == 0 {
                interest.queued = true;
                set.ready.push_back(key);
            }
        }
        Ok(found)
    }

    /// Whether anything on the ready list is ready. Leaves it there.
    pub fn is_ready(&self) -> bool {
        let Ok(mut ready_sets) = self.host.ready_sets.enter() else {
            return false;
        };
        let gone = self.host.is_gone();
        let ready_sets = &mut *ready_sets;
        let Some(Some(set)) = ready_sets.sets.get_mut(self.index as usize) else {
            return false;
        };
        set.ready.iter().any(|key| {
            let interest = ready_sets.interests.get(*key as usize);
            let interest = interest.and_then(Option::as_ref);
            interest.is_some_and(|interest| self.reported_of(interest, gone) != 0)
        })
    }

    /// Says that this thread is about to sleep on the set's eventfd. It has to
    /// look at the list once more before it does.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::Reentered`].
    pub fn declare(&self) -> Result<(), SocketError> {
        {
            let mut ready_sets = self.host.ready_sets.enter()?;
            let set = ready_sets.set(self.index)?;
            set.sleepers += 1;
            if let Some(waiter) = set.waiter {
                self.host
                    .session
                    .waiters()
                    .at(waiter)
                    .declare(Sleep::Eventfd);
            }
        }
        self.host.messages().flush()?;
        self.host.messages().drain()?;
        self.host.observe_end();
        Ok(())
    }

    /// Says that this thread is awake again. If others still sleep, they are
    /// woken for what comes next, and for what is left.
    pub fn awake(&self) {
        self.wake_sleepers_but(1);
    }

    /// What was to wake the threads that sleep on the set's eventfd was taken by one that does
    /// not sleep: they are woken for what comes next, and for what that one has left.
    pub fn hand_on(&self) {
        self.wake_sleepers_but(0);
    }

    /// As `awake`, where so many threads do not sleep any more.
    fn wake_sleepers_but(&self, awake: u32) {
        let others = {
            let Ok(mut ready_sets) = self.host.ready_sets.enter() else {
                return;
            };
            let Ok(set) = ready_sets.set(self.index) else {
                return;
            };
            set.sleepers = set.sleepers.saturating_sub(awake);
            if let Some(waiter) = set.waiter {
                let waiter = self.host.session.waiters().at(waiter);
                if set.sleepers == 0 {
                    waiter.cancel();
                } else {
                    waiter.declare(Sleep::Eventfd);
                }
            }
            set.sleepers != 0
        };
        if others
            && self.host.messages().drain().is_ok()
            && self.is_ready()
            && let Ok(ready_sets) = self.host.ready_sets.enter()
        {
            ready_sets.ring(&self.host.session, self.index);
        }
    }
}

#[cfg(test)]
mod tests;
