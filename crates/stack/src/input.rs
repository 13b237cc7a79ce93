//! Packets in: from a frame to the protocol that it is for.

use crate::Stack;
use crate::address_pair::Service;
use crate::at_work::AtWork;
use crate::counters::EngineDrop;
use crate::demux::{Flow, Found};
use crate::errors::Reported;
use crate::link::{HEADER_ROOM, LOWER_HEADERS, NextHop, OwnPacket, Transport, net_time};
use longshore_frames::{RxChecksum, RxMeta};
use longshore_net::DropReason;
use longshore_net::icmp::{ErrorKind, IcmpError, may_answer_error, parse_error};
use longshore_tcp::IcmpError as TcpIcmp;
use longshore_wire::SeqNumber;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::verify_transport;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv4::{self, Icmpv4, unreachable};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::udp::UdpHeader;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

/// Bytes of a packet that an ICMP error quotes behind the IP header (RFC 1812
/// section 4.3.2.3 allows 576 in all; Linux does the same).
const QUOTED: usize = 576 - 2 * ipv4::HEADER_LEN - icmpv4::HEADER_LEN;

/// What the transports ask of the packet that they came in.
pub(crate) trait IpPacket {
    /// From whom.
    fn source(&self) -> IpAddr;
    /// To which of our addresses.
    fn destination(&self) -> IpAddr;
    /// Whether that is none of them, but a group's or everybody's.
    fn is_for_all(&self, stack: &Stack) -> bool;
    /// The two ECN bits (RFC 3168 section 5).
    fn ecn(&self) -> u8;
    /// The TTL, or hop limit.
    fn hops(&self) -> u8;
    /// The type of service, or traffic class.
    fn class(&self) -> u8;
    /// Says to the sender of `datagram`, all of what the packet carries, that nobody
    /// is at its port.
    fn refuse_port(&self, stack: &mut Stack, datagram: &[u8], broadcast: bool);
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
    fn is_for_all(&self, stack: &Stack) -> bool {
        !stack.link.is_ours(self.destination)
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

    fn refuse_port(&self, stack: &mut Stack, datagram: &[u8], broadcast: bool) {
        let message = Icmpv4::Unreachable {
            code: unreachable::PORT,
            next_hop_mtu: 0,
        };
        stack.send_error(self, datagram, &message, broadcast);
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
                } else if ip.is_for_all(self) {
                    // A connection is between two (RFC 1122 section 4.2.3.10).
                    self.counters.drop_net(DropReason::NotForUs);
                } else {
                    self.tcp_in(ip, payload, gso);
                }
            }
            protocol::IGMP => self.igmp_in(ip, payload),
            protocol::ICMP => self.icmp_in(ip, payload, broadcast),
            _ => {
                self.counters.drop(EngineDrop::UnknownProtocol);
                let message = Icmpv4::Unreachable {
                    code: unreachable::PROTOCOL,
                    next_hop_mtu: 0,
                };
                self.send_error(ip, payload, &message, broadcast);
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
            } if !broadcast && self.may_answer_unsolicited() => {
                let reply = Icmpv4::EchoReply {
                    identifier,
                    sequence,
                };
                self.send_icmp(ip, &reply, data);
            }
            _ if icmp.is_error() => {
                let error = parse_error(&icmp, data);
                self.icmp_error(error.as_ref(), ip.source.into(), data);
            }
            _ => {}
        }
    }

    /// An ICMP error from `offender`, with what stands behind its header. Who does not know
    /// what we sent is not believed (RFC 5927 section 4.1).
    pub(crate) fn icmp_error(&mut self, error: Option<&IcmpError>, offender: IpAddr, data: &[u8]) {
        let reported = error.map(|error| Reported {
            error,
            offender,
            data,
        });
        if !reported.is_some_and(|reported| self.is_about_ours(&reported)) {
            self.counters.drop(EngineDrop::IcmpAboutNothing);
        }
    }

    /// Tells whom an error is about; whether it is about something that we sent.
    fn is_about_ours(&mut self, reported: &Reported<'_>) -> bool {
        let error = reported.error;
        let local = SocketAddr::new(error.source, error.src_port);
        let remote = SocketAddr::new(error.destination, error.dst_port);
        if !self.link.is_local(error.source) {
            return false;
        }
        if let ErrorKind::FragmentationNeeded { mtu } = error.kind {
            return self.path_mtu_reported(reported, mtu, local, remote);
        }
        match error.protocol {
            protocol::TCP => {
                let kind = told_to_tcp(error.kind);
                let now = self.now;
                if let Some((key, seq)) = self.half_open_of(local, remote, error.tcp_seq) {
                    self.error_for_half_open(key, kind, seq);
                    return true;
                }
                if let (Some(key), Some(seq)) = (self.connection_of(local, remote), error.tcp_seq)
                    && let Some(c) = self.connection_mut(key)
                    && c.tcb.is_in_flight(seq)
                {
                    c.tcb.on_icmp(kind, seq, now);
                    let alive = c.tcb.state().is_synchronized();
                    self.sockets.touch(key);
                    self.connection_error(key, reported, alive);
                    return true;
                }
                false
            }
            protocol::UDP => {
                let key = self.datagram_socket(local, remote, 0);
                if let Some(key) = key {
                    self.datagram_error(key, reported);
                }
                key.is_some()
            }
            _ => false,
        }
    }

    /// RFC 1191: the path takes less than we sent. Believed only for a connection that has
    /// the quoted segment in flight, and for a socket that may have sent the datagram;
    /// whether it is.
    fn path_mtu_reported(
        &mut self,
        reported: &Reported<'_>,
        mtu: u16,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> bool {
        let error = reported.error;
        let mut datagrams = None;
        let mut half_open = None;
        let key = match error.protocol {
            protocol::TCP => {
                let key = self.connection_of(local, remote);
                let quoted = key
                    .and_then(|key| self.connection_mut(key))
                    .zip(error.tcp_seq);
                let is_quoted = quoted.is_some_and(|(c, seq)| c.tcb.is_in_flight(seq));
                half_open = self.half_open_of(local, remote, error.tcp_seq);
                if !is_quoted && half_open.is_none() {
                    return false;
                }
                key
            }
            protocol::UDP => {
                datagrams = self.datagram_socket(local, remote, 0);
                if datagrams.is_none() {
                    return false;
                }
                None
            }
            _ => return false,
        };
        let (now, to) = (self.now, error.destination);
        let present = self.link.mtu_to(to, now);
        let had_none = self.link.pmtu.is_empty();
        let reduced = self
            .link
            .pmtu
            .reduce(to, mtu, error.original_len, present, net_time(now));
        // They know no more than that there are any.
        if had_none && reduced.is_some() {
            self.path_mtu_changed();
        }
        let headers = crate::address_pair::headers_of_segment(error.destination) as u16;
        let mss = reduced.map(|mtu| mtu.saturating_sub(headers));
        if let (Some(mss), Some(key)) = (mss, key)
            && let Some(c) = self.connection_mut(key)
        {
            c.tcb.set_path_mss(mss);
            self.sockets.touch(key);
        }
        if let (Some(mss), Some((key, _))) = (mss, half_open) {
            self.set_path_of_half_open(key, mss);
        }
        if let Some(key) = datagrams {
            self.datagram_error(key, reported);
        }
        true
    }

    /// Reports an error about a packet to its sender (RFC 1122 section 3.2.2), within
    /// the limit that keeps us from being used as an amplifier.
    pub(crate) fn send_error(
        &mut self,
        ip: &Ipv4Header,
        payload: &[u8],
        message: &Icmpv4,
        broadcast: bool,
    ) {
        if !may_answer_error(ip, broadcast, false) || !self.limits.icmp.allow(net_time(self.now)) {
            return;
        }
        let quoted = payload.get(..QUOTED.min(payload.len())).unwrap_or_default();
        let mut original = vec![0; ipv4::HEADER_LEN + quoted.len()];
        ip.emit(&mut original);
        if let Some(place) = original.get_mut(ipv4::HEADER_LEN..) {
            place.copy_from_slice(quoted);
        }
        self.send_icmp(ip, message, &original);
    }

    /// Forgets packets that did not come together in time, and tells those who sent
    /// their first fragments (RFC 1122 section 3.3.2, RFC 8200 section 4.5).
    pub fn expire_fragments(&mut self) {
        let now = net_time(self.now);
        let due = |deadline: Option<longshore_net::Instant>| deadline.is_some_and(|d| d <= now);
        if due(self.fragments.v4.deadline()) {
            let mut late = Vec::new();
            self.fragments
                .v4
                .expire_with(now, |ip, first| late.push((*ip, first.to_vec())));
            for (ip, first) in late {
                self.send_error(&ip, &first, &Icmpv4::TimeExceeded { code: 1 }, false);
            }
        }
        if due(self.fragments.v6.deadline()) {
            let mut late = Vec::new();
            self.fragments
                .v6
                .expire_with(now, |ip, first| late.push((*ip, first.to_vec())));
            for (ip, first) in late {
                self.reassembly_failed6(&ip, &first);
            }
        }
    }

    /// Sends an ICMP message back to where `ip` came from.
    fn send_icmp(&mut self, ip: &Ipv4Header, icmp: &Icmpv4, data: &[u8]) {
        let mut message = vec![0; icmpv4::HEADER_LEN + data.len()];
        message[icmpv4::HEADER_LEN..].copy_from_slice(data);
        icmp.emit(&mut message);
        let addresses = (ip.destination, ip.source);
        self.send_whole(addresses, Service::DEFAULT, protocol::ICMP, &message);
    }

    /// Sends a finished transport message in one packet, or in fragments if it
    /// does not fit. What cannot be sent now is dropped and counted.
    pub(crate) fn send_whole(
        &mut self,
        (from, to): (std::net::Ipv4Addr, std::net::Ipv4Addr),
        service: Service,
        protocol: u8,
        message: &[u8],
    ) {
        let hop = self.link.next_hop_to(to, self.now, &mut self.counters);
        let hop = match hop {
            NextHop::Neighbor(_) | NextHop::Local | NextHop::Resolving => hop,
            NextHop::Unreachable => return self.counters.drop(EngineDrop::Unresolved),
            NextHop::NoRoute => return self.counters.drop(EngineDrop::NoRoute),
        };
        let mtu = self.link.mtu_to(to.into(), self.now);
        let identification = self.link.next_identification();
        for part in longshore_net::fragment::fragments(message.len(), mtu) {
            let Some(bytes) = message.get(part.offset..part.offset + part.len) else {
                return;
            };
            let header = Ipv4Header {
                tos: service.tos,
                payload_len: bytes.len() as u16,
                identification,
                dont_fragment: false,
                more_fragments: part.more,
                fragment_offset: part.offset as u16,
                ttl: service.ttl,
                protocol,
                source: from,
                destination: to,
            };
            if self.link.send_raw(&header, hop, bytes).is_err() {
                self.counters.drop(EngineDrop::PortRefused);
            }
        }
    }

    /// The connection between two addresses, if there is one.
    pub(crate) fn connection_of(&self, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        match self.demux.peek(&Flow::new(local, remote))? {
            Found::Socket(key) => Some(key),
            Found::HalfOpen(_) | Found::TimeWait => None,
        }
    }

    /// The half-open connection between two addresses, if there is one and its SYN-ACK has
    /// this sequence number.
    fn half_open_of(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        seq: Option<SeqNumber>,
    ) -> Option<(u32, SeqNumber)> {
        let Some(Found::HalfOpen(key)) = self.demux.peek(&Flow::new(local, remote)) else {
            return None;
        };
        let record = &self.half_open.get(key)?.record;
        let seq = seq.filter(|seq| record.is_in_flight(*seq))?;
        Some((key, seq))
    }
}

