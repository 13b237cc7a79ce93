//! The address and the port that a socket has when it connects: what its program has bound it to, or
//! what is chosen for it and how long it keeps that, of several addresses of IPv6.

use super::binding::{bind, bind_at_once, connects};
use super::ipv6::open;
use super::off_path::GEOMETRY;
use super::single::{CLIENT, FIRST_PORT, SERVER, Single};
use super::streams::copy_out;
use longshore_hostif::{
    Address, Completion, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Edges, Features, OptionName,
    SocketKind,
};
use longshore_testbed::packets;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const FIRST: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const SECOND: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const NEAR_FIRST: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const NEAR_SECOND: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const PORT: u16 = 5_000;
/// Linux's errors.
const INVALID: u16 = 22;
const FAMILY: u16 = 97;

/// A stack of both versions, whose networks of IPv6 are two.
fn both() -> Single {
    let addresses = ["10.0.0.1/24", "fd00::1/64", "2001:db8::1/64"];
    let mut single = Single::at(&addresses, GEOMETRY, 1, Features::empty());
    (0..5).for_each(|_| single.turn_after(1_000_000));
    single.packets();
    single
}

fn at(ip: impl Into<IpAddr>) -> SocketAddr {
    SocketAddr::new(ip.into(), 9)
}

/// RFC 6724, RFC 8305: a connection comes from the address that its program has chosen, and from the
/// one that is nearest to its peer otherwise.
#[test]
fn a_connection_comes_from_what_was_bound() {
    for (bound, peer, expected) in [
        (None, NEAR_FIRST, FIRST),
        (None, NEAR_SECOND, SECOND),
        (Some(ANY), NEAR_SECOND, SECOND),
        (Some(FIRST.into()), NEAR_SECOND, FIRST),
        (Some(SECOND.into()), NEAR_FIRST, SECOND),
    ] {
        let mut single = both();
        let socket = open(&mut single, SocketKind::Stream);
        if let Some(ip) = bound {
            assert_eq!(bind(&mut single, socket, ip, PORT).0, 0);
        }
        single.ask(0, &connect_to(socket, at(peer)));
        single.turn();
        let syn = single.packets().pop().expect("a SYN");
        let (ip, range) = Ipv6Header::parse(&syn).expect("a packet of IPv6");
        assert_eq!((ip.source, ip.destination), (expected, peer), "{bound:?}");
        let (header, _) = TcpHeader::parse(&syn[range]).expect("a segment");
        assert_eq!(header.src_port == PORT, bound.is_some());
    }
}

fn connect_to(socket: longshore_hostif::SocketId, peer: SocketAddr) -> longshore_hostif::Request {
    let (tag, waiter) = (1, None);
    longshore_hostif::Request::Connect {
        socket,
        tag,
        waiter,
        peer: peer.into(),
    }
}

/// Linux: a UDP socket that was bound to no address keeps the one that it got with its first peer.
#[test]
fn a_datagram_socket_keeps_the_address_of_its_first_peer() {
    let mut single = both();
    let socket = open(&mut single, SocketKind::Datagram);
    assert_eq!(bind(&mut single, socket, ANY, PORT).0, 0);
    for peer in [NEAR_FIRST, NEAR_SECOND] {
        let connected = connects(&mut single, socket, at(peer).into());
        assert_eq!(connected, (0, Some(SocketAddr::new(FIRST.into(), PORT))));
    }
    // What comes to the other address is not its.
    let mut datagram = [&[0, 9, 0x13, 0x88, 0, 10, 0, 0], b"hi".as_slice()].concat();
    let ends = [NEAR_SECOND, SECOND].map(IpAddr::V6);
    let pseudo = longshore_wire::checksum::Partial::of_pseudo(ends[0], ends[1], protocol::UDP, 10);
    let sum = longshore_wire::checksum::Partial::of(&datagram);
    let sum = pseudo.unwrap().plus(sum).finish();
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    single.frame_in(&packets::packet(
        (ends[0], ends[1]),
        protocol::UDP,
        &datagram,
    ));
    single.turn();
    let is_told = |c: &Completion| {
        matches!(
            c,
            Completion::Edges {
                edges: Edges { rcv_edge: 1.., .. },
                ..
            }
        )
    };
    assert!(!single.reported().iter().any(is_told));
}

