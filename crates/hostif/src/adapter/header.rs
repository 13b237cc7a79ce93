//! What the adapter says to all programs of a session.
//!
//! [`SessionHeader`], the first page of the session's memory, is borrowed of an
//! [`AdapterSession`](super::AdapterSession); the stack writes to it when a session begins and
//! ends, and when its routes change.

use super::session_meter::SessionMeter;
use crate::abi::{Loopback, ROUTE_BYTES, Route};
use crate::transport::Arena;
use longshore_ring::Waiter;
use std::sync::atomic::Ordering;

/// What all programs of a session read.
#[derive(Debug, Clone, Copy)]
pub struct SessionHeader<'a> {
    pub(super) arena: &'a Arena,
    pub(super) meter: &'a SessionMeter,
}

impl SessionHeader<'_> {
    /// The session is over: programs fail their calls when they look. Those that sleep are for
    /// the caller to wake.
    pub fn mark_closed(&self) {
        self.arena.header().closed.store(1, Ordering::Release);
        // As after a publication: who is not seen to sleep from here on finds it when it looks
        // once more.
        Waiter::fence();
        self.meter.note_words(size_of::<u32>());
    }

    /// Says which destinations are the engine's.
    pub fn publish_routes(&self, routes: &[Route], loopback: Loopback) {
        let changed = self.arena.header().routes.publish(routes, loopback);
        self.meter.note_words(changed * ROUTE_BYTES);
        // How many there are, and who has the loopback addresses.
        self.meter.note_words(2 * size_of::<u32>());
    }

    /// Says how long a packet the link takes, of IPv4 and of IPv6, and whether any path is
    /// narrower.
    pub fn publish_mtu(&self, link: [usize; 2], narrow_paths: bool) {
        self.arena.header().routes.publish_mtu(link, narrow_paths);
        self.meter.note_words(3 * size_of::<u32>());
    }

    /// Says with which congestion control new sockets begin, by its place in
    /// [`CONGESTION_NAMES`](crate::CONGESTION_NAMES).
    pub fn set_congestion(&self, place: u32) {
        let congestion = &self.arena.header().congestion;
        congestion.store(place, Ordering::Relaxed);
        self.meter.note_words(size_of::<u32>());
    }

    /// Says whether what is bound to the wildcard is bound on the engine alone.
    pub fn set_engine_alone(&self, alone: bool) {
        let word = &self.arena.header().engine_alone;
        word.store(u32::from(alone), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
