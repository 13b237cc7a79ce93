//! Processes come and go: adopting children of `fork`, noticing deaths, giving
//! channels back, and finding the sockets that nobody holds any more.

use super::untold::Untold;
use super::{Process, Session};
use crate::attach::Peer;
use longshore_hostif::{AdapterChannel, ChannelState, INTRODUCED};
use longshore_tcp::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// How long a parent's reservation waits for the child, in microseconds: the
/// time that a child may be held up between its `fork` and the first thing that
/// it does.
const RESERVED_FOR: u64 = 10_000_000;

/// How long a socket that no process holds stays open because its descriptor is
/// in a message that nobody has received yet, in microseconds. The message may
/// never be: that cannot be known here.
const IN_TRANSIT_FOR: u64 = 60_000_000;

/// Reservations that are given up in one look: each may hold all sockets.
const DROPPED_AT_ONCE: usize = 8;

/// How often sockets on their way are looked at, in microseconds.
const TRANSIT_EVERY: u64 = 100_000;

/// Sockets that may be on their way at once, in one session.
const MOST_IN_TRANSIT: usize = 4096;

/// A socket in a message, held by no process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transit {
    index: u32,
    since: Instant,
}

/// A channel that a parent keeps for its child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reservation {
    channel: u16,
    /// Which of the channel's reservations it is.
    stamp: u32,
    /// When the engine first saw it.
    since: Instant,
}

/// The real and effective users of a process.
fn users_of(pid: u32) -> Option<[u32; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = line.split_whitespace().map_while(|id| id.parse().ok());
    Some([ids.next()?, ids.next()?])
}

/// What is readable once a process has ended.
///
/// # Errors
/// ESRCH if there is none, EINVAL if the number is none of a process; the kernel's.
fn watch(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(Errno::INVAL)?, PidfdFlags::empty())
}

/// Whether a process is known to have ended, though its parent may not have waited for it
/// yet.
fn has_ended(pid: u32) -> bool {
    match watch(pid) {
        Ok(fd) => tells_of_an_end(&fd),
        Err(e) => matches!(e, Errno::SRCH | Errno::INVAL),
    }
}

/// Whether the process of this descriptor has ended.
fn tells_of_an_end(pidfd: &OwnedFd) -> bool {
    let at_once = Timespec::default();
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0)
}

impl Session {
    /// The channel of a process that is known already.
    pub(crate) fn channel_of(&self, pid: u32) -> Option<u16> {
        // Those that cannot be seen are not told apart by it.
        let is_it = |p: &Option<Process>| p.as_ref().is_some_and(|p| p.pid == pid && pid != 0);
        self.processes.iter().position(is_it).map(|c| c as u16)
    }

    /// Gives a process that joins a channel with empty rings: the one it had,
    /// if it is a new image of a known process, or a free one.
    pub(crate) fn admit(&mut self, peer: Peer) -> Option<u16> {
        let pid = peer.pid;
        let known = self.channel_of(pid).map(usize::from);
        let channel = match known {
            Some(channel) => {
                self.free_waiters_of(self.processes[channel].as_ref().map_or(pid, |p| p.name));
                channel
            }
            None => self.reserve()?,
        };
        let control = self.arena.control(channel as u32);
        control.reset();
        let name = if pid == 0 {
            INTRODUCED | channel as u32
        } else {
            pid
        };
        control.pid.store(name, Ordering::Relaxed);
        control.set_state(ChannelState::Open);
        let pidfd = match known.and_then(|c| self.processes[c].take()) {
            Some(old) => old.pidfd,
            None => peer.pidfd,
        };
        self.has_unwatched |= pidfd.is_none();
        let process = Process {
            channel: AdapterChannel::new(channel as u32),
            is_broken: false,
            pid,
            name,
            pidfd,
            untold: Untold::default(),
            owed: 0,
        };
        self.processes[channel] = Some(process);
        Some(channel as u16)
    }

