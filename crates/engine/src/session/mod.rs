//! Sessions: one for each `longshore run`, with the memory it shares with its
//! programs, its processes and its sockets.
//!
//! What is got of its programs and put to them goes by its half of the interface
//! ([`AdapterSession`]); who its programs are is known by the host agent ([`Processes`]).
//! `attach` opens sessions and lets processes in.

use crate::attach::turns::Of;
use crate::attach::{Share, User};
use crate::reclaim::Reclaim;
use crate::returns::Returns;
use crate::stack::slab::Slab;
use longshore_hostif::adapter::{AdapterSession, Charge};
use longshore_hostif::agent::{Admitted, Ended, InTransit, Peer, Processes};
use longshore_hostif::attach::Token;
use longshore_hostif::{BlockFlags, SocketId};
use longshore_ring::Doorbell;
use longshore_tcp::{Congestion, Instant};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Threads and poll sets of one session that are woken in one turn.
const WAKEUPS_A_TURN: usize = 32;

/// How long a channel is left alone at first whose process takes no answers, in
/// microseconds, and at the longest.
pub(crate) const SHORTEST_STALL: u64 = 200;
pub(crate) const LONGEST_STALL: u64 = 20_000;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) token: Token,
    /// What its launcher wants for new sockets.
    pub(crate) congestion: Option<Congestion>,
    /// Its half of the interface.
    pub(crate) host: AdapterSession,
    pub(crate) reclaim: Reclaim,
    pub(crate) returns: Returns,
    /// Who has which channel.
    pub(crate) processes: Processes,
    /// One more than the engine's key of each of its sockets, by the block's index; 0 where
    /// there is none, so that a page of it takes memory with its first socket.
    by_index: Vec<u32>,
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
    /// Sockets that it has on the engine.
    pub(crate) sockets: usize,
    /// Sockets that have their turn again, as their user has had its share of one.
    pub(crate) postponed: VecDeque<u32>,
    /// Its processes, or its launcher, are not all that they were: it is to be looked over.
    pub(crate) wants_care: bool,
    /// It ends, whoever still uses it.
    pub(crate) is_over: bool,
    /// When its sockets are closed once more, while it is about to end.
    pub(crate) wound_at: Instant,
    /// Channels whose processes take no answers, and when they are looked at again: after
    /// so many microseconds.
    pub(crate) stalled: Vec<u16>,
    pub(crate) stalled_until: Instant,
    pub(crate) stalled_for: u64,
    /// Where the next look for requests begins, in words of 64 channels.
    pub(crate) first_word: usize,
    /// It was said that its receive slab is full.
    pub(crate) was_full: bool,
}

impl Slab<Session> {
    /// The user of a session whose share of the engine has bounds.
    #[inline]
    pub(crate) fn user_of(&self, session: u32) -> Option<&Arc<User>> {
        self.get(session)?.user.as_ref()
    }
}

impl Session {
    /// A session that user `uid` has opened.
    pub(crate) fn new(token: Token, host: AdapterSession, doorbell: Doorbell, uid: u32) -> Self {
        let g = *host.geometry();
        Self {
            token,
            congestion: None,
            reclaim: Reclaim::default(),
            returns: Returns::default(),
            processes: Processes::of(&host, uid),
            by_index: vec![0; g.sockets as usize],
            host,
            doorbell,
            in_transit: InTransit::default(),
            launched: true,
            launcher: None,
            serial: 0,
            uid,
            user: None,
            share: None,
            ends_by: None,
            sockets: 0,
            postponed: VecDeque::new(),
            wants_care: false,
            is_over: false,
            wound_at: Instant(0),
            stalled: Vec::new(),
            stalled_until: Instant::NEVER,
            stalled_for: SHORTEST_STALL,
            first_word: 0,
            was_full: false,
        }
    }

    /// The engine's key of a socket, if the block is in use on the engine.
    pub(crate) fn key(&self, index: u32) -> Option<u32> {
        self.by_index
            .get(index as usize)
            .and_then(|place| place.checked_sub(1))
    }

    /// Enters a socket; `false` if its index is taken or does not exist.
    pub(crate) fn enter(&mut self, id: SocketId, key: u32) -> bool {
        match self.by_index.get_mut(id.index as usize) {
            Some(place) if *place == 0 => {
                *place = key + 1;
                self.sockets += 1;
                true
            }
            _ => false,
        }
    }

