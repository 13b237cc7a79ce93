//! A conventional adapter with several queues, each of which prefetches descriptors.
//!
//! A queue is a ring to receive and one to transmit, with descriptors of its own on the adapter.
//! These are read in batches of a fixed number, whether all of a batch will be of use or not:
//!
//! - To receive, they name empty buffers, which the driver has ready at any time. The next batch
//!   is read as soon as the last descriptor is used, so that no frame waits for it. A batch that
//!   was read for one queue is of no use to another.
//! - To transmit, the adapter can read no more of use than the driver has posted: the frames that
//!   leave by the queue with none received by it in between. What a batch has beyond them was not
//!   written yet; it is thrown away, and read again when it is.
//!
//! `measure` shows it the frames of a run, each with its queue.

use crate::conventional::{ConventionalAdapter, DESCRIPTOR, Driver, Ring};
use crate::transfer::{Access, Bus, Traffic};
use std::num::NonZero;

/// Queues of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// How many.
    pub count: NonZero<u16>,
    /// Descriptors of 16 bytes that a queue reads at once, of either ring.
    pub prefetched: NonZero<u32>,
}

impl Default for Queues {
    /// Four queues, each of which reads 8 descriptors: two cache lines of 64 bytes.
    fn default() -> Self {
        Queues {
            count: NonZero::new(4).unwrap_or(NonZero::<u16>::MIN),
            prefetched: NonZero::new(8).unwrap_or(NonZero::<u32>::MIN),
        }
    }
}

/// A queue: what moves beside the descriptors that it prefetches, and how many of those it has.
#[derive(Debug, Clone, Copy)]
struct Queue {
    frames: ConventionalAdapter,
    /// Descriptors of empty buffers that were read and not used.
    empty: u32,
    /// Descriptors to transmit of the batch that was read last, from the one behind the last frame.
    ahead: u32,
}

/// Counts what an adapter with several queues moves for the frames that pass it.
#[derive(Debug, Clone)]
pub struct MultiQueueAdapter {
    driver: Driver,
    queues: Vec<Queue>,
    prefetched: u32,
    /// Of prefetched descriptors.
    traffic: Traffic,
}

impl MultiQueueAdapter {
    /// One whose queues have each read their first batch of empty buffers. Of `driver` all counts
    /// but how many descriptors are fetched, for each queue by itself.
    #[must_use]
    pub fn new(bus: &dyn Bus, driver: Driver, queues: Queues) -> Self {
        let unfetched = |ring: Ring| Ring { fetched: 0, ..ring };
        let driver = Driver {
            transmit: unfetched(driver.transmit),
            receive: unfetched(driver.receive),
            ..driver
        };
        let queue = Queue {
            frames: ConventionalAdapter::new(driver),
            empty: 0,
            ahead: 0,
        };
        let mut adapter = MultiQueueAdapter {
            driver,
            queues: vec![queue; usize::from(queues.count.get())],
            prefetched: queues.prefetched.get(),
            traffic: Traffic::default(),
        };
        for queue in &mut adapter.queues {
            queue.refill(bus, adapter.prefetched, &mut adapter.traffic);
        }
        adapter
    }

    /// How many queues it has: 1 or more.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// A frame of `bytes` arrives by the queue of this number, counted from 0. There must be one.
    pub fn receive(&mut self, bus: &dyn Bus, queue: usize, bytes: u64) {
        let queue = &mut self.queues[queue];
        queue.ahead = 0;
        queue.frames.receive(bus, bytes);
        queue.empty -= 1;
        if queue.empty == 0 {
            queue.refill(bus, self.prefetched, &mut self.traffic);
        }
    }

    /// A frame leaves by the queue of this number that lies in `pieces` of the host's memory, each
    /// in bytes. There must be such a queue.
    pub fn send(&mut self, bus: &dyn Bus, queue: usize, pieces: &[u64]) {
        let needed = self.driver.prefetchable(pieces);
        let queue = &mut self.queues[queue];
        while queue.ahead < needed {
            let batch = DESCRIPTOR * u64::from(self.prefetched);
            self.traffic.access(bus, Access::AdapterRead, batch);
            queue.ahead += self.prefetched;
        }
        queue.ahead -= needed;
        queue.frames.send(bus, pieces);
    }

    /// What it has moved since this was asked last. What a queue has read to transmit beyond the
    /// last frame is thrown away; what it has read to receive it keeps.
    pub fn take(&mut self) -> Traffic {
        let mut all = std::mem::take(&mut self.traffic);
        for queue in &mut self.queues {
            queue.ahead = 0;
            all.add(&queue.frames.take());
        }
        all
    }
}

impl Queue {
    /// Reads the next batch of empty buffers, for which nobody waits.
    fn refill(&mut self, bus: &dyn Bus, prefetched: u32, traffic: &mut Traffic) {
        let batch = DESCRIPTOR * u64::from(prefetched);
        traffic.unwaited(bus, Access::AdapterRead, batch);
        self.empty += prefetched;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PciX, Tally};

    fn adapter(count: u16, prefetched: u32, driver: Driver) -> MultiQueueAdapter {
        let queues = Queues {
            count: NonZero::new(count).unwrap(),
            prefetched: NonZero::new(prefetched).unwrap(),
        };
        MultiQueueAdapter::new(&PciX::default(), driver, queues)
    }

