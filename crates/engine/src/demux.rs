//! Finding the socket that a packet is for.
//!
//! Connections are found by the last one found (packets come in trains, as the
//! 1989 paper measured), then by a hash of the four-tuple with a secret key;
//! listeners and datagram sockets by port and then by the most specific
//! address. The table names sockets by the engine's keys and owns nothing else.

mod flow;
mod ports;

pub(crate) use flow::Flow;
pub(crate) use ports::{Ports, Reuse};

use crate::timers::Alarm;
use flow::Keyed;
use longshore_tcp::TimeWait;
use longshore_wire::tcp4::{Flow4, Known4};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// A connection in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) record: TimeWait,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// When that is to be looked at.
    pub(crate) alarm: Alarm,
}

/// What a flow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The socket of this key.
    Socket(u32),
    /// A record in TIME-WAIT.
    TimeWait,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Demux {
    flows: HashMap<Flow, u32, Keyed>,
    waiting: HashMap<Flow, Waiting, Keyed>,
    last: Option<(Flow, u32)>,
    /// The last one too, as it stands in its segments, with its key.
    last4: (Flow4, u32),
    /// The headers of the last segment of IPv4 that belonged to a connection, and the
    /// key of that.
    known: (Known4, u32),
    secret: RandomState,
    /// TCP ports.
    pub(crate) tcp: Ports,
    /// UDP ports.
    pub(crate) udp: Ports,
    /// Segments whose connection was not that of the one before.
    pub(crate) cache_misses: u64,
}

/// In [`Demux::last4`], beside the flow that no segment of a connection has: no socket
/// has this key.
const NO_KEY: u32 = u32::MAX;

impl Demux {
    pub(crate) fn new() -> Self {
        Self {
            flows: HashMap::with_hasher(Keyed::new()),
            waiting: HashMap::with_hasher(Keyed::new()),
            last: None,
            last4: (Flow4::default(), NO_KEY),
            known: (Known4::NONE, NO_KEY),
            secret: RandomState::new(),
            tcp: Ports::default(),
            udp: Ports::default(),
            cache_misses: 0,
        }
    }

    /// The key of the last connection found, if it is of this flow.
    #[inline(always)]
    pub(crate) fn last4(&self, flow: &Flow4) -> Option<u32> {
        (self.last4.0 == *flow).then_some(self.last4.1)
    }

    /// The headers of the segment before, if it was one of IPv4 that belonged to a
    /// connection, and the key of that.
    #[inline(always)]
    pub(crate) fn known(&self) -> (&Known4, u32) {
        (&self.known.0, self.known.1)
    }

    /// A segment with these headers belongs to the connection of this key.
    #[inline]
    pub(crate) fn remember(&mut self, known: Known4, key: u32) {
        self.known = (known, key);
    }

    /// The headers of the segment before say nothing of the next.
    pub(crate) fn forget_known(&mut self) {
        self.known = (Known4::NONE, NO_KEY);
    }

    /// The key of the connection of this flow.
    pub(crate) fn find4(&mut self, flow: &Flow4) -> Option<u32> {
        let long = Flow::of(flow);
        let key = self.flows.get(&long).copied()?;
        if self.last != Some((long, key)) {
            self.cache_misses += 1;
            self.last = Some((long, key));
        }
        self.last4 = (*flow, key);
        Some(key)
    }

    /// What `flow` belongs to.
    #[inline]
    pub(crate) fn find(&mut self, flow: &Flow) -> Option<Found> {
        if let Some((last, key)) = self.last
            && last == *flow
        {
            return Some(Found::Socket(key));
        }
        self.cache_misses += 1;
        let found = self.peek(flow);
        if let Some(Found::Socket(key)) = found {
            self.last = Some((*flow, key));
        }
        found
    }

    /// The same for what is no segment of it.
    pub(crate) fn peek(&self, flow: &Flow) -> Option<Found> {
        if let Some(key) = self.flows.get(flow) {
            return Some(Found::Socket(*key));
        }
        self.waiting.contains_key(flow).then_some(Found::TimeWait)
    }

    /// Whether the four-tuple is in use.
    pub(crate) fn is_taken(&self, flow: &Flow) -> bool {
        self.flows.contains_key(flow) || self.waiting.contains_key(flow)
    }

    pub(crate) fn insert(&mut self, flow: Flow, key: u32) {
        self.flows.insert(flow, key);
    }

    pub(crate) fn remove(&mut self, flow: &Flow) {
        self.flows.remove(flow);
        if self.last.is_some_and(|(last, _)| last == *flow) {
            self.last = None;
        }
        let flow4 = flow.flow4();
        if flow4 == Some(self.last4.0) {
            self.last4 = (Flow4::default(), NO_KEY);
        }
        if flow4.as_ref() == Some(self.known.0.flow()) {
            self.forget_known();
        }
    }

    pub(crate) fn wait(&mut self, flow: Flow, waiting: Waiting) {
        self.waiting.insert(flow, waiting);
    }

    pub(crate) fn waiting(&mut self, flow: &Flow) -> Option<&mut Waiting> {
        self.waiting.get_mut(flow)
    }

    pub(crate) fn end_wait(&mut self, flow: &Flow) {
        self.waiting.remove(flow);
    }

    /// How many connections are in TIME-WAIT.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The connections in TIME-WAIT.
    pub(crate) fn all_waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }

    /// A keyed hash, for initial sequence numbers (RFC 6528) and for spreading.
    pub(crate) fn hash(&self, what: impl std::hash::Hash) -> u64 {
        self.secret.hash_one(what)
    }
}

#[cfg(test)]
mod tests;
