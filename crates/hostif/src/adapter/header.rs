//! What the adapter says to all programs of a session, and reads of what they share.
//!
//! Methods of [`AdapterSession`] over the first page of the session's memory; the engine calls them
//! when a session begins and ends, and when its routes change.

use super::AdapterSession;
use crate::abi::{Loopback, ROUTE_BYTES, Route};
use crate::transport::{Arena, ReleaseError};
use longshore_ring::Sleep;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The memory of a session, as long as it is there.
#[derive(Debug, Clone)]
pub struct MemoryOf(Weak<Arena>);

impl MemoryOf {
    /// Bytes of memory that it takes; `None` once nobody has it any more.
    #[must_use]
    pub fn in_use(&self) -> Option<u64> {
        let arena = self.0.upgrade()?;
        let stat = rustix::fs::fstat(arena.as_fd()).ok()?;
        Some(stat.st_blocks as u64 * 512)
    }

    /// Whether somebody still has it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.strong_count() != 0
    }
}

impl AdapterSession {
    /// Its memory, to be looked at as long as it is there.
    #[must_use]
    pub fn memory(&self) -> MemoryOf {
        MemoryOf(Arc::downgrade(&self.arena))
    }

    /// What a program maps to have the session's memory.
    #[must_use]
    pub fn memory_fd(&self) -> BorrowedFd<'_> {
        self.arena.as_ref().as_fd()
    }

    /// The session is over: programs fail their calls when they look.
    pub fn mark_closed(&self) {
        self.arena.header().closed.store(1, Ordering::SeqCst);
        self.words.note(size_of::<u32>());
    }

    /// Says which destinations are the engine's.
    pub fn publish_routes(&self, routes: &[Route], loopback: Loopback) {
        let told = self.arena.header().routes.publish(routes, loopback);
        self.words.note(told * ROUTE_BYTES);
        // How many there are, and who has the loopback addresses.
        self.words.note(2 * size_of::<u32>());
    }

    /// Says how long a packet the link takes, of IPv4 and of IPv6, and whether any path is
    /// narrower.
    pub fn publish_mtu(&self, link: [usize; 2], narrow_paths: bool) {
        self.arena.header().routes.publish_mtu(link, narrow_paths);
        self.words.note(3 * size_of::<u32>());
    }

    /// Says with which congestion control new sockets begin, by its place in
    /// [`CONGESTION_NAMES`](crate::CONGESTION_NAMES).
    pub fn set_congestion(&self, place: u32) {
        let congestion = &self.arena.header().congestion;
        congestion.store(place, Ordering::Relaxed);
        self.words.note(size_of::<u32>());
    }

    /// Says whether what is bound to the wildcard is bound on the engine alone.
    pub fn set_engine_alone(&self, alone: bool) {
        let word = &self.arena.header().engine_alone;
        word.store(u32::from(alone), Ordering::Relaxed);
    }

    /// The engine is about to sleep: a program that publishes requests wakes it. It looks for
    /// requests once more after this ([`still_has_requests`](Self::still_has_requests)).
    pub fn declare_asleep(&self) {
        self.meeting.engine().declare(Sleep::Eventfd);
    }

    /// The engine looks for requests of this session no more until its doorbell rings: a
    /// program that publishes some rings it, even for what can wait. `false` if there are some
    /// already, and then it must go on looking.
    #[must_use]
    pub fn park(&self) -> bool {
        let engine = self.meeting.engine();
        engine.park();
        let is_parked = !self.hurry_requests();
        if !is_parked {
            engine.cancel();
        }
        is_parked
    }

    /// The engine is awake, and looks for requests again.
    pub fn declare_awake(&self) {
        self.meeting.engine().cancel();
    }

    /// Chunks of the send slab that no socket has, by the lists that its programs keep.
    #[must_use]
    pub fn free_send_chunks(&self) -> u32 {
        let (warm, cold) = self.arena.free_snd_chunks();
        let all = self.arena.geometry().snd_chunks;
        warm.saturating_add(cold).min(all)
    }

    /// Whether a free chunk of either slab takes memory.
    #[must_use]
    pub fn has_warm_chunks(&self) -> bool {
        self.receive.warm() != 0 || self.arena.has_warm_snd_chunk()
    }

    /// Free chunks of the send slab that take memory, `most` if there are more.
    #[must_use]
    pub fn warm_send_chunks(&self, most: u32) -> u32 {
        self.arena.warm_snd_chunks(most)
    }

    /// Gives the memory of a free chunk of the send slab back to the system; says whether
    /// there was one that took some.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub fn cool_send_chunk(&self) -> Result<bool, ReleaseError> {
        self.arena.cool_snd_chunk()
    }
}

#[cfg(test)]
mod tests;
