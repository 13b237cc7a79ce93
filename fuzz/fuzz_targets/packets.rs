//! Frames as they could come from the wire: nothing may panic, and no payload
//! may lie outside of its packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longshore_wire::arp::ArpPacket;
use longshore_wire::ethernet::{EtherType, EthernetHeader};
use longshore_wire::icmpv4::Icmpv4;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::Ipv6Header;
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
    if let Ok((header, payload)) = Ipv6Header::parse(packet) {
        let payload = &packet[payload];
        let _ = Icmpv6::parse(&header, payload);
        tcp(payload);
    }
}

fn tcp(bytes: &[u8]) {
    if let Ok((_, payload)) = TcpHeader::parse(bytes) {
        assert!(payload <= bytes.len());
    }
}
