//! IPv6 packets in: extension headers, fragments, ICMPv6 and neighbour discovery; and
//! the errors that are sent about them.

use crate::Stack;
use crate::address_pair::Service;
use crate::bytes::put;
use crate::counters::EngineDrop;
use crate::input::IpPacket;
use crate::link::{NextHop, net_time};
use longshore_frames::RxChecksum;
use longshore_net::DropReason;
use longshore_net::fragment::fragments_v6;
use longshore_net::icmp6::{may_answer_error, parse_error, problem, unreachable};
use longshore_wire::checksum::verify_transport;
use longshore_wire::icmpv6::{self, Icmpv6};
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{
    FRAGMENT_LEN, FragmentHeader, HEADER_LEN, Ipv6Header, Refusal, Upper, next_header, walk,
};
use std::net::{IpAddr, Ipv6Addr};

/// Bytes of a packet that an ICMPv6 error quotes: all of the error fits into what every
/// link takes (RFC 4443 section 2.4 c).
const QUOTED: usize = 1280 - HEADER_LEN - icmpv6::HEADER_LEN;

/// A packet that is for us.
pub(crate) struct Packet6<'a> {
    pub(crate) header: Ipv6Header,
    /// From its IP header to its end.
    whole: &'a [u8],
    /// Its frame was not for us alone.
    link_group: bool,
}

impl IpPacket for Packet6<'_> {
    fn source(&self) -> IpAddr {
        self.header.source.into()
    }

    fn destination(&self) -> IpAddr {
        self.header.destination.into()
    }

    fn is_for_all(&self, _stack: &Stack) -> bool {
        self.header.destination.is_multicast()
    }

    fn ecn(&self) -> u8 {
        self.header.ecn()
    }

    fn hops(&self) -> u8 {
        self.header.hop_limit
    }

    fn class(&self) -> u8 {
        self.header.traffic_class
    }

    fn refuse_port(&self, stack: &mut Stack, _datagram: &[u8], _broadcast: bool) {
        let message = Icmpv6::Unreachable {
            code: unreachable::PORT,
        };
        stack.send_error6(self, &message, false);
    }
}

impl Stack {
    /// An IPv6 packet from the port. `gso` is the size of the segments it was merged
    /// of, or 0.
    pub(crate) fn packet6_in(
        &mut self,
        packet: &[u8],
        checksum: RxChecksum,
        gso: u16,
        link_group: bool,
    ) {
        let link = &self.link;
        let found = longshore_net::input6::classify_from_wire(packet, |ip| link.takes6(ip));
        match found {
            Ok((header, range)) => {
                let whole = packet.get(..range.end).unwrap_or_default();
                let packet = Packet6 {
                    header,
                    whole,
                    link_group,
                };
                self.upper6_in(&packet, checksum, gso);
            }
            Err(reason) => self.counters.drop_net(reason),
        }
    }

    /// An IPv6 packet that we sent to ourselves.
    pub(crate) fn own_packet6_in(&mut self, packet: &[u8], gso: u16) {
        let link = &self.link;
        match longshore_net::input6::classify(packet, |ip| link.takes6(ip)) {
            Ok((header, range)) => {
                let packet = Packet6 {
                    header,
                    whole: packet.get(..range.end).unwrap_or_default(),
                    link_group: false,
                };
                self.upper6_in(&packet, RxChecksum::Valid, gso);
            }
            Err(reason) => self.counters.drop_net(reason),
        }
    }

    fn upper6_in(&mut self, packet: &Packet6<'_>, checksum: RxChecksum, gso: u16) {
        let payload = packet.whole.get(HEADER_LEN..).unwrap_or_default();
        let upper = match walk(packet.header.next_header, payload) {
            Ok(upper) => upper,
            Err(refusal) => return self.refuse_extensions(packet, refusal),
        };
        let bytes = payload.get(upper.at..).unwrap_or_default();
        if let Some(fragment) = upper.fragment {
            return self.fragment6_in(packet, &upper, &fragment, bytes);
        }
        match upper.next_header {
            protocol::TCP | protocol::UDP => {
                let (source, destination) = (packet.source(), packet.destination());
                // In IPv6 a datagram must have a checksum (RFC 8200 section 8.1).
                let missing =
                    upper.next_header == protocol::UDP && bytes.get(6..8) == Some(&[0, 0]);
                let believed = checksum != RxChecksum::Unknown;
                let right =
                    believed || verify_transport(source, destination, upper.next_header, bytes);
                if missing || !right {
                    return self.counters.drop(EngineDrop::BadTransportChecksum);
                }
                if upper.next_header == protocol::UDP {
                    self.udp_in(packet, bytes, gso, packet.link_group);
                } else if packet.header.destination.is_multicast() {
                    // A connection is between two.
                    self.counters.drop_net(DropReason::NotForUs);
                } else {
                    self.tcp_in(packet, bytes, gso);
                }
            }
            next_header::ICMPV6 => self.icmp6_in(packet, bytes),
            next_header::NONE => {}
            _ => {
                self.counters.drop(EngineDrop::UnknownProtocol);
                let pointer = self.names_upper_at(packet, upper.at);
                let message = Icmpv6::ParameterProblem {
                    code: problem::NEXT_HEADER,
                    pointer,
                };
                self.send_error6(packet, &message, false);
            }
        }
    }

