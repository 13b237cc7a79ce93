//! Packets of IPv6 as they come and go: extension headers, fragments, checksums, and ICMPv6 both
//! ways, with connections and datagrams in them.

use super::off_path::{GEOMETRY, accepted};
use super::single::{ISN, Single, header};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use longshore_hostif::{
    DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Features, OpenFlags, OptionName, Request, SocketId,
    SocketKind,
};
use longshore_net::DropReason;
use longshore_testbed::packets;
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{HEADER_LEN, Ipv6Header, next_header};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use longshore_wire::{SeqNumber, udp};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

pub(super) const OURS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(super) const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const PORT: u16 = 90;
const PEER_PORT: u16 = 9;

/// A stack with an IPv6 address, once it may use it.
pub(super) fn six() -> Single {
    let mut single = Single::at(&["fd00::1/64"], GEOMETRY, 1, Features::empty());
    (0..5).for_each(|_| single.turn_after(1_000_000));
    single.packets();
    single
}

/// A socket of the program, of IPv6.
pub(super) fn open(single: &mut Single, kind: SocketKind) -> SocketId {
    let free = &single.arena.header().free_sockets;
    let index = free.pop(single.arena.socket_links()).unwrap().unwrap();
    let block = single.arena.block(index);
    let flags = longshore_hostif::BlockFlags::IPV6;
    let generation = block.begin(longshore_hostif::SocketState::Open, flags);
    let socket = SocketId { index, generation };
    let flags = OpenFlags::IPV6;
    let request = Request::Open {
        socket,
        kind,
        flags,
    };
    single.ask(0, &request);
    socket
}

fn bound(single: &mut Single, kind: SocketKind, port: u16) -> SocketId {
    let socket = open(single, kind);
    let local = SocketAddr::new(OURS.into(), port).into();
    let (tag, waiter) = (1, None);
    single.ask(
        0,
        &Request::Bind {
            socket,
            tag,
            waiter,
            local,
        },
    );
    single.turn();
    single.discard_completions();
    socket
}

pub(super) fn comes(single: &mut Single, next_header: u8, payload: &[u8]) {
    comes_to(single, OURS, next_header, payload);
}

pub(super) fn comes_to(single: &mut Single, to: Ipv6Addr, next_header: u8, payload: &[u8]) {
    let packet = packets::packet((PEER.into(), to.into()), next_header, payload);
    single.frame_in(&packet);
    single.turn();
}

