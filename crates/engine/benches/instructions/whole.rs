//! A whole engine on a wire in memory with one accepted connection, and the frames of its peer:
//! what the counts of frames and of turns begin with.

mod processes;

pub(crate) use processes::{whole_among, whole_asked, whole_connecting};

use crate::common::Host;
use longshore_engine::bench::segments::{FULL, MSS, PEER, US, data_header, ip_header};
use longshore_engine::{Config, Engine};
use longshore_hostif::{
    EdgeFlags, Geometry, Loopback, OpenFlags, OptionName, SocketId, SocketKind,
};
use longshore_net::ndp;
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{EtherType, EthernetHeader};
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use longshore_wire::{MacAddr, arp};
use processes::Processes;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The same over IPv6.
pub(crate) const FULL_OF_IPV6: usize = 1428;

/// When the engine's time begins to be the benchmark's: later than the clock can be by then.
const BEGIN_US: u64 = 3_600_000_000;

/// From one turn to the next.
const STEP_US: u64 = 100;

/// Sockets of each session that asks for nothing.
const IDLE_SOCKETS: usize = 60;

const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

const OUR_MAC: MacAddr = MacAddr([2, b'L', b'S', 0, 0, 1]);

const PEER_MAC: MacAddr = MacAddr([2, b'L', b'S', 0, 0, 2]);

pub(crate) const SMALL: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 512,
    workers: 1,
};

pub(crate) struct Whole {
    pub(crate) engine: Engine,
    pub(crate) host: Host,
    pub(crate) wire: MemoryPort,
    /// The next frame of the peer.
    pub(crate) next: Vec<u8>,
    /// When the next turn is, in microseconds.
    pub(crate) at_us: u64,
    _dir: tempfile::TempDir,
    socket: SocketId,
    idle: Vec<Host>,
    listener: SocketId,
    processes: Processes,
}

/// Who uses the engine beside the program that is looked at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Others {
    /// Sessions that ask for nothing, though they have sockets.
    pub(crate) sessions: usize,
    /// Processes that have the program's listener, with itself; 0 if it is alone. Each of them has
    /// a thread that sleeps until a connection comes.
    pub(crate) processes: usize,
}

/// The version of IP that the whole packet is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// Where the segment begins in a frame.
pub(crate) fn segment_at(version: Version) -> usize {
    match version {
        Version::V4 => 34,
        Version::V6 => 54,
    }
}

/// An Ethernet header from the peer to us, and room for more behind it.
pub(crate) fn ethernet(ether_type: EtherType, room: usize) -> Vec<u8> {
    let mut frame = vec![0; 14 + room];
    EthernetHeader {
        destination: OUR_MAC,
        source: PEER_MAC,
        ether_type,
    }
    .emit(&mut frame);
    frame
}

pub(crate) fn ip6_header(payload_len: u16, next_header: u8, hop_limit: u8) -> Ipv6Header {
    Ipv6Header {
        traffic_class: 0,
        flow_label: 0xabcde,
        payload_len,
        next_header,
        hop_limit,
        source: PEER6,
        destination: US6,
    }
}

