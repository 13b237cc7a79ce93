//! Who has which channel of a session: processes come and go, children of `fork` claim
//! channels that their parents have reserved, and what the dead held is found.
//!
//! Owns [`Processes`]. What it is told by the session's memory are claims: who claims a channel
//! is checked with the kernel.

use super::process::{Life, Peer, has_ended, lives, users_of, watch};
use crate::abi::{ChannelState, REGISTERED};
use crate::adapter::AdapterSession;
use crate::transport::Arena;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long a parent's reservation waits for the child, in microseconds: the
/// time that a child may be held up between its `fork` and the first thing that
/// it does.
const RESERVED_FOR: u64 = 10_000_000;

/// Reservations that are given up in one look: each may hold all sockets.
const DROPPED_AT_ONCE: usize = 8;

/// A process of a session.
#[derive(Debug)]
struct Process {
    pid: u32,
    /// What stands for it in the arena: its pid, or that it was registered.
    name: u32,
    /// Readable when the process is dead. `None` if the kernel would not say.
    pidfd: Option<OwnedFd>,
}

/// A channel that a parent keeps for its child.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    channel: u16,
    /// Which of the channel's reservations it is.
    stamp: u32,
    /// When it was first seen, microseconds.
    since: u64,
}

/// A process that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Its channel, whose rings are empty.
    pub channel: u16,
    /// The name of the program image before it in the same process, if there was one: its
    /// waiters are free.
    pub replaces: Option<u32>,
}

/// A process that is gone. Its channel is not free yet.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// The name of its waiters.
    pub name: u32,
    /// The blocks of the sockets that it held.
    pub held: Vec<u32>,
}

/// What the kernel says of processes that nothing has told of, by their channels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unwatched {
    /// Those that have ended.
    pub ended: Vec<u16>,
    /// Those of which [`Processes::pidfd`] tells from now on.
    pub watched: Vec<u16>,
}

/// The processes of a session, by their channels.
#[derive(Debug)]
pub struct Processes {
    arena: Arc<Arena>,
    all: Vec<Option<Process>>,
    /// The user to whom the session belongs.
    uid: u32,
    /// Children that their pid does not tell of, by the channel that they claim.
    registered: HashMap<u16, Peer>,
    /// Channels that were reserved at the last look.
    reservations: Vec<Reservation>,
    /// Reservations that the session's programs had made at the last look.
    seen_reservations: u32,
    /// A channel has become a reservation since then.
    has_new_reservation: bool,
    /// Some processes have nothing that tells of their ends.
    has_unwatched: bool,
    /// Claims that cannot be.
    bad_claims: u64,
    /// Those of them for processes of other users.
    foreign_claims: u64,
}

impl Processes {
    /// The processes of a session that belongs to user `uid`: none yet.
    #[must_use]
    pub fn of(session: &AdapterSession, uid: u32) -> Self {
        Self::new(session.arena().clone(), uid)
    }

    fn new(arena: Arc<Arena>, uid: u32) -> Self {
        Self {
            all: (0..arena.geometry().channels).map(|_| None).collect(),
            arena,
            uid,
            registered: HashMap::new(),
            reservations: Vec::new(),
            seen_reservations: 0,
            has_new_reservation: false,
            has_unwatched: false,
            bad_claims: 0,
            foreign_claims: 0,
        }
    }

    fn get(&self, channel: u16) -> Option<&Process> {
        self.all.get(usize::from(channel))?.as_ref()
    }

