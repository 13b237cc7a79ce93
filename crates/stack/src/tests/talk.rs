//! One end of a connection of a machine's program: what it is to write and to read, and how far
//! it is.
//!
//! Owns [`Talk`]; `program` steps it whenever the machine runs.

use super::program::Program;
use super::relay::Relay;
use super::responses::Response;
use super::streams::{append, copy_out, give_back};
use longshore_hostif::{EdgeFlags, Edges, MAX_IMMEDIATE, Request, SocketId, SocketKind};
use longshore_tcp::Instant;
use std::net::SocketAddr;

/// Bytes written and not acknowledged, at most.
pub(super) const SEND_BUFFER: u64 = 100_000;

/// After a connection could not be opened, when it is tried again, in microseconds.
pub(super) const RETRY_US: u64 = 500_000;

/// How often.
pub(super) const TRIES: u32 = 40;

/// A connection on which nothing has happened for so long is given up, in microseconds: the
/// reset of a peer that is gone may be lost, and a segment that came late may pass for the
/// end of a handshake with a cookie.
pub(super) const SILENCE_US: u64 = 900_000_000;

pub(super) const NO_SOCKET: SocketId = SocketId {
    index: longshore_ring::NONE,
    generation: 0,
};

/// What one end of a connection is to write and to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Bytes to be written and read.
    pub(super) out: u64,
    pub(super) back: u64,
    /// Bytes written and read at a time.
    pub(super) piece: u64,
    /// How long the reader pauses after each piece, in microseconds.
    pub(super) pause_us: u64,
    /// How the server answers, if it does so as a web server.
    pub(super) response: Option<Response>,
}

/// Byte `at` of what the client, or else the server, of connection `number` writes.
fn byte(number: u16, of_client: bool, at: u64) -> u8 {
    let seed = u64::from(number) << 1 | u64::from(of_client);
    ((at ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// To be opened, at the earliest then.
    Idle(Instant),
    Connecting,
    Open,
    Over,
    /// It is passed on, and is a talk no more.
    PassedOn,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Talk {
    number: u16,
    pub(super) plan: Plan,
    /// Where to, if it is the client.
    to: Option<SocketAddr>,
    phase: Phase,
    pub(super) socket: SocketId,
    tag: u32,
    tries: u32,
    edges: Edges,
    pub(super) written: u64,
    pub(super) read: u64,
    read_at: Instant,
    /// When the stack has said something of it last.
    heard_at: Instant,
    pub(super) shut: bool,
    /// Calls that the server has made to answer the request that it is at.
    pub(super) calls: u32,
    /// When it makes the next.
    pub(super) call_at: Instant,
    /// The number of the first chunk of its send stream that it has.
    first_chunk: u64,
    error: Option<u16>,
}

/// How the connections of a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not yet.
    Open,
    /// Everything was written and read.
    Whole,
    /// By an error, or with the end of what the peer wrote too early.
    Short,
}

impl Talk {
    /// A client's, which connects to `to` from `at` on.
    pub(super) fn begun_at(at: Instant, number: u16, plan: Plan, to: SocketAddr) -> Self {
        Self {
            to: Some(to),
            ..Self::new(number, plan, Phase::Idle(at), Instant(0))
        }
    }

    /// A server's, whose number the client's first byte says.
    pub(super) fn accepted(socket: SocketId, plan: Plan, now: Instant) -> Self {
        Self {
            socket,
            ..Self::new(u16::MAX, plan, Phase::Open, now)
        }
    }

    fn new(number: u16, plan: Plan, phase: Phase, now: Instant) -> Self {
        Self {
            number,
            plan,
            to: None,
            phase,
            socket: NO_SOCKET,
            tag: 0,
            tries: 0,
            edges: Edges::default(),
            written: 0,
            read: 0,
            read_at: now,
            heard_at: now,
            shut: false,
            calls: 0,
            call_at: Instant(0),
            first_chunk: 0,
            error: None,
        }
    }

    /// Where its edges are, as it tells that.
    pub(super) fn moved(&self, flags: EdgeFlags, immediate: u16) -> Request {
        Request::Edges {
            socket: self.socket,
            snd_edge: self.written,
            rcv_consumed: self.read,
            flags,
            immediate,
        }
    }

    /// The number of its connection, `u16::MAX` while it is not known.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Whether its connection is one that is passed on.
    pub(super) fn is_passed_on(&self) -> bool {
        self.phase == Phase::PassedOn
    }

    /// How it ended.
    pub(super) fn outcome(&self) -> Outcome {
        let is_whole = self.read == self.plan.back && self.written == self.plan.out;
        match self.phase {
            Phase::Over if is_whole && self.error.is_none() => Outcome::Whole,
            Phase::Over => Outcome::Short,
            _ => Outcome::Open,
        }
    }

    /// When it does something by itself.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle(at) => Some(at),
            Phase::Open if self.edges.rcv_edge > self.read => Some(self.read_at),
            Phase::Open if self.calls != 0 => Some(self.call_at),
            Phase::Open => Some(self.heard_at.after_us(SILENCE_US)),
            _ => None,
        }
    }

    /// The stack has said where the edges are.
    pub(super) fn take_edges(&mut self, edges: &Edges, now: Instant) {
        self.heard_at = now;
        assert!(
            edges.snd_acked <= self.written,
            "more acknowledged than written"
        );
        self.edges.rcv_edge = self.edges.rcv_edge.max(edges.rcv_edge);
        self.edges.snd_acked = self.edges.snd_acked.max(edges.snd_acked);
        self.edges.flags |= edges.flags;
        if edges.errno != 0 {
            self.edges.errno = edges.errno;
        }
    }
}

