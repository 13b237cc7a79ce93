//! What a flood of SYNs takes from a connection that is there, and what memory it costs:
//! in turns of the engine's loop, not in time, so that the figures are the same on any
//! machine. The test takes each turn itself and brings to it as many frames as a turn
//! takes from its port: those of the connection, and in the flood SYNs in all other
//! places, between them.

use super::{ACK, Client, SYN, ack_of, config, nobody, packet, syn};
use crate::common::Host;
use longshore_engine::Engine;
use longshore_hostif::{EdgeFlags, SocketId};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_wire::SeqNumber;
use longshore_wire::ipv4::Ipv4Header;
use longshore_wire::tcp::TcpHeader;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Frames that the engine takes from its port in a turn (`engine/src/receive_policy.rs`).
const TURN: usize = 64;
/// Bytes of a segment.
pub(super) const MSS: usize = 1448;
/// Segments that the client sends in a turn.
const SEGMENTS: usize = 8;
/// The client's window, which is what the engine's side may send in a turn: unscaled.
const WINDOW: u16 = (16 * MSS / 128) as u16;
/// Bytes that the program keeps in its send stream.
const AHEAD: u64 = 64 * 1024;

/// The system's allocator, and how much this thread has of it.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: i64) {
    // A thread that ends has no count any more.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: all is done by the system's allocator; to count allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: what the caller promises is what is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The byte at this place of either stream.
fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

pub(super) fn stream(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(byte_at).collect()
}

/// An engine whose turns are taken here, its program, and a client that sends and reads
/// at once.
pub(super) struct Bench {
    pub(super) engine: Engine,
    host: Host,
    wire: MemoryPort,
    socket: SocketId,
    pub(super) client: Client,
    /// The client's next segment: its sequence number, and what it acknowledges.
    pub(super) last: TcpHeader,
    /// Where both streams of the client begin.
    pub(super) iss: SeqNumber,
    irs: SeqNumber,
    /// Bytes that the program has read, and written.
    read: u64,
    written: u64,
    /// Chunks of the send stream that are free again.
    reclaimed: u64,
    /// SYNs sent, and SYN-ACKs that came.
    syns: u32,
    answers: u32,
    _dir: tempfile::TempDir,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let (port, wire) = pair(&MemoryConfig {
            offloads: false,
            ethernet: false,
            ..MemoryConfig::default()
        });
        let path = dir.path().join("door");
        let mut engine = Engine::new(config(port, path.clone(), None)).unwrap();
        let program = std::thread::spawn(move || {
            let mut host = Host::new(&path);
            let listener = host.listening("0.0.0.0:80");
            (host, listener)
        });
        while !program.is_finished() {
            engine.turn_and_rest(Duration::from_millis(1)).unwrap();
        }
        let (host, listener) = program.join().unwrap();
        let client = (Ipv4Addr::new(192, 0, 2, 1), 5000);
        let first = syn(client);
        let mut bench = Bench {
            engine,
            host,
            wire,
            socket: listener,
            client,
            iss: first.seq.add(1),
            irs: SeqNumber(0),
            last: first,
            read: 0,
            written: 0,
            reclaimed: 0,
            syns: 0,
            answers: 0,
            _dir: dir,
        };
        bench.connect(listener);
        bench
    }

    fn connect(&mut self, listener: SocketId) {
        self.bring(self.client, &self.last.clone(), &[]);
        self.engine.turn().unwrap();
        let answer = self.frames().pop().expect("a SYN-ACK").0;
        self.irs = answer.seq.add(1);
        self.last = TcpHeader {
            window: WINDOW,
            ..ack_of(&self.last, &answer)
        };
        self.bring(self.client, &self.last.clone(), &[]);
        self.engine.turn().unwrap();
        self.socket = self.host.accept(listener).socket;
    }

    /// A packet to the engine's port, which has room for what a turn brings.
    pub(super) fn bring(&mut self, from: Client, header: &TcpHeader, payload: &[u8]) {
        let bytes = packet(from, header, payload);
        self.wire.send(&TxFrame::whole(&bytes)).expect("room");
    }

    /// What the engine has sent to the client, with its payload's length; what it has
    /// answered to the flood is counted.
    pub(super) fn frames(&mut self) -> Vec<(TcpHeader, usize)> {
        let mut frame = vec![0; 2000];
        let mut to_client = Vec::new();
        while let Some(meta) = self.wire.recv(&mut frame).unwrap() {
            let (ip, range) = Ipv4Header::parse(&frame[..meta.len]).unwrap();
            let bytes = &frame[range];
            let (header, len) = TcpHeader::parse(bytes).unwrap();
            if (ip.destination, header.dst_port) != self.client {
                assert!(header.flags.contains(SYN | ACK));
                self.answers += 1;
                continue;
            }
            let at = u64::from(header.seq.0.wrapping_sub(self.irs.0));
            let right = stream(at, bytes.len() - len) == bytes[len..];
            assert!(right || header.flags.contains(SYN), "{at}");
            to_client.push((header, bytes.len() - len));
        }
        to_client
    }

    fn flood(&mut self, syns: usize) {
        for _ in 0..syns {
            self.bring(nobody(self.syns), &syn(nobody(self.syns)), &[]);
            self.syns += 1;
        }
    }

    /// One turn, with this many SYNs before each of the client's segments.
    pub(super) fn turn(&mut self, syns: usize) {
        for _ in 0..SEGMENTS {
            self.flood(syns);
            let at = u64::from(self.last.seq.0.wrapping_sub(self.iss.0));
            self.bring(self.client, &self.last.clone(), &stream(at, MSS));
            self.last.seq = self.last.seq.add(MSS as u32);
        }
        let acked = u64::from(self.last.ack.0.wrapping_sub(self.irs.0));
        let more = (acked + AHEAD).saturating_sub(self.written) as usize;
        let bytes = stream(self.written, more);
        self.host.send(self.socket, &bytes, EdgeFlags::empty());
        self.written += more as u64;
        self.engine.turn().unwrap();
        for (header, len) in self.frames() {
            // What comes out of order or again does not come at all.
            if header.seq == self.last.ack {
                self.last.ack = self.last.ack.add(len as u32);
            }
        }
        self.host.drain();
        self.reclaimed = self.host.reclaim(self.socket, self.reclaimed);
        let edge = self.host.edges(self.socket).map_or(0, |e| e.rcv_edge);
        let len = (edge - self.read) as usize;
        let bytes = self.host.receive(self.socket, len);
        assert!(bytes == stream(self.read, len));
        self.read = edge;
    }

    /// Bytes that the program has read, and the client, in so many turns.
    pub(super) fn turns(&mut self, turns: usize, syns: usize) -> (u64, u64) {
        let (read, ack) = (self.read, self.last.ack);
        for _ in 0..turns {
            self.turn(syns);
        }
        let got = self.last.ack.0.wrapping_sub(ack.0);
        (self.read - read, u64::from(got))
    }
}

