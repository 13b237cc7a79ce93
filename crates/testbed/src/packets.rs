//! Packets that tests make themselves, where the other end of a wire is nobody's stack. The
//! simulations of `stack` and the tests of `engine` call it.

use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions};
use std::net::{IpAddr, Ipv4Addr};

/// The TTL, or hop limit, of packets for which the test does not say one.
pub const HOPS: u8 = 64;

/// The header of an IPv4 packet from the first address to the second, with so many bytes of
/// payload.
#[must_use]
pub fn header_v4(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    ttl: u8,
    payload_len: u16,
) -> Vec<u8> {
    let ip = Ipv4Header {
        tos: 0,
        payload_len,
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl,
        protocol,
        source,
        destination,
    };
    let mut header = vec![0; ipv4::HEADER_LEN];
    ip.emit(&mut header);
    header
}

/// An IPv4 packet with this payload.
///
/// # Panics
/// If that has more than 65,535 bytes.
#[must_use]
pub fn ipv4(between: (Ipv4Addr, Ipv4Addr), protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("a packet's payload");
    let mut packet = header_v4(between, protocol, ttl, len);
    packet.extend_from_slice(payload);
    packet
}

/// A packet with this payload, from the first address to the second; both are of one version.
///
/// # Panics
/// If they are not, or the payload has more than 65,535 bytes.
#[must_use]
pub fn packet(between: (IpAddr, IpAddr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    match between {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ipv4((source, destination), protocol, HOPS, payload)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut packet = vec![0; ipv6::HEADER_LEN];
            let ip = Ipv6Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: u16::try_from(payload.len()).expect("a packet's payload"),
                next_header: protocol,
                hop_limit: HOPS,
                source,
                destination,
            };
            ip.emit(&mut packet);
            packet.extend_from_slice(payload);
            packet
        }
        _ => panic!("both addresses are of one version"),
    }
}

/// The header of a SYN from the first port to the second, with the sequence number 0.
#[must_use]
pub fn syn((src_port, dst_port): (u16, u16), options: TcpOptions) -> TcpHeader {
    TcpHeader {
        src_port,
        dst_port,
        seq: SeqNumber(0),
        ack: SeqNumber(0),
        flags: TcpFlags::SYN,
        window: 60_000,
        urgent: 0,
        options,
    }
}

/// A packet with a TCP segment.
///
/// # Panics
/// As [`packet`].
#[must_use]
pub fn segment(between: (IpAddr, IpAddr), header: &TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; header.header_len()];
    header.emit(&mut segment);
    segment.extend_from_slice(payload);
    let len = u32::try_from(segment.len()).expect("a segment's length");
    let pseudo = Partial::of_pseudo(between.0, between.1, protocol::TCP, len);
    let pseudo = pseudo.expect("both addresses are of one version");
    let sum = pseudo.plus(Partial::of(&segment)).finish();
    segment[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    packet(between, protocol::TCP, &segment)
}
