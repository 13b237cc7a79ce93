//! A datagram socket between its program and the wire: what its datagrams have in their headers,
//! how long ones and trains are cut, what is dropped and why, and who gets what comes. What its
//! program is told of errors is in [`errors`], what becomes of trains in [`trains`], and what is said and counted
//! of those that leave in [`sending`].

mod errors;
mod sending;
mod trains;

use super::off_path::GEOMETRY;
use super::single::{CLIENT, SERVER, Single};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use longshore_hostif::{
    Completion, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Edges, OptionName, PathMtu, Request,
    STAMP_BYTES, SocketId, SocketKind, datagram_span,
};
use longshore_testbed::packets::HOPS;
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv4::unreachable;
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

const PORT: u16 = 90;
const PEER_PORT: u16 = 9;
const UDP: usize = 8;
const MTU: usize = 1_500;
/// Datagrams that one socket sends in a turn.
const A_TURN: usize = 64;
/// Not to be reached from a socket of IPv4.
const FAR: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// A stack with a datagram socket at [`PORT`].
struct Udp {
    single: Single,
    socket: SocketId,
    written: u64,
    read: u64,
}

/// A datagram as it is on the wire.
#[derive(Debug, PartialEq, Eq)]
struct OnWire {
    ports: (u16, u16),
    payload: Vec<u8>,
    ttl: u8,
    class: u8,
    may_be_cut: bool,
}

fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

impl Udp {
    fn new() -> Self {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.bind(SocketKind::Datagram, PORT);
        single.turn();
        single.discard_completions();
        Self {
            single,
            socket,
            written: 0,
            read: 0,
        }
    }

    fn peer() -> SocketAddr {
        SocketAddr::new(CLIENT.into(), PEER_PORT)
    }

    /// The program sends so many bytes, each of which is its place.
    fn sends(&mut self, change: impl FnOnce(&mut DatagramRecord), len: usize) {
        let mut record = DatagramRecord::new(len as u32, Self::peer().into());
        change(&mut record);
        let mut bytes = record.encode().to_vec();
        bytes.extend((0..len).map(|at| at as u8));
        bytes.resize(datagram_span(record.len) as usize, 0);
        self.written = self.single.write(self.socket, self.written, &bytes);
        self.single.turn();
    }

    /// The datagrams that went out whole; their checksums are right.
    fn sent(&mut self) -> Vec<OnWire> {
        let mut all = Vec::new();
        for packet in self.single.packets() {
            assert_eq!((packet[0] >> 4, packet[9]), (4, protocol::UDP));
            let udp = &packet[HEADER_LEN..];
            let len = u32::from(word(&udp[4..]));
            assert_eq!(len as usize, udp.len());
            let pseudo = Partial::of_pseudo_v4(SERVER, CLIENT, protocol::UDP, len);
            assert_eq!(pseudo.plus(Partial::of(udp)).finish(), 0, "its checksum");
            all.push(OnWire {
                ports: (word(udp), word(&udp[2..])),
                payload: udp[UDP..].to_vec(),
                ttl: packet[8],
                class: packet[1],
                may_be_cut: packet[6] & 0x40 == 0,
            });
        }
        all
    }

    /// A datagram comes from the peer's `port` to `to`.
    fn comes(&mut self, port: u16, to: u16, payload: &[u8]) {
        let mut udp = vec![0; UDP];
        udp[..2].copy_from_slice(&port.to_be_bytes());
        udp[2..4].copy_from_slice(&to.to_be_bytes());
        udp[4..6].copy_from_slice(&((UDP + payload.len()) as u16).to_be_bytes());
        udp.extend(payload);
        self.single.packet(protocol::UDP, &udp);
        self.single.turn();
    }

    /// What the program finds next, if it was told of anything: the record, what stands behind it,
    /// and the payload.
    fn reads(&mut self) -> Option<(DatagramRecord, Vec<u8>, Vec<u8>)> {
        let reported = self
            .single
            .told_of(self.socket)
            .map(|reported| reported.rcv_edge);
        let edge = reported.filter(|edge| *edge > self.read)?;
        let mut record = [0; DATAGRAM_HEADER];
        let arena = self.single.arena.clone();
        copy_out(&arena, self.socket.index, self.read, &mut record);
        let record = DatagramRecord::decode(&record);
        let mut rest = vec![0; record.payload_at() - DATAGRAM_HEADER];
        let at = self.read + DATAGRAM_HEADER as u64;
        copy_out(&arena, self.socket.index, at, &mut rest);
        let mut payload = vec![0; record.len as usize];
        let at = self.read + record.payload_at() as u64;
        copy_out(&arena, self.socket.index, at, &mut payload);
        self.read += record.span();
        assert_eq!(self.read, edge, "one at a time");
        self.single
            .edges(self.socket, self.read, EdgeFlags::empty());
        Some((record, rest, payload))
    }

