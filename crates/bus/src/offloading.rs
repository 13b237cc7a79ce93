//! The adapter that does TCP/IP: from what the meter of the host/adapter interface counted to
//! what that takes on a bus.

use crate::transfer::{Access, Bus, Traffic};

/// What crossed in one direction, as the interface counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Moves of contiguous bytes: a batch of descriptors is one, each piece of payload one.
    pub transfers: u64,
    /// Bytes moved, descriptors included.
    pub bytes: u64,
    /// Of the transfers, those of descriptors: each a batch.
    pub batches: u64,
    /// And those of payload: each a contiguous piece.
    pub pieces: u64,
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
    /// Round trips of an adapter that reads this: each batch of descriptors is waited for, and
    /// then the payload that it names, whose pieces are asked for together. Other words it reads
    /// beside them. The most that the sums can take: of more pieces than batches, each batch may
    /// have named some.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.batches + self.pieces.min(self.batches)
    }

    /// How many of these depend on each other where all was asked for by one batch: that, and its
    /// payload.
    #[must_use]
    pub fn dependent_round_trips(&self) -> u64 {
        self.round_trips().min(1 + u64::from(self.pieces != 0))
    }
}

/// What the counted crossings take on `bus`. The counts are sums, so the cycles are the most
/// that such sums can take. The round trips are those of [`Counted::round_trips`]; what is
/// written to the host nobody waits for.
#[must_use]
pub fn crossed(
    bus: &dyn Bus,
    to_host: &Counted,
    to_adapter: &Counted,
    signals: Signals,
) -> Traffic {
    let mut traffic = Traffic::default();
    let Counted {
        transfers, bytes, ..
    } = *to_host;
    traffic.sums(bus, Access::AdapterWrite, transfers, bytes, 0);
    let Counted {
        transfers, bytes, ..
    } = *to_adapter;
    let round_trips = to_adapter.round_trips();
    traffic.sums(bus, Access::AdapterRead, transfers, bytes, round_trips);
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

    const TO_HOST: Counted = Counted {
        transfers: 3,
        bytes: 244,
        batches: 2,
        pieces: 0,
        wakeups: 1,
    };
    const TO_ADAPTER: Counted = Counted {
        transfers: 20,
        bytes: 524_847,
        batches: 3,
        pieces: 17,
        wakeups: 2,
    };

    #[test]
    fn sums_are_bounded_and_batches_waited_for() {
        let bus = PciX::default();
        let traffic = crossed(&bus, &TO_HOST, &TO_ADAPTER, Signals::default());
        assert_eq!((traffic.receive.transfers, traffic.receive.bytes), (3, 244));
        assert_eq!(
            (traffic.receive.round_trips, traffic.send.round_trips),
            (0, 6)
        );
        assert_eq!(traffic.receive.cycles, 12 + (244 + 21) / 8);
        assert_eq!(traffic.send.cycles, 80 + (524_847 + 140) / 8);
    }

    #[test]
    fn a_batch_is_waited_for_and_its_payload_after_it() {
        let read = |batches, pieces| Counted {
            batches,
            pieces,
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
        let without = crossed(&bus, &TO_HOST, &TO_ADAPTER, Signals::default());
        let signals = Signals {
            doorbell_bytes: 8,
            interrupt_bytes: 4,
        };
        let with = crossed(&bus, &TO_HOST, &TO_ADAPTER, signals);
        assert_eq!(with.send.transfers - without.send.transfers, 2);
        assert_eq!(with.send.bytes - without.send.bytes, 16);
        assert_eq!(with.receive.transfers - without.receive.transfers, 1);
        assert_eq!(with.receive.bytes - without.receive.bytes, 4);
    }
}
