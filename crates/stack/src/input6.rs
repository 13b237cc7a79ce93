//! IPv6 packets in: extension headers, fragments, ICMPv6 and neighbour discovery. What is sent
//! about them is `responder`'s.

use crate::bytes::put;
use crate::counters::EngineDrop;
use crate::input::{Arrived, Carried, Packet, PacketInput, Whole};
use crate::link::net_time;
use crate::responder::Packet6;
use longshore_frames::RxChecksum;
use longshore_net::DropReason;
use longshore_net::icmp6::parse_error;
use longshore_wire::checksum::verify_transport;
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{
    FRAGMENT_LEN, FragmentHeader, HEADER_LEN, Ipv6Header, Upper, next_header, walk,
};

impl PacketInput<'_> {
    /// An IPv6 packet from the port. `gso` is the size of the segments it was merged
    /// of, or 0.
    pub(super) fn packet6<'p>(
        &mut self,
        packet: &'p [u8],
        checksum: RxChecksum,
        gso: u16,
        link_group: bool,
    ) -> Arrived<'p> {
        let link = &*self.responder.link;
        let found = longshore_net::input6::classify_from_wire(packet, |ip| link.takes6(ip));
        match found {
            Ok((header, range)) => {
                let whole = packet.get(..range.end).unwrap_or_default();
                let packet = Packet6 {
                    header,
                    whole,
                    link_group,
                };
                self.upper6(packet, checksum, gso)
            }
            Err(reason) => self.drop_net(reason),
        }
    }

    /// An IPv6 packet that we sent to ourselves.
    pub(super) fn own_packet6<'p>(&mut self, packet: &'p [u8], gso: u16) -> Arrived<'p> {
        let link = &*self.responder.link;
        match longshore_net::input6::classify(packet, |ip| link.takes6(ip)) {
            Ok((header, range)) => {
                let packet = Packet6 {
                    header,
                    whole: packet.get(..range.end).unwrap_or_default(),
                    link_group: false,
                };
                self.upper6(packet, RxChecksum::Valid, gso)
            }
            Err(reason) => self.drop_net(reason),
        }
    }

    /// What an IPv6 packet carries behind its extension headers.
    pub(super) fn upper6<'p>(
        &mut self,
        packet: Packet6<'p>,
        checksum: RxChecksum,
        gso: u16,
    ) -> Arrived<'p> {
        let payload = packet.whole.get(HEADER_LEN..).unwrap_or_default();
        let upper = match walk(packet.header.next_header, payload) {
            Ok(upper) => upper,
            Err(refusal) => {
                self.responder.refuse_extensions(&packet, refusal);
                return Arrived::Nothing;
            }
        };
        let bytes = payload.get(upper.at..).unwrap_or_default();
        if let Some(fragment) = upper.fragment {
            return self.fragment6(&packet, &upper, &fragment, bytes);
        }
        match upper.next_header {
            protocol::TCP | protocol::UDP => {
                let ip = &packet.header;
                let (source, destination) = (ip.source.into(), ip.destination.into());
                // In IPv6 a datagram must have a checksum (RFC 8200 section 8.1).
                let missing =
                    upper.next_header == protocol::UDP && bytes.get(6..8) == Some(&[0, 0]);
                let believed = checksum != RxChecksum::Unknown;
                let right =
                    believed || verify_transport(source, destination, upper.next_header, bytes);
                if missing || !right {
                    return self.drop(EngineDrop::BadTransportChecksum);
                }
                let to_group = ip.destination.is_multicast();
                let carried = Carried {
                    broadcast: packet.link_group,
                    packet: Packet::V6(packet),
                    bytes,
                    gso,
                };
                if upper.next_header == protocol::UDP {
                    Arrived::Datagram(carried)
                } else if to_group {
                    // A connection is between two.
                    self.drop_net(DropReason::NotForUs)
                } else {
                    Arrived::Segment(carried)
                }
            }
            next_header::ICMPV6 => self.icmp6(&packet.header, bytes),
            next_header::NONE => Arrived::Nothing,
            _ => {
                self.responder.refuse_upper(&packet, upper.at);
                Arrived::Nothing
            }
        }
    }

    /// A fragment, of which the headers up to that of fragments were looked at.
    fn fragment6<'p>(
        &mut self,
        packet: &Packet6<'_>,
        upper: &Upper,
        fragment: &FragmentHeader,
        bytes: &[u8],
    ) -> Arrived<'p> {
        self.expire_fragments();
        let now = net_time(self.responder.now);
        let before = upper.at - FRAGMENT_LEN;
        let waiting = &mut self.fragments.v6;
        match waiting.add_v6(&packet.header, fragment, before, bytes, now) {
            Ok(Some(whole)) => {
                let mut bytes = vec![0; HEADER_LEN + whole.payload.len()];
                whole.header.emit(&mut bytes);
                put(&mut bytes, HEADER_LEN, &whole.payload);
                Arrived::Whole(Whole::V6 {
                    header: whole.header,
                    bytes,
                    link_group: packet.link_group,
                })
            }
            Ok(None) => Arrived::Nothing,
            Err(reason) => {
                self.responder.counters.drop_net(reason);
                self.responder.refuse_fragment(packet, upper, reason);
                Arrived::Nothing
            }
        }
    }

    /// An ICMPv6 message.
    fn icmp6<'p>(&mut self, ip: &Ipv6Header, message: &'p [u8]) -> Arrived<'p> {
        let icmp = match Icmpv6::parse(ip, message) {
            Ok(icmp) => icmp,
            Err(e) => return self.drop_wire(e),
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
                self.responder.echo6(ip, &reply, data);
            }
            Icmpv6::RouterSolicit
            | Icmpv6::RouterAdvert { .. }
            | Icmpv6::NeighborSolicit { .. }
            | Icmpv6::NeighborAdvert { .. }
                if self.responder.link.take_ndp(
                    ip,
                    &icmp,
                    data,
                    self.responder.now,
                    self.responder.counters,
                ) =>
            {
                return Arrived::Neighbor;
            }
            Icmpv6::MulticastQuery {
                group,
                max_response,
            } => {
                let (now, query) = (self.responder.now, (group, max_response));
                self.responder.link.answer_multicast_query(
                    ip,
                    query,
                    data,
                    now,
                    self.responder.counters,
                );
            }
            _ if icmp.is_error() => {
                return Arrived::Error {
                    error: parse_error(&icmp, data),
                    offender: ip.source.into(),
                    data,
                };
            }
            _ => {}
        }
        Arrived::Nothing
    }
}
