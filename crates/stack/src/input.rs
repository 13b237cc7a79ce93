//! Packets in: from a frame to what it brings for the transports.
//!
//! Owns [`PacketInput`], which deals with frames, IP, fragments, and what the link itself is asked;
//! what is IPv6's is in `input6`. What a frame has brought for those above is returned
//! ([`Arrived`]), and the stack calls them: `tcp_input`, `datagram` and `icmp`.

use crate::counters::EngineDrop;
use crate::fragments::Fragments;
use crate::link::{Link, OwnPacket, net_time};
use crate::responder::{Packet6, Responder};
use longshore_frames::{RxChecksum, RxMeta};
use longshore_net::DropReason;
use longshore_net::icmp::{IcmpError, parse_error};
use longshore_wire::WireError;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::verify_transport;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv4::{self, Icmpv4, unreachable};
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::udp::UdpHeader;
use std::net::IpAddr;

/// A packet that something for a transport came in.
pub(crate) enum Packet<'p> {
    V4(Ipv4Header),
    V6(Packet6<'p>),
}

impl Packet<'_> {
    /// From whom.
    pub(crate) fn source(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.source.into(),
            Self::V6(packet) => packet.header.source.into(),
        }
    }

    /// To which of our addresses.
    pub(crate) fn destination(&self) -> IpAddr {
        match self {
            Self::V4(ip) => ip.destination.into(),
            Self::V6(packet) => packet.header.destination.into(),
        }
    }

    /// Whether that is none of them, but a group's or everybody's.
    pub(crate) fn is_for_all(&self, link: &Link) -> bool {
        match self {
            Self::V4(ip) => !link.addresses.is_ours(ip.destination),
            Self::V6(packet) => packet.header.destination.is_multicast(),
        }
    }

    /// The two ECN bits (RFC 3168 section 5).
    pub(crate) fn ecn(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.tos & 3,
            Self::V6(packet) => packet.header.ecn(),
        }
    }

    /// The TTL, or hop limit.
    pub(crate) fn hops(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.ttl,
            Self::V6(packet) => packet.header.hop_limit,
        }
    }

    /// The type of service, or traffic class.
    pub(crate) fn class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.tos,
            Self::V6(packet) => packet.header.traffic_class,
        }
    }
}

/// What a packet carries for a transport; its checksum is right.
pub(crate) struct Carried<'p> {
    pub(crate) packet: Packet<'p>,
    /// From the transport's header to the end.
    pub(crate) bytes: &'p [u8],
    /// The size of the segments or datagrams that it was merged of, or 0.
    pub(crate) gso: u16,
    /// Its frame, or it itself, was not for us alone.
    pub(crate) broadcast: bool,
}

impl Carried<'_> {
    /// Says to its sender that nobody is at its port.
    pub(crate) fn refuse_port(&self, responder: &mut Responder<'_>) {
        match &self.packet {
            Packet::V4(ip) => {
                let message = Icmpv4::Unreachable {
                    code: unreachable::PORT,
                    next_hop_mtu: 0,
                };
                responder.send_error(ip, self.bytes, &message, self.broadcast);
            }
            Packet::V6(packet) => {
                let message = Icmpv6::Unreachable {
                    code: longshore_net::icmp6::unreachable::PORT,
                };
                responder.send_error6(packet, &message, false);
            }
        }
    }
}

/// A packet whose fragments are all there.
pub(crate) enum Whole {
    V4 {
        header: Ipv4Header,
        payload: Vec<u8>,
        broadcast: bool,
    },
    V6 {
        header: Ipv6Header,
        /// From the IP header to the end.
        bytes: Vec<u8>,
        link_group: bool,
    },
}

/// What has come for those above IP.
pub(crate) enum Arrived<'p> {
    /// Nothing: it was dealt with, or dropped and counted.
    Nothing,
    /// A neighbor was found, or was found to be gone.
    Neighbor,
    /// The last fragment of a packet, which is to be looked at as a whole.
    Whole(Whole),
    /// A TCP segment to one of our addresses.
    Segment(Carried<'p>),
    /// A UDP datagram, or a train of them.
    Datagram(Carried<'p>),
    /// An ICMP error from `offender`, if it can be read, with what stands behind its header.
    Error {
        error: Option<IcmpError>,
        offender: IpAddr,
        data: &'p [u8],
    },
}

/// Takes packets: borrows the link, the packets that wait for fragments, and what limits and counts
/// the answers that packets get. The stack makes one for each frame that was not predicted.
pub(crate) struct PacketInput<'a> {
    pub(crate) responder: Responder<'a>,
    pub(crate) fragments: &'a mut Fragments,
}