impl Program {
    pub(super) fn go_on(&mut self, talk: &mut Talk, now: Instant) {
        match talk.phase {
            Phase::Idle(at) if at <= now => self.begin(talk, now),
            Phase::Idle(_) | Phase::Over | Phase::PassedOn => {}
            Phase::Connecting => {
                if let Some(errno) = self.answers.remove(&talk.tag)
                    && errno != 0
                {
                    return self.fail(talk, errno, now);
                }
                let flags = talk.edges.flags;
                if flags.contains(EdgeFlags::DEAD) {
                    self.fail(talk, talk.edges.errno, now);
                } else if flags.contains(EdgeFlags::CONNECTED) {
                    talk.phase = Phase::Open;
                    self.talk(talk, now);
                }
            }
            Phase::Open => self.talk(talk, now),
        }
    }

    fn begin(&mut self, talk: &mut Talk, now: Instant) {
        let Some(socket) = self.open(SocketKind::Stream, talk.to.is_some_and(|to| to.is_ipv6()))
        else {
            talk.phase = Phase::Idle(now.after_us(RETRY_US));
            return;
        };
        talk.tries += 1;
        talk.socket = socket;
        talk.edges = Edges::default();
        talk.tag = self.tag();
        let peer = talk.to.unwrap().into();
        self.put(Request::Connect {
            socket,
            tag: talk.tag,
            waiter: None,
            peer,
        });
        talk.phase = Phase::Connecting;
    }

    /// It could not be opened: an interface's address is not certain yet, nobody listens
    /// yet, or the wire is bad.
    fn fail(&mut self, talk: &mut Talk, errno: u16, now: Instant) {
        self.close(talk);
        if talk.tries < TRIES {
            talk.phase = Phase::Idle(now.after_us(RETRY_US));
        } else {
            talk.error = Some(errno);
        }
    }

    fn talk(&mut self, talk: &mut Talk, now: Instant) {
        self.read(talk, now);
        if talk.is_passed_on() {
            return;
        }
        let flags = talk.edges.flags;
        if flags.contains(EdgeFlags::DEAD) {
            talk.error = Some(talk.edges.errno);
            return self.close(talk);
        }
        if talk.number != u16::MAX {
            self.write(talk, now);
        }
        if talk.heard_at.after_us(SILENCE_US) <= now {
            talk.error = Some(110);
            return self.close(talk);
        }
        let addresses = flags.contains(EdgeFlags::PEER_FIN) && talk.read == talk.edges.rcv_edge;
        if addresses && (talk.shut || talk.read != talk.plan.back) {
            self.close(talk);
        }
    }

