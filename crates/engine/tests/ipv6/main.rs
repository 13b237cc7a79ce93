//! IPv6: two engines on a memory wire, each with a program.

#[path = "../common/mod.rs"]
mod common;
mod packets;

use common::Host;
use common::engines::{bytes, config, converse, joined, run, start};
use longshore_engine::control::ControlReply;
use longshore_hostif::{
    DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Loopback, OpenFlags, SocketId, SocketKind,
    datagram_span,
};
use longshore_ports::memory::{MemoryConfig, pair};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

const A: &str = "fd00::1/64";
const B: &str = "fd00::2/64";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn v6(host: &mut Host, kind: SocketKind, more: OpenFlags) -> SocketId {
    host.open_with(kind, OpenFlags::IPV6 | OpenFlags::REUSE_ADDRESS | more)
}

fn listening(host: &mut Host, local: &str, more: OpenFlags) -> SocketId {
    let socket = v6(host, SocketKind::Stream, more);
    host.bind(socket, at(local)).unwrap();
    assert_eq!(host.listen(socket), 0);
    socket
}

#[test]
fn bytes_go_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), A, B);
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server, "[::]:80", OpenFlags::empty());
    let socket = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
    assert_eq!(client.connect(socket, at("[fd00::1]:80")), 0);
    let accepted = server.accept(listener);
    assert_eq!(accepted.local.get(), Some(at("[fd00::1]:80")));
    let peer = accepted.peer.get().unwrap();
    assert_eq!(peer.ip(), at("[fd00::2]:0").ip());
    converse((&mut client, socket), (&mut server, accepted.socket));
    let refused = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
    assert_eq!(client.connect(refused, at("[fd00::1]:81")), 111);
    let nowhere = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
    assert_eq!(client.connect(nowhere, at("[fd01::1]:80")), 101, "no route");
}

/// The counts that the engine's control socket at `path` has of TCP.
fn tcp_counts(path: &Path) -> BTreeMap<String, u64> {
    let mut control = BufReader::new(UnixStream::connect(path).unwrap());
    control
        .get_mut()
        .write_all(b"{\"cmd\":\"stat\"}\n")
        .unwrap();
    let mut line = String::new();
    control.read_line(&mut line).unwrap();
    match serde_json::from_str(&line).unwrap() {
        ControlReply::Stat(stat) => stat.tcp,
        other => panic!("{other:?}"),
    }
}

/// Segments of each of two connections are taken by prediction, with timestamps or
/// without, also where the other's came before, and with the checksum made here.
#[test]
fn segments_are_predicted() {
    for (offloads, ethernet) in [(true, true), (false, true), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = pair(&MemoryConfig {
            offloads,
            ethernet,
            ..MemoryConfig::default()
        });
        let control = dir.path().join("control");
        let mut of_a = config(dir.path(), A, Box::new(a), Loopback::Kernel, true);
        of_a.control = Some(control.clone());
        let a = run(of_a);
        let b = start(dir.path(), B, Box::new(b), Loopback::Kernel, true);
        let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
        let listener = listening(&mut server, "[::]:80", OpenFlags::empty());
        let both = [(); 2].map(|()| {
            let socket = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
            assert_eq!(client.connect(socket, at("[fd00::1]:80")), 0);
            (socket, server.accept(listener).socket)
        });
        for round in 0..20 {
            for (from, to) in both {
                let data = bytes(5_000, round);
                client.send(from, &data, EdgeFlags::empty());
                assert_eq!(server.receive(to, data.len()), data);
                server.send(to, &data, EdgeFlags::empty());
                assert_eq!(client.receive(from, data.len()), data);
            }
        }
        let counts = tcp_counts(&control);
        let (all, predicted) = (counts["data_segments_in"], counts["predicted_data"]);
        assert!(all >= 40 && predicted * 10 >= all * 8, "{counts:?}");
    }
}

#[test]
fn one_socket_serves_both_versions() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(
        dir.path(),
        "10.0.0.1/24 fd00::1/64",
        "10.0.0.2/24 fd00::2/64",
    );
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let listener = listening(&mut server, "[::]:80", OpenFlags::empty());
    let old = client.open(SocketKind::Stream);
    assert_eq!(client.connect(old, at("10.0.0.1:80")), 0);
    let accepted = server.accept(listener);
    assert_eq!(accepted.local.get(), Some(at("[::ffff:10.0.0.1]:80")));
    client.send(old, b"four", EdgeFlags::empty());
    assert_eq!(server.receive(accepted.socket, 4), b"four");
    // An IPv6 socket reaches IPv4 by a mapped address.
    let mapped = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
    assert_eq!(client.connect(mapped, at("[::ffff:10.0.0.1]:80")), 0);
    let only = v6(&mut client, SocketKind::Stream, OpenFlags::V6ONLY);
    assert_eq!(client.connect(only, at("[::ffff:10.0.0.1]:80")), 101);
    let wrong = client.open(SocketKind::Stream);
    assert_eq!(client.connect(wrong, at("[fd00::1]:80")), 97);
}

