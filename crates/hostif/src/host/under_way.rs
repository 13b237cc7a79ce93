//! What is on its way from the processes of a session to other sockets of the engine, as they note
//! it for each other.
//!
//! Each process notes in its channel which request last led to another socket, and in the header of
//! the session that there is such a note: so a process that finds nothing at a socket knows by one
//! load whether it is worth waiting. `sockets` reaches them by
//! [`HostSession::under_way`](super::HostSession::under_way).

use crate::transport::Arena;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of a session that lead to other sockets of the engine.
#[derive(Debug, Clone, Copy)]
pub struct RequestsUnderWay<'a> {
    arena: &'a Arena,
}

impl<'a> RequestsUnderWay<'a> {
    #[inline]
    pub(super) fn of(arena: &'a Arena) -> Self {
        Self { arena }
    }

    /// A bit for each ring, modulo 64, in which something was noted.
    #[inline]
    fn noted(self) -> &'a AtomicU64 {
        &self.arena.header().under_way
    }

    /// What was published last in a ring goes to another socket of the engine: a process
    /// that looks there in vain waits until it is handled.
    pub fn note(self, ring: u32) {
        self.arena.control(ring).note_under_way();
        // There are 64 channels, or a multiple of that: at all workers they have the same bit.
        self.noted().fetch_or(1 << (ring % 64), Ordering::AcqRel);
    }

    /// Whether there are any that were not found to be handled since.
    #[inline]
    #[must_use]
    pub fn are_any(self) -> bool {
        self.noted().load(Ordering::Acquire) != 0
    }

    /// The rings in which there is one, each with the number of the last that the engine has not
    /// handled. One load if there is nothing.
    pub fn unhandled(self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let mut bits = self.noted().load(Ordering::Acquire);
        let next = move || {
            let bit = bits & bits.wrapping_neg();
            bits &= !bit;
            (bit != 0).then_some(bit)
        };
        std::iter::from_fn(next).flat_map(move |bit| {
            self.clear_if_handled(bit);
            self.of_bit(bit)
        })
    }

    fn of_bit(self, bit: u64) -> impl Iterator<Item = (u32, u32)> + 'a {
        let rings = (bit.trailing_zeros()..self.arena.geometry().rings()).step_by(64);
        rings.filter_map(move |ring| Some((ring, self.arena.control(ring).under_way()?)))
    }

    fn clear_if_handled(self, bit: u64) {
        if self.of_bit(bit).next().is_some() {
            return;
        }
        // Whoever says so now sets the bit after this, or is seen by the second look.
        self.noted().fetch_and(!bit, Ordering::AcqRel);
        if self.of_bit(bit).next().is_some() {
            self.noted().fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// The request of this number does not come: nobody is to wait for it again.
    pub fn forget(self, ring: u32, number: u32) {
        self.arena.control(ring).forget_under_way(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Geometry, Request, SocketId};
    use crate::host::HostChannel;
    use longshore_ring::Doorbell;
    use std::sync::Arc;

    #[test]
    fn what_is_under_way_is_known_until_it_is_handled_or_given_up() {
        let geometry = Geometry {
            channels: 128,
            ..Geometry::SMALL
        };
        let arena = Arc::new(Arena::create(geometry).unwrap());
        let under_way = RequestsUnderWay::of(&arena);
        let doorbell = Doorbell::new().unwrap();
        let all = || under_way.unhandled().collect::<Vec<_>>();
        let mut ends = [3, 67, 5].map(|index| {
            let adapter = crate::AdapterChannel::new(index);
            (HostChannel::new(arena.clone(), index), adapter)
        });
        let request = Request::Subscribe {
            socket: SocketId {
                index: 0,
                generation: 1,
            },
        };
        for (host, _) in &mut ends {
            host.put(&request).unwrap();
            host.publish(&doorbell, false);
            under_way.note(host.index());
        }
        assert_eq!(all(), [(3, 1), (67, 1), (5, 1)]);
        let (host, adapter) = &mut ends[0];
        assert!(adapter.get(&arena).unwrap().is_some());
        adapter.release(&arena);
        assert_eq!(all(), [(67, 1), (5, 1)]);
        under_way.forget(67, 0);
        under_way.forget(67, 1);
        assert_eq!(all(), [(5, 1)]);
        assert_eq!(arena.header().under_way.load(Ordering::Relaxed), 1 << 5);
        host.put(&request).unwrap();
        host.publish(&doorbell, false);
        under_way.note(3);
        assert_eq!(all(), [(3, 2), (5, 1)]);
        arena.control(5).reset();
        assert_eq!(all(), [(3, 2)]);
    }

    #[test]
    fn one_look_says_whether_anything_is_under_way() {
        let arena = Arena::create(Geometry::SMALL).unwrap();
        let under_way = RequestsUnderWay::of(&arena);
        assert!(!under_way.are_any());
        under_way.note(3);
        assert!(under_way.are_any());
        // Nothing was published, so all is handled.
        assert_eq!(under_way.unhandled().next(), None);
        assert!(!under_way.are_any());
    }
}
