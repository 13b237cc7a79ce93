//! What moves over a bus: accesses, what they cost, and sums of them.
//!
//! Each model of a bus implements [`Bus`]; an adapter's model says with [`Traffic`] what it
//! moved, and gets what that takes on the bus.

/// One side reads or writes the other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The adapter reads the host's memory: the data go to the adapter.
    AdapterRead,
    /// The adapter writes the host's memory.
    AdapterWrite,
    /// The host reads the adapter's memory or registers: the data go to the host.
    HostRead,
    /// The host writes the adapter's memory or registers.
    HostWrite,
}

impl Access {
    /// Whether the data go to the host.
    #[must_use]
    pub fn is_to_host(self) -> bool {
        matches!(self, Access::AdapterWrite | Access::HostRead)
    }

    /// Whether who starts it waits for the other side: reads are asked and answered, writes
    /// are posted.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Access::AdapterRead | Access::HostRead)
    }
}

/// Cycles that accesses take a bus for, by the direction in which it is taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cycles {
    /// From the adapter to the host.
    pub to_host: u64,
    /// From the host to the adapter.
    pub to_adapter: u64,
}

impl Cycles {
    /// `data` in the direction of the access's data, `other` in the opposite direction.
    #[must_use]
    pub fn of(access: Access, data: u64, other: u64) -> Self {
        let (to_host, to_adapter) = if access.is_to_host() {
            (data, other)
        } else {
            (other, data)
        };
        Cycles {
            to_host,
            to_adapter,
        }
    }
}

/// Sums over accesses of which no more is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Accesses.
    pub accesses: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Words of 8 bytes that they fill, the last one of each perhaps in part.
    pub words: u64,
}

impl Sums {
    /// Those of accesses of these sizes.
    #[must_use]
    pub fn of(sizes: &[u64]) -> Self {
        Sums {
            accesses: sizes.len() as u64,
            bytes: sizes.iter().sum(),
            words: sizes.iter().map(|bytes| bytes.div_ceil(8)).sum(),
        }
    }

    /// The most blocks of so many words that they can fill, the last one of each perhaps in part.
    #[must_use]
    pub fn most_blocks(&self, words: u64) -> u64 {
        // Each begins a block, and the words behind the first of each fill blocks.
        self.accesses + self.words.saturating_sub(self.accesses) / words
    }
}

/// What it takes to move contiguous bytes over a bus.
pub trait Bus {
    /// The cycles of one access of `bytes`.
    fn cycles(&self, access: Access, bytes: u64) -> Cycles;

    /// The most cycles that accesses can take of which only the sums are known; just what they
    /// take, if that follows from the sums.
    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles;

    /// Cycles in each second.
    fn frequency(&self) -> f64;

    /// Whether both directions share the cycles; else each has its own.
    fn is_shared(&self) -> bool;

    /// Nanoseconds from the start of an access until its data are where they go, on a bus
    /// that does nothing else.
    fn latency_ns(&self, access: Access, bytes: u64) -> f64;
}

/// What moved in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Moves of contiguous bytes.
    pub transfers: u64,
    /// Bytes moved; descriptors are among them, headers of the bus are not.
    pub bytes: u64,
    /// Cycles that the bus was taken in this direction. Where reads are asked for in packets
    /// of their own, those count in the direction in which they go.
    pub cycles: u64,
    /// Reads that somebody waited for, those that were asked for together counted once.
    pub round_trips: u64,
}

impl Tally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.cycles += other.cycles;
        self.round_trips += other.round_trips;
    }
}

/// What moved over a bus in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// To the host.
    pub receive: Tally,
    /// To the adapter.
    pub send: Tally,
}

impl Traffic {
    /// Adds one access.
    pub fn access(&mut self, bus: &dyn Bus, access: Access, bytes: u64) {
        self.together(bus, access, &[bytes]);
    }

    /// Adds accesses that are started together: if they are reads, one round trip is waited
    /// for.
    pub fn together(&mut self, bus: &dyn Bus, access: Access, sizes: &[u64]) {
        for bytes in sizes {
            self.take(bus.cycles(access, *bytes));
        }
        let tally = self.of(access);
        tally.transfers += sizes.len() as u64;
        tally.bytes += sizes.iter().sum::<u64>();
        tally.round_trips += u64::from(access.is_read() && !sizes.is_empty());
    }

    /// Adds a read that was made ahead of need, so that nobody waits for it.
    pub fn unwaited(&mut self, bus: &dyn Bus, access: Access, bytes: u64) {
        self.take(bus.cycles(access, bytes));
        let tally = self.of(access);
        tally.transfers += 1;
        tally.bytes += bytes;
    }

    /// Adds accesses of which only the sums are known, at the most that they can take.
    pub fn sums(&mut self, bus: &dyn Bus, access: Access, sums: &Sums) {
        self.take(bus.most_cycles(access, sums));
        let tally = self.of(access);
        tally.transfers += sums.accesses;
        tally.bytes += sums.bytes;
    }

