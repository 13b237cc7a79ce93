//! Addresses of IPv6 that are made of what routers advertise (RFC 4862), and the way out by them
//! (RFC 4861).

use super::filtering::{Filter, Filtering};
use super::off_path::GEOMETRY;
use super::single::Single;
use crate::MissingAddress;
use crate::counters::EngineDrop;
use crate::link::automatic::Automatic;
use longshore_hostif::{Features, HostSession, Request, SocketKind};
use longshore_net::stable::Identifiers;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_testbed::packets;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions, PrefixInfo};
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{self, HEADER_LEN, Ipv6Header, next_header};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use longshore_wire::{MacAddr, SeqNumber};
use std::net::{Ipv6Addr, SocketAddr};

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
    filtered().0
}

/// As `single`, with what its port lets through.
fn filtered() -> (Single, Filter) {
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
    let (port, filter) = Filtering::new(port);
    let ends = (Box::new(port) as _, wire);
    let addresses: (&[&str], _) = (&["10.0.0.1/24"], &automatic);
    let single = Single::finding_out(ends, addresses, false, GEOMETRY, 1, Features::empty());
    (single, filter)
}

/// A router advertises the prefix, and itself for so many seconds.
fn advertises(single: &mut Single, lifetime: u16, hop_limit: u8) {
    let (message, options) = advert(lifetime, 0);
    comes(single, &message, &options, hop_limit);
}

/// An advertisement of the prefix, of a router for so many seconds, and of a hop limit (0: none).
fn advert(lifetime: u16, hop_limit: u8) -> (Icmpv6, NdpOptions) {
    let message = Icmpv6::RouterAdvert {
        hop_limit,
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
    (message, options)
}

fn comes(single: &mut Single, message: &Icmpv6, options: &NdpOptions, hop_limit: u8) {
    comes_between(single, (ROUTER, ALL_NODES), (message, options), hop_limit);
}

/// As `comes`, between these.
fn comes_between(
    single: &mut Single,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    (message, options): (&Icmpv6, &NdpOptions),
    hop_limit: u8,
) {
    let mut bytes = vec![0; message.header_len() + options.emitted_len()];
    options.emit(&mut bytes[message.header_len()..]);
    message.emit(source, destination, &mut bytes);
    let ip = Ipv6Header {
        hop_limit,
        ..packet(source, destination, next_header::ICMPV6)
    };
    packet_comes(single, ip, &bytes);
}

/// The header of a packet between these.
fn packet(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8) -> Ipv6Header {
    Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header,
        hop_limit: 64,
        source,
        destination,
    }
}

/// A packet comes that has this behind its header.
fn packet_comes(single: &mut Single, ip: Ipv6Header, bytes: &[u8]) {
    let mut header = [0; HEADER_LEN];
    let ip = Ipv6Header {
        payload_len: bytes.len() as u16,
        ..ip
    };
    ip.emit(&mut header);
    frame_comes(single, &[&header, bytes].concat());
}

/// A packet comes in a frame to us, or to all if it is for more than one host.
fn frame_comes(single: &mut Single, packet: &[u8]) {
    let mut ethernet = ETHERNET;
    if packet[24] != 0xff {
        ethernet[..6].copy_from_slice(&single.stack.link().output.device.mac().0);
    }
    single.frame_in(&[&ethernet, packet].concat());
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
    let of_link = |single: &Single| single.stack.link().addresses.link_local();
    let own = of_link(&single);
    let first = made(&single)[0];
    comes(&mut single, &taken(first), &NdpOptions::default(), HOPS);
    settle(&mut single);
    let another = made(&single).into_iter().find(|own| *own != first);
    assert!(another.is_some());
    assert!(has_way(&single, NEAR));
    assert_eq!(of_link(&single), own, "that of the link is another");
}

