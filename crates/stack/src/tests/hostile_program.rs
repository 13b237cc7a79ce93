//! A program that keeps to nothing, beside one that does: it overwrites what it shares with the
//! stack, of its rings, blocks, directories, free lists and ranges of files, asks for what makes
//! no sense, of sockets that are gone or another's, and goes on while its peers send and
//! acknowledge. The parts of the stack agree after each turn, the other program's bytes arrive
//! in their place and nowhere else, and nothing of the first is left once it has ended.

use super::numbers::Numbers;

use super::off_path::accepted;
use super::responses::Response;
use super::single::{FIRST_PORT, ISN, SERVER, Sent, Single, header};
use super::streams;
use crate::requests::From;
use crate::socket::Kind;
use longshore_hostif::adapter::{AdapterSession, Immediate, Next, OfferedFile};
use longshore_hostif::{
    Address, Arena, BlockFlags, CHUNK, EdgeFlags, Features, FileId, Geometry, HostChannel,
    HostSession, LEAST_FORWARD, OpenFlags, OptionName, Query, Request, SocketId, SocketKind,
    SocketState,
};
use longshore_ring::Doorbell;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SEEDS: u64 = 40;
const STEPS: usize = 300;
const CHANNELS: u16 = 64;
const GEOMETRY: Geometry = Geometry {
    channels: CHANNELS as u32,
    waiters: 64,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 600,
};
/// Where the hostile program listens.
const PORT: u16 = 90;
/// What the innocent program sends and receives is full of this, and nobody else's bytes are.
const OURS: u8 = 0xa5;
/// Bytes of each of its messages.
const MESSAGE: usize = 600;

/// The hostile program, and its session in the stack.
struct Hostile {
    session: u32,
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    numbers: Numbers,
    file: (std::fs::File, FileId),
    sockets: Vec<SocketId>,
    /// Of those, one that is connected to its own listener at first.
    within: Option<SocketId>,
}

impl Hostile {
    fn new(single: &mut Single, seed: u64) -> Self {
        let forwards = Features::FORWARDS | Features::FORWARDS_WITHIN;
        let features = Features::FILES | Features::LENT_CHUNKS | forwards;
        let (session, arena) = single.add_session(GEOMETRY, features);
        let content = Response {
            header: 0,
            size: 200_000,
            keeps: false,
            pause_us: 0,
        };
        let (fd, id) = content.file();
        let kept = fd.try_clone().unwrap();
        let host = &mut single.stack.sessions.get_mut(session).unwrap().host;
        assert!(host.lend_file(OfferedFile::check(fd).unwrap(), 0).is_ok());
        Self {
            session,
            channel: HostChannel::new(arena.clone(), 0),
            arena,
            doorbell: Doorbell::new().unwrap(),
            numbers: Numbers::new(seed),
            file: (kept.into(), id),
            sockets: Vec::new(),
            within: None,
        }
    }

    fn from(&self) -> From {
        From {
            session: self.session,
            channel: self.channel.index() as u16,
        }
    }

    fn ask(&mut self, single: &mut Single, request: &Request) {
        let from = self.from();
        single
            .stack
            .handle_request(from, request, &Immediate::default());
    }

    fn open(&mut self, single: &mut Single) {
        let free = &self.arena.header().free_sockets;
        let Ok(Some(index)) = free.pop(self.arena.socket_links()) else {
            return;
        };
        let Some(block) = self.arena.get_block(index) else {
            return;
        };
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        let kind = self
            .numbers
            .pick(&[SocketKind::Stream, SocketKind::Datagram]);
        let flags = OpenFlags::empty();
        self.ask(
            single,
            &Request::Open {
                socket,
                kind,
                flags,
            },
        );
        self.sockets.push(socket);
    }

    /// One that it has, or had, or never had.
    fn socket(&mut self) -> SocketId {
        let mut socket = match self.numbers.below(8) {
            0 => SocketId {
                index: self.numbers.below(70) as u32,
                generation: self.numbers.below(4) as u32,
            },
            _ if self.sockets.is_empty() => SocketId {
                index: 0,
                generation: 1,
            },
            _ => self.numbers.pick(&self.sockets),
        };
        if self.numbers.below(16) == 0 {
            socket.generation = socket.generation.wrapping_add(1);
        }
        socket
    }

