//! A program that passes on what one connection brings to another, by reference: every byte
//! arrives, whichever connection ends first, and the memory comes back.

mod common;

use common::engines::{Running, bytes, config, run, sockets, stat};
use longshore_engine::control::CrossingStat;
use longshore_hostif::Loopback;
use longshore_hostif::attach::new_session;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use longshore_sockets::{Forwarded, Hooks, Host, Listener, NotForwarded, SocketError, Stream};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A wire on which nothing arrives as long as it is shut.
struct Gate<P> {
    port: P,
    is_shut: Arc<AtomicBool>,
}

impl<P: Port> Port for Gate<P> {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        if self.is_shut.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.port.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// The proxy's engine and the far ends', their wire, and a program on each.
struct World {
    _directory: tempfile::TempDir,
    _engines: [Running; 2],
    _launchers: [OwnedFd; 2],
    control: PathBuf,
    /// What the proxy's engine is sent does not arrive.
    gate: Arc<AtomicBool>,
    proxy: &'static Host,
    far: &'static Host,
}

fn program(path: &Path) -> (OwnedFd, &'static Host) {
    let (launcher, token) = new_session(path, Default::default()).unwrap();
    (launcher, Host::join(path, token, Hooks::default()).unwrap())
}

/// The connections of a proxy: from who sends to it, and to who receives.
struct Way {
    sender: Stream,
    source: Stream,
    sink: Stream,
    receiver: Stream,
}

impl World {
    fn new(wire: &MemoryConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = pair(wire);
        let control = directory.path().join("control");
        let gate = Arc::new(AtomicBool::new(false));
        let a = Gate {
            port: a,
            is_shut: gate.clone(),
        };
        let of = |addresses, port: Box<dyn Port>, control| {
            let mut config = config(directory.path(), addresses, port, Loopback::Kernel, true);
            config.control = control;
            run(config)
        };
        let engines = [
            of("10.0.0.1/24", Box::new(a), Some(control.clone())),
            of("10.0.0.2/24", Box::new(b), None),
        ];
        let (first, proxy) = program(&engines[0].path);
        let (second, far) = program(&engines[1].path);
        Self {
            _directory: directory,
            _engines: engines,
            _launchers: [first, second],
            control,
            gate,
            proxy,
            far,
        }
    }

    fn far_listener(&self) -> (Listener, SocketAddr) {
        let listener = Listener::bind(self.far, "10.0.0.2:0".parse().unwrap(), 8).unwrap();
        let at = listener.local().unwrap();
        (listener, at)
    }

    fn way(&self) -> Way {
        let (far, at) = self.far_listener();
        let near = Listener::bind(self.proxy, "10.0.0.1:0".parse().unwrap(), 8).unwrap();
        let sender = Stream::connect(self.far, near.local().unwrap()).unwrap();
        let (source, _) = near.accept().unwrap();
        let sink = Stream::connect(self.proxy, at).unwrap();
        let (receiver, _) = far.accept().unwrap();
        Way {
            sender,
            source,
            sink,
            receiver,
        }
    }

    fn forwarded(&self) -> u64 {
        stat(&self.control).engine["forwarded_bytes"]
    }

