//! When what a program has written left, and was acknowledged: told as reports, once each.

use super::off_path::{GEOMETRY, accepted, connection};
use super::questions::asks;
use super::single::{CLIENT, Single};
use crate::counters::EngineDrop;
use longshore_hostif::{
    DatagramRecord, EdgeFlags, ErrorReport, OptionName, Query, SocketId, SocketKind,
};
use longshore_wire::tcp::TcpHeader;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const WHEN: u64 = 7 << 48;
/// When it leaves, and nothing else.
const WHEN_SENT: u64 = 2 << 48;

/// What is told of a socket's: what it is about, and of which byte.
fn told(single: &mut Single, socket: SocketId) -> Option<(u32, u32)> {
    let (errno, bytes) = asks(single, socket, Query::Error);
    assert_eq!(errno, 0);
    let (report, quoted) = ErrorReport::decode(&bytes)?;
    let stamp = report.stamp.expect("no error");
    assert!(stamp.at_ns != 0 && quoted.is_empty());
    assert_eq!((report.errno, report.offender), (42, None));
    Some((report.info, stamp.key))
}

fn kept(single: &Single, socket: SocketId) -> u32 {
    let block = single.arena.block(socket.index);
    block.errors.load(Ordering::Relaxed)
}

/// A connection whose program has sent 100 bytes, and asks about 500 more.
fn asking(single: &mut Single, socket: SocketId) {
    single.write(socket, 0, &[7; 100]);
    single.turn();
    assert_eq!(kept(single, socket), 0);
    single.set(socket, OptionName::SentKeys, 2);
    single.set(socket, OptionName::StampSent, 600 | WHEN);
    single.write(socket, 100, &[8; 500]);
    single.turn();
}

#[test]
fn the_times_of_a_write_over_the_wire_are_told_when_they_have_come() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let peer = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    let nodelay = OptionName::NoDelay;
    single.set(socket, nodelay, 1);
    asking(&mut single, socket);
    assert_eq!(kept(&single, socket), 2);
    assert_eq!(told(&mut single, socket), Some((1, 499)));
    assert_eq!(told(&mut single, socket), Some((0, 499)));
    assert_eq!(
        (told(&mut single, socket), kept(&single, socket)),
        (None, 0)
    );
    for (acked, count) in [(599, 0), (600, 1)] {
        let header = TcpHeader {
            ack: peer.ack.add(acked),
            ..peer.clone()
        };
        single.segment(&header, &[]);
        single.turn();
        assert_eq!(kept(&single, socket), count, "{acked}");
    }
    assert_eq!(told(&mut single, socket), Some((2, 499)));
    assert_eq!(kept(&single, socket), 0);
}

#[test]
fn what_one_socket_sends_another_of_the_engine_is_there_at_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    accepted(&mut single, listener, 0);
    asking(&mut single, client);
    assert_eq!(kept(&single, client), 3);
    let all: Vec<_> = std::iter::from_fn(|| told(&mut single, client)).collect();
    assert_eq!(all, [(1, 499), (0, 499), (2, 499)]);
}

/// A program that asks and never looks finds what there was room for.
#[test]
fn stamps_for_which_there_is_no_room_are_counted() {
    const MOST: u32 = 128;
    const WRITES: u64 = 43;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    accepted(&mut single, listener, 0);
    for number in 0..WRITES {
        let end = 10 * (number + 1);
        single.set(client, OptionName::StampSent, end | WHEN);
        single.write(client, end - 10, &[7; 10]);
        single.turn();
    }
    assert_eq!(kept(&single, client), MOST);
    let lost = 3 * WRITES - u64::from(MOST);
    assert_eq!(single.dropped(EngineDrop::ErrorQueueFull.name()), lost);
    // Nor is more waited for.
    let end = 10 * WRITES;
    for number in 0..u64::from(MOST) + 2 {
        single.set(client, OptionName::StampSent, (end + number + 1) | WHEN);
    }
    assert_eq!(single.dropped(EngineDrop::ErrorQueueFull.name()), lost + 2);
}

/// SOF_TIMESTAMPING_OPT_ID: bytes are counted from what is not acknowledged on, or from what is written
/// next on (SOF_TIMESTAMPING_OPT_ID_TCP).
#[test]
fn bytes_are_counted_from_where_the_program_has_said() {
    for (from, key) in [(0, 0), (1, 199), (2, 99)] {
        let mut single = Single::new(GEOMETRY, 1);
        let (socket, _) = connection(&mut single);
        single.set(socket, OptionName::NoDelay, 1);
        single.write(socket, 0, &[7; 100]);
        single.turn();
        single.set(socket, OptionName::SentKeys, from);
        single.set(socket, OptionName::StampSent, 200 | WHEN_SENT);
        single.write(socket, 100, &[8; 100]);
        single.turn();
        assert_eq!(told(&mut single, socket), Some((0, key)), "{from}");
    }
}

/// The time of a datagram is told with its number, if datagrams are counted.
#[test]
fn the_times_of_datagrams_are_told_with_their_numbers() {
    for (counts, keys) in [(1, [0, 1]), (0, [0, 0])] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.bind(SocketKind::Datagram, 90);
        single.set(socket, OptionName::SentKeys, counts);
        let mut edge = 0;
        for key in keys {
            edge = sends_datagram(&mut single, socket, edge);
            let edges = single.told_of(socket).expect("there is a report");
            assert!(edges.flags.contains(EdgeFlags::SOFT_ERROR));
            assert_eq!(kept(&single, socket), 1);
            assert_eq!(told(&mut single, socket), Some((0, key)), "{counts}");
        }
    }
}

#[test]
fn times_of_datagrams_for_which_there_is_no_room_are_counted() {
    const MOST: u32 = 128;
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.bind(SocketKind::Datagram, 90);
    let mut edge = 0;
    let lost = |single: &Single| single.dropped(EngineDrop::ErrorQueueFull.name());
    for _ in 0..MOST {
        edge = sends_datagram(&mut single, socket, edge);
    }
    assert_eq!((kept(&single, socket), lost(&single)), (MOST, 0));
    sends_datagram(&mut single, socket, edge);
    assert_eq!((kept(&single, socket), lost(&single)), (MOST, 1));
}

/// The program sends a datagram, and asks when it leaves; how far its stream reaches then.
fn sends_datagram(single: &mut Single, socket: SocketId, edge: u64) -> u64 {
    let record = DatagramRecord::new(0, SocketAddr::new(CLIENT.into(), 9).into());
    single.set(
        socket,
        OptionName::StampSent,
        (edge + record.span()) | WHEN_SENT,
    );
    let edge = single.write(socket, edge, &record.encode());
    single.turn();
    edge
}
