//! What must be true of a stack between two turns, whatever programs and peers do.
//!
//! [`Endpoints::check`] looks at everything: tests, simulations and fuzzing have it done after each turn
//! ([`Stack::check`](crate::Stack::check)), and in debug builds every stack does so itself at the
//! end of a turn.

use super::Endpoints;
use crate::demux::{Found, Waiting};
use crate::pair_end::Pair;
use crate::socket::{Connection, Kind, Socket};
use crate::sockets::Sockets;
use crate::violation::{Violation, holds};
use longshore_hostif::NONE;
use longshore_hostif::adapter::ReceiveStream;
use std::collections::BTreeMap;

/// So many sockets and sessions are all looked at after each turn in debug builds; more after
/// ever fewer turns: sixty thousand must not make tests of many sockets slow.
#[cfg(debug_assertions)]
const EACH_TURN: u64 = 64;

/// Whether the end of this turn is one at which all is looked at, where so many sockets and
/// sessions are.
#[cfg(debug_assertions)]
pub(crate) fn is_due(turn: u64, count: usize) -> bool {
    turn.is_multiple_of(1 + (count as u64 / EACH_TURN).pow(2))
}

impl Endpoints {
    /// Whether they agree with each other.
    ///
    /// # Errors
    /// The first [`Violation`] that is found.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        self.sockets.check()?;
        self.sessions.check()?;
        for (key, socket) in self.sockets.iter() {
            self.check_socket(key, socket)?;
        }
        self.check_tables()?;
        self.check_half_open()?;
        self.check_sessions()
    }

    /// Whether the tables have nothing of sockets that are gone.
    fn check_tables(&self) -> Result<(), Violation> {
        let has_flow = |s: &Socket| match &s.kind {
            Kind::Stream(c) => !c.is_over,
            Kind::Pair(p) => p.flow.is_some(),
            _ => false,
        };
        let flows = self.sockets.iter().filter(|(_, s)| has_flow(s)).count();
        let flows = flows + self.half_open.len();
        let is_right = self.demux.flows() == flows;
        holds(is_right, NONE, "a flow belongs to no socket, or to two")?;
        for (key, peer) in self.demux.tcp.users().chain(self.demux.udp.users()) {
            let socket = self.sockets.get(key);
            holds(socket.is_some(), key, "it is bound and gone")?;
            let own = socket.and_then(|socket| socket.kind.datagram_peer());
            holds(own == peer, key, "it is found by a peer that it has not")?;
        }
        let ends = |w: &Waiting| !w.record.expires().is_never() && w.alarm.is_sound();
        let do_end = self.demux.all_waiting().all(ends);
        holds(do_end, NONE, "no timer ends a TIME-WAIT")
    }

    /// Whether each half-open connection is found, and its listener there unless it is given up.
    fn check_half_open(&self) -> Result<(), Violation> {
        for (key, half) in self.half_open.iter() {
            let listener = self.half_open.listener_of(half);
            let name = listener.unwrap_or(NONE);
            let is_found = self.demux.peek(&half.flow) == Some(Found::HalfOpen(key));
            holds(is_found, name, "a half-open connection is not found")?;
            let listens = |key| {
                let socket = self.sockets.get(key);
                socket.is_some_and(|s| matches!(s.kind, Kind::Listener(_)))
            };
            let is_right = listener.map_or_else(|| self.half_open.are_given_up(), listens);
            holds(is_right, name, "a half-open connection has no listener")?;
            let ends = half.alarm.is_sound() && !half.record.retransmit_at().is_never();
            holds(
                ends || listener.is_none(),
                name,
                "no timer ends a half-open connection",
            )?;
        }
        Ok(())
    }

    /// Whether each session has as many sockets and chunks as its sockets say.
    fn check_sessions(&self) -> Result<(), Violation> {
        let mut of_sessions: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        for (_, socket) in self.sockets.iter().filter(|(_, s)| s.has_block()) {
            let (sockets, chunks) = of_sessions.entry(socket.session).or_default();
            *sockets += 1;
            *chunks += socket
                .kind
                .receive_stream()
                .map_or(0, ReceiveStream::chunks);
        }
        for (key, session) in self.sessions.iter() {
            let (sockets, mut chunks) = of_sessions.remove(&key).unwrap_or_default();
            chunks += session.forwards.remaining_chunks();
            let is_right = session.sockets() == sockets;
            holds(is_right, NONE, "a session miscounts its sockets")?;
            if session.is_condemned() {
                continue;
            }
            for (name, source) in session.forwards.keys() {
                let socket = self.sockets.get(source);
                let own = socket.and_then(|s| s.forwarding.as_ref()?.source());
                holds(
                    own == Some(name),
                    source,
                    "others send of what is not its own",
                )?;
            }
            let in_use = u64::from(session.host.receive.in_use());
            holds(in_use == chunks, NONE, "chunks are in use in no stream")?;
        }
        Ok(())
    }

    fn check_socket(&self, key: u32, socket: &Socket) -> Result<(), Violation> {
        if socket.has_block() {
            let session = self.sessions.get(socket.session);
            let found = session.and_then(|s| s.key(socket.id.index));
            holds(found == Some(key), key, "its session does not know it")?;
        }
        match &socket.kind {
            Kind::Stream(c) => self.check_connection(key, socket, c),
            Kind::Pair(p) => self.check_pair(key, socket, p),
            Kind::Listener(l) => {
                let half_open = self.half_open.in_queue(l.half_open);
                for child in half_open {
                    let child = self.half_open.get(*child);
                    let its = child.and_then(|half| self.half_open.listener_of(half));
                    holds(
                        its == Some(key),
                        key,
                        "a half-open connection is not its own",
                    )?;
                }
                let is_counted = l.listener.half_open() as usize == half_open.len();
                holds(is_counted, key, "it miscounts its half-open connections")?;
                let is_counted = l.listener.waiting() as usize == l.queue.len();
                holds(is_counted, key, "it miscounts those that wait for accept")?;
                holds(l.rcv_consumed <= l.rcv_edge, key, "more accepted than came")
            }
            Kind::Datagram(d) => {
                holds(d.rcv_consumed <= d.rcv_edge, key, "more read than came")?;
                holds(d.snd_done <= d.snd_edge, key, "more sent than written")
            }
            Kind::Idle(_) => Ok(()),
        }
    }

    fn check_pair(&self, key: u32, socket: &Socket, p: &Pair) -> Result<(), Violation> {
        let is_moved = p.snd.done() <= p.snd.moved() && p.snd.moved() <= p.snd.edge();
        holds(is_moved, key, "more is done with than moved, or written")?;
        holds(p.rcv.consumed() <= p.rcv.edge(), key, "more read than came")?;
        let is_found = |flow| self.demux.peek(flow) == Some(Found::Socket(key));
        holds(
            p.flow.as_ref().is_none_or(is_found),
            key,
            "its connection is another's",
        )?;
        if p.other == key {
            return holds(!p.rcv.is_lent(), key, "it lends to itself");
        }
        let other = self.sockets.get(p.other);
        if p.dead.is_none() && !p.connecting {
            let is_other =
                p.other == NONE || other.is_some_and(|o| matches!(o.kind, Kind::Pair(_)));
            holds(is_other, key, "its other end is none")?;
        }
        if !p.rcv.is_lent() || (socket.orphan && !socket.is_lent_on(&self.sessions)) {
            return Ok(());
        }
        let lends = other.is_some_and(|o| match &o.kind {
            Kind::Pair(q) => {
                let is_kept = q.snd.done() <= p.rcv.kept_from();
                q.other == key && o.session == socket.session && o.has_block() && is_kept
            }
            _ => false,
        });
        holds(lends, key, "it reads in chunks that nobody keeps for it")
    }

    fn check_connection(&self, key: u32, socket: &Socket, c: &Connection) -> Result<(), Violation> {
        if let Err(violation) = c.tcb.check() {
            panic!("connection {key}: {violation:?}");
        }
        // One that is over has its port no more, if the next attempt came to nothing.
        let is_bound = socket.bound.local().is_some() || c.is_over;
        holds(is_bound, key, "it has no local address")?;
        if !c.is_over {
            let found = self.demux.peek(&c.flow);
            let is_found = found == Some(Found::Socket(key));
            holds(is_found, key, "its segments do not find it")?;
        }
        let is_reported = c.reported.rcv_edge <= c.tcb.rcv_edge();
        holds(is_reported, key, "more was told than came")?;
        holds(
            c.reported.snd_acked <= c.tcb.snd_acked(),
            key,
            "more was told than acknowledged",
        )
    }
}

impl Sockets {
    /// Whether each is on the lists that it says it is on, and its timer is set.
    fn check(&self) -> Result<(), Violation> {
        let mut listed: Vec<u32> = self.dirty.clone();
        listed.sort_unstable();
        let unique = listed.is_sorted_by(|one, next| one < next);
        holds(unique, NONE, "a socket is on the list of the turn twice")?;
        for (key, socket) in self.iter() {
            let is_listed = listed.binary_search(&key).is_ok();
            let waits = !self.waiting_sessions.is_empty();
            holds(
                !is_listed || socket.dirty,
                key,
                "it is listed and does not know",
            )?;
            holds(is_listed || waits || !socket.dirty, key, "it is not listed")?;
            if !socket.dirty {
                let is_armed = socket.alarm.is_sound();
                holds(is_armed, key, "no timer goes off in time")?;
            }
        }
        Ok(())
    }
}
