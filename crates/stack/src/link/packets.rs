//! Packets between two addresses: what differs between IPv4 and IPv6, so that `output` and
//! `datagram` need not know which it is.

use super::{IpOutput, Link, NO_CHECKSUM, NextHop, Transport};
use crate::address_pair::{AddressPair, Service};
use crate::counters::Counters;
use longshore_frames::{GsoKind, PortError};
use longshore_hostif::adapter::MAX_GATHERED;
use longshore_tcp::Instant;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::tcp::{CHECKSUM_OFFSET, MAX_HEADER_LEN, TcpHeader};
use longshore_wire::udp::UdpHeader;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where the checksum stands in a UDP header.
const UDP_CHECKSUM_AT: usize = 6;

impl Link {
    /// The ends of what goes from a socket bound to `local`, if it is, to `to`. `None`
    /// if there is no way.
    pub(crate) fn addresses_towards(
        &self,
        local: Option<SocketAddr>,
        to: IpAddr,
    ) -> Option<AddressPair> {
        let bound = local.map(|l| l.ip().to_canonical());
        let own = |ip: &IpAddr| !ip.is_unspecified() && !self.addresses.is_for_all(*ip);
        let from = match bound.filter(own) {
            Some(ip) => ip,
            None => self.source_for(to)?,
        };
        AddressPair::new(from, to)
    }

    /// Where packets between these go; asks for the next hop if need be.
    #[inline]
    pub(crate) fn next_hop_between(
        &mut self,
        addresses: &AddressPair,
        now: Instant,
        counters: &mut Counters,
    ) -> NextHop {
        match *addresses {
            AddressPair::V4 { to, .. } => self.next_hop_to(to, now, counters),
            AddressPair::V6 { to, .. } => self.next_hop6(to, now, counters),
        }
    }
}

impl IpOutput {
    /// The longest TCP payload that may be handed to the port in one piece; 0 if each
    /// segment has to be made here.
    #[inline]
    pub(crate) fn longest_payload(&self, addresses: &AddressPair, hop: NextHop) -> usize {
        let (cuts, lower) = match addresses {
            AddressPair::V4 { .. } => (self.device.capabilities().tso4, super::LOWER_HEADERS),
            AddressPair::V6 { .. } => (self.device.capabilities().tso6, super::LOWER_HEADERS_V6),
        };
        if hop == NextHop::Local || !cuts {
            return 0;
        }
        let by_port = self
            .device
            .capabilities()
            .max_gso_bytes
            .saturating_sub(lower + MAX_HEADER_LEN);
        by_port.min(65_535 - addresses.header_len() - MAX_HEADER_LEN)
    }

    /// As [`longest_payload`](Self::longest_payload), which is `ordinary`, for data that are sent
    /// for the first time.
    #[inline]
    pub(crate) fn longest_new_payload(&self, addresses: &AddressPair, ordinary: usize) -> usize {
        match (self.device.capabilities().big_tcp, addresses) {
            (Some(big), AddressPair::V4 { to, .. }) if *to == big.to && ordinary != 0 => big
                .max_bytes
                .min(MAX_GATHERED)
                .saturating_sub(super::LOWER_HEADERS + MAX_HEADER_LEN)
                .max(ordinary),
            _ => ordinary,
        }
    }