/// Linux's errors where a socket of IPv6 has an address of the one version and its peer one of the
/// other.
#[test]
fn no_connection_is_between_versions() {
    let mapped = IpAddr::V6(SERVER.to_ipv6_mapped());
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for (bound, peer, errno) in [
            (mapped, IpAddr::V6(NEAR_FIRST), Some(FAMILY)),
            (FIRST.into(), CLIENT.to_ipv6_mapped().into(), Some(101)),
            (FIRST.into(), NEAR_FIRST.into(), None),
            (mapped, CLIENT.to_ipv6_mapped().into(), None),
        ] {
            let mut single = both();
            let socket = open(&mut single, kind);
            assert_eq!(bind(&mut single, socket, bound, PORT).0, 0);
            single.discard_completions();
            single.ask(0, &connect_to(socket, at(peer)));
            single.turn();
            // A connection that is under way has no answer yet.
            let answer = single.answer().filter(|errno| *errno != 0);
            assert_eq!(answer, errno, "{kind:?} {bound} {peer}");
        }
    }
}

/// Of datagram sockets with one address and one peer, that gets what comes which was connected last.
#[test]
fn a_datagram_is_for_who_was_connected_last() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [(); 2].map(|()| {
        let socket = single.open(SocketKind::Datagram);
        single.set(socket, OptionName::ReuseAddress, 1);
        assert_eq!(bind(&mut single, socket, SERVER.into(), PORT).0, 0);
        socket
    });
    for last in [0, 1, 0] {
        assert_eq!(connects(&mut single, sockets[last], at(CLIENT).into()).0, 0);
        single.discard_completions();
        let datagram = [&[0, 9, 0x13, 0x88, 0, 10, 0, 0], b"hi".as_slice()].concat();
        single.packet(protocol::UDP, &datagram);
        single.turn();
        let reported = single.reported();
        let told = reported.iter().filter_map(|c| match c {
            Completion::Edges { socket, .. } => Some(*socket),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), [sockets[last]]);
    }
}

/// Linux: a stream whose connection is over may be bound anew, one that has a connection may not.
#[test]
fn a_stream_that_is_over_may_be_bound() {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let peer = SocketAddr::new(CLIENT.into(), FIRST_PORT);
    single.ask(0, &connect_to(socket, peer));
    single.turn();
    let syn = single.sent().pop().expect("a SYN");
    assert_eq!(bind(&mut single, socket, any, PORT).0, INVALID);
    let reset = TcpHeader {
        src_port: syn.dst_port,
        dst_port: syn.src_port,
        ..super::single::header(0, TcpFlags::RST | TcpFlags::ACK, syn.ack, syn.seq.add(1))
    };
    single.segment(&reset, &[]);
    single.turn();
    let bound = bind(&mut single, socket, any, PORT);
    assert_eq!(bound, (0, Some(SocketAddr::new(any, PORT))));
    // It has what it asked for: another has not.
    assert_eq!(bind(&mut single, socket, any, PORT + 1).0, INVALID);
    single.ask(0, &connect_to(socket, peer));
    single.turn();
    assert_eq!(single.sent().pop().expect("a SYN").src_port, PORT);
}

/// SO_BINDTODEVICE: what receives by the link alone has the addresses of that.
#[test]
fn what_receives_by_the_link_has_its_addresses() {
    let link = longshore_hostif::Interface::Link as u64;
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for ip in [FIRST, SECOND] {
            let mut single = both();
            let socket = open(&mut single, kind);
            single.set(socket, OptionName::Interface, link);
            assert_eq!(bind(&mut single, socket, ip.into(), PORT).0, 0);
        }
    }
}

/// SO_BINDTODEVICE: nor has it the loopback interface's, which others have.
#[test]
fn what_receives_by_the_link_has_not_the_loopback_address() {
    use longshore_hostif::Interface;
    const NOT_AVAILABLE: u16 = 99;
    for (interface, expected) in [
        (Interface::Any, 0),
        (Interface::Loopback, 0),
        (Interface::Link, NOT_AVAILABLE),
    ] {
        let mut single = Single::with_loopback(&["fd00::1/64"], GEOMETRY);
        let socket = open(&mut single, SocketKind::Stream);
        single.set(socket, OptionName::Interface, interface as u64);
        let loopback = Ipv6Addr::LOCALHOST.into();
        let (errno, _) = bind(&mut single, socket, loopback, PORT);
        assert_eq!(errno, expected, "{interface:?}");
    }
}

