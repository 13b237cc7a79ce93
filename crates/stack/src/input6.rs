//! IPv6 packets in: extension headers, fragments, ICMPv6 and neighbour discovery. What is sent
//! about them is `responder`'s.

use crate::Stack;
use crate::bytes::put;
use crate::counters::EngineDrop;
use crate::input::IpPacket;
use crate::link::{Link, net_time};
use crate::responder::{Packet6, Responder};
use longshore_frames::RxChecksum;
use longshore_net::DropReason;
use longshore_net::icmp6::{parse_error, unreachable};
use longshore_wire::checksum::verify_transport;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{FRAGMENT_LEN, FragmentHeader, HEADER_LEN, Upper, next_header, walk};
use std::net::IpAddr;

impl IpPacket for Packet6<'_> {
    fn source(&self) -> IpAddr {
        self.header.source.into()
    }

    fn destination(&self) -> IpAddr {
        self.header.destination.into()
    }

    fn is_for_all(&self, _link: &Link) -> bool {
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

    fn refuse_port(&self, responder: &mut Responder<'_>, _datagram: &[u8], _broadcast: bool) {
        let message = Icmpv6::Unreachable {
            code: unreachable::PORT,
        };
        responder.send_error6(self, &message, false);
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
            Err(refusal) => return self.responder().refuse_extensions(packet, refusal),
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
                    self.tcp_input().tcp_in(packet, bytes, gso);
                }
            }
            next_header::ICMPV6 => self.icmp6_in(packet, bytes),
            next_header::NONE => {}
            _ => self.responder().refuse_upper(packet, upper.at),
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
                self.responder().refuse_fragment(packet, upper, reason);
            }
        }
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
            } if !ip.source.is_unspecified() => {
                let reply = Icmpv6::EchoReply {
                    identifier,
                    sequence,
                };
                self.responder().echo6(ip, &reply, data);
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
                self.icmp_errors()
                    .icmp_error(error.as_ref(), ip.source.into(), data);
            }
            _ => {}
        }
    }
}
