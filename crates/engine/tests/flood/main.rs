//! A listener under a flood of SYNs: memory stays bounded, connections that there are go
//! on, and new clients come through by cookies. The far end of the wire is the test's
//! own: it writes and reads packets.

#[path = "../common/mod.rs"]
mod common;
mod duplicates;
mod early;
mod goodput;

use common::{Host, TIMEOUT};
use longshore_engine::control::{ControlReply, StatReply};
use longshore_engine::{Config, Engine, Handle};
use longshore_hostif::{EdgeFlags, Geometry, Loopback, SocketKind};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::ipv4;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After how long a client repeats its SYN. An answer that comes later is as good.
const REPEAT: Duration = Duration::from_millis(200);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

/// The engine with its program's door, and the other end of its wire.
struct World {
    wire: MemoryPort,
    path: PathBuf,
    control: PathBuf,
    stopper: Handle,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            longshore_testbed::join(thread);
        }
    }
}

/// A client's address and port.
type Client = (Ipv4Addr, u16);

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (port, wire) = pair(&MemoryConfig {
            offloads: false,
            ethernet: false,
            depth: 100_000,
            ..MemoryConfig::default()
        });
        let (path, control) = (dir.path().join("door"), dir.path().join("control"));
        let mut engine = Engine::new(config(port, path.clone(), Some(control.clone()))).unwrap();
        let stopper = engine.handle();
        let thread = std::thread::spawn(move || engine.run().unwrap());
        World {
            wire,
            path,
            control,
            stopper,
            thread: Some(thread),
            _dir: dir,
        }
    }

    fn send(&mut self, from: Client, header: &TcpHeader, payload: &[u8]) {
        let bytes = packet(from, header, payload);
        let start = Instant::now();
        while self.wire.send(&TxFrame::whole(&bytes)).is_err() {
            assert!(start.elapsed() < TIMEOUT, "the engine does not read");
            std::thread::yield_now();
        }
    }

    /// The next segment to `to` that `wanted` likes; others are dropped.
    fn receive(&mut self, to: Client, wanted: impl Fn(&TcpHeader, &[u8]) -> bool) -> TcpHeader {
        self.receive_within(TIMEOUT, to, wanted)
            .expect("nothing comes")
    }

    /// As `receive`, if it comes within so long.
    fn receive_within(
        &mut self,
        limit: Duration,
        to: Client,
        wanted: impl Fn(&TcpHeader, &[u8]) -> bool,
    ) -> Option<TcpHeader> {
        let start = Instant::now();
        let mut frame = vec![0; 70_000];
        loop {
            if let Some(meta) = self.wire.recv(&mut frame).unwrap() {
                let (ip, range) = Ipv4Header::parse(&frame[..meta.len]).unwrap();
                let bytes = &frame[range];
                let (header, len) = TcpHeader::parse(bytes).unwrap();
                if (ip.destination, header.dst_port) == to && wanted(&header, &bytes[len..]) {
                    return Some(header);
                }
            } else if start.elapsed() < limit {
                std::thread::yield_now();
            } else {
                return None;
            }
        }
    }

    /// The handshake of a client, which repeats its SYN if there is no answer; gives the
    /// header of the acknowledgment that ended it.
    fn connects(&mut self, from: Client) -> TcpHeader {
        let syn = syn(from);
        let start = Instant::now();
        let answer = loop {
            assert!(start.elapsed() < TIMEOUT, "no answer");
            self.send(from, &syn, &[]);
            let wanted = |h: &TcpHeader, _: &[u8]| h.flags.contains(SYN | ACK);
            if let Some(answer) = self.receive_within(REPEAT, from, wanted) {
                break answer;
            }
        };
        let ack = ack_of(&syn, &answer);
        self.send(from, &ack, &[]);
        ack
    }

    /// Data from a client, up to their acknowledgment.
    fn says(&mut self, from: Client, last: &mut TcpHeader, text: &[u8]) {
        let header = TcpHeader {
            flags: ACK | TcpFlags::PSH,
            ..last.clone()
        };
        self.send(from, &header, text);
        last.seq = last.seq.add(text.len() as u32);
        let end = last.seq;
        self.receive(from, |h, _| h.ack == end);
    }

    fn stat(&self) -> StatReply {
        let mut stream = UnixStream::connect(&self.control).unwrap();
        stream.write_all(b"{\"cmd\":\"stat\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        match serde_json::from_str(&line).unwrap() {
            ControlReply::Stat(stat) => *stat,
            other => panic!("{other:?}"),
        }
    }
}

