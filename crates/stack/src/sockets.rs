//! The sockets of a stack, and what is to be done for which of them: at the end of this
//! turn, at a time, when memory is free again, when a next hop has answered.
//!
//! Owns [`Sockets`]. Handlers take a socket from it by its key and put that on the lists;
//! `flush`, `memory_pressure` and the timers take the keys off them.

use crate::bulk_senders::BulkSenders;
use crate::pair_end::Pair;
use crate::sessions::Sessions;
use crate::slab::Slab;
use crate::socket::{Connection, Kind, Socket};
use crate::timers::Wheel;
use crate::unaccepted::GivenUp;
use longshore_hostif::SocketId;
use longshore_hostif::adapter::UnderWay;
use longshore_tcp::Instant;
use std::collections::VecDeque;

/// All sockets. A key names one until that is removed; afterwards another may have it, so
/// whoever keeps a key looks whether the socket is what it was kept for.
pub(crate) struct Sockets {
    pub(crate) slab: Slab<Socket>,
    /// Those to be looked at at the end of this turn.
    pub(crate) dirty: Vec<u32>,
    /// Sessions whose sockets have their turn again.
    pub(crate) waiting_sessions: VecDeque<u32>,
    /// One of them has got something of its other end in this turn, and tells of it in the next.
    pub(crate) are_yet_to_report: bool,
    /// One of them has sent more to others than a turn takes.
    pub(crate) have_more_to_pass: bool,
    /// Some may have datagrams that the host has written and that were not sent.
    pub(crate) have_datagrams: bool,
    /// Connections that are short of memory for what they receive.
    pub(crate) short_of_memory: VecDeque<u32>,
    /// Those that wait for their next hop.
    pub(crate) unresolved: Vec<u32>,
    /// Those that fill their send buffers on short paths.
    pub(crate) bulk_senders: BulkSenders,
    /// Their deadlines.
    pub(crate) wheel: Wheel<u32>,
    /// The queues of listeners that are over.
    pub(crate) given_up: GivenUp,
    /// No socket with a key below this has anything to deliver, where no session is left.
    pub(crate) delivered_below: u32,
    /// Those whose deadlines are being looked at; kept for its memory.
    pub(super) due: Vec<u32>,
}

impl Sockets {
    /// None yet; deadlines count from `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            slab: Slab::new(),
            dirty: Vec::new(),
            waiting_sessions: VecDeque::new(),
            are_yet_to_report: false,
            have_more_to_pass: false,
            have_datagrams: false,
            short_of_memory: VecDeque::new(),
            unresolved: Vec::new(),
            bulk_senders: BulkSenders::default(),
            wheel: Wheel::new(now),
            given_up: GivenUp::default(),
            delivered_below: 0,
            due: Vec::new(),
        }
    }

    /// Whether some are to be looked at in the next turn.
    #[inline]
    pub(crate) fn have_work_left(&self) -> bool {
        !self.dirty.is_empty() || !self.waiting_sessions.is_empty()
    }

    /// What is under way from one of them to another. `has_own_packets`: packets to addresses of our
    /// own are still to be taken.
    #[inline]
    pub(crate) fn under_way(&self, has_own_packets: bool) -> UnderWay {
        if !has_own_packets && !self.are_yet_to_report {
            return UnderWay::Nothing;
        }
        self.what_is_under_way(has_own_packets)
    }

    #[inline(never)]
    fn what_is_under_way(&self, has_own_packets: bool) -> UnderWay {
        if self.have_more_to_pass {
            UnderWay::Queued
        } else if has_own_packets || self.have_work_left() {
            UnderWay::Passing
        } else {
            // A process that got something in this turn has told of it in this turn, too.
            UnderWay::Nothing
        }
    }

    /// The socket of this key.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<&Socket> {
        self.slab.get(key)
    }

    /// The socket of this key, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut Socket> {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::access(self.slab.get(key).map(|socket| socket.session));
        self.slab.get_mut(key)
    }

    /// As `get_mut`, with the wheel for its deadline.
    #[inline]
    pub(crate) fn get_with_wheel(&mut self, key: u32) -> Option<(&mut Socket, &mut Wheel<u32>)> {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::access(self.slab.get(key).map(|socket| socket.session));
        Some((self.slab.get_mut(key)?, &mut self.wheel))
    }

    /// As `get_mut`, with those that fill their send buffers on short paths.
    #[inline]
    pub(crate) fn get_with_senders(&mut self, key: u32) -> Option<(&mut Socket, &mut BulkSenders)> {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::access(self.slab.get(key).map(|socket| socket.session));
        Some((self.slab.get_mut(key)?, &mut self.bulk_senders))
    }

    /// The connection of this key, to be changed.
    pub(crate) fn connection_mut(&mut self, key: u32) -> Option<&mut Connection> {
        match &mut self.get_mut(key)?.kind {
            Kind::Stream(c) => Some(c),
            _ => None,
        }
    }

    /// The end of a connection between two of our own of this key, to be changed.
    pub(crate) fn pair_mut(&mut self, key: u32) -> Option<&mut Pair> {
        match &mut self.get_mut(key)?.kind {
            Kind::Pair(p) => Some(p),
            _ => None,
        }
    }

    /// The key of the socket of a session that has this name, if it is still the same one.
    pub(crate) fn key_of(&self, sessions: &Sessions, session: u32, id: SocketId) -> Option<u32> {
        let key = sessions.get(session)?.key(id.index)?;
        (self.get(key)?.id == id).then_some(key)
    }

    /// Adds a socket; its key.
    pub(crate) fn insert(&mut self, socket: Socket) -> u32 {
        self.slab.insert(socket)
    }

    /// Takes a socket out. Its entries in the lists name nothing any more.
    pub(crate) fn remove(&mut self, key: u32) -> Option<Socket> {
        self.slab.remove(key)
    }

    /// All of them with their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Socket)> {
        self.slab.iter()
    }

    /// One more than the largest key that any has had.
    pub(crate) fn end(&self) -> u32 {
        self.slab.end()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// A listener is over, or shut down: those that wait for it are to be reset.
    pub(crate) fn give_up_waiting(&mut self, listener: u32) {
        let Some(socket) = self.get_mut(listener) else {
            return;
        };
        if let Kind::Listener(l) = &mut socket.kind {
            let (session, queue) = (socket.session, l.queue.give_up());
            self.given_up.put(session, queue);
        }
    }

    /// Puts a socket on the list of those to be looked at at the end of this turn.
    #[inline]
    pub(crate) fn touch(&mut self, key: u32) {
        if let Some(socket) = self.slab.get_mut(key)
            && !socket.dirty
        {
            socket.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Touches the other end of what another socket was touched for: what it is told in the next turn,
    /// if this one has looked at it already, is under way until then.
    pub(crate) fn touch_other_end(&mut self, key: u32) {
        self.touch(key);
        self.are_yet_to_report = true;
    }

    /// Sees to it that the wheel names the socket when it has a deadline.
    pub(crate) fn arm(&mut self, key: u32) {
        let Some(socket) = self.slab.get_mut(key) else {
            return;
        };
        socket.arm(&mut self.wheel, key);
    }

    /// Takes the keys of those whose deadline may have passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<u32> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now, &mut due);
        due
    }

    /// The first deadline, or one before it.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// Neighbors have answered or were given up: those that wait for one try again.
    pub(crate) fn retry_unresolved(&mut self) {
        for key in std::mem::take(&mut self.unresolved) {
            self.touch(key);
        }
    }
}
