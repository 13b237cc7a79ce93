//! The seeds of the fuzz target `packets`, and what it does to frames before it reads them:
//! each parser is reached, whatever became of lengths and checksums.

#[path = "../../../fuzz/fuzz_targets/packets/repair.rs"]
mod repair;

use longshore_wire::dhcp::{CLIENT_PORT, Kind, Reply};
use longshore_wire::ethernet::{EtherType, EthernetHeader, HEADER_LEN};
use longshore_wire::icmpv4::Icmpv4;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::igmp::Query;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::{Ipv6Header, next_header, walk};
use longshore_wire::tcp4::Tcp4;
use longshore_wire::udp::{self, UdpHeader};
use longshore_wire::{arp::ArpPacket, checksum::verify_transport};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

fn seeds() -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/packets");
    let files = std::fs::read_dir(directory).unwrap();
    files
        .map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect()
}

/// Which parsers take this frame, with right checksums where there are any.
fn reached(frame: &[u8], by: &mut BTreeSet<&'static str>) {
    let packet = &frame[HEADER_LEN..];
    match EthernetHeader::parse(frame).unwrap().ether_type {
        EtherType::Arp if ArpPacket::parse(packet).is_ok() => {
            by.insert("arp");
        }
        EtherType::Ipv4 => {
            let Ok((header, payload)) = Ipv4Header::parse(packet) else {
                return;
            };
            let ends = (header.source.into(), header.destination.into());
            if header.more_fragments || header.fragment_offset > 0 {
                by.insert("fragment of IPv4");
                return;
            }
            if Tcp4::read(packet).is_some_and(|tcp| tcp.addresses.verify(tcp.segment)) {
                by.insert("TCP over IPv4");
            }
            let payload = &packet[payload];
            match header.protocol {
                protocol::UDP => udp(payload, ends, by),
                protocol::ICMP if Icmpv4::parse(payload).is_ok() => {
                    by.insert("ICMP");
                }
                // A report is not a query, but its checksum is verified first.
                protocol::IGMP if Query::parse(payload).is_ok() => {
                    by.insert("IGMP");
                }
                _ => {}
            }
        }
        EtherType::Ipv6 => {
            let Ok((header, payload)) = Ipv6Header::parse(packet) else {
                return;
            };
            let payload = &packet[payload];
            let ends = (header.source.into(), header.destination.into());
            let upper = walk(header.next_header, payload).unwrap();
            if upper.fragment.is_some() {
                by.insert("fragment of IPv6");
                return;
            }
            let bytes = &payload[upper.at..];
            match upper.next_header {
                protocol::UDP => udp(bytes, ends, by),
                protocol::TCP if verify_transport(ends.0, ends.1, protocol::TCP, bytes) => {
                    by.insert("TCP over IPv6");
                }
                next_header::ICMPV6 => match Icmpv6::parse(&header, bytes) {
                    Ok(Icmpv6::NeighborSolicit { .. }) => {
                        by.insert("solicitation");
                    }
                    Ok(Icmpv6::RouterAdvert { .. }) => {
                        by.insert("advertisement");
                    }
                    Ok(_) => {
                        by.insert("ICMPv6");
                    }
                    Err(_) => {}
                },
                _ => {}
            }
        }
        _ => {}
    }
}

fn udp(bytes: &[u8], (source, destination): (IpAddr, IpAddr), by: &mut BTreeSet<&'static str>) {
    let Ok(header) = UdpHeader::parse(bytes) else {
        return;
    };
    let datagram = &bytes[..udp::HEADER_LEN + usize::from(header.payload_len)];
    if !verify_transport(source, destination, protocol::UDP, datagram) {
        return;
    }
    by.insert(if source.is_ipv4() {
        "UDP over IPv4"
    } else {
        "UDP over IPv6"
    });
    if header.dst_port == CLIENT_PORT {
        match Reply::parse(&datagram[udp::HEADER_LEN..]).map(|reply| reply.kind) {
            Ok(Kind::Offer) => {
                by.insert("DHCP offer");
            }
            Ok(Kind::Ack) => {
                by.insert("DHCP acknowledgment");
            }
            _ => {}
        }
    }
}

const ALL: [&str; 14] = [
    "DHCP acknowledgment",
    "DHCP offer",
    "ICMP",
    "ICMPv6",
    "IGMP",
    "TCP over IPv4",
    "TCP over IPv6",
    "UDP over IPv4",
    "UDP over IPv6",
    "advertisement",
    "arp",
    "fragment of IPv4",
    "fragment of IPv6",
    "solicitation",
];

/// The bytes of all checksums and lengths are wrong, and all parsers are reached.
#[test]
fn every_parser_is_reached() {
    let mut by = BTreeSet::new();
    let mut broken = BTreeSet::new();
    for mut frame in seeds() {
        let sums: &[usize] = match (frame[12], frame[23], frame[20]) {
            // IPv4's own, its length, and that of what follows 20 bytes of header.
            (0x08, protocol::TCP, _) if frame[13] == 0 => &[16, 24, 50],
            (0x08, protocol::UDP, _) if frame[13] == 0 => &[16, 24, 40],
            (0x08, protocol::ICMP, _) if frame[13] == 0 => &[16, 24, 36],
            (0x08, _, _) if frame[13] == 0 => &[16, 24],
            (0x86, _, protocol::TCP) => &[70],
            (0x86, _, protocol::UDP) => &[60],
            (0x86, _, next_header::ICMPV6) => &[56],
            _ => &[],
        };
        for at in sums {
            frame[*at] ^= 0x80;
        }
        if !sums.is_empty() {
            reached(&frame, &mut broken);
        }
        repair::repair(&mut frame);
        reached(&frame, &mut by);
    }
    assert_eq!(Vec::from_iter(by), ALL);
    // The test breaks what the target has to repair.
    assert!(!broken.contains("TCP over IPv4") && !broken.contains("TCP over IPv6"));
    assert!(
        !broken.contains("UDP over IPv4") && !broken.contains("DHCP offer"),
        "{broken:?}"
    );
}

/// A corpus is small: it is read before each run.
#[test]
fn the_seeds_are_small() {
    let size: usize = seeds().iter().map(Vec::len).sum();
    assert!(size < 50_000, "{size} bytes");
}
