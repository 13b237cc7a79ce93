//! What waits for a neighbour, of both versions, by the clock of the test.

use super::*;
use crate::address_pair::{AddressPair, Service};
use crate::link::automatic::Automatic;
use crate::link::{Interface, UdpForm};
use crate::secrets::Secrets;
use longshore_net::Cidr;
use longshore_ports::Port;
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_wire::MacAddr;
use longshore_wire::arp::{self, ArpPacket};
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::udp::UdpHeader;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn at(seconds: u64) -> Instant {
    Instant(1 + seconds * 1_000_000)
}

fn link() -> (Link, MemoryPort) {
    let (port, far) = pair(&MemoryConfig::default());
    let addresses: Vec<Cidr> = ["10.0.0.1/24", "fd00::1/64"]
        .iter()
        .map(|a| a.parse().unwrap())
        .collect();
    let automatic = Automatic::default();
    let link = Link::new(
        Interface {
            port: Box::new(port),
            addresses: &addresses,
            gateways: &[],
            automatic: &automatic,
        },
        false,
        &Secrets::from_seed(1),
        at(0),
    );
    let (mut link, mut counters) = (link.unwrap(), Counters::new());
    // Up to the end of what new addresses do.
    for second in 0..10 {
        link.poll_neighbors(at(second), &mut counters);
    }
    (link, far)
}

fn dropped(counters: &Counters, name: &str) -> u64 {
    let mut drops = counters.drops();
    drops
        .find_map(|(n, count)| (n == name).then_some(count))
        .unwrap_or(0)
}

/// Frames at the far end whose packets carry UDP: to whom, of which version, and payload.
fn datagrams(far: &mut MemoryPort) -> Vec<(MacAddr, u8, Vec<u8>)> {
    let mut frame = vec![0; longshore_ports::RECV_ROOM];
    let mut all = Vec::new();
    while let Some(meta) = far.recv(&mut frame).unwrap() {
        let body = &frame[ethernet::HEADER_LEN..meta.len];
        let (version, protocol, header) = match body[0] >> 4 {
            4 if frame[12..14] == [8, 0] => (4, body[9], 20),
            6 => (6, body[6], 40),
            _ => continue,
        };
        if protocol == protocol::UDP {
            let to = MacAddr(*frame.first_chunk().unwrap());
            // The checksum is complete: nobody makes it later.
            let (message, len) = (&body[header..], (body.len() - header) as u32);
            let pseudo = match destination(body) {
                Some(IpAddr::V4(to)) => Partial::of_pseudo_v4(US, to, protocol, len),
                Some(IpAddr::V6(to)) => {
                    let from = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
                    Partial::of_pseudo_v6(from, to, protocol, len)
                }
                None => unreachable!(),
            };
            assert_eq!(pseudo.plus(Partial::of(message)).finish(), 0);
            all.push((to, version, message[8..].to_vec()));
        }
    }
    all
}

fn send(link: &mut Link, to: IpAddr, payload: &[u8], counters: &mut Counters) {
    let from: IpAddr = match to {
        IpAddr::V4(_) => US.into(),
        IpAddr::V6(_) => "fd00::1".parse().unwrap(),
    };
    let addresses = AddressPair::new(from, to).unwrap();
    let hop = link.next_hop_between(&addresses, at(10), counters);
    assert_eq!(hop, NextHop::Resolving);
    let header = UdpHeader {
        src_port: 1,
        dst_port: 2,
        payload_len: payload.len() as u16,
        checksum: 0,
    };
    let pieces = [IoSlice::new(payload)];
    link.output
        .send_udp(
            &addresses,
            hop,
            Service::DEFAULT,
            &header,
            &pieces,
            UdpForm::Whole,
        )
        .unwrap();
}

fn arp_answer(link: &Link) -> ArpPacket {
    ArpPacket {
        operation: arp::Operation::Reply,
        sender_mac: PEER_MAC,
        sender_ip: PEER,
        target_mac: link.output.device.mac(),
        target_ip: US,
    }
}

#[test]
fn packets_go_when_their_neighbour_answers() {
    let ((mut link, mut far), mut counters) = (link(), Counters::new());
    for payload in [b"one", b"two"] {
        send(&mut link, PEER.into(), payload, &mut counters);
        send(&mut link, PEER6.into(), payload, &mut counters);
    }
    assert!(datagrams(&mut far).is_empty());
    let answer = arp_answer(&link);
    assert!(link.take_arp(&answer, at(11), &mut counters));
    let expected = |version| [b"one", b"two"].map(|payload| (PEER_MAC, version, payload.to_vec()));
    assert_eq!(datagrams(&mut far), expected(4));
    let advert = Icmpv6::NeighborAdvert {
        router: false,
        solicited: true,
        override_known: true,
        target: PEER6,
    };
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 32,
        next_header: ipv6::next_header::ICMPV6,
        hop_limit: 255,
        source: PEER6,
        destination: "fd00::1".parse().unwrap(),
    };
    // The option with its hardware address (RFC 4861 section 4.6.1).
    let options = [2, 1, 2, 0, 0, 0, 0, 9];
    assert!(link.take_ndp(&ip, &advert, &options, at(11), &mut counters));
    assert_eq!(datagrams(&mut far), expected(6));
    assert_eq!(dropped(&counters, "neighbor_unresolved"), 0);
}

#[test]
fn packets_are_dropped_and_counted_when_it_is_given_up_or_they_are_too_many() {
    let ((mut link, mut far), mut counters) = (link(), Counters::new());
    for n in 0u16..260 {
        send(&mut link, PEER.into(), &n.to_be_bytes(), &mut counters);
    }
    send(&mut link, PEER6.into(), b"six", &mut counters);
    for second in 11..20 {
        link.poll_neighbors(at(second), &mut counters);
    }
    assert_eq!(dropped(&counters, "neighbor_queue_full"), 4);
    assert_eq!(dropped(&counters, "neighbor_unresolved"), 257);
    let answer = arp_answer(&link);
    link.take_arp(&answer, at(20), &mut counters);
    assert!(datagrams(&mut far).is_empty());
}

#[test]
fn a_destination_is_read_of_either_header() {
    let header = Ipv4Header {
        tos: 0,
        payload_len: 0,
        identification: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 1,
        protocol: protocol::UDP,
        source: US,
        destination: PEER,
    };
    let mut packet = [0; 20];
    header.emit(&mut packet);
    assert_eq!(destination(&packet), Some(PEER.into()));
    assert_eq!(destination(&packet[..19]), None);
    assert_eq!(destination(&[]), None);
    assert_eq!(destination(&[0x60; 39]), None);
}
