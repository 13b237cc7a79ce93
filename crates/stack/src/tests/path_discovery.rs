//! IP_MTU_DISCOVER and IPV6_MTU_DISCOVER of connections: which segments routers may cut, how these
//! are told apart, and what a router that takes less does.

use super::failed_attempts::six;
use super::ipv6::open;
use super::off_path::{GEOMETRY, accepted};
use super::reconnect::{PORT, connect, connected};
use super::single::{CLIENT, FIRST_PORT, ISN, NARROW, Single, header};
use longshore_frames::Port;
use longshore_hostif::{DatagramRecord, Features, OptionName, PathMtu, SocketKind, datagram_span};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_testbed::packets;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv4::unreachable;
use longshore_wire::icmpv6::{self, Icmpv6};
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use std::net::SocketAddr;

/// Each choice, and whether the segments of who makes it have DF: not only of those who leave paths
/// alone, as in Linux.
const CHOICES: [(PathMtu, bool); 6] = [
    (PathMtu::Dont, false),
    (PathMtu::Want, true),
    (PathMtu::Do, true),
    (PathMtu::Probe, false),
    (PathMtu::Interface, false),
    (PathMtu::Omit, false),
];

/// What was sent, by headers.
fn sent(single: &mut Single) -> Vec<(Ipv4Header, TcpHeader)> {
    let parse = |packet: Vec<u8>| {
        assert_eq!(Partial::of(&packet[..HEADER_LEN]).finish(), 0);
        let (ip, range) = Ipv4Header::parse(&packet).unwrap();
        (ip, TcpHeader::parse(&packet[range]).unwrap().0)
    };
    single.packets().into_iter().map(parse).collect()
}

/// Whether what was sent has DF, all of it or none.
fn is_whole(single: &mut Single) -> bool {
    let sent = sent(single);
    let (first, rest) = sent.split_first().expect("a segment");
    for (ip, _) in rest {
        assert_eq!(ip.dont_fragment, first.0.dont_fragment);
    }
    first.0.dont_fragment
}

/// From the SYN to the reset, of who connects.
#[test]
fn all_segments_of_a_connection_are_as_its_program_has_it() {
    for (how, whole) in CHOICES {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::PathMtu, how as u64);
        connect(&mut single, socket, SocketAddr::new(CLIENT.into(), PORT));
        single.turn();
        let (ip, syn) = sent(&mut single).pop().expect("a SYN");
        assert_eq!(
            (ip.dont_fragment, ip.more_fragments),
            (whole, false),
            "{how:?}"
        );
        let mut answer = header(0, TcpFlags::SYN | TcpFlags::ACK, ISN, syn.seq.add(1));
        (answer.src_port, answer.dst_port) = (PORT, syn.src_port);
        single.segment(&answer, &[]);
        single.turn();
        assert_eq!(is_whole(&mut single), whole, "{how:?}: ACK");
        let edge = single.write(socket, 0, &[1; 3_000]);
        single.turn();
        assert_eq!(is_whole(&mut single), whole, "{how:?}: data");
        // From the next segment on.
        single.set(socket, OptionName::PathMtu, PathMtu::Do as u64);
        single.turn_after(5_000_000);
        assert!(is_whole(&mut single), "{how:?}: sent again");
        single.set(socket, OptionName::PathMtu, how as u64);
        let close = longshore_hostif::Request::Close {
            socket,
            snd_edge: edge,
            rcv_consumed: 0,
            linger: Some(0),
        };
        single.ask(0, &close);
        single.turn();
        let (ip, reset) = sent(&mut single).pop().expect("a reset");
        assert!(reset.flags.contains(TcpFlags::RST));
        assert_eq!(ip.dont_fragment, whole, "{how:?}: reset");
        // The socket has no part in this one.
        single.segment(&answer, &[]);
        single.turn();
        let (ip, reset) = sent(&mut single).pop().expect("a reset");
        assert!(reset.flags.contains(TcpFlags::RST));
        assert!(ip.dont_fragment, "{how:?}: answer");
    }
}

