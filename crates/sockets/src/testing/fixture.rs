//! What the unit tests of this crate begin with.

use super::Engine;
use crate::Stream;
use crate::holds::Socket;
use crate::host::Host;
use longshore_hostif::{Features, Geometry, SocketKind, SocketState, Versions};
use std::mem::ManuallyDrop;
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