/// A datagram from the peer, with its checksum.
fn datagram(to: u16, payload: &[u8]) -> Vec<u8> {
    let len = udp::HEADER_LEN + payload.len();
    let mut bytes = vec![0; udp::HEADER_LEN];
    bytes[..2].copy_from_slice(&PEER_PORT.to_be_bytes());
    bytes[2..4].copy_from_slice(&to.to_be_bytes());
    bytes[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    bytes.extend(payload);
    let pseudo = Partial::of_pseudo_v6(PEER, OURS, protocol::UDP, len as u32);
    let sum = pseudo.plus(Partial::of(&bytes)).finish();
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// What was sent, each with its header; the checksums of ICMPv6 are right.
pub(super) fn sent(single: &mut Single) -> Vec<(Ipv6Header, Vec<u8>)> {
    let all = single.packets().into_iter();
    let split = |packet: Vec<u8>| {
        let (ip, range) = Ipv6Header::parse(&packet).expect("IPv6");
        (ip, packet[range].to_vec())
    };
    all.map(split).collect()
}

/// The ICMPv6 messages that were sent, and what follows their headers.
pub(super) fn messages(single: &mut Single) -> Vec<(Icmpv6, Vec<u8>)> {
    let all = sent(single).into_iter();
    let of_icmp = all.filter(|(ip, _)| ip.next_header == next_header::ICMPV6);
    let parse = |(ip, bytes): (Ipv6Header, Vec<u8>)| {
        let icmp = Icmpv6::parse(&ip, &bytes).expect("a message with the right sum");
        (icmp, bytes[icmp.header_len()..].to_vec())
    };
    of_icmp.map(parse).collect()
}

/// The payload that the program finds in its receive stream at `at`.
fn read(single: &Single, socket: SocketId, at: u64) -> (DatagramRecord, Vec<u8>) {
    let mut record = [0; DATAGRAM_HEADER];
    copy_out(&single.arena, socket.index, at, &mut record);
    let record = DatagramRecord::decode(&record);
    let mut payload = vec![0; record.len as usize];
    let at = at + DATAGRAM_HEADER as u64;
    copy_out(&single.arena, socket.index, at, &mut payload);
    (record, payload)
}

#[test]
fn a_connection_comes_in_and_answers() {
    let mut single = six();
    let listener = bound(&mut single, SocketKind::Stream, 80);
    single.listen_at(listener, 5);
    single.turn();
    let between = (PEER.into(), OURS.into());
    let bring = |single: &mut Single, header: &TcpHeader, payload: &[u8]| {
        single.frame_in(&packets::segment(between, header, payload));
        single.turn();
        sent(single).into_iter().next_back().map(|(ip, bytes)| {
            assert_eq!((ip.source, ip.destination), (OURS, PEER));
            let (header, len) = TcpHeader::parse(&bytes).unwrap();
            let all = bytes.len() as u32;
            let pseudo = Partial::of_pseudo_v6(OURS, PEER, protocol::TCP, all);
            assert_eq!(pseudo.plus(Partial::of(&bytes)).finish(), 0);
            (header, bytes[len..].to_vec())
        })
    };
    let syn = header(0, TcpFlags::SYN, ISN, SeqNumber(0));
    let (answer, _) = bring(&mut single, &syn, &[]).expect("a SYN-ACK");
    assert_eq!(answer.ack, ISN.add(1));
    let next = header(0, TcpFlags::ACK, ISN.add(1), answer.seq.add(1));
    bring(&mut single, &next, b"hello");
    let socket = accepted(&mut single, listener, 0);
    let mut got = [0; 5];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert_eq!(&got, b"hello");
    single.write(socket, 0, b"answer");
    let (_, payload) = bring(&mut single, &next, &[]).expect("a segment");
    assert_eq!(payload, b"answer");
    // To a group no connection is.
    let group = "ff02::1".parse().unwrap();
    let mut syn = packets::segment((PEER.into(), std::net::IpAddr::V6(group)), &syn, &[]);
    single.frame_in(&std::mem::take(&mut syn));
    single.turn();
    assert_eq!(sent(&mut single), []);
}

/// The segments of several connections that come in turn are predicted, each for its own.
#[test]
fn each_connection_has_the_segments_that_are_predicted_for_it() {
    const TIMES: u32 = 10;
    let mut single = six();
    let listener = bound(&mut single, SocketKind::Stream, 80);
    single.listen_at(listener, 5);
    single.turn();
    let between = (PEER.into(), OURS.into());
    let bring = |single: &mut Single, header: &TcpHeader, payload: &[u8]| {
        single.frame_in(&packets::segment(between, header, payload));
    };
    let mut peers = [0, 1, 2].map(|number| {
        let syn = header(number, TcpFlags::SYN, ISN, SeqNumber(0));
        bring(&mut single, &syn, &[]);
        let (_, answer) = sent(&mut single).pop().expect("a SYN-ACK");
        let (answer, _) = TcpHeader::parse(&answer).unwrap();
        let next = header(number, TcpFlags::ACK, ISN.add(1), answer.seq.add(1));
        bring(&mut single, &next, &[]);
        single.turn();
        next
    });
    let sockets = [0, 1, 2].map(|which| accepted(&mut single, listener, which));
    single.edges(listener, 3 * 64, EdgeFlags::empty());
    let before = single.stack.counters.prediction.data;
    for _ in 0..TIMES {
        for (number, next) in peers.iter_mut().enumerate() {
            bring(&mut single, next, &[number as u8; 100]);
            next.seq = next.seq.add(100);
        }
        single.turn();
    }
    let predicted = single.stack.counters.prediction.data - before;
    assert!(predicted >= u64::from(3 * (TIMES - 1)), "{predicted}");
    for (number, socket) in sockets.iter().enumerate() {
        let mut got = [0xff; 100 * TIMES as usize];
        copy_out(&single.arena, socket.index, 0, &mut got);
        assert!(got.iter().all(|byte| usize::from(*byte) == number));
    }
}

#[test]
fn a_datagram_comes_in_with_what_its_header_has() {
    let mut single = six();
    let socket = bound(&mut single, SocketKind::Datagram, PORT);
    comes(&mut single, protocol::UDP, &datagram(PORT, b"six"));
    let reported = single.told_of(socket).expect("a datagram");
    let (record, payload) = read(&single, socket, 0);
    assert_eq!(reported.rcv_edge, record.span());
    assert_eq!(payload, b"six");
    assert_eq!(
        record.peer.get(),
        Some(SocketAddr::new(PEER.into(), PEER_PORT))
    );
    assert_eq!((record.hops, record.class), (Some(packets::HOPS), 0));
    // Of this kind a checksum is needed, and the right one.
    let bad = EngineDrop::BadTransportChecksum.name();
    for (n, sum) in [[0, 0], [1, 2]].into_iter().enumerate() {
        let mut bytes = datagram(PORT, b"bad");
        bytes[6..8].copy_from_slice(&sum);
        comes(&mut single, protocol::UDP, &bytes);
        assert_eq!(single.dropped(bad), n as u64 + 1);
    }
    assert_eq!(single.told_of(socket), None);
    // Nobody is there: the sender is told, and finds its packet.
    comes(&mut single, protocol::UDP, &datagram(91, b"?"));
    let (message, quoted) = messages(&mut single).pop().expect("an error");
    assert_eq!(message, Icmpv6::Unreachable { code: 4 });
    assert_eq!(&quoted[HEADER_LEN..], datagram(91, b"?"));
}

/// RFC 8200 section 4.5: packets that are in fragments at a time are told apart by their
/// identifications, of which each is the next.
#[test]
fn each_packet_in_fragments_has_an_identification_of_its_own() {
    const LEN: usize = 3_000;
    let mut single = six();
    let socket = bound(&mut single, SocketKind::Datagram, PORT);
    let peer = SocketAddr::new(PEER.into(), PEER_PORT);
    let record = DatagramRecord::new(LEN as u32, peer.into());
    let mut bytes = record.encode().to_vec();
    bytes.resize(DATAGRAM_HEADER + LEN, 7);
    single.write(socket, 0, &bytes.repeat(3));
    single.turn();
    let parts = sent(&mut single).into_iter();
    let identification =
        |(_, part): (Ipv6Header, Vec<u8>)| u32::from_be_bytes([part[4], part[5], part[6], part[7]]);
    let mut all: Vec<u32> = parts.map(identification).collect();
    all.dedup();
    let next = |by: u32| all[0].wrapping_add(by);
    assert_eq!(all, [next(0), next(1), next(2)]);
}

/// A long datagram goes in fragments, which together are it; and so one comes.
#[test]
fn fragments_go_and_come() {
    const LEN: usize = 3_000;
    let mut single = six();
    let socket = bound(&mut single, SocketKind::Datagram, PORT);
    let peer = SocketAddr::new(PEER.into(), PEER_PORT);
    let mut bytes = DatagramRecord::new(LEN as u32, peer.into())
        .encode()
        .to_vec();
    bytes.extend((0..LEN).map(|at| (at / 7) as u8));
    single.write(socket, 0, &bytes);
    single.turn();
    let parts = sent(&mut single);
    assert!(parts.len() > 1);
    let mut whole = Vec::new();
    for (number, (ip, part)) in parts.iter().enumerate() {
        assert!(HEADER_LEN + part.len() <= 1_500);
        assert_eq!(
            (ip.next_header, part[0]),
            (next_header::FRAGMENT, protocol::UDP)
        );
        let place = u16::from_be_bytes([part[2], part[3]]);
        assert_eq!(usize::from(place & !7), whole.len());
        assert_eq!(place & 1 != 0, number + 1 != parts.len());
        assert_eq!(part[4..8], parts[0].1[4..8], "of one packet");
        whole.extend_from_slice(&part[8..]);
    }
    let pseudo = Partial::of_pseudo_v6(OURS, PEER, protocol::UDP, whole.len() as u32);
    assert_eq!(pseudo.plus(Partial::of(&whole)).finish(), 0);
    assert_eq!(whole[udp::HEADER_LEN..], bytes[DATAGRAM_HEADER..]);

    // One that comes, the last part first, behind another extension header.
    let all = datagram(PORT, &[5; 2_000]);
    let fragment = |from: usize, to: usize, more: bool| {
        let mut bytes = vec![protocol::UDP, 0];
        bytes.extend((from as u16 | u16::from(more)).to_be_bytes());
        bytes.extend([0, 0, 0, 9]);
        bytes.extend(&all[from..to]);
        bytes
    };
    comes(
        &mut single,
        next_header::FRAGMENT,
        &fragment(1_200, all.len(), false),
    );
    assert_eq!(single.told_of(socket), None);
    let mut padded = vec![next_header::FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
    padded.extend(fragment(0, 1_200, true));
    comes(&mut single, next_header::DESTINATION_OPTIONS, &padded);
    assert!(single.told_of(socket).is_some());
    assert_eq!(read(&single, socket, 0).1, [5; 2_000]);

    // What never comes together is told of, if its first part has come.
    comes(
        &mut single,
        next_header::FRAGMENT,
        &fragment(0, 1_200, true),
    );
    single.packets();
    single.turn_after(61_000_000);
    single.stack.expire_fragments();
    single.turn();
    let (message, quoted) = messages(&mut single).pop().expect("time exceeded");
    assert_eq!(message, Icmpv6::TimeExceeded { code: 1 });
    assert!(quoted.len() > 1_000);
}

/// Fragments that cannot be, RFC 8200 section 4.5 and RFC 7112: their senders are told where.
#[test]
fn impossible_fragments_are_answered() {
    let fragment = |of: u8, place: u16, len: usize| {
        let mut bytes = vec![of, 0];
        bytes.extend(place.to_be_bytes());
        bytes.extend([0, 0, 0, 7]);
        bytes.extend(vec![0; len]);
        bytes
    };
    let cases = [
        // Not the last, and no multiple of 8 bytes.
        (fragment(protocol::UDP, 1, 13), 0, 4),
        // Beyond the end of what a packet can have.
        (
            fragment(protocol::UDP, 0xfff8, 16),
            0,
            HEADER_LEN as u32 + 2,
        ),
        // The first one does not reach to the upper layer.
        (fragment(next_header::DESTINATION_OPTIONS, 1, 8), 3, 0),
    ];
    for (bytes, code, pointer) in cases {
        let mut single = six();
        comes(&mut single, next_header::FRAGMENT, &bytes);
        let (message, _) = messages(&mut single).pop().expect("a problem");
        assert_eq!(message, Icmpv6::ParameterProblem { code, pointer });
    }
}

/// Headers and options that are not known: the sender is told where, as the option has it.
#[test]
fn unknown_headers_are_answered_by_where_they_are_named() {
    let in_fixed = 6;
    let options = |next: u8, option: u8| vec![next, 0, option, 4, 0, 0, 0, 0];
    let destination = next_header::DESTINATION_OPTIONS;
    let cases = [
        // The upper layer's number: in the fixed header, or in the last extension header.
        (143, vec![0; 8], Some((1, in_fixed))),
        (
            destination,
            [options(143, 1), vec![0; 8]].concat(),
            Some((1, 40)),
        ),
        (
            destination,
            [options(destination, 1), options(143, 1), vec![0; 8]].concat(),
            Some((1, 48)),
        ),
        // Options of which the type says what to do.
        (destination, options(next_header::NONE, 0x80), Some((2, 42))),
        (destination, options(next_header::NONE, 0x40), None),
        (destination, options(next_header::NONE, 0x01), None),
        (next_header::NONE, vec![], None),
    ];
    for (next, bytes, expected) in cases {
        let mut single = six();
        comes(&mut single, next, &bytes);
        let reported = messages(&mut single).pop().map(|(message, _)| message);
        let problem = |(code, pointer)| Icmpv6::ParameterProblem { code, pointer };
        assert_eq!(reported, expected.map(problem), "{next} {bytes:?}");
    }
    let mut single = six();
    comes(&mut single, 143, &[0; 8]);
    assert_eq!(single.dropped(EngineDrop::UnknownProtocol.name()), 1);
    comes(&mut single, destination, &options(next_header::NONE, 0x40));
    assert_eq!(single.dropped(DropReason::ExtensionHeaders.name()), 1);
}

fn message(icmp: &Icmpv6, from: Ipv6Addr, to: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; icmp.header_len()];
    bytes.extend(data);
    icmp.emit(from, to, &mut bytes);
    bytes
}

/// An echo is answered from the address that was asked, and from our own where a group was.
#[test]
fn an_echo_is_answered() {
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    let reply = Icmpv6::EchoReply {
        identifier: 3,
        sequence: 4,
    };
    let mut single = six();
    for to in [OURS, "ff02::1".parse().unwrap()] {
        let bytes = message(&request, PEER, to, b"data");
        comes_to(&mut single, to, next_header::ICMPV6, &bytes);
        let all = sent(&mut single);
        let (ip, bytes) = all.last().expect("a reply");
        assert_eq!((ip.source, ip.destination), (OURS, PEER));
        assert_eq!(Icmpv6::parse(ip, bytes).unwrap(), reply);
        assert_eq!(&bytes[reply.header_len()..], b"data");
    }
    // What goes to a group that nobody has joined is for others.
    let others = "ff02::1234".parse().unwrap();
    let bytes = message(&request, PEER, others, b"data");
    comes_to(&mut single, others, next_header::ICMPV6, &bytes);
    assert_eq!(sent(&mut single), []);
    // A sum that is wrong is counted, and an answer is none.
    let mut bytes = message(&request, PEER, OURS, b"data");
    bytes[2] ^= 1;
    comes(&mut single, next_header::ICMPV6, &bytes);
    let bytes = message(&reply, PEER, OURS, b"data");
    comes(&mut single, next_header::ICMPV6, &bytes);
    assert_eq!(sent(&mut single), []);
}

/// An answer that the port does not take is counted.
#[test]
fn an_answer_that_the_port_refuses_is_counted() {
    let mut single = six();
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    let bytes = message(&request, PEER, OURS, b"data");
    let refused = EngineDrop::PortRefused.name();
    comes(&mut single, next_header::ICMPV6, &bytes);
    assert_eq!(single.dropped(refused), 0);
    let port = single.stack.port_mut();
    while port
        .send(&longshore_frames::TxFrame::whole(&[0; 60]))
        .is_ok()
    {}
    comes(&mut single, next_header::ICMPV6, &bytes);
    assert_eq!(single.dropped(refused), 1);
}

/// No error answers an error, or what came to a group.
#[test]
fn errors_answer_no_errors() {
    let mut single = six();
    let inner = packets::packet((OURS.into(), PEER.into()), 143, &[0; 8]);
    let unreachable = Icmpv6::Unreachable { code: 0 };
    let mut bytes = message(&unreachable, PEER, OURS, &inner);
    // Behind a header that is not known, an error is not recognized, but behind options it is.
    let mut padded = vec![next_header::ICMPV6, 0, 0x80, 4, 0, 0, 0, 0];
    padded.append(&mut bytes);
    comes(&mut single, next_header::DESTINATION_OPTIONS, &padded);
    let group: Ipv6Addr = "ff02::1".parse().unwrap();
    comes_to(&mut single, group, 143, &[0; 8]);
    let reported = messages(&mut single);
    assert!(reported.len() <= 1, "{reported:?}");
    comes(&mut single, 143, &[0; 8]);
    assert_eq!(messages(&mut single).len(), 1);
}

/// An error about what a socket sent reaches it: narrower paths, and ports where nobody is.
#[test]
fn errors_reach_the_socket_that_they_are_about() {
    let mut single = six();
    let socket = bound(&mut single, SocketKind::Datagram, PORT);
    single.set(socket, OptionName::ReceiveErrors6, 1);
    let mut quoted = datagram(PEER_PORT, b"ours");
    quoted[..2].copy_from_slice(&PORT.to_be_bytes());
    quoted[2..4].copy_from_slice(&PEER_PORT.to_be_bytes());
    let quoted = packets::packet((OURS.into(), PEER.into()), protocol::UDP, &quoted);
    let refused = Icmpv6::Unreachable { code: 4 };
    comes(
        &mut single,
        next_header::ICMPV6,
        &message(&refused, PEER, OURS, &quoted),
    );
    let reported = single.told_of(socket).expect("an error");
    assert!(reported.flags.contains(EdgeFlags::SOFT_ERROR));
    let block = single.arena.block(socket.index);
    assert_eq!(block.errno.load(Ordering::Relaxed), 111);
    assert_eq!(single.stack.link().pmtu.len(), 0);
    let narrow = Icmpv6::PacketTooBig { mtu: 1_300 };
    comes(
        &mut single,
        next_header::ICMPV6,
        &message(&narrow, PEER, OURS, &quoted),
    );
    assert_eq!(single.stack.link().pmtu.len(), 1);
}

/// A socket of IPv6 at this address and port connects; the SYN's source, and its header.
fn syn_from(single: &mut Single, socket: SocketId, peer: SocketAddr) -> (Ipv6Addr, TcpHeader) {
    single.ask(
        0,
        &Request::Connect {
            socket,
            tag: 1,
            waiter: None,
            peer: peer.into(),
        },
    );
    single.turn();
    let (ip, bytes) = sent(single).pop().expect("a SYN");
    let (header, _) = TcpHeader::parse(&bytes).expect("a segment");
    assert!(header.flags.contains(TcpFlags::SYN), "{header:?}");
    (ip.source, header)
}

fn bind_to(single: &mut Single, ip: Ipv6Addr, port: u16) -> SocketId {
    let socket = open(single, SocketKind::Stream);
    let local = SocketAddr::new(ip.into(), port).into();
    let (tag, waiter) = (1, None);
    single.ask(
        0,
        &Request::Bind {
            socket,
            tag,
            waiter,
            local,
        },
    );
    single.turn();
    socket
}

/// Of several addresses, the one that the program has chosen is kept.
#[test]
fn a_connection_leaves_from_the_address_that_was_chosen() {
    let own = ["fd00::1", "fd00::5"].map(|own| own.parse::<Ipv6Addr>().unwrap());
    let mut single = Single::at(
        &["fd00::1/64", "fd00::5/64"],
        GEOMETRY,
        1,
        Features::empty(),
    );
    (0..5).for_each(|_| single.turn_after(1_000_000));
    for (chosen, port) in own.into_iter().zip(5_000..) {
        let socket = bind_to(&mut single, chosen, port);
        single.packets();
        let peer = SocketAddr::new(PEER.into(), PEER_PORT);
        let (source, header) = syn_from(&mut single, socket, peer);
        assert_eq!((source, header.src_port), (chosen, port));
    }
}

/// Linux: one that was bound to a port alone has the address of its way to each peer that it tries.
#[test]
fn an_attempt_after_one_that_failed_has_an_address_of_its_own() {
    let addresses = ["fd00::1/64", "fd01::1/64"];
    let mut single = Single::at(&addresses, GEOMETRY, 1, Features::empty());
    (0..5).for_each(|_| single.turn_after(1_000_000));
    let socket = bind_to(&mut single, Ipv6Addr::UNSPECIFIED, 5_000);
    single.packets();
    for (peer, own) in [("fd00::2", "fd00::1"), ("fd01::2", "fd01::1")] {
        let [peer, own] = [peer, own].map(|ip| ip.parse::<Ipv6Addr>().unwrap());
        let (source, syn) = syn_from(&mut single, socket, SocketAddr::new(peer.into(), 80));
        assert_eq!((source, syn.src_port), (own, 5_000));
        let flags = TcpFlags::RST | TcpFlags::ACK;
        let mut reset = header(0, flags, SeqNumber(0), syn.seq.add(1));
        (reset.src_port, reset.dst_port) = (80, syn.src_port);
        let between = (peer.into(), own.into());
        single.frame_in(&packets::segment(between, &reset, &[]));
        single.turn();
    }
}
