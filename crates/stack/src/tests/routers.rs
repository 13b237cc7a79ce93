//! Addresses of IPv6 that are made of what routers advertise (RFC 4862), and the way out by them
//! (RFC 4861).

use super::off_path::GEOMETRY;
use super::single::Single;
use crate::MissingAddress;
use crate::link::automatic::Automatic;
use longshore_hostif::{Features, HostSession};
use longshore_net::stable::Identifiers;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::MacAddr;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions, PrefixInfo};
use longshore_wire::ipv6::{HEADER_LEN, Ipv6Header, next_header};
use std::net::Ipv6Addr;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
const NEAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
/// What the router says of the link.
const LINK_MTU: u32 = 1_400;
const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
/// From the router to all nodes, IPv6 (RFC 2464).
const ETHERNET: [u8; 14] = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
/// RFC 4861 section 6.1.2: what has come over a router is not taken.
const HOPS: u8 = 255;

/// A stack that makes its addresses of IPv6.
fn single() -> Single {
    let wire = MemoryConfig {
        offloads: false,
        depth: 10_000,
        ..MemoryConfig::default()
    };
    let (port, wire) = pair(&wire);
    let automatic = Automatic {
        dhcp: None,
        routers: Some(Identifiers::new([7; 32], b"wire")),
    };
    let ends = (Box::new(port) as _, wire);
    let addresses: (&[&str], _) = (&["10.0.0.1/24"], &automatic);
    Single::finding_out(ends, addresses, false, GEOMETRY, 1, Features::empty())
}

/// A router advertises the prefix, and itself for so many seconds.
fn advertises(single: &mut Single, lifetime: u16, hop_limit: u8) {
    let message = Icmpv6::RouterAdvert {
        hop_limit: 0,
        managed: false,
        other: false,
        lifetime,
        reachable_ms: 0,
        retransmit_ms: 0,
    };
    let mut options = NdpOptions {
        mtu: Some(LINK_MTU),
        ..NdpOptions::default()
    };
    options.prefixes[0] = Some(PrefixInfo {
        prefix: PREFIX,
        len: 64,
        on_link: true,
        autonomous: true,
        valid: 86_400,
        preferred: 14_400,
    });
    comes(single, &message, &options, hop_limit);
}

fn comes(single: &mut Single, message: &Icmpv6, options: &NdpOptions, hop_limit: u8) {
    let mut bytes = vec![0; message.header_len() + options.emitted_len()];
    options.emit(&mut bytes[message.header_len()..]);
    message.emit(ROUTER, ALL_NODES, &mut bytes);
    let mut header = [0; HEADER_LEN];
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: bytes.len() as u16,
        next_header: next_header::ICMPV6,
        hop_limit,
        source: ROUTER,
        destination: ALL_NODES,
    };
    ip.emit(&mut header);
    let frame = [&ETHERNET[..], &header, &bytes].concat();
    single.frame_in(&frame);
    single.turn();
}

/// So long that what was claimed is ours.
fn settle(single: &mut Single) {
    (0..5).for_each(|_| single.turn_after(1_000_000));
}

/// What was sent of IPv6: where to, the header, and what is behind it.
fn sent(single: &mut Single) -> Vec<([u8; 6], Ipv6Header, Vec<u8>)> {
    let frames = single.packets().into_iter();
    let of_ipv6 = frames.filter(|frame| frame[12..14] == ETHERNET[12..]);
    let split = |frame: Vec<u8>| {
        let packet = &frame[ETHERNET.len()..];
        let (ip, range) = Ipv6Header::parse(packet).expect("IPv6");
        let mut to = [0; 6];
        to.copy_from_slice(&frame[..6]);
        (to, ip, packet[range].to_vec())
    };
    of_ipv6.map(split).collect()
}

/// The messages among them.
fn messages(single: &mut Single) -> Vec<([u8; 6], Ipv6Header, Icmpv6)> {
    let all = sent(single).into_iter();
    let of_icmp = all.filter(|(_, ip, _)| ip.next_header == next_header::ICMPV6);
    let parse = |(to, ip, bytes): ([u8; 6], Ipv6Header, Vec<u8>)| {
        let message = Icmpv6::parse(&ip, &bytes).expect("a message with the right sum");
        (to, ip, message)
    };
    of_icmp.map(parse).collect()
}

/// The addresses that were made of the prefix.
fn made(single: &Single) -> Vec<Ipv6Addr> {
    let all = single.stack.status().addresses();
    all.filter_map(|own| match own.address {
        std::net::IpAddr::V6(own) if own.segments()[..4] == PREFIX.segments()[..4] => Some(own),
        _ => None,
    })
    .collect()
}

/// Whether programs are told that the engine has a way to this address.
fn has_way(single: &Single, to: Ipv6Addr) -> bool {
    let host = HostSession::of(&single.arena);
    host.routes().iter().any(|route| route.contains(to.into()))
}

#[test]
fn an_address_and_a_way_out_are_made_of_an_advertisement() {
    let missing = |single: &Single| single.stack.status().missing_addresses();
    let mut single = single();
    settle(&mut single);
    // One that has come over a router is nobody's.
    advertises(&mut single, 1_800, HOPS - 1);
    settle(&mut single);
    assert_eq!(missing(&single), Some(MissingAddress::Router));
    assert!(made(&single).is_empty() && !has_way(&single, NEAR));
    // A prefix alone, and then a router that is for all else.
    advertises(&mut single, 0, HOPS);
    settle(&mut single);
    assert_eq!(missing(&single), None);
    assert_eq!(made(&single).len(), 1);
    assert!(has_way(&single, NEAR) && !has_way(&single, FAR));
    advertises(&mut single, 1_800, HOPS);
    settle(&mut single);
    assert!(has_way(&single, NEAR) && has_way(&single, FAR));
    // It is one no longer.
    advertises(&mut single, 0, HOPS);
    settle(&mut single);
    assert!(has_way(&single, NEAR) && !has_way(&single, FAR));
    assert_eq!(made(&single).len(), 1);
}

