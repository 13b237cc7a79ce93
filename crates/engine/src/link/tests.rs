//! Addresses, routes and neighbours, by the clock of the test.

use super::*;
use longshore_ports::RxMeta;
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};

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
        Box::new(port),
        &cidrs(addresses),
        &gateways,
        &Automatic::default(),
        false,
        at(0),
    );
    (link, far)
}

type Tried = Result<Link, AddressError>;

fn with(addresses: &[&str], gateways: &[&str]) -> Tried {
    on(&MemoryConfig::default(), addresses, gateways).0
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
    let next = |to: &str| both.routes.lookup(ip(to)).map(|hop| hop.next_hop);
    assert_eq!(next("192.0.2.1"), Some(ip("10.0.0.254")));
    assert_eq!(next("2001:db8::1"), Some(ip("fe80::ff")));
    let only_v6 = with(&["fd00::1/64"], &[]).unwrap();
    assert_eq!(only_v6.source_for(ip("10.0.0.7")), None);
    assert!(!only_v6.is_local(ip("0.0.0.0")) && only_v6.is_local(ip("fd00::1")));
    assert_eq!(only_v6.source_for(ip("2001:db8::1")), None);
}

#[test]
fn what_has_no_link_layer_leads_everywhere() {
    let bare = MemoryConfig {
        ethernet: false,
        ..MemoryConfig::default()
    };
    let (link, _far) = on(&bare, &["10.0.0.1/24", "fd00::1/64"], &[]);
    let link = link.unwrap();
    assert_eq!(link.source_for(ip("192.0.2.1")), Some(ip("10.0.0.1")));
    assert_eq!(link.source_for(ip("2001:db8::1")), Some(ip("fd00::1")));
    assert_eq!(link.addresses().count(), 2, "no link-local address");
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
fn is_asked_again(told: bool) -> bool {
    let (link, mut far) = on(&MemoryConfig::default(), &["10.0.0.1/24"], &[]);
    let (mut link, mut counters) = (link.unwrap(), Counters::new());
    let mut way = |link: &mut Link, now| link.way_to(PEER, now, &mut counters);
    assert_eq!(way(&mut link, at(0)), Way::Wait);
    let answer = ArpPacket {
        operation: arp_wire::Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER,
        target_mac: link.mac,
        target_ip: Ipv4Addr::new(10, 0, 0, 1),
    };
    assert!(link.take_arp(&answer, at(0), &mut Counters::new()));
    assert_eq!(requests(&mut far), 1);
    for second in 1..=120 {
        assert_eq!(way(&mut link, at(second)), Way::Station(PEER_MAC));
        if told {
            link.confirm(PEER.into(), at(second));
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
