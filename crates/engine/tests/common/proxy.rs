//! The engine of a program that passes on what one connection brings to another, for the tests:
//! its wire, which can be shut, and the far ends.
#![allow(dead_code, reason = "each test uses its part")]

use super::TIMEOUT;
use super::engines::{Running, bytes, config, run, stat};
use longshore_hostif::Loopback;
use longshore_hostif::attach::new_session;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use longshore_sockets::{Hooks, Host, Listener, Stream};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
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
pub(crate) struct World {
    _directory: tempfile::TempDir,
    _engines: [Running; 2],
    _launchers: [OwnedFd; 2],
    others: Mutex<Vec<OwnedFd>>,
    path: PathBuf,
    pub(crate) control: PathBuf,
    /// What the proxy's engine is sent does not arrive.
    pub(crate) gate: Arc<AtomicBool>,
    pub(crate) proxy: &'static Host,
    pub(crate) far: &'static Host,
}

pub(crate) fn program(path: &Path) -> (OwnedFd, &'static Host) {
    let (launcher, token) = new_session(path, Default::default()).unwrap();
    (launcher, Host::join(path, token, Hooks::default()).unwrap())
}

/// The connections of a proxy: from the sender, and to the receiver.
pub(crate) struct Way {
    pub(crate) sender: Stream,
    pub(crate) source: Stream,
    pub(crate) sink: Stream,
    pub(crate) receiver: Stream,
}

impl World {
    pub(crate) fn new(wire: &MemoryConfig) -> Self {
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
        let engines_path = engines[0].path.clone();
        Self {
            _directory: directory,
            _engines: engines,
            _launchers: [first, second],
            others: Mutex::default(),
            path: engines_path,
            control,
            gate,
            proxy,
            far,
        }
    }

    /// Another program on the proxy's engine, with a session of its own.
    pub(crate) fn other(&self) -> &'static Host {
        let (launcher, host) = program(&self.path);
        self.others.lock().unwrap().push(launcher);
        host
    }

    pub(crate) fn far_listener(&self) -> (Listener, SocketAddr) {
        let listener = Listener::bind(self.far, "10.0.0.2:0".parse().unwrap(), 8).unwrap();
        let at = listener.local().unwrap();
        (listener, at)
    }

    pub(crate) fn way(&self) -> Way {
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

    /// Passes `len` bytes on, behind `shift` that its program has written itself; every byte
    /// arrives, nearly all by reference, and the memory comes back. `what` says which way it is.
    pub(crate) fn pass_whole(&self, way: Way, (len, shift): (usize, u32), what: &str) {
        let Way {
            sender,
            source,
            sink,
            receiver,
        } = way;
        let before = self.forwarded();
        let (sent, ahead) = (bytes(len, shift), bytes(shift as usize, 9));
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
            assert!(read_all(&receiver, ahead.len()) == ahead, "{what}");
            assert!(read_all(&receiver, len + 1) == sent, "{what}, {shift}");
        });
        let forwarded = self.forwarded() - before;
        assert!(
            forwarded > len as u64 * 9 / 10,
            "{what}: {forwarded} by reference"
        );
        drop((sender, source, sink, receiver));
    }

    pub(crate) fn forwarded(&self) -> u64 {
        stat(&self.control).engine["forwarded_bytes"]
    }

    /// Waits until the proxy's session has no chunk in use.
    pub(crate) fn await_no_chunks(&self) {
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
            assert!(began.elapsed() < TIMEOUT, "in use: {used:?}");
            sleep(Duration::from_millis(5));
        }
    }
}

/// Forwards until so many bytes have gone by reference, or the stream has ended.
pub(crate) fn pass(from: &Stream, to: &Stream, mut len: usize) {
    while len != 0 {
        match from.forward(to, len).unwrap() {
            0 => return,
            moved => len -= moved,
        }
    }
}

pub(crate) fn read_all(from: &Stream, len: usize) -> Vec<u8> {
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
pub(crate) fn await_bytes(at: &Stream, len: usize) {
    let began = Instant::now();
    while at.peek().unwrap().len() < len {
        assert!(began.elapsed() < TIMEOUT);
        sleep(Duration::from_millis(1));
    }
}
