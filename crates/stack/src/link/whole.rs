//! Transport messages that are finished, checksum and all: sent in one packet, or in fragments
//! if they do not fit. For ICMP, and for datagrams that are longer than their path takes.

use super::{IpOutput, Link, NextHop};
use crate::address_pair::{AddressPair, Service};
use crate::counters::{Counters, EngineDrop};
use longshore_net::fragment::{fragments, fragments_v6};
use longshore_tcp::Instant;
use longshore_wire::ipv4::Ipv4Header;
use longshore_wire::ipv6::{FRAGMENT_LEN, FragmentHeader, Ipv6Header, next_header};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A transport message, all of which is in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WholeMessage<'a> {
    pub(crate) service: Service,
    pub(crate) protocol: u8,
    pub(crate) bytes: &'a [u8],
    /// The longest packet that it may go in; the path may take less.
    pub(crate) most: usize,
}

impl Link {
    /// Sends a message between these. What cannot be sent now is dropped and counted.
    pub(crate) fn send_message(
        &mut self,
        addresses: &AddressPair,
        message: &WholeMessage<'_>,
        now: Instant,
        counters: &mut Counters,
    ) {
        let hop = match self.next_hop_between(addresses, now, counters) {
            NextHop::Unreachable => return counters.drop(EngineDrop::Unresolved),
            NextHop::NoRoute => return counters.drop(EngineDrop::NoRoute),
            hop @ (NextHop::Neighbor(_) | NextHop::Local | NextHop::Resolving) => hop,
        };
        let mtu = self.mtu_to(addresses.to(), now).min(message.most);
        match *addresses {
            AddressPair::V4 { from, to } => {
                self.output
                    .send_whole((from, to), (hop, mtu), message, counters);
            }
            AddressPair::V6 { from, to } => {
                self.output
                    .send_whole6((from, to), (hop, mtu), message, counters);
            }
        }
    }
}

impl IpOutput {
    fn send_whole(
        &mut self,
        (from, to): (Ipv4Addr, Ipv4Addr),
        (hop, mtu): (NextHop, usize),
        message: &WholeMessage<'_>,
        counters: &mut Counters,
    ) {
        let WholeMessage {
            service,
            protocol,
            bytes: message,
            ..
        } = *message;
        let identification = self.next_identification(1);
        for part in fragments(message.len(), mtu) {
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
            if self.send_raw(&header, hop, bytes).is_err() {
                counters.drop(EngineDrop::PortRefused);
            }
        }
    }

    fn send_whole6(
        &mut self,
        (from, to): (Ipv6Addr, Ipv6Addr),
        (hop, mtu): (NextHop, usize),
        message: &WholeMessage<'_>,
        counters: &mut Counters,
    ) {
        let WholeMessage {
            service,
            protocol,
            bytes: message,
            ..
        } = *message;
        let mut header = Ipv6Header {
            traffic_class: service.tos,
            flow_label: 0,
            payload_len: message.len() as u16,
            next_header: protocol,
            hop_limit: service.ttl,
            source: from,
            destination: to,
        };
        let mut parts = fragments_v6(message.len(), mtu).peekable();
        if parts.peek().is_none_or(|first| !first.more) {
            return self.send_finished6(&header, hop, message, counters);
        }
        header.next_header = next_header::FRAGMENT;
        let identification = self.next_identification6();
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
            self.send_finished6(&header, hop, &packet, counters);
        }
    }
}
