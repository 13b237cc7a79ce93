//! The two addresses of a packet to be sent, of one version of IP, and the packets that
//! go between them.
//!
//! `output` and `datagram` ask here for what differs between IPv4 and IPv6, so that
//! they need not know which it is.

use crate::Stack;
use crate::connection::RequestError;
use crate::counters::Counters;
use crate::link::{self, Link, NextHop, Transport};
use crate::link6;
use crate::output::NO_CHECKSUM;
use crate::socket::Options;
use longshore_frames::{GsoKind, PortError};
use longshore_tcp::Instant;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::ipv6::{self, Ipv6Header};
use longshore_wire::tcp::{CHECKSUM_OFFSET, MAX_HEADER_LEN, TcpHeader};
use longshore_wire::udp::UdpHeader;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where the checksum stands in a UDP header.
const UDP_CHECKSUM_AT: usize = 6;

/// Bytes of IP and TCP headers without options towards `to`.
pub(crate) const fn headers_of_segment(to: IpAddr) -> usize {
    longshore_wire::tcp::HEADER_LEN
        + match to {
            IpAddr::V4(_) => ipv4::HEADER_LEN,
            IpAddr::V6(_) => ipv6::HEADER_LEN,
        }
}

/// What of an IP header a program may choose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    /// Hops it may take.
    pub(crate) ttl: u8,
    /// DSCP and ECN.
    pub(crate) tos: u8,
    /// Whether routers must not cut a datagram (segments are never cut).
    pub(crate) dont_fragment: bool,
}

impl Service {
    /// For what belongs to no socket.
    pub(crate) const DEFAULT: Self = Self {
        ttl: crate::socket::DEFAULT_TTL,
        tos: 0,
        dont_fragment: false,
    };

    /// What a program may choose for TCP: the lower two bits are the stack's
    /// (RFC 3168 section 5).
    #[inline]
    pub(crate) fn without_ecn(self) -> Self {
        Self {
            tos: self.tos & !3,
            ..self
        }
    }

    /// The same with these ECN bits.
    #[inline]
    pub(crate) fn marked(self, ecn: u8) -> Self {
        Self {
            tos: self.tos | ecn,
            ..self
        }
    }
}

impl Options {
    /// What a connection's packets to `to` are to have.
    #[inline]
    pub(crate) fn service(&self, to: IpAddr) -> Service {
        let (ttl, tos) = match to {
            IpAddr::V4(_) => (self.ttl, self.tos),
            IpAddr::V6(_) => (self.hops6, self.class6),
        };
        Service {
            ttl,
            tos,
            dont_fragment: true,
        }
    }
}

/// From which address, and to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressPair {
    V4 { from: Ipv4Addr, to: Ipv4Addr },
    V6 { from: Ipv6Addr, to: Ipv6Addr },
}

impl AddressPair {
    /// Between these two, if they are of one version; an IPv4 address in disguise is
    /// what it is.
    #[inline]
    pub(crate) fn new(from: IpAddr, to: IpAddr) -> Option<Self> {
        match (from.to_canonical(), to.to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Some(Self::V4 { from, to }),
            (IpAddr::V6(from), IpAddr::V6(to)) => Some(Self::V6 { from, to }),
            _ => None,
        }
    }

    /// To which.
    pub(crate) const fn to(&self) -> IpAddr {
        match *self {
            Self::V4 { to, .. } => IpAddr::V4(to),
            Self::V6 { to, .. } => IpAddr::V6(to),
        }
    }

    /// Bytes of the IP header.
    pub(crate) const fn header_len(&self) -> usize {
        match self {
            Self::V4 { .. } => ipv4::HEADER_LEN,
            Self::V6 { .. } => ipv6::HEADER_LEN,
        }
    }
}

impl Link {
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

    /// The longest TCP payload that may be handed to the port in one piece; 0 if each
    /// segment has to be made here.
    #[inline]
    pub(crate) fn longest_payload(&self, addresses: &AddressPair, hop: NextHop) -> usize {
        let (cuts, lower) = match addresses {
            AddressPair::V4 { .. } => (self.capabilities.tso4, link::LOWER_HEADERS),
            AddressPair::V6 { .. } => (self.capabilities.tso6, link6::LOWER_HEADERS),
        };
        if hop == NextHop::Local || !cuts {
            return 0;
        }
        let by_port = self
            .capabilities
            .max_gso_bytes
            .saturating_sub(lower + MAX_HEADER_LEN);
        by_port.min(65_535 - addresses.header_len() - MAX_HEADER_LEN)
    }

