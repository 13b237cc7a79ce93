//! When a bus is free, and when an access that is begun now is done.

use super::Load;
use crate::{Access, AnyBus, Bus, Cycles};

/// A bus in the course of time.
#[derive(Debug)]
pub(super) struct BusTime {
    bus: AnyBus,
    /// When each direction is free; of a bus that they share, the first.
    free: [f64; 2],
    /// Until when it is known to be busy.
    busy_until: f64,
    load: Load,
}

impl BusTime {
    pub(super) fn new(bus: AnyBus) -> Self {
        Self {
            bus,
            free: [0.0; 2],
            busy_until: 0.0,
            load: Load::default(),
        }
    }

    /// Begins an access as soon as the bus is free, not before `at`; when its data are there.
    ///
    /// It takes the bus for its cycles. What its latency is beyond those passes beside other
    /// accesses.
    pub(super) fn access(&mut self, access: Access, bytes: u64, at: f64) -> f64 {
        let Cycles {
            to_host,
            to_adapter,
        } = self.bus.cycles(access, bytes);
        let cycles = if self.bus.is_shared() {
            [to_host + to_adapter, 0]
        } else {
            [to_host, to_adapter]
        };
        let (mut end, mut alone) = (at, 0.0_f64);
        for (direction, cycles) in cycles.into_iter().enumerate() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "an access has fewer than 2^53 cycles"
            )]
            let takes = cycles as f64 / self.bus.frequency() * 1e9;
            if cycles != 0 {
                self.free[direction] = self.free[direction].max(at) + takes;
                end = end.max(self.free[direction]);
            }
            alone = alone.max(takes);
            self.load.taken_ns[direction] += takes;
        }
        self.load.accesses += 1;
        self.load.bytes[usize::from(!access.is_to_host())] += bytes;
        let done = end + (self.bus.latency_ns(access, bytes) - alone).max(0.0);
        self.note_busy(at, done);
        done
    }

    /// What it has done until `now`: accesses and bytes from their beginning, time as it passes.
    pub(super) fn load(&self, now: f64) -> Load {
        let mut load = self.load;
        // What was begun goes on without a pause.
        for (taken, free) in load.taken_ns.iter_mut().zip(self.free) {
            *taken -= (free - now).max(0.0);
        }
        load.busy_ns -= (self.busy_until - now).max(0.0);
        load
    }

    /// Something is under way in this time.
    pub(super) fn note_busy(&mut self, from: f64, to: f64) {
        self.load.busy_ns += (to - from.max(self.busy_until)).max(0.0);
        self.busy_until = self.busy_until.max(to);
    }
}