/// What an ICMP error is to a connection: each has the errno that Linux gives for it.
fn told_to_tcp(kind: ErrorKind) -> TcpIcmp {
    match kind {
        ErrorKind::NetUnreachable | ErrorKind::NetUnknown | ErrorKind::NetProhibited => {
            TcpIcmp::NetUnreachable
        }
        ErrorKind::PortUnreachable => TcpIcmp::PortUnreachable,
        ErrorKind::ProtocolUnreachable => TcpIcmp::ProtocolUnreachable,
        ErrorKind::ParameterProblem | ErrorKind::NextHeaderUnknown => TcpIcmp::NotUnderstood,
        ErrorKind::SourceRouteFailed => TcpIcmp::SourceRouteFailed,
        ErrorKind::HostUnknown => TcpIcmp::HostUnknown,
        ErrorKind::HostIsolated => TcpIcmp::HostIsolated,
        ErrorKind::Prohibited => TcpIcmp::Prohibited,
        ErrorKind::HostUnreachable
        | ErrorKind::HostProhibited
        | ErrorKind::FragmentationNeeded { .. }
        | ErrorKind::TimeExceeded
        | ErrorKind::ReassemblyTimeExceeded => TcpIcmp::HostUnreachable,
    }
}

/// Whether a packet says that it is one of IPv6.
fn is_ipv6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|b| b >> 4 == 6)
}