    /// Where the header before the one at `at` in the payload names it.
    fn names_upper_at(&self, packet: &Packet6<'_>, at: usize) -> u32 {
        const IN_FIXED_HEADER: u32 = 6;
        let payload = packet.whole.get(HEADER_LEN..).unwrap_or_default();
        let (mut begins, mut next) = (0, packet.header.next_header);
        let mut named = IN_FIXED_HEADER;
        while begins < at {
            let [following, words, ..] = payload.get(begins..).unwrap_or_default() else {
                break;
            };
            named = (HEADER_LEN + begins) as u32;
            begins += if next == next_header::FRAGMENT {
                FRAGMENT_LEN
            } else {
                8 + 8 * usize::from(*words)
            };
            next = *following;
        }
        named
    }

    fn refuse_extensions(&mut self, packet: &Packet6<'_>, refusal: Refusal) {
        self.counters.drop_net(DropReason::ExtensionHeaders);
        if let Refusal::Problem {
            code,
            pointer,
            to_group_too,
        } = refusal
        {
            let message = Icmpv6::ParameterProblem { code, pointer };
            self.send_error6(packet, &message, to_group_too);
        }
    }

    fn fragment6_in(
        &mut self,
        packet: &Packet6<'_>,
        upper: &Upper,
        fragment: &FragmentHeader,
        bytes: &[u8],
    ) {
        self.expire_fragments();
        let now = net_time(self.now);
        let before = upper.at - FRAGMENT_LEN;
        match self
            .fragments
            .v6
            .add_v6(&packet.header, fragment, before, bytes, now)
        {
            Ok(Some(whole)) => {
                let mut bytes = vec![0; HEADER_LEN + whole.payload.len()];
                whole.header.emit(&mut bytes);
                put(&mut bytes, HEADER_LEN, &whole.payload);
                let packet = Packet6 {
                    header: whole.header,
                    whole: &bytes,
                    link_group: packet.link_group,
                };
                // No fragment header is behind the last one that was taken off.
                self.upper6_in(&packet, RxChecksum::Unknown, 0);
            }
            Ok(None) => {}
            Err(reason) => {
                self.counters.drop_net(reason);
                self.refuse_fragment(packet, upper, reason);
            }
        }
    }

    /// RFC 8200 section 4.5 has senders told of fragments that cannot be.
    fn refuse_fragment(&mut self, packet: &Packet6<'_>, upper: &Upper, reason: DropReason) {
        const PAYLOAD_LENGTH_AT: u32 = 4;
        const OFFSET_AT: u32 = 2;
        let fragment_at = (HEADER_LEN + upper.at - FRAGMENT_LEN) as u32;
        let (code, pointer) = match reason {
            DropReason::FragmentBadLength => (problem::FIELD, PAYLOAD_LENGTH_AT),
            DropReason::FragmentBeyondEnd => (problem::FIELD, fragment_at + OFFSET_AT),
            // RFC 7112 section 5: code 3.
            DropReason::FragmentHeaders => (3, 0),
            _ => return,
        };
        let message = Icmpv6::ParameterProblem { code, pointer };
        self.send_error6(packet, &message, false);
    }

    fn icmp6_in(&mut self, packet: &Packet6<'_>, message: &[u8]) {
        let ip = &packet.header;
        let icmp = match Icmpv6::parse(ip, message) {
            Ok(icmp) => icmp,
            Err(e) => return self.counters.drop_wire(e),
        };
        let data = message.get(icmp.header_len()..).unwrap_or_default();
        match icmp {
            Icmpv6::EchoRequest {
                identifier,
                sequence,
            } if !ip.source.is_unspecified() && self.may_answer_unsolicited() => {
                let reply = Icmpv6::EchoReply {
                    identifier,
                    sequence,
                };
                let from = Some(ip.destination).filter(|ip| !ip.is_multicast());
                self.send_icmp6(ip.source, from, &reply, data);
            }
            Icmpv6::RouterSolicit
            | Icmpv6::RouterAdvert { .. }
            | Icmpv6::NeighborSolicit { .. }
            | Icmpv6::NeighborAdvert { .. } => {
                let now = self.now;
                if self.link.take_ndp(ip, &icmp, data, now, &mut self.counters) {
                    self.sockets.retry_unresolved();
                }
            }
            Icmpv6::MulticastQuery {
                group,
                max_response,
            } => {
                let (now, counters) = (self.now, &mut self.counters);
                self.link
                    .answer_multicast_query(ip, (group, max_response), now, counters);
            }
            _ if icmp.is_error() => {
                let error = parse_error(&icmp, data);
                self.icmp_error(error.as_ref(), ip.source.into(), data);
            }
            _ => {}
        }
    }

