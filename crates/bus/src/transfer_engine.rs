//! A transfer engine between host memory and an adapter, in the course of time.
//!
//! [`TransferEngine`] is told what the host puts into its ring and what the adapter writes, and
//! says when each of it is at the other side. Time is an argument, in nanoseconds since any
//! moment: so it runs as well in a simulation as on a clock. `link` has it carry the
//! host/adapter interface.
//!
//! To the adapter, a request is a descriptor in the host's memory, and the payload that it
//! names:
//! - If the adapter does not fetch already, the host writes its doorbell: posted, [`DOORBELL`] bytes.
//! - The adapter reads descriptors, so many at once as it fetches in a batch: a round trip.
//!   Immediate data lies behind its descriptor, and is read as more descriptors are. A
//!   descriptor begins a slot of [`SLOT`] bytes; of the last one, what is not used is not read.
//! - Then it reads their payload, in reads of at most [`PIECE`] bytes, of which so many are
//!   begun as may be in flight; meanwhile it fetches the next descriptors.
//! - A request is handled when all of its payload is there (store and forward) or the first
//!   piece of it (cut through), and takes the adapter its latency; one after the other. An
//!   adaptive adapter cuts through what comes alone, and reads the rest in one piece each.
//!
//! To the host, payload and descriptors are posted writes: they go in order and nobody waits
//! for them, unless as many bytes are under way as may be in flight.
//!
//! Accesses share the bus as its model says; a latency keeps nobody from using it.

mod bus_time;
mod model;

use crate::Access;
use bus_time::BusTime;
pub use model::{BadBusModel, BusModel, Forwarding};
use std::collections::VecDeque;

/// Bytes of a read of payload, at most.
pub const PIECE: u64 = 2048;
/// Bytes of a doorbell.
pub const DOORBELL: u64 = 4;
/// Bytes of a slot of the ring: a descriptor, or what goes on from the one before.
pub const SLOT: u64 = 64;

/// Something that the host has put into its ring.
#[derive(Debug)]
struct Request<T> {
    /// Slots that are still to be fetched for it: 0 if its descriptor is fetched with what stands
    /// before it.
    slots: u32,
    /// Bytes of payload that are read for it.
    payload: u64,
    item: T,
}

/// Payload that is being read, and what it is for.
#[derive(Debug)]
struct Reading<T> {
    unread: u64,
    /// Whether it is handled when its first piece is there: not known before it is begun.
    cuts_through: Option<bool>,
    /// When the first piece is there, if that was asked for; and the last that was.
    first: Option<f64>,
    last: f64,
    item: T,
}

/// What the adapter does about the host's ring.
#[derive(Debug, Clone, Copy)]
enum Fetch {
    /// It waits for its doorbell.
    Idle,
    /// It begins to read at this time.
    Begins(f64),
    /// It has read so many descriptors at this time.
    Ends(f64, u32),
}

/// How much a bus has been used, in all, and what waits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Accesses that were begun.
    pub accesses: u64,
    /// Bytes of descriptors, payload and doorbells to the host and to the adapter, without
    /// what the bus adds.
    pub bytes: [u64; 2],
    /// Nanoseconds that the bus was taken to the host and to the adapter; of a bus that both
    /// directions share, the sum is in the first.
    pub taken_ns: [f64; 2],
    /// Nanoseconds in which anything was under way, or handled by the adapter.
    pub busy_ns: f64,
    /// Requests in the host's ring that the adapter has not fetched.
    pub waiting: usize,
    /// Bytes under way to the adapter and to the host.
    pub in_flight: [u64; 2],
}

/// A queue of transfers of things `T` between a host and an adapter.
#[derive(Debug)]
pub struct TransferEngine<T> {
    model: BusModel,
    bus: BusTime,
    ring: VecDeque<Request<T>>,
    /// The last payload's descriptor follows it.
    is_run_open: bool,
    /// Bytes of the last slot that mean nothing, as the host says with its doorbell.
    unused: u64,
    fetch: Fetch,
    reads: VecDeque<Reading<T>>,
    /// Reads under way: when their data are there, and their bytes.
    reading: VecDeque<(f64, u64)>,
    /// What is at the adapter, and when.
    to_adapter: VecDeque<(f64, T)>,
    adapter_free: f64,
    /// What was posted, when it is in the host's memory, and its bytes.
    to_host: VecDeque<(f64, u64, T)>,
    last_write: f64,
}

