//! Groups and broadcasts: what routers are told, what is taken, who gets it. The far end
//! of the wire is the test's own.

mod common;

use common::engines::{Running, start};
use common::{Host, TIMEOUT};
use longshore_hostif::{
    Address, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, Loopback, Numbered, Request, SocketId,
    SocketKind, SourceRequest,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::ipv4;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{EtherType, EthernetHeader, HEADER_LEN as LINK};
use longshore_wire::icmpv6::{self, Icmpv6};
use longshore_wire::igmp;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use longshore_wire::ipv6::{Ipv6Header, link_local, next_header, walk};
use longshore_wire::{MacAddr, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 7);
const OUR_MAC: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);
const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];

struct Wire(MemoryPort);

impl Wire {
    fn of_engine(dir: &Path) -> (Running, Self) {
        let (ours, far) = pair(&MemoryConfig {
            offloads: false,
            ..MemoryConfig::default()
        });
        let addresses = "10.0.0.1/24 fd00::1/64";
        let engine = start(dir, addresses, Box::new(ours), Loopback::Kernel, true);
        (engine, Self(far))
    }

    /// The next frame that `what` makes something of.
    fn expect<T>(&mut self, mut what: impl FnMut(&EthernetHeader, &[u8]) -> Option<T>) -> T {
        let start = Instant::now();
        let mut frame = vec![0; longshore_ports::RECV_ROOM];
        loop {
            if let Some(meta) = self.0.recv(&mut frame).unwrap() {
                let link = EthernetHeader::parse(&frame[..meta.len]).unwrap();
                if let Some(found) = what(&link, &frame[LINK..meta.len]) {
                    return found;
                }
            } else {
                assert!(start.elapsed() < TIMEOUT, "nothing comes");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// The next IGMP message with its destination.
    fn igmp(&mut self) -> (Ipv4Addr, Vec<u8>) {
        self.expect(|link, packet| {
            if link.ether_type != EtherType::Ipv4 {
                return None;
            }
            let (ip, payload) = Ipv4Header::parse(packet).unwrap();
            if ip.protocol != protocol::IGMP {
                return None;
            }
            assert_eq!((ip.source, ip.ttl), (US, 1));
            assert_eq!(packet[HEADER_LEN..payload.start], ROUTER_ALERT);
            assert_eq!(link.destination, MacAddr::of_group_v4(ip.destination));
            let message = packet[payload].to_vec();
            assert_eq!(Partial::of(&message).finish(), 0, "its checksum");
            Some((ip.destination, message))
        })
    }

    fn send(&mut self, destination: MacAddr, ether_type: EtherType, packet: &[u8]) {
        let mut frame = vec![0; LINK];
        let link = EthernetHeader {
            destination,
            source: OUR_MAC,
            ether_type,
        };
        link.emit(&mut frame);
        frame.extend_from_slice(packet);
        self.0.send(&TxFrame::whole(&frame)).unwrap();
        self.0.flush().unwrap();
    }

    fn send4(&mut self, to: Ipv4Addr, protocol: u8, ttl: u8, payload: &[u8]) {
        let packet = ipv4((FAR, to), protocol, ttl, payload);
        let station = match to.is_broadcast() {
            true => MacAddr::BROADCAST,
            false => MacAddr::of_group_v4(to),
        };
        self.send(station, EtherType::Ipv4, &packet);
    }

    fn query(&mut self, group: Ipv4Addr, code: u8, len: usize) {
        let mut bytes = vec![0; len];
        (bytes[0], bytes[1]) = (0x11, code);
        bytes[4..8].copy_from_slice(&group.octets());
        let sum = Partial::of(&bytes).finish();
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        self.send4(igmp::ALL_SYSTEMS, protocol::IGMP, 1, &bytes);
    }

    fn datagram(&mut self, to: Ipv4Addr, port: u16, text: &[u8]) {
        let mut bytes = vec![0; udp::HEADER_LEN];
        bytes.extend_from_slice(text);
        let ends = (FAR.into(), to.into());
        assert!(longshore_net::udp::finish(
            ends.0,
            ends.1,
            (9, port),
            &mut bytes
        ));
        self.send4(to, protocol::UDP, 1, &bytes);
    }
}

fn bound(host: &mut Host, at: &str) -> SocketId {
    let socket = host.open(SocketKind::Datagram);
    host.bind(socket, at.parse().unwrap()).unwrap();
    socket
}

fn group(host: &mut Host, socket: SocketId, group: IpAddr, join: bool) -> u16 {
    let group = Address::from(SocketAddr::new(group, 0));
    host.call(|tag| Request::Group {
        socket,
        tag,
        waiter: None,
        group,
        join,
    })
}

fn receive(host: &mut Host, socket: SocketId) -> (DatagramRecord, IpAddr, Vec<u8>) {
    let header = host.receive(socket, DATAGRAM_HEADER);
    let record = DatagramRecord::decode(header.as_slice().try_into().unwrap());
    assert!(record.to_group);
    let to: [u8; GROUP_BYTES] = host.receive(socket, GROUP_BYTES).try_into().unwrap();
    let rest = record.span() as usize - record.payload_at();
    let mut payload = host.receive(socket, rest);
    payload.truncate(record.len as usize);
    (record, IpAddr::from(to).to_canonical(), payload)
}

fn v3(kind: u8) -> (Ipv4Addr, Vec<u8>) {
    let [a, b, c, d] = GROUP.octets();
    let mut message = vec![0x22, 0, 0, 0, 0, 0, 0, 1, kind, 0, 0, 0, a, b, c, d];
    let sum = Partial::of(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    (igmp::REPORTS, message)
}

#[test]
fn routers_are_told_of_groups_and_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let (one, two) = (bound(&mut host, "0.0.0.0:7"), bound(&mut host, "0.0.0.0:8"));
    assert_eq!(group(&mut host, one, GROUP.into(), true), 0);
    assert_eq!(wire.igmp(), v3(4), "joined");
    assert_eq!(wire.igmp(), v3(4), "and once more");
    assert_eq!(group(&mut host, two, GROUP.into(), true), 0);
    wire.query(Ipv4Addr::UNSPECIFIED, 1, 12);
    assert_eq!(wire.igmp(), v3(2), "listening");
    wire.query(GROUP, 1, 12);
    assert_eq!(wire.igmp(), v3(2));
    // Of an end there is word when the last one is gone, by whichever way.
    assert_eq!(group(&mut host, one, GROUP.into(), false), 0);
    host.close(two);
    assert_eq!(wire.igmp(), v3(3), "left");
    assert_eq!(wire.igmp(), v3(3));
}

#[test]
fn an_older_router_is_spoken_to_in_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = bound(&mut host, "0.0.0.0:7");
    assert_eq!(group(&mut host, socket, GROUP.into(), true), 0);
    assert_eq!((wire.igmp(), wire.igmp()), (v3(4), v3(4)));
    wire.query(Ipv4Addr::UNSPECIFIED, 1, 8);
    let (to, message) = wire.igmp();
    assert_eq!((to, message[0], message.len()), (GROUP, 0x16, 8));
    assert_eq!(group(&mut host, socket, GROUP.into(), false), 0);
    let (to, message) = wire.igmp();
    assert_eq!((to, message[0]), (igmp::ALL_ROUTERS, 0x17));
}

#[test]
fn what_is_for_all_goes_to_all_who_hear_it() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let (one, two) = (bound(&mut host, "0.0.0.0:7"), bound(&mut host, "0.0.0.0:7"));
    let own = bound(&mut host, "10.0.0.1:7");
    // Nobody has joined: it is not taken.
    wire.datagram(GROUP, 7, b"too early");
    wire.datagram(Ipv4Addr::BROADCAST, 7, b"everybody");
    for socket in [one, two] {
        let (record, to, text) = receive(&mut host, socket);
        assert_eq!(
            (to, &text[..]),
            (Ipv4Addr::BROADCAST.into(), &b"everybody"[..])
        );
        assert_eq!(record.peer.get(), Some(SocketAddr::new(FAR.into(), 9)));
        assert_eq!(record.own, 1);
    }
    assert_eq!(group(&mut host, one, GROUP.into(), true), 0);
    wire.datagram(Ipv4Addr::new(10, 0, 0, 255), 7, b"network");
    wire.datagram(GROUP, 7, b"group");
    for socket in [one, two] {
        let (_, to, text) = receive(&mut host, socket);
        assert_eq!(
            (to, &text[..]),
            (Ipv4Addr::new(10, 0, 0, 255).into(), &b"network"[..])
        );
        let (_, to, text) = receive(&mut host, socket);
        assert_eq!((to, &text[..]), (GROUP.into(), &b"group"[..]));
    }
    host.drain();
    assert!(host.edges(own).is_none_or(|edges| edges.rcv_edge == 0));
}

#[test]
fn nobody_answers_what_was_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = bound(&mut host, "0.0.0.0:7");
    assert_eq!(group(&mut host, socket, GROUP.into(), true), 0);
    host.listening("0.0.0.0:80");
    // No port unreachable, no reset, no SYN-ACK: the next answer is that to the query.
    wire.datagram(GROUP, 99, b"nobody");
    wire.datagram(Ipv4Addr::BROADCAST, 99, b"nobody");
    for (to, port) in [(GROUP, 80u16), (Ipv4Addr::BROADCAST, 80), (GROUP, 81)] {
        let mut syn = vec![0; 20];
        syn[..2].copy_from_slice(&9u16.to_be_bytes());
        syn[2..4].copy_from_slice(&port.to_be_bytes());
        (syn[12], syn[13], syn[14]) = (0x50, 2, 0xff);
        let pseudo = Partial::of_pseudo_v4(FAR, to, protocol::TCP, 20);
        let sum = pseudo.plus(Partial::of(&syn)).finish();
        syn[16..18].copy_from_slice(&sum.to_be_bytes());
        wire.send4(to, protocol::TCP, 64, &syn);
    }
    wire.query(GROUP, 1, 12);
    loop {
        let found = wire.expect(|link, packet| {
            let is_v4 = link.ether_type == EtherType::Ipv4;
            is_v4.then(|| (packet[9], packet[packet.len() - 8]))
        });
        assert_eq!(found.0, protocol::IGMP, "an answer");
        if found.1 == 2 {
            break;
        }
    }
}

