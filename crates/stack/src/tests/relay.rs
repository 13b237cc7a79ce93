//! A connection that the program passes on to another, both ways, as a proxy does: what lies
//! where it was received is sent from there, the rest copied.
//!
//! Owns [`Relay`]; `program` has those of its connections, and calls it.

use super::program::Program;
use super::streams::{append, copy_out, forward, give_back};
use super::talk::{NO_SOCKET, RETRY_US, SEND_BUFFER, SILENCE_US, TRIES};
use longshore_hostif::{EdgeFlags, Edges, LEAST_FORWARD, Request, SocketId, SocketKind};
use longshore_tcp::Instant;
use std::net::SocketAddr;

/// Most bytes that are passed on at once.
const PIECE: u64 = 64 * 1024;
/// Of so many pieces one is copied, however long it is: what was copied may be lent to the other
/// end, and unread when others follow that cannot be.
const A_COPY_IN: u64 = 4;

/// One of its connections.
#[derive(Debug)]
struct End {
    socket: SocketId,
    edges: Edges,
    written: u64,
    read: u64,
    /// Nothing more is written to it.
    shut: bool,
    /// Pieces that were passed on to it.
    pieces: u64,
    /// The number of the first chunk of its send stream that it has.
    first_chunk: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The second connection is to be opened, at the earliest then.
    Idle(Instant),
    /// The answer has this tag.
    Connecting(u32),
    Open,
    Over,
}

/// The connection that was accepted, and the one that was opened for it.
#[derive(Debug)]
pub(super) struct Relay {
    ends: [End; 2],
    to: SocketAddr,
    phase: Phase,
    tries: u32,
    heard_at: Instant,
}

impl End {
    fn new(socket: SocketId, edges: Edges) -> Self {
        Self {
            socket,
            edges,
            written: 0,
            read: 0,
            shut: false,
            pieces: 0,
            first_chunk: 0,
        }
    }

    fn unread(&self) -> u64 {
        self.edges.rcv_edge - self.read
    }

    /// All that ever comes was read.
    fn has_ended(&self) -> bool {
        self.edges.flags.contains(EdgeFlags::PEER_FIN) && self.unread() == 0
    }

    fn is_dead(&self) -> bool {
        self.edges.flags.contains(EdgeFlags::DEAD)
    }
}

impl Relay {
    /// Passes on to `to` what comes over a connection of which nothing was read.
    pub(super) fn new(accepted: (SocketId, Edges), to: SocketAddr, now: Instant) -> Self {
        let (socket, edges) = accepted;
        Self {
            ends: [
                End::new(socket, edges),
                End::new(NO_SOCKET, Edges::default()),
            ],
            to,
            phase: Phase::Idle(now),
            tries: 0,
            heard_at: now,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The stack has said something of one of its connections; `false` if it is of another.
    pub(super) fn take_edges(&mut self, socket: SocketId, edges: &Edges, now: Instant) -> bool {
        let Some(end) = self.ends.iter_mut().find(|end| end.socket == socket) else {
            return false;
        };
        assert!(
            edges.snd_acked <= end.written,
            "more acknowledged than written"
        );
        end.edges.rcv_edge = end.edges.rcv_edge.max(edges.rcv_edge);
        end.edges.snd_acked = end.edges.snd_acked.max(edges.snd_acked);
        end.edges.flags |= edges.flags;
        self.heard_at = now;
        true
    }

    /// When it does something by itself.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle(at) => Some(at),
            Phase::Connecting(_) | Phase::Open => Some(self.heard_at.after_us(SILENCE_US)),
            Phase::Over => None,
        }
    }
}

impl Program {
    pub(super) fn relay(&mut self, relay: &mut Relay, now: Instant) {
        match relay.phase {
            Phase::Idle(at) if at <= now => self.open_onward(relay, now),
            Phase::Idle(_) | Phase::Over => {}
            Phase::Connecting(tag) => {
                let refused = self.answers.remove(&tag).is_some_and(|errno| errno != 0);
                let flags = relay.ends[1].edges.flags;
                if refused || flags.contains(EdgeFlags::DEAD) {
                    self.try_later(relay, now);
                } else if flags.contains(EdgeFlags::CONNECTED) {
                    relay.phase = Phase::Open;
                    self.pass_on(relay, now);
                }
            }
            Phase::Open => self.pass_on(relay, now),
        }
    }

