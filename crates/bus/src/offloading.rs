//! The adapter that does TCP/IP: from what the meter of the host/adapter interface counted to
//! what that takes on a bus.

use crate::transfer::{Access, Bus, Sums, Traffic};

/// What crossed in one direction, as the interface counts it: by classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Descriptors: each access is a batch of them.
    pub descriptors: Sums,
    /// Payload: each access is a contiguous piece.
    pub payload: Sums,
    /// Other words.
    pub control: Sums,
    /// Times the other side was woken.
    pub wakeups: u64,
}

/// What waking the other side moves. 0 bytes: it is not counted, as in the 2005 paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signals {
    /// Bytes of a doorbell, which the host writes to wake the adapter.
    pub doorbell_bytes: u64,
    /// Bytes of an interrupt, which the adapter writes to wake the host.
    pub interrupt_bytes: u64,
}

impl Counted {
    /// Its classes.
    #[must_use]
    pub fn classes(&self) -> [&Sums; 3] {
        [&self.descriptors, &self.payload, &self.control]
    }

    /// Moves of contiguous bytes.
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.classes().iter().map(|class| class.accesses).sum()
    }

    /// Bytes moved, descriptors included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.classes().iter().map(|class| class.bytes).sum()
    }

    /// Round trips of an adapter that reads this: each batch of descriptors is waited for, and
    /// then the payload that it names, whose pieces are asked for together. Other words it reads
    /// beside them. The most that the sums can take: of more pieces than batches, each batch may
    /// have named some.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        let (batches, pieces) = (self.descriptors.accesses, self.payload.accesses);
        batches + pieces.min(batches)
    }

    /// How many of these depend on each other where all was asked for by one batch: that, and its
    /// payload.
    #[must_use]
    pub fn dependent_round_trips(&self) -> u64 {
        self.round_trips()
            .min(1 + u64::from(self.payload.accesses != 0))
    }
}

/// What the counted crossings take on `bus`. The counts are sums: on PCI-X they say all; where
/// they do not, the cycles are the most that such sums can take. The round trips are those of
/// [`Counted::round_trips`]; what is written to the host nobody waits for.
#[must_use]
pub fn crossed(
    bus: &dyn Bus,
    to_host: &Counted,
    to_adapter: &Counted,
    signals: Signals,
) -> Traffic {
    let mut traffic = Traffic::default();
    for (access, counted) in [
        (Access::AdapterWrite, to_host),
        (Access::AdapterRead, to_adapter),
    ] {
        for class in counted.classes() {
            traffic.sums(bus, access, class);
        }
    }
    traffic.send.round_trips += to_adapter.round_trips();
    for (access, wakeups, bytes) in [
        (
            Access::HostWrite,
            to_adapter.wakeups,
            signals.doorbell_bytes,
        ),
        (
            Access::AdapterWrite,
            to_host.wakeups,
            signals.interrupt_bytes,
        ),
    ] {
        for _ in 0..if bytes == 0 { 0 } else { wakeups } {
            traffic.access(bus, access, bytes);
        }
    }
    traffic
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PciX;

    /// Two batches, and a word of a block.
    fn to_host() -> Counted {
        Counted {
            descriptors: Sums::of(&[152, 88]),
            control: Sums::of(&[4]),
            wakeups: 1,
            ..Counted::default()
        }
    }

    /// Three batches, and the pieces of a file.
    fn to_adapter() -> Counted {
        Counted {
            descriptors: Sums::of(&[352, 64, 24]),
            payload: Sums::of(&[65_536, 65_536, 1460, 7]),
            control: Sums::default(),
            wakeups: 2,
        }
    }

    #[test]
    fn sums_are_what_they_take_and_batches_are_waited_for() {
        let bus = PciX::default();
        let (to_host, to_adapter) = (to_host(), to_adapter());
        let traffic = crossed(&bus, &to_host, &to_adapter, Signals::default());
        assert_eq!((traffic.receive.transfers, traffic.receive.bytes), (3, 244));
        assert_eq!(
            (traffic.receive.round_trips, traffic.send.round_trips),
            (0, 6)
        );
        assert_eq!((to_adapter.transfers(), to_adapter.bytes()), (7, 132_979));
        assert_eq!(traffic.receive.cycles, 3 * 4 + 19 + 11 + 1);
        let words = 44 + 8 + 3 + 2 * 8192 + 183 + 1;
        assert_eq!(traffic.send.cycles, 7 * 4 + words);
    }

    #[test]
    fn a_batch_is_waited_for_and_its_payload_after_it() {
        let read = |batches, pieces| Counted {
            descriptors: Sums::of(&vec![64; batches]),
            payload: Sums::of(&vec![64; pieces]),
            ..Counted::default()
        };
        for (counted, all, dependent) in [
            (read(0, 0), 0, 0),
            (read(1, 0), 1, 1),
            (read(2, 0), 2, 1),
            (read(1, 8), 2, 2),
            (read(3, 1), 4, 2),
        ] {
            assert_eq!(counted.round_trips(), all, "{counted:?}");
            assert_eq!(counted.dependent_round_trips(), dependent, "{counted:?}");
        }
    }

    #[test]
    fn signals_are_transfers_where_they_are_counted() {
        let bus = PciX::default();
        let without = crossed(&bus, &to_host(), &to_adapter(), Signals::default());
        let signals = Signals {
            doorbell_bytes: 8,
            interrupt_bytes: 4,
        };
        let with = crossed(&bus, &to_host(), &to_adapter(), signals);
        assert_eq!(with.send.transfers - without.send.transfers, 2);
        assert_eq!(with.send.bytes - without.send.bytes, 16);
        assert_eq!(with.receive.transfers - without.receive.transfers, 1);
        assert_eq!(with.receive.bytes - without.receive.bytes, 4);
    }
}
