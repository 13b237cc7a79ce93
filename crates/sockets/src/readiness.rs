//! Readiness: what a socket can do now, and sets of sockets of which some
//! become ready.
//!
//! A [`ReadySet`] is the engine's half of an epoll instance. What happens to a
//! socket puts its interests on the ready lists of their sets; `harvest` looks
//! at each again and reports what it finds, so a list may name too many, never
//! too few. All sets of a process stand in one [`Hub`] behind one lock.

use crate::errors::SocketError;
use crate::holds::Socket;
use crate::host::Host;
use crate::stream::{has_room, want_room};
use longshore_hostif::{Arena, BlockFlags, SocketBlock, SocketId, SocketState};
use longshore_ring::{NONE, Sleep, Waiter};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

/// EPOLLEXCLUSIVE.
const EXCLUSIVE: u32 = 1 << 28;

bitflags::bitflags! {
    /// What a socket can do, in the numbers of Linux's poll and epoll.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Ready: u32 {
        /// It can be read from, or accepts.
        const IN = 0x001;
        /// It can be written to.
        const OUT = 0x004;
        /// It has a pending error.
        const ERR = 0x008;
        /// Both halves are closed.
        const HUP = 0x010;
        /// As IN.
        const RDNORM = 0x040;
        /// As OUT.
        const WRNORM = 0x100;
        /// The peer will send no more.
        const RDHUP = 0x2000;
    }
}

/// What a set reports of an interest once, and then no more until it is set
/// again (EPOLLONESHOT).
pub const ONE_SHOT: u32 = 1 << 30;
/// A set reports it when it becomes ready, not while it is (EPOLLET).
pub const EDGE: u32 = 1 << 31;

impl Socket {
    /// What it can do now, as Linux's `tcp_poll` and `datagram_poll` say it.
    pub fn readiness(&self) -> Ready {
        let mut ready = readiness(self.block());
        if self.host.is_gone() {
            ready |= Ready::ERR | Ready::HUP | Ready::IN | Ready::OUT | Ready::RDHUP;
        }
        ready
    }
}

fn readiness(block: &SocketBlock) -> Ready {
    let (flags, state) = (block.flags(), block.state());
    let readable = Ready::IN | Ready::RDNORM;
    let writable = Ready::OUT | Ready::WRNORM;
    let mut ready = Ready::empty();
    if block.errno.load(Ordering::Acquire) != 0 {
        ready |= Ready::ERR;
    }
    let held = block.rcv.held();
    if state == SocketState::Listening {
        if held != 0 || flags.contains(BlockFlags::SHUT_RD) {
            ready |= readable;
        }
        return ready;
    }
    let datagram = flags.contains(BlockFlags::DATAGRAM);
    let over = !datagram
        && matches!(
            state,
            SocketState::Open | SocketState::Dead | SocketState::Free
        );
    let no_more_in =
        flags.intersects(BlockFlags::PEER_FIN | BlockFlags::SHUT_RD) || state == SocketState::Dead;
    let no_more_out = flags.contains(BlockFlags::SHUT_WR) || state == SocketState::Dead;
    if over || (no_more_in && no_more_out) {
        ready |= Ready::HUP;
    }
    if no_more_in {
        ready |= readable | Ready::RDHUP;
    }
    if state == SocketState::Connecting {
        return ready;
    }
    let low_water = u64::from(block.rcv.low_water.load(Ordering::Relaxed)).max(1);
    if held >= if datagram { 1 } else { low_water } {
        ready |= readable;
    }
    if no_more_out || has_room(block) || want_room(block) {
        ready |= writable;
    }
    ready
}

/// One socket in one set, under one descriptor.
#[derive(Debug)]
struct Interest {
    id: SocketId,
    fd: RawFd,
    events: u32,
    data: u64,
    set: u32,
    /// The next of the same socket.
    next: u32,
    queued: bool,
    /// Reported once, and not set again since.
    disarmed: bool,
}

/// One set.
#[derive(Debug, Default)]
struct Set {
    ready: VecDeque<u32>,
    by_key: HashMap<(RawFd, u32), u32>,
    waiter: Option<u32>,
    bell: Option<OwnedFd>,
    /// Threads that sleep for it.
    sleepers: u32,
    /// The process that its waiter is of.
    epoch: u32,
}