    /// Sends a TCP segment, which is not longer than its path takes (RFC 1191). `gso` is the payload
    /// of each segment that the port is to cut it into.
    #[inline]
    pub(crate) fn send_segment(
        &mut self,
        addresses: &AddressPair,
        hop: NextHop,
        service: Service,
        header: &TcpHeader,
        payload: &[IoSlice<'_>],
        gso: Option<u16>,
    ) -> Result<(), PortError> {
        match *addresses {
            AddressPair::V4 { from, to } => {
                let len: usize = payload.iter().map(|p| p.len()).sum();
                let payload_len = ipv4::payload_len(header.header_len() + len);
                let identification = match service.dont_fragment {
                    true => self.next_atomic_identification(),
                    false => self.next_identification(packets(len, gso)),
                };
                let ip = tcp_ipv4_header(from, to, service, payload_len, identification);
                self.send_tcp(&ip, hop, header, payload, gso)
            }
            AddressPair::V6 { from, to } => {
                let mut buffer = [0u8; super::HEADER_ROOM_V6];
                let transport = Transport {
                    protocol: protocol::TCP,
                    header_len: header.emit(&mut buffer[super::LOWER_HEADERS_V6..]),
                    checksum_at: CHECKSUM_OFFSET,
                    payload,
                    gso: gso.map(|size| (GsoKind::Tcp6, size)),
                };
                let ports = (header.src_port, header.dst_port);
                let ip = tcp_ipv6_header(from, to, ports, service, transport.len() as u16);
                self.send_ipv6(&ip, hop, &mut buffer, &transport)
            }
        }
    }

    /// Sends a TCP segment behind this IPv4 header.
    fn send_tcp(
        &mut self,
        ip: &Ipv4Header,
        hop: NextHop,
        header: &TcpHeader,
        payload: &[IoSlice<'_>],
        gso: Option<u16>,
    ) -> Result<(), PortError> {
        let mut buffer = [0u8; super::HEADER_ROOM];
        let header_len = header.emit(&mut buffer[super::LOWER_HEADERS..]);
        let transport = Transport {
            protocol: protocol::TCP,
            header_len,
            checksum_at: CHECKSUM_OFFSET,
            payload,
            gso: gso.map(|size| (GsoKind::Tcp4, size)),
        };
        self.send_ipv4(ip, hop, &mut buffer, &transport)
    }

    /// Sends a UDP datagram that fits the path, or a train of them that the port cuts. One of IPv6
    /// always has a checksum (RFC 8200 section 8.1).
    pub(crate) fn send_udp(
        &mut self,
        addresses: &AddressPair,
        hop: NextHop,
        service: Service,
        header: &UdpHeader,
        payload: &[IoSlice<'_>],
        form: UdpForm,
    ) -> Result<(), PortError> {
        let gso = match form {
            UdpForm::Train(size) => Some((GsoKind::Udp, size)),
            UdpForm::Whole | UdpForm::Unsummed => None,
        };
        let mut transport = Transport {
            protocol: protocol::UDP,
            header_len: longshore_wire::udp::HEADER_LEN,
            checksum_at: UDP_CHECKSUM_AT,
            payload,
            gso,
        };
        match *addresses {
            AddressPair::V4 { from, to } => {
                let mut buffer = [0u8; super::HEADER_ROOM];
                header.emit(&mut buffer[super::LOWER_HEADERS..]);
                if form == UdpForm::Unsummed {
                    transport.checksum_at = NO_CHECKSUM;
                }
                let len: usize = payload.iter().map(|p| p.len()).sum();
                let size = transport.gso.map(|(_, size)| size);
                let identification = match service.dont_fragment {
                    true => self.next_atomic_identification(),
                    false => self.next_identification(packets(len, size)),
                };
                let ip = Ipv4Header {
                    tos: service.tos,
                    payload_len: transport.len() as u16,
                    identification,
                    dont_fragment: service.dont_fragment,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: service.ttl,
                    protocol: protocol::UDP,
                    source: from,
                    destination: to,
                };
                self.send_ipv4(&ip, hop, &mut buffer, &transport)
            }
            AddressPair::V6 { from, to } => {
                let mut buffer = [0u8; super::HEADER_ROOM_V6];
                header.emit(&mut buffer[super::LOWER_HEADERS_V6..]);
                let ip = ipv6_header(from, to, service, &transport);
                self.send_ipv6(&ip, hop, &mut buffer, &transport)
            }
        }
    }
}

/// As what a datagram leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UdpForm {
    /// As it is.
    Whole,
    /// As it is, with a checksum of zero, which says that there is none (RFC 768).
    Unsummed,
    /// Cut by the port into datagrams of so many bytes.
    Train(u16),
}

/// How many packets a port makes of so many bytes of payload, cut into pieces of `gso`, if they are.
pub(crate) fn packets(len: usize, gso: Option<u16>) -> usize {
    gso.map_or(1, |size| len.div_ceil(usize::from(size.max(1))))
}

/// The IP header of a TCP segment. If no router may cut it, the identification is only for peers
/// that care (RFC 6864 section 4.1).
pub(crate) fn tcp_ipv4_header(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    service: Service,
    payload_len: u16,
    identification: u16,
) -> Ipv4Header {
    Ipv4Header {
        tos: service.tos,
        payload_len,
        identification,
        dont_fragment: service.dont_fragment,
        more_fragments: false,
        fragment_offset: 0,
        ttl: service.ttl,
        protocol: protocol::TCP,
        source,
        destination,
    }
}

/// The IPv6 header of a TCP segment between these ports.
pub(crate) fn tcp_ipv6_header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    ports: (u16, u16),
    service: Service,
    payload_len: u16,
) -> Ipv6Header {
    Ipv6Header {
        traffic_class: service.tos,
        flow_label: flow_label(source, destination, ports.0, ports.1),
        payload_len,
        next_header: protocol::TCP,
        hop_limit: service.ttl,
        source,
        destination,
    }
}

fn ipv6_header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    service: Service,
    transport: &Transport<'_>,
) -> Ipv6Header {
    debug_assert!(transport.checksum_at != NO_CHECKSUM);
    Ipv6Header {
        traffic_class: service.tos,
        flow_label: 0,
        payload_len: transport.len() as u16,
        next_header: transport.protocol,
        hop_limit: service.ttl,
        source,
        destination,
    }
}

