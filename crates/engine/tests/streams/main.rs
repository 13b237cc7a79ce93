//! Two engines on a memory wire, each with a program: connections, bytes both
//! ways, ends, refusals, deaths.

mod buffers;
#[path = "../common/mod.rs"]
mod common;

use common::engines::{Running, bytes, config, converse, joined, run_with, sleepy, start};
use common::far::Watched;
use common::{Host, TIMEOUT};
use longshore_engine::Engine;
use longshore_engine::control::ControlReply;
use longshore_hostif::{
    AcceptRecord, BlockFlags, EdgeFlags, Loopback, OptionName, RING, Request, SocketId, SocketKind,
};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::tcp::TcpHeader;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn two(dir: &Path) -> (Running, Running) {
    joined(dir, "10.0.0.1/24", "10.0.0.2/24")
}

/// A listener on port 80 of all addresses.
fn listening(server: &mut Host) -> SocketId {
    server.listening("0.0.0.0:80")
}

/// A connection of the client to a new listener: the client's socket, and what is accepted.
fn connection(client: &mut Host, server: &mut Host) -> (SocketId, AcceptRecord) {
    let listener = listening(server);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    (socket, server.accept(listener))
}

#[test]
fn bytes_go_both_ways_and_the_ends_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let (socket, accepted) = connection(&mut client, &mut server);
    assert_eq!(accepted.local.get(), Some("10.0.0.1:80".parse().unwrap()));
    converse((&mut client, socket), (&mut server, accepted.socket));
    client.close(socket);
    server.wait("the block to come back", |h| {
        h.arena
            .block(accepted.socket.index)
            .is(accepted.socket)
            .then_some(())
            .xor(Some(()))
    });
}

#[test]
fn a_reset_is_marked_in_the_block() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let (socket, accepted) = connection(&mut client, &mut server);
    let failed = |h: &Host| {
        let block = h.arena.block(accepted.socket.index);
        block.flags().contains(BlockFlags::FAILED)
    };
    assert!(!failed(&server));
    // Closing with something unread resets.
    server.send(accepted.socket, b"unread", EdgeFlags::empty());
    client.wait("what comes", |h| {
        h.edges(socket).filter(|e| e.rcv_edge == 6).map(|_| ())
    });
    client.close(socket);
    server.wait_flag(accepted.socket, EdgeFlags::DEAD);
    assert!(failed(&server));
}

/// A program has accepted a connection and closed it before it says that it has accepted it:
/// the engine may name another socket as it named that one.
#[test]
fn a_listener_that_ends_resets_those_that_wait_for_it_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut other) = (Host::new(&a.path), Host::new(&a.path));
    let mut client = Host::new(&b.path);
    let far = client.listening("0.0.0.0:81");
    let listener = listening(&mut server);
    let [first, second] = [(); 2].map(|()| {
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        socket
    });
    let accepted = server.accept_silently(listener).socket;
    server.close_with(accepted, Some(0));
    client.wait_flag(first, EdgeFlags::DEAD);
    let innocent = other.open(SocketKind::Stream);
    assert_eq!(other.connect(innocent, "10.0.0.2:81".parse().unwrap()), 0);
    let its_far = client.accept(far).socket;
    server.close(listener);
    client.wait_flag(second, EdgeFlags::DEAD);
    converse((&mut other, innocent), (&mut client, its_far));
}

/// The states of the connections of the engine whose control socket is at `path`.
fn states(path: &Path) -> Vec<String> {
    let mut control = BufReader::new(UnixStream::connect(path).unwrap());
    let (mut states, mut from) = (Vec::new(), 0);
    loop {
        let question = format!("{{\"cmd\":\"ss\",\"from\":{from}}}\n");
        control.get_mut().write_all(question.as_bytes()).unwrap();
        let mut line = String::new();
        control.read_line(&mut line).unwrap();
        let some = match serde_json::from_str(&line).unwrap() {
            ControlReply::Ss(some) => some,
            other => panic!("{other:?}"),
        };
        let rows = some.rows.into_iter().map(|row| row.state);
        states.extend(rows.filter(|state| state != "LISTEN"));
        match some.next {
            Some(next) => from = next,
            None => return states,
        }
    }
}