impl PacketInput<'_> {
    /// A frame from the port of which nothing is known beforehand.
    pub(crate) fn frame<'p>(&mut self, frame: &'p [u8], meta: &RxMeta) -> Arrived<'p> {
        let gso = meta.gso.map_or(0, |g| g.size);
        if self.responder.link.output.device.is_bare() {
            return if is_ipv6(frame) {
                self.packet6(frame, meta.checksum, gso, false)
            } else {
                self.packet4(frame, meta.checksum, gso, false)
            };
        }
        let header = match EthernetHeader::parse(frame) {
            Ok(header) => header,
            Err(e) => return self.drop_wire(e),
        };
        let broadcast = !header.destination.is_unicast();
        if !broadcast && header.destination != self.responder.link.output.device.mac() {
            return self.drop(EngineDrop::NotOurMac);
        }
        let payload = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
        match header.ether_type {
            EtherType::Ipv4 => self.packet4(payload, meta.checksum, gso, broadcast),
            EtherType::Arp => match ArpPacket::parse(payload) {
                Ok(packet)
                    if self.responder.link.take_arp(
                        &packet,
                        self.responder.now,
                        self.responder.counters,
                    ) =>
                {
                    Arrived::Neighbor
                }
                Ok(_) => Arrived::Nothing,
                Err(e) => self.drop_wire(e),
            },
            EtherType::Ipv6 if self.responder.link.addresses.has_v6() => {
                self.packet6(payload, meta.checksum, gso, broadcast)
            }
            _ => self.drop(EngineDrop::UnknownEtherType),
        }
    }

    /// Counts what is dropped.
    pub(super) fn drop<'p>(&mut self, reason: EngineDrop) -> Arrived<'p> {
        self.responder.counters.drop(reason);
        Arrived::Nothing
    }

    /// As `drop`, for what is no packet.
    pub(super) fn drop_wire<'p>(&mut self, error: WireError) -> Arrived<'p> {
        self.responder.counters.drop_wire(error);
        Arrived::Nothing
    }

    /// As `drop`, for what IP has no use for.
    pub(super) fn drop_net<'p>(&mut self, reason: DropReason) -> Arrived<'p> {
        self.responder.counters.drop_net(reason);
        Arrived::Nothing
    }

    /// An IPv4 packet from the port. `gso` is the size of the segments it was merged of, or 0.
    fn packet4<'p>(
        &mut self,
        packet: &'p [u8],
        checksum: RxChecksum,
        gso: u16,
        broadcast: bool,
    ) -> Arrived<'p> {
        let link = &*self.responder.link;
        let found =
            longshore_net::input::classify_from_wire(packet, |ip| link.addresses.is_ours(ip));
        let (header, range, broadcast) = match found {
            Ok((header, range)) => (header, range, broadcast),
            Err(DropReason::NotForUs) if self.responder.link.takes_group(packet) => {
                match longshore_net::input::classify_from_wire(packet, |ip| link.takes4(ip)) {
                    Ok((header, range)) => (header, range, true),
                    Err(reason) => return self.drop_net(reason),
                }
            }
            Err(DropReason::NotForUs) if self.responder.link.auto.asks_dhcp() => {
                return self.dhcp_packet(packet, checksum);
            }
            Err(reason) => return self.drop_net(reason),
        };
        let payload = packet.get(range).unwrap_or_default();
        if !header.is_fragment() {
            return self.transport4(header, payload, checksum, gso, broadcast);
        }
        self.expire_fragments();
        match self
            .fragments
            .v4
            .add(&header, payload, net_time(self.responder.now))
        {
            Ok(Some(whole)) => Arrived::Whole(Whole::V4 {
                header: whole.header,
                payload: whole.payload,
                broadcast,
            }),
            Ok(None) => Arrived::Nothing,
            Err(reason) => self.drop_net(reason),
        }
    }

    /// An IPv4 packet that is not for our address, while a DHCP server may send us
    /// something to all or to the address that we are about to have.
    #[cold]
    fn dhcp_packet<'p>(&mut self, packet: &'p [u8], checksum: RxChecksum) -> Arrived<'p> {
        let Ok((ip, range)) = Ipv4Header::parse(packet) else {
            return self.drop_net(DropReason::NotForUs);
        };
        let datagram = packet.get(range).unwrap_or_default();
        let to_client = UdpHeader::parse(datagram)
            .is_ok_and(|udp| udp.dst_port == longshore_wire::dhcp::CLIENT_PORT);
        if ip.protocol != protocol::UDP || ip.is_fragment() || !to_client {
            return self.drop_net(DropReason::NotForUs);
        }
        self.transport4(ip, datagram, checksum, 0, true)
    }

    /// A packet that was put together of fragments.
    pub(crate) fn whole<'p>(&mut self, whole: &'p Whole) -> Arrived<'p> {
        match whole {
            Whole::V4 {
                header,
                payload,
                broadcast,
            } => self.transport4(*header, payload, RxChecksum::Unknown, 0, *broadcast),
            Whole::V6 {
                header,
                bytes,
                link_group,
            } => {
                let packet = Packet6 {
                    header: *header,
                    whole: bytes,
                    link_group: *link_group,
                };
                // No fragment header is behind the last one that was taken off.
                self.upper6(packet, RxChecksum::Unknown, 0)
            }
        }
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub(super) fn expire_fragments(&mut self) {
        self.fragments.expire(&mut self.responder);
    }

    /// A packet that we sent to ourselves.
    pub(crate) fn own_packet<'p>(&mut self, own: &'p OwnPacket) -> Arrived<'p> {
        let (packet, gso) = (own.packet.as_slice(), own.gso);
        if is_ipv6(packet) {
            return self.own_packet6(packet, gso);
        }
        let link = &*self.responder.link;
        match longshore_net::input::classify(packet, |ip| {
            link.addresses.is_ours(ip) || link.takes4(ip)
        }) {
            Ok((header, range)) => {
                let payload = packet.get(range).unwrap_or_default();
                let to_all = !link.addresses.is_ours(header.destination);
                self.transport4(header, payload, RxChecksum::Valid, gso, to_all)
            }
            Err(reason) => self.drop_net(reason),
        }
    }

    /// What an IPv4 packet carries.
    fn transport4<'p>(
        &mut self,
        ip: Ipv4Header,
        payload: &'p [u8],
        checksum: RxChecksum,
        gso: u16,
        broadcast: bool,
    ) -> Arrived<'p> {
        match ip.protocol {
            protocol::TCP | protocol::UDP => {
                let believed = checksum != RxChecksum::Unknown;
                let no_sum = ip.protocol == protocol::UDP && payload.get(6..8) == Some(&[0, 0]);
                if !believed
                    && !no_sum
                    && !verify_transport(
                        ip.source.into(),
                        ip.destination.into(),
                        ip.protocol,
                        payload,
                    )
                {
                    return self.drop(EngineDrop::BadTransportChecksum);
                }
                let is_datagram = ip.protocol == protocol::UDP;
                let carried = Carried {
                    packet: Packet::V4(ip),
                    bytes: payload,
                    gso,
                    broadcast,
                };
                if is_datagram {
                    Arrived::Datagram(carried)
                } else if carried.packet.is_for_all(self.responder.link) {
                    // A connection is between two (RFC 1122 section 4.2.3.10).
                    self.drop_net(DropReason::NotForUs)
                } else {
                    Arrived::Segment(carried)
                }
            }
            protocol::IGMP => {
                let taken = self
                    .responder
                    .link
                    .groups
                    .take_igmp(&ip, payload, self.responder.now);
                taken.map_or_else(|e| self.drop_wire(e), |()| Arrived::Nothing)
            }
            protocol::ICMP => self.icmp4(&ip, payload, broadcast),
            _ => {
                self.responder.counters.drop(EngineDrop::UnknownProtocol);
                let message = Icmpv4::Unreachable {
                    code: unreachable::PROTOCOL,
                    next_hop_mtu: 0,
                };
                self.responder.send_error(&ip, payload, &message, broadcast);
                Arrived::Nothing
            }
        }
    }

    /// An ICMP message of IPv4.
    fn icmp4<'p>(&mut self, ip: &Ipv4Header, message: &'p [u8], broadcast: bool) -> Arrived<'p> {
        let icmp = match Icmpv4::parse(message) {
            Ok(icmp) => icmp,
            Err(e) => return self.drop_wire(e),
        };
        let data = message.get(icmpv4::HEADER_LEN..).unwrap_or_default();
        match icmp {
            Icmpv4::EchoRequest {
                identifier,
                sequence,
            } if !broadcast => {
                let reply = Icmpv4::EchoReply {
                    identifier,
                    sequence,
                };
                self.responder.echo(ip, &reply, data);
                Arrived::Nothing
            }
            _ if icmp.is_error() => Arrived::Error {
                error: parse_error(&icmp, data),
                offender: ip.source.into(),
                data,
            },
            _ => Arrived::Nothing,
        }
    }
}

/// Whether a packet says that it is one of IPv6.
fn is_ipv6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|b| b >> 4 == 6)
}
