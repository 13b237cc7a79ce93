//! Processes come and go: adopting children of `fork`, noticing deaths, giving
//! channels back, and finding the sockets that nobody holds any more.

use super::{Process, Session};
use longshore_hostif::{AdapterChannel, ChannelState};
use longshore_tcp::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
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

/// A socket in a message, held by no process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transit {
    key: u32,
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

fn watch(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Whether a process has ended, though its parent may not have waited for it yet.
fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(fd) => {
            let at_once = Timespec::default();
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0)
        }
        Err(e) => e == Errno::SRCH,
    }
}

/// Whether a process exists, as far as can be seen.
fn lives(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

impl Session {
    /// The channel of a process that is known already.
    pub(crate) fn channel_of(&self, pid: u32) -> Option<u16> {
        let is_it = |p: &Option<Process>| p.as_ref().is_some_and(|p| p.pid == pid);
        self.processes.iter().position(is_it).map(|c| c as u16)
    }

    /// Gives a process that joins a channel with empty rings: the one it had,
    /// if it is a new image of a known process, or a free one.
    pub(crate) fn admit(&mut self, pid: u32) -> Option<u16> {
        let known = self.channel_of(pid).map(usize::from);
        let channel = match known {
            Some(channel) => {
                self.free_waiters_of(pid);
                channel
            }
            None => self.reserve()?,
        };
        let control = self.arena.control(channel as u32);
        control.reset();
        control.lost.store(0, Ordering::Relaxed);
        control.pid.store(pid, Ordering::Relaxed);
        control.set_state(ChannelState::Open);
        let pidfd = match known.and_then(|c| self.processes[c].take()) {
            Some(old) => old.pidfd,
            None => watch(pid),
        };
        let process = Process {
            channel: AdapterChannel::new(channel as u32),
            pid,
            pidfd,
        };
        self.processes[channel] = Some(process);
        Some(channel as u16)
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
        if self.processes[usize::from(channel)].is_some()
            || control.state() != ChannelState::Claimed
        {
            return None;
        }
        let pid = control.pid.load(Ordering::Acquire);
        if self.processes.iter().flatten().any(|p| p.pid == pid) {
            control.set_state(ChannelState::Reserved);
            return None;
        }
        control.set_state(ChannelState::Open);
        let process = Process {
            channel: AdapterChannel::new(u32::from(channel)),
            pid,
            pidfd: watch(pid),
        };
        self.processes[usize::from(channel)] = Some(process);
        Some(pid)
    }

    /// Channels of processes that have no descriptor to watch, and whether each
    /// is still there: for those the kernel has to be asked.
    pub(crate) fn unwatched(&self) -> impl Iterator<Item = (u16, bool)> + '_ {
        let unwatched = |p: &&Process| p.pidfd.is_none();
        self.processes
            .iter()
            .enumerate()
            .filter_map(move |(channel, p)| {
                p.as_ref()
                    .filter(unwatched)
                    .map(|p| (channel as u16, lives(p.pid)))
            })
    }

    /// Whether a living process holds socket `index`.
    pub(crate) fn is_held(&self, index: u32) -> bool {
        (0..self.arena.geometry().channels).any(|c| {
            self.arena.control(c).state() != ChannelState::Free && self.arena.holds(c, index)
        })
    }

    /// The process of `channel` is gone. Frees what it had and returns the
    /// engine's keys of the sockets that nobody holds now.
    pub(crate) fn bury(&mut self, channel: u16, now: Instant) -> Vec<u32> {
        let Some(process) = self.processes[usize::from(channel)].take() else {
            return Vec::new();
        };
        self.free_waiters_of(process.pid);
        let had = self.take_held(channel);
        let control = self.arena.control(u32::from(channel));
        control.pid.store(0, Ordering::Relaxed);
        control.set_state(ChannelState::Free);
        let orphans = self.orphans(had, now);
        if self.is_in_use() {
            orphans
        } else {
            // The last one: whatever it had taken and not yet marked, too.
            self.keys().collect()
        }
    }

    /// Whether the child for which `channel` is reserved has died before it could take it.
    fn child_has_died(&self, channel: u16) -> bool {
        let control = self.arena.control(u32::from(channel));
        control.child().is_some_and(has_ended)
    }

    /// Gives back channels that a parent reserved for a child that never came.
    /// Returns the engine's keys of the sockets that nobody holds now.
    pub(crate) fn drop_stale_reservations(&mut self, now: Instant) -> Vec<u32> {
        let known = std::mem::take(&mut self.reservations);
        let mut had = Vec::new();
        for channel in 0..self.processes.len() as u16 {
            let control = self.arena.control(u32::from(channel));
            if control.state() != ChannelState::Reserved {
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
            if now.0 - first_seen.since.0 < RESERVED_FOR && !self.child_has_died(channel) {
                self.reservations.push(first_seen);
                continue;
            }
            had.extend(self.take_held(channel));
            control.change_state(ChannelState::Reserved, ChannelState::Free);
        }
        let mut orphans = self.orphans(had, now);
        orphans.append(&mut self.lost_in_transit(now));
        orphans
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
        if !self.in_transit.iter().any(|t| t.key == key) {
            let since = now;
            self.in_transit.push(Transit { key, index, since });
        }
        true
    }

    /// The engine's keys of the sockets that were on their way for too long.
    fn lost_in_transit(&mut self, now: Instant) -> Vec<u32> {
        let mut lost = Vec::new();
        let mut list = std::mem::take(&mut self.in_transit);
        list.retain(|t| {
            let arrived = self.is_held(t.index) || self.key(t.index) != Some(t.key);
            let too_long = now.0 - t.since.0 >= IN_TRANSIT_FOR;
            if too_long && !arrived {
                lost.push(t.key);
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

    /// Those of these sockets that no process holds and none is about to get, by
    /// the engine's keys.
    fn orphans(&mut self, had: Vec<u32>, now: Instant) -> Vec<u32> {
        let mut keys = Vec::new();
        for index in had {
            if let Some(key) = self.key(index)
                && !self.is_held(index)
                && !self.note_transit(key, index, now)
            {
                keys.push(key);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use longshore_hostif::attach::Token;
    use longshore_hostif::{Arena, BlockFlags, Geometry, SocketId, SocketState};
    use longshore_ring::{Doorbell, Ringer};
    use std::sync::Arc;

    fn session() -> Session {
        let geometry = Geometry {
            channels: 64,
            waiters: 64,
            sockets: 64,
            snd_chunks: 64,
            rcv_chunks: 64,
        };
        let arena = Arc::new(Arena::create(geometry).expect("an arena"));
        let bell = Doorbell::new().expect("a doorbell");
        Session::new(Token([7; 16]), arena, bell, Arc::new(Ringer::for_one()))
    }

    /// As a parent does before it forks.
    fn reserve(session: &Session, channel: u32) {
        let control = session.arena.control(channel);
        assert!(control.change_state(ChannelState::Free, ChannelState::Reserved));
        control.reservations.fetch_add(1, Ordering::AcqRel);
    }

    #[test]
    fn a_reservation_ends_when_no_child_comes_for_long() {
        let mut session = session();
        reserve(&session, 3);
        for late in [0, RESERVED_FOR - 1] {
            session.drop_stale_reservations(Instant(1000 + late));
            assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
        }
        session.drop_stale_reservations(Instant(1000 + RESERVED_FOR));
        assert_eq!(session.arena.control(3).state(), ChannelState::Free);
        assert!(session.reservations.is_empty());
    }

    #[test]
    fn a_reservation_ends_with_the_child_that_it_is_for() {
        let mut session = session();
        reserve(&session, 3);
        let control = session.arena.control(3);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let number = control.reservations.load(Ordering::Acquire);
        // Of a reservation before this one.
        control.name_child(number - 1, child.id());
        child.kill().expect("a child to kill");
        session.drop_stale_reservations(Instant(1000));
        assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
        // Nobody has waited for it yet, and it may take a moment to die.
        session.arena.control(3).name_child(number, child.id());
        while session.arena.control(3).state() == ChannelState::Reserved {
            session.drop_stale_reservations(Instant(1000));
        }
        child.wait().expect("its end");
        // One that lives.
        reserve(&session, 3);
        let control = session.arena.control(3);
        control.name_child(number + 1, std::process::id());
        session.drop_stale_reservations(Instant(1000));
        assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
    }

    #[test]
    fn one_after_the_other_is_not_one_for_long() {
        let mut session = session();
        for i in 0..5 {
            reserve(&session, 3);
            session.drop_stale_reservations(Instant(i * RESERVED_FOR / 2));
            let control = session.arena.control(3);
            assert_eq!(control.state(), ChannelState::Reserved, "child {i}");
            control.set_state(ChannelState::Free);
        }
    }

    #[test]
    fn a_channel_claimed_for_a_child_that_has_another_becomes_a_reservation() {
        let mut session = session();
        let own = std::process::id();
        assert!(session.admit(own).is_some());
        reserve(&session, 3);
        let control = session.arena.control(3);
        control.pid.store(own, Ordering::Release);
        control.set_state(ChannelState::Claimed);
        assert_eq!(session.adopt(3), None);
        assert_eq!(session.arena.control(3).state(), ChannelState::Reserved);
    }

    #[test]
    fn a_child_that_joins_gets_the_channel_that_was_claimed_for_it() {
        let mut session = session();
        let own = std::process::id();
        reserve(&session, 3);
        let control = session.arena.control(3);
        control.pid.store(own, Ordering::Release);
        control.set_state(ChannelState::Claimed);
        session.arena.set_held(3, 5, true);
        assert_eq!(session.adopt(3), Some(own));
        assert_eq!(session.admit(own), Some(3));
        assert!(session.arena.holds(3, 5));
    }

    /// A socket of the engine's key 77 in block 5, held by the process of channel 3.
    fn held(session: &mut Session) {
        let block = session.arena.block(5);
        let generation = block.begin(SocketState::Connected, BlockFlags::empty());
        let id = SocketId {
            index: 5,
            generation,
        };
        session.enter(id, 77);
        session.arena.set_held(3, 5, true);
    }

    /// So many messages carry it.
    fn passes(session: &Session, count: u32) {
        let block = session.arena.block(5);
        block.in_transit.store(count, Ordering::Release);
    }

    #[test]
    fn what_is_on_its_way_outlives_its_holder_for_a_while() {
        let mut session = session();
        reserve(&session, 3);
        held(&mut session);
        passes(&session, 1);
        assert!(
            session.orphans(vec![5], Instant(0)).is_empty(),
            "it is held"
        );
        session.arena.set_held(3, 5, false);
        session.arena.control(3).set_state(ChannelState::Free);
        assert!(session.orphans(vec![5], Instant(1000)).is_empty());
        assert!(session.has_reservations(), "the house is to be kept");
        let late = Instant(1000 + IN_TRANSIT_FOR);
        assert!(
            session
                .drop_stale_reservations(Instant(late.0 - 1))
                .is_empty()
        );
        assert_eq!(session.drop_stale_reservations(late), [77]);
        assert!(!session.has_reservations());
    }

    #[test]
    fn what_has_arrived_is_not_on_its_way() {
        let mut session = session();
        reserve(&session, 3);
        held(&mut session);
        session.arena.set_held(3, 5, false);
        passes(&session, 1);
        assert!(session.note_transit(77, 5, Instant(0)));
        session.arena.set_held(3, 5, true);
        passes(&session, 0);
        let late = Instant(IN_TRANSIT_FOR - 1);
        assert!(session.drop_stale_reservations(late).is_empty());
        assert!(session.in_transit.is_empty());
        assert_eq!(session.orphans(vec![5], late), [0u32; 0], "it is held");
    }
}