/// RFC 7217 section 6: another is made in the place of an address that, as it is claimed, another host
/// has.
#[test]
fn another_address_is_made_where_one_is_taken() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 0, HOPS);
    let first = made(&single)[0];
    let has_it = Icmpv6::NeighborAdvert {
        router: false,
        solicited: false,
        override_known: true,
        target: first,
    };
    comes(&mut single, &has_it, &NdpOptions::default(), HOPS);
    settle(&mut single);
    let another = made(&single).into_iter().find(|own| *own != first);
    assert!(another.is_some());
    assert!(has_way(&single, NEAR));
}

/// RFC 4862 section 5.4.2, RFC 3810 section 9.14.1: switches hear of an address's group before it is
/// claimed, from nobody, and once more from the address when it is ours.
#[test]
fn the_group_of_an_address_is_reported_before_and_after_its_claim() {
    let mut single = single();
    settle(&mut single);
    let all = sent(&mut single).into_iter();
    let all: Vec<_> = all.map(|(_, ip, _)| (ip.next_header, ip.source)).collect();
    let report = next_header::HOP_BY_HOP;
    assert_eq!(all.first(), Some(&(report, Ipv6Addr::UNSPECIFIED)));
    let claim = (next_header::ICMPV6, Ipv6Addr::UNSPECIFIED);
    assert!(all.contains(&claim), "{all:?}");
    let is_ours = |(kind, from): &(u8, Ipv6Addr)| *kind == report && from.is_unicast_link_local();
    assert!(all.iter().any(is_ours), "{all:?}");
}

/// RFC 4861 sections 6.3.4, 7.2: the MTU is that which the router has said; a neighbour is asked for
/// before it is answered.
#[test]
fn a_neighbour_is_asked_for_and_answered_as_the_router_says() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 1_800, HOPS);
    settle(&mut single);
    let host = HostSession::of(&single.arena);
    assert_eq!(host.routes().link_mtu(FAR.into()), LINK_MTU as usize);
    single.packets();
    let none = NdpOptions::default();
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    comes(&mut single, &request, &none, 64);
    let asked = messages(&mut single);
    let solicit = Icmpv6::NeighborSolicit { target: ROUTER };
    assert!(asked.iter().all(|(_, _, message)| *message == solicit));
    assert!(!asked.is_empty());
    // To all nodes, so that it is no answer (RFC 4861 section 7.1.2).
    let advert = Icmpv6::NeighborAdvert {
        router: true,
        solicited: false,
        override_known: true,
        target: ROUTER,
    };
    let options = NdpOptions {
        target_link: Some(ROUTER_MAC),
        ..none
    };
    comes(&mut single, &advert, &options, HOPS);
    let answered = messages(&mut single);
    let (to, ip, reply) = answered.first().expect("a reply");
    assert_eq!((*to, ip.destination), (ROUTER_MAC.0, ROUTER));
    assert!(matches!(reply, Icmpv6::EchoReply { .. }), "{reply:?}");
}

/// RFC 4861 section 7.2.4: who asks for one of our addresses is told, and for no other.
#[test]
fn who_asks_for_an_address_is_told_where_it_is() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 0, HOPS);
    settle(&mut single);
    let ours = made(&single)[0];
    let options = NdpOptions {
        source_link: Some(ROUTER_MAC),
        ..NdpOptions::default()
    };
    for (target, is_told) in [(ours, true), (NEAR, false)] {
        single.packets();
        let solicit = Icmpv6::NeighborSolicit { target };
        comes(&mut single, &solicit, &options, HOPS);
        let answers = messages(&mut single);
        let tells = |(to, ip, message): &([u8; 6], Ipv6Header, Icmpv6)| {
            let is_of = |of: Ipv6Addr| of == target && ip.destination == ROUTER;
            *to == ROUTER_MAC.0
                && matches!(*message, Icmpv6::NeighborAdvert { solicited: true, target, .. } if is_of(target))
        };
        assert_eq!(answers.iter().any(tells), is_told, "{target} {answers:?}");
    }
}

/// RFC 3810 section 5.1.14: a query that has come over a router is nobody's.
#[test]
fn who_asks_for_groups_is_told_ours() {
    let mut single = single();
    settle(&mut single);
    let query = Icmpv6::MulticastQuery {
        max_response: 1_000,
        group: Ipv6Addr::UNSPECIFIED,
    };
    for (hop_limit, is_told) in [(1, true), (2, false)] {
        single.packets();
        comes(&mut single, &query, &NdpOptions::default(), hop_limit);
        let told = sent(&mut single).into_iter();
        let mut reports = told.filter(|(_, ip, _)| ip.next_header == next_header::HOP_BY_HOP);
        let is_ours = |(_, ip, _): ([u8; 6], Ipv6Header, Vec<u8>)| {
            ip.source.is_unicast_link_local() && ip.destination.is_multicast()
        };
        assert_eq!(reports.any(is_ours), is_told, "{hop_limit}");
    }
}