/// RFC 4862 section 5.4.2, RFC 3810 section 9.14.1: switches hear of an address's group before it is
/// claimed, from nobody, and once more from the address when it is ours.
#[test]
fn the_group_of_an_address_is_reported_before_and_after_its_claim() {
    let mut single = single();
    settle(&mut single);
    let link_local = single.stack.link().addresses.link_local().unwrap();
    let all = sent(&mut single).into_iter();
    let claims = |ip: &Ipv6Header, bytes: &[u8]| {
        let target = Icmpv6::NeighborSolicit { target: link_local };
        ip.destination == ipv6::solicited_node(link_local)
            && Icmpv6::parse(ip, bytes).is_ok_and(|message| message == target)
    };
    let of_one = |(_, ip, bytes): ([u8; 6], Ipv6Header, Vec<u8>)| {
        let is_report = ip.next_header == next_header::HOP_BY_HOP;
        (is_report || claims(&ip, &bytes)).then_some((ip.next_header, ip.source))
    };
    let all: Vec<_> = all.filter_map(of_one).collect();
    let report = next_header::HOP_BY_HOP;
    assert_eq!(all.first(), Some(&(report, Ipv6Addr::UNSPECIFIED)));
    let claim = (next_header::ICMPV6, Ipv6Addr::UNSPECIFIED);
    assert!(all.contains(&claim), "{all:?}");
    let is_ours = |(kind, from): &(u8, Ipv6Addr)| *kind == report && from.is_unicast_link_local();
    assert!(all.iter().any(is_ours), "{all:?}");
    // RFC 3810 section 5.2.13: and from no other that is made later.
    advertises(&mut single, 0, HOPS);
    settle(&mut single);
    assert!(single.stack.status().is_local(made(&single)[0].into()));
    let of_others = |(_, ip, _): &([u8; 6], Ipv6Header, Vec<u8>)| {
        ip.next_header == report
            && !ip.source.is_unspecified()
            && !ip.source.is_unicast_link_local()
    };
    assert!(!sent(&mut single).iter().any(of_others));
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

/// RFC 4861 section 6.3.4: what belongs to no socket leaves with the hop limit that the router has
/// said, too: a reply, an error and a reset.
#[test]
fn answers_have_the_hop_limit_that_the_router_says() {
    const SAID: u8 = 33;
    let mut single = single();
    settle(&mut single);
    let (message, mut options) = advert(1_800, SAID);
    options.source_link = Some(ROUTER_MAC);
    comes(&mut single, &message, &options, HOPS);
    settle(&mut single);
    let ours = made(&single)[0];
    single.packets();
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    let behind = (&request, &NdpOptions::default());
    comes_between(&mut single, (ROUTER, ours), behind, 64);
    // Of a protocol that nobody speaks.
    packet_comes(&mut single, packet(ROUTER, ours, 253), &[0; 8]);
    let segment = TcpHeader {
        src_port: 9,
        dst_port: 9,
        ..super::single::header(0, TcpFlags::ACK, SeqNumber(1), SeqNumber(1))
    };
    let between = (ROUTER.into(), ours.into());
    let whole = packets::segment(between, &segment, &[]);
    frame_comes(&mut single, &whole);
    let answers = sent(&mut single).into_iter();
    let answers: Vec<_> = answers
        .map(|(_, ip, _)| (ip.next_header, ip.hop_limit))
        .collect();
    let [icmp, tcp] = [next_header::ICMPV6, protocol::TCP].map(|kind| (kind, SAID));
    assert_eq!(answers, [icmp, icmp, tcp]);
    // So does what a socket sends that is opened from then on.
    let socket = super::ipv6::open(&mut single, SocketKind::Stream);
    let connect = Request::Connect {
        socket,
        tag: 1,
        waiter: None,
        peer: SocketAddr::new(FAR.into(), 80).into(),
    };
    single.ask(0, &connect);
    single.turn();
    let hops = sent(&mut single).into_iter().map(|(_, ip, _)| ip.hop_limit);
    assert_eq!(hops.collect::<Vec<_>>(), [SAID]);
}

/// The port lets through what is for addresses of either version, one that is made of an
/// advertisement before it is claimed.
#[test]
fn the_port_is_told_of_addresses_that_are_made() {
    let (mut single, filter) = filtered();
    let shown = |single: &Single| {
        let all = single.stack.status().addresses();
        let all: Vec<_> = all.map(|own| (own.address, own.prefix_len)).collect();
        assert_eq!(filter.addresses(), (all.clone(), false));
        all.len()
    };
    settle(&mut single);
    advertises(&mut single, 0, HOPS);
    assert_eq!(shown(&single), 3, "of IPv4, of the link, of the prefix");
    // Another takes the place of one that another host has.
    let has_it = taken(made(&single)[0]);
    comes(&mut single, &has_it, &NdpOptions::default(), HOPS);
    assert_eq!(shown(&single), 4);
    // The prefix is over.
    single.turn_after(86_400_000_000);
    single.turn();
    let status = single.stack.status();
    let mut own = made(&single).into_iter();
    assert!(own.all(|own| !status.is_local(own.into())));
    shown(&single);
}

/// Another host says that it has this address.
fn taken(target: Ipv6Addr) -> Icmpv6 {
    Icmpv6::NeighborAdvert {
        router: false,
        solicited: false,
        override_known: true,
        target,
    }
}

/// RFC 7217 section 6: the address on the link is replaced, too, and asked from.
#[test]
fn another_address_of_the_link_is_made_where_that_is_taken() {
    let mut single = single();
    let of_link = |single: &Single| single.stack.link().addresses.link_local();
    let first = of_link(&single).expect("an address of the link");
    single.turn_after(1_000_000);
    assert_eq!(single.dropped(EngineDrop::DuplicateAddress.name()), 0);
    comes(&mut single, &taken(first), &NdpOptions::default(), HOPS);
    assert_eq!(single.dropped(EngineDrop::DuplicateAddress.name()), 1);
    settle(&mut single);
    let second = of_link(&single).expect("an address of the link");
    assert_ne!(first, second);
    assert!(single.stack.status().is_local(second.into()));
    assert!(!single.stack.status().is_local(first.into()));
    // One that is ours for certain stays so.
    comes(&mut single, &taken(second), &NdpOptions::default(), HOPS);
    assert_eq!(of_link(&single), Some(second));
    assert!(single.stack.status().is_local(second.into()));
    assert_eq!(single.dropped(EngineDrop::DuplicateAddress.name()), 1);
}

/// RFC 4861 section 6.3.4: a router is one as long as it has said.
#[test]
fn a_router_is_one_as_long_as_it_has_said() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 100, HOPS);
    single.turn_after(99_000_000);
    single.turn();
    assert!(has_way(&single, FAR) && has_way(&single, NEAR));
    single.turn_after(1_000_000);
    single.turn();
    assert!(!has_way(&single, FAR) && has_way(&single, NEAR));
}