/// What comes in is as its listener, but for a SYN-ACK of 68 bytes and less, which no router cuts.
#[test]
fn an_accepted_connection_is_as_its_listener() {
    for (how, whole) in CHOICES {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.set(listener, OptionName::PathMtu, how as u64);
        single.turn();
        single.bring(0, TcpFlags::SYN, SeqNumber(0));
        let (ip, syn_ack) = sent(&mut single).pop().expect("a SYN-ACK");
        assert!(
            syn_ack.flags.contains(TcpFlags::SYN) && ip.dont_fragment,
            "{how:?}"
        );
        single.bring(0, TcpFlags::ACK, syn_ack.seq.add(1));
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        single.write(socket, 0, b"data");
        single.turn();
        assert_eq!(is_whole(&mut single), whole, "{how:?}");
    }
}

/// A SYN-ACK with a cookie may be longer.
#[test]
fn a_long_syn_ack_is_as_its_listener() {
    for (how, whole) in CHOICES {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.set(listener, OptionName::PathMtu, how as u64);
        single.set(listener, OptionName::FastOpen, 5);
        single.turn();
        let mut syn = packets::syn((FIRST_PORT, 80), TcpOptions::default());
        syn.options.mss = Some(1_460);
        syn.options.window_scale = Some(7);
        syn.options.sack_permitted = true;
        syn.options.timestamps = Some(longshore_wire::tcp::Timestamps { val: 1, echo: 0 });
        syn.options.fast_open = longshore_wire::tcp::FastOpenCookie::new(&[]);
        single.segment(&syn, &[]);
        let (ip, syn_ack) = sent(&mut single).pop().expect("a SYN-ACK");
        assert!(syn_ack.flags.contains(TcpFlags::SYN));
        assert!(HEADER_LEN + syn_ack.header_len() > 68, "{syn_ack:?}");
        assert_eq!(ip.dont_fragment, whole, "{how:?}");
    }
}

/// RFC 6864: packets that may be cut have different identifications. A port gives those that it
/// makes of one the ones that follow, and those that may not be cut are not counted.
#[test]
fn identifications_do_not_come_again() {
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        depth: 1_000,
        ..MemoryConfig::default()
    });
    let ends: (Box<dyn Port>, _) = (Box::new(port), wire);
    let addresses = ["10.0.0.1/24"];
    let mut single = Single::over(ends, &addresses, false, GEOMETRY, 1, Features::empty());
    let socket = single.open(SocketKind::Stream);
    single.set(socket, OptionName::PathMtu, PathMtu::Dont as u64);
    let mut next = connected(&mut single, socket);
    let datagrams = single.bind(SocketKind::Datagram, PORT);
    single.packets();
    let (mut written, mut records, mut expected) = (0, 0, None);
    for round in 0..200 {
        let len = 1 + round * 377 % 9_000;
        written = single.write(socket, written, &vec![1; len]);
        let mut record = DatagramRecord::new(250, SocketAddr::new(CLIENT.into(), PORT).into());
        (record.segment, record.path_mtu) = (100, PathMtu::Dont);
        if round % 3 == 0 {
            // It may not be cut.
            (record.segment, record.path_mtu) = (0, PathMtu::Want);
        }
        let mut bytes = record.encode().to_vec();
        bytes.resize(datagram_span(250) as usize, 0);
        records = single.write(datagrams, records, &bytes);
        single.turn_after(1_000);
        let mut frame = vec![0; 70_000];
        while let Some(meta) = single.wire.recv(&mut frame).unwrap() {
            let (ip, range) = Ipv4Header::parse(&frame[..meta.len]).unwrap();
            let transport = &frame[range];
            let head = match ip.protocol {
                protocol::TCP => TcpHeader::parse(transport).unwrap().1,
                _ => longshore_wire::udp::HEADER_LEN,
            };
            if ip.protocol == protocol::TCP {
                let (segment, _) = TcpHeader::parse(transport).unwrap();
                next.ack = segment.seq.add((transport.len() - head) as u32);
            }
            if ip.dont_fragment {
                assert_eq!(ip.protocol, protocol::UDP);
                continue;
            }
            let made = meta.gso.map_or(1, |gso| {
                (transport.len() - head).div_ceil(usize::from(gso.size))
            });
            assert!(expected.is_none_or(|id| id == ip.identification), "{ip:?}");
            expected = Some(ip.identification.wrapping_add(made as u16));
        }
        single.segment(&next, &[]);
    }
}

