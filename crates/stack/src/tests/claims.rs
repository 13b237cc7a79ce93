//! What hosts say of their streams, and what comes of it: edges that cannot be, halves that are
//! shut down, what is urgent and what is a record. Other processes that have the socket too are in
//! [`several`].

mod several;

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, Single};
use super::streams::{append, copy_out};
use crate::session::SPARE_CHUNKS;
use longshore_hostif::{
    ACCEPT_RECORD, Completion, DatagramRecord, EdgeFlags, Edges, Features, Geometry, HostChannel,
    OptionName, Request, SocketId, SocketKind, datagram_span,
};
use longshore_wire::ipv4::protocol;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::SocketAddr;

const TICK_US: u64 = 1_100;

/// A stack with a connection over the wire that its program has accepted.
struct Wire {
    single: Single,
    socket: SocketId,
    /// What the peer sends next, if neither has sent anything.
    next: TcpHeader,
}

impl Wire {
    fn new() -> Self {
        Self::with(Features::empty(), &[])
    }

    fn with(features: Features, options: &[(OptionName, u64)]) -> Self {
        let mut single = Single::with_features(GEOMETRY, 2, features);
        let listener = single.listen();
        for (name, value) in options {
            single.set(listener, *name, *value);
        }
        single.turn();
        let next = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
        single.turn();
        single.discard_completions();
        single.sent();
        Self {
            single,
            socket,
            next,
        }
    }

    /// The peer sends `payload`, of which `at` bytes came before, and has so much of ours.
    fn comes(&mut self, at: u32, acknowledged: u32, flags: TcpFlags, payload: &[u8]) {
        let segment = TcpHeader {
            seq: self.next.seq.add(at),
            ack: self.next.ack.add(acknowledged),
            flags: flags | TcpFlags::ACK,
            ..self.next.clone()
        };
        self.single.segment(&segment, payload);
        self.single.turn();
    }

    /// The program says so of its streams.
    fn says(&mut self, snd_edge: u64, rcv_consumed: u64, flags: EdgeFlags) {
        self.single.says(self.socket, snd_edge, rcv_consumed, flags);
        self.single.turn();
    }

    fn reported(&mut self) -> Option<Edges> {
        self.single.told_of(self.socket)
    }

    /// The segments that were sent: where each begins in the stream, its payload and its flags.
    fn sent(&mut self) -> Vec<(u32, Vec<u8>, TcpFlags)> {
        let iss = self.next.ack;
        let all = self.single.sent_with_payload().into_iter();
        all.map(|sent| {
            (
                sent.header.seq.0.wrapping_sub(iss.0),
                sent.payload,
                sent.header.flags,
            )
        })
        .collect()
    }
}

/// What a program is told of its connection, step by step: nothing twice, and nothing that it
/// does not wait for.
#[test]
fn each_thing_that_happens_to_a_connection_is_told_once() {
    let mut wire = Wire::new();
    assert_eq!(
        wire.reported(),
        None,
        "the record has said that it is connected"
    );
    wire.comes(0, 0, TcpFlags::PSH, b"one");
    let reported = wire.reported().expect("data");
    assert_eq!(
        (reported.rcv_edge, reported.flags),
        (3, EdgeFlags::CONNECTED)
    );
    wire.single.turn();
    assert_eq!(wire.reported(), None);
    // Bytes that have come before, and some that leave a hole.
    wire.comes(0, 0, TcpFlags::PSH, b"one");
    wire.comes(5, 0, TcpFlags::PSH, b"later");
    assert_eq!(wire.reported(), None);
    wire.comes(3, 0, TcpFlags::PSH, b", ");
    assert_eq!(wire.reported().map(|reported| reported.rcv_edge), Some(10));
    let mut got = [0; 10];
    copy_out(&wire.single.arena, wire.socket.index, 0, &mut got);
    assert_eq!(&got, b"one, later");
    wire.comes(10, 0, TcpFlags::FIN, &[]);
    let reported = wire.reported().expect("the end");
    assert_eq!(reported.flags, EdgeFlags::CONNECTED | EdgeFlags::PEER_FIN);
    assert_eq!((reported.rcv_edge, reported.errno), (10, 0));
    wire.comes(11, 0, TcpFlags::RST, &[]);
    let reported = wire.reported().expect("a reset");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, 32, "as after an end");
    wire.single.turn_after(1_000_000);
    assert_eq!(wire.reported(), None);
}