/// More connections in TIME-WAIT than one answer holds are told of, all of them.
#[test]
fn all_that_wait_are_shown() {
    const MANY: usize = 600;
    let dir = tempfile::tempdir().unwrap();
    let (near, far) = pair(&MemoryConfig::default());
    let control = dir.path().join("control");
    let mut of_a = config(
        dir.path(),
        "10.0.0.1/24",
        Box::new(near),
        Loopback::Kernel,
        true,
    );
    of_a.control = Some(control.clone());
    let a = run_with(of_a, |_| ());
    let b = start(
        dir.path(),
        "10.0.0.2/24",
        Box::new(far),
        Loopback::Kernel,
        true,
    );
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server);
    let mut pairs = Vec::new();
    for i in 0..MANY as u16 {
        let socket = client.open(SocketKind::Stream);
        let own = SocketAddr::from(([10, 0, 0, 2], 10_000 + i));
        client.bind(socket, own).unwrap();
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        pairs.push((socket, server.accept(listener).socket));
    }
    // A busy machine takes its time to open them, and none may be through with its
    // TIME-WAIT before the last has begun: so they all end at once.
    for (_, accepted) in &pairs {
        server.close(*accepted);
    }
    for (socket, _) in &pairs {
        client.wait_flag(*socket, EdgeFlags::PEER_FIN);
        client.close(*socket);
    }
    server.wait("all in TIME-WAIT", |_| {
        (states(&control) == vec!["TIME-WAIT"; MANY]).then_some(())
    });
}

/// A connection that was over before its program closed it goes with the close: neither
/// the engine nor its port keeps anything of it.
#[test]
fn what_was_over_already_goes_when_it_is_closed() {
    for reset in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = pair(&MemoryConfig::default());
        let (near_control, far_control) = (dir.path().join("near"), dir.path().join("far"));
        let at = |address, port, control: &Path| {
            let mut config = config(dir.path(), address, port, Loopback::Kernel, true);
            config.control = Some(control.to_owned());
            run_with(config, |_| ())
        };
        let a = at("10.0.0.1/24", Box::new(near), &near_control);
        let b = at("10.0.0.2/24", Box::new(far), &far_control);
        let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
        let listener = listening(&mut server);
        let socket = client.open(SocketKind::Stream);
        let local = "10.0.0.2:5555".parse().unwrap();
        client.bind(socket, local).unwrap();
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener);
        if reset {
            server.close_with(accepted.socket, Some(0));
        } else {
            // The server ends first, and so has the TIME-WAIT; the client is through as
            // soon as its own FIN is acknowledged.
            server.send(accepted.socket, b"", EdgeFlags::SHUT_WR);
            client.wait_flag(socket, EdgeFlags::PEER_FIN);
            client.send(socket, b"", EdgeFlags::SHUT_WR);
            server.wait_flag(accepted.socket, EdgeFlags::PEER_FIN);
        }
        client.wait("the end", |_| {
            (states(&far_control) == ["CLOSED"]).then_some(())
        });
        client.close(socket);
        client.wait("the connection to go", |_| {
            states(&far_control).is_empty().then_some(())
        });
        if !reset {
            server.close(accepted.socket);
            server.wait("its TIME-WAIT to be all", |_| {
                (states(&near_control) == ["TIME-WAIT"]).then_some(())
            });
        }
        let next = client.open(SocketKind::Stream);
        client.bind(next, local).unwrap();
    }
}

#[test]
fn a_port_without_a_listener_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let (_a, b) = two(dir.path());
    let mut client = Host::new(&b.path);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:81".parse().unwrap()), 111);
}

