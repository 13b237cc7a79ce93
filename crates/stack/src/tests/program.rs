//! The program of a machine: it connects and listens, writes and reads what both ends know,
//! and never waits inside a call.
//!
//! Owns [`Program`], the host's half of the interface as small as it gets, and [`Talk`], one
//! end of a connection.

use super::datagrams::{self, Arrived, Datagrams};
use super::responses::Response;
use super::streams::{append, copy_out, give_back};
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Arena, BlockFlags, Completion, EdgeFlags, Edges, FileId,
    HostChannel, Hurry, MAX_IMMEDIATE, OpenFlags, Request, SocketId, SocketKind, SocketState,
};
use longshore_ring::Doorbell;
use longshore_tcp::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes written and not acknowledged, at most.
const SEND_BUFFER: u64 = 100_000;
/// After a connection could not be opened, when it is tried again, in microseconds.
const RETRY_US: u64 = 500_000;
/// How often.
const TRIES: u32 = 40;
/// A connection on which nothing has happened for so long is given up, in microseconds: the
/// reset of a peer that is gone may be lost, and a segment that came late may pass for the
/// end of a handshake with a cookie.
const SILENCE_US: u64 = 900_000_000;
/// Requests and completions that are on their way at once: fewer than the rings hold.
const AT_ONCE: usize = 200;

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

/// The program.
pub(super) struct Program {
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    tags: u32,
    listener: Option<SocketId>,
    listener_edge: u64,
    accepted: u64,
    listens: bool,
    talks: Vec<Talk>,
    datagrams: Option<Datagrams>,
    arrived: Arrived,
    answers: BTreeMap<u32, u16>,
    plans: Vec<Plan>,
    send_chunks: u32,
    is_served: bool,
    /// When what it asks in this step is to be fetched.
    pub(super) hurry: Hurry,
    /// The file that it answers with.
    pub(super) file: Option<FileId>,
}

const NO_SOCKET: SocketId = SocketId {
    index: longshore_ring::NONE,
    generation: 0,
};

impl Program {
    pub(super) fn new(arena: Arc<Arena>, channel: u16) -> Self {
        let send_chunks = arena.geometry().snd_chunks;
        Self {
            channel: HostChannel::new(arena.clone(), channel.into()),
            arena,
            doorbell: Doorbell::new().unwrap(),
            tags: 0,
            listener: None,
            listener_edge: 0,
            accepted: 0,
            listens: false,
            talks: Vec::new(),
            datagrams: None,
            arrived: Arrived::default(),
            answers: BTreeMap::new(),
            plans: Vec::new(),
            send_chunks,
            is_served: false,
            hurry: Hurry::Now,
            file: None,
        }
    }

    /// It is about to sleep.
    pub(super) fn settle(&mut self) {
        self.channel.hurry(&self.doorbell);
        self.is_served = true;
    }

    pub(super) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Free chunks of send streams, and all there are.
    pub(super) fn send_chunks(&self) -> (u32, u32) {
        let (cold, warm) = self.arena.free_snd_chunks();
        (cold + warm, self.send_chunks)
    }

    fn put(&mut self, request: Request) {
        self.channel.put(&request).unwrap();
    }

    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    fn open(&mut self, kind: SocketKind, ipv6: bool) -> Option<SocketId> {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap()?;
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        self.arena.set_held(self.channel.index(), index, true);
        let mut flags = OpenFlags::REUSE_ADDRESS;
        flags.set(OpenFlags::IPV6, ipv6);
        self.put(Request::Open {
            socket,
            kind,
            flags,
        });
        Some(socket)
    }

    fn bind(&mut self, kind: SocketKind, local: SocketAddr) -> SocketId {
        let socket = self.open(kind, local.is_ipv6()).unwrap();
        let tag = self.tag();
        self.put(Request::Bind {
            socket,
            tag,
            waiter: None,
            local: local.into(),
        });
        socket
    }

