//! Connections between two sockets of one engine, without TCP between them: what their
//! hosts are to say at once, and what they are told together.

mod common;

use common::Host;
use common::engines::{config, run, sleepy};
use longshore_engine::Engine;
use longshore_hostif::attach::{Message, receive, send};
use longshore_hostif::{
    AcceptRecord, BlockFlags, CHUNK, EdgeFlags, Loopback, OptionName, OwnersSignal, Query, Request,
    SEND_BUFFER, SendQueue, SocketId, SocketKind,
};
use longshore_ports::memory::{MemoryConfig, pair};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LISTENER: &str = "10.0.0.1:80";

fn listening(host: &mut Host, backlog: u32) -> SocketId {
    listening_at(host, LISTENER, backlog)
}

fn listening_at(host: &mut Host, at: &str, backlog: u32) -> SocketId {
    let listener = host.open(SocketKind::Stream);
    host.bind(listener, at.parse().unwrap()).unwrap();
    let answer = host.call(|tag| Request::Listen {
        socket: listener,
        tag,
        waiter: None,
        backlog,
    });
    assert_eq!(answer, 0);
    listener
}

fn connected(host: &mut Host) -> (SocketId, AcceptRecord) {
    let listener = listening(host, 8);
    let socket = host.open(SocketKind::Stream);
    assert_eq!(host.connect(socket, LISTENER.parse().unwrap()), 0);
    (socket, host.accept(listener))
}

fn unreported_limit(host: &Host, socket: SocketId) -> u32 {
    host.arena
        .block(socket.index)
        .unreported_limit
        .load(Ordering::Acquire)
}

#[test]
fn a_host_is_to_say_what_it_has_read_before_the_room_is_used_up() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let (socket, accepted) = connected(&mut host);
    let accepted = accepted.socket;
    let usual = SEND_BUFFER * 5 / 16 / 4;
    assert_eq!(
        (
            unreported_limit(&host, socket),
            unreported_limit(&host, accepted)
        ),
        (usual, usual)
    );
    host.set(socket, OptionName::SendBuffer, 8192);
    host.wait("the option", |h| {
        (unreported_limit(h, accepted) != usual).then_some(())
    });
    assert_eq!(
        (
            unreported_limit(&host, socket),
            unreported_limit(&host, accepted)
        ),
        (usual, 8192 * 5 / 16 / 4)
    );

    // So much is read, and said: what was left of the buffer comes. The rest would be
    // news of less than a quarter of the room, and may wait.
    let data = vec![7; 8192];
    host.send(socket, &data, EdgeFlags::empty());
    let room = host.wait("a full room", |h| {
        h.edges(accepted).map(|e| e.rcv_edge).filter(|e| *e > 0)
    });
    assert_eq!(room, 8192 * 5 / 16);
    let read = u64::from(unreported_limit(&host, accepted));
    host.consume(accepted, read);
    host.wait("more", |h| {
        (h.edges(accepted)?.rcv_edge == room + read).then_some(())
    });
}

#[test]
fn whoever_shuts_his_end_hears_that_all_of_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let (socket, accepted) = connected(&mut host);
    host.send(socket, b"little", EdgeFlags::empty());
    assert_eq!(host.receive(accepted.socket, 6), b"little");
    let queue = host.ask(socket, Query::SendQueue);
    let queue = SendQueue::decode(queue.first_chunk().unwrap());
    assert_eq!(queue, SendQueue::default());
    // It is not worth a descriptor of its own before.
    host.send(socket, b"", EdgeFlags::SHUT_WR | EdgeFlags::LINGERS);
    host.wait_flag(socket, EdgeFlags::FIN_ACKED);
    assert_eq!(host.edges(socket).unwrap().snd_acked, 6);
}

#[test]
fn whoever_stands_before_a_full_queue_is_let_in_by_who_looks_whether_there_is_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = listening(&mut host, 1);
    let has_entering = |h: &Host| {
        let flags = h.arena.block(listener.index).flags();
        flags.contains(BlockFlags::HAS_ENTERING)
    };
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = host.open(SocketKind::Stream);
        assert_eq!(host.connect(client, LISTENER.parse().unwrap()), 0);
        clients.push(client);
    }
    assert!(!has_entering(&host), "there was room for them");
    let last = host.open(SocketKind::Stream);
    host.start_connect(last, LISTENER.parse().unwrap());
    host.wait("a line", |h| has_entering(h).then_some(()));
    host.accept(listener);
    host.wait_flag(last, EdgeFlags::CONNECTED);
    assert!(!has_entering(&host));
}

