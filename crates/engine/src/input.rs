//! Packets in: from a frame to the protocol that it is for.

use crate::counters::EngineDrop;
use crate::engine::Engine;
use crate::link::{HEADER_ROOM, LOWER_HEADERS, Transport, net_time};
use longshore_net::icmp::{ErrorKind, IcmpError, may_answer_error, parse_error};
use longshore_ports::{RxChecksum, RxMeta};
use longshore_tcp::IcmpError as TcpIcmp;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::verify_transport;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv4::{self, Icmpv4, unreachable};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

/// Bytes of a packet that an ICMP error quotes behind the IP header (RFC 1812
/// section 4.3.2.3 allows 576 in all; Linux does the same).
const QUOTED: usize = 576 - 2 * ipv4::HEADER_LEN - icmpv4::HEADER_LEN;

impl Engine {
    /// A frame from the port.
    #[inline]
    pub(crate) fn frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        if !self.frame_by_prediction(frame, meta) {
            self.unpredicted_frame_in(frame, meta);
        }
    }

    /// A frame of which nothing is known beforehand.
    #[inline(never)]
    fn unpredicted_frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        let gso = meta.gso.map_or(0, |g| g.size);
        if self.link.capabilities.link_header_len() == 0 {
            return self.packet_in(frame, meta.checksum, gso, false);
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
                        self.neighbors_changed();
                    }
                }
                Err(e) => self.counters.drop_wire(e),
            },
            _ => self.counters.drop(EngineDrop::UnknownEtherType),
        }
    }

    /// An IPv4 packet from the port. `gso` is the size of the segments it was merged of, or 0.
    fn packet_in(&mut self, packet: &[u8], checksum: RxChecksum, gso: u16, broadcast: bool) {
        let link = &self.link;
        let found = longshore_net::input::classify_from_wire(packet, |ip| link.is_ours(ip));
        let (header, range) = match found {
            Ok(found) => found,
            Err(reason) => return self.counters.drop_net(reason),
        };
        let payload = packet.get(range).unwrap_or_default();
        if header.is_fragment() {
            match self.reassembler.add(&header, payload, net_time(self.now)) {
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

    /// A packet that we sent to ourselves.
    pub(crate) fn own_packet_in(&mut self, packet: &[u8]) {
        let link = &self.link;
        match longshore_net::input::classify(packet, |ip| link.is_ours(ip)) {
            Ok((header, range)) => {
                let payload = packet.get(range).unwrap_or_default();
                self.transport_in(&header, payload, RxChecksum::Valid, 0, false);
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
                if ip.protocol == protocol::TCP {
                    self.tcp_in(ip, payload, gso);
                } else {
                    self.udp_in(ip, payload, gso, broadcast);
                }
            }
            protocol::ICMP => self.icmp_in(ip, payload, broadcast),
            _ => {
                self.counters.drop(EngineDrop::UnknownProtocol);
                self.send_unreachable(ip, payload, unreachable::PROTOCOL, broadcast);
            }
        }
    }

    fn icmp_in(&mut self, ip: &Ipv4Header, message: &[u8], broadcast: bool) {
        let icmp = match Icmpv4::parse(message) {
            Ok(icmp) => icmp,
            Err(e) => return self.counters.drop_wire(e),
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
                self.send_icmp(ip, &reply, data);
            }
            _ if icmp.is_error() => {
                if let Some(error) = parse_error(&icmp, data) {
                    self.icmp_error(&error);
                }
            }
            _ => {}
        }
    }

    /// An ICMP error about something that we sent.
    fn icmp_error(&mut self, error: &IcmpError) {
        let local = SocketAddr::new(error.source.into(), error.src_port);
        let remote = SocketAddr::new(error.destination.into(), error.dst_port);
        if !self.link.is_ours(error.source) {
            return;
        }
        if let ErrorKind::FragmentationNeeded { mtu } = error.kind {
            return self.path_mtu_reported(error, mtu, local, remote);
        }
        match error.protocol {
            protocol::TCP => {
                let kind = match error.kind {
                    ErrorKind::NetUnreachable => TcpIcmp::NetUnreachable,
                    ErrorKind::PortUnreachable => TcpIcmp::PortUnreachable,
                    ErrorKind::ProtocolUnreachable => TcpIcmp::ProtocolUnreachable,
                    _ => TcpIcmp::HostUnreachable,
                };
                let now = self.now;
                if let (Some(key), Some(seq)) = (self.connection_of(local, remote), error.tcp_seq)
                    && let Some(c) = self.connection_mut(key)
                {
                    c.tcb.on_icmp(kind, seq, now);
                    self.touch(key);
                }
            }
            protocol::UDP => self.datagram_error(local, remote, error.kind.errno()),
            _ => {}
        }
    }

    /// RFC 1191: the path takes less than we sent. Believed only for a
    /// connection that has the quoted segment in flight.
    fn path_mtu_reported(
        &mut self,
        error: &IcmpError,
        mtu: u16,
        local: SocketAddr,
        remote: SocketAddr,
    ) {
        let key = match error.protocol {
            protocol::TCP => {
                let key = self.connection_of(local, remote);
                let quoted = key
                    .and_then(|key| self.connection_mut(key))
                    .zip(error.tcp_seq);
                if !quoted.is_some_and(|(c, seq)| c.tcb.is_in_flight(seq)) {
                    return;
                }
                key
            }
            protocol::UDP if self.has_datagram_socket(local, remote) => None,
            _ => return,
        };
        let now = self.now;
        let reduced = self.link.pmtu.reduce(
            error.destination.into(),
            mtu,
            error.original_len,
            net_time(now),
        );
        if let (Some(mtu), Some(key)) = (reduced, key)
            && let Some(c) = self.connection_mut(key)
        {
            let headers = (ipv4::HEADER_LEN + longshore_wire::tcp::HEADER_LEN) as u16;
            c.tcb.set_path_mss(mtu.saturating_sub(headers));
            self.touch(key);
        }
    }

    /// Answers a packet that could not be delivered (RFC 1122 section 3.2.2.1),
    /// within the limit that keeps us from being used as an amplifier.
    pub(crate) fn send_unreachable(
        &mut self,
        ip: &Ipv4Header,
        payload: &[u8],
        code: u8,
        broadcast: bool,
    ) {
        if !may_answer_error(ip, broadcast, false) || !self.icmp_limit.allow(net_time(self.now)) {
            return;
        }
        let quoted = payload.get(..QUOTED.min(payload.len())).unwrap_or_default();
        let mut original = vec![0; ipv4::HEADER_LEN + quoted.len()];
        ip.emit(&mut original);
        if let Some(place) = original.get_mut(ipv4::HEADER_LEN..) {
            place.copy_from_slice(quoted);
        }
        self.send_icmp(
            ip,
            &Icmpv4::Unreachable {
                code,
                next_hop_mtu: 0,
            },
            &original,
        );
    }

    /// Sends an ICMP message back to where `ip` came from.
    fn send_icmp(&mut self, ip: &Ipv4Header, icmp: &Icmpv4, data: &[u8]) {
        let mut message = vec![0; icmpv4::HEADER_LEN + data.len()];
        message[icmpv4::HEADER_LEN..].copy_from_slice(data);
        icmp.emit(&mut message);
        self.send_whole(ip.source, ip.destination, protocol::ICMP, &message);
    }

    /// Sends a finished transport message in one packet, or in fragments if it
    /// does not fit. What cannot be sent now is dropped and counted.
    pub(crate) fn send_whole(
        &mut self,
        to: std::net::Ipv4Addr,
        from: std::net::Ipv4Addr,
        protocol: u8,
        message: &[u8],
    ) {
        let way = self.link.way_to(to, self.now, &mut self.counters);
        let way = match way {
            crate::link::Way::Station(_) | crate::link::Way::Own => way,
            crate::link::Way::Wait | crate::link::Way::Failed => {
                return self.counters.drop(EngineDrop::Unresolved);
            }
            crate::link::Way::NoRoute => return self.counters.drop(EngineDrop::NoRoute),
        };
        let mtu = self.link.mtu_to(to, self.now);
        let identification = self.link.next_identification();
        for part in longshore_net::fragment::fragments(message.len(), mtu) {
            let Some(bytes) = message.get(part.offset..part.offset + part.len) else {
                return;
            };
            let header = Ipv4Header {
                tos: 0,
                payload_len: bytes.len() as u16,
                identification,
                dont_fragment: false,
                more_fragments: part.more,
                fragment_offset: part.offset as u16,
                ttl: crate::socket::DEFAULT_TTL,
                protocol,
                source: from,
                destination: to,
            };
            if self.link.send_raw(&header, way, bytes).is_err() {
                self.counters.drop(EngineDrop::PortRefused);
            }
        }
    }

    /// The connection between two addresses, if there is one.
    pub(crate) fn connection_of(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        match self.demux.peek(&crate::demux::Flow::new(local, remote))? {
            crate::demux::Found::Socket(key) => Some(key),
            crate::demux::Found::TimeWait => None,
        }
    }
}

/// The IPv4 address in a socket address that the engine has accepted.
pub(crate) fn v4(address: SocketAddr) -> Option<std::net::Ipv4Addr> {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

impl crate::link::Link {
    /// Sends an IPv4 packet whose payload is finished, checksum and all.
    pub(crate) fn send_raw(
        &mut self,
        ip: &Ipv4Header,
        way: crate::link::Way,
        payload: &[u8],
    ) -> Result<(), longshore_ports::PortError> {
        let mut buffer = [0u8; HEADER_ROOM];
        self.send_ipv4(
            ip,
            way,
            &mut buffer,
            &Transport::finished(&[IoSlice::new(payload)]),
        )
    }
}

const _: () = assert!(LOWER_HEADERS == 34);