/// What a report of MLDv2 says of the group: its kind, and the sources.
fn record6(wire: &mut Wire) -> (u8, Vec<Ipv6Addr>) {
    wire.expect(|link, packet| {
        if link.ether_type != EtherType::Ipv6 {
            return None;
        }
        let (ip, payload) = Ipv6Header::parse(packet).unwrap();
        let message = &packet[payload];
        let upper = walk(ip.next_header, message).unwrap();
        let message = &message[upper.at..];
        let record = message.get(icmpv6::HEADER_LEN..)?;
        let of_ours = message[0] == 143 && record.get(4..20) == Some(&GROUP6.octets());
        let list = || record[20..].as_chunks::<16>().0.iter();
        of_ours.then(|| (record[0], list().map(|s| Ipv6Addr::from(*s)).collect()))
    })
}

/// A router asks for all groups, or for these sources of the group.
fn query6(wire: &mut Wire, sources: &[Ipv6Addr]) {
    let all = longshore_wire::ipv6::ALL_NODES;
    let (group, to) = match sources {
        [] => (Ipv6Addr::UNSPECIFIED, all),
        _ => (GROUP6, GROUP6),
    };
    let query = Icmpv6::MulticastQuery {
        group,
        max_response: 10,
    };
    let from = link_local(OUR_MAC);
    let mut message = vec![0; query.header_len() + 4];
    message[query.header_len() + 3] = sources.len() as u8;
    message.extend(sources.iter().flat_map(Ipv6Addr::octets));
    query.emit(from, to, &mut message);
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.len() as u16,
        next_header: next_header::ICMPV6,
        hop_limit: 1,
        source: from,
        destination: to,
    };
    let mut packet = vec![0; longshore_wire::ipv6::HEADER_LEN];
    header.emit(&mut packet);
    packet.extend_from_slice(&message);
    wire.send(MacAddr::of_group(to), EtherType::Ipv6, &packet);
}