#[test]
fn a_reset_is_told_with_its_error() {
    let mut wire = Wire::new();
    wire.comes(0, 0, TcpFlags::RST, &[]);
    let reported = wire.reported().expect("a reset");
    assert!(
        reported.flags.contains(EdgeFlags::DEAD) && !reported.flags.contains(EdgeFlags::PEER_FIN)
    );
    assert_eq!(reported.errno, 104);
}

/// Of acknowledgments, a quarter of the buffer is worth a report at once, whatever was reported before;
/// with other news they ride along.
#[test]
fn acknowledgments_are_told_by_quarters_of_the_buffer() {
    const QUARTER: u64 = 2_000;
    let mut wire = Wire::with(Features::empty(), &[(OptionName::SendBuffer, 4 * QUARTER)]);
    let mut edge = 0;
    for round in 0..3 {
        let begun = edge;
        edge = wire
            .single
            .write(wire.socket, begun, &[7; QUARTER as usize]);
        wire.single.turn();
        wire.comes(0, edge as u32 - 1, TcpFlags::NONE, &[]);
        assert_eq!(wire.reported(), None, "{round}: one byte less");
        wire.comes(0, edge as u32, TcpFlags::NONE, &[]);
        assert_eq!(
            wire.reported().map(|reported| reported.snd_acked),
            Some(edge),
            "{round}"
        );
    }
    let more = wire.single.write(wire.socket, edge, b"request");
    wire.single.turn();
    wire.comes(0, more as u32, TcpFlags::PSH, b"answer");
    let reported = wire.reported().expect("data");
    assert_eq!((reported.rcv_edge, reported.snd_acked), (6, more));
}

/// The host of a socket that lingers is told when its end was acknowledged, others are not.
#[test]
fn a_lingering_host_is_told_that_its_end_has_arrived() {
    for lingers in [false, true] {
        let mut wire = Wire::new();
        let mut how = EdgeFlags::SHUT_WR;
        how.set(EdgeFlags::LINGERS, lingers);
        let edge = wire.single.write(wire.socket, 0, b"bye");
        wire.says(edge, 0, how);
        let fin = wire.sent().pop().expect("a FIN");
        assert!(fin.2.contains(TcpFlags::FIN));
        // Said again, it is the same.
        wire.says(edge, 0, how);
        wire.comes(0, 3, TcpFlags::NONE, &[]);
        assert_eq!(wire.reported(), None, "not the end");
        wire.comes(0, 4, TcpFlags::NONE, &[]);
        let reported = wire.reported().map(|reported| reported.flags);
        let all = EdgeFlags::CONNECTED | EdgeFlags::FIN_ACKED;
        assert_eq!(reported, lingers.then_some(all));
        // What is written after the end is not sent.
        wire.single.write(wire.socket, edge, b"more");
        wire.single.turn();
        assert!(wire.sent().iter().all(|sent| sent.1.is_empty()));
    }
}

/// As on Linux, what comes after the receiving half was shut down may be read; with both halves
/// shut, it is answered by a reset.
#[test]
fn what_comes_when_both_halves_are_shut_is_reset() {
    let mut wire = Wire::new();
    wire.says(0, 0, EdgeFlags::SHUT_RD);
    wire.comes(0, 0, TcpFlags::PSH, b"after");
    assert_eq!(wire.reported().map(|reported| reported.rcv_edge), Some(5));
    wire.says(0, 5, EdgeFlags::SHUT_WR);
    wire.sent();
    wire.comes(5, 1, TcpFlags::PSH, b"more");
    let reset = wire.sent().pop().expect("a reset");
    assert!(reset.2.contains(TcpFlags::RST));
}

