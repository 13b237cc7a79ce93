//! Frames as they could come from the wire: nothing may panic, and no payload
//! may lie outside of its packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{EtherType, EthernetHeader};
use longshore_wire::icmpv4::Icmpv4;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::{Ipv6Header, next_header, walk};
use longshore_wire::tcp::TcpHeader;
use longshore_wire::udp::UdpHeader;

fuzz_target!(|frame: &[u8]| {
    let Ok(ethernet) = EthernetHeader::parse(frame) else {
        return;
    };
    let packet = &frame[longshore_wire::ethernet::HEADER_LEN..];
    match ethernet.ether_type {
        EtherType::Arp => {
            let _ = ArpPacket::parse(packet);
        }
        EtherType::Ipv4 => ipv4(packet),
        EtherType::Ipv6 => ipv6(packet),
        _ => {}
    }
});

fn ipv4(packet: &[u8]) {
    let _ = Ipv4Header::parse_quoted(packet);
    let Ok((header, payload)) = Ipv4Header::parse(packet) else {
        return;
    };
    let payload = &packet[payload];
    match header.protocol {
        protocol::TCP => tcp(payload),
        protocol::UDP => {
            let _ = UdpHeader::parse(payload);
        }
        protocol::ICMP => {
            let _ = Icmpv4::parse(payload);
        }
        _ => {}
    }
}

fn ipv6(packet: &[u8]) {
    let _ = Ipv6Header::parse_quoted(packet);
    let Ok((header, payload)) = Ipv6Header::parse(packet) else {
        return;
    };
    let payload = &packet[payload];
    let Ok(upper) = walk(header.next_header, payload) else {
        return;
    };
    let upper_bytes = &payload[upper.at..];
    match upper.next_header {
        protocol::TCP => tcp(upper_bytes),
        protocol::UDP => {
            let _ = UdpHeader::parse(upper_bytes);
        }
        next_header::ICMPV6 => icmpv6(&header, upper_bytes),
        _ => {}
    }
}

/// A checksum is hardly ever hit upon: the message is read with its own, and once
/// more with the right one.
fn icmpv6(header: &Ipv6Header, message: &[u8]) {
    let _ = Icmpv6::parse(header, message);
    let _ = NdpOptions::parse(message);
    if message.len() < longshore_wire::icmpv6::HEADER_LEN {
        return;
    }
    let mut fixed = message.to_vec();
    fixed[2..4].fill(0);
    let len = fixed.len() as u32;
    let sum = Partial::of_pseudo_v6(header.source, header.destination, next_header::ICMPV6, len)
        .plus(Partial::of(&fixed))
        .finish();
    fixed[2..4].copy_from_slice(&sum.to_be_bytes());
    if let Ok(parsed) = Icmpv6::parse(header, &fixed) {
        assert!(parsed.header_len() <= fixed.len());
    }
}

fn tcp(bytes: &[u8]) {
    if let Ok((_, payload)) = TcpHeader::parse(bytes) {
        assert!(payload <= bytes.len());
    }
}
