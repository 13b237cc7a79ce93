//! The adapter's half of one session.

use super::batching::Batches;
use super::channels::Channels;
use super::eventfds::Eventfds;
use super::owners::Owners;
use super::receive_slab::ReceiveSlab;
use super::send_streams::SendStreams;
use super::socket_meters::SocketMeters;
use super::wakeups::Wakeups;
use super::words::Words;
use crate::abi::{Agreed, Geometry};
use crate::meter::Meter;
use crate::transport::{Arena, ArenaError, Meeting};
use longshore_ring::EventfdSignaler;
use std::sync::Arc;

/// The adapter's half of one session, over shared memory: what the engine gets of its
/// programs and puts to them.
///
/// In a turn, the engine gets requests ([`has_requests`](Self::has_requests) to
/// [`next_request`](Self::next_request)), reads payload of [`send`](Self::send), places
/// payload in streams that take their chunks of [`receive`](Self::receive), and puts
/// completions ([`put_answer`](Self::put_answer), [`put_edges`](Self::put_edges)). At its end
/// it shows all of them to the programs and wakes those that sleep
/// ([`publish`](Self::publish), [`wake`](Self::wake)), and then gives the places of the
/// requests back ([`release_requests`](Self::release_requests)).
#[derive(Debug)]
pub struct AdapterSession {
    pub(super) arena: Arc<Arena>,
    /// Which of the engine's workers has it.
    pub(super) worker: u32,
    /// By what programs and this worker find each other.
    pub(super) meeting: Meeting,
    /// What its programs write.
    pub send: SendStreams,
    /// The memory for what its programs read.
    pub receive: ReceiveSlab,
    /// Descriptors, payload and wake-ups that crossed. [`crossings`](Self::crossings) has all.
    pub meter: Meter,
    pub(super) words: Words,
    pub(super) by_socket: SocketMeters,
    /// Times that the doorbell rang since a request was taken.
    pub(super) doorbells: u64,
    /// Descriptors that meant nothing or asked for what is not theirs.
    pub bad_descriptors: u64,
    /// Requests about sockets that another worker has, by their names, or none.
    pub(super) misrouted: u64,
    pub(super) channels: Channels,
    /// Kept with fixed batching.
    pub(super) batches: Option<Box<Batches>>,
    pub(super) wakeups: Wakeups,
    pub(super) owners: Owners,
}

impl AdapterSession {
    /// Makes a session for programs of this release, and its half of it. `signaler` rings the
    /// eventfds of its programs.
    ///
    /// # Errors
    /// [`ArenaError`], if the geometry is bad or the kernel has no memory.
    pub fn create(geometry: Geometry, signaler: Arc<EventfdSignaler>) -> Result<Self, ArenaError> {
        let arena = Arena::create(geometry)?;
        Ok(Self::new(Arc::new(arena), signaler))
    }

    /// As `create`, for programs that speak what was `agreed`.
    ///
    /// # Errors
    /// As [`AdapterSession::create`].
    pub fn create_for(
        geometry: Geometry,
        agreed: Agreed,
        signaler: Arc<EventfdSignaler>,
    ) -> Result<Self, ArenaError> {
        let arena = Arena::create_for(geometry, agreed)?;
        Ok(Self::new(Arc::new(arena), signaler))
    }

    /// The half of a session whose memory nobody uses yet.
    #[must_use]
    pub fn new(arena: Arc<Arena>, signaler: Arc<EventfdSignaler>) -> Self {
        Self::at(0, arena, signaler)
    }

    /// The half that a further worker has of this session: `None` if the session has no such
    /// worker. Each has rings, pending words and a part of the receive slab of its own; what is
    /// said to all programs, the first one says.
    #[must_use]
    pub fn for_worker(&self, worker: u32, signaler: Arc<EventfdSignaler>) -> Option<Self> {
        let is_further = (1..self.geometry().workers).contains(&worker);
        is_further.then(|| Self::at(worker, Arc::clone(&self.arena), signaler))
    }

    fn at(worker: u32, arena: Arc<Arena>, signaler: Arc<EventfdSignaler>) -> Self {
        let geometry = *arena.geometry();
        Self {
            send: SendStreams::of(&arena),
            receive: ReceiveSlab::of(&arena, worker),
            worker,
            meeting: arena.meeting(worker),
            meter: Meter::default(),
            words: Words::default(),
            by_socket: SocketMeters::new(geometry.sockets),
            doorbells: 0,
            bad_descriptors: 0,
            misrouted: 0,
            channels: Channels::new(geometry.channels),
            batches: None,
            wakeups: Wakeups::new(Eventfds::new(signaler, geometry.waiters)),
            owners: Owners::default(),
            arena,
        }
    }

    /// How many of each thing it may have.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.arena.geometry()
    }

    /// What it and its programs speak.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        self.arena.agreed()
    }

    /// The worker that has this half.
    #[must_use]
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// Requests that were about a socket which another worker has, by its name, or none.
    #[must_use]
    pub fn misrouted(&self) -> u64 {
        self.misrouted
    }

    /// The number of a channel's rings at this worker.
    pub(super) fn ring(&self, channel: u16) -> u32 {
        self.geometry().ring(u32::from(channel), self.worker)
    }

    /// By what programs and this worker find each other.
    #[cfg(test)]
    pub(crate) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Its memory.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }
}

#[cfg(test)]
pub(super) fn small() -> AdapterSession {
    AdapterSession::create(Geometry::SMALL, Arc::new(EventfdSignaler::for_one())).unwrap()
}
