//! Packets by hand, for the tests whose far end of the wire is their own.
#![allow(dead_code, reason = "each test uses its part")]

use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};
use std::net::Ipv4Addr;

/// An IPv4 packet with `payload`, from one address to another.
pub(crate) fn ipv4(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    protocol: u8,
    ttl: u8,
    payload: &[u8],
) -> Vec<u8> {
    let header = Ipv4Header {
        tos: 0,
        payload_len: payload.len() as u16,
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl,
        protocol,
        source,
        destination,
    };
    let mut packet = vec![0; HEADER_LEN];
    header.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}
