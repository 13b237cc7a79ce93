//! Attempts to connect that come to nothing, of sockets that their programs have bound in part: which
//! address and port they have then, and with which they try again.

use super::binding::{bind, connects};
use super::forgotten::is_free;
use super::ipv6::open;
use super::off_path::{GEOMETRY, accepted};
use super::own_ends::Own;
use super::reconnect::connect;
use super::single::{CLIENT, ISN, SERVER, Single, header};
use crate::demux::Flow;
use longshore_frames::Port;
use longshore_hostif::{
    Address, DatagramRecord, EdgeFlags, Features, Request, SocketId, SocketKind, datagram_span,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_testbed::packets;
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// The stack's addresses, of which it chooses one if nobody else does.
pub(super) const ADDRESSES: [&str; 2] = ["fd00::1", "fd00::3"];
const PEER: &str = "fd00::2";
const PEER_PORT: u16 = 9;
const PORT: u16 = 6_000;
const BOTH: EdgeFlags = EdgeFlags::SHUT_RD.union(EdgeFlags::SHUT_WR);

/// A stack with these addresses, and the peer that it sends to.
pub(super) fn six() -> (Single, SocketAddr) {
    let addresses = ["fd00::1/64", "fd00::3/64"];
    let mut single = Single::at(&addresses, GEOMETRY, 1, Features::empty());
    (0..5).for_each(|_| single.turn_after(1_000_000));
    single.packets();
    (single, SocketAddr::new(PEER.parse().unwrap(), PEER_PORT))
}

/// The last packet that was sent, and where it is from.
fn last_packet(single: &mut Single) -> (IpAddr, Vec<u8>) {
    let packet = single.packets().pop().expect("a packet");
    let (ip, range) = Ipv6Header::parse(&packet).expect("IPv6");
    (ip.source.into(), packet[range].to_vec())
}

/// What a socket is bound to.
fn local(single: &Single, socket: SocketId) -> Option<SocketAddr> {
    let key = single.stack.endpoints.key_of(single.session(), socket);
    let found = single.stack.endpoints.sockets.get(key.expect("a socket"));
    found.expect("a socket").bound.local()
}

fn own(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER.into(), port)
}

/// udp(7) and Linux: the address that `bind` was given, and no port, is that of what is sent without a
/// peer and to the next.
#[test]
fn an_address_without_a_port_outlives_the_peer() {
    for (own, sends) in ADDRESSES.iter().flat_map(|own| [(own, false), (own, true)]) {
        let (mut single, peer) = six();
        let own: IpAddr = own.parse().unwrap();
        let socket = open(&mut single, SocketKind::Datagram);
        assert_eq!(bind(&mut single, socket, own, 0).0, 0);
        assert_eq!(connects(&mut single, socket, peer.into()).0, 0);
        assert_eq!(connects(&mut single, socket, Address::NONE).0, 0);
        single.packets();
        if sends {
            let mut bytes = DatagramRecord::new(4, peer.into()).encode().to_vec();
            bytes.extend(b"data");
            bytes.resize(datagram_span(4) as usize, 0);
            single.write(socket, 0, &bytes);
            single.turn();
            assert_eq!(last_packet(&mut single).0, own);
        } else {
            let (errno, chosen) = connects(&mut single, socket, peer.into());
            assert_eq!((errno, chosen.map(|at| at.ip())), (0, Some(own)));
        }
    }
}

/// Linux: a socket that was bound to an address alone tries again from there, with another port, and
/// nothing is left of the connection before.
#[test]
fn the_next_attempt_is_from_the_address_that_was_chosen() {
    for own in ADDRESSES {
        let (mut single, peer) = six();
        let own: IpAddr = own.parse().unwrap();
        let socket = open(&mut single, SocketKind::Stream);
        assert_eq!(bind(&mut single, socket, own, 0).0, 0);
        let (free, mut ports) = (single.free_chunks(), Vec::new());
        for _ in 0..3 {
            connect(&mut single, socket, peer);
            single.turn();
            let (from, syn) = last_packet(&mut single);
            let (syn, _) = TcpHeader::parse(&syn).expect("a SYN");
            assert_eq!(from, own);
            let at = local(&single, socket);
            assert_eq!(at, Some(SocketAddr::new(own, syn.src_port)));
            ports.push(syn.src_port);
            assert_eq!(single.free_chunks(), free, "of the connection before");
            let comes = |single: &mut Single, flags: TcpFlags, at: u32, payload: &[u8]| {
                let mut segment = header(0, flags, ISN.add(at), syn.seq.add(1));
                (segment.src_port, segment.dst_port) = (PEER_PORT, syn.src_port);
                single.frame_in(&packets::segment((peer.ip(), own), &segment, payload));
                single.turn();
            };
            comes(&mut single, TcpFlags::SYN | TcpFlags::ACK, 0, &[]);
            comes(&mut single, TcpFlags::ACK, 1, b"not read");
            assert_eq!(single.free_chunks(), free - 1);
            comes(&mut single, TcpFlags::RST | TcpFlags::ACK, 9, &[]);
            single.packets();
            single.discard_completions();
        }
        let mut different = ports.clone();
        different.dedup();
        assert_eq!(different.len(), 3, "{ports:?}");
        assert_eq!(single.stack.counters.tcp.active_opens, 3);
    }
}