    fn connects(&mut self, peer: SocketAddr) -> u16 {
        self.single.discard_completions();
        self.single.ask(
            0,
            &Request::Connect {
                socket: self.socket,
                tag: 3,
                waiter: None,
                peer: peer.into(),
            },
        );
        self.single.turn();
        self.single.answer().expect("an answer")
    }
}

#[test]
fn a_datagram_goes_out_as_its_record_has_it() {
    let mut udp = Udp::new();
    udp.sends(|_| {}, 5);
    udp.sends(
        |record| {
            record.hops = Some(3);
            record.class = 0x28;
            record.path_mtu = PathMtu::Dont;
        },
        0,
    );
    let ports = (PORT, PEER_PORT);
    let usual = OnWire {
        ports,
        payload: vec![0, 1, 2, 3, 4],
        ttl: 64,
        class: 0,
        may_be_cut: false,
    };
    let chosen = OnWire {
        ports,
        payload: vec![],
        ttl: 3,
        class: 0x28,
        may_be_cut: true,
    };
    assert_eq!(udp.sent(), [usual, chosen]);
    assert_eq!(udp.single.stack.counters.datagrams.sent, 2);
}

/// A train is cut into datagrams of its size; one of more than may be is dropped.
#[test]
fn a_train_is_cut_where_the_port_does_not() {
    let lens = |udp: &mut Udp| -> Vec<usize> {
        udp.sent().iter().map(|sent| sent.payload.len()).collect()
    };
    for (segment, len, expected) in [
        (100, 250, vec![100, 100, 50]),
        (100, 200, vec![100, 100]),
        (100, 100, vec![100]),
        (100, 99, vec![99]),
        (1_472, 3_000, vec![1_472, 1_472, 56]),
    ] {
        let mut udp = Udp::new();
        udp.sends(|record| record.segment = segment, len);
        assert_eq!(lens(&mut udp), expected);
    }
    let mut udp = Udp::new();
    udp.sends(|record| record.segment = 10, 1_280);
    assert_eq!(lens(&mut udp).len(), 128);
    udp.sends(|record| record.segment = 10, 1_281);
    assert_eq!(udp.single.dropped(EngineDrop::TooManySegments.name()), 1);
    udp.sends(|_| {}, 3);
    assert_eq!(lens(&mut udp), [3], "the next goes");
}

/// One that is to have no checksum has zero there, in fragments, too; a train has them all the same.
#[test]
fn a_datagram_goes_out_without_a_checksum() {
    let mut udp = Udp::new();
    for (len, segment, fragments, is_summed) in [
        (0, 0, 1, false),
        (5, 0, 1, false),
        (3_000, 0, 3, false),
        (20, 10, 2, true),
    ] {
        udp.sends(
            |record| {
                record.unsummed = true;
                record.segment = segment;
            },
            len,
        );
        let packets = udp.single.packets();
        assert_eq!(packets.len(), fragments, "{len}");
        let checksum = word(&packets[0][HEADER_LEN + 6..]);
        assert_eq!(checksum != 0, is_summed, "{len}");
    }
    udp.sends(|_| {}, 5);
    assert_eq!(udp.sent().len(), 1, "the next has one");
}

/// RFC 791: packets that may be cut are told apart by their identifications, of which each is the
/// next, and the fragments of one have the same.
#[test]
fn each_packet_has_an_identification_of_its_own() {
    for (len, fragments) in [(100, 1), (3_000, 3)] {
        let mut udp = Udp::new();
        (0..3).for_each(|_| udp.sends(|record| record.path_mtu = PathMtu::Dont, len));
        let packets = udp.single.packets();
        assert_eq!(packets.len(), 3 * fragments);
        let of = |packet: &Vec<u8>| word(&packet[4..]);
        let first = of(&packets[0]);
        for (number, packet) in packets.iter().enumerate() {
            let expected = first.wrapping_add((number / fragments) as u16);
            assert_eq!(of(packet), expected, "{len}, {number}");
        }
    }
}

