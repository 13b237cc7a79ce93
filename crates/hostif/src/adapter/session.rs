//! The adapter's half of one session.

use super::batching::BatchedCompletions;
use super::channels::Channels;
use super::eventfds::Eventfds;
use super::memory::MemoryOf;
use super::owners::OwnerTable;
use super::pending_requests::PendingRequests;
use super::receive_slab::ReceiveSlab;
use super::send_streams::SendStreams;
use super::session_meter::SessionMeter;
use super::wakeups::Wakeups;
use crate::abi::{Agreed, Geometry};
use crate::meter::Meter;
use crate::transport::{Arena, ArenaError};
use longshore_ring::EventfdSignaler;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The adapter's half of one session, over shared memory: what the engine gets of its
/// programs and puts to them.
///
/// Its parts that callers use several of at once are public; others are borrowed by
/// [`blocks`](Self::blocks), [`header`](Self::header), [`send_slab`](Self::send_slab) and
/// [`owners`](Self::owners). Its own methods are those that more than one part takes part in.
///
/// In a turn, the engine gets requests ([`PendingRequests::has_any`] to
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
    /// What its programs write, and the files that they have handed over.
    pub send: SendStreams,
    /// The memory for what its programs read.
    pub receive: ReceiveSlab,
    /// What crossed. [`crossings`](Self::crossings) has all.
    pub meter: SessionMeter,
    /// The requests that wait, and whether the engine does.
    pub pending: PendingRequests,
    /// The ends of the channels of its processes.
    pub channels: Channels,
    /// The threads that are to be woken.
    pub wakeups: Wakeups,
    pub(super) owners: OwnerTable,
    /// Kept with fixed batching.
    pub(super) batched: Option<Box<BatchedCompletions>>,
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
            meter: SessionMeter::new(geometry.sockets),
            pending: PendingRequests::new(arena.meeting(worker), geometry.channels),
            channels: Channels::new(&arena, worker),
            batched: None,
            wakeups: Wakeups::new(&arena, Eventfds::new(signaler, geometry.waiters)),
            owners: OwnerTable::default(),
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

    /// All that crossed: descriptors and payload, and what is written beside them.
    #[must_use]
    pub fn crossings(&self) -> Meter {
        self.meter.total(self.receive.entries_written())
    }

    /// Its memory, to be looked at as long as it is there.
    #[must_use]
    pub fn memory(&self) -> MemoryOf {
        MemoryOf::of(&self.arena)
    }

    /// What a program maps to have the session's memory.
    #[must_use]
    pub fn memory_fd(&self) -> BorrowedFd<'_> {
        self.arena.as_ref().as_fd()
    }

    /// What both halves share.
    pub(crate) fn shared(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Whether a free chunk of either slab takes memory.
    #[must_use]
    pub fn has_warm_chunks(&self) -> bool {
        self.receive.warm() != 0 || self.send_slab().has_warm()
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
