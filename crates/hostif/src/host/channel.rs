//! The host's end of a channel: puts requests, gets completions.

use super::coalesce::{Moved, coalesce};
use crate::abi::{Completion, Hurry, Request};
use crate::transport::{Arena, PutError, staged};
use longshore_ring::spsc::{Consumer, Producer};
use longshore_ring::{Corrupt, Doorbell, Waiter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The host's end: puts requests, gets completions.
#[derive(Debug)]
pub struct HostChannel {
    arena: Arc<Arena>,
    index: u32,
    requests: Producer,
    completions: Consumer,
    /// The newest request, if it is a move of edges.
    newest: Option<Moved>,
}

impl HostChannel {
    /// The host's end of channel `index`, whose rings are empty.
    pub fn new(arena: Arc<Arena>, index: u32) -> Self {
        Self {
            arena,
            index,
            requests: Producer::taking_back(),
            completions: Consumer::new(),
            newest: None,
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Stages a request. It is on its way with the next `publish`. If it goes on where the
    /// newest left off, and the engine has not fetched that, it takes its place.
    ///
    /// # Errors
    /// [`PutError::Full`] if the engine has to catch up first.
    pub fn put(&mut self, request: &Request) -> Result<(), PutError> {
        let ring = &self.arena.control(self.index).requests;
        let newest = self.newest.take();
        let both = newest.and_then(|newest| coalesce(&newest, request));
        let request = match &both {
            Some(both) if self.requests.take_back(ring) => both,
            _ => request,
        };
        let slots = self.arena.request_slots(self.index);
        staged(self.requests.stage(ring, slots, &request.encode()))?;
        self.newest = Moved::of(request);
        Ok(())
    }

    /// How many requests are staged.
    pub fn staged(&self) -> u32 {
        self.requests.staged()
    }

    /// Sends what is staged, to be fetched now. If the engine sleeps and `wake`, wakes it;
    /// otherwise it sees the requests whenever it next looks. One that does not look at this
    /// session by itself (`AdapterSession::park`) is told in any case.
    pub fn publish(&mut self, doorbell: &Doorbell, wake: bool) {
        self.publish_for(Hurry::Now, doorbell, wake);
    }

    /// The same for what is in such a `hurry`.
    pub fn publish_for(&mut self, hurry: Hurry, doorbell: &Doorbell, wake: bool) {
        let any = self
            .requests
            .publish(&self.arena.control(self.index).requests)
            != 0;
        if any {
            self.flag_for(hurry);
        }
        self.ring(doorbell, any, wake);
    }

    /// Has the engine fetch now what was published for later, unless it has; wakes it if it
    /// sleeps.
    pub fn hurry(&mut self, doorbell: &Doorbell) {
        let ring = &self.arena.control(self.index).requests;
        if self.requests.publish(ring) != 0 {
            self.flag();
        } else if ring.is_claimed() {
            return;
        } else {
            let pending = &self.arena.header().requests_pending;
            pending.any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
        }
        self.ring(doorbell, true, true);
    }

    fn ring(&self, doorbell: &Doorbell, any: bool, wake: bool) {
        let engine = &self.arena.header().engine;
        if wake {
            Waiter::fence();
            engine.wake(Some(doorbell));
        } else if any {
            Waiter::fence();
            engine.wake_parked(doorbell);
        }
    }

    /// Has the engine go on with what it has more to tell ([`Completion::More`]), now that
    /// there is room for it: after [`HostChannel::release`].
    pub fn ask_for_more(&mut self, doorbell: &Doorbell) {
        self.flag();
        self.publish(doorbell, true);
    }

    /// Makes the engine look at this channel.
    pub fn flag(&self) {
        self.flag_for(Hurry::Now);
    }

    fn flag_for(&self, hurry: Hurry) {
        let pending = &self.arena.header().requests_pending;
        pending.channels[self.index as usize / 64]
            .fetch_or(1 << (self.index % 64), Ordering::AcqRel);
        pending.any.fetch_or(hurry as u32, Ordering::AcqRel);
    }

    /// Takes the next completion. `Some(None)` is one that means nothing and
    /// was passed over.
    ///
    /// # Errors
    /// [`Corrupt`] if the ring is broken.
    pub fn get(&mut self) -> Result<Option<Option<Completion>>, Corrupt> {
        let ring = &self.arena.control(self.index).completions;
        let message = self
            .completions
            .take(ring, self.arena.completion_slots(self.index))?;
        Ok(message.map(|m| Completion::decode(&m).ok()))
    }

    /// Gives the room of all completions taken back to the engine.
    pub fn release(&mut self) {
        self.completions
            .release(&self.arena.control(self.index).completions);
    }

    /// Whether completions wait.
    pub fn pending(&self) -> bool {
        self.completions
            .pending(&self.arena.control(self.index).completions)
    }
}
