//! Payloads that a program sends and receives over an engine, all in one process: program,
//! engine and peer take turns in one thread, at times that are given, so that counts repeat.
//!
//! The port stands for an adapter with segmentation and checksums. It moves payload without
//! the processor: what is sent is not read, and what is received lies in memory, in no cache.
//! `longshore __program payloads` runs them under callgrind, which counts in the functions
//! `counted_...`; `payload-times` measures how long they take.

use longshore_engine::bench::segments::{US, ip_header};
use longshore_engine::{Automatic, Config, Engine};
use longshore_hostif::attach::{SessionOptions, new_session};
use longshore_hostif::{Geometry, Loopback};
use longshore_ports::{
    Capabilities, LinkKind, Port, PortCounters, PortError, RxChecksum, RxMeta, TxFrame,
};
use longshore_sockets::{Hooks, Host, Listener, Socket, SocketError};
use longshore_wire::SeqNumber;
use longshore_wire::ipv4;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::hint::black_box;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PORT: u16 = 80;
const PEERS_PORT: u16 = 1000;
const MTU: usize = 1500;
/// Payload of a full segment with timestamps.
const FULL: usize = 1448;
/// IP and TCP with timestamps.
const HEADERS: usize = ipv4::HEADER_LEN + 32;
/// When time begins, in microseconds of the engine: later than its clock can be by then.
const BEGIN_US: u64 = 3_600_000_000;
/// From one turn to the next.
const STEP_US: u64 = 100;
/// How long a handshake may take.
const HANDSHAKE_US: u64 = 1_000_000;
/// The peer's first sequence number behind its SYN.
const FIRST: u32 = 101;
/// Frames that come in a turn: fewer than any window has room for.
const BATCH: usize = 16;
/// Payloads before those that count.
const WARM: usize = 16;
/// Bytes over which a mean is taken: several of the chunks that streams are made of, each of
/// which costs something when it begins.
const COUNTED: usize = 256 << 10;
/// More than the caches hold that callgrind simulates, and than a processor's second level.
const EVICTING: usize = 4 << 20;
/// Turns after which something should have happened.
const TURNS: u32 = 10_000;

/// Payloads of a size over which a mean is taken.
pub(super) fn counted(size: usize) -> usize {
    COUNTED / size.clamp(1, COUNTED)
}

/// Which way payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Transmit,
    Receive,
}

impl Direction {
    /// Both, in the order of their numbers.
    pub(super) const BOTH: [Direction; 2] = [Direction::Transmit, Direction::Receive];

    pub(super) fn word(self) -> &'static str {
        match self {
            Direction::Transmit => "transmit",
            Direction::Receive => "receive",
        }
    }

    pub(super) fn doing(self) -> &'static str {
        match self {
            Direction::Transmit => "sending",
            Direction::Receive => "receiving",
        }
    }

    fn of(word: &str) -> io::Result<Self> {
        let found = Self::BOTH.into_iter().find(|it| it.word() == word);
        found.ok_or_else(|| fail("the direction is neither transmit nor receive"))
    }
}

