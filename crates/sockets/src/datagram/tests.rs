//! What is told of a datagram that was received.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::engine;
use crate::{Departure, Host};
use longshore_hostif::{SocketKind, SocketState};
use rustix::io::Errno;
use std::io::IoSlice;
use std::mem::ManuallyDrop;

/// A chunk of the receive slab that the engine does not come to in these tests.
const CHUNK: u32 = 500;

/// A socket whose receive stream has these bytes. They are the test's: it may look at them, but
/// not read them, for the engine knows nothing of them.
fn holding(host: &'static Host, bytes: &[u8]) -> ManuallyDrop<Socket> {
    let socket = ManuallyDrop::new(Engine::open(host, SocketKind::Datagram));
    let arena = &host.arena;
    let place = arena.rcv_place(CHUNK, 0, bytes.len()).unwrap();
    arena.memory().write(place, bytes);
    let directory = arena.rcv_directory(socket.id().index);
    directory.entry(0).store(CHUNK, Ordering::Release);
    let edge = &socket.block().rcv.edge;
    edge.store(bytes.len() as u64, Ordering::Release);
    socket
}

/// The bytes of a record, of what follows its header, and of its payload.
fn bytes_of(record: &DatagramRecord, follows: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [&record.encode(), follows, payload].concat();
    bytes.resize(record.span() as usize, 0xee);
    bytes
}

fn look(socket: &Socket, room: usize) -> Result<(Received, Vec<u8>), SocketError> {
    let mut buf = vec![0; room];
    let received = socket
        .datagrams()
        .recv(&mut [IoSliceMut::new(&mut buf)], true)?;
    buf.truncate(received.copied);
    Ok((received, buf))
}

fn record(len: u32) -> DatagramRecord {
    DatagramRecord::new(len, Address::from(Engine::address(7)))
}

#[test]
fn what_came_with_a_datagram_is_told_with_it() {
    let (_engine, host, _directory) = engine();
    let group = IpAddr::from([224, 0, 0, 9]);
    let mapped = std::net::Ipv4Addr::new(224, 0, 0, 9).to_ipv6_mapped();
    let stamp = Stamp {
        arrived_ns: 123_456_789,
        dropped: 3,
    };
    for (to_group, stamped) in [(false, false), (false, true), (true, false), (true, true)] {
        let record = DatagramRecord {
            to_group,
            stamped,
            own: 1,
            segment: 5,
            hops: Some(33),
            class: 44,
            ..record(9)
        };
        let group_bytes = mapped.octets();
        let stamp_bytes = stamp.encode();
        let follows = [
            if to_group { &group_bytes[..] } else { &[] },
            if stamped { &stamp_bytes[..] } else { &[] },
        ];
        let bytes = bytes_of(&record, &follows.concat(), b"some data");
        let socket = holding(host, &bytes);
        let (received, payload) = look(&socket, 99).unwrap();
        let expected = Received {
            copied: 9,
            len: 9,
            is_cut: false,
            from: Some(Engine::address(7)),
            segment: 5,
            own: Some((Engine::address(0).ip(), 0)),
            to: to_group.then_some(group),
            hops: 33,
            class: 44,
            stamp: stamped.then_some(stamp),
        };
        assert_eq!((received, &payload[..]), (expected, &b"some data"[..]));
        assert_eq!(socket.datagrams().next_len(), 9);
    }
}

/// Where the engine's address is not told, it is that to which the socket is bound.
#[test]
fn a_datagram_came_to_the_address_that_its_socket_is_bound_to() {
    let (_engine, host, _directory) = engine();
    let socket = holding(host, &bytes_of(&record(0), &[], &[]));
    let own = |local: Option<SocketAddr>| {
        let local = local.map_or(Address::NONE, Address::from);
        socket.block().set_local(local);
        look(&socket, 9).unwrap().0.own
    };
    assert_eq!(own(None), None);
    assert_eq!(own(Some(SocketAddr::from(([0; 4], 5)))), None);
    let mapped = std::net::Ipv4Addr::new(10, 9, 9, 2).to_ipv6_mapped();
    let bound = Some((Engine::address(0).ip(), 0));
    assert_eq!(own(Some(Engine::address(5))), bound);
    assert_eq!(own(Some(SocketAddr::from((mapped, 5)))), bound);
}