/// RFC 4861 sections 6.3.6, 7.3.3: of two routers the other is taken when the first does not answer,
/// and the first as long as it does.
#[test]
fn a_router_that_does_not_answer_is_replaced() {
    const OTHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 8);
    const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);
    for answers in [true, false] {
        let mut single = single();
        settle(&mut single);
        for (router, mac) in [(ROUTER, ROUTER_MAC), (OTHER, OTHER_MAC)] {
            let (message, mut options) = advert(1_800, 0);
            options.source_link = Some(mac);
            comes_between(&mut single, (router, ALL_NODES), (&message, &options), HOPS);
        }
        settle(&mut single);
        let ours = made(&single)[0];
        let by = |single: &Single| {
            let routes = single.stack.link().output.hops.routes();
            routes.lookup(FAR.into()).map(|hop| hop.next_hop)
        };
        assert_eq!(by(&single), Some(ROUTER.into()));
        // Somebody far away is answered through it, and asks all the time.
        let request = Icmpv6::EchoRequest {
            identifier: 3,
            sequence: 4,
        };
        let (mut probed, mut repliers) = (0, vec![]);
        for _ in 0..60 {
            let none = &NdpOptions::default();
            comes_between(&mut single, (FAR, ours), (&request, none), 64);
            single.turn_after(1_000_000);
            for (to, ip, message) in messages(&mut single) {
                match message {
                    Icmpv6::NeighborSolicit { target } => {
                        probed += u64::from(target == ROUTER);
                        if answers || target == OTHER {
                            let advert = Icmpv6::NeighborAdvert {
                                router: true,
                                solicited: true,
                                override_known: false,
                                target,
                            };
                            let behind = (&advert, none);
                            comes_between(&mut single, (target, ip.source), behind, HOPS);
                        }
                    }
                    Icmpv6::EchoReply { .. } => repliers.push(to),
                    _ => {}
                }
            }
        }
        assert!(probed > 0);
        let (router, last) = match answers {
            true => (ROUTER, ROUTER_MAC),
            false => (OTHER, OTHER_MAC),
        };
        assert_eq!(by(&single), Some(router.into()));
        assert_eq!(repliers.first(), Some(&ROUTER_MAC.0));
        assert_eq!(repliers.last(), Some(&last.0));
    }
}

