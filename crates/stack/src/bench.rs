//! Inner parts, one call each, for the benchmark that counts their instructions
//! and for `longshore measure path` (`--features bench`). Nothing else uses it.

use crate::demux::{Demux, Flow};
use crate::secrets::Secrets;
use crate::timers::{Alarm, Wheel};
use longshore_tcp::Instant;
use longshore_wire::tcp4::Flow4;
use std::net::Ipv4Addr;

/// The connection table.
pub struct Lookup(Demux);

/// Of the engine's address.
const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 0, 0, 1), 80);

/// The peer of connection `i`: 32,768 of each host.
fn peer(i: u32) -> (Ipv4Addr, u16) {
    let host = Ipv4Addr::from(0x0a00_0100 + (i >> 15));
    (host, 0x8000 | i as u16)
}

impl Lookup {
    /// A table of `count` connections to port 80 of 10.0.0.1.
    #[must_use]
    pub fn with_connections(count: u32) -> Self {
        let mut demux = Demux::new(&Secrets::from_seed(1), Instant(0));
        for i in 0..count {
            demux.insert(Flow::new(LOCAL.into(), peer(i).into()), i);
        }
        Self(demux)
    }

    /// What a segment of connection `i` has in its headers.
    #[must_use]
    pub fn flow(i: u32) -> Flow4 {
        Flow4::new(peer(i), LOCAL)
    }

    /// What a segment of connection `i`, or of the next one that stands in the first slot
    /// that is looked at, has in its headers. Which ones do depends on a secret.
    #[must_use]
    pub fn flow_at_once(&self, mut i: u32) -> Flow4 {
        while !self.0.is_found_at_once(&Self::flow(i)) {
            i += 1;
        }
        Self::flow(i)
    }

    /// Finds the connection of a segment whose headers are not those of the one before.
    #[inline(always)]
    pub fn find(&mut self, flow: &Flow4) -> Option<u32> {
        self.0.find4(flow)
    }
}

/// The timer wheel.
pub struct Timers {
    wheel: Wheel<u32>,
    alarm: Alarm,
    /// What the alarm is set to next, microseconds.
    pub next: u64,
}

impl Timers {
    /// A wheel that has been round, and an alarm that is not set.
    #[must_use]
    pub fn new() -> Self {
        let mut wheel = Wheel::new(Instant(0));
        // Slots take memory when they are used first.
        for i in 0..4000 {
            wheel.set(&mut Alarm::OFF.clone(), 0, Instant(i * 1024));
        }
        let mut due = Vec::new();
        wheel.advance(Instant(4_100_000), &mut due);
        Self {
            wheel,
            alarm: Alarm::OFF,
            next: 4_200_000,
        }
    }

    /// Sets the alarm.
    #[inline(always)]
    pub fn set(&mut self) {
        self.wheel.set(&mut self.alarm, 7, Instant(self.next));
    }

    /// Whether it is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.alarm != Alarm::OFF
    }

    /// Clears it.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.alarm.clear();
    }
}

impl Default for Timers {
    fn default() -> Self {
        Self::new()
    }
}
