//! What operators see of sockets and of the stack (`longshore ss`, `longshore stat`), where it is not
//! seen beside something else.

use super::off_path::{self, GEOMETRY};
use super::own_ends::Own;
use super::questions::asks;
use super::single::{CLIENT, SERVER, Single};
use crate::pair_end::PIECES_A_TURN;
use crate::status::SocketStatus;
use longshore_hostif::{DatagramRecord, EdgeFlags, Query, SocketId, SocketKind, datagram_span};
use longshore_testbed::packets;
use longshore_wire::ipv4::protocol;
use std::net::SocketAddr;

fn status_of(single: &Single, socket: SocketId) -> SocketStatus {
    let mut all = single.stack.status().sockets(0);
    let found = all.find(|(_, status)| status.block == Some(socket.index));
    found.expect("it is open").1
}

fn queues(single: &Single, socket: SocketId) -> (u64, u64) {
    let status = status_of(single, socket);
    (status.recv_q, status.send_q)
}

/// A connection whose program has accepted it, its key, and what its peer sends next.
fn connection() -> (Single, SocketId, u32, longshore_wire::tcp::TcpHeader) {
    let mut single = Single::new(GEOMETRY, 1);
    let (socket, next) = off_path::connection(&mut single);
    let key = single.stack.endpoints.key_of(single.session, socket);
    (single, socket, key.expect("it is open"), next)
}

#[test]
fn the_queues_of_a_connection_have_what_was_not_read_and_not_acknowledged() {
    let (mut single, socket, _, next) = connection();
    single.segment(&next, b"unread");
    single.write(socket, 0, &[1; 100]);
    single.turn();
    assert_eq!(queues(&single, socket), (6, 100));
    single.says(socket, 100, 2, EdgeFlags::empty());
    let mut acknowledges = next.clone();
    (acknowledges.seq, acknowledges.ack) = (next.seq.add(6), next.ack.add(40));
    single.segment(&acknowledges, &[]);
    single.turn();
    assert_eq!(queues(&single, socket), (4, 60));
}

#[test]
fn the_queue_of_an_end_of_our_own_has_what_was_not_read() {
    let mut own = Own::new();
    own.writes(own.client, 0, b"request");
    assert_eq!(queues(&own.single, own.server), (7, 0));
    own.says(own.server, 0, 3, EdgeFlags::empty());
    assert_eq!(queues(&own.single, own.server), (4, 0));
}

#[test]
fn the_queues_of_a_datagram_socket_have_records() {
    /// Datagrams that one socket sends in a turn.
    const A_TURN: u64 = 64;
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.bind(SocketKind::Datagram, 90);
    let peer = SocketAddr::new(CLIENT.into(), 9);
    let record = DatagramRecord::new(0, peer.into()).encode();
    let span = datagram_span(0);
    single.turn();
    let edge = single.write(socket, 0, &record);
    single.turn();
    assert_eq!(queues(&single, socket), (0, 0));
    single.write(socket, edge, &record.repeat(A_TURN as usize + 2));
    single.turn();
    assert_eq!(queues(&single, socket), (0, 2 * span));
    (0..2).for_each(|_| single.packet(protocol::UDP, &[0, 9, 0, 90, 0, 8, 0, 0]));
    single.turn();
    let (both, _) = queues(&single, socket);
    single.says(
        socket,
        edge + (A_TURN + 2) * span,
        both / 2,
        EdgeFlags::empty(),
    );
    single.turn();
    assert_eq!(queues(&single, socket), (both / 2, 0));
}

/// The stack wakes to send again what nobody acknowledges.
#[test]
fn what_was_sent_is_a_reason_to_wake() {
    let (mut single, socket, ..) = connection();
    single.turn_after(50_000);
    while single.stack.next_timeout().is_some() {
        single.turn_after(1_000_000);
    }
    single.write(socket, 0, b"bytes");
    single.turn();
    single.sent();
    let next = single.stack.next_timeout().expect("it is sent again");
    single.turn_after(next.since(single.now));
    assert_eq!(single.sent().len(), 1);
}

/// The places of chunks in a directory are written for the socket whose they are.
#[test]
fn entries_of_a_directory_are_counted_for_their_socket() {
    let (mut single, socket, _, next) = connection();
    let written = |single: &Single| status_of(single, socket).meter.to_host.control;
    let before = written(&single);
    single.segment(&next, b"bytes");
    single.turn();
    let after = written(&single);
    assert_eq!(after.transfers - before.transfers, 1);
}

#[test]
fn a_socket_without_a_process_is_an_orphan() {
    let (mut single, socket, key, _) = connection();
    let status = single.stack.status();
    assert!(!status.is_orphan(key) && status.is_orphan(1_000));
    assert_eq!(status.socket_count(), 2);
    single.close(socket);
    single.turn();
    let status = single.stack.status();
    assert!(status.is_orphan(key), "its peer has not ended it");
    assert_eq!(status.socket_count(), 2);
}