impl<T> TransferEngine<T> {
    /// A transfer engine as `model` has it, with nothing in it.
    #[must_use]
    pub fn new(model: BusModel) -> Self {
        Self {
            model,
            bus: BusTime::new(model.bus),
            ring: VecDeque::new(),
            is_run_open: false,
            unused: 0,
            fetch: Fetch::Idle,
            reads: VecDeque::new(),
            reading: VecDeque::new(),
            to_adapter: VecDeque::new(),
            adapter_free: 0.0,
            to_host: VecDeque::new(),
            last_write: 0.0,
        }
    }

    /// What it goes by.
    #[must_use]
    pub fn model(&self) -> &BusModel {
        &self.model
    }

    /// At `now`, the host has put a request into its ring, whose descriptor has so many `bytes`,
    /// [`SLOT`] at most: it stands after all payload that was put before it and belongs to it.
    pub fn put_request(&mut self, now: u64, bytes: u64, item: T) {
        let slots = u64::from(!std::mem::take(&mut self.is_run_open));
        // What ends a run was told of with its payload.
        self.put(now, slots * bytes, 0, item);
    }

    /// At `now`, the host has written payload for which a request follows, whose descriptor has
    /// so many bytes.
    pub fn put_payload(&mut self, now: u64, bytes: u64, descriptor: u64, item: T) {
        // It is by the descriptor that the adapter knows of it.
        let slots = u64::from(!std::mem::replace(&mut self.is_run_open, true));
        self.put(now, slots * descriptor, bytes, item);
    }

    /// At `now`, the host has written payload into the ring, behind the descriptor of the request
    /// that follows: so many bytes with that.
    pub fn put_immediate(&mut self, now: u64, bytes: u64, item: T) {
        self.is_run_open = true;
        self.put(now, bytes, 0, item);
    }

    fn put(&mut self, now: u64, in_ring: u64, payload: u64, item: T) {
        self.advance(now);
        let now = time(now);
        let slots = in_ring.div_ceil(SLOT);
        if slots != 0 {
            self.unused = slots * SLOT - in_ring;
        }
        self.ring.push_back(Request {
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            payload,
            item,
        });
        if matches!(self.fetch, Fetch::Idle) && !self.take_fetched(0, now) {
            let rung = self.bus.access(Access::HostWrite, DOORBELL, now);
            self.fetch = Fetch::Begins(rung);
        }
    }

    /// At `now`, the adapter writes `bytes` to the host, behind all that it has written before;
    /// 0 bytes only keep the order.
    pub fn post(&mut self, now: u64, bytes: u64, item: T) {
        self.advance(now);
        let now = time(now);
        let written = match bytes {
            0 => now,
            _ => self.bus.access(Access::AdapterWrite, bytes, now),
        };
        self.last_write = self.last_write.max(written);
        self.to_host.push_back((self.last_write, bytes, item));
    }

    /// Whether the adapter may write more to the host: it waits while too much is in flight.
    #[must_use]
    pub fn may_post(&self) -> bool {
        self.to_host.is_empty() || self.posted() < self.model.in_flight
    }

    fn posted(&self) -> u64 {
        self.to_host.iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// The next thing that is at the adapter at `now`, and how long it has been, in ns.
    pub fn poll_to_adapter(&mut self, now: u64) -> Option<(u64, T)> {
        self.advance(now);
        let (at, _) = self.to_adapter.front()?;
        let late = time(now) - *at;
        let (_, item) = (late >= 0.0).then(|| self.to_adapter.pop_front())??;
        Some((late as u64, item))
    }

    /// The next thing that is in the host's memory at `now`, and how long it has been, in ns.
    pub fn poll_to_host(&mut self, now: u64) -> Option<(u64, T)> {
        let (at, ..) = self.to_host.front()?;
        let late = time(now) - *at;
        let (.., item) = (late >= 0.0).then(|| self.to_host.pop_front())??;
        Some((late as u64, item))
    }

    /// When something happens next, if nothing else is put.
    #[must_use]
    pub fn next_event(&self) -> Option<u64> {
        let arrivals = [
            self.to_adapter.front().map(|(at, _)| *at),
            self.to_host.front().map(|(at, ..)| *at),
            self.next_step(),
        ];
        let next = arrivals.into_iter().flatten().min_by(f64::total_cmp)?;
        Some(next.ceil() as u64)
    }

    /// Whether nothing is under way to the adapter.
    #[must_use]
    pub fn has_delivered_requests(&self) -> bool {
        self.ring.is_empty() && self.reads.is_empty() && self.to_adapter.is_empty()
    }

    /// Whether nothing is under way at all.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.has_delivered_requests() && self.to_host.is_empty()
    }

    /// How much the bus has been used until `now`, and what waits.
    #[must_use]
    pub fn load(&self, now: u64) -> Load {
        Load {
            waiting: self.ring.len(),
            in_flight: [self.being_read(), self.posted()],
            ..self.bus.load(time(now))
        }
    }