    /// Waits until the proxy's session has no chunk in use.
    fn await_no_chunks(&self) {
        let began = Instant::now();
        loop {
            let sessions = stat(&self.control).sessions;
            let used: Vec<_> = sessions
                .iter()
                .map(|s| (s.rcv_chunks, s.snd_chunks))
                .collect();
            if used.iter().all(|used| *used == (0, 0)) {
                return;
            }
            assert!(began.elapsed() < common::PATIENCE, "in use: {used:?}");
            sleep(Duration::from_millis(5));
        }
    }
}

/// Forwards until so many bytes have gone by reference, or the stream has ended.
fn pass(from: &Stream, to: &Stream, mut len: usize) {
    while len != 0 {
        match from.forward(to, len).unwrap() {
            0 => return,
            moved => len -= moved,
        }
    }
}

fn read_all(from: &Stream, len: usize) -> Vec<u8> {
    let mut got = vec![0; len];
    let mut read = 0;
    while read < len {
        match from.read(&mut got[read..]).unwrap() {
            0 => break,
            n => read += n,
        }
    }
    got.truncate(read);
    got
}

/// Waits until so much has arrived that nobody has read.
fn await_bytes(at: &Stream, len: usize) {
    let began = Instant::now();
    while at.peek().unwrap().len() < len {
        assert!(began.elapsed() < common::PATIENCE);
        sleep(Duration::from_millis(1));
    }
}

/// On wires that look at the payload and that do not, and where nothing lies in one place of
/// a chunk as it does in the other.
#[test]
fn every_byte_arrives_and_none_was_copied() {
    const LEN: usize = 6_000_000;
    for offloads in [false, true] {
        let world = World::new(&MemoryConfig {
            offloads,
            ..MemoryConfig::default()
        });
        for shift in [0, 1, 63, 40_000] {
            let Way {
                sender,
                source,
                sink,
                receiver,
            } = world.way();
            let before = world.forwarded();
            let (sent, ahead) = (bytes(LEN, shift), bytes(shift as usize, 9));
            sink.write_all(&ahead).unwrap();
            std::thread::scope(|s| {
                s.spawn(|| {
                    sender.write_all(&sent).unwrap();
                    sender.finish().unwrap();
                });
                s.spawn(|| {
                    pass(&source, &sink, usize::MAX);
                    sink.finish().unwrap();
                });
                assert!(read_all(&receiver, ahead.len()) == ahead);
                assert!(read_all(&receiver, LEN + 1) == sent, "shifted by {shift}");
            });
            let forwarded = world.forwarded() - before;
            assert!(forwarded > LEN as u64 * 9 / 10, "{forwarded} by reference");
            drop((sender, source, sink, receiver));
            world.await_no_chunks();
        }
    }
}

/// What is short is copied between what is not, as the header of each response.
#[test]
fn what_is_copied_and_what_is_not_arrive_in_order() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(1_000_000, 5);
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        s.spawn(|| {
            let mut passed = 0;
            while passed < sent.len() {
                let mut header = vec![0; 300.min(sent.len() - passed)];
                let read = way.source.read(&mut header).unwrap();
                way.sink.write_all(&header[..read]).unwrap();
                passed += read;
                let body = 9_000.min(sent.len() - passed);
                pass(&way.source, &way.sink, body);
                passed += body;
            }
        });
        assert!(read_all(&way.receiver, sent.len()) == sent);
    });
    assert!(world.forwarded() > 100_000);
}

/// The window opens only when the far end has acknowledged: one that does not read holds up
/// who sends, though the proxy has passed on all that has come.
#[test]
fn who_does_not_read_holds_up_who_sends() {
    const LEN: usize = 30_000_000;
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(LEN, 7);
    std::thread::scope(|s| {
        s.spawn(|| {
            way.sender.write_all(&sent).unwrap();
            way.sender.finish().unwrap();
        });
        s.spawn(|| {
            pass(&way.source, &way.sink, usize::MAX);
            way.sink.finish().unwrap();
        });
        let mut last = 0;
        loop {
            sleep(Duration::from_millis(200));
            let now = world.forwarded();
            if now == last && now != 0 {
                break;
            }
            last = now;
        }
        assert!(last < LEN as u64, "all of it was taken");
        assert!(read_all(&way.receiver, LEN + 1) == sent);
    });
}

/// The connection that has received the bytes is closed before they are sent, with and
/// without others behind them.
#[test]
fn who_has_received_may_be_gone_before_it_is_sent() {
    const LEN: usize = 50_000;
    let world = World::new(&MemoryConfig::default());
    for resets in [false, true] {
        let way = world.way();
        let sent = bytes(LEN, 3);
        std::thread::scope(|s| {
            s.spawn(|| {
                way.sender.write_all(&sent).unwrap();
                way.sender.write_all(b"behind").unwrap();
            });
            await_bytes(&way.source, 10_000);
        });
        await_bytes(&way.source, LEN + 6);
        // No acknowledgment comes: most of it waits.
        world.gate.store(true, Ordering::Release);
        let moved = way.source.forward(&way.sink, LEN).unwrap();
        assert!(moved > 30_000);
        if !resets {
            let rest = LEN + 6 - moved;
            assert_eq!(read_all(&way.source, rest).len(), rest);
        }
        drop(way.source);
        way.sink.finish().unwrap();
        // The engine knows of it.
        world.proxy.settle().unwrap();
        sleep(Duration::from_millis(50));
        world.gate.store(false, Ordering::Release);
        assert!(read_all(&way.receiver, LEN) == sent[..moved]);
        drop((way.sender, way.sink, way.receiver));
        world.await_no_chunks();
    }
}

