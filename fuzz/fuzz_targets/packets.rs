//! Frames as they could come from the wire: nothing may panic, no payload may lie outside
//! of its packet, and what reads a frame in one go reads what the single headers say. Each
//! is read as it is, and once more with its lengths and checksums made right.
#![no_main]

#[path = "packets/repair.rs"]
mod repair;

use libfuzzer_sys::fuzz_target;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::verify_transport;
use longshore_wire::dhcp::{CLIENT_PORT, Reply};
use longshore_wire::ethernet::{EtherType, EthernetHeader, HEADER_LEN};
use longshore_wire::icmpv4::Icmpv4;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions};
use longshore_wire::igmp::Query;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::{Ipv6Header, next_header, walk};
use longshore_wire::tcp::TcpHeader;
use longshore_wire::tcp4::Tcp4;
use longshore_wire::tcp6::CachedHeaders6;
use longshore_wire::udp::{self, UdpHeader};
use std::net::IpAddr;

fuzz_target!(|frame: &[u8]| {
    read(frame, false);
    let mut repaired = frame.to_vec();
    repair::repair(&mut repaired);
    read(&repaired, true);
});

/// Reads all that a frame holds; `repaired` if its sums must be right.
fn read(frame: &[u8], repaired: bool) {
    let Ok(ethernet) = EthernetHeader::parse(frame) else {
        return;
    };
    let Some((link, packet)) = frame.split_first_chunk::<HEADER_LEN>() else {
        return;
    };
    match ethernet.ether_type {
        EtherType::Arp => {
            let _ = ArpPacket::parse(packet);
        }
        EtherType::Ipv4 => ipv4(link, frame, packet, repaired),
        EtherType::Ipv6 => ipv6(link, frame, packet, repaired),
        _ => {}
    }
}

fn ipv4(link: &[u8; HEADER_LEN], frame: &[u8], packet: &[u8], repaired: bool) {
    let _ = Ipv4Header::parse_quoted(packet);
    let whole = Tcp4::read(packet);
    let Ok((header, payload)) = Ipv4Header::parse(packet) else {
        assert_eq!(whole, None, "read, and not valid");
        return;
    };
    let payload = &packet[payload];
    if let Some(whole) = whole {
        assert_eq!(whole.segment, payload);
        let cached = whole.cached(*link);
        assert_eq!(cached.segment_of(frame, false), Some(payload));
    }
    let fragment = header.more_fragments || header.fragment_offset != 0;
    let ends = (IpAddr::V4(header.source), IpAddr::V4(header.destination));
    match header.protocol {
        protocol::TCP => tcp(payload, ends, repaired && !fragment),
        protocol::UDP => datagram(payload, ends, repaired && !fragment),
        protocol::ICMP => {
            let parsed = Icmpv4::parse(payload);
            let is_whole = payload.len() >= longshore_wire::icmpv4::HEADER_LEN;
            assert!(parsed.is_ok() || !is_whole || !repaired || fragment);
        }
        protocol::IGMP => {
            let _ = Query::parse(payload);
        }
        _ => {}
    }
}

fn ipv6(link: &[u8; HEADER_LEN], frame: &[u8], packet: &[u8], repaired: bool) {
    let _ = Ipv6Header::parse_quoted(packet);
    let Ok((header, payload)) = Ipv6Header::parse(packet) else {
        return;
    };
    let payload = &packet[payload];
    if let Some(segment) = CachedHeaders6::of(link, packet).and_then(|k| k.segment_of(frame, false))
    {
        assert_eq!(segment, payload);
    }
    let Ok(upper) = walk(header.next_header, payload) else {
        return;
    };
    let fragment = upper.fragment.is_some_and(|fragment| !fragment.is_atomic());
    let ends = (IpAddr::V6(header.source), IpAddr::V6(header.destination));
    let upper_bytes = &payload[upper.at..];
    match upper.next_header {
        protocol::TCP => tcp(upper_bytes, ends, repaired && !fragment),
        protocol::UDP => datagram(upper_bytes, ends, repaired && !fragment),
        next_header::ICMPV6 => {
            let _ = NdpOptions::parse(upper_bytes);
            if let Ok(parsed) = Icmpv6::parse(&header, upper_bytes) {
                assert!(parsed.header_len() <= upper_bytes.len());
            }
        }
        _ => {}
    }
}

fn tcp(bytes: &[u8], (source, destination): (IpAddr, IpAddr), whole: bool) {
    if let Ok((_, payload)) = TcpHeader::parse(bytes) {
        assert!(payload <= bytes.len());
        let intact = verify_transport(source, destination, protocol::TCP, bytes);
        assert!(intact || !whole, "repaired, and not right");
    }
}

fn datagram(bytes: &[u8], (source, destination): (IpAddr, IpAddr), whole: bool) {
    let Ok(header) = UdpHeader::parse(bytes) else {
        return;
    };
    let end = udp::HEADER_LEN + usize::from(header.payload_len);
    let intact = verify_transport(source, destination, protocol::UDP, &bytes[..end]);
    assert!(intact || !whole, "repaired, and not right");
    if header.dst_port == CLIENT_PORT || whole {
        dhcp(&bytes[udp::HEADER_LEN..end]);
    }
}

/// What a DHCP server says: lengths of prefixes are such.
fn dhcp(payload: &[u8]) {
    let Ok(reply) = Reply::parse(payload) else {
        return;
    };
    assert!(reply.prefix_len.is_none_or(|len| len <= 32));
    for route in reply.routes.iter().flatten() {
        assert!(route.prefix_len <= 32);
        let host = u32::MAX
            .checked_shr(u32::from(route.prefix_len))
            .unwrap_or(0);
        assert_eq!(route.network.to_bits() & host, 0, "{route:?}");
    }
}