    /// Near what it might be, or anything.
    fn edge(&mut self, socket: SocketId) -> u64 {
        let block = self.arena.get_block(socket.index);
        let noted = |b: &longshore_hostif::SocketBlock| {
            let (sent, received) = (&b.snd.edge, &b.rcv.edge);
            sent.load(Ordering::Relaxed)
                .max(received.load(Ordering::Relaxed))
        };
        let edge = block.map_or(0, noted);
        match self.numbers.below(8) {
            0 => self.numbers.below(u64::MAX),
            1 => edge.wrapping_sub(self.numbers.below(100_000)),
            2 => edge.wrapping_add(self.numbers.below(1 << 26)),
            3 => 0,
            _ => edge.wrapping_add(self.numbers.below(2_000)),
        }
    }

    fn address(&mut self) -> Address {
        let port = self.numbers.pick(&[80, PORT, 1_024, 1_025, 0]);
        match self.numbers.below(4) {
            0 => Address::NONE,
            1 => SocketAddr::new([10, 0, 0, 2].into(), port).into(),
            _ => SocketAddr::new(SERVER.into(), port).into(),
        }
    }

    fn request(&mut self) -> Request {
        let socket = self.socket();
        let (snd_edge, rcv_consumed) = (self.edge(socket), self.edge(socket));
        let flags = EdgeFlags::from_bits_retain(self.numbers.below(256) as u8);
        let (tag, waiter) = (1, Some(self.numbers.below(80) as u16));
        match self.numbers.below(16) {
            0 => Request::Bind {
                socket,
                tag,
                waiter,
                local: self.address(),
            },
            1 => Request::Listen {
                socket,
                tag,
                waiter,
                backlog: self.numbers.below(20) as u32,
            },
            2 | 3 => Request::Connect {
                socket,
                tag,
                waiter,
                peer: self.address(),
            },
            4 => Request::Cancel {
                socket,
                tag,
                waiter,
            },
            5 => Request::Urgent {
                socket,
                snd_edge,
                rcv_consumed,
            },
            6 => Request::Forward {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                source: self.socket(),
                from: self.edge(socket),
                to: self.edge(socket),
            },
            7 => Request::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger: self.numbers.pick(&[None, Some(0), Some(7)]),
            },
            8 => Request::SetOption {
                socket,
                name: self.numbers.pick(&[
                    OptionName::ReceiveLowWater,
                    OptionName::NotSentLowat,
                    OptionName::ReceiveBuffer,
                    OptionName::SendBuffer,
                    OptionName::DeferAccept,
                    OptionName::Cork,
                    OptionName::ReusePort,
                    OptionName::MaxPacingRate,
                ]),
                value: self.edge(socket),
            },
            9 => Request::Query {
                socket,
                tag,
                waiter,
                query: self.numbers.pick(&[Query::TcpInfo, Query::SendQueue]),
            },
            10 => Request::Subscribe { socket },
            11 => Request::Unsubscribe { socket },
            _ => Request::Edges {
                socket,
                snd_edge,
                rcv_consumed,
                flags,
                immediate: self.numbers.below(2_000) as u16,
            },
        }
    }

    /// Writes to chunks that it has not taken, or what it may, or ranges of a file that is
    /// shorter by now. It takes no lock, since it may have spoiled that.
    fn write(&mut self, single: &mut Single) {
        let socket = self.socket();
        let Some(block) = self.arena.get_block(socket.index) else {
            return;
        };
        let edge = block.snd.edge.load(Ordering::Relaxed);
        let len = 1 + self.numbers.below(3 * CHUNK as u64);
        let end = edge.saturating_add(len);
        let host = HostSession::of(&self.arena);
        let file = host.hold_file(self.file.1);
        let mut at = edge;
        while at < end {
            let (number, within) = (at / CHUNK as u64, (at % CHUNK as u64) as usize);
            let part = (CHUNK - within).min((end - at) as usize);
            let chunk = self.numbers.below(70) as u32;
            let entry = self.arena.snd_directory(socket.index).entry(number);
            entry.store(chunk, Ordering::Release);
            if let Some(file) = file.as_ref().filter(|_| self.numbers.below(2) == 0) {
                let offset = self.numbers.below(file.len().max(1));
                let span = (number, within, part);
                let _ = host.write_range(socket.index, span, file, offset);
            }
            at += part as u64;
        }
        drop(file);
        block.snd.edge.store(end, Ordering::Release);
        self.ask(
            single,
            &Request::Edges {
                socket,
                snd_edge: end,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
    }

    /// Has one of its connections send what another, or it itself, has received and nobody has
    /// read, as a program does that keeps to the rules; where that is written it has not taken.
    fn forward(&mut self, single: &mut Single) {
        let keys = (0..64).filter_map(|index| single.stack.socket_of(self.session, index));
        let keys: Vec<u32> = keys.collect();
        if keys.is_empty() {
            return;
        }
        let [source, sink] = [(); 2].map(|()| self.numbers.pick(&keys));
        let read = single.stack.read_by_host(source);
        let socket = |key| single.stack.sockets.get(key);
        let (Some(source), Some(sink)) = (socket(source), socket(sink)) else {
            return;
        };
        let (source_id, sink_id, sent) = (source.id, sink.id, sink.snd_edge());
        let edge = source.received().map_or(0, |(_, edge)| edge);
        let len = edge.saturating_sub(read).min(100_000);
        if len < LEAST_FORWARD || len + sent > 1 << 40 {
            return;
        }
        for number in sent / CHUNK as u64..=(sent + len) / CHUNK as u64 {
            let chunk = self.numbers.below(64) as u32;
            let entry = self.arena.snd_directory(sink_id.index).entry(number);
            entry.store(chunk, Ordering::Release);
        }
        let host = HostSession::of(&self.arena);
        let places = ((sink_id.index, sent), (source_id.index, read));
        let _ = host.write_forwarded(places.0, places.1, len as usize);
        self.ask(
            single,
            &Request::Forward {
                socket: sink_id,
                snd_edge: sent + len,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                source: source_id,
                from: read,
                to: read + len,
            },
        );
    }

    /// Writes to a connection of its own what it can be lent.
    fn lend(&mut self, single: &mut Single) {
        let Some(socket) = self.within else { return };
        let key = single.stack.socket_of(self.session, socket.index);
        let sent = key.and_then(|key| Some(single.stack.sockets.get(key)?.snd_edge()));
        let Some(sent) = sent.filter(|sent| *sent < 1 << 40) else {
            return;
        };
        let len = 40_000;
        for number in sent / CHUNK as u64..=(sent + len) / CHUNK as u64 {
            let entry = self.arena.snd_directory(socket.index).entry(number);
            entry.store(self.numbers.below(64) as u32, Ordering::Release);
        }
        self.ask(
            single,
            &Request::Edges {
                socket,
                snd_edge: sent + len,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
    }

    /// Overwrites a word or a few bytes of what it shares, mostly where the stack looks.
    fn scribble(&mut self) {
        let base = std::ptr::from_ref(self.arena.header()).addr();
        let of = |place: usize| (place - base) as u64;
        let slab = self.arena.snd_place(0, 0, 1).expect("a chunk") as u64;
        let index = self.numbers.below(6) as u32;
        let entry = self.numbers.below(260);
        let (start, len) = match self.numbers.below(6) {
            0 => (0, 4_096),
            1 => (
                of(std::ptr::from_ref(self.arena.control(0)).addr()),
                64 * 1_024,
            ),
            2 => (of(std::ptr::from_ref(self.arena.block(index)).addr()), 512),
            3 => (
                of(std::ptr::from_ref(self.arena.snd_directory(index).entry(entry)).addr()),
                32,
            ),
            4 => (slab, 4 * CHUNK as u64),
            _ => (0, slab),
        };
        let at = start + self.numbers.below(len / 8) * 8;
        let word = match self.numbers.below(5) {
            0 => u64::MAX,
            1 => self.numbers.below(256),
            2 => self.numbers.below(1 << 32),
            3 => (1 << 31 | self.numbers.below(1 << 31)) << 32 | self.numbers.below(64),
            _ => self.numbers.below(u64::MAX),
        };
        if at as usize + 8 <= self.arena.memory().len() {
            self.arena.memory().write(at as usize, &word.to_ne_bytes());
        }
    }

    /// Publishes requests, and spoils the ring before the stack looks.
    fn publish(&mut self, single: &mut Single) {
        for _ in 0..1 + self.numbers.below(6) {
            let request = self.request();
            if self.arena.get_block(request.socket().index).is_some() {
                let _ = self.channel.put(&request);
            }
        }
        self.channel.publish(&self.doorbell, false);
        let base = std::ptr::from_ref(self.arena.header()).addr();
        let control = std::ptr::from_ref(self.arena.control(self.channel.index())).addr() - base;
        for _ in 0..self.numbers.below(40) {
            let at = control + self.numbers.below(2_000) as usize * 8;
            let bit = self.numbers.below(64);
            let mut word = [0; 8];
            self.arena.memory().read(at, &mut word);
            let word = u64::from_ne_bytes(word) ^ 1 << bit;
            self.arena.memory().write(at, &word.to_ne_bytes());
        }
        self.take(single);
    }

    /// The stack takes what was published, as the engine has it.
    fn take(&mut self, single: &mut Single) {
        let from = self.from();
        self.host(single).begin_requests();
        single.stack.tell_rest(from);
        for _ in 0..1_000 {
            match self.host(single).next_request(from.channel, 8) {
                Next::Request(message, immediate) => match Request::decode(&message) {
                    Ok(request) => single.stack.handle_request(from, &request, &immediate),
                    Err(_) => single.stack.count_bad(self.session),
                },
                Next::Broken => return self.begin_channel(single),
                _ => break,
            }
        }
        self.host(single).note_requests(from.channel);
    }

    /// The stack's half of its session.
    fn host<'a>(&self, single: &'a mut Single) -> &'a mut AdapterSession {
        &mut single.stack.sessions.get_mut(self.session).unwrap().host
    }

    /// Its ring is broken: another process of it has another.
    fn begin_channel(&mut self, single: &mut Single) {
        let next = self.channel.index() + 1;
        if next < u32::from(CHANNELS) {
            self.host(single).open_channel(next as u16);
            self.channel = HostChannel::new(self.arena.clone(), next);
        }
    }

    fn step(&mut self, single: &mut Single) {
        match self.numbers.below(15) {
            12 | 13 => self.forward(single),
            14 => self.lend(single),
            0 => self.open(single),
            1 | 2 => self.write(single),
            3..6 => {
                let request = self.request();
                self.ask(single, &request);
            }
            6 | 7 => self.publish(single),
            8 => {
                let len = self.numbers.below(200_000);
                self.file.0.set_len(len).expect("to cut its file");
            }
            _ => self.scribble(),
        }
    }

    /// Its process is gone, as the engine sees to it.
    fn end(&mut self, single: &mut Single) {
        let Some(session) = single.stack.sessions.get_mut(self.session) else {
            return;
        };
        for channel in 0..=self.channel.index() {
            session.host.close_channel(channel as u16);
        }
        for index in session.sockets_among(0..session.blocks()) {
            let key = single.stack.socket_of(self.session, index);
            let key = key.expect("its session knows it");
            for channel in 0..=self.channel.index() {
                single.stack.forget_subscriber(key, channel as u16);
            }
            if !single.stack.is_orphan(key) {
                single.stack.close_unheld(key);
            }
        }
    }
}

/// A connection of the innocent program, and how far it is in both directions.
struct Innocent {
    socket: SocketId,
    next: longshore_wire::tcp::TcpHeader,
    sent: u64,
    received: u64,
}

impl Innocent {
    fn new(single: &mut Single) -> Self {
        let listener = single.listen();
        single.turn();
        let next = single.connect(0);
        single.turn();
        let socket = accepted(single, listener, 0);
        Self {
            socket,
            next,
            sent: 0,
            received: 0,
        }
    }

    /// A message each way.
    fn exchange(&mut self, single: &mut Single) {
        let message = [OURS; MESSAGE];
        single.segment(&self.next, &message);
        self.received += MESSAGE as u64;
        self.next.seq = self.next.seq.add(MESSAGE as u32);
        let edge = streams::append(&single.arena, self.socket.index, self.sent, &message);
        single.ask(
            0,
            &Request::Edges {
                socket: self.socket,
                snd_edge: edge,
                rcv_consumed: self.received - MESSAGE as u64,
                flags: EdgeFlags::PUSH,
                immediate: 0,
            },
        );
        single.turn();
        single.hear();
        let mut got = [0; MESSAGE];
        let from = self.received - MESSAGE as u64;
        streams::copy_out(&single.arena, self.socket.index, from, &mut got);
        assert_eq!(got, message);
        self.sent = edge;
    }

    /// What has left is looked at: all it sent, and none of it for others.
    fn look(&mut self, sent: &[Sent]) {
        let first = self.next.ack;
        for segment in sent {
            if segment.header.src_port != 80 || segment.header.dst_port != self.next.src_port {
                // A byte by itself is one of those that the other has strewn about.
                let mut runs = segment.payload.windows(8);
                assert!(!runs.any(|run| run == [OURS; 8]), "{:?}", segment.header);
                continue;
            }
            let ours = segment.payload.iter().filter(|b| **b == OURS).count();
            assert_eq!(ours, segment.payload.len());
            assert!(!segment.header.flags.contains(TcpFlags::RST));
            if segment.header.seq == self.next.ack {
                self.next.ack = self.next.ack.add(ours as u32);
            }
        }
        assert_eq!(self.next.ack, first.add(MESSAGE as u32));
    }
}

/// What of its bytes were passed on by reference, and lent.
fn run(seed: u64) -> [u64; 2] {
    let mut single = Single::new(GEOMETRY, 1);
    let mut innocent = Innocent::new(&mut single);
    single.sent();
    let mut hostile = Hostile::new(&mut single, seed);
    for _ in 0..4 {
        hostile.open(&mut single);
    }
    let socket = hostile.sockets[0];
    for request in [
        Request::Bind {
            socket,
            tag: 1,
            waiter: None,
            local: SocketAddr::new(SERVER.into(), PORT).into(),
        },
        Request::Listen {
            socket,
            tag: 1,
            waiter: None,
            backlog: 10,
        },
    ] {
        hostile.ask(&mut single, &request);
    }
    let stream = |socket: &&SocketId| {
        let key = single.stack.socket_of(hostile.session, socket.index);
        let kind = key.and_then(|key| Some(&single.stack.sockets.get(key)?.kind));
        matches!(kind, Some(Kind::Idle(SocketKind::Stream)))
    };
    hostile.within = hostile.sockets.iter().skip(1).find(stream).copied();
    if let Some(socket) = hostile.within {
        hostile.ask(
            &mut single,
            &Request::Connect {
                socket,
                tag: 1,
                waiter: None,
                peer: SocketAddr::new(SERVER.into(), PORT).into(),
            },
        );
    }
    let mut peers: Vec<longshore_wire::tcp::TcpHeader> = Vec::new();
    for step in 0..STEPS {
        hostile.step(&mut single);
        if step % 20 == 0 {
            let mut syn = header(1 + step as u16, TcpFlags::SYN, ISN, SeqNumber(0));
            syn.dst_port = PORT;
            single.segment(&syn, &[]);
        }
        for peer in &mut peers {
            single.segment(peer, &[9; 100]);
            peer.seq = peer.seq.add(100);
        }
        innocent.exchange(&mut single);
        let sent = single.sent_with_payload();
        innocent.look(&sent);
        answer(&sent, innocent.next.src_port, &mut peers);
        if step % 50 == 49 {
            single.turn_after(1_000_000);
            let sent = single.sent_with_payload();
            answer(&sent, innocent.next.src_port, &mut peers);
        }
    }
    // Nothing of the other's memory has got into what it can read.
    let mut all = vec![0; hostile.arena.memory().len()];
    hostile.arena.memory().read(0, &mut all);
    assert!(!all.windows(64).any(|w| w == [OURS; 64]));
    hostile.end(&mut single);
    // Longer than what it has sent is repeated for.
    for _ in 0..400 {
        single.turn_after(5_000_000);
        single.sent();
    }
    let left = single.stack.sockets.iter();
    let left: Vec<_> = left.filter(|(_, s)| s.session == hostile.session).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(single.stack.half_open_count(), 0);
    assert!(single.stack.close_session(hostile.session).is_some());
    single.turn();
    let counters = &single.stack.counters;
    [counters.forwarded_bytes, counters.lent_bytes]
}

/// The hostile program's peers acknowledge what comes, and reset nothing.
fn answer(sent: &[Sent], innocent: u16, peers: &mut Vec<longshore_wire::tcp::TcpHeader>) {
    for Sent { header: h, payload } in sent {
        if h.dst_port == innocent {
            continue;
        }
        let len = payload.len() as u32 + u32::from(h.flags.contains(TcpFlags::SYN));
        let known = peers.iter().position(|p| p.src_port == h.dst_port);
        if h.flags.contains(TcpFlags::RST) {
            peers.retain(|p| p.src_port != h.dst_port);
        } else if let Some(at) = known {
            peers[at].ack = h.seq.add(len);
        } else if h.flags.contains(TcpFlags::SYN)
            && peers.len() < 5
            && let Some(number) = h.dst_port.checked_sub(FIRST_PORT)
        {
            let mut peer = header(number, TcpFlags::ACK, ISN.add(1), h.seq.add(1));
            peer.dst_port = h.src_port;
            peers.push(peer);
        }
    }
}

#[test]
fn a_program_that_keeps_to_nothing_harms_itself_alone() {
    let mut passed_on = [0; 2];
    for seed in 0..SEEDS {
        println!("seed {seed}");
        for (all, of_seed) in passed_on.iter_mut().zip(run(seed)) {
            *all += of_seed;
        }
    }
    assert!(
        passed_on.iter().all(|bytes| *bytes > 100_000),
        "{passed_on:?}"
    );
}