#[test]
fn an_address_in_use_is_refused_and_free_again_after_close() {
    let dir = tempfile::tempdir().unwrap();
    let (a, _b) = two(dir.path());
    let mut host = Host::new(&a.path);
    let first = host.open(SocketKind::Stream);
    host.bind(first, "10.0.0.1:80".parse().unwrap()).unwrap();
    assert_eq!(host.listen(first), 0);
    let second = host.open(SocketKind::Stream);
    assert_eq!(host.bind(second, "0.0.0.0:80".parse().unwrap()), Err(98));
    assert_eq!(host.bind(second, "10.9.9.9:80".parse().unwrap()), Err(99));
    host.close(first);
    host.bind(second, "0.0.0.0:80".parse().unwrap()).unwrap();
}

#[test]
fn a_connection_to_oneself_passes_with_and_without_packets() {
    for cut_through in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (a, _b) = pair(&MemoryConfig::default());
        let engine = start(
            dir.path(),
            "10.0.0.1/24",
            Box::new(a),
            Loopback::Engine,
            cut_through,
        );
        let (mut server, mut client) = (Host::new(&engine.path), Host::new(&engine.path));
        let listener = server.open(SocketKind::Stream);
        server
            .bind(listener, "127.0.0.1:7000".parse().unwrap())
            .unwrap();
        assert_eq!(server.listen(listener), 0);
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "127.0.0.1:7000".parse().unwrap()), 0);
        let accepted = server.accept(listener);
        let data = bytes(400_000, 3);
        client.send(socket, &data, EdgeFlags::empty());
        assert_eq!(
            server.receive(accepted.socket, data.len()),
            data,
            "cut through: {cut_through}"
        );
        server.send(accepted.socket, &data, EdgeFlags::SHUT_WR);
        assert_eq!(client.receive(socket, data.len()), data);
        client.wait_flag(socket, EdgeFlags::PEER_FIN);
        client.close(socket);
        server.wait_flag(accepted.socket, EdgeFlags::PEER_FIN);
        server.close(accepted.socket);
        let refused = client.open(SocketKind::Stream);
        assert_eq!(
            client.connect(refused, "127.0.0.1:7001".parse().unwrap()),
            111
        );
    }
}

#[test]
fn garbage_requests_are_counted_and_harm_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let mut bad = Host::new(&a.path);
    let socket = bad.open(SocketKind::Stream);
    for i in 0..3000u64 {
        use longshore_hostif::{Address, Request, SocketId};
        let id = SocketId {
            index: i as u32 % 1200,
            generation: (i % 3) as u32,
        };
        let request = match i % 5 {
            0 => Request::Edges {
                socket,
                snd_edge: u64::MAX - i,
                rcv_consumed: i << 40,
                flags: EdgeFlags::from_bits_retain(i as u16),
                immediate: 0,
            },
            1 => Request::Close {
                socket: id,
                snd_edge: i,
                rcv_consumed: u64::MAX,
                linger: Some(i as u32),
            },
            2 => Request::Connect {
                socket: id,
                tag: 0,
                waiter: Some(i as u16),
                peer: Address([i, i * 7, !i]),
            },
            3 => Request::Open {
                socket: id,
                kind: SocketKind::Datagram,
                flags: longshore_hostif::OpenFlags::empty(),
            },
            _ => Request::Listen {
                socket: id,
                tag: 1,
                waiter: Some(65_000),
                backlog: u32::MAX,
            },
        };
        while bad.channel.put(&request).is_err() {
            bad.drain();
            std::thread::yield_now();
        }
        bad.channel.publish(&bad.doorbell, true);
        bad.drain();
    }
    let listener = server.open(SocketKind::Stream);
    server
        .bind(listener, "10.0.0.1:80".parse().unwrap())
        .unwrap();
    assert_eq!(server.listen(listener), 0);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
    client.send(socket, b"still here", EdgeFlags::empty());
    let accepted = server.accept(listener);
    assert_eq!(server.receive(accepted.socket, 10), b"still here");
}

