//! The ephemeral ports in use towards destinations to which hardly one is left, so that the last
//! ones are found without a look at each.
//!
//! A connection tries some ports at random, and nearly always one of them is free. Where
//! none was, the ports in use towards its destination are tracked from then on, until there are
//! few. Owns [`UsedPorts`], which [`Demux`](super::Demux) has one of, and to which it reports each
//! connection that begins or ends.

use super::Flow;
use super::automatic::Automatic;
use crate::port_set::PortSet;
use std::collections::BTreeMap;

/// Destinations that are tracked at once; each has tens of thousands of connections.
const MOST: usize = 64;
/// Ports in use, by destination.
#[derive(Debug, Default)]
pub(super) struct UsedPorts {
    by_destination: BTreeMap<Destination, PortSet>,
    /// The ports that connections get.
    automatic: Automatic,
}

/// Where connections go, and from which of our addresses.
type Destination = (u128, u128, u16);

impl UsedPorts {
    /// No destination is tracked; connections get these ports.
    pub(super) fn new(automatic: Automatic) -> Self {
        Self {
            by_destination: BTreeMap::new(),
            automatic,
        }
    }

    /// A connection has this name from now on, or no more.
    #[inline]
    pub(super) fn note(&mut self, flow: &Flow, is_there: bool) {
        if !self.by_destination.is_empty() {
            self.note_one(flow, is_there);
        }
    }

    #[cold]
    fn note_one(&mut self, flow: &Flow, is_there: bool) {
        let Some(ports) = self.by_destination.get_mut(&flow.destination()) else {
            return;
        };
        ports.set(flow.local_port(), is_there);
        // With fewer than half of the ports it is tracked no more.
        if !is_there && self.automatic.count_in(ports) < self.automatic.count() / 2 {
            self.by_destination.remove(&flow.destination());
        }
    }

    /// The ports that connections to the destination of `flow` have, whatever its own; if
    /// it is not tracked yet, `is_taken` says of each.
    pub(super) fn ports(&mut self, flow: &Flow, is_taken: impl Fn(u16) -> bool) -> &PortSet {
        let to = flow.destination();
        if self.by_destination.len() >= MOST && !self.by_destination.contains_key(&to) {
            // Whichever: it is counted anew when it is wanted.
            let one = self.by_destination.keys().next().copied();
            one.map(|one| self.by_destination.remove(&one));
        }
        self.by_destination.entry(to).or_insert_with(|| {
            let mut ports = PortSet::default();
            let taken = self.automatic.all().filter(|port| is_taken(*port));
            taken.for_each(|port| ports.set(port, true));
            ports
        })
    }
}

#[cfg(test)]
mod tests;
