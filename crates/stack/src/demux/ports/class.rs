//! The sockets of a port that are bound alike: what is compared of them is compared once for all.
//!
//! Owns [`Class`] and [`Members`]. `port` has the classes of a port; `table` says which socket comes
//! and goes, and keeps for each where it stands.

use super::bound::Bound;
use super::in_order::InOrder;

/// Sockets of one port that are bound alike.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) bound: Bound,
    /// How many sockets there are, connected or not.
    pub(super) count: u32,
    /// Those that have no peer.
    pub(super) unconnected: Members,
}

impl Class {
    /// Nobody is bound so yet.
    pub(super) fn new(bound: Bound) -> Self {
        Self {
            bound,
            count: 0,
            unconnected: Members::default(),
        }
    }

    /// Whether some are connected.
    #[inline]
    pub(super) fn has_connected(&self) -> bool {
        self.count as usize > self.unconnected.keys.len()
    }

    /// Whether there are others than one of those, if it is among them.
    pub(super) fn has_others_than(&self, me: Option<&Bound>) -> bool {
        self.count > u32::from(me == Some(&self.bound))
    }
}

/// Sockets of which any one is found by its place, and the one that was bound last. Their places
/// are in no order: where one leaves, the one in the last place takes its.
#[derive(Debug, Default)]
pub(super) struct Members {
    keys: Vec<u32>,
    in_order: InOrder,
}

impl Members {
    /// A socket comes, bound as the `number`th; at which place it is.
    pub(super) fn insert(&mut self, number: u64, key: u32) -> usize {
        self.in_order.insert(number, key);
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// The socket in this place, bound as the `number`th, goes; which one is in its place now.
    pub(super) fn remove(&mut self, number: u64, place: usize) -> Option<u32> {
        self.in_order.remove(number);
        if place < self.keys.len() {
            self.keys.swap_remove(place);
        }
        self.keys.get(place).copied()
    }

    /// The one that was bound last.
    #[inline]
    pub(super) fn last(&self) -> Option<(u64, u32)> {
        self.in_order.last()
    }

    /// All of them, each in its place.
    #[inline]
    pub(super) fn keys(&self) -> &[u32] {
        &self.keys
    }
}