/// What a host cannot have written or read is a fault of its own, and changes nothing.
#[test]
fn edges_that_cannot_be_are_counted_and_without_effect() {
    let kinds: [fn(&mut Single) -> SocketId; 3] = [
        |single| {
            let listener = SocketId {
                index: 0,
                generation: 1,
            };
            single.connect(0);
            single.turn();
            accepted(single, listener, 0)
        },
        |single| {
            let client = single.open(SocketKind::Stream);
            single.connect_to_own(client);
            client
        },
        |single| single.bind(SocketKind::Datagram, 90),
    ];
    for (number, make) in kinds.into_iter().enumerate() {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        assert_eq!((listener.index, listener.generation), (0, 1));
        single.turn();
        let socket = make(&mut single);
        single.turn();
        let bad = |single: &Single| {
            let session = single.stack.endpoints.sessions.get(single.session());
            session.unwrap().host.meter.bad_descriptors()
        };
        let before = bad(&single);
        let edges = |snd_edge, rcv_consumed| Request::Edges {
            socket,
            snd_edge,
            rcv_consumed,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        };
        let most = longshore_hostif::STREAM_MAX;
        for (times, (snd, rcv)) in [(0, 1), (0, u64::MAX), (most + 1, 0), (u64::MAX, 0)]
            .into_iter()
            .enumerate()
        {
            single.ask(0, &edges(snd, rcv));
            single.turn();
            assert_eq!(bad(&single) - before, times as u64 + 1, "{number}");
        }
        assert_eq!(
            single
                .stack
                .endpoints
                .sockets
                .iter()
                .map(|(_, s)| s.kind.snd_edge())
                .max(),
            Some(0)
        );
    }
}

/// What is said of the socket that had a block before does nothing to the one that has it now.
#[test]
fn what_is_said_of_an_earlier_socket_is_without_effect() {
    let mut wire = Wire::new();
    let now = wire.socket;
    let earlier = SocketId {
        generation: now.generation - 1,
        ..now
    };
    wire.comes(0, 0, TcpFlags::PSH, b"for the one that is there");
    append(&wire.single.arena.clone(), now.index, 0, b"not sent");
    wire.sent();
    let all = EdgeFlags::PUSH | EdgeFlags::SHUT_WR | EdgeFlags::SHUT_RD;
    for request in [
        Request::Edges {
            socket: earlier,
            snd_edge: 8,
            rcv_consumed: 25,
            flags: all,
            immediate: 0,
        },
        Request::Urgent {
            socket: earlier,
            snd_edge: 8,
            rcv_consumed: 25,
        },
        Request::SetOption {
            socket: earlier,
            name: OptionName::ReceiveBuffer,
            value: 4_096,
        },
        Request::Close {
            socket: earlier,
            snd_edge: 8,
            rcv_consumed: 25,
            linger: Some(0),
        },
    ] {
        wire.single.ask(0, &request);
        wire.single.turn();
        assert_eq!(wire.sent(), [], "{request:?}");
        let status = wire.single.stack.status();
        let found = status.sockets(0).find(|(_, s)| s.block == Some(now.index));
        let (_, found) = found.unwrap_or_else(|| panic!("closed by {request:?}"));
        assert_eq!(found.state, "ESTAB", "{request:?}");
        assert_eq!((found.recv_q, found.send_q), (25, 0), "{request:?}");
        assert!(found.tcp.is_some_and(|tcp| tcp.rcvbuf > 4_096));
    }
}

/// The cork holds less than a segment back, until it is said without it.
#[test]
fn a_cork_that_is_said_with_the_edges_holds_segments_back() {
    let mut wire = Wire::new();
    let arena = wire.single.arena.clone();
    let corked = EdgeFlags::PUSH | EdgeFlags::CORK;
    let edge = append(&arena, wire.socket.index, 0, b"header");
    wire.says(edge, 0, corked);
    assert_eq!(wire.sent(), [], "it waits");
    // What says neither of the two says nothing of the cork.
    wire.says(edge, 0, EdgeFlags::empty());
    assert_eq!(wire.sent(), []);
    let edge = append(&arena, wire.socket.index, edge, b", body");
    wire.says(edge, 0, EdgeFlags::PUSH);
    let sent = wire.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].1, b"header, body");
    // MSG_MORE is of one write.
    let more = append(&arena, wire.socket.index, edge, b"more");
    wire.says(more, 0, EdgeFlags::MORE);
    assert_eq!(wire.sent(), []);
    wire.says(more, 0, EdgeFlags::PUSH);
    assert!(wire.sent().len() <= 1);
}