/// RFC 4861 section 7.2.4, RFC 4862 section 5.4.3: who wants to have an address that is ours, and so
/// asks from nobody, is told before all.
#[test]
fn who_claims_an_address_of_ours_is_told_before_all() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 0, HOPS);
    settle(&mut single);
    let ours = made(&single)[0];
    single.packets();
    let claim = Icmpv6::NeighborSolicit { target: ours };
    let between = (Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(ours));
    let none = NdpOptions::default();
    comes_between(&mut single, between, (&claim, &none), HOPS);
    let answers = messages(&mut single);
    let answers: Vec<_> = answers
        .iter()
        .map(|(_, ip, message)| (ip.destination, *message))
        .collect();
    let tells = Icmpv6::NeighborAdvert {
        router: false,
        solicited: false,
        override_known: true,
        target: ours,
    };
    assert_eq!(answers, [(ALL_NODES, tells)]);
    assert_eq!(made(&single), [ours]);
    assert_eq!(single.dropped(EngineDrop::DuplicateAddress.name()), 0);
}

/// RFC 4862 section 5.4.3: who asks for an address that we claim takes it from us if he asks from
/// nobody, which is a claim, and from an address does not.
#[test]
fn a_claim_takes_an_address_that_is_not_ours_yet() {
    for (asker, is_taken) in [(Ipv6Addr::UNSPECIFIED, true), (ROUTER, false)] {
        let mut single = single();
        settle(&mut single);
        advertises(&mut single, 0, HOPS);
        let claimed = made(&single)[0];
        let claim = Icmpv6::NeighborSolicit { target: claimed };
        let between = (asker, ipv6::solicited_node(claimed));
        let none = NdpOptions::default();
        comes_between(&mut single, between, (&claim, &none), HOPS);
        let count = single.dropped(EngineDrop::DuplicateAddress.name());
        assert_eq!(count, u64::from(is_taken), "{asker}");
        settle(&mut single);
        let has = single.stack.status().is_local(claimed.into());
        assert_eq!(has, !is_taken, "{asker}");
    }
}

/// RFC 4861 sections 6.3.4, 7.2.3: what waits for a neighbour goes as soon as that asks for us or
/// advertises itself, as well as when it answers.
#[test]
fn what_waits_for_a_neighbour_goes_when_it_is_heard_of() {
    for asks in [true, false] {
        goes_when_it_is_heard_of(asks);
    }
}

fn goes_when_it_is_heard_of(asks: bool) {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 1_800, HOPS);
    settle(&mut single);
    single.packets();
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    comes(&mut single, &request, &NdpOptions::default(), 64);
    let is_reply = |(_, _, message): &([u8; 6], Ipv6Header, Icmpv6)| {
        matches!(message, Icmpv6::EchoReply { .. })
    };
    assert!(!messages(&mut single).iter().any(is_reply));
    let solicit = Icmpv6::NeighborSolicit {
        target: made(&single)[0],
    };
    let (message, mut options) = match asks {
        true => (solicit, NdpOptions::default()),
        false => advert(1_800, 0),
    };
    options.source_link = Some(ROUTER_MAC);
    comes(&mut single, &message, &options, HOPS);
    let all = messages(&mut single);
    let reply = all.iter().find(|sent| is_reply(sent)).expect("the reply");
    assert_eq!(reply.0, ROUTER_MAC.0);
}

