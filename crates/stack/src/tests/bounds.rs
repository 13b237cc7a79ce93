//! What one turn does is bounded, however much there is to be done: for many half-open
//! connections whose listener is closed, and for many processes that have one listener. All
//! of it is done in the turns that follow, and another session's turn is among them.

use super::machine::Alone;
use crate::link::automatic::Automatic;
use crate::requests::From;
use crate::secrets::Secrets;
use crate::session::Session;
use crate::{Interface, Settings, Stack};
use longshore_frames::{Port, RxChecksum, RxMeta};
use longshore_hostif::adapter::{AdapterSession, Immediate};
use longshore_hostif::{
    ACCEPT_RECORD, Arena, BlockFlags, Completion, Geometry, HostChannel, Loopback, OpenFlags,
    Request, SocketId, SocketKind, SocketState,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ring::{EventfdSignaler, Sleep};
use longshore_tcp::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The most half-open connections that a listener has.
const HALF_OPEN: usize = 4_096;
const PROCESSES: u16 = 256;
/// What may be done in one turn: half-open connections reset, processes told and woken.
const RESETS: usize = 64;
const TOLD: u64 = 32;

const GEOMETRY: Geometry = Geometry {
    channels: 320,
    waiters: 256,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
};

/// A stack with one session, and the other end of its wire.
struct Bench {
    stack: Stack,
    arena: Arc<Arena>,
    session: u32,
    wire: MemoryPort,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let now = Instant(1_000_000);
        let (port, wire) = pair(&MemoryConfig {
            ethernet: false,
            offloads: false,
            depth: 10_000,
            ..MemoryConfig::default()
        });
        let interface = Interface {
            port: Box::new(port),
            addresses: &["10.0.0.1/24".parse().unwrap()],
            gateways: &[],
            automatic: &Automatic::default(),
        };
        let settings = Settings::new(Box::new(Alone), Loopback::Kernel, 0, true);
        let mut stack = Stack::new(interface, settings, &Secrets::from_seed(1), now).unwrap();
        let arena = Arc::new(Arena::create(GEOMETRY).unwrap());
        let mut host = AdapterSession::new(arena.clone(), Arc::new(EventfdSignaler::for_one()));
        (0..PROCESSES).for_each(|channel| host.open_channel(channel));
        let session = stack.open_session(Session::new(host, 0), None);
        Self {
            stack,
            arena,
            session,
            wire,
            now,
        }
    }

    fn ask(&mut self, channel: u16, request: &Request) {
        let from = From {
            session: self.session,
            channel,
        };
        self.stack
            .handle_request(from, request, &Immediate::default());
    }

    /// A listener of process 0 at port 80.
    fn listen(&mut self) -> SocketId {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap().unwrap();
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        let (tag, waiter) = (1, None);
        self.ask(
            0,
            &Request::Open {
                socket,
                kind: SocketKind::Stream,
                flags: OpenFlags::empty(),
            },
        );
        self.ask(
            0,
            &Request::Bind {
                socket,
                tag,
                waiter,
                local: SocketAddr::new(SERVER.into(), 80).into(),
            },
        );
        self.ask(
            0,
            &Request::Listen {
                socket,
                tag,
                waiter,
                backlog: HALF_OPEN as u32,
            },
        );
        socket
    }

    fn turn(&mut self) {
        self.now = self.now.after_us(10);
        self.stack.begin_turn(self.now);
        self.stack.handle_timeouts();
        self.stack.settle();
        self.stack.answer_questions();
        self.stack.publish();
        self.stack.check().unwrap();
    }

    /// A segment of client `number` comes.
    fn bring(&mut self, number: u16, flags: TcpFlags, ack: SeqNumber) {
        let header = TcpHeader {
            src_port: 1_024 + number,
            dst_port: 80,
            seq: SeqNumber(if flags.contains(TcpFlags::SYN) { 7 } else { 8 }),
            ack,
            flags,
            window: 60_000,
            urgent: 0,
            options: TcpOptions::default(),
        };
        let packet = packet(&header);
        let meta = RxMeta {
            len: packet.len(),
            checksum: RxChecksum::Unknown,
            gso: None,
        };
        self.stack.frame_in(&packet, &meta);
    }

    /// The sequence number of the last SYN-ACK that was sent.
    fn answered(&mut self) -> Option<SeqNumber> {
        let (mut frame, mut last) = (vec![0; 2_000], None);
        while let Some(meta) = self.wire.recv(&mut frame).unwrap() {
            let (header, _) = TcpHeader::parse(&frame[HEADER_LEN..meta.len]).unwrap();
            last = header.flags.contains(TcpFlags::SYN).then_some(header.seq);
        }
        last
    }

    fn told(&self) -> (u64, u64) {
        let session = self.stack.sessions.get(self.session).unwrap();
        let to_host = session.host.crossings().to_host;
        (to_host.descriptors.count, to_host.wakeups)
    }
}

