//! What quiet sockets hold: no chunk of either slab, and what was taken back from their
//! hosts harms no later write.

mod common;

use common::engines::{bytes, joined, sleepy};
use common::{Host, PATIENCE};
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
        assert!(began.elapsed() < PATIENCE, "of each slab, free: {free:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn listening(host: &mut Host, at: &str) -> SocketId {
    let listener = host.open(SocketKind::Stream);
    host.bind(listener, at.parse().unwrap()).unwrap();
    assert_eq!(host.listen(listener), 0);
    listener
}

/// A request and its answer, of 1 KB each and such that the chunk ends within it some day.
fn exchange(
    (client, socket): (&mut Host, SocketId),
    (server, accepted): (&mut Host, SocketId),
    seed: u32,
) {
    let (request, answer) = (bytes(1024, seed), bytes(1000, seed + 1));
    client.send(socket, &request, EdgeFlags::empty());
    assert_eq!(server.receive(accepted, request.len()), request);
    server.send(accepted, &answer, EdgeFlags::empty());
    assert_eq!(client.receive(socket, answer.len()), answer);
}

#[test]
fn a_connection_that_is_quiet_holds_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server, "0.0.0.0:80");
    let ends: Vec<(SocketId, SocketId)> = (0..CONNECTIONS)
        .map(|_| {
            let socket = client.open(SocketKind::Stream);
            assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
            (socket, server.accept(listener).socket)
        })
        .collect();
    let (of_server, of_client) = (server.arena.clone(), client.arena.clone());
    for round in 0..3 {
        for (socket, accepted) in &ends {
            exchange((&mut client, *socket), (&mut server, *accepted), round);
        }
        wait_for_all(&[&of_server, &of_client]);
    }
    // Much at once, more chunks than one.
    let (socket, accepted) = ends[0];
    let much = bytes(5 * CHUNK + 17, 9);
    client.send(socket, &much, EdgeFlags::empty());
    assert_eq!(server.receive(accepted, much.len()), much);
    wait_for_all(&[&of_server, &of_client]);
    // Nothing is given back twice when they close.
    for (socket, accepted) in &ends {
        exchange((&mut client, *socket), (&mut server, *accepted), 7);
        client.close(*socket);
        server.wait_flag(*accepted, EdgeFlags::PEER_FIN);
        server.close(*accepted);
    }
    wait_for_all(&[&of_server, &of_client]);
}

#[test]
fn an_end_of_a_connection_within_the_engine_that_is_quiet_holds_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = listening(&mut host, "10.0.0.1:80");
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
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server, "0.0.0.0:80");
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    let accepted = server.accept(listener).socket;
    exchange((&mut client, socket), (&mut server, accepted), 1);
    let arena = client.arena.clone();
    let all = arena.geometry().snd_chunks;
    let held = arena.block(socket.index).snd.lock_to_send().unwrap();
    let before = free(&arena);
    std::thread::sleep(Duration::from_millis(400));
    // It may have been taken back before the call began, never while it was at work.
    assert_eq!(free(&arena), before);
    drop(held);
    exchange((&mut client, socket), (&mut server, accepted), 2);
    wait_for_all(&[&arena]);
    assert_eq!(free(&arena), all);
}

#[test]
fn a_chunk_that_is_none_is_not_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server, "0.0.0.0:80");
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    let accepted = server.accept(listener).socket;
    exchange((&mut client, socket), (&mut server, accepted), 1);
    let arena = client.arena.clone();
    // A host that says what it likes of its chunks.
    arena
        .snd_directory(socket.index)
        .entry(0)
        .store(u32::MAX, Ordering::Release);
    arena
        .block(socket.index)
        .snd
        .told
        .store(0, Ordering::Release);
    std::thread::sleep(Duration::from_millis(400));
    assert!(free(&arena) < arena.geometry().snd_chunks);
    // The engine goes on.
    let nothing = Request::Subscribe { socket };
    client.put(nothing);
    client.open(SocketKind::Stream);
}
