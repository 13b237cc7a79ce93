//! The host's end of a channel: puts requests into the rings of the worker that has the socket,
//! gets completions from those of all.
//!
//! Owns [`HostChannel`], which the host library has one of for each process, behind its lock;
//! `rings` has what is done at each worker.

use super::rings::HostRings;
use crate::abi::{Completion, Hurry, Request, SocketId};
use crate::transport::{Arena, PutError};
use longshore_ring::{Corrupt, Doorbell};
use std::sync::Arc;

/// The host's end: puts requests, gets completions.
#[derive(Debug)]
pub struct HostChannel {
    arena: Arc<Arena>,
    index: u32,
    /// Its rings at the first worker, which is the only one as a rule.
    first: HostRings,
    further: Box<[HostRings]>,
    /// What wakes the further workers, in their order.
    doorbells: Arc<[Doorbell]>,
    /// The workers, a bit for each, at which requests were published that they were not told to
    /// fetch now; kept where there are several.
    owed: u64,
}

impl HostChannel {
    /// The host's end of channel `index`, whose rings are empty, at the first worker.
    pub fn new(arena: Arc<Arena>, index: u32) -> Self {
        Self::at_all(arena, index, Arc::from([]))
    }

    /// As `new`, at the further workers too that these doorbells wake, in their order.
    pub(super) fn at_all(arena: Arc<Arena>, index: u32, doorbells: Arc<[Doorbell]>) -> Self {
        let at = |worker| HostRings::new(Arc::clone(&arena), index, worker);
        let end = arena.geometry().workers.min(doorbells.len() as u32 + 1);
        Self {
            first: at(0),
            further: (1..end).map(at).collect(),
            doorbells,
            owed: 0,
            index,
            arena,
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Completions that came from a worker which has not the socket that they were about, by its
    /// name. They were passed over.
    pub fn misrouted(&self) -> u64 {
        let further = self.further.iter().map(HostRings::misrouted);
        self.first.misrouted() + further.sum::<u64>()
    }

    /// The rings of the worker that has a socket.
    #[inline]
    fn rings_of(&mut self, socket: SocketId) -> Result<&mut HostRings, PutError> {
        if self.further.is_empty() {
            return Ok(&mut self.first);
        }
        self.rings_of_worker(self.arena.naming().worker(socket))
    }

    #[cold]
    fn rings_of_worker(&mut self, worker: u32) -> Result<&mut HostRings, PutError> {
        let Some(at) = worker.checked_sub(1) else {
            return Ok(&mut self.first);
        };
        let further = self.further.get_mut(at as usize);
        further.ok_or(PutError::NoWorker(worker))
    }

    /// Stages a request. It is on its way with the next `publish`. If it goes on where the
    /// newest left off, and the engine has not fetched that, it takes its place.
    ///
    /// Immediate data is copied from the chunks of the send stream, which have to have it until
    /// this returns: nobody else moves the stream's edge meanwhile. It stays behind where the
    /// ring has little room.
    ///
    /// # Errors
    /// [`PutError::Full`] if the engine has to catch up first, [`PutError::NoWorker`].
    pub fn put(&mut self, request: &Request) -> Result<(), PutError> {
        self.rings_of(request.socket())?.put(request)
    }

    /// As `put`, of a listener's edges that tell that `connection` was accepted. What its process
    /// says of the connection first says so too, in their place, if the engine has not fetched
    /// them by then.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_accepted(
        &mut self,
        request: &Request,
        connection: SocketId,
    ) -> Result<(), PutError> {
        let naming = self.arena.naming();
        // What is said of the connection elsewhere cannot say so.
        let is_elsewhere = naming.worker(connection) != naming.worker(request.socket());
        let rings = self.rings_of(request.socket())?;
        if is_elsewhere {
            return rings.put(request);
        }
        rings.put_accepted(request, connection)
    }

    /// How many requests are staged.
    pub fn staged(&self) -> u32 {
        let further = self.further.iter().map(HostRings::staged);
        self.first.staged() + further.sum::<u32>()
    }

    /// Sends what is staged, to be fetched now. If the engine sleeps and `wake`, wakes it;
    /// otherwise it sees the requests whenever it next looks. One that does not look at this
    /// session by itself (`PendingRequests::park`) is told in any case.
    pub fn publish(&mut self, doorbell: &Doorbell, wake: bool) {
        self.publish_for(Hurry::Now, doorbell, wake);
    }

    /// As `publish`, for what is in such a `hurry`.
    pub fn publish_for(&mut self, hurry: Hurry, doorbell: &Doorbell, wake: bool) {
        if self.further.is_empty() {
            return self.first.publish_for(hurry, doorbell, wake);
        }
        let owes = hurry != Hurry::Now || !wake;
        let mut owed = self.owed;
        for (worker, rings, doorbell) in self.at_each(doorbell) {
            if rings.staged() != 0 {
                rings.publish_for(hurry, doorbell, wake);
                owed |= u64::from(owes) << worker;
            }
        }
        self.owed = owed;
    }

    /// The rings at each worker, by its number, with what wakes it.
    fn at_each<'a>(
        &'a mut self,
        first: &'a Doorbell,
    ) -> impl Iterator<Item = (u32, &'a mut HostRings, &'a Doorbell)> {
        let rings = std::iter::once(&mut self.first).chain(&mut self.further);
        let doorbells = std::iter::once(first).chain(self.doorbells.iter());
        let all = rings.zip(doorbells).zip(0..);
        all.map(|((rings, doorbell), worker)| (worker, rings, doorbell))
    }

    /// Has the engine fetch now what was published for later, unless it has; wakes it if it
    /// sleeps.
    pub fn hurry(&mut self, doorbell: &Doorbell) {
        if self.further.is_empty() {
            return self.first.hurry(doorbell);
        }
        let owed = std::mem::take(&mut self.owed);
        for (worker, rings, doorbell) in self.at_each(doorbell) {
            // The others are not to be woken for nothing.
            if rings.staged() != 0 || owed & 1 << worker != 0 {
                rings.hurry(doorbell);
            }
        }
    }

    /// Has the engine go on with what it has more to tell ([`Completion::More`]), now that
    /// there is room for it: after [`HostChannel::release`].
    pub fn ask_for_more(&mut self, doorbell: &Doorbell) {
        for (_, rings, doorbell) in self.at_each(doorbell) {
            rings.ask_for_more(doorbell);
        }
    }

    /// Makes the first worker look at this channel.
    pub fn flag(&self) {
        self.first.flag();
    }

    /// Takes the next completion. `Some(None)` is one that means nothing and
    /// was passed over. Payload that came with edges is in its chunk when these are returned.
    ///
    /// # Errors
    /// [`Corrupt`] if a ring is broken.
    #[inline]
    pub fn get(&mut self) -> Result<Option<Option<Completion>>, Corrupt> {
        match self.first.get()? {
            None if !self.further.is_empty() => self.get_further(),
            got => Ok(got),
        }
    }

    #[cold]
    fn get_further(&mut self) -> Result<Option<Option<Completion>>, Corrupt> {
        for rings in &mut self.further {
            if let Some(got) = rings.get()? {
                return Ok(Some(got));
            }
        }
        Ok(None)
    }

    /// Gives the room of all completions taken back to the engine.
    pub fn release(&mut self) {
        self.first.release();
        for rings in &mut self.further {
            rings.release();
        }
    }

    /// Whether completions wait.
    pub fn pending(&self) -> bool {
        self.first.pending() || self.further.iter().any(HostRings::pending)
    }
}

#[cfg(test)]
mod tests;
