//! The threads that are to be woken, and waking those of them that sleep.
//!
//! Owns [`Wakeups`], a part of [`AdapterSession`]: which sockets something has happened to. The
//! loop has the threads that wait for them found and woken after it has published.

use super::channels::Channels;
use super::eventfds::{Charge, Eventfds};
use super::session_meter::SessionMeter;
use super::{AdapterSession, Subscribers};
use crate::abi::{SocketBlock, SocketId};
use crate::transport::Arena;
use longshore_ring::Sleep;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The wake-ups that a session owes, and the eventfds for them.
#[derive(Debug)]
pub struct Wakeups {
    arena: Arc<Arena>,
    pub(super) eventfds: Eventfds,
    /// Waiters to wake after the next publication, each with the socket that it was found by.
    waiters: Vec<(u32, u32)>,
    /// Sockets whose waiters to wake after it.
    sockets: Vec<u32>,
    /// All waiters are to be woken, from this one on.
    everybody_from: Option<u32>,
    /// The waiter that was picked last.
    picked: u32,
    /// The channel at which the process of each waiter was found last.
    channels: Vec<u16>,
}

/// A waiter that sleeps until something happens to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleeper {
    waiter: u32,
    /// The channel of its process.
    pub channel: u16,
}

impl Wakeups {
    pub(super) fn new(arena: &Arc<Arena>, eventfds: Eventfds) -> Self {
        Self {
            arena: Arc::clone(arena),
            eventfds,
            waiters: Vec::new(),
            sockets: Vec::new(),
            everybody_from: None,
            picked: 0,
            channels: Vec::new(),
        }
    }

    /// Notes that those that wait for socket `index` are to be woken after the next
    /// publication.
    #[inline]
    pub fn note_socket(&mut self, index: u32) {
        self.sockets.push(index);
    }

    /// Those that sleep so are to be woken for a socket.
    fn note_sleepers(&mut self, socket: SocketId, sleepers: &[Sleeper]) {
        let waiters = sleepers.iter().map(|s| (s.waiter, socket.index));
        self.waiters.extend(waiters);
    }

    /// How many sockets are noted whose waiters to wake.
    fn noted(&self) -> usize {
        self.sockets.len()
    }

    /// Only the first so many of them are.
    fn take_back(&mut self, first: usize) {
        self.sockets.truncate(first);
    }