    /// Reports an error about a packet to its sender, within the limit that keeps us
    /// from being used as an amplifier. `to_group_too` is said of errors that are owed
    /// about packets to groups.
    pub(crate) fn send_error6(
        &mut self,
        packet: &Packet6<'_>,
        message: &Icmpv6,
        to_group_too: bool,
    ) {
        let ip = &packet.header;
        let is_error = self.carries_error(packet);
        if !may_answer_error(ip, packet.link_group, is_error, to_group_too)
            || !self.may_send_error(self.link.is_ours6(ip.source))
        {
            return;
        }
        let quoted = packet.whole;
        let quoted = quoted.get(..QUOTED.min(quoted.len())).unwrap_or_default();
        let from = Some(ip.destination).filter(|ip| !ip.is_multicast());
        self.send_icmp6(ip.source, from, message, quoted);
    }

    /// Whether a packet is itself an ICMPv6 error, or cannot be told not to be one.
    fn carries_error(&self, packet: &Packet6<'_>) -> bool {
        const INFORMATIONAL: u8 = 128;
        let payload = packet.whole.get(HEADER_LEN..).unwrap_or_default();
        walk(packet.header.next_header, payload).is_ok_and(|upper| {
            upper.next_header == next_header::ICMPV6
                && payload
                    .get(upper.at)
                    .is_none_or(|kind| *kind < INFORMATIONAL)
        })
    }

    /// An error about the first fragment of a packet that did not come together.
    pub(crate) fn reassembly_failed6(&mut self, header: &Ipv6Header, first: &[u8]) {
        let mut bytes = vec![0; HEADER_LEN + first.len()];
        header.emit(&mut bytes);
        put(&mut bytes, HEADER_LEN, first);
        let packet = Packet6 {
            header: *header,
            whole: &bytes,
            link_group: false,
        };
        self.send_error6(&packet, &Icmpv6::TimeExceeded { code: 1 }, false);
    }

    /// Sends an ICMPv6 message, from the address that is best for it if none is given.
    fn send_icmp6(&mut self, to: Ipv6Addr, from: Option<Ipv6Addr>, icmp: &Icmpv6, data: &[u8]) {
        let Some(from) = from.or_else(|| self.link.source_for6(to)) else {
            return self.counters.drop(EngineDrop::NoRoute);
        };
        let mut message = vec![0; icmp.header_len() + data.len()];
        put(&mut message, icmp.header_len(), data);
        icmp.emit(from, to, &mut message);
        let service = Service::DEFAULT;
        self.send_whole6((from, to), service, next_header::ICMPV6, &message);
    }

    /// Sends a finished transport message in one packet, or in fragments if it does
    /// not fit. What cannot be sent now is dropped and counted.
    pub(crate) fn send_whole6(
        &mut self,
        (from, to): (Ipv6Addr, Ipv6Addr),
        service: Service,
        protocol: u8,
        message: &[u8],
    ) {
        let hop = match self.link.next_hop6(to, self.now, &mut self.counters) {
            hop @ (NextHop::Neighbor(_) | NextHop::Local | NextHop::Resolving) => hop,
            NextHop::Unreachable => return self.counters.drop(EngineDrop::Unresolved),
            NextHop::NoRoute => return self.counters.drop(EngineDrop::NoRoute),
        };
        let mut header = Ipv6Header {
            traffic_class: service.tos,
            flow_label: 0,
            payload_len: message.len() as u16,
            next_header: protocol,
            hop_limit: service.ttl,
            source: from,
            destination: to,
        };
        let mtu = self.link.mtu_to(to.into(), self.now);
        let mut parts = fragments_v6(message.len(), mtu).peekable();
        if parts.peek().is_none_or(|first| !first.more) {
            return self
                .link
                .send_finished6(&header, hop, message, &mut self.counters);
        }
        header.next_header = next_header::FRAGMENT;
        let identification = self.link.next_identification6();
        let mut packet = Vec::with_capacity(mtu);
        for part in parts {
            let fragment = FragmentHeader {
                next_header: protocol,
                offset: part.offset as u16,
                more: part.more,
                identification,
            };
            packet.clear();
            packet.resize(FRAGMENT_LEN, 0);
            fragment.emit(&mut packet);
            packet.extend_from_slice(
                message
                    .get(part.offset..part.offset + part.len)
                    .unwrap_or_default(),
            );
            header.payload_len = packet.len() as u16;
            self.link
                .send_finished6(&header, hop, &packet, &mut self.counters);
        }
    }
}