/// All ready sets of a process.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    sets: Vec<Option<Set>>,
    interests: Vec<Option<Interest>>,
    free: Vec<u32>,
    /// The first interest in each socket.
    heads: Vec<u32>,
}

impl Hub {
    fn of_socket(&self, index: u32) -> u32 {
        self.heads.get(index as usize).copied().unwrap_or(NONE)
    }

    fn queue(&mut self, key: u32) {
        if let Some(Some(interest)) = self.interests.get_mut(key as usize)
            && !interest.queued
            && !interest.disarmed
            && let Some(Some(set)) = self.sets.get_mut(interest.set as usize)
        {
            interest.queued = true;
            set.ready.push_back(key);
        }
    }

    fn queue_socket(&mut self, index: u32) {
        let mut key = self.of_socket(index);
        while let Some(Some(interest)) = self.interests.get(key as usize) {
            let next = interest.next;
            self.queue(key);
            key = next;
        }
    }

    /// Something happened to these sockets. The engine wakes who sleeps for
    /// them.
    pub(crate) fn moved(&mut self, sockets: &[u32]) {
        for index in sockets {
            self.queue_socket(*index);
        }
    }

    /// Something happened to a socket that the engine does not know of: wakes
    /// who sleeps for it in this process.
    pub(crate) fn moved_by_us(&mut self, arena: &Arena, index: u32) {
        self.queue_socket(index);
        let mut key = self.of_socket(index);
        while let Some(Some(interest)) = self.interests.get(key as usize) {
            self.ring(arena, interest.set);
            key = interest.next;
        }
    }

    /// Everything happened: the engine is gone.
    pub(crate) fn all_moved(&mut self) {
        for key in 0..self.interests.len() as u32 {
            self.queue(key);
        }
    }

    /// Wakes a thread that sleeps for a set.
    fn ring(&self, arena: &Arena, set: u32) {
        if let Some(Some(set)) = self.sets.get(set as usize)
            && let (Some(waiter), Some(bell)) = (set.waiter, &set.bell)
        {
            Waiter::fence();
            if arena.waiters()[waiter as usize].take().is_some() {
                let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
            }
        }
    }

    /// Takes a socket out of all sets.
    pub(crate) fn forget(&mut self, arena: &Arena, index: u32) {
        loop {
            match self.of_socket(index) {
                NONE => return,
                key => self.remove(arena, key),
            }
        }
    }

    fn remove(&mut self, arena: &Arena, key: u32) {
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
            set.by_key.remove(&(interest.fd, index));
            if interest.queued {
                set.ready.retain(|k| *k != key);
            }
            if !again && let Some(waiter) = set.waiter {
                arena.block(index).remove_waiter(waiter);
            }
        }
        self.free.push(key);
    }

    fn insert(&mut self, interest: Interest) -> u32 {
        let key = self.free.pop().unwrap_or_else(|| {
            self.interests.push(None);
            self.interests.len() as u32 - 1
        });
        let index = interest.id.index as usize;
        if self.heads.len() <= index {
            self.heads.resize(index + 1, NONE);
        }
        let next = std::mem::replace(&mut self.heads[index], key);
        self.interests[key as usize] = Some(Interest { next, ..interest });
        key
    }

    fn set(&mut self, set: u32) -> Result<&mut Set, SocketError> {
        self.sets
            .get_mut(set as usize)
            .and_then(Option::as_mut)
            .ok_or(SocketError::Refused(Errno::BADF))
    }
}