/// RFC 3493 section 3.7: a socket of IPv6 sees a peer of IPv4 by its mapped address.
#[test]
fn a_peer_of_ipv4_is_seen_as_the_family_of_a_socket_has_it() {
    for is_v6 in [false, true] {
        let mut single = both();
        let (kind, any) = (SocketKind::Datagram, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let (socket, any, peer) = match is_v6 {
            false => (single.open(kind), any, IpAddr::V4(CLIENT)),
            true => (open(&mut single, kind), ANY, CLIENT.to_ipv6_mapped().into()),
        };
        assert_eq!(bind(&mut single, socket, any, PORT).0, 0);
        single.packet(protocol::UDP, &[0, 9, 0x13, 0x88, 0, 8, 0, 0]);
        single.turn();
        let mut bytes = [0; DATAGRAM_HEADER];
        copy_out(&single.arena, socket.index, 0, &mut bytes);
        let record = DatagramRecord::decode(&bytes);
        assert_eq!(record.peer.get(), Some(at(peer)), "{is_v6}");
    }
}

/// IP_PKTINFO: a datagram to a loopback address came to that, though the engine has another.
#[test]
fn what_comes_over_loopback_says_so() {
    const FROM: u16 = PORT + 1;
    for (to, place) in [(Ipv4Addr::LOCALHOST, 254), (SERVER, 1)] {
        let mut single = Single::with_loopback(&["10.0.0.1/24"], GEOMETRY);
        let [receiver, sender] = [PORT, FROM].map(|port| {
            let socket = single.open(SocketKind::Datagram);
            let any = Ipv4Addr::UNSPECIFIED.into();
            assert_eq!(bind(&mut single, socket, any, port).0, 0);
            socket
        });
        let record = DatagramRecord::new(0, SocketAddr::new(to.into(), PORT).into());
        single.write(sender, 0, &record.encode());
        single.turn();
        assert_eq!(single.stack.take_own_packets(), 1);
        single.turn();
        let mut bytes = [0; DATAGRAM_HEADER];
        copy_out(&single.arena, receiver.index, 0, &mut bytes);
        let record = DatagramRecord::decode(&bytes);
        assert_eq!(record.peer.get(), Some(SocketAddr::new(to.into(), FROM)));
        assert_eq!(record.own, place, "{to}");
    }
}

/// Linux: what is bound to an address of IPv6 is for IPv6 alone from then on (IPV6_V6ONLY); of the wildcard
/// its program has the choice.
#[test]
fn what_is_bound_to_an_address_is_for_its_version_alone() {
    for (ip, before, after) in [
        (ANY, false, false),
        (ANY, true, true),
        (FIRST.into(), false, true),
        (FIRST.into(), true, true),
    ] {
        let mut single = both();
        let socket = open(&mut single, SocketKind::Stream);
        single.set(socket, OptionName::V6Only, before.into());
        assert_eq!(bind(&mut single, socket, ip, PORT).0, 0);
        let key = single.stack.endpoints.key_of(single.session(), socket);
        let bound = single.stack.endpoints.sockets.get(key.expect("it is open"));
        assert_eq!(bound.map(|s| s.options.v6_only), Some(after), "{ip}");
    }
}

/// A stream of both versions that was bound to the wildcard and is connected over IPv6: its port is `port`.
fn connected_from(single: &mut Single, port: u16) {
    let socket = open(single, SocketKind::Stream);
    assert_eq!(bind(single, socket, ANY, port).0, 0);
    single.ask(0, &connect_to(socket, at(NEAR_FIRST)));
    single.turn();
    single.discard_completions();
}

/// Linux: it keeps the wildcard of IPv4 from others, be they new or listeners that had its port before.
#[test]
fn a_connection_of_ipv6_keeps_the_wildcard_of_ipv4() {
    const IN_USE: u16 = 98;
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let mut single = both();
    connected_from(&mut single, PORT);
    let other = single.open(SocketKind::Stream);
    assert_eq!(bind_at_once(&mut single, other, any, PORT), IN_USE);
    assert_eq!(bind_at_once(&mut single, other, SERVER.into(), PORT), 0);
    let mut single = both();
    let listener = single.open(SocketKind::Stream);
    let (_, local) = bind(&mut single, listener, any, 0);
    let port = local.expect("an address").port();
    single.listen_at(listener, 5);
    single.edges(listener, 0, EdgeFlags::SHUT_RD);
    single.turn();
    connected_from(&mut single, port);
    single.listen_at(listener, 5);
    single.turn();
    let mut all = single.stack.status().sockets(0);
    let listens = all.find_map(|(_, s)| (s.state == "LISTEN").then_some(s.local));
    assert!(listens.flatten().is_some_and(|local| local.port() != port));
}

/// A stream that takes the port of one that was bound to no address, and is connected, is bound to no
/// address either.
#[test]
fn who_takes_a_port_takes_it_at_all_addresses() {
    const IN_USE: u16 = 98;
    let mut single = both();
    let old = open(&mut single, SocketKind::Stream);
    assert_eq!(bind(&mut single, old, ANY, PORT).0, 0);
    single.ask(0, &connect_to(old, at(NEAR_FIRST)));
    single.turn();
    let new = open(&mut single, SocketKind::Stream);
    single.set(new, OptionName::PortOf, old.encode());
    let all = SocketAddr::new(ANY, PORT);
    assert_eq!(bind(&mut single, new, ANY, PORT), (0, Some(all)));
    let other = open(&mut single, SocketKind::Stream);
    let errno = bind_at_once(&mut single, other, SECOND.into(), PORT);
    assert_eq!(errno, IN_USE);
}

/// Linux: a UDP socket without its peer any more has what it was bound to, and receives by that; a port that
/// nobody has chosen goes with the peer.
#[test]
fn a_datagram_socket_without_its_peer_has_what_it_was_bound_to() {
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    for chosen in [true, false] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Datagram);
        if chosen {
            assert_eq!(bind(&mut single, socket, any.ip(), PORT).0, 0);
        }
        assert_eq!(connects(&mut single, socket, at(CLIENT).into()).0, 0);
        let (errno, left) = connects(&mut single, socket, Address::NONE);
        let port = if chosen { PORT } else { 0 };
        assert_eq!((errno, left), (0, Some(SocketAddr::new(any.ip(), port))));
        let local = {
            let mut all = single.stack.status().sockets(0);
            all.next().expect("it is open").1.local
        };
        assert_eq!(local, chosen.then_some(any));
        let others = Ipv4Addr::new(10, 0, 0, 255);
        let datagram = [0, 9, 0x13, 0x88, 0, 8, 0, 0];
        let ends = (CLIENT.into(), others.into());
        single.frame_in(&packets::packet(ends, protocol::UDP, &datagram));
        single.turn();
        let told = single.told_of(socket).map_or(0, |edges| edges.rcv_edge);
        assert_eq!(told != 0, chosen);
    }
}