pub(crate) fn frame(version: Version, header: &TcpHeader, payload: usize) -> Vec<u8> {
    let len = header.header_len() + payload;
    let at = segment_at(version);
    let (mut frame, pseudo) = match version {
        Version::V4 => {
            let mut frame = ethernet(EtherType::Ipv4, 20 + len);
            ip_header(len as u16).emit(&mut frame[14..]);
            let pseudo = Partial::of_pseudo_v4(PEER, US, protocol::TCP, len as u32);
            (frame, pseudo)
        }
        Version::V6 => {
            let mut frame = ethernet(EtherType::Ipv6, 40 + len);
            ip6_header(len as u16, protocol::TCP, 64).emit(&mut frame[14..]);
            let pseudo = Partial::of_pseudo_v6(PEER6, US6, protocol::TCP, len as u32);
            (frame, pseudo)
        }
    };
    header.emit(&mut frame[at..]);
    let sum = pseudo.plus(Partial::of(&frame[at..])).finish();
    frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A frame by which the engine learns where the peer is.
pub(crate) fn introduction(version: Version) -> Vec<u8> {
    match version {
        Version::V4 => {
            let mut bytes = ethernet(EtherType::Arp, arp::PACKET_LEN);
            arp::ArpPacket {
                operation: arp::Operation::Reply,
                sender_mac: PEER_MAC,
                sender_ip: PEER,
                target_mac: OUR_MAC,
                target_ip: US,
            }
            .emit(&mut bytes[14..]);
            bytes
        }
        Version::V6 => {
            let message = ndp::probe(PEER6, US6, Some(PEER_MAC));
            let len = message.bytes().len();
            let mut bytes = ethernet(EtherType::Ipv6, 40 + len);
            let header = ip6_header(len as u16, ipv6::next_header::ICMPV6, ndp::HOP_LIMIT);
            header.emit(&mut bytes[14..]);
            bytes[54..].copy_from_slice(message.bytes());
            bytes
        }
    }
}

/// An engine with one accepted connection, which has taken some segments; the
/// next one, with `payload` bytes, waits on the wire, if `waiting`. The stream is
/// empty, or has `unread` bytes.
pub(crate) fn whole(waiting: bool, payload: usize, unread: bool) -> Box<Whole> {
    whole_of(Version::V4, waiting, payload, unread)
}

/// As `whole`, beside so many sessions that ask for nothing, though they have sockets.
pub(crate) fn whole_beside(idle: usize, waiting: bool) -> Box<Whole> {
    let others = Others {
        sessions: idle,
        ..Others::default()
    };
    whole_of_many(others, Version::V4, waiting, FULL, true)
}

/// As `whole`, with the next segment in hand, where the engine has no other session and will have
/// none.
pub(crate) fn whole_alone(version: Version, payload: usize) -> Box<Whole> {
    let start = Start::new(Others::default(), version, true);
    whole_in(start, false, payload, true)
}

/// As `whole`, where the program has sent so many bytes, which the next turn takes.
pub(crate) fn whole_sending(version: Version, payload: usize) -> Box<Whole> {
    let mut whole = whole_of(version, false, payload, true);
    let socket = whole.socket;
    // Nothing is acknowledged meanwhile, and still each write is to be sent at once.
    whole.host.set(socket, OptionName::NoDelay, 1);
    for _ in 0..4 {
        whole.host.send(socket, &vec![1; payload], EdgeFlags::PUSH);
        whole.turn();
        whole.turn();
        // The wire has memory for the next by then.
        assert!(whole.has_sent(segment_at(version) + 32 + payload));
    }
    whole.host.send(socket, &vec![1; payload], EdgeFlags::PUSH);
    whole
}

impl Whole {
    /// One that is not counted.
    fn turn(&mut self) {
        self.engine.turn_of(self.at_us).expect("a turn");
        self.at_us += STEP_US;
    }

    /// Whether the last frame that the engine has sent is of this length.
    pub(crate) fn has_sent(&mut self, len: usize) -> bool {
        let mut bytes = vec![0; 70_000];
        let mut last = 0;
        while let Some(meta) = self.wire.recv(&mut bytes).expect("a frame") {
            last = meta.len;
        }
        last == len
    }
}

pub(crate) fn whole_of(
    version: Version,
    waiting: bool,
    payload: usize,
    unread: bool,
) -> Box<Whole> {
    whole_of_many(Others::default(), version, waiting, payload, unread)
}

pub(crate) fn whole_of_many(
    others: Others,
    version: Version,
    waiting: bool,
    payload: usize,
    unread: bool,
) -> Box<Whole> {
    whole_in(Start::new(others, version, false), waiting, payload, unread)
}

fn whole_in(mut start: Start, waiting: bool, payload: usize, unread: bool) -> Box<Whole> {
    let socket = start.accept_first();
    start.receive_some(socket, unread);
    let next = start.segment(payload);
    if waiting {
        start.send(&next);
    }
    start.end(next, socket)
}

/// An engine on its way to be a [`Whole`].
struct Start {
    version: Version,
    engine: Engine,
    wire: MemoryPort,
    host: Host,
    listener: SocketId,
    processes: Processes,
    idle: Vec<Host>,
    dir: tempfile::TempDir,
    at_us: u64,
    /// The peer's next sequence number, and what it has received.
    seq: u32,
    ack: u32,
    /// Room for what the engine sends.
    answer: Vec<u8>,
}

impl Start {
    /// An engine, a program that listens, and others; or an engine that is that program's alone.
    fn new(others: Others, version: Version, private: bool) -> Self {
        let (address, local) = match version {
            Version::V4 => ("10.0.0.1/24", "10.0.0.1:80"),
            Version::V6 => ("fd00::1/64", "[fd00::1]:80"),
        };
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("engine");
        let (port, wire) = pair(&MemoryConfig {
            offloads: false,
            ..MemoryConfig::default()
        });
        let mut engine =
            Engine::new(config(port, address, path.clone(), private, others)).expect("an engine");
        let idle = others.sessions;
        let program = std::thread::spawn(move || programs(&path, version, local, idle));
        while !program.is_finished() {
            engine
                .turn_and_rest(Duration::from_millis(1))
                .expect("a turn");
        }
        let (host, listener, idle) = program.join().expect("a program");
        let mut start = Self {
            version,
            engine,
            wire,
            host,
            listener,
            processes: Processes::default(),
            idle,
            dir,
            at_us: BEGIN_US,
            seq: 0,
            ack: 0,
            answer: vec![0; 70_000],
        };
        // From here on the engine's time is the benchmark's, and what is due is the same each
        // time. The first of these turns does all that came due before.
        start.turn();
        // Those that ask for nothing are looked at in vain for a while.
        (0..2 * start.idle.len()).for_each(|_| start.turn());
        if others.processes != 0 {
            start.share_listener(others.processes);
        }
        start
    }

    fn end(self, next: Vec<u8>, socket: SocketId) -> Box<Whole> {
        Box::new(Whole {
            engine: self.engine,
            host: self.host,
            wire: self.wire,
            next,
            at_us: self.at_us,
            _dir: self.dir,
            socket,
            idle: self.idle,
            listener: self.listener,
            processes: self.processes,
        })
    }

    fn turn(&mut self) {
        self.engine.turn_of(self.at_us).expect("a turn");
        self.at_us += STEP_US;
    }

    fn send(&mut self, frame: &[u8]) {
        self.wire.send(&TxFrame::whole(frame)).expect("room");
    }

    /// The peer's next segment, with so many bytes.
    fn segment(&self, payload: usize) -> Vec<u8> {
        frame(self.version, &data_header(self.seq, self.ack), payload)
    }

    /// The connection that all segments are of comes in and is accepted.
    fn accept_first(&mut self) -> SocketId {
        self.send(&introduction(self.version));
        let ack = self.begin_connection(data_header(0, 0).src_port);
        (self.seq, self.ack) = (ack.seq.0, ack.ack.0);
        self.accept(&ack)
    }

    /// The peer begins to connect from this port; the segment by which it ends the handshake.
    fn begin_connection(&mut self, from: u16) -> TcpHeader {
        let mut syn = data_header(100, 0);
        syn.src_port = from;
        syn.flags = TcpFlags::SYN;
        syn.options = TcpOptions {
            mss: Some(MSS),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 10, echo: 0 }),
            ..TcpOptions::default()
        };
        self.send(&frame(self.version, &syn, 0));
        self.turn();
        let at = segment_at(self.version);
        let iss = loop {
            let meta = self.wire.recv(&mut self.answer).expect("a frame");
            let len = meta.expect("a SYN-ACK").len;
            if let Ok((h, _)) = TcpHeader::parse(self.answer[..len].get(at..).unwrap_or_default())
                && h.flags.contains(TcpFlags::SYN | TcpFlags::ACK)
            {
                break h.seq;
            }
        };
        let mut ack = data_header(101, iss.add(1).0);
        ack.src_port = from;
        ack.flags = TcpFlags::ACK;
        ack
    }

    /// The peer ends a handshake, and the connection is accepted.
    fn accept(&mut self, ack: &TcpHeader) -> SocketId {
        self.send(&frame(self.version, ack, 0));
        self.turn();
        if !self.processes.is_empty() {
            (0..processes::SETTLING).for_each(|_| self.turn());
        }
        let socket = self.host.accept(self.listener).socket;
        self.processes.sleep(&self.host);
        socket
    }

    /// The connection takes some segments and sends a byte; what came last remains `unread`, if
    /// the next is to lie behind it.
    fn receive_some(&mut self, socket: SocketId, unread: bool) {
        let full = match self.version {
            Version::V4 => FULL,
            Version::V6 => FULL_OF_IPV6,
        };
        for i in 0..34 {
            // What goes in descriptors has its memory by then, too.
            let len = if i < 2 { 1 } else { full };
            self.send(&self.segment(len));
            self.seq += len as u32;
            self.turn();
            self.host.drain();
            if i == 33 && unread {
                break;
            }
            let edge = self.host.edges(socket).map_or(0, |e| e.rcv_edge);
            self.host.consume(socket, edge);
            self.turn();
            self.drain_wire();
        }
        self.host.send(socket, b"x", EdgeFlags::PUSH);
        self.turn();
        self.drain_wire();
        // Whatever is still to be done is done before it is counted.
        self.turn();
        self.turn();
    }

    fn drain_wire(&mut self) {
        while self.wire.recv(&mut self.answer).expect("a frame").is_some() {}
    }
}

