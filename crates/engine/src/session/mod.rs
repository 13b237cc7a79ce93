//! Sessions: one for each `longshore run`, with its processes, its launcher and what the
//! loop keeps of it. `attach` opens sessions and lets processes in.
//!
//! Its sockets, and the memory that it shares with its programs, are the stack's
//! ([`Session`](longshore_stack::Session)), which has given it the key under which it
//! stands in [`Sessions`]; who its programs are is known by the host agent ([`Processes`]).

mod table;

pub(crate) use table::Sessions;

use crate::reclaim::Reclaim;
use crate::users::{Share, User, is_trusted};
use longshore_hostif::SocketId;
use longshore_hostif::adapter::{AdapterSession, Charge};
use longshore_hostif::agent::{Attached, Ended, InTransit, Peer, Processes};
use longshore_hostif::attach::Token;
use longshore_ring::Doorbell;
use longshore_stack::Session as Half;
use longshore_tcp::Instant;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How long a channel is left alone at first whose process takes no answers, in
/// microseconds, and at the longest.
pub(crate) const SHORTEST_STALL: u64 = 200;
pub(crate) const LONGEST_STALL: u64 = 20_000;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) token: Token,
    /// It was opened anew: the token is another engine's, and the launcher's word.
    pub(crate) is_renewed: bool,
    pub(crate) reclaim: Reclaim,
    /// The process of each channel.
    pub(crate) processes: Processes,
    /// Wakes the engine.
    pub(crate) doorbell: Doorbell,
    /// Sockets that no process holds, and that are on their way to one.
    pub(crate) in_transit: InTransit,
    /// The launcher's connection is open; which one.
    pub(crate) launched: bool,
    pub(crate) launcher: Option<u64>,
    /// Its number, which no other session of the engine ever has.
    pub(crate) serial: u64,
    /// The user it belongs to.
    pub(crate) uid: u32,
    /// What that one has, and this session among it. None in tests of parts.
    pub(crate) user: Option<Arc<User>>,
    pub(crate) share: Option<Share>,
    /// When what it has left to deliver is given up, once nobody uses it.
    pub(crate) ends_by: Option<Instant>,
    /// Its processes, or its launcher, are not all that they were: it is to be looked over.
    pub(crate) has_changed: bool,
    /// It is on the list of those that are looked over next time.
    pub(crate) is_listed: bool,
    /// It ends, whoever still uses it.
    pub(crate) is_over: bool,
    /// When its sockets are closed once more, while it is about to end.
    pub(crate) wound_at: Instant,
    /// Channels whose processes take no answers, and when they are looked at again: after
    /// so many microseconds.
    pub(crate) stalled: Vec<u16>,
    pub(crate) stalled_until: Instant,
    pub(crate) stalled_for: u64,
    /// The channel at which the next look for requests begins.
    pub(crate) first_channel: u16,
    /// The process of which channel may bind no port of the privileged, and in which turn that was
    /// found.
    pub(crate) unprivileged: Option<(u16, u64)>,
}

impl Session {
    /// A session that user `uid` has opened, whose half of the interface is `host`.
    pub(crate) fn new(token: Token, host: &AdapterSession, doorbell: Doorbell, uid: u32) -> Self {
        Self {
            token,
            is_renewed: false,
            reclaim: Reclaim::default(),
            processes: Processes::of(host, uid),
            doorbell,
            in_transit: InTransit::default(),
            launched: true,
            launcher: None,
            serial: 0,
            uid,
            user: None,
            share: None,
            ends_by: None,
            has_changed: false,
            is_listed: false,
            is_over: false,
            wound_at: Instant(0),
            stalled: Vec::new(),
            stalled_until: Instant::NEVER,
            stalled_for: SHORTEST_STALL,
            first_channel: 0,
            unprivileged: None,
        }
    }

    /// Whether all processes that know its token may join it, whoever they are by now. So it is if
    /// this engine has made the token, which only the launcher knows. By a token of the
    /// engine before any user can have opened a session anew: that is for all if they could
    /// not keep anything from its user anyway, and otherwise for its user's processes.
    pub(crate) fn is_for_all(&self) -> bool {
        !self.is_renewed || is_trusted(self.uid)
    }

    /// Whether `other` cannot be there beside this one. Two users may have opened
    /// sessions anew by one token: whoever comes first keeps nobody out.
    pub(crate) fn excludes(&self, other: &Self) -> bool {
        let both_are_renewed = self.is_renewed && other.is_renewed;
        self.token == other.token && !self.is_over && (self.uid == other.uid || !both_are_renewed)
    }

