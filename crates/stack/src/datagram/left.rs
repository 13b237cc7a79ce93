//! When a datagram left, for a program that asks (SO_TIMESTAMPING), and as which packet: Linux gives
//! the packet back with the time of it, from its Ethernet header on, by which a program finds which one
//! that was (chrony does).
//!
//! Called by `outgoing` for sockets whose program waits for that.

use crate::address_pair::{AddressPair, Service};
use crate::bytes::{part, put};
use crate::send_stamps::{AskedOfDatagram, SendStamps};
use crate::socket::Socket;
use longshore_hostif::ERROR_PAYLOAD;
use longshore_wire::MacAddr;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::udp::{self, UdpHeader};
use std::io::IoSlice;

/// A datagram that has left.
pub(super) struct LeftPacket<'a> {
    pub(super) addresses: &'a AddressPair,
    /// Ours first.
    pub(super) ports: (u16, u16),
    pub(super) service: Service,
    pub(super) payload: &'a [IoSlice<'a>],
}

impl Socket {
    /// What its program wants to be told of the datagram whose record ends at `end`.
    #[inline]
    pub(super) fn asked_of_datagram(&mut self, end: u64) -> Option<AskedOfDatagram> {
        let stamps = self.errors.stamps_mut()?;
        SendStamps::take_asked(stamps, end)
    }
}

impl LeftPacket<'_> {
    /// Writes as much of the packet as there is room for; how much that is. The link's addresses are
    /// zero, and so is the checksum, which a device may have filled in on Linux as well.
    pub(super) fn write(&self, bytes: &mut [u8; ERROR_PAYLOAD]) -> usize {
        let len: usize = self.payload.iter().map(|part| part.len()).sum();
        let header = UdpHeader {
            src_port: self.ports.0,
            dst_port: self.ports.1,
            payload_len: len as u16,
            checksum: 0,
        };
        let link = EthernetHeader {
            destination: MacAddr::default(),
            source: MacAddr::default(),
            ether_type: self.write_ip(bytes, len),
        };
        let mut at = link.emit(bytes) + self.addresses.header_len();
        let mut ports_and_len = [0; udp::HEADER_LEN];
        header.emit(&mut ports_and_len);
        put(bytes, at, &ports_and_len);
        at += udp::HEADER_LEN;
        for piece in self.payload {
            let fits = piece.len().min(bytes.len() - at);
            put(bytes, at, part(piece, 0..fits));
            at += fits;
        }
        at
    }

    /// Writes the IP header of a datagram with `len` bytes; its type in an Ethernet header.
    fn write_ip(&self, bytes: &mut [u8; ERROR_PAYLOAD], len: usize) -> EtherType {
        let payload_len = (udp::HEADER_LEN + len) as u16;
        match *self.addresses {
            AddressPair::V4 { from, to } => {
                let ip = Ipv4Header {
                    tos: self.service.tos,
                    payload_len,
                    identification: 0,
                    dont_fragment: self.service.dont_fragment,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: self.service.ttl,
                    protocol: protocol::UDP,
                    source: from,
                    destination: to,
                };
                ip.emit(&mut bytes[ethernet::HEADER_LEN..]);
                EtherType::Ipv4
            }
            AddressPair::V6 { from, to } => {
                let ip = Ipv6Header {
                    traffic_class: self.service.tos,
                    flow_label: 0,
                    payload_len,
                    next_header: protocol::UDP,
                    hop_limit: self.service.ttl,
                    source: from,
                    destination: to,
                };
                ip.emit(&mut bytes[ethernet::HEADER_LEN..]);
                EtherType::Ipv6
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the type stands in an Ethernet header, and its end.
    const TYPE_AT: usize = 12;
    const ETHERNET: usize = 14;

    /// As far as it fits.
    #[test]
    fn the_packet_is_given_back_from_its_ethernet_header_on() {
        for (from, to, ethernet_type, version) in [
            ("10.0.0.1", "10.0.0.2", [8, 0], 0x45),
            ("fd00::1", "fd00::2", [0x86, 0xdd], 0x60),
        ] {
            let addresses = AddressPair::new(from.parse().unwrap(), to.parse().unwrap()).unwrap();
            for len in [0, 48, 2_000] {
                let payload = vec![7; len];
                let left = LeftPacket {
                    addresses: &addresses,
                    ports: (0x1234, 0x5678),
                    service: Service::DEFAULT,
                    payload: &[IoSlice::new(&payload)],
                };
                let mut bytes = [0; ERROR_PAYLOAD];
                let written = left.write(&mut bytes);
                let at = ETHERNET + addresses.header_len();
                assert_eq!(written, (at + udp::HEADER_LEN + len).min(ERROR_PAYLOAD));
                assert_eq!(bytes[TYPE_AT..ETHERNET], ethernet_type);
                assert_eq!(bytes[ETHERNET], version);
                // IPv4 counts its header.
                let (len_at, counted) = match version {
                    0x45 => (ETHERNET + 2, addresses.header_len()),
                    _ => (ETHERNET + 4, 0),
                };
                let says = u16::from_be_bytes([bytes[len_at], bytes[len_at + 1]]);
                assert_eq!(usize::from(says), counted + udp::HEADER_LEN + len);
                assert_eq!(bytes[at..at + 4], [0x12, 0x34, 0x56, 0x78]);
                assert!(bytes[at + udp::HEADER_LEN..written].iter().all(|b| *b == 7));
            }
        }
    }
}