/// MSG_TRUNC and SO_PEEK_OFF, as Linux has them.
#[test]
fn what_there_is_no_room_for_is_cut_off() {
    let (_engine, host, _directory) = engine();
    let bytes = [
        bytes_of(&record(4), &[], b"abcd"),
        bytes_of(&record(0), &[], b""),
        bytes_of(&record(3), &[], b"efg"),
    ];
    let socket = holding(host, &bytes.concat());
    for (offset, room, payload, is_cut) in [
        (None, 5, &b"abcd"[..], false),
        (None, 4, b"abcd", false),
        (None, 3, b"abc", true),
        (None, 0, b"", true),
        (Some(0), 4, b"abcd", false),
        (Some(1), 4, b"bcd", false),
        (Some(1), 3, b"bcd", true),
        (Some(3), 2, b"d", false),
        // The empty one is found at the end of the first, and passed by what is beyond.
        (Some(4), 9, b"", false),
        (Some(5), 9, b"fg", false),
        (Some(6), 9, b"g", false),
    ] {
        socket.peek_offset().set(offset);
        let (received, found) = look(&socket, room).unwrap();
        assert_eq!(found, payload, "{offset:?} {room}");
        assert_eq!(received.is_cut, is_cut, "{offset:?} {room}");
        assert_eq!(received.copied, payload.len());
    }
    socket.peek_offset().set(Some(7));
    assert_eq!(look(&socket, 9).err(), Some(SocketError::WouldBlock));
}

#[test]
fn a_datagram_is_spread_over_the_parts_of_a_call() {
    let (_engine, host, _directory) = engine();
    let socket = holding(host, &bytes_of(&record(7), &[], b"abcdefg"));
    let (mut a, mut b, mut c) = ([0; 2], [0; 0], [0; 9]);
    let mut parts = [&mut a[..], &mut b, &mut c].map(IoSliceMut::new);
    let received = socket.datagrams().recv(&mut parts, true).unwrap();
    assert_eq!((received.copied, received.is_cut), (7, false));
    assert_eq!((a, &c[..5], &c[5..]), (*b"ab", &b"cdefg"[..], &[0; 4][..]));
}

/// What the memory says that the engine writes is a claim.
#[test]
fn a_record_that_is_longer_than_its_stream_is_refused() {
    let (_engine, host, _directory) = engine();
    let whole = bytes_of(&record(4), &[], b"abcd");
    let broken = Some(SocketError::Broken);
    let cut = holding(host, &whole[..whole.len() - 1]);
    assert_eq!(look(&cut, 9).err(), broken);
    let header = holding(host, &whole[..DATAGRAM_HEADER - 1]);
    assert_eq!(look(&header, 9).err(), broken);
    assert_eq!(header.datagrams().next_len(), 0);
    let second = holding(host, &[&whole[..], &whole[..DATAGRAM_HEADER]].concat());
    assert_eq!(look(&second, 9).map(|(r, _)| r.len), Ok(4));
    second.peek_offset().set(Some(4));
    assert_eq!(look(&second, 9).err(), broken);
}

#[test]
fn a_pending_error_comes_before_what_was_received() {
    let (_engine, host, _directory) = engine();
    let socket = holding(host, &bytes_of(&record(4), &[], b"abcd"));
    socket.set_more_bits(more_bits::IS_TAKEN);
    assert_eq!(socket.pending_error().report(), Ok(()));
    assert!(socket.more_bits() & more_bits::IS_TAKEN != 0);
    socket
        .pending_error()
        .set(Errno::CONNREFUSED.raw_os_error());
    let refused = SocketError::Failed(Errno::CONNREFUSED);
    assert_eq!(socket.datagrams().next_len(), 4, "to ask takes no error");
    assert_eq!(look(&socket, 9).err(), Some(refused));
    assert_eq!(socket.more_bits() & more_bits::IS_TAKEN, 0);
    assert_eq!(look(&socket, 9).map(|(r, _)| r.len), Ok(4));
}