impl crate::link::Link {
    /// Sends an IPv4 packet whose payload is finished, checksum and all.
    pub(crate) fn send_raw(
        &mut self,
        ip: &Ipv4Header,
        hop: crate::link::NextHop,
        payload: &[u8],
    ) -> Result<(), longshore_frames::PortError> {
        let mut buffer = [0u8; HEADER_ROOM];
        self.send_ipv4(
            ip,
            hop,
            &mut buffer,
            &Transport::finished(&[IoSlice::new(payload)]),
        )
    }
}

const _: () = assert!(LOWER_HEADERS == 34);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_and_a_datagram_socket_get_the_same_errno() {
        for kind in [
            ErrorKind::NetUnreachable,
            ErrorKind::HostUnreachable,
            ErrorKind::ProtocolUnreachable,
            ErrorKind::PortUnreachable,
            ErrorKind::SourceRouteFailed,
            ErrorKind::NetUnknown,
            ErrorKind::HostUnknown,
            ErrorKind::HostIsolated,
            ErrorKind::NetProhibited,
            ErrorKind::HostProhibited,
            ErrorKind::Prohibited,
            ErrorKind::TimeExceeded,
            ErrorKind::ReassemblyTimeExceeded,
            ErrorKind::ParameterProblem,
            ErrorKind::NextHeaderUnknown,
        ] {
            assert_eq!(told_to_tcp(kind).error().errno(), kind.errno(), "{kind:?}");
        }
    }
}