#[test]
fn fragments_are_seen_until_they_are_forgotten() {
    const TIMEOUT_US: u64 = 60_000_000;
    let mut single = Single::new(GEOMETRY, 1);
    single.turn();
    assert!(!single.stack.status().has_fragments());
    let ends = (CLIENT.into(), SERVER.into());
    let mut packet = packets::packet(ends, protocol::UDP, &[0; 8]);
    // More are to follow, by which its sum is another.
    packet[6] |= 0x20;
    packet[10..12].fill(0);
    let header = &packet[..longshore_wire::ipv4::HEADER_LEN];
    let sum = longshore_wire::checksum::Partial::of(header).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    single.frame_in(&packet);
    assert!(single.stack.status().has_fragments());
    single.turn_after(TIMEOUT_US);
    single.stack.expire_fragments();
    assert!(!single.stack.status().has_fragments());
}

/// The tables are asked for a segment that is of another connection than the one before it.
#[test]
fn connections_that_alternate_are_looked_up() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    let both = [0, 1].map(|number| single.connect(number));
    let misses = |single: &Single| single.stack.status().connection_cache_misses();
    single.segment(&both[0], &[]);
    let before = misses(&single);
    single.segment(&both[0], &[]);
    assert_eq!(misses(&single), before);
    for (which, expected) in [(1, 1), (0, 2), (0, 2), (1, 3)] {
        single.segment(&both[which], &[]);
        assert_eq!(misses(&single), before + expected);
    }
}

/// A listener is closed for which many are half open: they are forgotten in some turns, in which there
/// is nothing else to do.
#[test]
fn to_forget_those_that_are_half_open_is_work() {
    const MANY: u16 = 1_000;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    for number in 0..MANY {
        single.bring(
            number,
            longshore_wire::tcp::TcpFlags::SYN,
            longshore_wire::SeqNumber(0),
        );
    }
    single.close(listener);
    single.turn();
    let mut turns = 0;
    while single.stack.has_work_left() {
        single.stack.begin_turn(single.now);
        assert!(single.stack.flush());
        turns += 1;
    }
    assert!(turns > 1, "it would be no test");
    assert_eq!(single.stack.status().half_open_count(), 0);
}

/// TCP_INFO, where there is no TCP: what a turn moves is the window, and no path is narrower than a packet.
#[test]
fn a_connection_of_our_own_has_what_a_program_may_ask_for() {
    let mut own = Own::new();
    let (errno, info) = asks(&mut own.single, own.client, Query::TcpInfo);
    assert_eq!(errno, 0);
    // Where Linux's `struct tcp_info` has them.
    let [mss, pmtu, window] = [16, 60, 80].map(|at| {
        let bytes = info[at..at + 4].try_into().unwrap();
        u32::from_le_bytes(bytes)
    });
    assert_eq!((pmtu, window), (mss + 40, PIECES_A_TURN as u32));
}

/// A listener that was shut down listens no longer (TCP_INFO).
#[test]
fn a_listener_that_was_shut_down_is_closed() {
    const LISTEN: u8 = 10;
    const CLOSED: u8 = 7;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let state = |single: &mut Single| asks(single, listener, Query::TcpInfo).1[0];
    assert_eq!(state(&mut single), LISTEN);
    single.edges(listener, 0, EdgeFlags::SHUT_RD);
    single.turn();
    assert_eq!(state(&mut single), CLOSED);
}

/// A send buffer follows what is wanted in steps of a quarter, as far as it may, unless its program has
/// set it (SO_SNDBUF).
#[test]
fn a_send_buffer_changes_by_more_than_a_quarter() {
    for (most, wanted, expected, grows) in [
        (1_000, 450, 400, false),
        (1_000, 500, 400, false),
        (1_000, 501, 501, true),
        (1_000, 2_000, 1_000, true),
        (450, 1_000, 450, true),
        (400, 1_000, 400, false),
        (1_000, 400, 400, false),
        (1_000, 300, 400, false),
        (1_000, 299, 299, false),
    ] {
        for is_set in [false, true] {
            let (mut single, _, key, _) = connection();
            let endpoints = &mut single.stack.endpoints;
            let socket = endpoints.sockets.get_mut(key).unwrap();
            socket.options.send_buffer = 400;
            socket.options.send_most = most;
            socket.options.send_fixed = is_set;
            let has_grown = socket.tune_send_buffer(wanted, &endpoints.sessions);
            let expected = if is_set { 400 } else { expected };
            assert_eq!(socket.options.send_buffer, expected, "{most} {wanted}");
            assert_eq!(has_grown, grows && !is_set, "{most} {wanted}");
        }
    }
}

/// The routers to everywhere else are those that were given.
#[test]
fn operators_see_the_gateways() {
    let (port, _wire) = longshore_ports::memory::pair(&Default::default());
    let gateways = [std::net::IpAddr::from([10, 0, 0, 254])];
    let interface = crate::Interface {
        port: Box::new(port),
        addresses: &["10.0.0.1/24".parse().unwrap()],
        gateways: &gateways,
        automatic: &Default::default(),
    };
    let settings = crate::Settings::new(
        Box::new(super::machine::Alone),
        longshore_hostif::Loopback::Kernel,
        0,
        true,
    );
    let secrets = crate::Secrets::from_seed(1);
    let now = longshore_tcp::Instant(1_000_000);
    let stack = crate::Stack::new(interface, settings, &secrets, now).unwrap();
    assert_eq!(stack.status().gateways(), gateways);
}