/// A connection's flow label, the same for all of its packets (RFC 6437 section 3): its
/// addresses and ports, mixed.
fn flow_label(from: Ipv6Addr, to: Ipv6Addr, src_port: u16, dst_port: u16) -> u32 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let both = from.to_bits() ^ to.to_bits().rotate_left(64);
    let ports = u64::from(src_port) << 16 | u64::from(dst_port);
    let mixed = ((both >> 64) as u64 ^ (both as u64).rotate_left(32) ^ ports).wrapping_mul(MIX);
    // Zero says that there is none.
    ((mixed >> 44) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_keeps_its_label() {
        let (a, b) = (
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        );
        let labels: std::collections::HashSet<u32> =
            (0..1000).map(|port| flow_label(a, b, port, 80)).collect();
        assert!(labels.len() > 990, "they differ");
        assert!(labels.iter().all(|l| *l != 0 && *l < 1 << 20));
        assert_eq!(flow_label(a, b, 7, 80), flow_label(a, b, 7, 80));
    }

    /// Each of what a flow is known by tells it apart.
    #[test]
    fn flows_have_labels_of_their_own() {
        let at = |high: u16, low: u16| Ipv6Addr::new(0xfd00, 0, 0, high, 0, 0, 0, low);
        let distinct = |label: &dyn Fn(u16) -> u32| {
            let all: std::collections::HashSet<u32> = (1..=1_000).map(label).collect();
            all.len() > 990
        };
        assert!(distinct(&|n| flow_label(at(0, n), at(0, 2), 7, 80)));
        assert!(distinct(&|n| flow_label(at(n, 1), at(0, 2), 7, 80)));
        assert!(distinct(&|n| flow_label(at(0, 1), at(0, n), 7, 80)));
        assert!(distinct(&|n| flow_label(at(0, 1), at(n, 2), 7, 80)));
        assert!(distinct(&|n| flow_label(at(0, 1), at(0, 2), n, 80)));
        assert!(distinct(&|n| flow_label(at(0, 1), at(0, 2), 7, n)));
    }
}
