//! A modelled bus between the two ends of a link: what one sends is at the other when the bus
//! would have carried it.
//!
//! [`Modelled`] stands at the engine's end, which is the adapter: it gives each message to the
//! transfer engine of the crate `bus`, on real time, and passes it on when that says so. So
//! requests cost a doorbell, a fetch and reads, and what the adapter writes is posted.

use crate::byte_stream::{ByteStream, HandshakeError};
use crate::protocol::{FRAME_HEADER, Message, Transfer, first_frame};
use longshore_bus::{BusModel, Load, SLOT, TransferEngine};
use longshore_hostif::{Completion, MAX_IMMEDIATE, Request};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes that wait for the adapter before no more are taken from the host: the ring's and the
/// streams' part in host memory.
const WAITING: usize = 1024 * 1024;
/// How often it is reported what the bus has done.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How long shares are taken over, if something happens so long.
const WINDOW: Duration = Duration::from_secs(1);
/// After nothing has happened for so long, they are taken anew.
const PAUSE: Duration = Duration::from_millis(500);
/// A share of time from which on something counts as what limits the rate.
const MOST: f64 = 0.9;

/// Shares of a time, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// The bus was taken to the host.
    pub to_host: f64,
    /// The bus was taken to the adapter.
    pub to_adapter: f64,
    /// Anything was under way, or handled by the adapter.
    pub busy: f64,
}

impl Usage {
    fn between(before: &Load, after: &Load, time: Duration) -> Self {
        let ns = (time.as_secs_f64() * 1e9).max(1.0);
        let share = |before: f64, after: f64| ((after - before) / ns).clamp(0.0, 1.0);
        Self {
            to_host: share(before.taken_ns[0], after.taken_ns[0]),
            to_adapter: share(before.taken_ns[1], after.taken_ns[1]),
            busy: share(before.busy_ns, after.busy_ns),
        }
    }

    /// What limits the rate: the bus if it is taken all of the time, its latency if something
    /// is always under way, and the host else, whose programs and engine are not as fast as
    /// this bus.
    #[must_use]
    pub fn limit(&self) -> &'static str {
        if self.to_host.max(self.to_adapter) >= MOST {
            "bus"
        } else if self.busy >= MOST {
            "latency"
        } else {
            "host"
        }
    }
}

/// What a modelled bus has done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// What it has carried, and what waits.
    pub load: Load,
    /// How much it was used of late: in a second, or since something happens at all.
    pub usage: Usage,
    /// Nanoseconds by which messages were passed on later than they were there, on average: the
    /// host's doing.
    pub late_ns: u64,
}

/// Bytes that are taken off at their beginning.
#[derive(Debug, Default)]
struct Bytes {
    all: Vec<u8>,
    taken: usize,
}

impl Bytes {
    fn rest(&self) -> &[u8] {
        &self.all[self.taken..]
    }

    /// Takes `len` of the rest. Each byte is moved once at most on average.
    fn take(&mut self, len: usize) {
        self.taken += len;
        if self.taken > self.all.len() / 2 {
            self.all.drain(..self.taken);
            self.taken = 0;
        }
    }
}

/// Where payload lies in the host's memory.
enum Place {
    /// In the ring, of which it takes so many bytes with its descriptor.
    Ring(u64),
    /// In chunks of its stream.
    Chunks,
}

/// Bytes of the descriptor of edges that are told in three words, as that of payload is.
const EDGES: u64 = 24;

/// Bytes that a message takes in the ring of requests, or of completions, if it is a descriptor.
fn ring_bytes(kind: u32, body: &[u8], of: impl Fn(&[u64; 8]) -> Option<u32>) -> Option<u64> {
    match Message::decode(kind, body) {
        Ok(Message::Descriptor(words)) => of(&words).map(u64::from),
        _ => None,
    }
}

fn of_request(words: &[u64; 8]) -> Option<u32> {
    let request = Request::decode(words).ok()?;
    Some(request.without_immediate().ring_bytes())
}

fn of_completion(words: &[u64; 8]) -> Option<u32> {
    Some(Completion::decode(words).ok()?.ring_bytes())
}