#[test]
fn an_urgent_byte_is_pointed_to() {
    let mut wire = Wire::new();
    let arena = wire.single.arena.clone();
    let snd_edge = append(&arena, wire.socket.index, 0, b"urgent!");
    wire.single.ask(
        0,
        &Request::Urgent {
            socket: wire.socket,
            snd_edge,
            rcv_consumed: 0,
        },
    );
    wire.single.turn();
    let sent = wire.single.sent_with_payload();
    let segment = sent.last().expect("a segment");
    assert_eq!(segment.payload, b"urgent!");
    assert!(segment.header.flags.contains(TcpFlags::URG));
    assert!(segment.header.urgent != 0);
}

/// What follows the end of a record is in no segment with what comes before it.
#[test]
fn records_are_kept_apart() {
    let corked = EdgeFlags::MORE;
    for (ends, segments) in [(EdgeFlags::empty(), 1), (EdgeFlags::RECORD_END, 2)] {
        let mut wire = Wire::new();
        let arena = wire.single.arena.clone();
        let edge = append(&arena, wire.socket.index, 0, b"first");
        wire.says(edge, 0, corked | ends);
        let edge = append(&arena, wire.socket.index, edge, b"second");
        wire.says(edge, 0, EdgeFlags::PUSH);
        let mut sent = wire.sent();
        let first = sent[0].1.len() as u32;
        wire.comes(0, first, TcpFlags::NONE, &[]);
        sent.extend(wire.sent());
        assert_eq!(sent.len(), segments, "{sent:?}");
        let all: Vec<u8> = sent.into_iter().flat_map(|sent| sent.1).collect();
        assert_eq!(all, b"firstsecond");
    }
}

/// A datagram that was read gives its chunk back.
#[test]
fn the_memory_of_datagrams_that_were_read_is_free_again() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.bind(SocketKind::Datagram, 90);
    single.turn();
    let free = single.free_chunks();
    let datagram = |single: &mut Single, bytes: &[u8]| {
        let mut udp = vec![0; 8];
        udp[..2].copy_from_slice(&9_u16.to_be_bytes());
        udp[2..4].copy_from_slice(&90_u16.to_be_bytes());
        udp[4..6].copy_from_slice(&(8 + bytes.len() as u16).to_be_bytes());
        udp.extend(bytes);
        single.packet(protocol::UDP, &udp);
        single.turn();
    };
    datagram(&mut single, b"one");
    datagram(&mut single, b"two");
    let span = datagram_span(3);
    let reported = single.told_of(socket).expect("datagrams");
    assert_eq!(reported.rcv_edge, 2 * span);
    assert_eq!(single.free_chunks(), free - 1);
    single.edges(socket, span, EdgeFlags::empty());
    single.turn();
    assert_eq!(single.free_chunks(), free - 1, "one is left");
    // Edges that are older than those that are known are no fault, and no news.
    single.edges(socket, 2 * span, EdgeFlags::empty());
    single.edges(socket, span, EdgeFlags::empty());
    single.turn();
    assert_eq!(single.free_chunks(), free);
    assert_eq!(single.in_stack().host.meter.bad_descriptors(), 0);
    datagram(&mut single, b"three");
    let mut record = [0; 32];
    copy_out(&single.arena, socket.index, 2 * span, &mut record);
    let record = DatagramRecord::decode(&record);
    let from = SocketAddr::new(CLIENT.into(), 9);
    assert_eq!((record.len, record.peer.get()), (5, Some(from)));
}
