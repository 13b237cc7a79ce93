//! A program that keeps to nothing, beside one that does: it overwrites what it shares with the
//! stack, of its rings, blocks, directories, free lists and ranges of files, asks for what makes
//! no sense, of sockets that are gone or another's, and goes on while its peers send and
//! acknowledge. The parts of the stack agree after each turn, the other program's bytes arrive
//! in their place and nowhere else, and nothing of the first is left once it has ended.

mod asking;
mod innocent;
mod memory;

use super::numbers::Numbers;
use super::responses::Response;
use super::single::{FIRST_PORT, ISN, SERVER, Sent, Single, header};
use crate::requests::From;
use crate::socket::Kind;
use innocent::Innocent;
use longshore_hostif::adapter::{AdapterSession, Immediate, Next, OfferedFile};
use longshore_hostif::{
    Arena, BlockFlags, Features, FileId, Geometry, HostChannel, OpenFlags, Request, SocketId,
    SocketKind, SocketState,
};
use longshore_ring::Doorbell;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;
use std::sync::Arc;

const SEEDS: u64 = 40;
const STEPS: usize = 300;
const CHANNELS: u16 = 64;
const GEOMETRY: Geometry = Geometry {
    channels: CHANNELS as u32,
    waiters: 64,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 600,
    workers: 1,
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
            tells: false,
            pause_us: 0,
        };
        let (fd, id) = content.file();
        let kept = fd.try_clone().unwrap();
        let host = &mut single
            .stack
            .endpoints
            .sessions
            .get_mut(session)
            .unwrap()
            .host;
        assert!(
            host.send
                .lend_file(OfferedFile::check(fd).unwrap(), 0)
                .is_ok()
        );
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
        // The first ones are those that it begins with.
        let flags = match self.sockets.len() {
            0..4 => OpenFlags::empty(),
            _ => OpenFlags::from_bits_truncate(self.numbers.below(256) as u8),
        };
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
        self.host(single).pending.begin();
        single.stack.report_rest(from);
        for _ in 0..1_000 {
            match self.host(single).next_request(from.channel, 8) {
                Next::Request(message, immediate) => match Request::decode(&message) {
                    Ok(request) => single.stack.handle_request(from, &request, &immediate),
                    Err(_) => single.stack.endpoints.sessions.count_bad(self.session),
                },
                Next::Broken => return self.begin_channel(single),
                _ => break,
            }
        }
        self.host(single).channels.note_taken(from.channel);
    }

    /// The stack's half of its session.
    fn host<'a>(&self, single: &'a mut Single) -> &'a mut AdapterSession {
        &mut single
            .stack
            .endpoints
            .sessions
            .get_mut(self.session)
            .unwrap()
            .host
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
        // What is in use is asked for once more, as the engine does it, and given up.
        for late in single.stack.late_binds().take() {
            if !single.stack.late_binds().bind_again(&late) {
                single.stack.endpoints.sessions.give_bind_up(&late);
            }
        }
    }

    /// Its process is gone, as the engine sees to it.
    fn end(&mut self, single: &mut Single) {
        let Some(session) = single.stack.endpoints.sessions.get_mut(self.session) else {
            return;
        };
        for channel in 0..=self.channel.index() {
            session.host.close_channel(channel as u16);
        }
        for index in session.sockets_among(0..session.blocks()) {
            let key = single
                .stack
                .endpoints
                .sessions
                .socket_of(self.session, index);
            let key = key.expect("its session knows it");
            for channel in 0..=self.channel.index() {
                single
                    .stack
                    .lifecycle()
                    .forget_subscriber(key, channel as u16);
            }
            if !single.stack.status().is_orphan(key) {
                single.stack.lifecycle().close_unheld(key);
            }
        }
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
        let key = single
            .stack
            .endpoints
            .sessions
            .socket_of(hostile.session, socket.index);
        let kind = key.and_then(|key| Some(&single.stack.endpoints.sockets.get(key)?.kind));
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
    let left = single.stack.endpoints.sockets.iter();
    let left: Vec<_> = left.filter(|(_, s)| s.session == hostile.session).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert_eq!(single.stack.status().half_open_count(), 0);
    assert!(
        single
            .stack
            .lifecycle()
            .close_session(hostile.session)
            .is_some()
    );
    single.turn();
    let counters = &single.stack.counters;
    [counters.own_bytes.forwarded, counters.own_bytes.lent]
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