    /// Forgets a socket.
    pub(crate) fn leave(&mut self, id: SocketId) {
        if let Some(place) = self.by_index.get_mut(id.index as usize)
            && *place != 0
        {
            *place = 0;
            self.sockets -= 1;
            self.host.forget_owner(id.index);
        }
    }

    /// Takes a block for a connection that is handed over to its host, if one is free.
    pub(crate) fn take_block(&mut self, flags: BlockFlags) -> Option<SocketId> {
        let used = &self.by_index;
        let is_used = |index: u32| used.get(index as usize).is_some_and(|place| *place != 0);
        self.host.take_block(flags, is_used)
    }

    /// Makes the eventfd of a waiter, for the program.
    pub(crate) fn make_eventfd(&mut self, waiter: u32) -> Option<BorrowedFd<'_>> {
        let user = self.user.as_ref();
        self.host.make_eventfd(waiter, || charge(user, 1))
    }

    /// Makes what raises so many signals for the owner of a socket.
    pub(crate) fn make_owner(&mut self, socket: SocketId, signals: u32) -> Vec<BorrowedFd<'_>> {
        let user = self.user.as_ref();
        self.host.make_owner(socket, signals, |n| charge(user, n))
    }

    /// Shows its programs what was put, and wakes those that sleep, as many as a turn may.
    /// Says whether others are still to be woken: they have to wait for the next turn.
    pub(crate) fn publish(&mut self, turn: u64) -> bool {
        if !self.host.publish() {
            return false;
        }
        let left = |user: &Arc<User>| user.spent.left(Of::Wakeups, turn) as usize;
        let most = self.user.as_ref().map_or(WAKEUPS_A_TURN, left);
        let woken = self.host.wake(most.min(WAKEUPS_A_TURN));
        if let Some(user) = &self.user {
            user.spent.spend(Of::Wakeups, turn, woken as u32);
        }
        self.host.owes_wakeups()
    }

    /// Gives a process that joins a channel with empty rings.
    pub(crate) fn admit(&mut self, peer: Peer) -> Option<u16> {
        let Admitted { channel, replaces } = self.processes.admit(peer)?;
        if let Some(name) = replaces {
            self.host.free_waiters_of(name);
        }
        self.host.open_channel(channel);
        Some(channel)
    }

    /// Takes on a process that has claimed `channel`; whether there is one.
    pub(crate) fn adopt(&mut self, channel: u16) -> bool {
        let adopted = !self.is_over && self.processes.adopt(channel).is_some();
        if adopted {
            self.host.open_channel(channel);
        }
        adopted
    }

    /// The process of `channel` is gone: the blocks of the sockets that it held. The channel
    /// is not free yet. `None` if there was no such process.
    pub(crate) fn take_dead(&mut self, channel: u16) -> Option<Vec<u32>> {
        let Ended { name, held } = self.processes.take_ended(channel)?;
        self.wants_care = true;
        self.host.close_channel(channel);
        self.host.free_waiters_of(name);
        if self.is_in_use() {
            return Some(held);
        }
        // The last one: whatever it had taken and not yet marked, too.
        Some(self.indices())
    }

    /// All processes are let go of: what told of their ends.
    pub(crate) fn take_all(&mut self) -> Vec<OwnedFd> {
        let all = self.processes.take_all().into_iter();
        all.filter_map(|(channel, pidfd)| {
            self.host.close_channel(channel);
            pidfd
        })
        .collect()
    }

    /// The blocks of all its sockets.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let all = self.by_index.iter().enumerate();
        all.filter(|(_, place)| **place != 0)
            .map(|(index, _)| index as u32)
            .collect()
    }

    /// Notes that a socket is on its way, if it is, and held by no process.
    pub(crate) fn note_transit(&mut self, key: u32, index: u32, now: Instant) -> bool {
        self.processes.is_in_transit(index) && self.in_transit.note(key, index, now.0)
    }

    /// The engine's keys of the sockets that were on their way for too long.
    pub(crate) fn lost_in_transit(&mut self, now: Instant) -> Vec<u32> {
        let (by_index, processes) = (&self.by_index, &self.processes);
        let has_arrived = |key: u32, index: u32| {
            by_index.get(index as usize) != Some(&(key + 1)) || processes.is_held(index)
        };
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
        std::mem::take(&mut self.wants_care)
            || self.processes.has_unwatched()
            || !self.is_in_use()
            || self.may_have_reservations()
    }

    /// It is over, whoever still uses it.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.launched = false;
        self.host.mark_closed();
        self.host.wake_everybody_later();
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