/// The connection over which they are sent is reset: what it has not sent counts as read.
#[test]
fn who_sends_may_be_reset() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(3_000_000, 3);
    std::thread::scope(|s| {
        s.spawn(|| {
            way.sender.write_all(&sent).unwrap();
            way.sender.finish().unwrap();
        });
        pass(&way.source, &way.sink, 50_000);
        await_bytes(&way.receiver, 50_000);
        // Nothing was read there: a reset.
        drop(way.receiver);
        let began = Instant::now();
        let mut passed = 50_000;
        loop {
            match way
                .source
                .socket()
                .forward(way.sink.socket(), 20_000, false)
            {
                Ok(Forwarded::Bytes(moved)) => passed += moved,
                Ok(Forwarded::Copy(NotForwarded::Kind)) => break,
                Ok(Forwarded::Copy(_)) | Err(SocketError::WouldBlock) => {}
                Err(_) => break,
            }
            assert!(began.elapsed() < common::PATIENCE);
        }
        // Another takes the rest.
        assert!(read_all(&way.source, sent.len()) == sent[passed..]);
    });
    drop((way.sender, way.source, way.sink));
    world.await_no_chunks();
}

/// Both ends are this engine's, or it is one socket: then it is copied, and why is said.
#[test]
fn what_cannot_be_passed_on_by_reference_says_why() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let own = Listener::bind(world.proxy, "10.0.0.1:0".parse().unwrap(), 8).unwrap();
    let within = Stream::connect(world.proxy, own.local().unwrap()).unwrap();
    let (end, _) = own.accept().unwrap();
    let data = bytes(100_000, 1);
    way.sender.write_all(&data).unwrap();
    await_bytes(&way.source, data.len());
    let why = |to: &Stream, max| {
        way.source
            .socket()
            .forward(to.socket(), max, false)
            .unwrap()
    };
    assert_eq!(why(&within, 50_000), Forwarded::Copy(NotForwarded::Kind));
    assert_eq!(
        why(&way.source, 50_000),
        Forwarded::Copy(NotForwarded::Unsupported)
    );
    assert_eq!(why(&way.sink, 100), Forwarded::Copy(NotForwarded::Short));
    assert_eq!(way.source.forward(&within, data.len()).unwrap(), data.len());
    assert!(read_all(&end, data.len()) == data);
    assert_eq!(world.forwarded(), 0);
}

/// What the meter has of payload in one direction: in all, and what of it came with descriptors.
fn payload(crossed: &CrossingStat) -> (u64, u64) {
    let immediate = crossed.classes.immediate;
    (crossed.classes.payload.bytes + immediate, immediate)
}

/// What is passed on by reference has not crossed: the meter has what the program has read and
/// written itself, for the connections and for all of the session.
#[test]
fn the_meter_has_what_a_program_has_touched() {
    const HEADER: usize = 300;
    const LEN: usize = 2_000_000;
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let of_session = || {
        let crossings = stat(&world.control).sessions[0].crossings;
        [crossings.to_host, crossings.to_adapter].map(|c| payload(&c).0)
    };
    let before = of_session();
    let sent = bytes(HEADER + LEN, 3);
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        s.spawn(|| {
            let header = read_all(&way.source, HEADER);
            way.sink.write_all(&header).unwrap();
            pass(&way.source, &way.sink, LEN);
        });
        assert!(read_all(&way.receiver, sent.len()) == sent);
    });
    let touched = sent.len() as u64 - world.forwarded();
    assert!(touched < LEN as u64 / 10, "{touched} were copied");
    let rows = sockets(&world.control);
    let row = |of: &Stream| {
        let local = of.socket().local().unwrap().to_string();
        rows.iter()
            .find(|row| row.local == local && row.state == "ESTAB")
            .unwrap()
    };
    let (source, sink) = (row(&way.source).crossings, row(&way.sink).crossings);
    let ((to_host, immediate), (to_adapter, _)) =
        (payload(&source.to_host), payload(&sink.to_adapter));
    // What came with a descriptor has crossed, whatever was done with it then.
    assert!(
        to_host >= touched && to_host - immediate <= touched,
        "{to_host} of {touched}, {immediate} with descriptors"
    );
    let was_repeated = stat(&world.control).tcp["retransmissions"] != 0;
    assert!(
        to_adapter == touched || was_repeated && to_adapter > touched,
        "{to_adapter} of {touched}"
    );
    let after = of_session();
    assert_eq!(
        [after[0] - before[0], after[1] - before[1]],
        [to_host, to_adapter]
    );
    let pieces = source.to_host.classes.payload;
    assert!(pieces.transfers <= pieces.bytes, "{pieces:?}");
}