    /// Adds other traffic to this.
    pub fn add(&mut self, other: &Traffic) {
        self.receive.add(&other.receive);
        self.send.add(&other.send);
    }

    /// How long the bus is taken by it, in seconds: by both directions one after the other
    /// where they share it, else by the busier one.
    #[must_use]
    pub fn seconds(&self, bus: &dyn Bus) -> f64 {
        let (to_host, to_adapter) = (self.receive.cycles, self.send.cycles);
        let cycles = if bus.is_shared() {
            to_host + to_adapter
        } else {
            to_host.max(to_adapter)
        };
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let cycles = cycles as f64;
        cycles / bus.frequency()
    }

    fn take(&mut self, cycles: Cycles) {
        self.receive.cycles += cycles.to_host;
        self.send.cycles += cycles.to_adapter;
    }

    fn of(&mut self, access: Access) -> &mut Tally {
        if access.is_to_host() {
            &mut self.receive
        } else {
            &mut self.send
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PciX, Pcie};

    #[test]
    fn reads_wait_and_those_asked_for_together_wait_once() {
        let bus = PciX::default();
        let mut traffic = Traffic::default();
        traffic.access(&bus, Access::AdapterRead, 16);
        traffic.together(&bus, Access::AdapterRead, &[66, 1024]);
        traffic.access(&bus, Access::AdapterWrite, 1514);
        traffic.access(&bus, Access::HostWrite, 4);
        assert_eq!(
            traffic.send,
            Tally {
                transfers: 4,
                bytes: 16 + 66 + 1024 + 4,
                cycles: 6 + 13 + 132 + 5,
                round_trips: 2
            }
        );
        assert_eq!(
            (traffic.receive.transfers, traffic.receive.round_trips),
            (1, 0)
        );
    }

    #[test]
    fn a_shared_bus_is_taken_by_the_sum_and_a_duplex_one_by_the_busier_direction() {
        let mut traffic = Traffic::default();
        let shared = PciX::default();
        traffic.access(&shared, Access::AdapterRead, 16);
        traffic.access(&shared, Access::AdapterWrite, 1514);
        assert!((traffic.seconds(&shared) - 200.0 / 133e6).abs() < 1e-12);
        let duplex = Pcie::default();
        let mut traffic = Traffic::default();
        traffic.access(&duplex, Access::AdapterWrite, 256);
        traffic.access(&duplex, Access::HostWrite, 64);
        let busier = 280.0 / duplex.frequency();
        assert!((traffic.seconds(&duplex) - busier).abs() < 1e-15);
    }

    /// Of PCI-X they say all; of a link with packets, where there is one of whole words, too.
    #[test]
    fn what_follows_from_sums_is_exact() {
        let taken = |bus: &dyn Bus, sizes: &[u64]| {
            let mut exact = Traffic::default();
            exact.together(bus, Access::AdapterRead, sizes);
            let mut most = Traffic::default();
            most.sums(bus, Access::AdapterRead, &Sums::of(sizes));
            let cycles = |traffic: &Traffic| (traffic.receive.cycles, traffic.send.cycles);
            (cycles(&exact), cycles(&most))
        };
        let (pcix, pcie) = (PciX::default(), Pcie::default());
        for sizes in [&[1, 1, 1][..], &[74, 66, 16, 513], &[], &[65_536, 7, 262]] {
            let (exact, most) = taken(&pcix, sizes);
            assert_eq!(exact, most, "{sizes:?}");
        }
        let (exact, most) = taken(&pcie, &[1288]);
        assert_eq!(exact, most);
    }

    #[test]
    fn no_split_of_a_sum_takes_more_than_its_bound() {
        let (pcix, pcie) = (PciX::default(), Pcie::default());
        let buses: [&dyn Bus; 4] = [&pcix, &pcie, &crate::Cxl, &crate::extending::Narrow];
        let splits: [&[u64]; 8] = [
            &[],
            &[1],
            &[8],
            &[9, 17],
            &[1, 1, 1],
            &[257, 257],
            &[74, 66, 16, 513],
            &[4096, 7, 65_537],
        ];
        for bus in buses {
            for access in [
                Access::AdapterRead,
                Access::AdapterWrite,
                Access::HostRead,
                Access::HostWrite,
            ] {
                for split in splits {
                    let mut exact = Traffic::default();
                    exact.together(bus, access, split);
                    let mut most = Traffic::default();
                    most.sums(bus, access, &Sums::of(split));
                    assert!(
                        exact.receive.cycles <= most.receive.cycles
                            && exact.send.cycles <= most.send.cycles,
                        "{access:?} {split:?}: {exact:?} {most:?}"
                    );
                    let moved = |tally: Tally| (tally.transfers, tally.bytes);
                    assert_eq!(moved(exact.receive), moved(most.receive));
                    assert_eq!(moved(exact.send), moved(most.send));
                }
            }
        }
    }
}