/// An engine at `port` whose programs come by `path`.
fn config(port: impl Port + 'static, path: PathBuf, control: Option<PathBuf>) -> Config {
    Config {
        port: Box::new(port),
        port_name: "memory".to_owned(),
        addresses: vec!["10.0.0.1/24".parse().unwrap()],
        scope: 0,
        gateways: vec![Ipv4Addr::new(10, 0, 0, 254).into()],
        automatic: longshore_engine::Automatic::default(),
        loopback: Loopback::Kernel,
        cut_through: true,
        socket: path,
        control,
        geometry: Geometry {
            channels: 64,
            waiters: 64,
            sockets: 1024,
            snd_chunks: 256,
            rcv_chunks: 1024,
            workers: 1,
        },
        private: false,
        users: Vec::new(),
        others_may_join: true,
        spin: Duration::from_secs(3600),
        placement: longshore_engine::Placement::Scheduler,
        grace: Duration::ZERO,
    }
}

/// A packet to the server, as it is on the wire.
fn packet(from: Client, header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; header.header_len() + payload.len()];
    let data = header.emit(&mut segment);
    segment[data..].copy_from_slice(payload);
    let pseudo = Partial::of_pseudo_v4(from.0, SERVER, protocol::TCP, segment.len() as u32);
    let sum = pseudo.plus(Partial::of(&segment)).finish();
    segment[CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
    ipv4((from.0, SERVER), protocol::TCP, 64, &segment)
}

/// The acknowledgment that ends the handshake which this SYN has begun.
fn ack_of(syn: &TcpHeader, answer: &TcpHeader) -> TcpHeader {
    TcpHeader {
        seq: syn.seq.add(1),
        ack: answer.seq.add(1),
        flags: ACK,
        options: TcpOptions {
            timestamps: answer.options.timestamps.map(|t| Timestamps {
                val: 10,
                echo: t.val,
            }),
            ..TcpOptions::default()
        },
        ..syn.clone()
    }
}

fn syn((ip, port): Client) -> TcpHeader {
    TcpHeader {
        src_port: port,
        dst_port: 80,
        seq: SeqNumber(u32::from(ip) ^ u32::from(port) << 16),
        ack: SeqNumber(0),
        flags: SYN,
        window: 60_000,
        urgent: 0,
        options: TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 5, echo: 0 }),
            ..TcpOptions::default()
        },
    }
}

/// The `i`th of the flood: an address that exists nowhere.
fn nobody(i: u32) -> Client {
    let ip = Ipv4Addr::from(0xcb00_0000 | i.wrapping_mul(0x9e37_79b9) & 0xff_ffff);
    (ip, 1024 + (i % 60_000) as u16)
}

#[test]
fn a_flood_of_syns_harms_neither_connections_nor_clients() {
    let mut world = World::new();
    let mut host = Host::new(&world.path.clone());
    let listener = host.listening("0.0.0.0:80");

    let early: Client = (Ipv4Addr::new(192, 0, 2, 1), 5000);
    let mut early_last = world.connects(early);
    let first = host.accept(listener);
    world.says(early, &mut early_last, b"before");
    assert_eq!(host.receive(first.socket, 6), b"before");

    for i in 0..20_000 {
        world.send(nobody(i), &syn(nobody(i)), &[]);
        if i == 10_000 {
            // In the middle of it.
            world.says(early, &mut early_last, b"amidst");
            assert_eq!(host.receive(first.socket, 6), b"amidst");
        }
    }
    // The backlog is 128: so many are remembered, others have their cookie.
    let late: Client = (Ipv4Addr::new(192, 0, 2, 2), 5000);
    let mut late_last = world.connects(late);
    world.says(late, &mut late_last, b"through");
    let second = host.accept(listener);
    assert_eq!(second.peer.get(), Some("192.0.2.2:5000".parse().unwrap()));
    assert_eq!(host.receive(second.socket, 7), b"through");
    host.send(second.socket, b"welcome", EdgeFlags::empty());
    let answer = world.receive(late, |_, payload| payload == b"welcome");
    assert!(answer.options.timestamps.is_some());
    let stat = world.stat();
    // They are no sockets, and take a tenth of the memory of one at most.
    assert!(stat.engine["sockets"] <= 8, "{:?}", stat.engine);
    assert!((100..=128).contains(&stat.tcp["half_open"]), "{stat:?}");
    let [half_open, socket] = ["half_open_bytes", "connection_bytes"].map(|n| stat.engine[n]);
    assert!(half_open <= 208 && 10 * half_open < socket, "{half_open}");
    // Those for which there was no time, because more waited behind them, have none.
    let unanswered = stat.drops.get("unsolicited_unanswered").unwrap_or(&0);
    assert!(
        stat.tcp["syn_cookies_sent"] + unanswered >= 19_000,
        "{stat:?}"
    );
    assert!(stat.tcp["syn_cookies_sent"] >= 19_000 / 8, "{:?}", stat.tcp);
    assert_eq!(stat.tcp["syn_cookies_taken"], 1);

    // What is guessed is reset, and the connection of before still goes on.
    for i in 0..1_000 {
        let header = TcpHeader {
            ack: SeqNumber(i * 77_777),
            flags: ACK,
            ..syn(nobody(i))
        };
        world.send(nobody(i), &header, &[]);
    }
    world.says(early, &mut early_last, b"after");
    assert_eq!(host.receive(first.socket, 5), b"after");
    let stat = world.stat();
    assert!(stat.drops["tcp_bad_syn_cookie"] >= 860, "{:?}", stat.drops);
    assert_eq!(stat.tcp["syn_cookies_taken"], 1);
}

