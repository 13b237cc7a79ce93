//! The host's half of a session: what a process reads and writes of the session's memory
//! beside the rings of its channel, payload, and the lists that all processes share.
//!
//! `sockets` has one for each session that it joined, and reaches blocks of sockets, waiters
//! and what the engine says to all through it alone.

use super::channel::HostChannel;
use super::under_way::RequestsUnderWay;
use super::waiters::Waiters;
use crate::abi::{Agreed, Geometry, Hurry, MAILBOX_BYTES, Routes, SocketBlock, SocketId};
use crate::transport::attach::Joined;
use crate::transport::{Arena, ArenaError, Meeting};
use longshore_ring::{Doorbell, SharedLock, Waiter};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The host's half of a session.
#[derive(Debug)]
pub struct HostSession {
    pub(super) arena: Arc<Arena>,
    /// By what the further workers of the engine are found and woken, in their order.
    further: Box<[Meeting]>,
    doorbells: Arc<[Doorbell]>,
}

impl HostSession {
    /// That of a session that a process has joined, whose engine has one worker.
    #[must_use]
    pub fn of(arena: &Arc<Arena>) -> Self {
        Self::with_doorbells(arena, Vec::new())
    }

    /// That of a session that a process has joined, with the doorbells of the further workers, in
    /// their order.
    #[must_use]
    pub fn with_doorbells(arena: &Arc<Arena>, further: Vec<Doorbell>) -> Self {
        let workers = arena.geometry().workers.min(further.len() as u32 + 1);
        Self {
            arena: arena.clone(),
            further: (1..workers).map(|worker| arena.meeting(worker)).collect(),
            doorbells: further.into(),
        }
    }

    /// This process's end of a channel, whose rings are empty.
    #[must_use]
    pub fn channel(&self, index: u32) -> HostChannel {
        HostChannel::at_all(self.arena.clone(), index, self.doorbells.clone())
    }