/// What a set reports: the events, and the word that came with the interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// What the socket can do.
    pub events: u32,
    /// The interest's word.
    pub data: u64,
    /// The descriptor that it was entered under.
    pub fd: RawFd,
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
        let mut hub = host.hub.enter()?;
        let epoch = host.epoch.load(Ordering::Relaxed);
        let set = Set {
            epoch,
            ..Set::default()
        };
        let free = hub.sets.iter().position(Option::is_none);
        let index = free.unwrap_or(hub.sets.len());
        match free {
            Some(index) => hub.sets[index] = Some(set),
            None => hub.sets.push(Some(set)),
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
        let Ok(mut hub) = self.host.hub.enter() else {
            return;
        };
        let keys: Vec<u32> = match hub.set(self.index) {
            Ok(set) => set.by_key.values().copied().collect(),
            Err(_) => return,
        };
        for key in keys {
            hub.remove(&self.host.arena, key);
        }
        if let Some(set) = hub.sets[self.index as usize].take() {
            if let Some(waiter) = set.waiter
                && set.epoch == self.host.epoch.load(Ordering::Relaxed)
            {
                self.host.free_waiter(waiter);
            }
            if let Some(bell) = set.bell {
                (self.host.hooks.discard)(bell);
            }
        }
    }

    /// Wakes whoever sleeps on its eventfd, if it has one.
    ///
    /// # Errors
    /// [`SocketError::Reentered`], or if the set is gone.
    pub fn ring(&self) -> Result<(), SocketError> {
        let mut hub = self.host.hub.enter()?;
        if let Some(bell) = &hub.set(self.index)?.bell {
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    /// Silences its eventfd.
    ///
    /// # Errors
    /// As [`ReadySet::ring`].
    pub fn silence(&self) -> Result<(), SocketError> {
        let mut hub = self.host.hub.enter()?;
        if let Some(bell) = &hub.set(self.index)?.bell {
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
        Ok(())
    }

    /// The eventfd on which its threads sleep, made if it is not there yet, and
    /// whether it was made now. After a fork the child gets a waiter of its own
    /// for the eventfd that it inherited.
    ///
    /// # Errors
    /// ENOMEM without a waiter or a descriptor.
    pub fn bell(&self) -> Result<(RawFd, bool), SocketError> {
        let mut hub = self.host.hub.enter()?;
        let epoch = self.host.epoch.load(Ordering::Relaxed);
        let set = hub.set(self.index)?;
        if set.waiter.is_some() && set.epoch == epoch {
            let bell = set.bell.as_ref().ok_or(SocketError::Broken)?;
            return Ok((bell.as_raw_fd(), false));
        }
        let no_memory = SocketError::Refused(Errno::NOMEM);
        let waiter = self.host.claim_waiter().ok_or(no_memory)?;
        let new = set.bell.is_none();
        match &set.bell {
            Some(bell) => self.host.hand_over(waiter, bell.as_fd()),
            None => match self.host.make_bell(waiter) {
                Some(bell) => set.bell = Some(bell),
                None => {
                    self.host.free_waiter(waiter);
                    return Err(no_memory);
                }
            },
        }
        set.waiter = Some(waiter);
        set.epoch = epoch;
        let fd = set.bell.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let sockets: Vec<SocketId> = set
            .by_key
            .keys()
            .map(|(_, i)| *i)
            .map(|i| SocketId {
                index: i,
                generation: 0,
            })
            .collect();
        drop(hub);
        for socket in sockets {
            let block = self.host.arena.block(socket.index);
            block.add_waiter(waiter);
            let generation = block.generation.load(Ordering::Acquire);
            // Taking a use of it makes the engine tell us of it.
            drop(self.host.acquire(SocketId {
                generation,
                ..socket
            }));
        }
        Ok((fd, new))
    }

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
        let index = socket.id.index;
        {
            let mut hub = self.host.hub.enter()?;
            let set = hub.set(self.index)?;
            if set.by_key.contains_key(&(fd, index)) {
                return Err(SocketError::Refused(Errno::EXIST));
            }
            let waiter = set.waiter;
            let key = hub.insert(Interest {
                id: socket.id,
                fd,
                events,
                data,
                set: self.index,
                next: NONE,
                queued: false,
                disarmed: false,
            });
            hub.set(self.index)?.by_key.insert((fd, index), key);
            self.host.set_watched(index);
            if let Some(waiter) = waiter {
                socket.block().add_waiter(waiter);
            }
        }
        self.look(socket, fd)
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
        {
            let mut hub = self.host.hub.enter()?;
            let key = hub
                .set(self.index)?
                .by_key
                .get(&(fd, socket.id.index))
                .copied();
            let key = key.ok_or(SocketError::Refused(Errno::NOENT))?;
            if let Some(Some(interest)) = hub.interests.get_mut(key as usize) {
                if (interest.events | events) & EXCLUSIVE != 0 {
                    return Err(SocketError::Refused(Errno::INVAL));
                }
                (interest.events, interest.data) = (events, data);
                interest.disarmed = false;
            }
        }
        self.look(socket, fd)
    }

    /// Takes a socket out.
    ///
    /// # Errors
    /// ENOENT if it is not in the set.
    pub fn remove(&self, socket: &Socket, fd: RawFd) -> Result<(), SocketError> {
        let mut hub = self.host.hub.enter()?;
        let key = hub
            .set(self.index)?
            .by_key
            .get(&(fd, socket.id.index))
            .copied();
        let key = key.ok_or(SocketError::Refused(Errno::NOENT))?;
        hub.remove(&self.host.arena, key);
        Ok(())
    }

    /// Puts an interest on the ready list if it is ready now, and wakes who
    /// sleeps for it.
    fn look(&self, socket: &Socket, fd: RawFd) -> Result<(), SocketError> {
        let ready = socket.readiness().bits();
        let mut hub = self.host.hub.enter()?;
        let Some(key) = hub
            .set(self.index)?
            .by_key
            .get(&(fd, socket.id.index))
            .copied()
        else {
            return Ok(());
        };
        let wanted = hub.interests.get(key as usize).and_then(Option::as_ref);
        let always = (Ready::ERR | Ready::HUP).bits();
        if wanted.is_some_and(|i| ready & (i.events | always) != 0) {
            hub.queue(key);
            hub.ring(&self.host.arena, self.index);
        }
        Ok(())
    }

    /// Whether any socket is in it.
    pub fn is_empty(&self) -> bool {
        self.host
            .hub
            .enter()
            .is_ok_and(|mut hub| hub.set(self.index).is_ok_and(|s| s.by_key.is_empty()))
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
        let mut hub = self.host.hub.enter()?;
        let hub = &mut *hub;
        let Some(Some(set)) = hub.sets.get_mut(self.index as usize) else {
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
            let Some(Some(interest)) = hub.interests.get_mut(key as usize) else {
                continue;
            };
            interest.queued = false;
            let block = self.host.arena.block(interest.id.index);
            if interest.disarmed || !(block.is(interest.id) || gone) {
                continue;
            }
            let always = Ready::ERR | Ready::HUP;
            let mut ready = readiness(block);
            if gone {
                ready |= always | Ready::IN | Ready::OUT | Ready::RDHUP;
            }
            let events = ready.bits() & (interest.events | always.bits());
            if events == 0 {
                continue;
            }
            report(Report {
                events,
                data: interest.data,
                fd: interest.fd,
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
        let Ok(mut hub) = self.host.hub.enter() else {
            return false;
        };
        let gone = self.host.is_gone();
        let hub = &mut *hub;
        let Some(Some(set)) = hub.sets.get_mut(self.index as usize) else {
            return false;
        };
        set.ready.iter().any(|key| {
            let Some(Some(interest)) = hub.interests.get(*key as usize) else {
                return false;
            };
            let block = self.host.arena.block(interest.id.index);
            let always = (Ready::ERR | Ready::HUP).bits();
            gone || (!interest.disarmed
                && block.is(interest.id)
                && readiness(block).bits() & (interest.events | always) != 0)
        })
    }

    /// Says that this thread is about to sleep on the set's eventfd. It has to
    /// look at the list once more before it does.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::Reentered`].
    pub fn declare(&self) -> Result<(), SocketError> {
        {
            let mut hub = self.host.hub.enter()?;
            let set = hub.set(self.index)?;
            set.sleepers += 1;
            if let Some(waiter) = set.waiter {
                self.host.arena.waiters()[waiter as usize].declare(Sleep::Eventfd);
            }
        }
        self.host.settle()?;
        self.host.drain()
    }

    /// Says that this thread is awake again. If others still sleep, they are
    /// woken for what comes next, and for what is left.
    pub fn awake(&self) {
        let others = {
            let Ok(mut hub) = self.host.hub.enter() else {
                return;
            };
            let Ok(set) = hub.set(self.index) else { return };
            set.sleepers = set.sleepers.saturating_sub(1);
            if let Some(waiter) = set.waiter {
                let waiter = &self.host.arena.waiters()[waiter as usize];
                if set.sleepers == 0 {
                    waiter.cancel();
                } else {
                    waiter.declare(Sleep::Eventfd);
                }
            }
            set.sleepers != 0
        };
        if others
            && self.host.drain().is_ok()
            && self.is_ready()
            && let Ok(hub) = self.host.hub.enter()
        {
            hub.ring(&self.host.arena, self.index);
        }
    }
}