/// As Linux: while the accept queue is full, the last acknowledgment of a handshake is
/// dropped and the SYN-ACK repeated, until there is room.
#[test]
fn a_full_accept_queue_lets_clients_wait() {
    let mut world = World::new();
    let mut host = Host::new(&world.path.clone());
    let listener = host.listening("0.0.0.0:80");
    // One more than the backlog of 128 fit. The last one waits.
    let client = |i: u16| (Ipv4Addr::new(192, 0, 2, 1), 5000 + i);
    for i in 0..129 {
        world.connects(client(i));
    }
    let start = Instant::now();
    while world.stat().tcp["passive_opens"] < 129 {
        assert!(start.elapsed() < TIMEOUT);
    }
    world.send(client(200), &syn(client(200)), &[]);
    world.says_nothing_to(client(200));
    for _ in 0..129 {
        host.accept(listener);
    }
    // Its SYN is repeated, as a client would.
    world.connects(client(200));
    let record = host.accept(listener);
    assert_eq!(record.peer.get(), Some("192.0.2.1:5200".parse().unwrap()));
    assert!(world.stat().drops["tcp_accept_queue_full"] >= 1);
}

impl World {
    /// Nothing comes for this client within a while.
    fn says_nothing_to(&mut self, to: Client) {
        let start = Instant::now();
        let mut frame = vec![0; 70_000];
        while start.elapsed() < Duration::from_millis(100) {
            if let Some(meta) = self.wire.recv(&mut frame).unwrap() {
                let (ip, range) = Ipv4Header::parse(&frame[..meta.len]).unwrap();
                let (header, _) = TcpHeader::parse(&frame[range]).unwrap();
                assert_ne!((ip.destination, header.dst_port), to);
            }
        }
    }
}

#[test]
fn a_listener_that_closes_resets_those_that_are_half_open() {
    let mut world = World::new();
    let mut host = Host::new(&world.path.clone());
    let listener = host.listening("0.0.0.0:80");
    let client: Client = (Ipv4Addr::new(192, 0, 2, 1), 5000);
    world.send(client, &syn(client), &[]);
    let answer = world.receive(client, |h, _| h.flags == TcpFlags::SYN | TcpFlags::ACK);
    assert_eq!(world.stat().tcp["half_open"], 1);
    host.close(listener);
    let reset = world.receive(client, |h, _| h.flags.contains(TcpFlags::RST));
    assert_eq!(reset.seq, answer.seq.add(1));
    assert_eq!(world.stat().tcp["half_open"], 0);
}

#[test]
fn a_connection_between_own_sockets_leaves_half_open_ones_counted() {
    let mut world = World::new();
    let mut host = Host::new(&world.path.clone());
    let listener = host.listening("0.0.0.0:80");
    let client: Client = (Ipv4Addr::new(192, 0, 2, 1), 5000);
    let first = syn(client);
    world.send(client, &first, &[]);
    let answer = world.receive(client, |h, _| h.flags == SYN | ACK);
    let own = host.open(SocketKind::Stream);
    assert_eq!(host.connect(own, "10.0.0.1:80".parse().unwrap()), 0);
    host.accept(listener);
    assert_eq!(world.stat().tcp["half_open"], 1);
    world.send(client, &ack_of(&first, &answer), &[]);
    let record = host.accept(listener);
    assert_eq!(record.peer.get(), Some("192.0.2.1:5000".parse().unwrap()));
    let stat = world.stat();
    assert_eq!(stat.tcp["half_open"], 0);
    assert_eq!(stat.engine["contained_panics"], 0, "all is counted right");
}
