//! Addresses, routes and neighbours, by the clock of the test.

use super::*;
use crate::counters::Counters;
use longshore_ports::RxMeta;
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_wire::arp::{ArpPacket, Operation};
use longshore_wire::ethernet::{EtherType, EthernetHeader};
use std::net::Ipv6Addr;

const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn at(seconds: u64) -> Instant {
    Instant(1 + seconds * 1_000_000)
}

fn cidrs(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|t| t.parse().unwrap()).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn on(config: &MemoryConfig, addresses: &[&str], gateways: &[&str]) -> (Tried, MemoryPort) {
    let (port, far) = pair(config);
    let gateways: Vec<IpAddr> = gateways.iter().map(|g| ip(g)).collect();
    let link = Link::new(
        Interface {
            port: Box::new(port),
            addresses: &cidrs(addresses),
            gateways: &gateways,
            automatic: &Automatic::default(),
        },
        false,
        &Secrets::from_seed(1),
        at(0),
    );
    (link, far)
}

type Tried = Result<Link, AddressError>;

fn with(addresses: &[&str], gateways: &[&str]) -> Tried {
    on(&MemoryConfig::default(), addresses, gateways).0
}

/// A link without a link layer, of both versions, and its far end.
fn bare() -> (Link, MemoryPort) {
    let config = MemoryConfig {
        ethernet: false,
        ..MemoryConfig::default()
    };
    let (link, far) = on(&config, &["10.0.0.1/24", "fd00::1/64"], &[]);
    (link.unwrap(), far)
}

#[test]
fn addresses_that_an_engine_cannot_have() {
    let error = |addresses: &[&str], gateways: &[&str]| with(addresses, gateways).err();
    let cidr = |text: &str| text.parse::<Cidr>().unwrap();
    assert_eq!(error(&[], &[]), Some(AddressError::None));
    let second = Some(AddressError::SecondV4(cidr("10.1.0.1/24")));
    assert_eq!(error(&["10.0.0.1/24", "10.1.0.1/24"], &[]), second);
    let group = Some(AddressError::V6(cidr("ff02::1/64")));
    assert_eq!(error(&["ff02::1/64"], &[]), group);
    let twice = Some(AddressError::V6(cidr("fd00::1/64")));
    assert_eq!(error(&["fd00::1/64", "fd00::1/64"], &[]), twice);
    let far = Some(AddressError::Gateway(ip("10.1.0.1")));
    assert_eq!(error(&["10.0.0.1/24"], &["10.1.0.1"]), far);
    let other_version = Some(AddressError::Gateway(ip("fd00::1")));
    assert_eq!(error(&["10.0.0.1/24"], &["fd00::1"]), other_version);
    let two = Some(AddressError::SecondGateway(ip("fd00::3")));
    assert_eq!(error(&["fd00::1/64"], &["fd00::2", "fd00::3"]), two);
}

/// Addresses are found out where there is somebody to ask, and one of IPv4 in one way alone.
#[test]
fn addresses_that_an_engine_cannot_find_out() {
    let dhcp = Some(b"\xff test".to_vec());
    let routers = Some(longshore_net::stable::Identifiers::new([7; 32], b"x"));
    let error = |ethernet: bool, automatic: &Automatic, addresses: &[&str], gateways: &[&str]| {
        let (port, _far) = pair(&MemoryConfig {
            ethernet,
            ..MemoryConfig::default()
        });
        let gateways: Vec<IpAddr> = gateways.iter().map(|g| ip(g)).collect();
        let interface = Interface {
            port: Box::new(port),
            addresses: &cidrs(addresses),
            gateways: &gateways,
            automatic,
        };
        Link::new(interface, false, &Secrets::from_seed(1), at(0)).err()
    };
    for (dhcp, routers) in [(true, false), (false, true), (true, true)] {
        let automatic = Automatic {
            dhcp: dhcp.then(|| b"\xff test".to_vec()),
            routers: routers.then(|| longshore_net::stable::Identifiers::new([7; 32], b"x")),
        };
        let nobody = Some(AddressError::NobodyToAsk);
        assert_eq!(error(false, &automatic, &[], &[]), nobody);
        assert_eq!(error(true, &automatic, &[], &[]), None);
    }
    let by_dhcp = Automatic {
        dhcp,
        routers: None,
    };
    let by_routers = Automatic {
        dhcp: None,
        routers,
    };
    let both = Some(AddressError::DhcpAndV4);
    let (typed, gateway) = (["10.0.0.1/24"], ["10.0.0.254"]);
    assert_eq!(error(true, &by_dhcp, &typed, &[]), both);
    assert_eq!(error(true, &by_dhcp, &[], &gateway), both);
    assert_eq!(error(true, &by_dhcp, &["fd00::1/64"], &["fd00::2"]), None);
    assert_eq!(error(true, &by_routers, &typed, &gateway), None);
}