#[test]
fn to_ask_for_the_next_datagram_takes_no_error() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    assert_eq!(socket.datagrams().next_len(), 0);
    socket
        .pending_error()
        .set(Errno::CONNREFUSED.raw_os_error());
    assert_eq!(socket.datagrams().next_len(), 0);
    assert_eq!(
        socket.pending_error().take(),
        Errno::CONNREFUSED.raw_os_error() as u32
    );
}

#[test]
fn a_socket_that_is_shut_down_for_reading_gives_the_end() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    assert_eq!(look(&socket, 9).err(), Some(SocketError::WouldBlock));
    socket.halves().note(true, false);
    let (end, _) = look(&socket, 9).unwrap();
    assert!(end.is_end() && end.from.is_none());
    assert_eq!((end.copied, end.len, end.is_cut), (0, 0, false));
    assert_eq!(socket.state(), SocketState::Open);
}

/// What is read makes room, and the next datagram is the next.
#[test]
fn datagrams_are_read_one_by_one() {
    let (_engine, host, _directory) = engine();
    let (a, b) = (
        Engine::open(host, SocketKind::Datagram),
        Engine::open(host, SocketKind::Datagram),
    );
    let to = b.addresses().bind(Engine::address(0)).unwrap();
    for payload in [&b"one"[..], b"", b"three"] {
        let sent = a
            .datagrams()
            .send(&[IoSlice::new(payload)], Some(to), Departure::default());
        assert_eq!(sent, Ok(payload.len()));
    }
    for (keep, payload) in [
        (true, &b"one"[..]),
        (false, b"one"),
        (false, b""),
        (true, b"three"),
        (false, b"three"),
    ] {
        let mut buf = [0; 9];
        let received = b.wait(None, crate::WaitLimit::ENDLESS, || {
            b.datagrams().recv(&mut [IoSliceMut::new(&mut buf)], keep)
        });
        let received = received.unwrap();
        assert_eq!(&buf[..received.copied], payload);
        assert_eq!(
            (received.len, received.from),
            (payload.len(), a.addresses().local())
        );
    }
    assert_eq!(look(&b, 9).err(), Some(SocketError::WouldBlock));
}

/// SIOCGSTAMP: nothing before something has come, the time of asking for what came before that, and
/// what the engine says of what comes afterwards, unless it is told beside each.
#[test]
fn the_last_arrival_is_that_of_what_was_received() {
    let (_engine, host, _directory) = engine();
    let stamped = DatagramRecord {
        stamped: true,
        ..record(1)
    };
    let stamp = Stamp {
        arrived_ns: 500,
        dropped: 0,
    };
    let socket = holding(host, &bytes_of(&stamped, &stamp.encode(), b"x"));
    let datagrams = socket.datagrams();
    assert_eq!(datagrams.last_arrival(100), None);
    // Nobody has asked that it be kept.
    look(&socket, 1).unwrap();
    assert_eq!(datagrams.last_arrival(100), None);
    socket.block().rcv.done.store(1, Ordering::Release);
    assert_eq!(datagrams.last_arrival(200), Some(200));
    assert_eq!(datagrams.last_arrival(300), Some(200));
    socket.block().rcv.done.store(0, Ordering::Release);
    for (more, expected) in [
        (more_bits::TIMESTAMP, 200),
        (more_bits::TIMESTAMP_NS, 200),
        (0, 500),
    ] {
        socket.set_more_bits(more_bits::LAST_ARRIVAL | more);
        look(&socket, 1).unwrap();
        assert_eq!(datagrams.last_arrival(600), Some(expected), "{more}");
        socket.clear_more_bits(more);
    }
    // With it told beside each from the first on, there is none.
    socket.block().rcv.urgent_read.store(0, Ordering::Relaxed);
    socket.block().rcv.done.store(1, Ordering::Release);
    socket.set_more_bits(more_bits::TIMESTAMP);
    assert_eq!(datagrams.last_arrival(700), None);
    socket.block().rcv.done.store(0, Ordering::Release);
}