/// A datagram that the link does not take whole goes in fragments, unless its program wants none:
/// then it is told so.
#[test]
fn a_long_datagram_is_cut_or_refused() {
    const MOST: usize = MTU - HEADER_LEN - UDP;
    const LEAST: usize = 1_280 - HEADER_LEN - UDP;
    for (len, how, fragments) in [
        (MOST, PathMtu::Want, 1),
        (MOST + 1, PathMtu::Want, 2),
        (3_000, PathMtu::Dont, 3),
        (MOST, PathMtu::Do, 1),
        (MOST + 1, PathMtu::Do, 0),
        (MOST + 1, PathMtu::Probe, 0),
        (LEAST, PathMtu::Least, 1),
        (LEAST + 1, PathMtu::Least, 2),
        (3_000, PathMtu::Least, 3),
    ] {
        let mut udp = Udp::new();
        udp.sends(|record| record.path_mtu = how, len);
        let packets = udp.single.packets();
        assert_eq!(packets.len(), fragments, "{len} {how:?}");
        let most = if how == PathMtu::Least { 1_280 } else { MTU };
        assert!(packets.iter().all(|packet| packet.len() <= most));
        let payload: usize = packets.iter().map(|packet| packet.len() - HEADER_LEN).sum();
        assert_eq!(payload, if fragments == 0 { 0 } else { len + UDP });
        if fragments == 1 {
            let is_to_stay_whole = packets[0][6] & 0x40 != 0;
            assert!(is_to_stay_whole, "{len} {how:?}");
        }
        if fragments > 1 {
            // Together they have the whole datagram, and its sum is right.
            let whole: Vec<u8> = packets
                .iter()
                .flat_map(|p| p[HEADER_LEN..].to_vec())
                .collect();
            let all = whole.len() as u32;
            let pseudo = Partial::of_pseudo_v4(SERVER, CLIENT, protocol::UDP, all);
            assert_eq!(pseudo.plus(Partial::of(&whole)).finish(), 0);
            assert!(
                whole[UDP..]
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| at as u8 == *byte)
            );
        }
        let reported = udp.single.told_of(udp.socket);
        let is_reported =
            reported.is_some_and(|reported| reported.flags.contains(EdgeFlags::SOFT_ERROR));
        assert_eq!(is_reported, fragments == 0, "{len} {how:?}");
        let errno = udp
            .single
            .arena
            .block(udp.socket.index)
            .errno
            .load(Ordering::Relaxed);
        assert_eq!(errno, if fragments == 0 { 90 } else { 0 });
    }
}

/// What is not sent is dropped for a reason, and what comes after it is sent.
#[test]
fn what_cannot_be_sent_is_dropped_for_a_reason() {
    type Change = fn(&mut DatagramRecord);
    let cases: [(EngineDrop, Change, usize); 4] = [
        (
            EngineDrop::NoRoute,
            |record| record.peer = SocketAddr::new(FAR, 9).into(),
            1,
        ),
        (
            EngineDrop::AccessDenied,
            |record| record.peer = SocketAddr::new(CLIENT.into(), 53).into(),
            1,
        ),
        (
            EngineDrop::BadStream,
            |record| record.peer = longshore_hostif::Address::NONE,
            1,
        ),
        // One that IPv4 does not take.
        (EngineDrop::NoRoute, |_| {}, 65_508),
    ];
    for (why, change, len) in cases {
        let mut udp = Udp::new();
        udp.single.stack.settings.access.connect.0 = vec!["deny udp any port 53".parse().unwrap()];
        udp.sends(change, len);
        assert_eq!(udp.single.dropped(why.name()), 1, "{why:?}");
        assert_eq!(udp.sent(), []);
        udp.sends(|_| {}, 1);
        assert_eq!(udp.sent().len(), 1, "{why:?}");
    }
    // The longest that there is.
    let mut udp = Udp::new();
    udp.sends(|_| {}, 65_507);
    assert_eq!(udp.single.packets().len(), 45);
}

/// A program that has written much is served some in each turn.
#[test]
fn many_datagrams_are_sent_some_in_each_turn() {
    let mut udp = Udp::new();
    let record = DatagramRecord::new(0, Udp::peer().into());
    udp.single
        .write(udp.socket, 0, &record.encode().repeat(1_000));
    udp.single.turn();
    let mut all = udp.sent().len();
    assert_eq!(all, A_TURN);
    while udp.single.stack.has_work_left() {
        udp.single.turn();
        let now = udp.sent().len();
        assert!(now <= A_TURN, "{now}");
        all += now;
    }
    assert_eq!(all, 1_000);
}