/// The longest payload of the segments that were sent.
fn longest(single: &mut Single) -> Option<usize> {
    let sent = single.sent_with_payload();
    sent.iter().map(|sent| sent.payload.len()).max()
}

/// `tcp_v4_mtu_reduced` of Linux: who has DF, or looks for the path's MTU, sends again what was too
/// long at once. For others routers cut it; what they send after that is shorter for them, too.
#[test]
fn a_router_that_takes_less_is_believed_whoever_asks() {
    let most = usize::from(NARROW) - 40;
    for (how, whole) in CHOICES {
        let again = whole || how == PathMtu::Probe;
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::PathMtu, how as u64);
        let next = connected(&mut single, socket);
        let edge = single.write(socket, 0, &[1; 1_200]);
        single.turn();
        assert_eq!(longest(&mut single), Some(1_200), "{how:?}");
        let ports = [next.dst_port.to_be_bytes(), next.src_port.to_be_bytes()].concat();
        let quoted = [&ports[..], &next.ack.0.to_be_bytes()].concat();
        let code = unreachable::FRAGMENTATION_NEEDED;
        single.error_about(protocol::TCP, CLIENT, &quoted, code);
        single.turn();
        assert_eq!(longest(&mut single), again.then_some(most), "{how:?}");
        single.write(socket, edge, &[2; 1_200]);
        single.turn();
        assert_eq!(longest(&mut single), Some(most), "{how:?}: more");
        single.turn_after(5_000_000);
        assert_eq!(longest(&mut single), Some(most), "{how:?}: sent again");
    }
}

/// `tcp_v6_err` of Linux: who counts the interface's MTU alone does not believe a router.
#[test]
fn a_router_of_ipv6_is_believed_unless_the_interface_alone_counts() {
    const MTU: usize = 1_300;
    for (how, _) in CHOICES {
        let is_believed = !matches!(how, PathMtu::Interface | PathMtu::Omit);
        let (mut single, peer) = six();
        let socket = open(&mut single, SocketKind::Stream);
        single.set(socket, OptionName::NoDelay, 1);
        single.set(socket, OptionName::PathMtu6, how as u64);
        // It says nothing of IPv6.
        single.set(socket, OptionName::PathMtu, PathMtu::Omit as u64);
        connect(&mut single, socket, peer);
        single.turn();
        let syn = single.packets().pop().expect("a SYN");
        let (ip, range) = Ipv6Header::parse(&syn).unwrap();
        let (syn, _) = TcpHeader::parse(&syn[range]).unwrap();
        let mut answer = header(0, TcpFlags::SYN | TcpFlags::ACK, ISN, syn.seq.add(1));
        (answer.src_port, answer.dst_port) = (peer.port(), syn.src_port);
        answer.options.mss = Some(1_440);
        let (router, between) = (ip.destination, (peer.ip(), ip.source.into()));
        single.frame_in(&packets::segment(between, &answer, &[]));
        single.turn();
        single.packets();
        let edge = single.write(socket, 0, &[1; 1_400]);
        single.turn();
        let data = single.packets().pop().expect("data");
        assert_eq!(data.len(), ipv6::HEADER_LEN + 20 + 1_400);
        let mut message = vec![0; icmpv6::HEADER_LEN];
        message.extend(&data[..100]);
        Icmpv6::PacketTooBig { mtu: MTU as u32 }.emit(router, ip.source, &mut message);
        single.frame_in(&packets::packet(
            between,
            ipv6::next_header::ICMPV6,
            &message,
        ));
        single.turn();
        let lens = |single: &mut Single| single.packets().iter().map(Vec::len).max();
        assert_eq!(lens(&mut single), is_believed.then_some(MTU), "{how:?}");
        single.write(socket, edge, &[2; 1_400]);
        single.turn();
        let expected = if is_believed { MTU } else { data.len() };
        assert_eq!(lens(&mut single), Some(expected), "{how:?}: more");
    }
}
