//! Addresses of IPv6 that are made of what routers advertise (RFC 4862), and the way out by them
//! (RFC 4861).

use super::off_path::GEOMETRY;
use super::single::Single;
use crate::MissingAddress;
use crate::link::automatic::Automatic;
use longshore_hostif::{Features, HostSession};
use longshore_net::stable::Identifiers;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::icmpv6::{Icmpv6, NdpOptions, PrefixInfo};
use longshore_wire::ipv6::{HEADER_LEN, Ipv6Header, next_header};
use std::net::Ipv6Addr;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
const NEAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
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
    let mut options = NdpOptions::default();
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
    let [first] = made(&single)[..] else {
        panic!("one address");
    };
    let has_it = Icmpv6::NeighborAdvert {
        router: false,
        solicited: false,
        override_known: true,
        target: first,
    };
    comes(&mut single, &has_it, &NdpOptions::default(), HOPS);
    settle(&mut single);
    let [second] = made(&single)[..] else {
        panic!("one address");
    };
    assert_ne!(second, first);
    assert!(has_way(&single, NEAR));
}

/// RFC 4862 section 5.4.2, RFC 3810 section 9.14.1: switches hear of an address's group before it is
/// claimed, from nobody, and once more from the address when it is ours.
#[test]
fn the_group_of_an_address_is_reported_before_and_after_its_claim() {
    let mut single = single();
    settle(&mut single);
    let frames = single.packets().into_iter();
    let all: Vec<(u8, Ipv6Addr)> = frames
        .filter(|frame| frame[12..14] == ETHERNET[12..])
        .map(|frame| {
            let (ip, _) = Ipv6Header::parse(&frame[ETHERNET.len()..]).expect("IPv6");
            (ip.next_header, ip.source)
        })
        .collect();
    let report = next_header::HOP_BY_HOP;
    assert_eq!(all.first(), Some(&(report, Ipv6Addr::UNSPECIFIED)));
    let claim = (next_header::ICMPV6, Ipv6Addr::UNSPECIFIED);
    assert!(all.contains(&claim), "{all:?}");
    let is_ours = |(kind, from): &(u8, Ipv6Addr)| *kind == report && from.is_unicast_link_local();
    assert!(all.iter().any(is_ours), "{all:?}");
}