    /// Sends a TCP segment; never to be fragmented (RFC 1191). `gso` is the payload of
    /// each segment that the port is to cut it into.
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
                let Service { ttl, tos, .. } = service;
                let ip = self.tcp_packet(from, to, header.header_len(), len, ttl, tos);
                self.send_tcp(&ip, hop, header, payload, gso)
            }
            AddressPair::V6 { from, to } => {
                let mut buffer = [0u8; link6::HEADER_ROOM];
                let transport = Transport {
                    protocol: protocol::TCP,
                    header_len: header.emit(&mut buffer[link6::LOWER_HEADERS..]),
                    checksum_at: CHECKSUM_OFFSET,
                    payload,
                    gso: gso.map(|size| (GsoKind::Tcp6, size)),
                };
                let mut ip = ipv6_header(from, to, service, &transport);
                ip.flow_label = flow_label(from, to, header.src_port, header.dst_port);
                self.send_ipv6(&ip, hop, &mut buffer, &transport)
            }
        }
    }

    /// Sends a UDP datagram that fits the path, or a train of them that the port cuts.
    pub(crate) fn send_udp(
        &mut self,
        addresses: &AddressPair,
        hop: NextHop,
        service: Service,
        header: &UdpHeader,
        payload: &[IoSlice<'_>],
        gso: Option<u16>,
    ) -> Result<(), PortError> {
        let transport = Transport {
            protocol: protocol::UDP,
            header_len: longshore_wire::udp::HEADER_LEN,
            checksum_at: UDP_CHECKSUM_AT,
            payload,
            gso: gso.map(|size| (GsoKind::Udp, size)),
        };
        match *addresses {
            AddressPair::V4 { from, to } => {
                let mut buffer = [0u8; link::HEADER_ROOM];
                header.emit(&mut buffer[link::LOWER_HEADERS..]);
                let ip = Ipv4Header {
                    tos: service.tos,
                    payload_len: transport.len() as u16,
                    identification: self.next_identification(),
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
                let mut buffer = [0u8; link6::HEADER_ROOM];
                header.emit(&mut buffer[link6::LOWER_HEADERS..]);
                let ip = ipv6_header(from, to, service, &transport);
                self.send_ipv6(&ip, hop, &mut buffer, &transport)
            }
        }
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

impl Stack {
    /// The address that a socket with these options means by `peer`, an IPv4 one if it
    /// is that in disguise.
    ///
    /// # Errors
    /// [`RequestError::Family`] for an IPv6 address on an IPv4 socket, and
    /// [`RequestError::Unreachable`] for an IPv4 one on a socket of IPv6 only, as in
    /// Linux.
    pub(crate) fn meant(options: &Options, peer: SocketAddr) -> Result<SocketAddr, RequestError> {
        let ip = peer.ip().to_canonical();
        match ip {
            IpAddr::V6(_) if !options.ipv6 => Err(RequestError::Family),
            IpAddr::V4(_) if options.ipv6 && options.v6_only => Err(RequestError::Unreachable),
            ip => Ok(SocketAddr::new(ip, peer.port())),
        }
    }

    /// The ends of what goes from a socket bound to `local`, if it is, to `to`. `None`
    /// if there is no way.
    pub(crate) fn addresses_towards(
        &self,
        local: Option<SocketAddr>,
        to: IpAddr,
    ) -> Option<AddressPair> {
        let bound = local.map(|l| l.ip().to_canonical());
        let own = |ip: &IpAddr| !ip.is_unspecified() && !self.link.is_for_all(*ip);
        let from = match bound.filter(own) {
            Some(ip) => ip,
            None => self.link.source_for(to)?,
        };
        AddressPair::new(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_of_one_version() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mapped = AddressPair::new(ip("10.0.0.1"), ip("::ffff:10.0.0.2"));
        assert_eq!(mapped, AddressPair::new(ip("10.0.0.1"), ip("10.0.0.2")));
        assert_eq!(mapped.map(|e| e.header_len()), Some(20));
        assert_eq!(AddressPair::new(ip("10.0.0.1"), ip("fd00::1")), None);
        let v6 = AddressPair::new(ip("fd00::1"), ip("fd00::2")).unwrap();
        assert_eq!((v6.to(), v6.header_len()), (ip("fd00::2"), 40));
    }

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
}