/// RFC 4861 sections 7.2.2, 10: a neighbour is asked for three times, a second apart or as the router
/// says, and what waits for it is dropped then, and counted.
#[test]
fn a_neighbour_that_is_not_there_is_given_up() {
    const SAID_MS: u32 = 400;
    for (retransmit_ms, ms) in [(0, 1_000), (SAID_MS, SAID_MS)] {
        let mut single = single();
        settle(&mut single);
        let (mut message, options) = advert(1_800, 0);
        if let Icmpv6::RouterAdvert {
            retransmit_ms: said,
            ..
        } = &mut message
        {
            *said = retransmit_ms;
        }
        comes(&mut single, &message, &options, HOPS);
        settle(&mut single);
        let ours = made(&single)[0];
        single.packets();
        let request = Icmpv6::EchoRequest {
            identifier: 3,
            sequence: 4,
        };
        let none = NdpOptions::default();
        comes_between(&mut single, (NEAR, ours), (&request, &none), 64);
        let asked = |single: &mut Single| {
            let all = messages(single).into_iter();
            all.filter(|(_, _, message)| *message == Icmpv6::NeighborSolicit { target: NEAR })
                .count()
        };
        assert_eq!(asked(&mut single), 1);
        let unresolved = |single: &Single| single.dropped(EngineDrop::Unresolved.name());
        for again in [1, 1, 0] {
            assert_eq!(unresolved(&single), 0);
            single.turn_after(u64::from(ms) * 1_000);
            assert_eq!(asked(&mut single), again);
        }
        assert_eq!(unresolved(&single), 1);
    }
}

/// RFC 4429 section 3.3: who was asked for from an address that was not ours for certain, and so had
/// nowhere to answer to, is asked again as soon as it is.
#[test]
fn a_neighbour_is_asked_again_when_our_address_is_certain() {
    let mut single = single();
    settle(&mut single);
    advertises(&mut single, 1_800, HOPS);
    let ours = made(&single)[0];
    // Half a second before it is.
    let claim = Icmpv6::NeighborSolicit { target: ours };
    let is_claim = |(_, _, message): &([u8; 6], Ipv6Header, Icmpv6)| *message == claim;
    while !messages(&mut single).iter().any(is_claim) {
        single.turn_after(10_000);
    }
    single.turn_after(500_000);
    single.packets();
    let request = Icmpv6::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    let none = NdpOptions::default();
    comes_between(&mut single, (NEAR, ours), (&request, &none), 64);
    let asked = |single: &mut Single| {
        let all = sent(single).into_iter();
        let of_near = all.filter(|(_, ip, _)| ip.destination == ipv6::solicited_node(NEAR));
        let says_where = |(_, _, bytes): ([u8; 6], Ipv6Header, Vec<u8>)| {
            let options = NdpOptions::parse(&bytes[24..]).expect("options");
            options.source_link.is_some()
        };
        of_near.map(says_where).collect::<Vec<_>>()
    };
    assert_eq!(asked(&mut single), [false]);
    // In steps of a twentieth of a second: how many after it was asked for last that is.
    let mut steps = 0;
    let says_where = loop {
        single.turn_after(50_000);
        steps += 1;
        match asked(&mut single)[..] {
            [] => {}
            [false] => steps = 0,
            ref all => break all == [true],
        }
        assert!(steps < 40);
    };
    assert!(says_where && steps < 19, "{steps}");
}

/// RFC 8106: resolvers are not taken from a router, which is counted.
#[test]
fn resolvers_of_a_router_are_counted() {
    let mut single = single();
    settle(&mut single);
    const RESOLVERS: [u8; 2] = [25, 3];
    const MTU: [u8; 2] = [5, 1];
    for (kind, count) in [(MTU, 0), (RESOLVERS, 1)] {
        let (message, _) = advert(1_800, 0);
        let begins = message.header_len();
        let mut bytes = vec![0; begins + 8 * usize::from(kind[1])];
        bytes[begins..begins + 2].copy_from_slice(&kind);
        message.emit(ROUTER, ALL_NODES, &mut bytes);
        let ip = Ipv6Header {
            hop_limit: HOPS,
            ..packet(ROUTER, ALL_NODES, next_header::ICMPV6)
        };
        packet_comes(&mut single, ip, &bytes);
        assert_eq!(single.dropped(EngineDrop::RouterDns.name()), count);
    }
}
