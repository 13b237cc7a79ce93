//! A simulated path in virtual time: rate, delay, a queue, and all that goes wrong.

use crate::rng::Rng;
use longshore_tcp::{Ecn, Instant};
use longshore_wire::checksum::Partial;
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpHeader};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A packet (or a merged one) on its way.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) header: TcpHeader,
    pub(crate) payload: Vec<u8>,
    pub(crate) gso_size: u16,
    pub(crate) ecn: Ecn,
}

impl Packet {
    /// Whether the checksum shows that this bit of the segment was flipped on the way.
    /// (Addresses are 0 here, and of the pseudo-header only the length is left.)
    fn is_found_corrupt(&self, bit: u64) -> bool {
        let mut bytes = vec![0; self.header.header_len()];
        self.header.emit(&mut bytes);
        bytes.extend_from_slice(&self.payload);
        let len = Partial::of(&(bytes.len() as u16).to_be_bytes());
        let sum = len.plus(Partial::of(&bytes)).finish();
        bytes[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
        let bit = bit as usize % (8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        len.plus(Partial::of(&bytes)).finish() != 0
    }
}

/// What a direction of the path does. Shares are in parts of a thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) reorder: u32,
    /// A bit of the segment is flipped, which its checksum has to find.
    pub(crate) corrupt: u32,
    /// How much later what is reordered comes, microseconds; 0 for any time up to four
    /// delays.
    pub(crate) late_us: u64,
    pub(crate) delay_us: u64,
    pub(crate) jitter_us: u64,
    /// Bytes per millisecond, 0 for no limit.
    pub(crate) rate: u64,
    /// Bytes that may wait for the rate.
    pub(crate) queue: u64,
    /// Arrivals are looked at only this often, microseconds, as by an engine that takes
    /// bursts from its port; 0 for at once.
    pub(crate) turn_us: u64,
    /// With more than this waiting, packets that can be are marked.
    pub(crate) mark: u64,
    /// Nothing passes from the first to the second moment.
    pub(crate) blackout: (u64, u64),
    /// What would arrive between the two moments arrives after the second one, faster.
    pub(crate) stall: (u64, u64),
    /// From the first to the second moment, packets with more bytes of payload and
    /// options than this are dropped.
    pub(crate) narrow: (u64, u64, u16),
    /// The router that drops them says so.
    pub(crate) tells: bool,
}

impl Faults {
    pub(crate) const NONE: Faults = Faults {
        loss: 0,
        duplicate: 0,
        reorder: 0,
        corrupt: 0,
        late_us: 0,
        delay_us: 1000,
        jitter_us: 0,
        rate: 0,
        queue: u64::MAX,
        turn_us: 0,
        mark: u64::MAX,
        blackout: (0, 0),
        stall: (0, 0),
        narrow: (0, 0, u16::MAX),
        tells: true,
    };
}

/// One direction.
pub(crate) struct Wire {
    pub(crate) faults: Faults,
    rng: Rng,
    arrivals: BinaryHeap<Reverse<(u64, u64)>>,
    packets: Vec<Option<Packet>>,
    busy_until: u64,
    pub(crate) lost: u64,
    pub(crate) marked: u64,
    /// What routers say to the sender: when it arrives, the sequence number that they
    /// quote and what would have passed.
    words: Vec<(u64, u32, u16)>,
}

impl Wire {
    pub(crate) fn new(faults: Faults, seed: u64) -> Wire {
        Wire {
            faults,
            rng: Rng::new(seed),
            arrivals: BinaryHeap::new(),
            packets: Vec::new(),
            busy_until: 0,
            lost: 0,
            marked: 0,
            words: Vec::new(),
        }
    }

    /// Whether the packet is too long for the path at this moment.
    fn is_too_long(&self, packet: &Packet, now: Instant) -> bool {
        let (from, to, limit) = self.faults.narrow;
        let options = packet.header.header_len() - 20;
        let payload = match packet.gso_size {
            0 => packet.payload.len(),
            size => packet.payload.len().min(usize::from(size)),
        };
        (from..to).contains(&now.0) && payload + options > usize::from(limit)
    }

    /// What a router has reported to the sender by now: a sequence number and an MTU.
    pub(crate) fn take_report(&mut self, now: Instant) -> Option<(u32, u16)> {
        let i = self.words.iter().position(|w| w.0 <= now.0)?;
        let (_, seq, limit) = self.words.swap_remove(i);
        Some((seq, limit))
    }

    pub(crate) fn send(&mut self, mut packet: Packet, now: Instant) {
        let f = self.faults;
        let blackout = (f.blackout.0..f.blackout.1).contains(&now.0);
        if blackout || self.rng.permille(f.loss) {
            self.lost += 1;
            return;
        }
        if self.is_too_long(&packet, now) {
            self.lost += 1;
            if f.tells {
                let at = now.0 + 2 * f.delay_us;
                self.words.push((at, packet.header.seq.0, f.narrow.2));
            }
            return;
        }
        let mut leaves = now.0;
        if f.rate > 0 {
            let size = packet.payload.len() as u64 + 60;
            let waiting = self.busy_until.saturating_sub(now.0) * f.rate / 1000;
            if waiting > f.queue {
                self.lost += 1;
                return;
            }
            if waiting > f.mark && packet.ecn != Ecn::NotCapable {
                packet.ecn = Ecn::Congested;
                self.marked += 1;
            }
            self.busy_until = self.busy_until.max(now.0) + size * 1000 / f.rate;
            leaves = self.busy_until;
        }
        let copies = 1 + u64::from(self.rng.permille(f.duplicate));
        for _ in 0..copies {
            if f.corrupt > 0 && self.rng.permille(f.corrupt) {
                let bit = self.rng.next();
                assert!(packet.is_found_corrupt(bit), "bit {bit} of {packet:?}");
                self.lost += 1;
                continue;
            }
            let mut at = leaves + f.delay_us;
            if f.jitter_us > 0 {
                at += self.rng.range(0, f.jitter_us);
            }
            if self.rng.permille(f.reorder) {
                at += match f.late_us {
                    0 => self.rng.range(1, 4 * f.delay_us.max(100)),
                    late => late,
                };
            }
            if (f.stall.0..f.stall.1).contains(&at) {
                at = f.stall.1 + (at - f.stall.0) / 8;
            }
            if f.turn_us > 0 {
                at = at.next_multiple_of(f.turn_us);
            }
            self.arrivals.push(Reverse((at, self.packets.len() as u64)));
            self.packets.push(Some(packet.clone()));
        }
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        let packet = self.arrivals.peek().map(|Reverse((at, _))| *at);
        let word = self.words.iter().map(|w| w.0).min();
        packet.into_iter().chain(word).min().map(Instant)
    }

    pub(crate) fn receive(&mut self, now: Instant) -> Option<Packet> {
        let Reverse((at, index)) = *self.arrivals.peek()?;
        if at > now.0 {
            return None;
        }
        self.arrivals.pop();
        self.packets[index as usize].take()
    }
}