/// The engine may name another socket as it named one that has left the line.
#[test]
fn who_has_left_the_line_lets_nobody_else_in() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let full = listening(&mut host, 1);
    let other = listening_at(&mut host, "10.0.0.1:81", 8);
    for _ in 0..2 {
        let client = host.open(SocketKind::Stream);
        assert_eq!(host.connect(client, LISTENER.parse().unwrap()), 0);
    }
    let client = host.open(SocketKind::Stream);
    let last = host.open(SocketKind::Stream);
    host.start_connect(last, LISTENER.parse().unwrap());
    host.wait("a line", |h| {
        let flags = h.arena.block(full.index).flags();
        flags.contains(BlockFlags::HAS_ENTERING).then_some(())
    });
    host.close(last);
    // The engine is done with it.
    for _ in 0..2 {
        host.tcp_info(full);
    }
    // What stands in the other queue now has its name.
    assert_eq!(host.connect(client, "10.0.0.1:81".parse().unwrap()), 0);
    host.accept(full);
    host.accept(other);
    host.tcp_info(full);
    assert!(!host.has_record(other), "one connection came");
}

/// The key of a socket that is gone is the next one's. A listener that got that of another was
/// given the connections whose accepting the other had deferred (TCP_DEFER_ACCEPT).
#[test]
fn a_deferred_connection_is_reset_with_its_listener_and_enters_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = listening(&mut host, 8);
    host.set(listener, OptionName::DeferAccept, 60);
    let socket = host.open(SocketKind::Stream);
    assert_eq!(host.connect(socket, LISTENER.parse().unwrap()), 0);
    host.close(listener);
    let other = listening_at(&mut host, "10.0.0.1:81", 8);
    host.send(socket, b"for port 80", EdgeFlags::PUSH);
    let edges = host.wait_flag(socket, EdgeFlags::DEAD);
    assert_eq!(edges.errno, 104, "reset");
    assert!(!host.has_record(other));
    // It takes those that are its own.
    let own = host.open(SocketKind::Stream);
    assert_eq!(host.connect(own, "10.0.0.1:81".parse().unwrap()), 0);
    assert_eq!(
        host.accept(other).peer.get().unwrap().ip().to_string(),
        "10.0.0.1"
    );
    assert!(!host.has_record(other));
}

#[test]
fn a_connection_for_whose_record_there_is_no_memory_is_refused_and_costs_nothing() {
    const ANOTHER: &str = "10.0.0.1:81";
    const CHUNKS: u32 = 4;
    let dir = tempfile::tempdir().unwrap();
    let (wire, _other) = pair(&MemoryConfig::default());
    let port = Box::new(wire);
    let mut config = config(dir.path(), "10.0.0.1/24", port, Loopback::Kernel, true);
    (config.geometry.sockets, config.geometry.rcv_chunks) = (64, CHUNKS);
    let engine = run(config);
    let (mut host, mut neighbour) = (Host::new(&engine.path), Host::new(&engine.path));
    let (socket, accepted) = connected(&mut host);
    // What nobody reads has all chunks. It comes in pieces too short to be lent.
    let data = vec![7; CHUNKS as usize * CHUNK];
    let mut sent = 0;
    for piece in data.chunks(CHUNK / 4) {
        host.send(socket, piece, EdgeFlags::empty());
        sent += piece.len() as u64;
        host.wait("the data", |h| {
            (h.edges(accepted.socket)?.rcv_edge == sent).then_some(())
        });
    }
    let listener = listening_at(&mut host, ANOTHER, 8);
    let refused = |host: &mut Host| {
        let socket = host.open(SocketKind::Stream);
        assert_eq!(host.connect(socket, ANOTHER.parse().unwrap()), 111);
        host.close(socket);
    };
    refused(&mut host);
    // The neighbour's sockets have no part in it.
    let neighbours = neighbour.open(SocketKind::Stream);
    neighbour
        .bind(neighbours, "10.0.0.1:90".parse().unwrap())
        .unwrap();
    for _ in 0..100 {
        refused(&mut host);
    }
    assert_eq!(host.receive(accepted.socket, data.len()), data);
    let socket = host.open(SocketKind::Stream);
    assert_eq!(host.connect(socket, ANOTHER.parse().unwrap()), 0);
    host.accept(listener);
    drop(host);
    assert_eq!(neighbour.listen(neighbours), 0);
}