/// What comes has its sender, its hop limit and its class beside it; for a socket that asks, when it came
/// and how many did not, too.
#[test]
fn what_comes_is_in_a_record() {
    let mut udp = Udp::new();
    udp.comes(PEER_PORT, PORT, b"hello");
    let (record, rest, payload) = udp.reads().expect("a datagram");
    assert_eq!(record.peer.get(), Some(Udp::peer()));
    assert_eq!((record.hops, record.class, record.own), (Some(HOPS), 0, 1));
    assert!(!record.to_group && !record.stamped && record.segment == 0);
    assert_eq!(
        (rest.as_slice(), payload.as_slice()),
        ([].as_slice(), b"hello".as_slice())
    );
    udp.single.set(udp.socket, OptionName::Stamped, 1);
    udp.comes(PEER_PORT, PORT, b"again");
    let (record, rest, payload) = udp.reads().expect("another");
    assert!(record.stamped);
    assert_eq!(
        (rest.len(), payload.as_slice()),
        (STAMP_BYTES, b"again".as_slice())
    );
    // Nothing in it.
    udp.comes(PEER_PORT, PORT, b"");
    assert_eq!(udp.reads().map(|(record, ..)| record.len), Some(0));
    assert_eq!(udp.single.stack.counters.datagrams.received, 3);
}

/// The buffer bounds what waits to be read: what is too much is dropped, counted, and told to a socket that
/// asks how many were.
#[test]
fn what_nobody_reads_is_dropped_beyond_the_buffer() {
    const LEN: usize = 1_000;
    let mut udp = Udp::new();
    udp.single.set(udp.socket, OptionName::ReceiveBuffer, 5_000);
    udp.single.set(udp.socket, OptionName::Stamped, 1);
    let full = EngineDrop::UdpBufferFull.name();
    let mut taken = 0;
    while udp.single.dropped(full) == 0 {
        udp.comes(PEER_PORT, PORT, &[1; LEN]);
        taken += 1;
    }
    taken -= 1;
    let span = udp.single.told_of(udp.socket).expect("datagrams").rcv_edge / taken;
    // The last one was taken while the buffer was not over its limit.
    assert!(
        taken * span > 5_000 && (taken - 1) * span <= 5_000,
        "{taken}"
    );
    udp.single.edges(udp.socket, span, EdgeFlags::empty());
    udp.comes(PEER_PORT, PORT, &[2; LEN]);
    assert_eq!(udp.single.dropped(full), 1, "there is room for one");
    udp.read = taken * span;
    let (_, rest, _) = udp.reads().expect("it");
    assert_eq!(
        longshore_hostif::Stamp::decode(&rest.try_into().unwrap()).dropped,
        1
    );
}

/// One that finds the buffer filled to its limit is taken, as by Linux.
#[test]
fn a_buffer_is_full_when_its_limit_is_passed() {
    const LEN: usize = 68;
    let span = datagram_span(LEN as u32);
    let mut udp = Udp::new();
    udp.single
        .set(udp.socket, OptionName::ReceiveBuffer, 50 * span);
    (0..52).for_each(|_| udp.comes(PEER_PORT, PORT, &[1; LEN]));
    let told = udp.single.told_of(udp.socket).map(|edges| edges.rcv_edge);
    assert_eq!(told, Some(51 * span));
    assert_eq!(udp.single.dropped(EngineDrop::UdpBufferFull.name()), 1);
}

/// The longest datagram is taken by the shortest buffer, alone.
#[test]
fn an_empty_buffer_takes_a_datagram_of_any_length() {
    let mut udp = Udp::new();
    udp.single.set(udp.socket, OptionName::ReceiveBuffer, 0);
    let full = EngineDrop::UdpBufferFull.name();
    for dropped in [0, 1] {
        udp.comes(PEER_PORT, PORT, &[1; 65_507]);
        assert_eq!(udp.single.dropped(full), dropped);
    }
    assert_eq!(udp.reads().map(|(record, ..)| record.len), Some(65_507));
    // The longest buffer holds no more than a stream can.
    udp.single
        .set(udp.socket, OptionName::ReceiveBuffer, u64::MAX);
    while udp.single.dropped(full) == 1 {
        udp.comes(PEER_PORT, PORT, &[1; 65_507]);
    }
    let held = udp.single.told_of(udp.socket).expect("datagrams").rcv_edge - udp.read;
    assert!(
        held <= longshore_hostif::STREAM_MAX && held + 2 * 65_507 > longshore_hostif::STREAM_MAX,
        "{held}"
    );
}