    /// How many workers the engine has, each with rings of its own.
    #[inline]
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.arena.geometry().workers
    }

    /// The number of the rings of a channel at a worker, by which what there is of the channel at
    /// that worker is asked for. At the first, that is the number of the channel.
    #[inline]
    #[must_use]
    pub fn ring(&self, channel: u32, worker: u32) -> u32 {
        self.geometry().ring(channel, worker)
    }

    /// The numbers of a channel's rings at all workers.
    #[inline]
    pub fn rings(&self, channel: u32) -> impl Iterator<Item = u32> {
        let geometry = *self.geometry();
        (0..geometry.workers).map(move |worker| geometry.ring(channel, worker))
    }

    /// The worker that has a socket, as its name says.
    #[inline]
    #[must_use]
    pub fn worker_of(&self, socket: SocketId) -> u32 {
        self.arena.naming().worker(socket)
    }

    /// The worker at which a process opens its sockets: the same for all of them, and for each
    /// process another.
    #[must_use]
    pub fn worker_for(&self, channel: u32) -> u32 {
        channel % self.workers()
    }

    /// What both sides speak, and so what the adapter can do.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        self.arena.agreed()
    }

    /// That of a session that this process has just joined, with its end of its channel and
    /// what stays of the handshake: the connection, to be kept open, and the engine's doorbell.
    ///
    /// # Errors
    /// [`ArenaError`] if the memory is no session's of a version that we speak.
    pub fn open(joined: Joined) -> Result<(Self, HostChannel, OwnedFd, Doorbell), ArenaError> {
        let arena = Arc::new(Arena::open(joined.arena, joined.geometry)?);
        let further = joined.further_doorbells.into_iter();
        let session = Self::with_doorbells(&arena, further.map(Doorbell::from_fd).collect());
        let channel = session.channel(joined.channel);
        let doorbell = Doorbell::from_fd(joined.doorbell);
        Ok((session, channel, joined.connection, doorbell))
    }

    /// How many of each thing the session may have.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.arena.geometry()
    }

    /// The name by which the process of a channel claims waiters.
    #[must_use]
    pub fn name_of(&self, channel: u32) -> u32 {
        self.arena.control(channel).pid.load(Ordering::Relaxed)
    }

    // ---- sockets ----

    /// The block of a socket of this session.
    ///
    /// # Panics
    /// If there is none of this index.
    #[inline]
    #[must_use]
    pub fn block(&self, index: u32) -> &SocketBlock {
        self.arena.block(index)
    }

    /// The block of this index, if there is one.
    #[inline]
    #[must_use]
    pub fn get_block(&self, index: u32) -> Option<&SocketBlock> {
        self.arena.get_block(index)
    }

    /// A program holds the block of this index from now on.
    pub fn note_used(&self, index: u32) {
        let end = &self.arena.header().sockets_end;
        if end.load(Ordering::Relaxed) <= index {
            end.fetch_max(index.saturating_add(1), Ordering::AcqRel);
        }
    }

    /// The blocks that programs have ever held are these: those beyond are not touched, as to
    /// look at a page of them is to have it.
    #[must_use]
    pub fn used_blocks(&self) -> std::ops::Range<u32> {
        let end = self.arena.header().sockets_end.load(Ordering::Acquire);
        0..end.min(self.arena.geometry().sockets)
    }

    // ---- sleeping ----

    /// What threads of its processes sleep on.
    #[must_use]
    pub fn waiters(&self) -> Waiters<'_> {
        Waiters::of(&self.arena)
    }

    // ---- channels ----

    /// Held by the thread that asks the engine over the connection by which the process of
    /// this channel joined.
    #[must_use]
    pub fn asking(&self, channel: u32) -> &SharedLock {
        &self.arena.control(channel).asking
    }

    /// Copies the mailbox of a channel out, after the answer that announced it: by the number of
    /// its rings at the worker that has answered.
    #[must_use]
    pub fn read_mailbox(&self, ring: u32) -> [u8; MAILBOX_BYTES] {
        self.arena.control(ring).read_mailbox()
    }

    /// How far the requests of a ring were published, counted modulo 2^32.
    #[must_use]
    pub fn requested(&self, ring: u32) -> u32 {
        self.arena.control(ring).requested()
    }

    /// Whether the engine has handled all requests of a ring up to `number`, and
    /// published all that they led to.
    #[must_use]
    pub fn has_handled(&self, ring: u32, number: u32) -> bool {
        self.arena.control(ring).has_handled(number)
    }

    /// What its processes have sent to other sockets of the engine, or done to them.
    #[inline]
    #[must_use]
    pub fn under_way(&self) -> RequestsUnderWay<'_> {
        RequestsUnderWay::of(&self.arena)
    }

    /// Has the engine fetch now what any process has published for later; wakes it if it
    /// sleeps.
    pub fn hurry_all(&self, doorbell: &Doorbell) {
        let header = self.arena.header();
        let pending = &header.requests_pending.any;
        pending.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
        Waiter::fence();
        header.engine.wake(Some(doorbell));
        for (meeting, doorbell) in self.further.iter().zip(self.doorbells.iter()) {
            let pending = &meeting.pending().any;
            pending.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
            Waiter::fence();
            meeting.engine().wake(Some(doorbell));
        }
    }

    /// Whether there are completions in a channel that its process has not applied.
    #[inline]
    #[must_use]
    pub fn has_completions(&self, channel: u32) -> bool {
        self.arena.control(channel).has_completions()
            || (self.workers() != 1 && self.has_further_completions(channel))
    }

    #[cold]
    fn has_further_completions(&self, channel: u32) -> bool {
        let mut rings = self.rings(channel);
        rings.any(|ring| self.arena.control(ring).has_completions())
    }

    // ---- what the engine says to all ----

    /// Which destinations are the engine's.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.arena.header().routes
    }

    /// Whether what is bound to the wildcard is bound on the engine alone.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.arena.header().engine_alone.load(Ordering::Relaxed) != 0
    }

    /// The congestion control that new sockets begin with, by its place in
    /// [`CONGESTION_NAMES`](crate::CONGESTION_NAMES).
    #[must_use]
    pub fn congestion(&self) -> u32 {
        self.arena.header().congestion.load(Ordering::Relaxed)
    }

    /// Whether the session has ended in order.
    #[inline]
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.arena.header().closed.load(Ordering::Acquire) != 0
    }
}

#[cfg(test)]
mod tests;
