//! The host's end of a channel: puts requests, gets completions.

use crate::abi::{Completion, Request};
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
}

impl HostChannel {
    /// The host's end of channel `index`, whose rings are empty.
    pub fn new(arena: Arc<Arena>, index: u32) -> Self {
        Self {
            arena,
            index,
            requests: Producer::new(),
            completions: Consumer::new(),
        }
    }

    /// Its index.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Stages a request. It is on its way with the next `publish`.
    ///
    /// # Errors
    /// [`PutError::Full`] if the engine has to catch up first.
    pub fn put(&mut self, request: &Request) -> Result<(), PutError> {
        let ring = &self.arena.control(self.index).requests;
        staged(self.requests.stage(
            ring,
            self.arena.request_slots(self.index),
            &request.encode(),
        ))
    }

    /// How many requests are staged.
    pub fn staged(&self) -> u32 {
        self.requests.staged()
    }

    /// Sends what is staged. If the engine sleeps and `wake`, wakes it; otherwise it sees the
    /// requests whenever it next looks. One that does not look at this session by itself
    /// (`AdapterSession::park`) is told in any case.
    pub fn publish(&mut self, doorbell: &Doorbell, wake: bool) {
        let control = self.arena.control(self.index);
        let any = self.requests.publish(&control.requests) != 0;
        if any {
            self.flag();
        }
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
        let pending = &self.arena.header().requests_pending;
        pending.channels[self.index as usize / 64]
            .fetch_or(1 << (self.index % 64), Ordering::AcqRel);
        pending.any.store(1, Ordering::Release);
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