#[test]
fn ipv6_needs_a_link_that_takes_its_packets() {
    let with_mtu = |mtu, address| {
        let config = MemoryConfig {
            mtu,
            ..MemoryConfig::default()
        };
        on(&config, &[address], &[]).0.err()
    };
    let small = Some(AddressError::Mtu(1279));
    assert_eq!(with_mtu(1279, "fd00::1/64"), small);
    assert_eq!(with_mtu(1280, "fd00::1/64"), None);
    assert_eq!(with_mtu(1279, "10.0.0.1/24"), None);
}

#[test]
fn each_version_has_its_way_and_its_source() {
    let both = with(&["10.0.0.1/24", "fd00::1/64"], &["10.0.0.254", "fe80::ff"]).unwrap();
    let source = |to: &str| both.source_for(ip(to));
    assert_eq!(source("10.0.0.7"), Some(ip("10.0.0.1")));
    assert_eq!(source("192.0.2.1"), Some(ip("10.0.0.1")));
    assert_eq!(source("fd00::7"), Some(ip("fd00::1")));
    assert_eq!(source("2001:db8::1"), Some(ip("fd00::1")));
    assert_eq!(source("fd00::1"), Some(ip("fd00::1")), "itself");
    let next = |to: &str| {
        both.output
            .hops
            .routes()
            .lookup(ip(to))
            .map(|hop| hop.next_hop)
    };
    assert_eq!(next("192.0.2.1"), Some(ip("10.0.0.254")));
    assert_eq!(next("2001:db8::1"), Some(ip("fe80::ff")));
    let only_v6 = with(&["fd00::1/64"], &[]).unwrap();
    assert_eq!(only_v6.source_for(ip("10.0.0.7")), None);
    assert!(
        !only_v6.addresses.contains(ip("0.0.0.0")) && only_v6.addresses.contains(ip("fd00::1"))
    );
    assert_eq!(only_v6.source_for(ip("2001:db8::1")), None);
}

#[test]
fn what_has_no_link_layer_leads_everywhere() {
    let (link, _far) = bare();
    assert_eq!(link.source_for(ip("192.0.2.1")), Some(ip("10.0.0.1")));
    assert_eq!(link.source_for(ip("2001:db8::1")), Some(ip("fd00::1")));
    assert_eq!(link.addresses.iter().count(), 2, "no link-local address");
}

/// The ARP requests that have come to the far end.
fn requests(far: &mut MemoryPort) -> usize {
    let mut frame = vec![0; longshore_ports::RECV_ROOM];
    let mut count = 0;
    while let Some(RxMeta { len, .. }) = far.recv(&mut frame).unwrap() {
        let header = EthernetHeader::parse(&frame[..len]).unwrap();
        count += usize::from(header.ether_type == EtherType::Arp);
    }
    count
}

/// A connection that goes on for two minutes, its progress told or not: whether its
/// next hop is asked for after the first time.
fn is_asked_again(reported: bool) -> bool {
    let (link, mut far) = on(&MemoryConfig::default(), &["10.0.0.1/24"], &[]);
    let (mut link, mut counters) = (link.unwrap(), Counters::new());
    let mut hop = |link: &mut Link, now| link.next_hop_to(PEER, now, &mut counters);
    assert_eq!(hop(&mut link, at(0)), NextHop::Resolving);
    let answer = ArpPacket {
        operation: Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER,
        target_mac: link.output.device.mac(),
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    assert!(link.take_arp(&answer, at(0), &mut Counters::new()));
    assert_eq!(requests(&mut far), 1);
    for second in 1..=120 {
        assert_eq!(hop(&mut link, at(second)), NextHop::Neighbor(PEER_MAC));
        if reported {
            link.output.hops.confirm(PEER.into(), at(second));
        }
        link.poll_neighbors(at(second), &mut Counters::new());
        if requests(&mut far) != 0 {
            return true;
        }
    }
    false
}

#[test]
fn progress_of_a_connection_spares_its_next_hop_the_question() {
    assert!(!is_asked_again(true));
    assert!(is_asked_again(false));
}

/// What has come to the far end: ARP announcements of our address, unsolicited
/// advertisements of IPv6 addresses, questions to the peer alone, solicitations of routers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frames {
    announced: usize,
    advertised: Vec<Ipv6Addr>,
    probed: usize,
    routers: usize,
}