fn fail(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// What the engine sends: where it ends in the sequence space is all that is kept of it.
struct Wire {
    capabilities: Capabilities,
    counters: PortCounters,
    sent: Arc<AtomicU32>,
}

impl Wire {
    fn new(sent: Arc<AtomicU32>) -> Self {
        Wire {
            capabilities: Capabilities {
                link: LinkKind::Ip,
                mtu: MTU,
                tx_checksum: true,
                passes_payload: false,
                rx_checksum: true,
                tso4: true,
                tso6: true,
                uso: true,
                max_gso_bytes: 65_535,
                big_tcp: None,
                rx_coalesced: false,
            },
            counters: PortCounters::default(),
            sent,
        }
    }
}

impl Port for Wire {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn recv_scatter(&mut self, _: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        Ok(None)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        if let Some(segment) = frame.headers.get(ipv4::HEADER_LEN..)
            && let Ok((header, len)) = TcpHeader::parse(segment)
        {
            let payload = frame.frame_len() - ipv4::HEADER_LEN - len;
            let control = u32::from(header.flags.contains(TcpFlags::SYN));
            let end = header.seq.add(payload as u32 + control);
            self.sent.store(end.0, Ordering::Relaxed);
        }
        Ok(())
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A connection between a program on an engine and a peer.
struct Connection {
    engine: Engine,
    host: &'static Host,
    socket: Socket,
    /// Where what the engine has sent ends.
    sent: Arc<AtomicU32>,
    /// The peer's next sequence number.
    seq: u32,
    at_us: u64,
    /// Time in what is counted.
    took: Duration,
    /// The session and the engine's socket are there as long as these.
    _kept: (OwnedFd, tempfile::TempDir),
}

/// A frame of the peer in `room`: a header, and as much payload as there is room.
fn write_frame(room: &mut [u8], seq: u32, ack: u32, flags: TcpFlags) {
    let options = TcpOptions {
        timestamps: Some(Timestamps { val: 10, echo: 0 }),
        ..TcpOptions::default()
    };
    let header = TcpHeader {
        src_port: PEERS_PORT,
        dst_port: PORT,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: u16::MAX,
        urgent: 0,
        options: if flags.contains(TcpFlags::SYN) {
            TcpOptions {
                mss: Some(1460),
                window_scale: Some(10),
                sack_permitted: true,
                ..options
            }
        } else {
            options
        },
    };
    ip_header((room.len() - ipv4::HEADER_LEN) as u16).emit(room);
    header.emit(&mut room[ipv4::HEADER_LEN..]);
}

fn take(engine: &mut Engine, frame: &[u8]) {
    let meta = RxMeta {
        len: frame.len(),
        checksum: RxChecksum::Valid,
        gso: None,
    };
    engine.take_frame(frame, &meta);
}

/// What the program writes goes to the engine, and what the window has room for to the port.
#[inline(never)]
fn counted_sending(connection: &mut Connection, payload: &[u8]) -> usize {
    let written = connection.write(payload);
    connection.turn();
    written
}

/// Acknowledgments come, and room for more.
#[inline(never)]
fn counted_acknowledgments(connection: &mut Connection, frames: &[Vec<u8>]) {
    for frame in frames {
        take(&mut connection.engine, frame);
    }
    connection.turn();
}

/// Frames come, and the program reads their payload.
#[inline(never)]
fn counted_receiving(connection: &mut Connection, frames: &[&[u8]], room: &mut [u8]) -> usize {
    for frame in frames {
        take(&mut connection.engine, frame);
    }
    connection.turn();
    let read = connection.read(room);
    connection.turn();
    read
}

/// What was counted since the last end belongs together.
#[inline(never)]
fn end_of_payloads() {
    black_box(());
}

/// Connects to the listener as its peer, in turns from [`BEGIN_US`] on.
fn accept(engine: &mut Engine, listener: &Listener, sent: &AtomicU32) -> io::Result<Socket> {
    let mut frame = vec![0; HEADERS + 8];
    write_frame(&mut frame, FIRST.wrapping_sub(1), 0, TcpFlags::SYN);
    for at_us in (BEGIN_US..BEGIN_US + HANDSHAKE_US).step_by(STEP_US as usize) {
        engine.turn_of(at_us).map_err(io::Error::other)?;
        let end = sent.load(Ordering::Relaxed);
        if at_us == BEGIN_US {
            take(engine, &frame);
        } else if end != 0 {
            frame.truncate(HEADERS);
            write_frame(&mut frame, FIRST, end, TcpFlags::ACK);
            take(engine, &frame);
        }
        match listener.socket().accept_queue().accept_with(|| Ok(())) {
            Ok((socket, ..)) => return Ok(socket),
            Err(SocketError::WouldBlock) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Err(fail("the connection was not made"))
}

impl Connection {
    fn made(options: SessionOptions) -> io::Result<Self> {
        let directory = crate::crossing::running::scratch_directory().map_err(io::Error::other)?;
        let path = directory.path().join("engine");
        let sent = Arc::new(AtomicU32::new(0));
        let mut engine = Engine::new(Config {
            port: Box::new(Wire::new(sent.clone())),
            port_name: "adapter".to_owned(),
            addresses: vec!["10.0.0.1/24".parse().map_err(io::Error::other)?],
            gateways: Vec::new(),
            automatic: Automatic::default(),
            scope: 0,
            loopback: Loopback::Kernel,
            cut_through: true,
            socket: path.clone(),
            control: None,
            geometry: Geometry::DEFAULT,
            private: false,
            others_may_join: true,
            users: Vec::new(),
            spin: Duration::ZERO,
            placement: longshore_engine::Placement::Scheduler,
            grace: Duration::ZERO,
        })
        .map_err(io::Error::other)?;
        let program = std::thread::spawn(move || -> io::Result<_> {
            let (session, token) = new_session(&path, options).map_err(io::Error::other)?;
            let host = Host::join(&path, token, Hooks::default()).map_err(io::Error::other)?;
            let listener = Listener::bind(host, (US, PORT).into(), 16);
            Ok((session, host, listener.map_err(io::Error::other)?))
        });
        while !program.is_finished() {
            engine
                .turn_and_rest(Duration::from_millis(1))
                .map_err(io::Error::other)?;
        }
        let (session, host, listener) =
            program.join().map_err(|_| fail("the program panicked"))??;
        let socket = accept(&mut engine, &listener, &sent)?;
        Ok(Connection {
            engine,
            host,
            socket,
            sent,
            seq: FIRST,
            at_us: BEGIN_US + HANDSHAKE_US,
            took: Duration::ZERO,
            _kept: (session, directory),
        })
    }

    fn turn(&mut self) {
        let _ = black_box(self.engine.turn_of(self.at_us));
        self.at_us += STEP_US;
    }

    /// What the program writes at once.
    fn write(&mut self, payload: &[u8]) -> usize {
        // What a program does where it would wait otherwise.
        self.host.messages().catch_up();
        self.socket
            .send_stream()
            .send(&[IoSlice::new(payload)], false)
            .unwrap_or(0)
    }

    /// What the program reads of what has come.
    fn read(&mut self, room: &mut [u8]) -> usize {
        self.host.messages().catch_up();
        let mut all = 0;
        while all < room.len()
            && let Ok(n @ 1..) = self
                .socket
                .receive_stream()
                .recv(&mut [IoSliceMut::new(&mut room[all..])], false)
        {
            all += n;
        }
        all
    }

    /// Acknowledges what was sent since `from`: two segments at a time, as a receiver does.
    fn acknowledge(&mut self, from: u32) {
        let end = SeqNumber(self.sent.load(Ordering::Relaxed));
        let mut acked = SeqNumber(from);
        let mut frames = Vec::new();
        while acked != end {
            let left = end.0.wrapping_sub(acked.0);
            acked = acked.add(left.min(2 * FULL as u32));
            let mut frame = vec![0; HEADERS];
            write_frame(&mut frame, self.seq, acked.0, TcpFlags::ACK);
            frames.push(frame);
        }
        let begin = Instant::now();
        counted_acknowledgments(self, &frames);
        self.took += begin.elapsed();
    }

    fn transmit(&mut self, payload: &[u8]) -> io::Result<()> {
        let begin = self.sent.load(Ordering::Relaxed);
        let end = begin.wrapping_add(payload.len() as u32);
        let mut written = 0;
        let mut acked = begin;
        for _ in 0..TURNS {
            // Once all is written, acknowledgments let the rest go.
            if written < payload.len() {
                let begin = Instant::now();
                written += counted_sending(self, &payload[written..]);
                self.took += begin.elapsed();
            }
            let sent = self.sent.load(Ordering::Relaxed);
            self.acknowledge(acked);
            acked = sent;
            if acked == end {
                return Ok(());
            }
        }
        Err(fail("payload was not sent"))
    }

    /// What the peer sends for each of so many payloads: frames, one behind the other, all but
    /// the last of which are full; nothing where the program sends.
    fn frames(&mut self, direction: Direction, size: usize, payloads: usize) -> Vec<Vec<u8>> {
        if direction == Direction::Transmit {
            return vec![Vec::new(); payloads];
        }
        let ack = self.sent.load(Ordering::Relaxed);
        let one = |_| {
            let mut frames = Vec::new();
            let mut left = size;
            while left > 0 {
                let len = left.min(FULL);
                left -= len;
                let at = frames.len();
                frames.resize(at + HEADERS + len, b'p');
                let flags = match left {
                    0 => TcpFlags::ACK | TcpFlags::PSH,
                    _ => TcpFlags::ACK,
                };
                write_frame(&mut frames[at..], self.seq, ack, flags);
                self.seq = self.seq.wrapping_add(len as u32);
            }
            frames
        };
        (0..payloads).map(one).collect()
    }

    /// Sends the payload in `room`, or receives it there.
    fn pass(&mut self, direction: Direction, room: &mut [u8], frames: &[u8]) -> io::Result<()> {
        match direction {
            Direction::Transmit => self.transmit(room),
            Direction::Receive => self.receive(frames, room),
        }
    }

    fn receive(&mut self, frames: &[u8], room: &mut [u8]) -> io::Result<()> {
        let frames: Vec<&[u8]> = frames.chunks(HEADERS + FULL).collect();
        let mut read = 0;
        for frames in frames.chunks(BATCH) {
            let begin = Instant::now();
            read += counted_receiving(self, frames, &mut room[read..]);
            self.took += begin.elapsed();
        }
        if read == room.len() {
            Ok(())
        } else {
            Err(fail("payload did not come"))
        }
    }
}

/// Takes all that was used out of the caches.
fn evict() {
    let ground = vec![1_u8; EVICTING];
    black_box(
        ground
            .iter()
            .step_by(64)
            .map(|b| u64::from(*b))
            .sum::<u64>(),
    );
}

/// Sends and receives payloads of each size, those that do not count before those that do.
/// They cross with their descriptors, where they are short enough, or all apart.
///
/// # Errors
/// If payload does not arrive.
pub(crate) fn run(sizes: &[usize], with_descriptors: bool) -> io::Result<()> {
    let options = SessionOptions {
        without_immediate_data: !with_descriptors,
        ..SessionOptions::default()
    };
    for direction in Direction::BOTH {
        let mut connection = Connection::made(options)?;
        for size in sizes {
            let mut room = vec![b'm'; *size];
            let all = connection.frames(direction, *size, WARM + counted(*size));
            evict();
            for (payload, frames) in all.iter().enumerate() {
                if payload == WARM {
                    end_of_payloads();
                }
                connection.pass(direction, &mut room, frames)?;
            }
            end_of_payloads();
        }
    }
    Ok(())
}

/// Prints how many nanoseconds a payload takes, the mean of all in so many milliseconds.
///
/// # Errors
/// If payload does not arrive.
pub(crate) fn time(direction: &str, size: usize, milliseconds: u64) -> io::Result<()> {
    /// Payloads of a run.
    const RUN: usize = 64;
    let direction = Direction::of(direction)?;
    let mut connection = Connection::made(SessionOptions::default())?;
    let mut room = vec![b'm'; size];
    let limit = Duration::from_millis(milliseconds);
    let (start, mut payloads) = (Instant::now(), 0_u64);
    while start.elapsed() < limit || payloads == 0 {
        let all = connection.frames(direction, size, RUN);
        evict();
        for frames in &all {
            connection.pass(direction, &mut room, frames)?;
        }
        payloads += RUN as u64;
    }
    println!("{}", connection.took.as_nanos() as f64 / payloads as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn payloads_of_all_sizes_arrive() {
        super::run(&[64, 1460, 65_536], true).unwrap();
        super::run(&[64, 1460], false).unwrap();
    }
}
