//! Which ports are given to those who ask for none in particular: those of a range that are not
//! reserved.
//!
//! Owns [`Automatic`]. `ports` has one for each transport, `used_ports` one for the destinations that it
//! counts; the stack says which they are when a socket is opened.

use crate::local_ports::{LocalPorts, ReservedPorts};
use crate::port_set::PortSet;
use std::sync::Arc;

/// How many ports are tried at random before the sets are asked.
const TRIES: u64 = 32;

/// See the head of the file.
#[derive(Debug, Clone)]
pub(crate) struct Automatic {
    range: LocalPorts,
    reserved: Option<Arc<ReservedPorts>>,
    /// How many of the range are not reserved.
    count: u32,
}

impl Default for Automatic {
    fn default() -> Self {
        Self::new(LocalPorts::default(), None)
    }
}

impl Automatic {
    /// Those of this range that are not reserved.
    pub(super) fn new(range: LocalPorts, reserved: Option<Arc<ReservedPorts>>) -> Self {
        let kept = reserved.as_ref();
        let kept = kept.map_or(0, |reserved| reserved.ports().count(&range.all()));
        Self {
            range,
            reserved,
            count: range.count() - kept,
        }
    }

    /// Whether they are those of this range that are not among these, which have not changed.
    pub(super) fn are(&self, range: LocalPorts, reserved: Option<&Arc<ReservedPorts>>) -> bool {
        let same = match (&self.reserved, reserved) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        same && self.range == range
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = u16> + '_ {
        let usable = |port: &u16| !self.is_reserved(*port);
        self.range.all().filter(usable)
    }

    /// All of them, from that of `seed` onwards.
    pub(super) fn all_from(&self, seed: u64) -> impl Iterator<Item = u16> + '_ {
        let (all, start) = (self.range.all(), self.range.of_number(seed));
        let (first, last) = (*all.start(), *all.end());
        let ports = (start..=last).chain(first..start);
        ports.filter(|port| !self.is_reserved(*port))
    }

    /// How many ports of the range are in a set.
    pub(super) fn count_in(&self, ports: &PortSet) -> u32 {
        ports.count(&self.range.all())
    }

    fn is_reserved(&self, port: u16) -> bool {
        let reserved = self.reserved.as_ref();
        reserved.is_some_and(|reserved| reserved.contains(port))
    }

    /// Some of them at random, as `seed` has it.
    pub(super) fn tries(&self, seed: u64) -> impl Iterator<Item = u16> + '_ {
        let tried = (0..TRIES).map(move |i| {
            let mixed = (seed ^ seed >> 29).wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            self.range.of_number(mixed >> 16)
        });
        tried.filter(|port| !self.is_reserved(*port))
    }

    /// The first of them that is in neither of these sets, from that of `seed` onwards.
    pub(super) fn first_free(&self, seed: u64, [one, other]: [&PortSet; 2]) -> Option<u16> {
        let (range, start) = (self.range.all(), self.range.of_number(seed));
        match &self.reserved {
            Some(reserved) => PortSet::first_free(&[one, other, reserved.ports()], &range, start),
            None => PortSet::first_free(&[one, other], &range, start),
        }
    }
}