/// Linux: a socket that was bound to a port alone is bound to the address that it connects from.
#[test]
fn a_port_is_that_of_the_address_that_is_connected_from() {
    let (mut single, peer) = six();
    let socket = open(&mut single, SocketKind::Stream);
    let any = "::".parse().unwrap();
    assert_eq!(bind(&mut single, socket, any, PORT).0, 0);
    assert_eq!(connects(&mut single, socket, peer.into()).0, 0);
    let own = local(&single, socket).expect("it is bound").ip();
    let others = ADDRESSES.map(|text| text.parse::<IpAddr>().unwrap());
    let free = others.into_iter().find(|ip| *ip != own);
    let other = open(&mut single, SocketKind::Stream);
    let local = SocketAddr::new(free.expect("the other"), PORT).into();
    let (tag, waiter) = (1, None);
    single.discard_completions();
    single.ask(
        0,
        &Request::Bind {
            socket: other,
            tag,
            waiter,
            local,
        },
    );
    single.turn();
    assert_eq!(single.answer(), Some(0));
}

/// Linux: EHOSTUNREACH, where nobody answers for the peer on the link.
#[test]
fn an_attempt_to_reach_nobody_on_the_link_fails() {
    const UNREACHABLE: u16 = 113;
    let (port, wire) = pair(&MemoryConfig::default());
    let ends: (Box<dyn Port>, MemoryPort) = (Box::new(port), wire);
    let mut single = Single::over(
        ends,
        &["10.0.0.1/24"],
        false,
        GEOMETRY,
        1,
        Features::empty(),
    );
    let socket = single.open(SocketKind::Stream);
    connect(
        &mut single,
        socket,
        SocketAddr::new(CLIENT.into(), PEER_PORT),
    );
    let told = (0..200).find_map(|_| {
        single.turn_after(100_000);
        let told = single.told_of(socket)?;
        told.flags.contains(EdgeFlags::DEAD).then_some(told.errno)
    });
    assert_eq!(told, Some(UNREACHABLE));
}

/// The same within the engine, where a connection may be refused as it is asked for: each attempt has
/// a port of its own, and the ports before it are free.
#[test]
fn the_next_attempt_within_the_engine_has_a_port_of_its_own() {
    for (turns, is_bound) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        if is_bound {
            assert_eq!(bind(&mut single, socket, SERVER.into(), 0).0, 0);
        }
        let ports: Vec<u16> = (0..3)
            .map(|_| {
                connect(&mut single, socket, own(81));
                if turns {
                    single.turn();
                }
                let at = local(&single, socket).expect("it was given one");
                single.discard_completions();
                at.port()
            })
            .collect();
        let mut different = ports.clone();
        different.dedup();
        // They are chosen by the time among others.
        assert!(different.len() == 3 || !turns, "{ports:?}");
        single.turn();
        for port in ports {
            assert!(is_free(&mut single, SocketKind::Stream, port), "{port}");
        }
    }
}

/// Linux: of one that was bound to a port alone, the address of an attempt within the engine that was
/// refused is left as its program has ended that in both directions, and not before.
#[test]
fn the_address_of_a_refused_attempt_within_the_engine_is_left_with_it() {
    for (flags, ip) in [(EdgeFlags::empty(), SERVER.into()), (BOTH, ANY)] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        assert_eq!(bind(&mut single, socket, ANY, PORT).0, 0);
        connect(&mut single, socket, own(81));
        single.turn();
        assert_eq!(single.told_of(socket).map(|told| told.errno), Some(111));
        single.edges(socket, 0, flags);
        let now = SocketAddr::new(ip, PORT);
        assert_eq!(local(&single, socket), Some(now), "{flags:?}");
        single.turn();
        assert_eq!(local(&single, socket), Some(now), "{flags:?}");
    }
}

/// The address of a connection that was made stays, however it ends.
#[test]
fn the_address_of_a_connection_within_the_engine_that_was_made_stays() {
    for is_reset in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        let client = single.open(SocketKind::Stream);
        assert_eq!(bind(&mut single, client, ANY, PORT).0, 0);
        single.connect_to_own(client);
        single.turn();
        let server = accepted(&mut single, listener, 0);
        single.edges(listener, 64, EdgeFlags::empty());
        let mut own_ends = Own {
            single,
            client,
            server,
        };
        if is_reset {
            own_ends.closes(server, (0, 0), Some(0));
        } else {
            own_ends.says(server, 0, 0, EdgeFlags::SHUT_WR);
        }
        own_ends.says(client, 0, 0, BOTH);
        let at = local(&own_ends.single, client);
        assert_eq!(at, Some(own(PORT)), "reset: {is_reset}");
        // Their addresses are nobody's, so that there may be another such connection.
        let demux = &own_ends.single.stack.endpoints.demux;
        for flow in [Flow::new(own(PORT), own(80)), Flow::new(own(80), own(PORT))] {
            assert!(!demux.is_taken(&flow), "reset: {is_reset}");
        }
    }
}

/// Linux: an attempt that stands in line, and that its program ends by `shutdown` of either half, leaves
/// the address that was chosen for it.
#[test]
fn an_attempt_in_line_that_is_shut_down_leaves_its_address() {
    for (flags, ip) in [
        (EdgeFlags::empty(), SERVER.into()),
        (EdgeFlags::SHUT_RD, ANY),
        (EdgeFlags::SHUT_WR, ANY),
        (BOTH, ANY),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.bind(SocketKind::Stream, 80);
        single.listen_at(listener, 0);
        let first = single.open(SocketKind::Stream);
        single.connect_to_own(first);
        single.turn();
        let client = single.open(SocketKind::Stream);
        assert_eq!(bind(&mut single, client, ANY, PORT).0, 0);
        single.connect_to_own(client);
        single.turn();
        single.edges(client, 0, flags);
        single.turn();
        let now = SocketAddr::new(ip, PORT);
        assert_eq!(local(&single, client), Some(now), "{flags:?}");
    }
}
