//! The simulated wire: two ports connected by delays, rates, queues and faults, on
//! virtual time that the caller advances. Equal seeds, frames and times always give the
//! same arrivals.
//!
//! It behaves like a real wire behind a card that segments: segments arrive individually,
//! with complete checksums, and each has its own faults.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::check::check;
use crate::frames::{FrameQueue, StoredFrame};
use crate::impair::Dice;
use crate::memory::mac_of;
use crate::segment::Segmenter;
use crate::{
    Capabilities, FaultCounts, Faults, LinkKind, Port, PortCounters, PortError, RxMeta, TxFrame,
};

/// One direction of a wire.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direction {
    /// Delay from sending the last bit to its arrival.
    pub delay: Duration,
    /// Each frame's delay is increased by up to this much, uniformly distributed; frames
    /// keep their order.
    pub jitter: Duration,
    /// Bits per second; `None` for infinite bandwidth.
    pub rate: Option<u64>,
    /// Capacity in bytes of the queue before the wire; a frame that does not fit is
    /// dropped, as in a router. Without a rate nothing is queued.
    pub queue: usize,
    /// The faults.
    pub faults: Faults,
    /// How much later a reordered frame arrives.
    pub reorder_by: Duration,
}

/// The parameters of a simulated wire.
#[derive(Debug, Clone, Copy)]
pub struct SimConfig {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Whether the ports complete checksums and segment, as cards do.
    pub offloads: bool,
    /// The seed of the random numbers.
    pub seed: u64,
    /// From the first port to the second.
    pub forth: Direction,
    /// From the second port to the first.
    pub back: Direction,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            mtu: 1500,
            offloads: true,
            seed: 1,
            forth: Direction::default(),
            back: Direction::default(),
        }
    }
}

/// Frames in flight in one direction.
#[derive(Debug)]
struct Lane {
    direction: Direction,
    dice: Dice,
    /// When the last bit of the data sent leaves, in nanoseconds.
    busy_until: u64,
    /// When the last in-order frame arrives.
    last_arrival: u64,
    /// Ordered by arrival time, then by order of sending.
    flying: BTreeMap<(u64, u64), Box<StoredFrame>>,
    sent: u64,
    buffers: FrameQueue,
    /// Frames dropped before the wire.
    queue_full: u64,
}

/// Whether a frame with a link header of `link` bytes is an ARP frame. ARP has no
/// checksum of its own and relies on the link's: a frame with a flipped bit is dropped,
/// as on any Ethernet, so that no station keeps a wrong address for minutes.
fn is_arp(frame: &[u8], link: usize) -> bool {
    link >= 2 && frame.get(link - 2..link) == Some(&[0x08, 0x06])
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl Lane {
    fn new(direction: Direction, seed: u64) -> Self {
        Lane {
            direction,
            dice: Dice::new(direction.faults, seed),
            busy_until: 0,
            last_arrival: 0,
            flying: BTreeMap::new(),
            sent: 0,
            buffers: FrameQueue::default(),
            queue_full: 0,
        }
    }

    /// Sends one finished frame at `now`.
    fn send(&mut self, bytes: &[u8], link: usize, now: u64) {
        let jitter = self
            .dice
            .random
            .below(nanos(self.direction.jitter).saturating_add(1));
        let fate = self.dice.roll(bytes.len(), link);
        let Some(departure) = self.depart(bytes.len(), now) else {
            self.queue_full += 1;
            return;
        };
        if fate.lost || (fate.corrupt_bit.is_some() && is_arp(bytes, link)) {
            return;
        }
        let arrival = departure
            .saturating_add(nanos(self.direction.delay))
            .saturating_add(jitter)
            .max(self.last_arrival);
        let at = if fate.late {
            arrival.saturating_add(nanos(self.direction.reorder_by))
        } else {
            self.last_arrival = arrival;
            arrival
        };
        for _ in 0..1 + u32::from(fate.duplicated) {
            let mut frame = self.buffers.take_empty();
            frame.copy_whole(bytes);
            fate.corrupt(&mut frame.bytes);
            self.flying.insert((at, self.sent), frame);
            self.sent += 1;
        }
    }

    /// When a frame of `len` bytes has been sent; `None` if the queue is full.
    fn depart(&mut self, len: usize, now: u64) -> Option<u64> {
        let Some(rate) = self.direction.rate.filter(|r| *r > 0) else {
            return Some(now);
        };
        let time_of = |bytes: u128| bytes * 8 * 1_000_000_000 / u128::from(rate);
        let starts = self.busy_until.max(now);
        let waiting = u128::from(starts - now) * u128::from(rate) / 8 / 1_000_000_000;
        if starts > now && waiting + len as u128 > self.direction.queue as u128 {
            return None;
        }
        let takes = u64::try_from(time_of(len as u128)).unwrap_or(u64::MAX);
        self.busy_until = starts.saturating_add(takes);
        Some(self.busy_until)
    }
}

#[derive(Debug)]
struct Wire {
    now: u64,
    lanes: [Lane; 2],
}

fn lock(wire: &Mutex<Wire>) -> MutexGuard<'_, Wire> {
    // The wire is consistent between any two statements.
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of a simulated wire.
#[derive(Debug, Clone)]
pub struct SimClock(Arc<Mutex<Wire>>);

impl SimClock {
    /// Time since the wire was created.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(lock(&self.0).now)
    }

    /// Advances time; an earlier time changes nothing.
    pub fn advance_to(&self, time: Duration) {
        let mut wire = lock(&self.0);
        wire.now = wire.now.max(nanos(time));
    }

    /// When the next frame arrives, in either direction; the present or past if one was
    /// not received yet.
    pub fn next_arrival(&self) -> Option<Duration> {
        let wire = lock(&self.0);
        let first = |lane: &Lane| lane.flying.first_key_value().map(|((at, _), _)| *at);
        let earliest = wire.lanes.iter().filter_map(first).min();
        earliest.map(Duration::from_nanos)
    }

    /// The faults so far, in both directions.
    pub fn fault_counts(&self) -> [FaultCounts; 2] {
        let wire = lock(&self.0);
        [wire.lanes[0].dice.counts, wire.lanes[1].dice.counts]
    }
}