    /// With a descriptor for each piece, as an adapter that cuts what is sent has.
    fn by_pieces() -> Driver {
        Driver {
            descriptor_per_piece: true,
            ..Driver::e1000()
        }
    }

    /// Four descriptors are 64 bytes: 4 + 8 cycles. A frame of 66 takes 4 + 9, the descriptor that
    /// is given back 4 + 2.
    #[test]
    fn each_queue_has_buffers_of_its_own_and_unused_ones_are_paid() {
        let bus = PciX::default();
        let mut adapter = adapter(3, 4, Driver::e1000());
        let first = adapter.take();
        let of_three_batches = Tally {
            transfers: 3,
            bytes: 3 * 64,
            cycles: 3 * 12,
            round_trips: 0,
        };
        assert_eq!(
            (first.send, first.receive),
            (of_three_batches, Tally::default())
        );
        // Three by each of two queues: both have one descriptor left, the third all four.
        for queue in [0, 1, 0, 1, 0, 1] {
            adapter.receive(&bus, queue, 66);
        }
        let traffic = adapter.take();
        assert_eq!(traffic.send, Tally::default());
        assert_eq!(
            traffic.receive,
            Tally {
                transfers: 12,
                bytes: 6 * (66 + 16),
                cycles: 6 * (13 + 6),
                round_trips: 0
            }
        );
        // Four more by one queue use its last and three of its next batch, one more by the other its
        // last: with the first ones that is five batches for eleven frames, where three would do.
        for queue in [0, 0, 0, 0, 1] {
            adapter.receive(&bus, queue, 66);
        }
        let traffic = adapter.take();
        assert_eq!(
            traffic.send,
            Tally {
                transfers: 2,
                bytes: 2 * 64,
                cycles: 2 * 12,
                round_trips: 0
            }
        );
    }

    /// Of three frames in two pieces that leave one behind the other six descriptors are of use:
    /// two batches of four. One that leaves after a frame was received takes a batch of its own.
    #[test]
    fn what_is_posted_together_is_read_together_and_the_rest_of_a_batch_is_thrown_away() {
        let bus = PciX::default();
        let mut adapter = adapter(2, 4, by_pieces());
        adapter.take();
        for _ in 0..3 {
            adapter.send(&bus, 0, &[66, 1000]);
        }
        // Descriptors of the first batch are there for the second frame.
        let traffic = adapter.take();
        let frame = 13 + (4 + 125);
        assert_eq!(
            traffic.send,
            Tally {
                transfers: 2 + 3 * 2,
                bytes: 2 * 64 + 3 * 1066,
                cycles: 2 * 12 + 3 * frame,
                round_trips: 2 + 3
            }
        );
        // Two descriptors of use, twice: were the rest kept, one batch would do.
        adapter.send(&bus, 0, &[66, 1000]);
        adapter.receive(&bus, 0, 66);
        adapter.send(&bus, 0, &[66, 1000]);
        let traffic = adapter.take();
        assert_eq!(
            (traffic.send.transfers, traffic.send.bytes),
            (2 + 2 * 2, 2 * 64 + 2 * 1066)
        );
        // A frame by another queue ends nothing.
        adapter.send(&bus, 0, &[66, 1000]);
        adapter.receive(&bus, 1, 66);
        adapter.send(&bus, 0, &[66, 1000]);
        assert_eq!(adapter.take().send.transfers, 1 + 2 * 2);
    }

    #[test]
    fn more_pieces_than_a_batch_take_several() {
        let bus = PciX::default();
        let mut adapter = adapter(1, 2, by_pieces());
        adapter.take();
        adapter.send(&bus, 0, &[66, 4096, 4096, 4096, 100]);
        let traffic = adapter.take();
        assert_eq!(traffic.send.transfers, 3 + 5);
        assert_eq!(traffic.send.bytes, 3 * 32 + 66 + 3 * 4096 + 100);
        assert_eq!(traffic.send.round_trips, 3 + 1);
    }

    /// What a frame in its descriptor takes does not depend on prefetching.
    #[test]
    fn small_frames_stand_in_descriptors_of_their_own() {
        let bus = PciX::default();
        let mut adapter = adapter(
            1,
            8,
            Driver {
                inline_bytes: 66,
                ..Driver::e1000()
            },
        );
        adapter.take();
        adapter.send(&bus, 0, &[66]);
        let traffic = adapter.take();
        assert_eq!((traffic.send.transfers, traffic.send.bytes), (1, 66 + 16));
    }

    /// Interrupts of a queue come for its own frames.
    #[test]
    fn what_comes_for_so_many_frames_is_counted_in_each_queue() {
        let bus = PciX::default();
        let mut driver = Driver::e1000();
        driver.receive.per_interrupt = 2;
        let received = |queues: [usize; 2]| {
            let mut adapter = adapter(2, 8, driver);
            for queue in queues {
                adapter.receive(&bus, queue, 66);
            }
            adapter.take().receive.transfers
        };
        assert_eq!(received([0, 0]), 4 + 1);
        assert_eq!(received([0, 1]), 4);
    }
}