/// What comes for nobody is answered, and what may not come is not.
#[test]
fn what_comes_for_nobody_is_refused() {
    let mut udp = Udp::new();
    udp.comes(PEER_PORT, 91, b"?");
    assert_eq!(udp.single.dropped(EngineDrop::NoUdpSocket.name()), 1);
    let answer = udp.single.packets().pop().expect("port unreachable");
    assert_eq!(answer[9], protocol::ICMP);
    assert_eq!((answer[HEADER_LEN], answer[HEADER_LEN + 1]), (3, 3));
    let rule = "deny udp 10.0.0.0/24 port 90".parse().unwrap();
    udp.single.stack.settings.access.accept.0 = vec![rule];
    udp.comes(PEER_PORT, PORT, b"?");
    assert_eq!(udp.single.dropped(EngineDrop::AccessDenied.name()), 1);
    assert!(udp.reads().is_none() && udp.single.packets().is_empty());
    // From whom it has asked, it gets an answer all the same.
    assert_eq!(udp.connects(Udp::peer()), 0);
    udp.comes(PEER_PORT, PORT, b"!");
    assert!(udp.reads().is_some());
}

/// A socket with a peer hears no other, until it has none.
#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let mut udp = Udp::new();
    assert_eq!(udp.connects(Udp::peer()), 0);
    udp.comes(PEER_PORT + 1, PORT, b"other");
    assert_eq!(udp.single.dropped(EngineDrop::NoUdpSocket.name()), 1);
    udp.comes(PEER_PORT, PORT, b"peer");
    assert!(udp.reads().is_some());
    udp.single.ask(
        0,
        &Request::Connect {
            socket: udp.socket,
            tag: 4,
            waiter: None,
            peer: longshore_hostif::Address::NONE,
        },
    );
    udp.single.packets();
    udp.comes(PEER_PORT + 1, PORT, b"other");
    assert!(udp.reads().is_some());
    // Where no way leads, and where the rules say no.
    assert_eq!(udp.connects(SocketAddr::new(FAR, 9)), 97);
    udp.single.stack.settings.access.connect.0 = vec!["deny udp any port 53".parse().unwrap()];
    assert_eq!(udp.connects(SocketAddr::new(CLIENT.into(), 53)), 1);
    assert_eq!(udp.single.dropped(EngineDrop::AccessDenied.name()), 1);
}

/// What another socket has sent to one before that has a peer comes before it has one.
#[test]
fn what_was_sent_before_a_socket_chose_its_peer_is_there() {
    let mut udp = Udp::new();
    let sender = udp.single.bind(SocketKind::Datagram, PORT + 1);
    udp.single.turn();
    udp.single.discard_completions();
    let to = SocketAddr::new(SERVER.into(), PORT);
    let mut bytes = DatagramRecord::new(6, to.into()).encode().to_vec();
    bytes.extend(b"sooner\0\0");
    udp.single.write(sender, 0, &bytes);
    let (tag, waiter) = (3, None);
    udp.single.ask(
        0,
        &Request::Connect {
            socket: udp.socket,
            tag,
            waiter,
            peer: Udp::peer().into(),
        },
    );
    udp.single.turn();
    let (_, _, payload) = udp.reads().expect("a datagram");
    assert_eq!(payload, b"sooner");
}

/// A socket that was not bound gets a port with its first datagram, or its peer.
#[test]
fn a_port_is_chosen_for_who_sends_without_one() {
    for connects in [false, true] {
        let mut udp = Udp::new();
        udp.socket = udp.single.open(SocketKind::Datagram);
        if connects {
            assert_eq!(udp.connects(Udp::peer()), 0);
        } else {
            udp.single.ask(
                0,
                &Request::Connect {
                    socket: udp.socket,
                    tag: 3,
                    waiter: None,
                    peer: Udp::peer().into(),
                },
            );
        }
        udp.sends(|_| {}, 1);
        let (port, _) = udp.sent().pop().expect("a datagram").ports;
        assert!(port >= 1_024);
        udp.comes(PEER_PORT, port, b"answer");
        assert!(udp.reads().is_some());
    }
}

/// The first fragment of a long datagram has its header.
#[test]
fn the_header_of_a_long_datagram_is_in_its_first_fragment() {
    let mut udp = Udp::new();
    udp.sends(|_| {}, 3_000);
    let first = udp.single.packets().remove(0);
    let header = &first[HEADER_LEN..];
    let [from, to, len] = [0, 2, 4].map(|at| word(&header[at..]));
    assert_eq!((from, to, len), (PORT, PEER_PORT, 3_008));
}
