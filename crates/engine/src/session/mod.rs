//! Sessions: one for each `longshore run`, with the memory it shares with its
//! programs, its processes and its sockets.
//!
//! The engine owns the arena and frees it when the session ends. `attach` opens
//! sessions and lets processes in; `processes` watches them die; `post` puts
//! completions and wakes who waits for them, `bells` has the eventfds that it rings, and
//! `owners` has what raises SIGURG and SIGIO.

mod bells;
mod owners;
mod post;
mod processes;
mod subscribers;
mod untold;

pub(crate) use subscribers::Subscribers;

use crate::attach::Peer;
use crate::attach::{Share, User};
use crate::reclaim::Reclaim;
use crate::returns::Returns;
use crate::streams::RcvSlab;
use longshore_hostif::attach::Token;
use longshore_hostif::{
    AdapterChannel, Arena, BlockFlags, ChannelState, Meter, OwnersSignal, SocketId, SocketState,
};
use longshore_ring::{Doorbell, Ringer};
use longshore_tcp::{Congestion, Instant};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use untold::Untold;

/// A process of a session.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) channel: AdapterChannel,
    /// It broke its rings: nothing is taken from it any more.
    pub(crate) is_broken: bool,
    pub(crate) pid: u32,
    /// What stands for it in the arena: its pid, or that it was introduced.
    name: u32,
    /// Readable when the process is dead. `None` if the kernel would not say.
    pub(crate) pidfd: Option<OwnedFd>,
    /// Sockets whose edges found no room in its ring.
    untold: Untold,
    /// Answers that are still to find room in it.
    pub(crate) owed: u32,
}

/// How long a channel is left alone at first whose process takes no answers, in
/// microseconds, and at the longest.
pub(crate) const SHORTEST_STALL: u64 = 200;
pub(crate) const LONGEST_STALL: u64 = 20_000;

/// The user has as many descriptors as it may have.
struct TooMany;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) token: Token,
    /// What its launcher wants for new sockets.
    pub(crate) congestion: Option<Congestion>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) rcv_slab: RcvSlab,
    pub(crate) reclaim: Reclaim,
    pub(crate) returns: Returns,
    pub(crate) processes: Vec<Option<Process>>,
    /// One more than the engine's key of each of its sockets, by the block's index; 0 where
    /// there is none, so that a page of it takes memory with its first socket.
    by_index: Vec<u32>,
    /// Wakes the engine.
    pub(crate) doorbell: Doorbell,
    /// What wakes poll sets and threads in poll.
    bells: bells::Bells,
    /// Children that their pid does not tell of, by the channel that they claim.
    introduced: HashMap<u16, Peer>,
    /// Channels with staged completions.
    staged: Vec<u16>,
    /// Channels whose requests were taken, and are given back when all that they led to is
    /// published.
    taken: Vec<u16>,
    /// Turns for which that was put off.
    taken_for: u8,
    /// Waiters to wake after the next publication.
    to_wake: Vec<u32>,
    /// Sockets whose waiters to wake after it.
    touched: Vec<u32>,
    /// What signals to the owners of sockets, by the block's index.
    owners: HashMap<u32, owners::Owner>,
    /// The same, made and not yet set.
    owners_to_be: Vec<owners::ToBe>,
    /// Sockets whose owners to signal what after the next publication.
    urged: Vec<(SocketId, OwnersSignal)>,
    /// Channels that were reserved when the house was last kept.
    reservations: Vec<processes::Reservation>,
    /// Sockets that no process holds, and that are on their way to one.
    in_transit: HashMap<u32, processes::Transit>,
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
    pub(crate) meter: Meter,
    /// Descriptors that meant nothing or asked for what is not theirs.
    pub(crate) bad_descriptors: u64,
    /// Moves of edges that were put off, since a process had not taken those before.
    pub(crate) put_off: u64,
    /// Channels that were claimed for processes of others.
    pub(crate) foreign_claims: u64,
    /// Sockets on their way that were not kept: there were too many.
    pub(crate) transit_overflows: u64,
    /// Sockets that it has on the engine.
    pub(crate) sockets: usize,
    /// Sockets that have their turn again, as their user has had its share of one.
    pub(crate) postponed: VecDeque<u32>,
    /// Its processes, or its launcher, are not all that they were: it is to be looked over.
    pub(crate) wants_care: bool,
    /// It ends, whoever still uses it.
    pub(crate) is_over: bool,
    /// Some of its processes have nothing that tells of their ends.
    pub(crate) has_unwatched: bool,
    /// When sockets on their way are looked at again.
    pub(crate) transit_at: Instant,
    /// When its sockets are closed once more, while it is about to end.
    pub(crate) wound_at: Instant,
    /// Channels whose processes take no answers, and when they are looked at again: after
    /// so many microseconds.
    pub(crate) stalled: Vec<u16>,
    pub(crate) stalled_until: Instant,
    pub(crate) stalled_for: u64,
    /// Where the next look for requests begins, in words of 64 channels.
    pub(crate) first_word: usize,
    /// All waiters are to be woken, from this one on.
    everybody_from: Option<u32>,
    /// Reservations that its programs had made when they were last looked at.
    seen_reservations: u32,
    /// A channel has become a reservation since then.
    pub(crate) has_new_reservation: bool,
    /// It was said that its receive slab is full.
    pub(crate) was_full: bool,
}

