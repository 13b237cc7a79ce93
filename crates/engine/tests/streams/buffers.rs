//! What limits a stream: send and receive buffers, the peer's window, the session's memory.

use super::{connection, listening, two};
use crate::common::Host;
use crate::common::engines::{bytes, config, run_with, start};
use crate::common::far::{Far, Watched};
use longshore_hostif::{
    EdgeFlags, Loopback, OptionName, Query, Request, SEND_BUFFER, SendQueue, SocketId, SocketKind,
};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the frames tell that is sent to this port: what is acknowledged, and the window.
fn told_windows(frames: &[Vec<u8>], port: u16) -> Vec<(SeqNumber, u16)> {
    let segments = frames.iter().filter_map(|frame| frame.get(34..));
    let headers = segments.filter_map(|segment| TcpHeader::parse(segment).ok());
    headers
        .filter(|(header, _)| header.dst_port == port)
        .map(|(header, _)| (header.ack, header.window))
        .collect()
}

/// A session has no memory for what comes: whoever sends to it is told that the window is
/// closed, and once there is memory again, that it is open, before it asks.
#[test]
fn without_memory_windows_close_and_open_again_when_there_is_some() {
    const EACH: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = pair(&MemoryConfig::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watched = Watched {
        port: near,
        seen: seen.clone(),
    };
    let mut config_a = config(
        dir.path(),
        "10.0.0.1/24",
        Box::new(watched),
        Loopback::Kernel,
        true,
    );
    // What is kept for readers, and for three connections.
    config_a.geometry.rcv_chunks = 256 + 3 * 5;
    let a = run_with(config_a, |_| ());
    let b = start(
        dir.path(),
        "10.0.0.2/24",
        Box::new(far),
        Loopback::Kernel,
        true,
    );
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = server.open(SocketKind::Stream);
    server.set(listener, OptionName::ReceiveBuffer, 1_000_000);
    server
        .bind(listener, "0.0.0.0:80".parse().unwrap())
        .unwrap();
    assert_eq!(server.listen(listener), 0);
    let data = bytes(EACH, 5);
    let mut accepted = Vec::new();
    for _ in 0..8 {
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        client.send(socket, &data, EdgeFlags::empty());
        accepted.push(server.accept(listener));
    }
    let port = accepted[7].peer.get().unwrap().port();
    let told = || told_windows(&seen.lock().unwrap(), port);
    server.wait("the window to be closed", |_| {
        told().last().filter(|(_, window)| *window == 0).copied()
    });
    for connection in &accepted {
        assert_eq!(server.receive(connection.socket, EACH), data);
    }
    let told = told();
    let closed = told.iter().position(|(_, window)| *window == 0).unwrap();
    let opened = told[closed..].iter().position(|(_, window)| *window != 0);
    let opened = closed + opened.unwrap();
    assert_eq!(told[opened].0, told[opened - 1].0);
}

/// The send buffer follows the window, unless the program has set it.
#[test]
fn the_send_buffer_grows_with_the_path_unless_it_is_set() {
    for fixed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = pair(&MemoryConfig::default());
        let far = Far {
            port: far,
            delay: Duration::from_millis(2),
            sent: std::time::Instant::now(),
        };
        let start = |address, port| start(dir.path(), address, port, Loopback::Kernel, true);
        let (a, b) = (
            start("10.0.0.1/24", Box::new(near)),
            start("10.0.0.2/24", Box::new(far)),
        );
        let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
        let listener = listening(&mut server);
        let socket = client.open(SocketKind::Stream);
        if fixed {
            client.put(Request::SetOption {
                socket,
                name: OptionName::SendBuffer,
                value: 100_000,
            });
        }
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener);
        let data = bytes(1_000_000, 4);
        let mut largest = 0;
        for _ in 0..24 {
            client.send(socket, &data, EdgeFlags::empty());
            assert_eq!(server.receive(accepted.socket, data.len()), data);
            let limit = &client.arena.block(socket.index).snd.limit;
            largest = largest.max(limit.load(Ordering::Acquire));
        }
        if fixed {
            assert_eq!(largest, 100_000);
            // The path would have taken more (tcpi_sndbuf_limited).
            let info = client.tcp_info(socket);
            assert_ne!(info[184..192], [0; 8]);
        } else {
            assert!(largest > SEND_BUFFER, "{largest}");
        }
    }
}

#[test]
fn an_accepted_connection_begins_with_its_listeners_send_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server);
    let mut limits = Vec::new();
    for set in [None, Some(100_000)] {
        if let Some(size) = set {
            server.set(listener, OptionName::SendBuffer, size);
            // What is answered comes after what is not.
            server.tcp_info(listener);
        }
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener).socket;
        let limit = &server.arena.block(accepted.index).snd.limit;
        limits.push(limit.load(Ordering::Acquire));
    }
    assert_eq!(limits, [SEND_BUFFER, 100_000]);
}

#[test]
fn a_host_is_to_say_sooner_what_it_has_read_of_a_small_buffer() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let unreported_limit = |host: &Host, socket: SocketId| {
        let block = host.arena.block(socket.index);
        block.unreported_limit.load(Ordering::Acquire)
    };
    let listener = listening(&mut server);
    server.set(listener, OptionName::ReceiveBuffer, 16_384);
    server.tcp_info(listener);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    let accepted = server.accept(listener).socket;
    // The engine writes to its block when it has heard that it was accepted.
    server.tcp_info(accepted);
    assert_eq!(
        (
            unreported_limit(&client, socket),
            unreported_limit(&server, accepted)
        ),
        (0, 4096)
    );
    for (size, expected) in [(20_000, 5000), (1 << 20, 0)] {
        client.set(socket, OptionName::ReceiveBuffer, size);
        client.tcp_info(socket);
        assert_eq!(unreported_limit(&client, socket), expected);
    }
}

/// What the engine says of a send stream.
fn send_queue(host: &mut Host, socket: SocketId) -> SendQueue {
    let bytes = host.ask(socket, Query::SendQueue);
    SendQueue::decode(bytes.first_chunk().unwrap())
}

#[test]
fn what_is_not_acknowledged_and_what_is_not_sent_can_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let (socket, record) = connection(&mut client, &mut server);
    assert_eq!(send_queue(&mut client, socket), SendQueue::default());
    // More than the other end holds unread.
    let data = bytes(600_000, 5);
    client.send(socket, &data, EdgeFlags::empty());
    let held = client.wait("a full window", |h| {
        let queue = send_queue(h, socket);
        (queue.unacked == queue.unsent && queue.unsent != data.len() as u64).then_some(queue)
    });
    assert!(held.unsent > 0, "{held:?}");
    assert_eq!(server.receive(record.socket, data.len()), data);
    client.wait("the rest", |h| {
        (send_queue(h, socket) == SendQueue::default()).then_some(())
    });
}