fn config(
    port: MemoryPort,
    address: &str,
    socket: PathBuf,
    private: bool,
    others: Others,
) -> Config {
    Config {
        port: Box::new(port),
        port_name: "memory".to_owned(),
        addresses: vec![address.parse().expect("an address")],
        gateways: Vec::new(),
        automatic: longshore_engine::Automatic::default(),
        scope: 0,
        loopback: Loopback::Kernel,
        cut_through: true,
        socket,
        control: None,
        geometry: processes::geometry(others.processes),
        private,
        others_may_join: !private,
        users: Vec::new(),
        spin: Duration::ZERO,
        placement: longshore_engine::Placement::Scheduler,
        grace: Duration::ZERO,
    }
}

/// The program that listens at `local`, its listener, and `idle` programs that have sockets.
fn programs(
    path: &Path,
    version: Version,
    local: &str,
    idle: usize,
) -> (Host, SocketId, Vec<Host>) {
    let mut host = Host::new(path);
    let mut flags = OpenFlags::REUSE_ADDRESS;
    flags.set(OpenFlags::IPV6, version == Version::V6);
    let listener = host.open_with(SocketKind::Stream, flags);
    host.bind(listener, local.parse().expect("an address"))
        .expect("bound");
    assert_eq!(host.listen(listener), 0);
    let idle = (0..idle)
        .map(|_| {
            let mut host = Host::new(path);
            for _ in 0..IDLE_SOCKETS {
                host.open(SocketKind::Datagram);
            }
            host
        })
        .collect();
    (host, listener, idle)
}