    /// Whether anybody is to be woken, or looked for.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        !self.sockets.is_empty() || self.owes_any()
    }

    /// Whether anybody is to be woken.
    #[inline]
    pub(super) fn owes_any(&self) -> bool {
        !self.waiters.is_empty() || self.everybody_from.is_some()
    }

    /// Finds those that wait for the sockets that were noted.
    #[inline]
    pub(super) fn find_waiters(&mut self) {
        for index in &self.sockets {
            let block = self.arena.block(*index);
            if block.has_waiters() {
                Self::note_waiters(&mut self.waiters, *index, block);
                if block.unlisted_waiters.load(Ordering::Relaxed) != 0 {
                    self.everybody_from = Some(0);
                }
            }
        }
        self.sockets.clear();
    }

    #[inline(never)]
    fn note_waiters(waiters: &mut Vec<(u32, u32)>, index: u32, block: &SocketBlock) {
        waiters.extend(block.waiters().map(|waiter| (waiter, index)));
    }

    /// Notes that `waiter`, which waits for an answer about `socket`, is to be woken after the
    /// next publication.
    pub fn note_waiter(&mut self, waiter: Option<u16>, socket: SocketId) {
        let waiter = waiter.map(|waiter| (u32::from(waiter), socket.index));
        self.waiters.extend(waiter);
    }

    /// Notes that all that sleep are to be woken after the next publication.
    pub fn note_everybody(&mut self) {
        self.everybody_from = Some(0);
    }

    /// Picks `many` of the threads that sleep until something happens to socket `index`, in
    /// processes that are `among` these, each time others. `None` if so many are not known to
    /// sleep, or one alone waits for it.
    pub(super) fn pick_sleepers(
        &mut self,
        index: u32,
        among: &Subscribers,
        many: usize,
        channels: &Channels,
    ) -> Option<Vec<Sleeper>> {
        let arena = self.arena.clone();
        let block = arena.block(index);
        let are_unlisted = block.unlisted_waiters.load(Ordering::Relaxed) != 0;
        if !are_unlisted && block.waiters().nth(1).is_none() {
            return None;
        }
        let listed = block.waiters().count();
        let last = block.waiters().position(|w| w == self.picked);
        let begin = last.map_or(0, |last| last + 1);
        let in_turn = block.waiters().skip(begin).chain(block.waiters());
        let asleep = in_turn
            .take(listed)
            .filter_map(|waiter| self.sleeper(waiter, among, channels));
        let picked: Vec<_> = asleep.take(many).collect();
        self.picked = picked.last()?.waiter;
        (picked.len() == many).then_some(picked)
    }

    /// A waiter that sleeps, of a process `among` these.
    fn sleeper(
        &mut self,
        waiter: u32,
        among: &Subscribers,
        channels: &Channels,
    ) -> Option<Sleeper> {
        let word = self.arena.waiters().get(waiter as usize)?;
        let name = word.owner.load(Ordering::Relaxed);
        if !word.is_declared() || name == 0 {
            return None;
        }
        let channel = self.channel_of(waiter, name, channels)?;
        let is_among = among.contains(channel);
        is_among.then_some(Sleeper { waiter, channel })
    }

    /// The channel of the process of this name, which has this waiter. It is looked for among all
    /// of the session once, which may be many, and is there the next time.
    fn channel_of(&mut self, waiter: u32, name: u32, channels: &Channels) -> Option<u16> {
        let at = waiter as usize;
        let known = self.channels.get(at).copied();
        if let Some(known) = known.filter(|channel| self.has_name(*channel, name, channels)) {
            return Some(known);
        }
        let mut all = 0..self.arena.geometry().channels as u16;
        let found = all.find(|channel| self.has_name(*channel, name, channels))?;
        let places = &mut self.channels;
        if places.len() <= at {
            places.resize(at + 1, 0);
        }
        if let Some(known) = places.get_mut(at) {
            *known = found;
        }
        Some(found)
    }

    /// Whether the process that has this channel is the one of this name.
    fn has_name(&self, channel: u16, name: u32, channels: &Channels) -> bool {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        let control = self.arena.control(u32::from(channel));
        channels.is_open(channel) && control.pid.load(Ordering::Relaxed) == name
    }

    /// Looks at so many of those that are to be woken, and wakes those that sleep; the others
    /// remain to be woken. Says how many were looked at.
    pub(super) fn wake(&mut self, most: usize, meter: &mut SessionMeter) -> usize {
        let mut waiters = std::mem::take(&mut self.waiters);
        if waiters.len() > most {
            waiters.sort_unstable();
            waiters.dedup_by_key(|(waiter, _)| *waiter);
        }
        let some = waiters.len().min(most);
        for (waiter, index) in waiters.drain(..some) {
            self.wake_one(waiter, Some(index), meter);
        }
        self.waiters = waiters;
        let everybody = self.everybody_from;
        let Some(from) = everybody.filter(|_| self.waiters.is_empty()) else {
            return some;
        };
        let end = self.arena.claimed_waiters().len() as u32;
        let to = end.min(from.saturating_add((most - some) as u32));
        for waiter in from..to {
            self.wake_one(waiter, None, meter);
        }
        self.everybody_from = (to < end).then_some(to);
        some + to.saturating_sub(from) as usize
    }

    /// Wakes a waiter if it sleeps, which was found by the socket of block `index`, if by one.
    fn wake_one(&self, waiter: u32, index: Option<u32>, meter: &mut SessionMeter) {
        let Some(word) = self.arena.waiters().get(waiter as usize) else {
            meter.note_bad_descriptor();
            return;
        };
        match word.take() {
            None => return,
            Some(Sleep::Eventfd) => self.eventfds.ring(waiter),
            Some(Sleep::Futex) => word.wake_futex(),
        }
        meter.count_wakeup(index);
    }

    /// Wakes all that sleep at once: they look for themselves what happened.
    pub(super) fn wake_everybody(&self, meter: &mut SessionMeter) {
        for waiter in 0..self.arena.claimed_waiters().len() as u32 {
            self.wake_one(waiter, None, meter);
        }
    }

    /// Has another worker wake those that sleep on the eventfd of a waiter, too, if that was
    /// made: they sleep there for what happens at any worker.
    pub fn share_eventfd(&self, waiter: u32, with: &mut Self) {
        self.eventfds.share(waiter, &mut with.eventfds);
    }

    /// Whether an eventfd of a waiter is open.
    #[must_use]
    pub fn have_eventfds(&self) -> bool {
        self.eventfds.are_any()
    }

    /// When [`close_unused_eventfds`](Self::close_unused_eventfds) is to be called at the latest,
    /// in microseconds, if it is.
    #[must_use]
    pub fn unused_eventfds_at(&self) -> Option<u64> {
        self.eventfds.unused_at()
    }

    /// Closes the eventfds of waiters that are free, some at a time, if it is time for that; says
    /// when to come again, if that is not to be left until something else is done for the session.
    /// `now` is in microseconds.
    ///
    /// Nobody sleeps on such an eventfd: a process asks for the eventfd of a waiter that it has
    /// claimed, and gives the waiter back when it uses the eventfd no more. Whoever claims it next
    /// asks for another.
    pub fn close_unused_eventfds(&mut self, now: u64) -> Option<u64> {
        let waiters = self.arena.waiters();
        let is_free = |index: u32| {
            let waiter = waiters.get(index as usize);
            waiter.is_none_or(|waiter| waiter.owner.load(Ordering::Acquire) == 0)
        };
        self.eventfds.close_unused(now, is_free)
    }

    /// Frees the waiters of the process of this name, which is gone.
    pub fn free_waiters_of(&mut self, name: u32) {
        let _ = self.free_some_waiters_of(name, 0, usize::MAX);
    }

    /// As `free_waiters_of`, of so many waiters from this one on; where to go on, if there are
    /// more.
    #[must_use]
    pub fn free_some_waiters_of(&mut self, name: u32, from: usize, most: usize) -> Option<usize> {
        let waiters = self.arena.claimed_waiters();
        let to = from.saturating_add(most);
        let some = waiters.iter().enumerate().take(to).skip(from);
        for (i, waiter) in some {
            if waiter.owner.load(Ordering::Relaxed) == name {
                self.eventfds.forget(i as u32);
                waiter.cancel();
                waiter.owner.store(0, Ordering::Release);
            }
        }
        (to < waiters.len()).then_some(to)
    }
}

