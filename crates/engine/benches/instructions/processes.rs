//! Processes that have one listener, each with a thread that sleeps until a connection comes, and
//! another session's question beside them.

use super::{FULL, Others, SMALL, Start, Version, Whole, frame, whole_in, whole_of_many};
use crate::common::Host;
use longshore_hostif::{Geometry, HostChannel, Query, Request, SocketId, SocketKind};
use longshore_ring::Sleep;
use std::sync::atomic::Ordering;

/// Turns in which all processes are heard, or told of a connection, of which some are in each. Twice
/// so many take whole ticks of the engine's timers: so a tick ends in the turn that is counted where it
/// would without them.
pub(super) const SETTLING: usize = 128;
/// Connections that come before the one that is counted.
const BEFORE: u16 = 4;
/// Turns in which what is due after a connection has been told is done: 20 ms of them.
const AFTER: usize = 200;
/// The answer to it is awaited last.
const LAST: u32 = 1_000;

/// The other processes by which `many` in all have a listener, and read what they are told.
#[derive(Default)]
pub(super) struct Processes(Vec<HostChannel>);

impl Processes {
    /// Whether the program is alone.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All have read what they were told, and sleep; `host` is one of them, if there are others.
    pub(super) fn sleep(&mut self, host: &Host) {
        if self.0.is_empty() {
            return;
        }
        for channel in &mut self.0 {
            while channel.get().expect("a ring").is_some() {}
            channel.release();
        }
        let waiters = &host.arena.waiters()[..=self.0.len()];
        waiters.iter().for_each(|w| w.declare(Sleep::Futex));
    }

    /// How many do not sleep any more.
    fn woken(&self, host: &Host) -> usize {
        let waiters = &host.arena.waiters()[..=self.0.len()];
        waiters.iter().filter(|w| !w.is_declared()).count()
    }
}

/// The geometry of a session of so many processes.
pub(super) fn geometry(processes: usize) -> Geometry {
    let places = (processes as u32).next_multiple_of(64);
    Geometry {
        channels: places.max(SMALL.channels),
        waiters: places.max(SMALL.waiters),
        ..SMALL
    }
}

impl Start {
    /// So many processes have the listener, with the program itself, and sleep until a connection
    /// comes.
    pub(super) fn share_listener(&mut self, many: usize) {
        let socket = self.listener;
        let added = self.engine.add_processes(self.host.token, many - 1);
        let added = added.expect("descriptors");
        assert_eq!(added.len(), many - 1);
        let arena = &self.host.arena;
        let end = many as u32;
        arena.header().waiters_end.store(end, Ordering::Release);
        let all = [self.host.channel.index()].into_iter().chain(added.clone());
        for (waiter, channel) in (0..).zip(all) {
            let name = arena.control(channel).pid.load(Ordering::Acquire);
            let owner = &arena.waiters()[waiter as usize].owner;
            owner.store(name, Ordering::Release);
            arena.block(socket.index).add_waiter(waiter);
        }
        let channels = added.into_iter();
        let mut channels: Vec<_> = channels
            .map(|channel| HostChannel::new(arena.clone(), channel))
            .collect();
        for channel in &mut channels {
            channel.put(&Request::Subscribe { socket }).expect("room");
            channel.publish(&self.host.doorbell, true);
        }
        self.processes = Processes(channels);
        (0..SETTLING).for_each(|_| self.turn());
        self.processes.sleep(&self.host);
    }
}

/// As `whole`, where so many processes have the program's listener.
pub(crate) fn whole_among(processes: usize, waiting: bool) -> Box<Whole> {
    let others = Others {
        processes,
        ..Others::default()
    };
    whole_of_many(others, Version::V4, waiting, FULL, true)
}

/// As `whole_among`, and the segment that waits on the wire ends the handshake of a connection that
/// one of the processes is woken for.
pub(crate) fn whole_connecting(processes: usize) -> Box<Whole> {
    let others = Others {
        processes,
        ..Others::default()
    };
    let mut start = Start::new(others, Version::V4, false);
    let socket = start.accept_first();
    start.receive_some(socket, true);
    for from in (2_000..).take(BEFORE.into()) {
        let ack = start.begin_connection(from);
        start.accept(&ack);
        (0..AFTER).for_each(|_| start.turn());
        start.drain_wire();
        start.processes.sleep(&start.host);
    }
    let ack = frame(start.version, &start.begin_connection(1_999), 0);
    start.send(&ack);
    start.end(ack, socket)
}

/// As `whole`, where a program has asked something that the next turn answers: the only one, the
/// only one beside many sessions that ask for nothing, or one of another session than that whose
/// processes have a listener.
pub(crate) fn whole_asked(others: Others) -> Box<Whole> {
    let mut whole = whole_in(Start::new(others, Version::V4, false), false, FULL, true);
    let socket = whole.asker().open(SocketKind::Datagram);
    // What is done for the first time is done.
    for tag in 0..4 {
        whole.ask(socket, tag);
        whole.turn();
        assert!(whole.is_answered(tag));
    }
    whole.ask(socket, LAST);
    whole
}

impl Whole {
    /// The other session's program, if there is one; of many, the others are parked.
    fn asker(&mut self) -> &mut Host {
        match &mut self.idle[..] {
            [other] => other,
            _ => &mut self.host,
        }
    }

    fn ask(&mut self, socket: SocketId, tag: u32) {
        self.asker().put(Request::Query {
            socket,
            tag,
            waiter: None,
            query: Query::SendQueue,
        });
    }

    fn is_answered(&mut self, tag: u32) -> bool {
        let asker = self.asker();
        asker.drain();
        asker.done_with(tag).is_some()
    }

    /// Whether what was asked last is answered.
    pub(crate) fn has_answered(&mut self) -> bool {
        self.is_answered(LAST)
    }

    /// How many processes were woken, and whether a connection waits for them.
    pub(crate) fn woken_for_connection(&mut self) -> (usize, bool) {
        let woken = self.processes.woken(&self.host);
        (woken, self.host.has_record(self.listener))
    }
}