fn member6(host: &mut Host) -> SocketId {
    let socket = host.open_with(SocketKind::Datagram, longshore_hostif::OpenFlags::IPV6);
    host.bind(socket, "[::]:7".parse().unwrap()).unwrap();
    socket
}

#[test]
fn ipv6_groups_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = member6(&mut host);
    assert_eq!(group(&mut host, socket, GROUP6.into(), true), 0);
    assert_eq!((record6(&mut wire).0, record6(&mut wire).0), (4, 4));
    query6(&mut wire, &[]);
    assert_eq!(record6(&mut wire), (2, vec![]));
    assert_eq!(group(&mut host, socket, GROUP6.into(), false), 0);
    assert_eq!(record6(&mut wire), (3, vec![]));
}

/// RFC 3810 section 6, with sources.
#[test]
fn ipv6_sources_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, mut wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = member6(&mut host);
    let [one, two]: [Ipv6Addr; 2] = ["fd00::a", "2001:db8::b"].map(|s| s.parse().unwrap());
    let mut change = |source: Ipv6Addr, change| {
        let named = |ip: Ipv6Addr| Numbered::new(ip.into(), 0);
        host.call(|tag| Request::Sources {
            socket,
            tag,
            waiter: None,
            group: named(GROUP6),
            source: named(source),
            change,
        })
    };
    assert_eq!(change(one, SourceRequest::Join), 0);
    let allowed = (5, vec![one]);
    assert_eq!(
        [record6(&mut wire), record6(&mut wire)],
        [allowed.clone(), allowed]
    );
    assert_eq!(change(two, SourceRequest::Join), 0);
    let allowed = (5, vec![two]);
    assert_eq!(
        [record6(&mut wire), record6(&mut wire)],
        [allowed.clone(), allowed]
    );
    query6(&mut wire, &[]);
    assert_eq!(record6(&mut wire), (1, vec![two, one]));
    query6(&mut wire, &[one, "fd00::c".parse().unwrap()]);
    assert_eq!(record6(&mut wire), (1, vec![one]));
    assert_eq!(change(one, SourceRequest::Leave), 0);
    assert_eq!(record6(&mut wire), (6, vec![one]));
}

#[test]
fn what_cannot_be_joined() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, _wire) = Wire::of_engine(dir.path());
    let mut host = Host::new(&engine.path);
    let socket = bound(&mut host, "0.0.0.0:7");
    let of = |i: u8| IpAddr::from(Ipv4Addr::new(239, 9, 9, i));
    assert_eq!(group(&mut host, socket, US.into(), true), 22);
    assert_eq!(group(&mut host, socket, of(0), false), 99);
    for i in 0..20 {
        assert_eq!(group(&mut host, socket, of(i), true), 0);
    }
    assert_eq!(group(&mut host, socket, of(0), true), 98);
    assert_eq!(group(&mut host, socket, of(20), true), 105);
    let stream = host.open(SocketKind::Stream);
    assert_eq!(group(&mut host, stream, of(1), true), 22);
}