    fn read(&mut self, talk: &mut Talk, now: Instant) {
        if talk.edges.rcv_edge == talk.read || now < talk.read_at {
            return;
        }
        let mut part = vec![0; (talk.edges.rcv_edge - talk.read).min(talk.plan.piece) as usize];
        copy_out(self.arena(), talk.socket.index, talk.read, &mut part);
        if talk.number == u16::MAX {
            talk.number = u16::from(part[0]);
            if let Some(to) = self.onward.remove(&talk.number) {
                talk.phase = Phase::PassedOn;
                let relay = Relay::new((talk.socket, talk.edges), to, now);
                return self.relays.push(relay);
            }
            talk.plan = self.plans[usize::from(talk.number)];
        }
        for (at, got) in (talk.read..).zip(&part) {
            let expected = match at {
                // The first byte of a client's names the connection.
                0 if talk.to.is_none() => talk.number as u8,
                _ if let Some(response) = talk.plan.response.filter(|_| talk.to.is_some()) => {
                    response.byte(at)
                }
                _ => byte(talk.number, talk.to.is_none(), at),
            };
            assert_eq!(*got, expected, "byte {at} of connection {}", talk.number);
        }
        talk.read += part.len() as u64;
        assert!(talk.read <= talk.plan.back, "more than was written");
        talk.read_at = now.after_us(talk.plan.pause_us);
        // What a server has read it tells with its answer.
        if talk.to.is_some() || talk.plan.response.is_none() {
            self.edges(talk, EdgeFlags::empty());
        }
    }

    fn write(&mut self, talk: &mut Talk, now: Instant) {
        let (index, acknowledged) = (talk.socket.index, talk.edges.snd_acked);
        talk.first_chunk = give_back(self.arena(), index, talk.first_chunk, acknowledged);
        if let Some(response) = talk.plan.response {
            return if talk.to.is_some() {
                self.ask(talk, &response);
            } else {
                self.answer(talk, &response, now);
            };
        }
        let in_flight = talk.written - talk.edges.snd_acked;
        let room = SEND_BUFFER.saturating_sub(in_flight);
        let len = room.min(talk.plan.out - talk.written).min(talk.plan.piece);
        let before = talk.written;
        if len != 0 && self.write_bytes(talk, len) {
            let written = (talk.written - before) as usize;
            let immediate = if written <= MAX_IMMEDIATE { written } else { 0 };
            self.edges_with(talk, EdgeFlags::PUSH, immediate as u16);
        }
        if talk.written == talk.plan.out && !talk.shut {
            talk.shut = true;
            self.edges(talk, EdgeFlags::SHUT_WR);
        }
    }

    /// Writes so many bytes of what there is to write; `false` if there was no memory.
    pub(super) fn write_bytes(&mut self, talk: &mut Talk, len: u64) -> bool {
        let at = talk.written;
        let mut bytes: Vec<u8> = (at..at + len)
            .map(|o| byte(talk.number, talk.to.is_some(), o))
            .collect();
        if at == 0 && talk.to.is_some() {
            bytes[0] = talk.number as u8;
        }
        self.write_these(talk, &bytes);
        talk.written != at
    }

    pub(super) fn write_these(&self, talk: &mut Talk, bytes: &[u8]) {
        talk.written = append(self.arena(), talk.socket.index, talk.written, bytes);
    }

    fn edges(&mut self, talk: &Talk, flags: EdgeFlags) {
        self.edges_with(talk, flags, 0);
    }

    pub(super) fn edges_with(&mut self, talk: &Talk, flags: EdgeFlags, immediate: u16) {
        self.put(talk.moved(flags, immediate));
    }

    pub(super) fn close(&mut self, talk: &mut Talk) {
        let socket = std::mem::replace(&mut talk.socket, NO_SOCKET);
        talk.phase = Phase::Over;
        self.leave(socket);
        self.put(Request::Close {
            socket,
            snd_edge: talk.written,
            rcv_consumed: talk.read,
            linger: None,
        });
    }
}