fn take_frames(far: &mut MemoryPort) -> Frames {
    let mut frame = vec![0; longshore_ports::RECV_ROOM];
    let mut all = Frames::default();
    while let Some(RxMeta { len, .. }) = far.recv(&mut frame).unwrap() {
        let header = EthernetHeader::parse(&frame[..len]).unwrap();
        let body = &frame[ethernet::HEADER_LEN..len];
        if header.ether_type == EtherType::Arp {
            let packet = ArpPacket::parse(body).unwrap();
            let own = packet.sender_ip == packet.target_ip;
            all.announced += usize::from(own && header.destination == MacAddr::BROADCAST);
            all.probed += usize::from(header.destination == PEER_MAC);
        }
        // Of ICMPv6 behind no other header: the type, and a target behind 8 bytes.
        match (header.ether_type, body.get(6), body.get(40)) {
            (EtherType::Ipv6, Some(58), Some(136)) => {
                assert_eq!(body[44], 0x20, "unsolicited, to be taken over");
                let target: [u8; 16] = body[48..64].try_into().unwrap();
                all.advertised.push(target.into());
            }
            (EtherType::Ipv6, Some(58), Some(133)) => all.routers += 1,
            _ => {}
        }
    }
    all.advertised.sort();
    all
}

#[test]
fn when_the_link_returns_it_is_told_of_us_and_neighbours_are_asked() {
    let addresses = ["10.0.0.1/24", "fd00::1/64", "fe80::1/64"];
    let (link, mut far) = on(&MemoryConfig::default(), &addresses, &[]);
    let (mut link, mut counters) = (link.unwrap(), Counters::new());
    // Up to the end of what a new address does.
    for second in 0..10 {
        link.poll_neighbors(at(second), &mut counters);
    }
    assert_eq!(
        link.next_hop_to(PEER, at(10), &mut counters),
        NextHop::Resolving
    );
    let answer = ArpPacket {
        operation: Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER,
        target_mac: link.output.device.mac(),
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    assert!(link.take_arp(&answer, at(10), &mut counters));
    take_frames(&mut far);
    link.poll_neighbors(at(20), &mut counters);
    assert_eq!(take_frames(&mut far), Frames::default());
    link.link_returned(at(20));
    assert!(link.neighbor_deadline().is_some_and(|due| due <= at(20)));
    let mut expected = Frames {
        announced: 1,
        advertised: vec!["fd00::1".parse().unwrap(), "fe80::1".parse().unwrap()],
        probed: 1,
        routers: 0,
    };
    link.poll_neighbors(at(20), &mut counters);
    assert_eq!(take_frames(&mut far), expected);
    assert!(!link.take_arp(&answer, at(20), &mut counters));
    link.poll_neighbors(at(21), &mut counters);
    assert_eq!(take_frames(&mut far), Frames::default());
    expected.probed = 0;
    link.poll_neighbors(at(22), &mut counters);
    assert_eq!(take_frames(&mut far), expected);
    for second in 23..30 {
        link.poll_neighbors(at(second), &mut counters);
    }
    assert_eq!(take_frames(&mut far), Frames::default());
    let hop = link.next_hop_to(PEER, at(30), &mut counters);
    assert_eq!(hop, NextHop::Neighbor(PEER_MAC));
}

#[test]
fn a_link_without_a_link_layer_announces_nothing() {
    let ((mut link, far), mut counters) = (bare(), Counters::new());
    link.link_returned(at(20));
    link.poll_neighbors(at(20), &mut counters);
    assert_eq!(far.waiting(), 0);
}

#[test]
fn routers_and_servers_are_asked_again_when_the_link_returns() {
    let (port, mut far) = pair(&MemoryConfig::default());
    let automatic = Automatic {
        dhcp: Some(b"\xff test".to_vec()),
        routers: Some(longshore_net::stable::Identifiers::new([7; 32], b"x")),
    };
    let mut link = Link::new(
        Interface {
            port: Box::new(port),
            addresses: &[],
            gateways: &[],
            automatic: &automatic,
        },
        false,
        &Secrets::from_seed(1),
        at(0),
    )
    .unwrap();
    let mut counters = Counters::new();
    link.poll_neighbors(at(0), &mut counters);
    let mut frame = vec![0; longshore_ports::RECV_ROOM];
    let mut asked = |link: &mut Link, now| {
        link.poll_neighbors(now, &mut Counters::new());
        let (mut servers, mut routers) = (0, 0);
        while let Some(RxMeta { len, .. }) = far.recv(&mut frame).unwrap() {
            let body = &frame[ethernet::HEADER_LEN..len];
            servers += usize::from(body[9] == 17 && body[0] == 0x45);
            routers += usize::from(body[6] == 58 && body[40] == 133);
        }
        (servers, routers)
    };
    assert_eq!(asked(&mut link, at(0)), (1, 1));
    assert_eq!(asked(&mut link, at(1)), (0, 0));
    link.link_returned(at(1));
    assert_eq!(asked(&mut link, at(1)), (1, 1));
}

#[test]
fn what_was_looked_up_is_looked_up_again_when_networks_are_others() {
    let (port, _far) = pair(&MemoryConfig::default());
    let automatic = Automatic {
        dhcp: None,
        routers: Some(longshore_net::stable::Identifiers::new([7; 32], b"x")),
    };
    let mut link = Link::new(
        Interface {
            port: Box::new(port),
            addresses: &cidrs(&["10.0.0.1/24", "fd00::1/64"]),
            gateways: &[ip("10.0.0.254"), ip("fd00::fe")],
            automatic: &automatic,
        },
        false,
        &Secrets::from_seed(1),
        at(0),
    )
    .unwrap();
    let far_away = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2);
    // By hardware addresses of each neighbour.
    let router_mac = MacAddr([2, 0, 0, 0, 0, 0xfe]);
    let learned = |link: &mut Link, ip: IpAddr, mac| match ip {
        IpAddr::V4(ip) => link.output.hops.v4.learn(ip, mac, true, net_time(at(0))),
        IpAddr::V6(ip) => link.output.hops.v6.asked_by(ip, mac, net_time(at(0))),
    };
    for (neighbor, mac) in [
        (PEER.into(), PEER_MAC),
        (ip("10.0.0.254"), router_mac),
        (far_away.into(), PEER_MAC),
        (ip("fd00::fe"), router_mac),
    ] {
        learned(&mut link, neighbor, mac);
    }
    let hops = |link: &mut Link| {
        // Twice: what was looked up, and what is known of that.
        [(); 2].map(|()| {
            let counters = &mut Counters::new();
            let four = link.next_hop_to(PEER, at(1), counters);
            (four, link.next_hop6(far_away, at(1), counters))
        })
    };
    let [router, peer] = [router_mac, PEER_MAC].map(NextHop::Neighbor);
    assert_eq!(hops(&mut link), [(peer, router); 2]);
    link.addresses.set_v4(cidrs(&["10.0.0.253/30"]).pop());
    let v6 = link.addresses.v6_mut().unwrap();
    let another = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9);
    assert!(v6.addresses.add(another, 64, net_time(at(1))));
    link.reconfigured();
    assert_eq!(hops(&mut link), [(router, peer); 2]);
}

