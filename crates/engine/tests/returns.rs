//! What quiet sockets hold: no chunk of either slab, and what was taken back from their
//! hosts harms no later write.

mod common;

use common::engines::{Running, bytes, joined, sleepy};
use common::{Host, TIMEOUT};
use longshore_hostif::{
    Arena, CHUNK, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Request, SocketId, SocketKind,
};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 20;

/// Chunks of the send slab that nobody has.
fn free(arena: &Arena) -> u32 {
    let (warm, cold) = arena.free_snd_chunks();
    warm + cold
}

/// Waits until nobody has any, while no host does anything.
fn wait_for_all(arenas: &[&Arena]) {
    let began = Instant::now();
    while arenas.iter().any(|a| free(a) != a.geometry().snd_chunks) {
        let free: Vec<u32> = arenas.iter().map(|a| free(a)).collect();
        assert!(began.elapsed() < TIMEOUT, "of each slab, free: {free:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client and a server with an engine each.
struct Joined {
    client: Host,
    server: Host,
    listener: SocketId,
    _engines: (Running, Running),
    _dir: tempfile::TempDir,
}

/// The client's socket of a connection, and the server's.
type Ends = (SocketId, SocketId);

impl Joined {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let engines = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
        let mut server = Host::new(&engines.0.path);
        Self {
            client: Host::new(&engines.1.path),
            listener: server.listening("0.0.0.0:80"),
            server,
            _engines: engines,
            _dir: dir,
        }
    }

    fn connect(&mut self) -> Ends {
        let socket = self.client.open(SocketKind::Stream);
        let server = "10.0.0.1:80".parse().unwrap();
        assert_eq!(self.client.connect(socket, server), 0);
        (socket, self.server.accept(self.listener).socket)
    }

    /// A request and its answer, of 1 KB each and such that the chunk ends within it some day.
    fn exchange(&mut self, (socket, accepted): Ends, seed: u32) {
        let (request, answer) = (bytes(1024, seed), bytes(1000, seed + 1));
        self.client.send(socket, &request, EdgeFlags::empty());
        assert_eq!(self.server.receive(accepted, request.len()), request);
        self.server.send(accepted, &answer, EdgeFlags::empty());
        assert_eq!(self.client.receive(socket, answer.len()), answer);
    }
}

#[test]
fn a_connection_that_is_quiet_holds_no_chunk() {
    let mut joined = Joined::new();
    let ends: Vec<Ends> = (0..CONNECTIONS).map(|_| joined.connect()).collect();
    let (of_server, of_client) = (joined.server.arena.clone(), joined.client.arena.clone());
    for round in 0..3 {
        for ends in &ends {
            joined.exchange(*ends, round);
        }
        wait_for_all(&[&of_server, &of_client]);
    }
    // Much at once, more chunks than one.
    let (socket, accepted) = ends[0];
    let much = bytes(5 * CHUNK + 17, 9);
    joined.client.send(socket, &much, EdgeFlags::empty());
    assert_eq!(joined.server.receive(accepted, much.len()), much);
    wait_for_all(&[&of_server, &of_client]);
    // Nothing is given back twice when they close.
    for (socket, accepted) in ends {
        joined.exchange((socket, accepted), 7);
        joined.client.close(socket);
        joined.server.wait_flag(accepted, EdgeFlags::PEER_FIN);
        joined.server.close(accepted);
    }
    wait_for_all(&[&of_server, &of_client]);
}

#[test]
fn an_end_of_a_connection_within_the_engine_that_is_quiet_holds_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = host.listening("10.0.0.1:80");
    let socket = host.open(SocketKind::Stream);
    assert_eq!(host.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    let accepted = host.accept(listener).socket;
    let arena = host.arena.clone();
    for round in 0..3 {
        let request = bytes(CHUNK + 1024, round);
        host.send(socket, &request, EdgeFlags::empty());
        assert_eq!(host.receive(accepted, request.len()), request);
        host.consume(accepted, (u64::from(round) + 1) * request.len() as u64);
        wait_for_all(&[&arena]);
    }
}

#[test]
fn a_datagram_socket_that_is_quiet_holds_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let arena = host.arena.clone();
    let [from, to]: [SocketId; 2] = ["10.0.0.1:1001", "10.0.0.1:1002"].map(|at| {
        let socket = host.open(SocketKind::Datagram);
        host.bind(socket, at.parse().unwrap()).unwrap();
        socket
    });
    let at: SocketAddr = "10.0.0.1:1002".parse().unwrap();
    let header = DatagramRecord::new(8, at.into()).encode();
    for round in 0..3u8 {
        let record: Vec<u8> = header.iter().copied().chain([round; 8]).collect();
        host.send(from, &record, EdgeFlags::empty());
        let came = host.receive(to, DATAGRAM_HEADER + 8);
        assert_eq!(came[DATAGRAM_HEADER..], [round; 8]);
        wait_for_all(&[&arena]);
    }
}

#[test]
fn a_call_that_is_at_work_keeps_its_chunk() {
    let mut joined = Joined::new();
    let ends = joined.connect();
    joined.exchange(ends, 1);
    let (socket, arena) = (ends.0, joined.client.arena.clone());
    let all = arena.geometry().snd_chunks;
    let held = arena.block(socket.index).snd.lock_to_send().unwrap();
    let before = free(&arena);
    std::thread::sleep(Duration::from_millis(400));
    // It may have been taken back before the call began, never while it was at work.
    assert_eq!(free(&arena), before);
    drop(held);
    joined.exchange(ends, 2);
    wait_for_all(&[&arena]);
    assert_eq!(free(&arena), all);
}

#[test]
fn a_chunk_that_is_none_is_not_taken_back() {
    let mut joined = Joined::new();
    let ends = joined.connect();
    joined.exchange(ends, 1);
    let (socket, arena) = (ends.0, joined.client.arena.clone());
    // A host that says what it likes of its chunks.
    arena
        .snd_directory(socket.index)
        .entry(0)
        .store(u32::MAX, Ordering::Release);
    arena
        .block(socket.index)
        .snd
        .returned
        .store(0, Ordering::Release);
    std::thread::sleep(Duration::from_millis(400));
    assert!(free(&arena) < arena.geometry().snd_chunks);
    // The engine goes on.
    let nothing = Request::Subscribe { socket };
    joined.client.put(nothing);
    joined.client.open(SocketKind::Stream);
}