/// A turn's worth of SYNs in every turn takes less than a tenth of a connection's
/// goodput, in either direction, and no memory beyond that of the first turns.
#[test]
fn a_flood_takes_neither_goodput_nor_memory() {
    const TURNS: usize = 100;
    let mut bench = Bench::new();
    // Until the window is as large as the client's.
    bench.turns(20, 0);
    let calm = bench.turns(TURNS, 0);
    let all = (TURNS * SEGMENTS * MSS) as u64;
    assert!(calm.0 == all && calm.1 >= all, "{calm:?} of {all}");

    // The backlog fills, the first cookies go out.
    let syns = (TURN - SEGMENTS) / SEGMENTS;
    bench.turns(20, syns);
    let held = HELD.get();
    for _ in 0..10 {
        let flooded = bench.turns(TURNS, syns);
        for (calm, flooded) in [(calm.0, flooded.0), (calm.1, flooded.1)] {
            assert!(flooded * 10 >= calm * 9, "{flooded} of {calm}");
        }
    }
    let grown = HELD.get() - held;
    assert!(bench.syns > 50_000, "{}", bench.syns);
    // The engine never sees the end of what is there, and answers some all the same. (More
    // of them are answers to the first, repeated.)
    let share = bench.syns / 8;
    assert!(bench.answers >= share, "{}", bench.answers);
    assert!(bench.answers < 2 * share, "{}", bench.answers);
    // Once it does, each SYN is answered in its turn.
    bench.turns(1, 0);
    let before = (bench.syns, bench.answers);
    bench.turns(20, syns - 1);
    assert!(bench.answers - before.1 >= bench.syns - before.0);
    // Tables may take their next size once, and the wire has had more frames at once if
    // SYN-ACKs were repeated meanwhile; of a SYN nothing is kept, as the least that could
    // be takes 16 bytes.
    assert!(grown < 8 * i64::from(bench.syns), "{grown} bytes");
}