fn packet(header: &TcpHeader) -> Vec<u8> {
    let source = Ipv4Addr::new(10, 0, 0, 2);
    let mut segment = vec![0; header.header_len()];
    header.emit(&mut segment);
    let pseudo = Partial::of_pseudo_v4(source, SERVER, protocol::TCP, segment.len() as u32);
    let sum = pseudo.plus(Partial::of(&segment)).finish();
    segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    let ip = Ipv4Header {
        tos: 0,
        payload_len: segment.len() as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        source,
        destination: SERVER,
    };
    let mut packet = vec![0; HEADER_LEN];
    ip.emit(&mut packet);
    packet.extend(segment);
    packet
}

#[test]
fn the_half_open_connections_of_a_closed_listener_are_reset_some_in_each_turn() {
    let mut bench = Bench::new();
    let listener = bench.listen();
    bench.turn();
    for client in 0..HALF_OPEN as u16 {
        bench.bring(client, TcpFlags::SYN, SeqNumber(0));
    }
    assert_eq!(bench.stack.half_open_count(), HALF_OPEN);
    bench.answered();
    bench.ask(
        0,
        &Request::Close {
            socket: listener,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: None,
        },
    );
    let mut turns = 0;
    while bench.stack.has_work_left() {
        let before = bench.stack.half_open_count();
        if turns == 1 {
            // Its port is free, and its clients are clients of the next that has it: the
            // first connection is the last that is reset.
            bench.listen();
            bench.bring(0, TcpFlags::SYN, SeqNumber(0));
            assert!(bench.answered().is_some());
            assert_eq!(bench.stack.half_open_count(), before);
        }
        bench.turn();
        turns += 1;
        let done = before - bench.stack.half_open_count();
        assert!(done <= RESETS, "{done} in one turn");
    }
    assert_eq!(bench.stack.half_open_count(), 1, "the new listener's");
    assert!(turns >= HALF_OPEN / RESETS);
}

#[test]
fn of_many_processes_that_have_a_listener_some_are_told_and_woken_in_each_turn() {
    let mut bench = Bench::new();
    let socket = bench.listen();
    (1..PROCESSES).for_each(|channel| bench.ask(channel, &Request::Subscribe { socket }));
    bench.turn();
    for waiter in bench.arena.waiters() {
        waiter.declare(Sleep::Futex);
    }
    let header = bench.arena.header();
    header
        .waiters_end
        .store(GEOMETRY.waiters, Ordering::Release);
    let block = bench.arena.block(socket.index);
    block.unlisted_waiters.store(1, Ordering::Release);

    bench.bring(0, TcpFlags::SYN, SeqNumber(0));
    let iss = bench.answered().expect("a SYN-ACK");
    bench.bring(0, TcpFlags::ACK, iss.add(1));
    let mut before = bench.told();
    let first = before;
    for turn in 0..40 {
        bench.turn();
        let now = bench.told();
        let (told, woken) = (now.0 - before.0, now.1 - before.1);
        assert!(told <= TOLD && woken <= TOLD, "{told} and {woken}");
        let all_are_told = now.0 - first.0 >= u64::from(PROCESSES);
        assert!(all_are_told || now.1 == first.1, "turn {turn}: too early");
        before = now;
    }
    let all = u64::from(PROCESSES);
    assert_eq!((before.0 - first.0, before.1 - first.1), (all, all));
    for channel in 0..PROCESSES {
        let mut program = HostChannel::new(bench.arena.clone(), channel.into());
        let mut edge = 0;
        while let Some(completion) = program.get().unwrap() {
            if let Some(Completion::Edges { edges, .. }) = completion {
                edge = edges.rcv_edge;
            }
        }
        assert_eq!(edge, ACCEPT_RECORD as u64, "process {channel}");
    }
}
