//! Packets in: from a frame to the protocol that it is for.

use crate::Stack;
use crate::at_work::AtWork;
use crate::counters::EngineDrop;
use crate::link::{Link, OwnPacket, net_time};
use crate::responder::Responder;
use longshore_frames::{RxChecksum, RxMeta};
use longshore_net::DropReason;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::verify_transport;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv4::{Icmpv4, unreachable};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::udp::UdpHeader;
use std::net::IpAddr;

/// What the transports ask of the packet that they came in.
pub(crate) trait IpPacket {
    /// From whom.
    fn source(&self) -> IpAddr;
    /// To which of our addresses.
    fn destination(&self) -> IpAddr;
    /// Whether that is none of them, but a group's or everybody's.
    fn is_for_all(&self, link: &Link) -> bool;
    /// The two ECN bits (RFC 3168 section 5).
    fn ecn(&self) -> u8;
    /// The TTL, or hop limit.
    fn hops(&self) -> u8;
    /// The type of service, or traffic class.
    fn class(&self) -> u8;
    /// Says to the sender of `datagram`, all of what the packet carries, that nobody
    /// is at its port.
    fn refuse_port(&self, responder: &mut Responder<'_>, datagram: &[u8], broadcast: bool);
}

impl IpPacket for Ipv4Header {
    #[inline]
    fn source(&self) -> IpAddr {
        IpAddr::V4(self.source)
    }

    #[inline]
    fn destination(&self) -> IpAddr {
        IpAddr::V4(self.destination)
    }

    #[inline]
    fn is_for_all(&self, link: &Link) -> bool {
        !link.is_ours(self.destination)
    }

    #[inline]
    fn ecn(&self) -> u8 {
        self.tos & 3
    }

    fn hops(&self) -> u8 {
        self.ttl
    }

    fn class(&self) -> u8 {
        self.tos
    }

    fn refuse_port(&self, responder: &mut Responder<'_>, datagram: &[u8], broadcast: bool) {
        let message = Icmpv4::Unreachable {
            code: unreachable::PORT,
            next_hop_mtu: 0,
        };
        responder.send_error(self, datagram, &message, broadcast);
    }
}

impl Stack {
    /// A frame from the port.
    #[inline]
    pub fn frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        if !self.frame_by_prediction(frame, meta) {
            self.unpredicted_frame_in(frame, meta);
        }
        self.sessions.at_work = AtWork::Nobodys;
    }