#[test]
fn ipv6_only_leaves_ipv4_to_another() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(
        dir.path(),
        "10.0.0.1/24 fd00::1/64",
        "10.0.0.2/24 fd00::2/64",
    );
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let six = listening(&mut server, "[::]:80", OpenFlags::V6ONLY);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, at("10.0.0.1:80")), 111);
    let four = server.open(SocketKind::Stream);
    server.bind(four, at("0.0.0.0:80")).unwrap();
    assert_eq!(server.listen(four), 0);
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, at("10.0.0.1:80")), 0);
    assert_eq!(server.accept(four).local.get(), Some(at("10.0.0.1:80")));
    let socket = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
    assert_eq!(client.connect(socket, at("[fd00::1]:80")), 0);
    assert_eq!(server.accept(six).local.get(), Some(at("[fd00::1]:80")));
}

#[test]
fn loopback_passes_with_and_without_packets() {
    for cut_through in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (a, _b) = pair(&MemoryConfig::default());
        let engine = start(dir.path(), A, Box::new(a), Loopback::Engine, cut_through);
        let (mut server, mut client) = (Host::new(&engine.path), Host::new(&engine.path));
        let listener = listening(&mut server, "[::1]:7000", OpenFlags::empty());
        for to in ["[::1]:7000", "[fd00::1]:7001"] {
            let listener = if to == "[::1]:7000" {
                listener
            } else {
                listening(&mut server, to, OpenFlags::empty())
            };
            let socket = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
            assert_eq!(client.connect(socket, at(to)), 0, "{to}");
            let accepted = server.accept(listener);
            assert_eq!(accepted.peer.get().unwrap().ip(), at(to).ip());
            let data = bytes(400_000, 3);
            client.send(socket, &data, EdgeFlags::empty());
            let got = server.receive(accepted.socket, data.len());
            assert_eq!(got, data, "{to}, cut through: {cut_through}");
        }
        let refused = v6(&mut client, SocketKind::Stream, OpenFlags::empty());
        assert_eq!(client.connect(refused, at("[::1]:7002")), 111);
    }
}

fn send_datagram(host: &mut Host, socket: SocketId, to: Option<SocketAddr>, payload: &[u8]) {
    let record = DatagramRecord::new(payload.len() as u32, to.into());
    let mut stream = record.encode().to_vec();
    stream.extend_from_slice(payload);
    stream.resize(datagram_span(record.len) as usize, 0);
    host.send(socket, &stream, EdgeFlags::empty());
}

fn receive_datagram(host: &mut Host, socket: SocketId) -> (DatagramRecord, Vec<u8>) {
    let header = host.receive(socket, DATAGRAM_HEADER);
    let record = DatagramRecord::decode(header.as_slice().try_into().unwrap());
    let rest = datagram_span(record.len) as usize - DATAGRAM_HEADER;
    let mut payload = host.receive(socket, rest);
    payload.truncate(record.len as usize);
    (record, payload)
}

#[test]
fn datagrams_of_any_length_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), A, B);
    let (mut server, mut client) = (Host::new(&a.path), Host::new(&b.path));
    let to = v6(&mut server, SocketKind::Datagram, OpenFlags::empty());
    server.bind(to, at("[::]:53")).unwrap();
    let from = v6(&mut client, SocketKind::Datagram, OpenFlags::empty());
    client.bind(from, at("[::]:0")).unwrap();
    for len in [1usize, 1452, 1453, 20_000, 65_527] {
        let payload = bytes(len, len as u32);
        send_datagram(&mut client, from, Some(at("[fd00::1]:53")), &payload);
        let (record, got) = receive_datagram(&mut server, to);
        assert_eq!(got, payload, "{len}");
        let peer = record.peer.get().unwrap();
        assert_eq!(peer.ip(), at("[fd00::2]:0").ip());
        // And back: whence it came is where it goes.
        send_datagram(&mut server, to, Some(peer), &payload[..len.min(100)]);
        let (_, got) = receive_datagram(&mut client, from);
        assert_eq!(got, payload[..len.min(100)]);
    }
}

#[test]
fn nobody_at_the_port_is_told_to_who_is_connected() {
    let dir = tempfile::tempdir().unwrap();
    let (_a, b) = joined(dir.path(), A, B);
    let mut client = Host::new(&b.path);
    let socket = v6(&mut client, SocketKind::Datagram, OpenFlags::empty());
    // A datagram socket is not connected by edges: only the answer is waited for.
    client.connect_datagram(socket, at("[fd00::1]:9"));
    let peer = Some(at("[fd00::1]:9"));
    send_datagram(&mut client, socket, peer, b"anybody?");
    client.wait_flag(socket, EdgeFlags::SOFT_ERROR);
    let errno = &client.arena.block(socket.index).errno;
    assert_eq!(errno.load(std::sync::atomic::Ordering::Acquire), 111);
}

#[test]
fn nobody_at_a_port_of_the_loopback_address_is_told_too() {
    let dir = tempfile::tempdir().unwrap();
    let (a, _b) = pair(&MemoryConfig::default());
    let engine = start(dir.path(), A, Box::new(a), Loopback::Engine, true);
    let mut host = Host::new(&engine.path);
    for (to, flags) in [
        ("[::1]:9", OpenFlags::IPV6),
        ("127.0.0.1:9", OpenFlags::empty()),
    ] {
        let socket = host.open_with(SocketKind::Datagram, flags);
        host.connect_datagram(socket, at(to));
        send_datagram(&mut host, socket, Some(at(to)), b"anybody?");
        host.wait_flag(socket, EdgeFlags::SOFT_ERROR);
        let errno = &host.arena.block(socket.index).errno;
        assert_eq!(
            errno.load(std::sync::atomic::Ordering::Acquire),
            111,
            "{to}"
        );
    }
}