/// Linux: what a peer of IPv6 has given a socket of both versions is none of a peer of IPv4, and is there again
/// for the next of IPv6; what a peer of IPv4 has given it first keeps it from those of IPv6.
#[test]
fn peers_of_both_versions_find_addresses_of_their_own() {
    let local = |single: &Single| {
        let mut all = single.stack.status().sockets(0);
        let local = all.next().expect("it is open").1.local;
        local.expect("it is bound").ip().to_canonical()
    };
    let of_v4 = at(CLIENT.to_ipv6_mapped());
    let mut single = both();
    let socket = open(&mut single, SocketKind::Datagram);
    assert_eq!(bind(&mut single, socket, ANY, PORT).0, 0);
    let steps: [(SocketAddr, IpAddr); 4] = [
        (at(NEAR_FIRST), FIRST.into()),
        (of_v4, SERVER.into()),
        (at(NEAR_SECOND), FIRST.into()),
        (of_v4, SERVER.into()),
    ];
    for (peer, expected) in steps {
        let (errno, shown) = connects(&mut single, socket, peer.into());
        assert_eq!((errno, local(&single)), (0, expected), "{peer}");
        assert_eq!(shown, Some(SocketAddr::new(FIRST.into(), PORT)), "{peer}");
    }
    let mut single = both();
    let socket = open(&mut single, SocketKind::Datagram);
    assert_eq!(bind(&mut single, socket, ANY, PORT).0, 0);
    assert_eq!(connects(&mut single, socket, of_v4.into()).0, 0);
    assert_ne!(connects(&mut single, socket, at(NEAR_FIRST).into()).0, 0);
}