impl Session {
    pub(crate) fn new(
        token: Token,
        arena: Arc<Arena>,
        doorbell: Doorbell,
        ringer: Arc<Ringer>,
    ) -> Self {
        let g = *arena.geometry();
        Self {
            token,
            congestion: None,
            rcv_slab: RcvSlab::of(&arena),
            reclaim: Reclaim::default(),
            returns: Returns::default(),
            processes: (0..g.channels).map(|_| None).collect(),
            by_index: vec![0; g.sockets as usize],
            arena,
            doorbell,
            bells: bells::Bells::new(ringer, g.waiters),
            introduced: HashMap::new(),
            staged: Vec::new(),
            taken: Vec::new(),
            taken_for: 0,
            to_wake: Vec::new(),
            touched: Vec::new(),
            owners: HashMap::new(),
            owners_to_be: Vec::new(),
            urged: Vec::new(),
            reservations: Vec::new(),
            in_transit: HashMap::new(),
            launched: true,
            launcher: None,
            serial: 0,
            uid: 0,
            user: None,
            share: None,
            ends_by: None,
            meter: Meter::default(),
            bad_descriptors: 0,
            put_off: 0,
            foreign_claims: 0,
            transit_overflows: 0,
            sockets: 0,
            postponed: VecDeque::new(),
            wants_care: false,
            is_over: false,
            has_unwatched: false,
            transit_at: Instant(0),
            wound_at: Instant(0),
            stalled: Vec::new(),
            stalled_until: Instant::NEVER,
            stalled_for: SHORTEST_STALL,
            first_word: 0,
            everybody_from: None,
            seen_reservations: 0,
            has_new_reservation: false,
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
            if !self.owners.is_empty() {
                self.owners.remove(&id.index);
            }
        }
    }

    /// Takes a block for a connection that is handed over to its host, if one is free.
    pub(crate) fn take_block(&mut self, flags: BlockFlags) -> Option<SocketId> {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).ok().flatten()?;
        // A program that gave back what is in use harms itself: the index is
        // ours as long as our table says so.
        if self.key(index).is_some() {
            self.bad_descriptors += 1;
            return None;
        }
        let block = self.arena.get_block(index)?;
        let generation = block.begin(SocketState::Connected, flags);
        Some(SocketId { index, generation })
    }

    /// Gives the block of a socket that was not entered, or has left, back.
    pub(crate) fn give_block_back(&mut self, id: SocketId) {
        self.arena.block(id.index).set_state(SocketState::Free);
        let free = &self.arena.header().free_sockets;
        let pushed = free.push(self.arena.socket_links(), id.index);
        self.bad_descriptors += u64::from(pushed.is_err());
    }

    /// So many descriptors more for its user; `None` if those are too many.
    fn take_descriptors(&self, n: u32) -> Result<Option<Share>, TooMany> {
        match &self.user {
            Some(user) => user.take_descriptors(n).map(Some).ok_or(TooMany),
            None => Ok(None),
        }
    }

    /// Processes that live.
    pub(crate) fn living(&self) -> usize {
        self.processes.iter().flatten().count()
    }

    /// Whether a channel was seen to be reserved for a child that is being made.
    pub(crate) fn is_forking(&self) -> bool {
        !self.reservations.is_empty()
    }

    /// Whether a channel may be reserved, or a socket be on its way to another process: a
    /// look at one word, since all sessions are asked before each sleep.
    pub(crate) fn may_have_reservations(&self) -> bool {
        !self.in_transit.is_empty()
            || !self.reservations.is_empty()
            || self.has_new_reservation
            || self.arena.header().reservations.load(Ordering::Relaxed) != self.seen_reservations
    }

    /// Whether there is something to be seen to: processes that may have ended, channels
    /// that are reserved, or nobody who uses it. It is said once.
    pub(crate) fn takes_care(&mut self) -> bool {
        std::mem::take(&mut self.wants_care)
            || self.has_unwatched
            || !self.is_in_use()
            || self.may_have_reservations()
    }

    /// It is over, whoever still uses it.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
        self.launched = false;
        self.arena.header().closed.store(1, Ordering::SeqCst);
        self.everybody_from = Some(0);
    }

    /// Notes that those who wait for socket `index` are to be woken.
    pub(crate) fn wake_for(&mut self, index: u32) {
        self.touched.push(index);
    }

    /// Whether anybody may still use it: a launcher, a process, or a child that
    /// is just being made.
    pub(crate) fn is_in_use(&self) -> bool {
        if self.is_over {
            return false;
        }
        self.launched
            || self.processes.iter().any(Option::is_some)
            || (0..self.arena.geometry().channels).any(|c| {
                matches!(
                    self.arena.control(c).state(),
                    ChannelState::Reserved | ChannelState::Claimed
                )
            })
    }
}