#[test]
fn the_owners_signal_does_not_come_before_what_tells_of_the_urgent_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (wire, _other) = pair(&MemoryConfig::default());
    let config = config(
        dir.path(),
        "10.0.0.1/24",
        Box::new(wire),
        Loopback::Kernel,
        true,
    );
    let path = config.socket.clone();
    let mut engine = Engine::new(config).unwrap();
    let set_up = std::thread::spawn(move || {
        let mut host = Host::new(&path);
        let (socket, accepted) = connected(&mut host);
        let accepted = accepted.socket;
        let wanted = Message::Owner {
            socket: accepted,
            signals: 1,
            ask: 7,
        };
        send(host.connection.as_fd(), &wanted, &[]).unwrap();
        let (message, raises) = receive(host.connection.as_fd()).unwrap();
        assert_eq!(message, wanted);
        let raises = raises.into_iter().next().unwrap();
        let told_nothing = rustix::net::send(&raises, b"x", rustix::net::SendFlags::NOSIGNAL);
        assert_eq!(
            told_nothing,
            Err(rustix::io::Errno::PIPE),
            "only the engine rings"
        );
        let answer = host.call(|tag| Request::Owner {
            socket: accepted,
            tag,
            waiter: None,
        });
        assert_eq!(answer, 0);
        (host, socket, accepted, raises)
    });
    while !set_up.is_finished() {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    let (mut host, socket, accepted, _raises) = set_up.join().unwrap();

    // The receiver's end is looked at first in this turn, and there is an answer to give
    // in it, too.
    let edges = Request::Edges {
        socket: accepted,
        snd_edge: 0,
        rcv_consumed: 0,
        flags: EdgeFlags::empty(),
        immediate: 0,
    };
    host.channel.put(&edges).unwrap();
    let question = Request::Query {
        socket,
        tag: 4711,
        waiter: None,
        query: Query::TcpInfo,
    };
    host.channel.put(&question).unwrap();
    host.send(socket, b"!", EdgeFlags::empty());
    let urgent = Request::Urgent {
        socket,
        snd_edge: 1,
        rcv_consumed: 0,
    };
    host.put(urgent);
    for _ in 0..10 {
        engine.turn().unwrap();
        host.drain();
        let told = host
            .edges(accepted)
            .map_or((0, 0), |e| (e.rcv_urgent, e.rcv_edge));
        let raised = host
            .arena
            .block(accepted.index)
            .raised(OwnersSignal::Urgent);
        if raised.done != 0 {
            assert_eq!(told, (1, 1), "the signal came first");
            return;
        }
    }
    panic!("no signal");
}

/// Bytes of memory that the session's arena takes.
fn taken(host: &Host) -> u64 {
    rustix::fs::fstat(&*host.arena).unwrap().st_blocks as u64 * 512
}

/// Both slabs' free chunks keep their memory for a while, and then no longer; what comes
/// after that finds chunks all the same.
#[test]
fn memory_that_nobody_wants_any_more_goes_back_to_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let (socket, accepted) = connected(&mut host);
    let before = taken(&host);
    // Too short to be lent, so that it is in chunks of both slabs.
    let piece = CHUNK / 4;
    let mut first = 0;
    for round in 0..2u8 {
        // Each by itself, as what waits to be sent together is long enough to be lent.
        for at in 0..8u8 {
            host.send(socket, &vec![round * 8 + at; piece], EdgeFlags::empty());
            let end = (u64::from(round * 8 + at) + 1) * piece as u64;
            host.wait("what was sent", |h| {
                (h.edges(accepted.socket)?.rcv_edge == end).then_some(())
            });
        }
        // The receiver's chunks are in use until they are read. The sender's come back as they
        // are acknowledged, and are used again: as many more as this were in use at once.
        let sending: Vec<u32> = (0..8)
            .map(|_| host.arena.take_snd_chunk().unwrap().unwrap())
            .collect();
        for chunk in &sending {
            let place = host.arena.snd_place(*chunk, 0, CHUNK).unwrap();
            host.arena.memory().write(place, &[round; CHUNK]);
        }
        assert!(taken(&host) >= before + 10 * CHUNK as u64);
        for chunk in sending {
            host.arena.give_snd_chunk(chunk).unwrap();
        }
        for at in 0..8u8 {
            assert!(host.receive(accepted.socket, piece) == vec![round * 8 + at; piece]);
        }
        host.wait("what was sent", |h| {
            let acked = h.edges(socket)?.snd_acked;
            (acked == u64::from(round + 1) * 2 * CHUNK as u64).then_some(())
        });
        first = host.reclaim(socket, first);
        host.wait("the memory", |h| {
            std::thread::sleep(Duration::from_millis(20));
            (taken(h) <= before + CHUNK as u64).then_some(())
        });
        assert_eq!(host.arena.free_snd_chunks().0, 0);
    }
}

/// A block that was used before is another socket now: requests that mean the old one are
/// not the new one's.
#[test]
fn a_request_for_an_earlier_use_of_a_block_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let (socket, accepted) = connected(&mut host);
    let earlier = SocketId {
        generation: socket.generation.wrapping_sub(1),
        ..socket
    };
    let answer = host.call(|tag| Request::Listen {
        socket: earlier,
        tag,
        waiter: None,
        backlog: 1,
    });
    assert_eq!(answer, 9, "EBADF");
    host.put(Request::Close {
        socket: earlier,
        snd_edge: 0,
        rcv_consumed: 0,
        linger: Some(0),
    });
    host.send(socket, b"still there", EdgeFlags::empty());
    assert_eq!(host.receive(accepted.socket, 11), b"still there");
}
