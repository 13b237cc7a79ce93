//! Chunks of receive streams are used again: an engine says of no byte that it came which did
//! not, wherever the chunk was before. Debug builds fill free chunks with a pattern, which
//! would be what is read.

mod common;

use common::Host;
use common::engines::{Running, bytes, joined, start};
use longshore_hostif::{CHUNK, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Loopback};
use longshore_hostif::{SocketId, SocketKind};
use longshore_ports::memory::{MemoryConfig, pair};
use std::net::SocketAddr;
use std::path::Path;

/// What the first users of the chunks receive, and nobody after them.
const SECRET: [u8; 16] = *b"another's secret";

fn secret(len: usize) -> Vec<u8> {
    SECRET.into_iter().cycle().take(len).collect()
}

fn connection(
    client: &mut Host,
    server: &mut Host,
    listener: SocketId,
    to: SocketAddr,
) -> (SocketId, SocketId) {
    let socket = client.open(SocketKind::Stream);
    assert_eq!(client.connect(socket, to), 0);
    (socket, server.accept(listener).socket)
}

/// Connections one after the other, each of which receives less than the last.
fn streams(client: &mut Host, server: &mut Host) {
    let listener = server.open(SocketKind::Stream);
    let to = "10.0.0.1:80".parse().unwrap();
    server.bind(listener, to).unwrap();
    assert_eq!(server.listen(listener), 0);
    let (socket, accepted) = connection(client, server, listener, to);
    let first = secret(300_000);
    client.send(socket, &first, EdgeFlags::empty());
    assert!(server.receive(accepted, first.len()) == first);
    client.close(socket);
    server.close(accepted);
    for len in [1, 5000, CHUNK - 1, CHUNK, CHUNK + 1, 200_000] {
        let (socket, accepted) = connection(client, server, listener, to);
        let sent = bytes(len, 7);
        client.send(socket, &sent, EdgeFlags::empty());
        let (first, rest) = sent.split_at(len / 2);
        assert!(server.receive(accepted, first.len()) == first);
        client.send(socket, &sent, EdgeFlags::SHUT_WR);
        let rest = [rest, &sent].concat();
        assert!(server.receive(accepted, rest.len()) == rest);
        let end = server.wait_flag(accepted, EdgeFlags::PEER_FIN);
        assert_eq!(end.rcv_edge, 2 * len as u64, "nothing came behind it");
        client.close(socket);
        server.close(accepted);
    }
    server.close(listener);
}

fn send_datagram(host: &mut Host, socket: SocketId, to: SocketAddr, payload: &[u8]) {
    let record = DatagramRecord::new(payload.len() as u32, to.into());
    let mut stream = record.encode().to_vec();
    stream.extend_from_slice(payload);
    stream.resize(record.span() as usize, 0);
    host.send(socket, &stream, EdgeFlags::empty());
}

fn datagrams(client: &mut Host, server: &mut Host) {
    let to: SocketAddr = "10.0.0.1:53".parse().unwrap();
    for round in 0..3 {
        let receiver = server.open(SocketKind::Datagram);
        server.bind(receiver, to).unwrap();
        let sender = client.open(SocketKind::Datagram);
        client.bind(sender, "0.0.0.0:0".parse().unwrap()).unwrap();
        for len in [1200, 0, 1, 7, 8, 9, 1000] {
            let sent = if round == 0 {
                secret(len)
            } else {
                bytes(len, round)
            };
            send_datagram(client, sender, to, &sent);
            let header = server.receive(receiver, DATAGRAM_HEADER);
            let record = DatagramRecord::decode(&header.try_into().unwrap());
            assert_eq!(
                (record.len as usize, record.payload_at()),
                (len, DATAGRAM_HEADER)
            );
            assert!(server.receive(receiver, len) == sent);
            let span = record.span() as usize;
            // Up to the next record, which nobody is shown.
            server.receive(receiver, span - DATAGRAM_HEADER - len);
        }
        client.close(sender);
        server.close(receiver);
    }
}

fn check(server_of: &Running, client_of: &Running) {
    let mut server = Host::new(&server_of.path);
    let mut client = Host::new(&client_of.path);
    streams(&mut client, &mut server);
    datagrams(&mut client, &mut server);
}

#[test]
fn over_the_wire_only_what_came_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = joined(dir.path(), "10.0.0.1/24", "10.0.0.2/24");
    check(&a, &b);
}

fn on_one_engine(dir: &Path, cut_through: bool) {
    let (wire, _other) = pair(&MemoryConfig::default());
    let all = start(
        dir,
        "10.0.0.1/24",
        Box::new(wire),
        Loopback::Kernel,
        cut_through,
    );
    check(&all, &all);
}

#[test]
fn within_one_engine_only_what_came_is_told_of() {
    on_one_engine(tempfile::tempdir().unwrap().path(), true);
}

#[test]
fn within_one_engine_over_tcp_only_what_came_is_told_of() {
    on_one_engine(tempfile::tempdir().unwrap().path(), false);
}