#[test]
fn fast_open_carries_data_on_the_syn_from_the_second_connection_on() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = two(dir.path());
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = server.open(SocketKind::Stream);
    server.set(listener, OptionName::FastOpen, 16);
    server
        .bind(listener, "0.0.0.0:80".parse().unwrap())
        .unwrap();
    assert_eq!(server.listen(listener), 0);
    for round in 0..3 {
        let socket = client.open(SocketKind::Stream);
        client.set(socket, OptionName::FastOpenConnect, 1);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        if round > 0 {
            // Told that it is connected, and nothing has been sent.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!server.has_record(listener));
        }
        let request = bytes(40_000, round);
        client.send(socket, &request, EdgeFlags::SHUT_WR);
        let accepted = server.accept(listener);
        assert_eq!(server.receive(accepted.socket, request.len()), request);
        server.wait_flag(accepted.socket, EdgeFlags::PEER_FIN);
        let info = server.tcp_info(accepted.socket);
        // TCPI_OPT_SYN_DATA.
        assert_eq!(info[5] & 32 != 0, round > 0, "round {round}");
        server.send(accepted.socket, b"done", EdgeFlags::SHUT_WR);
        assert_eq!(client.receive(socket, 4), b"done");
        client.close(socket);
        server.close(accepted.socket);
    }
}

/// What the frames tell of user timeouts (RFC 5482), one value for each that does.
fn told_timeouts(frames: &[Vec<u8>]) -> Vec<u16> {
    let segments = frames.iter().filter_map(|frame| frame.get(34..));
    let headers = segments.filter_map(|segment| TcpHeader::parse(segment).ok());
    headers
        .filter_map(|(header, _)| header.options.user_timeout)
        .collect()
}

#[test]
fn the_user_timeout_is_told_where_the_engine_is_set_to() {
    for wanted in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (near, far) = pair(&MemoryConfig::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let watched = Watched {
            port: far,
            seen: seen.clone(),
        };
        let config = |address, port| config(dir.path(), address, port, Loopback::Kernel, true);
        let set = |engine: &mut Engine| engine.set_user_timeout_option(wanted);
        let a = run_with(config("10.0.0.1/24", Box::new(near)), set);
        let b = run_with(config("10.0.0.2/24", Box::new(watched)), set);
        let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
        let listener = listening(&mut server);
        let socket = client.open(SocketKind::Stream);
        client.set(socket, OptionName::UserTimeout, 300_000);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = server.accept(listener);
        client.set(socket, OptionName::UserTimeout, 400_000);
        client.send(socket, b"after that", EdgeFlags::empty());
        assert_eq!(server.receive(accepted.socket, 10), b"after that");
        let mut told = told_timeouts(&seen.lock().unwrap());
        told.dedup();
        let expected: &[u16] = if wanted { &[300, 400] } else { &[] };
        assert_eq!(told, expected);
    }
}

#[test]
fn what_a_program_asked_before_it_became_another_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let mut host = Host::new(&engine.path);
    let listener = listening(&mut host);
    // The engine sleeps, and is not woken.
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..RING - 1 {
        let nothing = Request::Subscribe { socket: listener };
        host.channel.put(&nothing).unwrap();
    }
    let close = Request::Close {
        socket: listener,
        snd_edge: 0,
        rcv_consumed: 0,
        linger: None,
    };
    host.channel.put(&close).unwrap();
    host.channel.publish(&host.doorbell, false);
    // The same process, with another image.
    let mut image = Host::join(&engine.path, host.token);
    listening(&mut image);
}

#[test]
fn a_private_engine_ends_with_its_last_session_and_does_not_sleep_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = sleepy(dir.path());
    let (launcher, _) =
        longshore_hostif::attach::new_session(&engine.path, Default::default()).unwrap();
    assert!(!engine.is_over());
    drop(launcher);
    let start = std::time::Instant::now();
    while !engine.is_over() {
        assert!(start.elapsed() < TIMEOUT, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}