impl AdapterSession {
    /// Makes the eventfd of a waiter, for the program; one that it had is closed.
    /// `charge` is asked for what one descriptor is charged to, and refuses by `None`.
    pub fn make_eventfd(
        &mut self,
        waiter: u32,
        charge: impl FnOnce() -> Option<Charge>,
    ) -> Option<BorrowedFd<'_>> {
        self.wakeups.eventfds.make(waiter, charge, &self.meter)
    }

    /// Does what tells of a socket, and wakes nobody for that, nor signals its owner: those that
    /// wait for it wait for more.
    pub fn without_waking(&mut self, tell: impl FnOnce(&mut Self)) {
        let (noted, due) = (self.wakeups.noted(), self.owners.due());
        tell(self);
        self.wakeups.take_back(noted);
        self.owners.take_back(due);
    }

    /// Those that wait for a socket are woken after the next publication, and its owner is
    /// signalled, for what was told [`without_waking`](Self::without_waking).
    pub fn wake_after_all(&mut self, socket: SocketId) {
        self.wakeups.note_socket(socket.index);
        self.owners.note_due(socket);
    }

    /// As [`wake_after_all`](Self::wake_after_all), but of those that wait for it only these are
    /// woken.
    pub fn wake_sleepers_after_all(&mut self, socket: SocketId, sleepers: &[Sleeper]) {
        self.wakeups.note_sleepers(socket, sleepers);
        self.owners.note_due(socket);
    }

    /// Picks `many` of the threads that sleep until something happens to socket `index`, in
    /// processes that are `among` these, each time others. `None` if so many are not known to
    /// sleep, or one alone waits for it.
    pub fn pick_sleepers(
        &mut self,
        index: u32,
        among: &Subscribers,
        many: usize,
    ) -> Option<Vec<Sleeper>> {
        let channels = &self.channels;
        self.wakeups.pick_sleepers(index, among, many, channels)
    }

    /// Whether somebody is still to be woken.
    #[inline]
    #[must_use]
    pub fn owes_wakeups(&self) -> bool {
        self.wakeups.owes_any() && !self.holds_completions()
    }

    /// Looks at so many of those that are to be woken, and wakes those that sleep; the others
    /// remain to be woken. Says how many were looked at.
    pub fn wake(&mut self, most: usize) -> usize {
        self.wakeups.wake(most, &mut self.meter)
    }

    /// Wakes all that sleep at once: they look for themselves what happened.
    pub fn wake_everybody(&mut self) {
        self.wakeups.wake_everybody(&mut self.meter);
    }
}

#[cfg(test)]
mod tests;