    /// A frame of which nothing is known beforehand.
    #[inline(never)]
    fn unpredicted_frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        let gso = meta.gso.map_or(0, |g| g.size);
        if self.link.capabilities.link_header_len() == 0 {
            return if is_ipv6(frame) {
                self.packet6_in(frame, meta.checksum, gso, false)
            } else {
                self.packet_in(frame, meta.checksum, gso, false)
            };
        }
        let header = match EthernetHeader::parse(frame) {
            Ok(header) => header,
            Err(e) => return self.counters.drop_wire(e),
        };
        let broadcast = !header.destination.is_unicast();
        if !broadcast && header.destination != self.link.mac {
            return self.counters.drop(EngineDrop::NotOurMac);
        }
        let payload = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
        match header.ether_type {
            EtherType::Ipv4 => self.packet_in(payload, meta.checksum, gso, broadcast),
            EtherType::Arp => match ArpPacket::parse(payload) {
                Ok(packet) => {
                    if self.link.take_arp(&packet, self.now, &mut self.counters) {
                        self.sockets.retry_unresolved();
                    }
                }
                Err(e) => self.counters.drop_wire(e),
            },
            EtherType::Ipv6 if self.link.v6.is_some() => {
                self.packet6_in(payload, meta.checksum, gso, broadcast);
            }
            _ => self.counters.drop(EngineDrop::UnknownEtherType),
        }
    }

    /// An IPv4 packet from the port. `gso` is the size of the segments it was merged of, or 0.
    fn packet_in(&mut self, packet: &[u8], checksum: RxChecksum, gso: u16, broadcast: bool) {
        let link = &self.link;
        let found = longshore_net::input::classify_from_wire(packet, |ip| link.is_ours(ip));
        let (header, range, broadcast) = match found {
            Ok((header, range)) => (header, range, broadcast),
            Err(DropReason::NotForUs) if self.link.takes_group(packet) => {
                match longshore_net::input::classify_from_wire(packet, |ip| link.takes4(ip)) {
                    Ok((header, range)) => (header, range, true),
                    Err(reason) => return self.counters.drop_net(reason),
                }
            }
            Err(DropReason::NotForUs) if self.link.asks_dhcp() => {
                return self.dhcp_packet_in(packet, checksum);
            }
            Err(reason) => return self.counters.drop_net(reason),
        };
        let payload = packet.get(range).unwrap_or_default();
        if header.is_fragment() {
            self.expire_fragments();
            match self.fragments.v4.add(&header, payload, net_time(self.now)) {
                Ok(Some(whole)) => {
                    self.transport_in(
                        &whole.header,
                        &whole.payload,
                        RxChecksum::Unknown,
                        0,
                        broadcast,
                    );
                }
                Ok(None) => {}
                Err(reason) => self.counters.drop_net(reason),
            }
            return;
        }
        self.transport_in(&header, payload, checksum, gso, broadcast);
    }

    /// An IPv4 packet that is not for our address, while a DHCP server may send us
    /// something to all or to the address that we are about to have.
    #[cold]
    fn dhcp_packet_in(&mut self, packet: &[u8], checksum: RxChecksum) {
        let Ok((ip, range)) = Ipv4Header::parse(packet) else {
            return self.counters.drop_net(DropReason::NotForUs);
        };
        let datagram = packet.get(range).unwrap_or_default();
        let to_client = UdpHeader::parse(datagram)
            .is_ok_and(|udp| udp.dst_port == longshore_wire::dhcp::CLIENT_PORT);
        if ip.protocol != protocol::UDP || ip.is_fragment() || !to_client {
            return self.counters.drop_net(DropReason::NotForUs);
        }
        self.transport_in(&ip, datagram, checksum, 0, true);
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub fn expire_fragments(&mut self) {
        let responder = &mut Responder {
            link: &mut self.link,
            limits: &mut self.limits,
            counters: &mut self.counters,
            now: self.now,
        };
        self.fragments.expire(responder);
    }

    /// A packet that we sent to ourselves.
    pub(crate) fn own_packet_in(&mut self, own: &OwnPacket) {
        let (packet, gso) = (own.packet.as_slice(), own.gso);
        if is_ipv6(packet) {
            return self.own_packet6_in(packet, gso);
        }
        let link = &self.link;
        match longshore_net::input::classify(packet, |ip| link.is_ours(ip) || link.takes4(ip)) {
            Ok((header, range)) => {
                let payload = packet.get(range).unwrap_or_default();
                let to_all = !link.is_ours(header.destination);
                self.transport_in(&header, payload, RxChecksum::Valid, gso, to_all);
            }
            Err(reason) => self.counters.drop_net(reason),
        }
    }

    fn transport_in(
        &mut self,
        ip: &Ipv4Header,
        payload: &[u8],
        checksum: RxChecksum,
        gso: u16,
        broadcast: bool,
    ) {
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
                    return self.counters.drop(EngineDrop::BadTransportChecksum);
                }
                if ip.protocol == protocol::UDP {
                    self.udp_in(ip, payload, gso, broadcast);
                } else if ip.is_for_all(&self.link) {
                    // A connection is between two (RFC 1122 section 4.2.3.10).
                    self.counters.drop_net(DropReason::NotForUs);
                } else {
                    self.tcp_input().tcp_in(ip, payload, gso);
                }
            }
            protocol::IGMP => {
                let taken = self.link.take_igmp(ip, payload, self.now);
                taken.unwrap_or_else(|e| self.counters.drop_wire(e));
            }
            protocol::ICMP => self.icmp_in(ip, payload, broadcast),
            _ => {
                self.counters.drop(EngineDrop::UnknownProtocol);
                let message = Icmpv4::Unreachable {
                    code: unreachable::PROTOCOL,
                    next_hop_mtu: 0,
                };
                self.responder()
                    .send_error(ip, payload, &message, broadcast);
            }
        }
    }
}

/// Whether a packet says that it is one of IPv6.
fn is_ipv6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|b| b >> 4 == 6)
}