    fn open_onward(&mut self, relay: &mut Relay, now: Instant) {
        let Some(socket) = self.open(SocketKind::Stream, relay.to.is_ipv6()) else {
            relay.phase = Phase::Idle(now.after_us(RETRY_US));
            return;
        };
        relay.tries += 1;
        relay.heard_at = now;
        relay.ends[1] = End::new(socket, Edges::default());
        let tag = self.tag();
        self.put(Request::Connect {
            socket,
            tag,
            waiter: None,
            peer: relay.to.into(),
        });
        relay.phase = Phase::Connecting(tag);
    }

    fn try_later(&mut self, relay: &mut Relay, now: Instant) {
        self.close_end(&mut relay.ends[1], None);
        if relay.tries < TRIES {
            relay.phase = Phase::Idle(now.after_us(RETRY_US));
        } else {
            self.end_relay(relay, Some(0));
        }
    }

    fn pass_on(&mut self, relay: &mut Relay, now: Instant) {
        let [accepted, opened] = &mut relay.ends;
        self.pass_one_way(accepted, opened);
        self.pass_one_way(opened, accepted);
        let is_silent = relay.heard_at.after_us(SILENCE_US) <= now;
        if is_silent || relay.ends.iter().any(End::is_dead) {
            // An end that has not got all of it is told.
            self.end_relay(relay, Some(0));
        } else if relay.ends.iter().all(|end| end.shut) {
            self.end_relay(relay, None);
        }
    }

    fn pass_one_way(&mut self, from: &mut End, to: &mut End) {
        let acknowledged = to.edges.snd_acked;
        to.first_chunk = give_back(self.arena(), to.socket.index, to.first_chunk, acknowledged);
        let room = SEND_BUFFER.saturating_sub(to.written - acknowledged);
        let len = from.unread().min(room).min(PIECE);
        if len >= LEAST_FORWARD && !to.pieces.is_multiple_of(A_COPY_IN) {
            self.pass_by_reference(from, to, len);
        } else if len != 0 && (len >= LEAST_FORWARD || from.unread() == len) {
            self.pass_copy(from, to, len);
        }
        if from.has_ended() && !to.shut {
            to.shut = true;
            self.say(to, EdgeFlags::SHUT_WR);
        }
    }

    fn pass_by_reference(&mut self, from: &mut End, to: &mut End, len: u64) {
        let sink = (to.socket.index, to.written);
        let source = (from.socket.index, from.read);
        let edge = forward(self.arena(), sink, source, len);
        let moved = edge - to.written;
        if moved == 0 {
            return;
        }
        (to.written, from.read) = (edge, from.read + moved);
        to.pieces += 1;
        self.put(Request::Forward {
            socket: to.socket,
            snd_edge: edge,
            rcv_consumed: to.read,
            flags: EdgeFlags::PUSH,
            source: from.socket,
            from: source.1,
            to: from.read,
        });
    }

    fn pass_copy(&mut self, from: &mut End, to: &mut End, len: u64) {
        let mut bytes = vec![0; len as usize];
        copy_out(self.arena(), from.socket.index, from.read, &mut bytes);
        let edge = append(self.arena(), to.socket.index, to.written, &bytes);
        from.read += edge - to.written;
        to.written = edge;
        to.pieces += 1;
        self.say(to, EdgeFlags::PUSH);
        self.say(from, EdgeFlags::empty());
    }

    fn say(&mut self, end: &End, flags: EdgeFlags) {
        self.put(Request::Edges {
            socket: end.socket,
            snd_edge: end.written,
            rcv_consumed: end.read,
            flags,
            immediate: 0,
        });
    }

    fn end_relay(&mut self, relay: &mut Relay, linger: Option<u32>) {
        for end in &mut relay.ends {
            self.close_end(end, linger);
        }
        relay.phase = Phase::Over;
    }

    fn close_end(&mut self, end: &mut End, linger: Option<u32>) {
        let socket = std::mem::replace(&mut end.socket, NO_SOCKET);
        if socket == NO_SOCKET {
            return;
        }
        self.leave(socket);
        self.put(Request::Close {
            socket,
            snd_edge: end.written,
            rcv_consumed: end.read,
            linger,
        });
    }
}