    /// Makes the eventfd of a waiter, for the program.
    pub(crate) fn make_eventfd<'h>(
        &self,
        half: &'h mut Half,
        waiter: u32,
    ) -> Option<BorrowedFd<'h>> {
        let user = self.user.as_ref();
        half.host.make_eventfd(waiter, || charge(user, 1))
    }

    /// Makes what raises so many signals for the owner of a socket.
    pub(crate) fn make_owner<'h>(
        &self,
        half: &'h mut Half,
        socket: SocketId,
        signals: u32,
    ) -> Vec<BorrowedFd<'h>> {
        let user = self.user.as_ref();
        half.host
            .owners()
            .make(socket, signals, |n| charge(user, n))
    }

    /// Gives a process that joins a channel with empty rings.
    pub(crate) fn attach(&mut self, half: &mut Half, peer: Peer) -> Option<u16> {
        let Attached { channel, replaces } = self.processes.attach(peer)?;
        if let Some(name) = replaces {
            half.host.wakeups.free_waiters_of(name);
        }
        half.host.open_channel(channel);
        Some(channel)
    }

    /// Takes on a process that has claimed `channel`; whether there is one.
    pub(crate) fn take_claimed(&mut self, half: &mut Half, channel: u16) -> bool {
        let is_taken = !self.is_over && self.processes.take_claimed(channel).is_some();
        if is_taken {
            half.host.open_channel(channel);
        }
        is_taken
    }

    /// The process of `channel` is gone: what it was, and the blocks of the sockets that it
    /// held. The channel is not free yet, nor are its waiters. `None` if there was no such
    /// process.
    pub(crate) fn take_dead(&mut self, half: &mut Half, channel: u16) -> Option<Ended> {
        let ended = self.processes.take_ended(channel)?;
        self.has_changed = true;
        half.host.close_channel(channel);
        Some(ended)
    }

    /// All processes are released: the descriptors that report their ends.
    pub(crate) fn take_all(&mut self, half: &mut Half) -> Vec<OwnedFd> {
        let all = self.processes.take_all().into_iter();
        all.filter_map(|(channel, pidfd)| {
            half.host.close_channel(channel);
            pidfd
        })
        .collect()
    }

    /// Notes that a socket is on its way, if it is, and held by no process.
    pub(crate) fn note_transit(&mut self, key: u32, index: u32, now: Instant) -> bool {
        self.processes.is_in_transit(index) && self.in_transit.note(key, index, now.0)
    }

    /// The keys of the sockets that were on their way for too long.
    pub(crate) fn lost_in_transit(&mut self, half: &Half, now: Instant) -> Vec<u32> {
        let processes = &self.processes;
        let has_arrived =
            |key: u32, index: u32| half.key(index) != Some(key) || processes.is_held(index);
        self.in_transit.take_lost(now.0, has_arrived)
    }

    /// Whether a channel may be reserved, or a socket be on its way to another process: a
    /// look at one word, since all sessions are asked before each sleep.
    pub(crate) fn may_have_reservations(&self) -> bool {
        !self.in_transit.is_empty() || self.processes.may_have_reservations()
    }

    /// Whether there is something to be seen to: processes that may have ended, channels
    /// that are reserved, or nobody who uses it. It is said once.
    pub(crate) fn takes_care(&mut self) -> bool {
        let wants_care = self.wants_care();
        self.has_changed = false;
        wants_care
    }

    /// As `takes_care`, which may be asked again.
    pub(crate) fn wants_care(&self) -> bool {
        self.has_changed
            || self.processes.has_unwatched()
            || !self.is_in_use()
            || self.may_have_reservations()
    }

    /// It is over, whoever still uses it.
    pub(crate) fn end(&mut self, half: &mut Half) {
        self.is_over = true;
        self.launched = false;
        half.end();
    }

    /// Whether anybody may still use it: a launcher, a process, or a child that
    /// is just being made.
    pub(crate) fn is_in_use(&self) -> bool {
        !self.is_over && (self.launched || self.processes.are_any())
    }
}

/// So many descriptors are charged to a user; `None` if it has as many as it may.
fn charge(user: Option<&Arc<User>>, n: u32) -> Option<Charge> {
    let Some(user) = user else {
        return Some(None);
    };
    let share = user.take_descriptors(n)?;
    Some(Some(Box::new(share)))
}

#[cfg(test)]
mod tests;
