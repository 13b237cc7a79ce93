//! Packets that tests make themselves: of somebody who has no stack.

use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpHeader};
use std::net::{IpAddr, Ipv4Addr};

/// A packet with a segment, from the first address to the second; both are of one version.
pub(super) fn segment(between: (IpAddr, IpAddr), header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; header.header_len()];
    header.emit(&mut segment);
    segment.extend(payload);
    let len = segment.len() as u32;
    let pseudo = Partial::of_pseudo(between.0, between.1, protocol::TCP, len);
    let sum = pseudo.unwrap().plus(Partial::of(&segment)).finish();
    segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    packet(between, protocol::TCP, &segment)
}

/// The header of a packet with so many bytes of payload.
pub(super) fn header_v4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    payload_len: u16,
) -> Vec<u8> {
    let ip = Ipv4Header {
        tos: 0,
        payload_len,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol,
        source,
        destination,
    };
    let mut header = vec![0; ipv4::HEADER_LEN];
    ip.emit(&mut header);
    header
}

/// A packet with any payload.
pub(super) fn packet(between: (IpAddr, IpAddr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet;
    match between {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet = header_v4(source, destination, protocol, payload.len() as u16);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet = vec![0; ipv6::HEADER_LEN];
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: payload.len() as u16,
                next_header: protocol,
                hop_limit: 64,
                source,
                destination,
            };
            ip.emit(&mut packet);
        }
        _ => unreachable!("both addresses are of one version"),
    }
    packet.extend(payload);
    packet
}
