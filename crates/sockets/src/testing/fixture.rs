//! What the unit tests of this crate begin with.

use super::Engine;
use crate::Stream;
use crate::holds::Socket;
use crate::host::Host;
use crate::under_way::UnderWay;
use longshore_hostif::{
    EdgeFlags, Features, Geometry, Hurry, OptionName, SocketKind, SocketState, Versions,
};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// A session in which everything is soon used up.
pub(crate) const SMALL: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 64,
    workers: 1,
};

/// What `work` gives in a thread of its own, which begins with nothing that threads keep.
pub(crate) fn in_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// An engine, a process that has joined it, and where its socket is.
pub(crate) fn engine() -> (Engine, &'static Host, TempDir) {
    joined(Engine::start)
}

/// As `engine`, where what one connection has received can be sent by another.
pub(crate) fn forwarding_engine() -> (Engine, &'static Host, TempDir) {
    joined(Engine::that_forwards)
}

/// As `forwarding_engine`, of a release that does not take what a connection within the session has
/// received, or is to send.
pub(crate) fn forwarding_engine_without_own() -> (Engine, &'static Host, TempDir) {
    let mut versions = Versions::OURS;
    versions.features.remove(Features::FORWARDS_WITHIN);
    joined(|directory| Engine::of(directory, super::GEOMETRY, versions, true))
}

fn joined(start: impl FnOnce(&std::path::Path) -> Engine) -> (Engine, &'static Host, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = start(directory.path());
    let host = engine.join();
    (engine, host, directory)
}

/// A process whose engine has done all that it was asked for, and looks at no more requests.
pub(crate) struct Ignored {
    pub(crate) engine: Engine,
    pub(crate) host: &'static Host,
    pub(crate) socket: Socket,
    _directory: tempfile::TempDir,
}

impl Ignored {
    pub(crate) fn new() -> Self {
        let (engine, host, directory) = engine();
        let this = Self {
            socket: Engine::open(host, SocketKind::Stream),
            engine,
            host,
            _directory: directory,
        };
        this.begin_to_ignore();
        this
    }

    pub(crate) fn begin_to_ignore(&self) {
        let host = self.host;
        let is_handled = |ring| host.session.has_handled(ring, host.session.requested(ring));
        let all = || host.own_rings().all(is_handled);
        self.engine
            .wait_until("all requests are handled", |_| all());
        let ignores = &self.engine.behavior.ignores_requests;
        ignores.store(true, Ordering::Relaxed);
        // It may be looking at them in this turn.
        let turns = self.engine.seen.lock().unwrap().turns;
        self.engine
            .wait_until("it ignores them", |seen| seen.turns > turns + 1);
        self.forget_hurry();
    }

    /// Says something for which the engine is not woken.
    pub(crate) fn say(&self) {
        self.socket.options().set(OptionName::KeepIdle, 1).unwrap();
        assert!(!self.is_hurried());
    }

    /// Writes something that its program holds back.
    pub(crate) fn write(&self) {
        let request = self
            .host
            .edges(self.socket.block(), self.socket.id(), EdgeFlags::MORE);
        self.host.messages().report_written(&request, 0).unwrap();
        assert!(self.host.channel.holds());
        let pending = self.pending().load(Ordering::SeqCst);
        let (held_back, soon) = (Hurry::HeldBack as u32, Hurry::Soon as u32);
        assert_eq!(pending & (held_back | soon), held_back);
    }

    /// Whether the engine is to fetch now what was published.
    pub(crate) fn is_hurried(&self) -> bool {
        self.pending().load(Ordering::SeqCst) & Hurry::Now as u32 != 0
    }

    pub(crate) fn forget_hurry(&self) {
        self.pending().store(0, Ordering::SeqCst);
    }

    pub(crate) fn pending(&self) -> &AtomicU32 {
        &self.host.arena.header().requests_pending.any
    }

    pub(crate) fn under_way(&self) -> UnderWay {
        self.host.under_way()
    }

    pub(crate) fn end_engine(&mut self) {
        self.engine.stop();
        self.host.look_at_engine();
        assert!(self.host.is_gone());
    }
}

/// How many requests a process has published.
pub(crate) fn requested(host: &'static Host) -> u32 {
    let rings = host.own_rings();
    rings.map(|ring| host.session.requested(ring)).sum()
}

/// A socket in this state, whose block the test writes.
pub(crate) fn socket_in(
    host: &'static Host,
    kind: SocketKind,
    state: SocketState,
) -> ManuallyDrop<Socket> {
    let socket = Engine::open(host, kind);
    socket.block().set_state(state);
    ManuallyDrop::new(socket)
}

/// Bytes by which it shows where each belongs.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// Reads from a stream until at least `len` bytes have come.
pub(crate) fn read(from: &Stream, len: usize) -> Vec<u8> {
    let (mut got, mut buf) = (Vec::new(), vec![0; 100_000]);
    while got.len() < len {
        let read = from.read(&mut buf).unwrap();
        got.extend_from_slice(&buf[..read]);
    }
    got
}