    /// Whoever claims `channel` is this process; says whether there is such a channel.
    pub(crate) fn introduce(&mut self, channel: u32, peer: Peer) -> bool {
        match u16::try_from(channel) {
            Ok(channel) if usize::from(channel) < self.processes.len() => {
                self.introduced.insert(channel, peer);
                true
            }
            _ => {
                self.bad_descriptors += 1;
                false
            }
        }
    }

    /// Whether a process may be of this session, which a word in memory says: it is of the
    /// user to whom the session belongs. What root has started may have become any user's.
    /// Otherwise a program could have its session, and what that holds, last as long as
    /// somebody else's process.
    fn may_be_ours(&self, pid: u32) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.uid == 0
            || (self.uid == own && own == 0)
            || users_of(pid).is_some_and(|users| users.contains(&self.uid))
    }

    /// The process that claims `channel` under `name`: its pid, and what tells of its
    /// death. `None` if it has not been introduced as it should be.
    fn claimant(&mut self, channel: u16, name: u32) -> Option<(u32, Option<OwnedFd>)> {
        if name & INTRODUCED == 0 {
            // The descriptor first: so it is of the process that is looked at.
            let pidfd = watch(name).ok();
            return self.may_be_ours(name).then_some((name, pidfd));
        }
        if name != INTRODUCED | u32::from(channel) {
            return None;
        }
        let peer = self.introduced.remove(&channel)?;
        Some((peer.pid, peer.pidfd))
    }

    fn reserve(&self) -> Option<usize> {
        (0..self.processes.len()).find(|c| {
            let control = self.arena.control(*c as u32);
            let free = self.processes[*c].is_none()
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
    /// parent did. `None` if the channel is not claimed, or if the child was
    /// quicker than its parent and has another: then this one holds what is in
    /// it for a while as a reservation does, until the child has found it.
    pub(crate) fn adopt(&mut self, channel: u16) -> Option<u32> {
        let control = self.arena.control(u32::from(channel));
        if self.is_over
            || self.processes[usize::from(channel)].is_some()
            || control.state() != ChannelState::Claimed
        {
            return None;
        }
        let name = control.pid.load(Ordering::Acquire);
        let Some((pid, pidfd)) = self.claimant(channel, name) else {
            if name & INTRODUCED == 0 {
                self.bad_descriptors += 1;
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
        let process = Process {
            channel: AdapterChannel::new(u32::from(channel)),
            is_broken: false,
            pid,
            name,
            pidfd,
            untold: Untold::default(),
            owed: 0,
        };
        self.processes[usize::from(channel)] = Some(process);
        Some(pid)
    }

    /// Channels of processes that have ended without a descriptor to tell of it: for
    /// those that have none the kernel has to be asked.
    pub(crate) fn ended_unwatched(&self) -> impl Iterator<Item = u16> + '_ {
        self.channels_where(|p| p.pidfd.is_none() && has_ended(p.pid))
    }

    /// Channels that a child has claimed and nobody has seen yet.
    pub(crate) fn claimed(&self) -> Vec<u16> {
        let is_claimed = |c: &usize| {
            self.processes[*c].is_none()
                && self.arena.control(*c as u32).state() == ChannelState::Claimed
        };
        let all = 0..self.processes.len();
        all.filter(is_claimed).map(|c| c as u16).collect()
    }

    fn channels_where(&self, is: impl Fn(&Process) -> bool) -> impl Iterator<Item = u16> {
        let all = self.processes.iter().enumerate();
        let such = all.filter(move |(_, p)| p.as_ref().is_some_and(&is));
        such.map(|(channel, _)| channel as u16)
    }

    /// Whether a living process holds socket `index`.
    pub(crate) fn is_held(&self, index: u32) -> bool {
        (0..self.arena.geometry().channels).any(|c| {
            self.arena.control(c).state() != ChannelState::Free && self.arena.holds(c, index)
        })
    }

    /// The process of `channel` is gone: the blocks of the sockets that it held. The channel
    /// is not free yet. `None` if there was no such process.
    pub(crate) fn take_dead(&mut self, channel: u16) -> Option<Vec<u32>> {
        let process = self.processes[usize::from(channel)].take()?;
        self.wants_care = true;
        self.free_waiters_of(process.name);
        let held = self.take_held(channel);
        if self.is_in_use() {
            return Some(held);
        }
        // The last one: whatever it had taken and not yet marked, too.
        Some(self.indices())
    }

    /// The blocks of all its sockets.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let all = self.by_index.iter().enumerate();
        all.filter(|(_, place)| **place != 0)
            .map(|(index, _)| index as u32)
            .collect()
    }

    /// Whether the child for which `channel` is reserved needs it no more: it has another and
    /// all that it inherited in it, or it has died.
    fn child_needs_none(&self, channel: u16) -> bool {
        let settled = |pid| {
            let other = self.channel_of(pid).map(u32::from);
            other.is_some_and(|other| self.arena.control(other).is_settled())
        };
        let child = self.arena.control(u32::from(channel)).child();
        child.is_some_and(|pid| settled(pid) || has_ended(pid))
    }

    /// Gives back channels that a parent reserved for a child that never came, or that
    /// somebody claimed of whom the engine does not hear, a few at a time. Returns the
    /// blocks of the sockets that were held by them.
    pub(crate) fn drop_stale_reservations(&mut self, now: Instant) -> Vec<u32> {
        // Before the look: one that is made after it counts again.
        self.seen_reservations = self.arena.header().reservations.load(Ordering::Acquire);
        self.has_new_reservation = false;
        let known = std::mem::take(&mut self.reservations);
        let (mut had, mut dropped) = (Vec::new(), 0);
        for channel in 0..self.processes.len() as u16 {
            let control = self.arena.control(u32::from(channel));
            let state = control.state();
            let is_kept = matches!(state, ChannelState::Reserved | ChannelState::Claimed);
            if !is_kept || self.processes[usize::from(channel)].is_some() {
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
            let may_come = now.0 - first_seen.since.0 < RESERVED_FOR;
            if dropped == DROPPED_AT_ONCE || (may_come && !self.child_needs_none(channel)) {
                self.reservations.push(first_seen);
                continue;
            }
            dropped += 1;
            had.extend(self.take_held(channel));
            control.change_state(state, ChannelState::Free);
        }
        had.sort_unstable();
        had.dedup();
        had
    }

    /// Notes that a socket is on its way, if it is, and held by no process.
    pub(crate) fn note_transit(&mut self, key: u32, index: u32, now: Instant) -> bool {
        let on_its_way = self
            .arena
            .get_block(index)
            .is_some_and(|b| b.in_transit.load(Ordering::Acquire) != 0);
        if !on_its_way || self.is_held(index) {
            return false;
        }
        if self.in_transit.len() >= MOST_IN_TRANSIT && !self.in_transit.contains_key(&key) {
            self.transit_overflows += 1;
            return false;
        }
        let since = now;
        self.in_transit
            .entry(key)
            .or_insert(Transit { index, since });
        true
    }

    /// The engine's keys of the sockets that were on their way for too long.
    pub(crate) fn lost_in_transit(&mut self, now: Instant) -> Vec<u32> {
        let mut lost = Vec::new();
        if now < self.transit_at {
            return lost;
        }
        self.transit_at = Instant(now.0 + TRANSIT_EVERY);
        let mut list = std::mem::take(&mut self.in_transit);
        list.retain(|key, t| {
            let arrived = self.key(t.index) != Some(*key) || self.is_held(t.index);
            let too_long = now.0 - t.since.0 >= IN_TRANSIT_FOR;
            if too_long && !arrived {
                lost.push(*key);
            }
            !arrived && !too_long
        });
        self.in_transit = list;
        lost
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

#[cfg(test)]
mod tests;
