//! An adapter as most are: the host does TCP/IP, the adapter moves frames and the descriptors
//! that say where they are.

use crate::transfer::{Access, Bus, Traffic};

/// How driver and adapter talk about the frames of one direction. Where a number says how
/// often something is done, 0 is never: it is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Descriptors that the adapter fetches at once. To receive, they name empty buffers.
    pub fetched: u32,
    /// Descriptors that the adapter gives back at once, written by it.
    pub written_back: u32,
    /// Frames (buffers, to receive) for each doorbell, which the host writes.
    pub per_doorbell: u32,
    /// Frames for each interrupt, a message that the adapter writes.
    pub per_interrupt: u32,
    /// Frames for each time that the host reads how far the adapter is.
    pub per_register_read: u32,
}

/// A driver with its adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Frames to the wire.
    pub transmit: Ring,
    /// Frames from the wire.
    pub receive: Ring,
    /// A frame that lies in several pieces has a descriptor for each; else one in all.
    pub descriptor_per_piece: bool,
    /// Bytes of a doorbell, or of a register.
    pub doorbell_bytes: u64,
    /// Frames to the wire of at most so many bytes stand in their descriptor, and are no
    /// transfer of their own.
    pub inline_bytes: u64,
}

/// Bytes of a descriptor.
pub(crate) const DESCRIPTOR: u64 = 16;
/// Bytes of a message-signaled interrupt.
const INTERRUPT: u64 = 4;

impl Driver {
    /// Descriptors that are fetched apart from a frame to the wire which lies in `pieces`, each in
    /// bytes: none where it stands in its descriptor.
    pub(crate) fn prefetchable(&self, pieces: &[u64]) -> u32 {
        match pieces.iter().sum::<u64>() <= self.inline_bytes {
            true => 0,
            false => self.descriptors(pieces),
        }
    }

    /// Descriptors of a frame to the wire that does not stand in its own.
    fn descriptors(&self, pieces: &[u64]) -> u32 {
        match u32::try_from(pieces.len()) {
            Ok(pieces) if self.descriptor_per_piece => pieces.max(1),
            _ => 1,
        }
    }

    /// The E1000 as the 2005 paper counted it: a transfer for each frame received and for the
    /// descriptor that announces it; for each frame sent one for its descriptor and one for
    /// each of its pieces. Doorbells, interrupts and empty buffers are not counted.
    #[must_use]
    pub fn e1000() -> Self {
        let transmit = Ring {
            fetched: 1,
            written_back: 0,
            per_doorbell: 0,
            per_interrupt: 0,
            per_register_read: 0,
        };
        Driver {
            transmit,
            receive: Ring {
                fetched: 0,
                written_back: 1,
                ..transmit
            },
            descriptor_per_piece: false,
            doorbell_bytes: 4,
            inline_bytes: 0,
        }
    }

    /// pcie-bench's simple adapter: everything is done for each frame.
    #[must_use]
    pub fn simple() -> Self {
        let transmit = Ring {
            fetched: 1,
            written_back: 0,
            per_doorbell: 1,
            per_interrupt: 1,
            per_register_read: 1,
        };
        Driver {
            transmit,
            receive: Ring {
                written_back: 1,
                ..transmit
            },
            ..Driver::e1000()
        }
    }

    /// pcie-bench's adapter of 10 Gb/s with a kernel's driver: descriptors to transmit are
    /// fetched by 40 and given back by 8, interrupts and doorbells to receive come for 32.
    #[must_use]
    pub fn interrupting() -> Self {
        Driver {
            transmit: Ring {
                fetched: 40,
                written_back: 8,
                per_doorbell: 1,
                per_interrupt: 32,
                per_register_read: 1,
            },
            receive: Ring {
                fetched: 1,
                written_back: 1,
                per_doorbell: 32,
                per_interrupt: 32,
                per_register_read: 8,
            },
            ..Driver::e1000()
        }
    }

    /// As `interrupting`, with a driver that polls memory: no interrupts, no registers read, and a
    /// doorbell for 32 frames.
    #[must_use]
    pub fn polling() -> Self {
        let with_interrupts = Driver::interrupting();
        let quiet = |ring: Ring| Ring {
            per_doorbell: 32,
            per_interrupt: 0,
            per_register_read: 0,
            ..ring
        };
        Driver {
            transmit: quiet(with_interrupts.transmit),
            receive: quiet(with_interrupts.receive),
            ..with_interrupts
        }
    }
}