    /// When the adapter does something next.
    fn next_step(&self) -> Option<f64> {
        let fetch = match self.fetch {
            Fetch::Idle => None,
            Fetch::Begins(at) | Fetch::Ends(at, _) => Some(at),
        };
        let read = self.reading.front().filter(|_| !self.reads.is_empty());
        let steps = [fetch, read.map(|(at, _)| *at)];
        steps.into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Does what the adapter does until `now`, each at its time.
    fn advance(&mut self, now: u64) {
        let now = time(now);
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            match self.fetch {
                Fetch::Begins(begins) if begins <= at => self.begin_fetch(at),
                Fetch::Ends(ends, count) if ends <= at => {
                    self.take_fetched(count, at);
                    self.fetch = match self.ring.is_empty() {
                        true => Fetch::Idle,
                        false => Fetch::Begins(at),
                    };
                }
                _ => {}
            }
            self.begin_reads(at);
        }
        self.end_reads(now);
    }

    fn begin_fetch(&mut self, at: f64) {
        let waiting: u32 = self.ring.iter().map(|r| r.slots).sum();
        let count = waiting.min(self.model.fetch);
        // Of what it does not fetch yet it does not know where that ends.
        let unused = if count == waiting { self.unused } else { 0 };
        let bytes = (u64::from(count) * SLOT).saturating_sub(unused);
        let read = self.bus.access(Access::AdapterRead, bytes, at);
        self.fetch = Fetch::Ends(read, count);
    }

    /// The adapter has `count` more descriptors: it reads what belongs to them. Whether the
    /// ring is empty.
    fn take_fetched(&mut self, mut count: u32, at: f64) -> bool {
        while let Some(request) = self.ring.pop_front_if(|r| r.slots <= count) {
            count -= request.slots;
            self.reads.push_back(Reading {
                unread: request.payload,
                cuts_through: None,
                first: None,
                last: at,
                item: request.item,
            });
        }
        // Of what is longer than a batch the rest comes with the next.
        if let Some(request) = self.ring.front_mut() {
            request.slots -= count.min(request.slots);
        }
        self.begin_reads(at);
        self.ring.is_empty()
    }

    /// Bytes of reads under way.
    fn being_read(&self) -> u64 {
        self.reading.iter().map(|(_, bytes)| bytes).sum()
    }

    /// What was read by `at` is under way no more.
    fn end_reads(&mut self, at: f64) {
        while self.reading.front().is_some_and(|(done, _)| *done <= at) {
            self.reading.pop_front();
        }
    }

    /// Begins reads of payload, as many as may be in flight, and passes on what needs none.
    fn begin_reads(&mut self, at: f64) {
        self.end_reads(at);
        let mut in_flight = self.being_read();
        loop {
            let others = self.reads.iter().skip(1).any(|read| read.unread != 0);
            let is_loaded = others || in_flight != 0 || self.ring.iter().any(|r| r.payload != 0);
            let Some(read) = self.reads.front_mut() else {
                return;
            };
            let cuts_through = *read
                .cuts_through
                .get_or_insert(match self.model.forwarding {
                    Forwarding::StoreAndForward => false,
                    Forwarding::CutThrough => true,
                    Forwarding::Adaptive => !is_loaded,
                });
            let most = match (self.model.forwarding, cuts_through) {
                (Forwarding::Adaptive, false) => self.model.in_flight,
                _ => PIECE,
            };
            while read.unread != 0 {
                let bytes = read.unread.min(most);
                if in_flight != 0 && in_flight + bytes > self.model.in_flight {
                    return;
                }
                in_flight += bytes;
                read.unread -= bytes;
                let there = self.bus.access(Access::AdapterRead, bytes, at);
                let last = self
                    .reading
                    .back()
                    .map_or(there, |(last, _)| last.max(there));
                self.reading.push_back((last, bytes));
                read.first.get_or_insert(last);
                read.last = last;
            }
            let Some(read) = self.reads.pop_front() else {
                return;
            };
            self.hand_to_adapter(read);
        }
    }

    /// All reads of a request have begun: when the adapter has handled it is known.
    fn hand_to_adapter(&mut self, read: Reading<T>) {
        let there = match (read.cuts_through, read.first) {
            (Some(true), Some(first)) => first,
            _ => read.last,
        };
        let begins = self.adapter_free.max(there);
        // Payload is handled with its request.
        let takes = match read.first {
            Some(_) => 0,
            None => self.model.adapter_ns,
        };
        self.adapter_free = begins + time(takes);
        self.bus.note_busy(begins, self.adapter_free);
        self.to_adapter.push_back((self.adapter_free, read.item));
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are a hundred days")]
fn time(ns: u64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests;