/// Where `bytes` of payload lie whose message `rest` follows: in the ring if the next one is the
/// request that has them as its immediate data, all of them and no others. `None` if that has not
/// come.
fn place_of(bytes: u64, rest: &[u8]) -> Option<Place> {
    let len = u16::try_from(bytes).ok();
    let Some(len) = len.filter(|len| usize::from(*len) <= MAX_IMMEDIATE) else {
        return Some(Place::Chunks);
    };
    let (kind, body) = match first_frame(rest) {
        Ok(frame) => frame?,
        Err(_) => return Some(Place::Chunks),
    };
    let request = match Message::decode(kind, body) {
        Ok(Message::Descriptor(words)) => Request::decode(&words).ok(),
        _ => None,
    };
    Some(match request {
        Some(request @ Request::Edges { immediate, .. }) if immediate == len => {
            Place::Ring(request.ring_bytes().into())
        }
        _ => Place::Chunks,
    })
}

/// A byte stream behind a modelled bus: this end is the adapter.
pub struct Modelled<C> {
    stream: C,
    /// Messages by their bytes: these stand in `incoming` and `outgoing`.
    engine: TransferEngine<usize>,
    began: Instant,
    /// From the host: what was not passed on, and how much of it the transfer engine knows.
    incoming: Bytes,
    known: usize,
    /// To the host: what was not sent, and how much of it may be.
    outgoing: Bytes,
    released: usize,
    /// The byte stream took less than there was.
    is_held_up: bool,
    /// The byte stream has ended; said when all that came before has been passed on.
    ended: Option<HandshakeError>,
    /// Messages passed on, and by how much they were late.
    passed: (u64, u64),
    reporting: Option<Reporting>,
}

/// Where the bus is reported to, and what was reported last.
struct Reporting {
    tell: Box<dyn FnMut(&Report)>,
    at: Instant,
    is_due: bool,
    /// When something happened last.
    active: Instant,
    /// What it had done at each report of the window, the oldest first.
    window: VecDeque<(Instant, Load)>,
}

impl Reporting {
    fn to(tell: impl FnMut(&Report) + 'static, now: Instant) -> Self {
        Self {
            tell: Box::new(tell),
            at: now,
            is_due: true,
            active: now,
            window: VecDeque::from([(now, Load::default())]),
        }
    }

    /// Something happens.
    fn note(&mut self, now: Instant, load: impl FnOnce(Instant) -> Load) {
        if now.saturating_duration_since(self.active) > PAUSE {
            self.window.clear();
            self.window.push_back((now, load(now)));
        }
        self.active = now;
        self.is_due = true;
    }

    /// Tells of it, if it is time to.
    fn report(&mut self, now: Instant, load: impl FnOnce(Instant) -> Load, late_ns: u64) {
        if !self.is_due || now < self.at {
            return;
        }
        self.is_due = false;
        self.at = now + REPORT_EVERY;
        let load = load(self.active);
        self.window.push_back((self.active, load));
        while let Some((since, _)) = self.window.get(1)
            && self.active.saturating_duration_since(*since) >= WINDOW
        {
            self.window.pop_front();
        }
        let (since, before) = self.window[0];
        let time = self.active.saturating_duration_since(since);
        (self.tell)(&Report {
            load,
            usage: Usage::between(&before, &load, time),
            late_ns,
        });
    }
}

impl<C: ByteStream> Modelled<C> {
    /// Puts a bus before `stream`.
    #[must_use]
    pub fn new(stream: C, model: BusModel) -> Self {
        Self {
            stream,
            engine: TransferEngine::new(model),
            began: Instant::now(),
            incoming: Bytes::default(),
            known: 0,
            outgoing: Bytes::default(),
            released: 0,
            is_held_up: false,
            ended: None,
            passed: (0, 0),
            reporting: None,
        }
    }

    /// Has `tell` called from time to time while anything happens.
    #[must_use]
    pub fn reporting_to(mut self, tell: impl FnMut(&Report) + 'static) -> Self {
        self.reporting = Some(Reporting::to(tell, Instant::now()));
        self
    }

    fn now(&self) -> u64 {
        nanoseconds(self.began, Instant::now())
    }