/// What stands open in a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// Descriptors that were fetched and not used.
    prefetched: u32,
    /// Descriptors that were used and not given back.
    used: u32,
    /// Frames since the last doorbell, interrupt, register read.
    since_doorbell: u32,
    since_interrupt: u32,
    since_register_read: u32,
}

/// Whether it is time again for what is done for each `every`.
fn is_due(since: &mut u32, every: u32) -> bool {
    if every == 0 {
        return false;
    }
    *since += 1;
    if *since < every {
        return false;
    }
    *since = 0;
    true
}

/// Counts what a conventional adapter moves for the frames that pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConventionalAdapter {
    driver: Driver,
    transmit: Progress,
    receive: Progress,
    traffic: Traffic,
}

impl ConventionalAdapter {
    /// One that has moved nothing.
    #[must_use]
    pub fn new(driver: Driver) -> Self {
        ConventionalAdapter {
            driver,
            transmit: Progress::default(),
            receive: Progress::default(),
            traffic: Traffic::default(),
        }
    }

    /// What it has moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What it has moved since this was asked last. Where it stands in its rings it stays.
    pub fn take(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// A frame of `bytes` arrives.
    pub fn receive(&mut self, bus: &dyn Bus, bytes: u64) {
        let Driver {
            receive: ring,
            doorbell_bytes,
            ..
        } = self.driver;
        let (at, traffic) = (&mut self.receive, &mut self.traffic);
        fetch(at, ring, 1, bus, traffic);
        traffic.access(bus, Access::AdapterWrite, bytes);
        give_back(at, ring, 1, bus, traffic);
        signal(at, ring, doorbell_bytes, bus, traffic);
    }

    /// A frame leaves that lies in `pieces` of the host's memory, each in bytes.
    pub fn send(&mut self, bus: &dyn Bus, pieces: &[u64]) {
        let Driver {
            transmit: ring,
            doorbell_bytes,
            ..
        } = self.driver;
        let fetched = self.driver.prefetchable(pieces);
        let (at, traffic) = (&mut self.transmit, &mut self.traffic);
        if fetched == 0 {
            let bytes: u64 = pieces.iter().sum();
            traffic.access(bus, Access::AdapterRead, DESCRIPTOR + bytes);
        } else {
            fetch(at, ring, fetched, bus, traffic);
            traffic.together(bus, Access::AdapterRead, pieces);
        }
        give_back(at, ring, fetched.max(1), bus, traffic);
        signal(at, ring, doorbell_bytes, bus, traffic);
    }
}

/// Fetches descriptors if there are fewer than are needed.
fn fetch(at: &mut Progress, ring: Ring, needed: u32, bus: &dyn Bus, traffic: &mut Traffic) {
    if ring.fetched == 0 {
        return;
    }
    if at.prefetched < needed {
        let fetched = ring.fetched.max(needed - at.prefetched);
        traffic.access(bus, Access::AdapterRead, DESCRIPTOR * u64::from(fetched));
        at.prefetched += fetched;
    }
    at.prefetched -= needed;
}

/// Gives used descriptors back when they are enough.
fn give_back(at: &mut Progress, ring: Ring, used: u32, bus: &dyn Bus, traffic: &mut Traffic) {
    if ring.written_back == 0 {
        return;
    }
    at.used += used;
    if at.used >= ring.written_back {
        traffic.access(bus, Access::AdapterWrite, DESCRIPTOR * u64::from(at.used));
        at.used = 0;
    }
}

/// What tells the other side that something has happened.
fn signal(at: &mut Progress, ring: Ring, doorbell: u64, bus: &dyn Bus, traffic: &mut Traffic) {
    if is_due(&mut at.since_doorbell, ring.per_doorbell) {
        traffic.access(bus, Access::HostWrite, doorbell);
    }
    if is_due(&mut at.since_interrupt, ring.per_interrupt) {
        traffic.access(bus, Access::AdapterWrite, INTERRUPT);
    }
    if is_due(&mut at.since_register_read, ring.per_register_read) {
        traffic.access(bus, Access::HostRead, doorbell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PciX, Tally};

    /// Table 4, "1 KB", "E1000", the three receive rows: SYN with options, four
    /// segments without data, and the request.
    #[test]
    fn receive_column_of_the_paper_for_1_kb() {
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::new(Driver::e1000());
        for frame in [74, 66, 66, 66, 66, 104] {
            adapter.receive(&bus, frame);
        }
        assert_eq!(
            adapter.traffic().receive,
            Tally {
                transfers: 12,
                cycles: 119,
                bytes: 538,
                round_trips: 0
            }
        );
        assert_eq!(adapter.traffic().send, Tally::default());
    }

    #[test]
    fn a_frame_in_pieces_is_a_transfer_for_each() {
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::new(Driver::e1000());
        adapter.send(&bus, &[66, 1024]);
        assert_eq!(
            adapter.traffic().send,
            Tally {
                transfers: 3,
                cycles: 6 + 13 + 132,
                bytes: 1106,
                round_trips: 2
            }
        );
    }

    /// Sends `frames` of two pieces, and gives what crossed.
    fn sent(driver: Driver, frames: u64) -> Traffic {
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::new(driver);
        for _ in 0..frames {
            adapter.send(&bus, &[66, 1000]);
        }
        adapter.traffic()
    }

    #[test]
    fn descriptors_are_fetched_in_groups() {
        let driver = Driver {
            transmit: Ring {
                fetched: 8,
                ..Driver::e1000().transmit
            },
            ..Driver::e1000()
        };
        let traffic = sent(driver, 16);
        assert_eq!(traffic.send.transfers, 2 + 32);
        assert_eq!(traffic.send.bytes, 16 * (1066 + 16));
        assert_eq!(traffic.send.round_trips, 2 + 16);
        let each = Driver {
            descriptor_per_piece: true,
            ..driver
        };
        assert_eq!(sent(each, 16).send.transfers, 4 + 32);
        // More pieces than a group has descriptors are fetched together all the same.
        let bus = PciX::default();
        let mut adapter = ConventionalAdapter::new(Driver {
            descriptor_per_piece: true,
            ..Driver::e1000()
        });
        adapter.send(&bus, &[66, 4096, 4096]);
        assert_eq!(
            (
                adapter.traffic().send.transfers,
                adapter.traffic().send.round_trips
            ),
            (4, 2)
        );
    }

    #[test]
    fn completions_doorbells_and_interrupts_come_for_so_many_frames() {
        let driver = Driver {
            transmit: Ring {
                fetched: 1,
                written_back: 8,
                per_doorbell: 4,
                per_interrupt: 16,
                per_register_read: 2,
            },
            doorbell_bytes: 8,
            ..Driver::e1000()
        };
        let traffic = sent(driver, 16);
        let only_frames = sent(Driver::e1000(), 16);
        // Two groups of completions, one interrupt and eight registers to the host.
        assert_eq!(traffic.receive.transfers, 2 + 1 + 8);
        assert_eq!(traffic.receive.bytes, 2 * 128 + 4 + 8 * 8);
        assert_eq!(traffic.receive.round_trips, 8);
        assert_eq!(traffic.send.transfers - only_frames.send.transfers, 4);
        assert_eq!(traffic.send.bytes - only_frames.send.bytes, 4 * 8);
    }

    /// In both directions a driver that polls writes a doorbell for 32 frames.
    #[test]
    fn a_driver_that_polls_rings_for_many_frames() {
        let bus = PciX::default();
        let with_doorbells = |driver: Driver| {
            let mut adapter = ConventionalAdapter::new(driver);
            for _ in 0..64 {
                adapter.send(&bus, &[64]);
                adapter.receive(&bus, 64);
            }
            adapter.traffic().send.transfers
        };
        let none = |ring: Ring| Ring {
            per_doorbell: 0,
            ..ring
        };
        let polling = Driver::polling();
        let silent = Driver {
            transmit: none(polling.transmit),
            receive: none(polling.receive),
            ..polling
        };
        assert_eq!(with_doorbells(polling) - with_doorbells(silent), 2 * 2);
    }

    #[test]
    fn small_frames_stand_in_their_descriptor() {
        let driver = Driver {
            inline_bytes: 1066,
            ..Driver::e1000()
        };
        let traffic = sent(driver, 16);
        assert_eq!((traffic.send.transfers, traffic.send.round_trips), (16, 16));
        assert_eq!(traffic.send.bytes, 16 * 1082);
        let too_small = Driver {
            inline_bytes: 1065,
            ..Driver::e1000()
        };
        assert_eq!(sent(too_small, 16), sent(Driver::e1000(), 16));
    }
}