/// One end of a simulated wire.
#[derive(Debug)]
pub struct SimPort {
    wire: Arc<Mutex<Wire>>,
    /// The lane to send on; the other one is for receiving.
    lane: usize,
    capabilities: Capabilities,
    counters: PortCounters,
    scratch: Vec<u8>,
}

/// A wire's two ends, and its clock.
pub fn wire(config: &SimConfig) -> (SimPort, SimPort, SimClock) {
    let wire = Arc::new(Mutex::new(Wire {
        now: 0,
        lanes: [
            Lane::new(config.forth, config.seed),
            Lane::new(config.back, config.seed.wrapping_add(0x5eed)),
        ],
    }));
    let end = |lane: usize| SimPort {
        wire: wire.clone(),
        lane,
        capabilities: capabilities(config, lane as u8 + 1),
        counters: PortCounters::default(),
        scratch: Vec::new(),
    };
    (end(0), end(1), SimClock(wire.clone()))
}

fn capabilities(config: &SimConfig, end: u8) -> Capabilities {
    let all = Capabilities {
        link: LinkKind::Ethernet { mac: mac_of(end) },
        mtu: config.mtu,
        tx_checksum: true,
        passes_payload: false,
        rx_checksum: false,
        tso4: true,
        tso6: true,
        uso: true,
        max_gso_bytes: 65_535 + 14,
        big_tcp: None,
        rx_coalesced: false,
    };
    if config.offloads {
        all
    } else {
        all.without_offloads()
    }
}

impl Port for SimPort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        let mut guard = lock(&self.wire);
        let now = guard.now;
        let lane = &mut guard.lanes[1 - self.lane];
        while let Some(entry) = lane.flying.first_entry().filter(|e| e.key().0 <= now) {
            let frame = entry.remove();
            let got = frame.scatter(parts);
            lane.buffers.recycle(frame);
            if let Some(meta) = got {
                self.counters.received(meta.len, false);
                return Ok(Some(meta));
            }
            self.counters.drops.rx_truncated += 1;
        }
        Ok(None)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        let len = check(&self.capabilities, frame)?;
        let link = self.capabilities.link_header_len();
        let mut segments =
            Segmenter::new(frame, self.capabilities.link).map_err(|_| PortError::BadOffload {
                reason: "the headers are not what the frame claims",
            })?;
        let mut guard = lock(&self.wire);
        let now = guard.now;
        let lane = &mut guard.lanes[self.lane];
        while segments.next_into(&mut self.scratch) {
            lane.send(&self.scratch, link, now);
        }
        self.counters.drops.injected_loss = lane.dice.counts.lost;
        self.counters.drops.queue_full = lane.queue_full;
        self.counters.sent(len, frame.gso.is_some());
        Ok(())
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests;