/// A host goes to its own addresses from them, and to each of its loopback addresses from the first.
#[test]
fn a_source_is_ours_where_the_destination_is() {
    let (port, _far) = pair(&MemoryConfig::default());
    let interface = Interface {
        port: Box::new(port),
        addresses: &cidrs(&["10.0.0.1/24", "fd00::1/64", "2001:db8::1/64"]),
        gateways: &[],
        automatic: &Automatic::default(),
    };
    let link = Link::new(interface, true, &Secrets::from_seed(1), at(0)).unwrap();
    for (to, from) in [
        ("10.0.0.1", Some("10.0.0.1")),
        ("10.0.0.2", Some("10.0.0.1")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("127.0.0.9", Some("127.0.0.1")),
        ("::1", Some("::1")),
        ("fd00::1", Some("fd00::1")),
        ("2001:db8::1", Some("2001:db8::1")),
        ("192.0.2.1", None),
    ] {
        assert_eq!(link.source_for(ip(to)), from.map(ip), "{to}");
    }
}

/// An address may be alone in its network: its gateway is on the link all the same, if it is of the same
/// version.
#[test]
fn the_gateway_of_an_address_alone_is_in_no_network() {
    for (own, gateway, far) in [
        ("10.0.0.1/32", "10.9.9.9", "192.0.2.1"),
        ("fd00::1/128", "fd99::9", "2001:db8::1"),
    ] {
        let link = with(&[own], &[gateway]).unwrap();
        let hop = |to: &str| link.output.hops.routes().lookup(ip(to)).map(|h| h.next_hop);
        assert_eq!(hop(gateway), Some(ip(gateway)));
        assert_eq!(hop(far), Some(ip(gateway)));
    }
    for (own, gateway) in [
        ("10.0.0.1/31", "10.9.9.9"),
        ("fd00::1/127", "fd99::9"),
        ("10.0.0.1/32", "fd00::9"),
        ("fd00::1/128", "10.0.0.9"),
    ] {
        let error = Some(AddressError::Gateway(ip(gateway)));
        assert_eq!(with(&[own], &[gateway]).err(), error, "{own}");
    }
}