    /// Gives the transfer engine the whole messages that the host has sent.
    fn put_requests(&mut self) {
        if self.known < self.incoming.rest().len() {
            self.note();
        }
        let now = self.now();
        while self.known < self.incoming.rest().len() {
            let rest = &self.incoming.rest()[self.known..];
            let (transfer, descriptor, len) = match first_frame(rest) {
                Ok(Some((kind, body))) => (
                    Transfer::of(kind, body.len()),
                    ring_bytes(kind, body, of_request).unwrap_or(SLOT),
                    FRAME_HEADER + body.len(),
                ),
                Ok(None) => return,
                // A descriptor that means nothing is refused by the end that takes it.
                Err(_) => (Transfer::Nothing, SLOT, rest.len()),
            };
            match transfer {
                Transfer::Payload(bytes) => match place_of(bytes, &rest[len..]) {
                    Some(Place::Ring(bytes)) => self.engine.put_immediate(now, bytes, len),
                    None if self.ended.is_none() => return,
                    Some(Place::Chunks) | None => {
                        self.engine.put_payload(now, bytes, EDGES, len);
                    }
                },
                _ => self.engine.put_request(now, descriptor, len),
            }
            self.known += len;
        }
    }

    /// Lets go what has arrived in the host's memory.
    fn release(&mut self) {
        let now = self.now();
        while let Some((late, len)) = self.engine.poll_to_host(now) {
            self.note_passed(late);
            self.released += len;
        }
    }

    fn note_passed(&mut self, late: u64) {
        self.passed.0 += 1;
        self.passed.1 += late;
        self.note();
    }

    fn note(&mut self) {
        let load = |now| self.engine.load(nanoseconds(self.began, now));
        if let Some(reporting) = &mut self.reporting {
            reporting.note(Instant::now(), load);
        }
    }

    fn report(&mut self) {
        let (count, late) = self.passed;
        let late_ns = late.checked_div(count).unwrap_or(0);
        let load = |now| self.engine.load(nanoseconds(self.began, now));
        if let Some(reporting) = &mut self.reporting {
            reporting.report(Instant::now(), load, late_ns);
        }
    }
}

fn nanoseconds(from: Instant, to: Instant) -> u64 {
    to.saturating_duration_since(from).as_nanos() as u64
}

impl<C: ByteStream> ByteStream for Modelled<C> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    fn receive(&mut self, to: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        self.report();
        while self.wants_input() {
            match self.stream.receive(&mut self.incoming.all) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.ended = Some(error),
            }
        }
        self.put_requests();
        let (now, mut len) = (self.now(), 0);
        while let Some((late, message)) = self.engine.poll_to_adapter(now) {
            self.note_passed(late);
            len += message;
        }
        to.extend_from_slice(&self.incoming.rest()[..len]);
        self.incoming.take(len);
        self.known -= len;
        match self.ended {
            Some(error) if len == 0 && self.engine.has_delivered_requests() => Err(error),
            _ => Ok(len != 0),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        self.note();
        let (now, mut taken) = (self.now(), 0);
        while self.engine.may_post()
            && let Ok(Some((kind, body))) = first_frame(&bytes[taken..])
        {
            let len = FRAME_HEADER + body.len();
            let written = match Transfer::of(kind, body.len()) {
                Transfer::Control(bytes) => ring_bytes(kind, body, of_completion).unwrap_or(bytes),
                Transfer::Payload(bytes) => bytes,
                Transfer::Nothing => 0,
            };
            self.engine.post(now, written, len);
            taken += len;
        }
        self.outgoing.all.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> Result<bool, HandshakeError> {
        self.release();
        self.is_held_up = !self.stream.flush()?;
        while !self.is_held_up && self.released != 0 {
            let sent = self.stream.send(&self.outgoing.rest()[..self.released])?;
            self.outgoing.take(sent);
            self.released -= sent;
            self.is_held_up = !self.stream.flush()?;
        }
        Ok(self.outgoing.rest().is_empty() && !self.is_held_up)
    }

    fn wants_room(&self) -> bool {
        self.is_held_up
    }

    fn wants_input(&self) -> bool {
        self.ended.is_none() && self.incoming.rest().len() < WAITING
    }

    fn next_at(&self) -> Option<Instant> {
        let event = self.engine.next_event();
        let event = event.map(|ns| self.began + Duration::from_nanos(ns));
        let report = self.reporting.as_ref().filter(|r| r.is_due).map(|r| r.at);
        event.into_iter().chain(report).min()
    }
}

#[cfg(test)]
mod tests;