    /// From `at` on it will send datagrams to the other end, whose address is `to`; this is
    /// end 0 or 1.
    pub(super) fn exchange(&mut self, end: u32, to: IpAddr, plan: datagrams::Plan, at: Instant) {
        let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), datagrams::PORT);
        let socket = self.bind(SocketKind::Datagram, local);
        let to = SocketAddr::new(to, datagrams::PORT);
        self.datagrams = Some(Datagrams::new(socket, end, to, plan, at));
        self.channel.publish(&self.doorbell, true);
    }

    /// Whether it has no datagram left to send.
    pub(super) fn has_sent_all(&self) -> bool {
        self.datagrams.as_ref().is_none_or(Datagrams::is_done)
    }

    /// The datagrams that have come.
    pub(super) fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// Takes no more datagrams; whether it did until now.
    pub(super) fn stop_exchange(&mut self) -> bool {
        let Some(datagrams) = self.datagrams.take() else {
            return false;
        };
        self.leave(datagrams.socket);
        self.put(datagrams.close());
        self.channel.publish(&self.doorbell, true);
        true
    }

    /// Listens at `local`, where those come of whom each plan has one.
    pub(super) fn listen(&mut self, local: SocketAddr, plans: Vec<Plan>) {
        let socket = self.bind(SocketKind::Stream, local);
        let tag = self.tag();
        self.put(Request::Listen {
            socket,
            tag,
            waiter: None,
            backlog: 8,
        });
        self.listens = true;
        self.plans = plans;
        self.listener = Some(socket);
        self.channel.publish(&self.doorbell, true);
    }

    /// From `at` on it will connect to `to`.
    pub(super) fn connect(&mut self, number: u16, plan: Plan, to: SocketAddr, at: Instant) {
        self.talks.push(Talk {
            number,
            plan,
            to: Some(to),
            phase: Phase::Idle(at),
            socket: NO_SOCKET,
            tag: 0,
            tries: 0,
            edges: Edges::default(),
            written: 0,
            read: 0,
            read_at: Instant(0),
            heard_at: Instant(0),
            shut: false,
            calls: 0,
            call_at: Instant(0),
            first_chunk: 0,
            error: None,
        });
    }

    /// Takes no more connections, and what waits is reset; whether it did until now.
    pub(super) fn stop_listening(&mut self) -> bool {
        let Some(socket) = self.listener.take() else {
            return false;
        };
        self.leave(socket);
        self.put(Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: self.accepted * ACCEPT_RECORD as u64,
            linger: None,
        });
        self.channel.publish(&self.doorbell, true);
        true
    }

    /// How each of its connections ended, by its number.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (u16, Outcome)> + '_ {
        self.talks.iter().map(|talk| {
            let is_whole = talk.read == talk.plan.back && talk.written == talk.plan.out;
            let outcome = match talk.phase {
                Phase::Over if is_whole && talk.error.is_none() => Outcome::Whole,
                Phase::Over => Outcome::Short,
                _ => Outcome::Open,
            };
            (talk.number, outcome)
        })
    }

    /// When it does something by itself.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self.talks.iter().filter_map(|talk| match talk.phase {
            Phase::Idle(at) => Some(at),
            Phase::Open if talk.edges.rcv_edge > talk.read => Some(talk.read_at),
            Phase::Open if talk.calls != 0 => Some(talk.call_at),
            Phase::Open => Some(talk.heard_at.after_us(SILENCE_US)),
            _ => None,
        });
        let datagrams = self.datagrams.as_ref().and_then(Datagrams::next_timeout);
        due.chain(datagrams).min()
    }

    /// Takes what the stack has said, and goes on; says whether it has asked for anything.
    pub(super) fn step(&mut self, now: Instant) -> bool {
        self.is_served = false;
        self.take_completions(now);
        self.accept(now);
        let mut talks = std::mem::take(&mut self.talks);
        for talk in &mut talks {
            if self.channel.staged() as usize >= AT_ONCE {
                break;
            }
            self.go_on(talk, now);
        }
        talks.append(&mut self.talks);
        self.talks = talks;
        if let Some(datagrams) = &mut self.datagrams
            && let Some(request) = datagrams.step(&self.arena, now)
        {
            self.arrived = datagrams.arrived;
            self.put(request);
        }
        let asked = self.channel.staged() != 0;
        let hurry = std::mem::replace(&mut self.hurry, Hurry::Now);
        self.channel.publish_for(hurry, &self.doorbell, true);
        asked || self.is_served
    }

    fn take_completions(&mut self, now: Instant) {
        let mut is_more = false;
        while let Some(completion) = self.channel.get().unwrap() {
            self.is_served = true;
            match completion.expect("the stack makes sense") {
                Completion::Done { tag, errno, .. } => {
                    self.answers.insert(tag, errno);
                }
                Completion::Edges { socket, edges } if Some(socket) == self.listener => {
                    self.listener_edge = self.listener_edge.max(edges.rcv_edge);
                }
                Completion::Edges { socket, edges }
                    if let Some(datagrams) = &mut self.datagrams
                        && datagrams.socket == socket =>
                {
                    datagrams.take_edges(&edges);
                }
                Completion::Edges { socket, edges } => {
                    let mut talks = self.talks.iter_mut();
                    if let Some(talk) = talks.find(|t| t.socket == socket) {
                        talk.take_edges(&edges);
                        let half = &self.arena.block(socket.index).snd;
                        half.done.fetch_max(edges.snd_acked, Ordering::AcqRel);
                        talk.heard_at = now;
                    }
                }
                Completion::More => is_more = true,
            }
        }
        self.channel.release();
        if is_more {
            self.channel.ask_for_more(&self.doorbell);
        }
    }

    fn accept(&mut self, now: Instant) {
        let record_len = ACCEPT_RECORD as u64;
        while let Some(listener) = self.listener
            && self.listener_edge >= (self.accepted + 1) * record_len
        {
            let mut record = [0; ACCEPT_RECORD];
            copy_out(
                &self.arena,
                listener.index,
                self.accepted * record_len,
                &mut record,
            );
            let record = AcceptRecord::decode(&record);
            self.accepted += 1;
            if self.file.is_some() {
                self.hurry = Hurry::First;
            }
            self.put(Request::Edges {
                socket: listener,
                snd_edge: 0,
                rcv_consumed: self.accepted * record_len,
                flags: EdgeFlags::empty(),
                immediate: 0,
            });
            let index = record.socket.index;
            let block = self.arena.block(index);
            let begun = block.begin_accepted(&record, self.arena.block(listener.index));
            assert!(begun, "it is there until it is closed");
            self.arena.set_held(self.channel.index(), index, true);
            self.put(Request::Subscribe {
                socket: record.socket,
            });
            // The client's port says nothing; its first byte names the connection.
            self.talks.push(Talk {
                number: u16::MAX,
                plan: self.plans.first().copied().unwrap(),
                to: None,
                phase: Phase::Open,
                socket: record.socket,
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
            });
        }
    }

    fn go_on(&mut self, talk: &mut Talk, now: Instant) {
        match talk.phase {
            Phase::Idle(at) if at <= now => self.begin(talk, now),
            Phase::Idle(_) | Phase::Over => {}
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
        copy_out(&self.arena, talk.socket.index, talk.read, &mut part);
        if talk.number == u16::MAX {
            talk.number = u16::from(part[0]);
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
        talk.first_chunk = give_back(&self.arena, index, talk.first_chunk, acknowledged);
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
        talk.written = append(&self.arena, talk.socket.index, talk.written, bytes);
    }

    fn edges(&mut self, talk: &Talk, flags: EdgeFlags) {
        self.edges_with(talk, flags, 0);
    }

    pub(super) fn edges_with(&mut self, talk: &Talk, flags: EdgeFlags, immediate: u16) {
        self.put(Request::Edges {
            socket: talk.socket,
            snd_edge: talk.written,
            rcv_consumed: talk.read,
            flags,
            immediate,
        });
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

    /// No process has a socket any more.
    fn leave(&self, socket: SocketId) {
        let own = self.channel.index();
        self.arena.set_held(own, socket.index, false);
        let block = self.arena.block(socket.index);
        block.set_flags(BlockFlags::CLOSED);
    }
}

impl Talk {
    fn take_edges(&mut self, edges: &Edges) {
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