    /// Channels that there are.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.all.len()
    }

    /// Processes that live.
    #[must_use]
    pub fn living(&self) -> usize {
        self.all.iter().flatten().count()
    }

    /// Claims that cannot be.
    #[must_use]
    pub fn bad_claims(&self) -> u64 {
        self.bad_claims
    }

    /// Claims for processes of other users.
    #[must_use]
    pub fn foreign_claims(&self) -> u64 {
        self.foreign_claims
    }

    /// Whether some processes have nothing that tells of their ends.
    #[must_use]
    pub fn has_unwatched(&self) -> bool {
        self.has_unwatched
    }

    /// The pid of the process of `channel`; 0 if it cannot be seen from here.
    #[must_use]
    pub fn pid(&self, channel: u16) -> Option<u32> {
        self.get(channel).map(|p| p.pid)
    }

    /// What is readable once the process of `channel` has ended, if the kernel has given it.
    #[must_use]
    pub fn pidfd(&self, channel: u16) -> Option<BorrowedFd<'_>> {
        self.get(channel)?.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// The channel of a process that is known already.
    #[must_use]
    pub fn channel_of(&self, pid: u32) -> Option<u16> {
        // Those that cannot be seen are not told apart by it.
        let is_it = |p: &Option<Process>| p.as_ref().is_some_and(|p| p.pid == pid && pid != 0);
        self.all.iter().position(is_it).map(|c| c as u16)
    }

    /// The pids of the processes that hold socket `index`.
    #[must_use]
    pub fn holders(&self, index: u32) -> Vec<u32> {
        let all = self.all.iter().zip(0..);
        let holds = |channel| self.arena.holds(channel, index);
        all.filter_map(|(p, channel)| Some(p.as_ref().filter(|_| holds(channel))?.pid))
            .collect()
    }

    /// Gives a process that joins a channel with empty rings: the one it had,
    /// if it is a new image of a known process, or a free one.
    pub fn attach(&mut self, peer: Peer) -> Option<Attached> {
        let pid = peer.pid;
        let known = self.channel_of(pid).map(usize::from);
        let channel = match known {
            Some(channel) => channel,
            None => self.reserve()?,
        };
        self.arena.reset_channel(channel as u32);
        let control = self.arena.control(channel as u32);
        let name = if pid == 0 {
            REGISTERED | channel as u32
        } else {
            pid
        };
        control.pid.store(name, Ordering::Relaxed);
        control.set_state(ChannelState::Open);
        let old = known.and_then(|c| self.all[c].take());
        let replaces = old.as_ref().map(|old| old.name);
        let pidfd = match old {
            Some(old) => old.pidfd,
            None => peer.pidfd,
        };
        self.has_unwatched |= pidfd.is_none();
        self.all[channel] = Some(Process { pid, name, pidfd });
        let channel = channel as u16;
        Some(Attached { channel, replaces })
    }

    /// Whoever claims `channel` is this process; says whether there is such a channel.
    pub fn register_child(&mut self, channel: u32, peer: Peer) -> bool {
        match u16::try_from(channel) {
            Ok(channel) if usize::from(channel) < self.all.len() => {
                self.registered.insert(channel, peer);
                true
            }
            _ => {
                self.bad_claims += 1;
                false
            }
        }
    }

    /// Whether a process may be of this session, which a word in memory says: it is of the
    /// user to whom the session belongs. What root has started may have become any user's.
    /// Otherwise a program could have its session, and what that holds, last as long as
    /// somebody else's process.
    fn may_be_ours(&self, pid: u32) -> bool {
        self.uid == 0 || users_of(pid).is_some_and(|users| users.contains(&self.uid))
    }

    /// The process that claims `channel` under `name`: its pid, and what tells of its
    /// death. `None` if it has not been registered as it should be.
    fn claimant(&mut self, channel: u16, name: u32) -> Option<(u32, Option<OwnedFd>)> {
        if name & REGISTERED == 0 {
            // The descriptor first: so it is of the process that is looked at.
            let pidfd = match watch(name) {
                // One that is gone keeps nothing, and what it has asked for still counts.
                Err(Errno::SRCH) => return Some((name, None)),
                watched => watched.ok(),
            };
            return self.may_be_ours(name).then_some((name, pidfd));
        }
        if name != REGISTERED | u32::from(channel) {
            return None;
        }
        let peer = self.registered.remove(&channel)?;
        Some((peer.pid, peer.pidfd))
    }

    fn reserve(&self) -> Option<usize> {
        (0..self.all.len()).find(|c| {
            let control = self.arena.control(*c as u32);
            let free = self.all[*c].is_none()
                && control.change_state(ChannelState::Free, ChannelState::Reserved);
            if free {
                self.arena
                    .held(*c as u32)
                    .iter()
                    .for_each(|w| w.store(0, Ordering::Relaxed));
            }
            free
        })
    }

    /// Takes on the child of `fork` that claimed `channel`, or for which its
    /// parent did; its pid. `None` if the channel is not claimed, or if the child was
    /// quicker than its parent and has another: then this one holds what is in
    /// it for a while as a reservation does, until the child has found it.
    pub fn take_claimed(&mut self, channel: u16) -> Option<u32> {
        let control = self.arena.control(u32::from(channel));
        if self.get(channel).is_some() || control.state() != ChannelState::Claimed {
            return None;
        }
        let name = control.pid.load(Ordering::Acquire);
        let Some((pid, pidfd)) = self.claimant(channel, name) else {
            if name & REGISTERED == 0 {
                self.bad_claims += 1;
                self.foreign_claims += 1;
                let control = self.arena.control(u32::from(channel));
                control.set_state(ChannelState::Reserved);
            }
            return None;
        };
        let control = self.arena.control(u32::from(channel));
        if self.channel_of(pid).is_some() {
            let number = control.reservations.load(Ordering::Acquire);
            control.name_child(number, pid);
            control.set_state(ChannelState::Reserved);
            // It was no reservation when those were looked at last, perhaps.
            self.has_new_reservation = true;
            return None;
        }
        control.set_state(ChannelState::Open);
        self.has_unwatched |= pidfd.is_none();
        self.all[usize::from(channel)] = Some(Process { pid, name, pidfd });
        Some(pid)
    }

    /// Whether a channel has become a reservation since those were looked at.
    #[must_use]
    pub fn has_new_reservation(&self) -> bool {
        self.has_new_reservation
    }

    /// Asks the kernel of those processes that have nothing which tells of their ends. Of those
    /// that live it may give that now: descriptors may have been scarce when they came.
    pub fn ask_after_unwatched(&mut self) -> Unwatched {
        let mut found = Unwatched::default();
        if !std::mem::take(&mut self.has_unwatched) {
            return found;
        }
        for (process, channel) in self.all.iter_mut().zip(0..) {
            let Some(process) = process.as_mut().filter(|p| p.pidfd.is_none()) else {
                continue;
            };
            match lives(process.pid) {
                Life::Over => found.ended.push(channel),
                Life::Watched(pidfd) => {
                    process.pidfd = Some(pidfd);
                    found.watched.push(channel);
                }
                Life::Unknown => self.has_unwatched = true,
            }
        }
        found
    }

    /// Channels that a child has claimed and nobody has seen yet.
    #[must_use]
    pub fn claimed(&self) -> Vec<u16> {
        let is_claimed = |c: &u16| {
            let control = self.arena.control(u32::from(*c));
            self.get(*c).is_none() && control.state() == ChannelState::Claimed
        };
        (0..self.all.len() as u16).filter(is_claimed).collect()
    }

    /// Whether a living process holds socket `index`.
    #[must_use]
    pub fn is_held(&self, index: u32) -> bool {
        (0..self.arena.geometry().channels).any(|c| {
            self.arena.control(c).state() != ChannelState::Free && self.arena.holds(c, index)
        })
    }

    /// Whether the descriptor of socket `index` is in a message on its way, and no process
    /// holds the socket.
    #[must_use]
    pub fn is_in_transit(&self, index: u32) -> bool {
        let block = self.arena.get_block(index);
        block.is_some_and(|b| b.in_transit.load(Ordering::Acquire) != 0) && !self.is_held(index)
    }

    /// Whether any process lives, or a channel is kept for one that is to come.
    #[must_use]
    pub fn are_any(&self) -> bool {
        let is_kept = |c| {
            let state = self.arena.control(c).state();
            matches!(state, ChannelState::Reserved | ChannelState::Claimed)
        };
        self.all.iter().any(Option::is_some) || (0..self.arena.geometry().channels).any(is_kept)
    }

    /// The process of `channel` is gone. `None` if there was no such process.
    pub fn take_ended(&mut self, channel: u16) -> Option<Ended> {
        let process = self.all.get_mut(usize::from(channel))?.take()?;
        Some(Ended {
            name: process.name,
            held: self.take_held(channel),
        })
    }

    /// All are let go of: what told of their ends, by their channels.
    pub fn take_all(&mut self) -> Vec<(u16, Option<OwnedFd>)> {
        let all = self.all.iter_mut().zip(0..);
        all.filter_map(|(p, channel)| Some((channel, p.take()?.pidfd)))
            .collect()
    }

    /// What the process of `channel` held is let go of: another may have the channel.
    pub fn free_channel(&self, channel: u16) {
        let control = self.arena.control(u32::from(channel));
        control.change_state(ChannelState::Open, ChannelState::Free);
    }

    /// Whether a channel was seen to be reserved for a child that is being made.
    #[must_use]
    pub fn is_forking(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Whether a channel may be reserved: a look at one word.
    #[must_use]
    pub fn may_have_reservations(&self) -> bool {
        !self.reservations.is_empty()
            || self.has_new_reservation
            || self.arena.header().reservations.load(Ordering::Relaxed) != self.seen_reservations
    }

    /// The channel of the process that is named so in the arena.
    fn channel_named(&self, name: u32) -> Option<u16> {
        if name & REGISTERED == 0 {
            return self.channel_of(name);
        }
        let is_it = |p: &Option<Process>| p.as_ref().is_some_and(|p| p.name == name);
        self.all.iter().position(is_it).map(|c| c as u16)
    }

    /// Whether the child for which `channel` is reserved needs it no more: it has another and
    /// all that it inherited in it, or it has died.
    fn child_needs_none(&self, channel: u16) -> bool {
        let Some(name) = self.arena.control(u32::from(channel)).child() else {
            return false;
        };
        match self.channel_named(name) {
            Some(own) if self.arena.control(u32::from(own)).has_inherited() => true,
            // One whose pid means nothing here has named itself after it had joined.
            own if name & REGISTERED != 0 => own.is_none(),
            _ => has_ended(name),
        }
    }

    /// Gives back channels that a parent reserved for a child that never came, or that
    /// somebody claimed of whom the engine does not hear, a few at a time, by `now`
    /// (microseconds). Returns the blocks of the sockets that were held by them.
    pub fn drop_stale_reservations(&mut self, now: u64) -> Vec<u32> {
        // Before the look: one that is made after it counts again.
        self.seen_reservations = self.arena.header().reservations.load(Ordering::Acquire);
        self.has_new_reservation = false;
        let known = std::mem::take(&mut self.reservations);
        let (mut had, mut dropped) = (Vec::new(), 0);
        for channel in 0..self.all.len() as u16 {
            let control = self.arena.control(u32::from(channel));
            let state = control.state();
            let is_kept = matches!(state, ChannelState::Reserved | ChannelState::Claimed);
            if !is_kept || self.get(channel).is_some() {
                continue;
            }
            let stamp = control.reservations.load(Ordering::Acquire);
            // The same channel may have been reserved again since we looked:
            // that is another child, and it has just begun.
            let seen = Reservation {
                channel,
                stamp,
                since: now,
            };
            let first_seen = known
                .iter()
                .copied()
                .find(|r| (r.channel, r.stamp) == (channel, stamp))
                .unwrap_or(seen);
            let may_come = now.saturating_sub(first_seen.since) < RESERVED_FOR;
            // A child that has claimed it may have ended, too, but what it has asked for before
            // is still in the channel, until that is taken on.
            let is_needed =
                may_come && (state == ChannelState::Claimed || !self.child_needs_none(channel));
            let given_up = if is_needed || dropped == DROPPED_AT_ONCE {
                None
            } else {
                self.give_up(channel, state)
            };
            match given_up {
                Some(held) => {
                    dropped += 1;
                    had.extend(held);
                }
                None => self.reservations.push(first_seen),
            }
        }
        had.sort_unstable();
        had.dedup();
        had
    }

    /// Frees a channel that no process has; gives the blocks of the sockets that were held by it.
    /// `None` if it is not in this state any more.
    fn give_up(&self, channel: u16, state: ChannelState) -> Option<Vec<u32>> {
        let control = self.arena.control(u32::from(channel));
        // Between the two, neither a child nor another parent can have it.
        let is_ours = control.change_state(state, ChannelState::Open);
        let held = is_ours.then(|| self.take_held(channel));
        if is_ours {
            control.change_state(ChannelState::Open, ChannelState::Free);
        }
        held
    }

    /// Empties a channel's bitmap of held sockets; gives what was in it.
    fn take_held(&self, channel: u16) -> Vec<u32> {
        let words = self.arena.held(u32::from(channel)).iter().enumerate();
        words
            .flat_map(|(i, word)| {
                let bits = word.swap(0, Ordering::AcqRel);
                (0..64)
                    .filter(move |b| bits & 1 << b != 0)
                    .map(move |b| i as u32 * 64 + b)
            })
            .collect()
    }
}

// They ask the kernel about processes, which Miri has none of.
#[cfg(all(test, not(miri)))]
mod tests;
