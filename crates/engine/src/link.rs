//! The way out: routes, neighbours and the port.
//!
//! Owns the port and everything that says where a packet goes. `output` builds
//! the packets.

use crate::counters::{Counters, EngineDrop};
use crate::output::NO_CHECKSUM;
use longshore_net::arp;
use longshore_net::neighbor::{Lookup, NeighborEvent, Neighbors};
use longshore_net::pmtu::PathMtu;
use longshore_net::route::{Route, Routes};
use longshore_net::{Cidr, Instant as NetInstant};
use longshore_ports::{
    Capabilities, GsoKind, LinkKind, Port, PortError, TxChecksum, TxFrame, TxGso,
};
use longshore_tcp::Instant;
use longshore_wire::arp::ArpPacket;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader, Wanted};
use longshore_wire::ipv4::{self, Ipv4Header};
use longshore_wire::{MacAddr, arp as arp_wire};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};

/// Neighbours remembered at most.
const NEIGHBORS: usize = 1024;
/// The longest link and IP header that we write.
pub(crate) const LOWER_HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Room for all headers of a segment.
pub(crate) const HEADER_ROOM: usize = LOWER_HEADERS + longshore_wire::tcp::MAX_HEADER_LEN;

/// Where a packet to some destination goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To this station.
    Station(MacAddr),
    /// Back into the engine.
    Own,
    /// Its next hop is being asked for.
    Wait,
    /// Its next hop does not answer.
    Failed,
    /// Nowhere.
    NoRoute,
}

/// The transport's part of a packet to be sent.
pub(crate) struct Transport<'a> {
    pub(crate) protocol: u8,
    /// Where the transport header stands in the buffer given, its checksum
    /// field zero.
    pub(crate) header_len: usize,
    /// Where its checksum field is, from its start.
    pub(crate) checksum_at: usize,
    pub(crate) payload: &'a [IoSlice<'a>],
    /// Cut into packets of this much payload each.
    pub(crate) gso: Option<(GsoKind, u16)>,
}

/// The way out.
pub(crate) struct Link {
    pub(crate) port: Box<dyn Port>,
    pub(crate) capabilities: Capabilities,
    pub(crate) mac: MacAddr,
    /// IPv4 packets to that.
    pub(crate) wanted: Wanted,
    pub(crate) address: Cidr,
    routes: Routes,
    neighbors: Neighbors,
    pub(crate) pmtu: PathMtu,
    identification: u16,
    leads_everywhere: bool,
    /// Packets to ourselves, on their way in again.
    pub(crate) own: VecDeque<Vec<u8>>,
    /// Whether 127.0.0.0/8 is ours.
    pub(crate) loopback: bool,
}

pub(crate) fn net_time(now: Instant) -> NetInstant {
    NetInstant(now.0)
}

/// Our address on the port's link; nothing where there is no link layer.
fn mac_of(capabilities: &Capabilities) -> MacAddr {
    match capabilities.link {
        LinkKind::Ethernet { mac } => MacAddr(mac),
        LinkKind::Ip => MacAddr::default(),
    }
}

impl Link {
    pub(crate) fn new(
        port: Box<dyn Port>,
        address: Cidr,
        gateway: Option<Ipv4Addr>,
        loopback: bool,
    ) -> Self {
        let capabilities = *port.capabilities();
        let mac = mac_of(&capabilities);
        // What has no link layer has another end and no neighbours: all that is
        // sent there arrives, and what it leads to is the other end's affair.
        let leads_everywhere = gateway.is_some() || capabilities.link == LinkKind::Ip;
        let mut routes = Routes::new();
        let source = address.address;
        let network = Cidr {
            address: address.network(),
            prefix_len: address.prefix_len,
        };
        routes.add(Route {
            to: network,
            next_hop: None,
            source,
            mtu: None,
        });
        if leads_everywhere {
            let everything = Cidr {
                address: Ipv4Addr::UNSPECIFIED.into(),
                prefix_len: 0,
            };
            routes.add(Route {
                to: everything,
                next_hop: gateway.map(IpAddr::from),
                source,
                mtu: None,
            });
        }
        Self {
            port,
            capabilities,
            mac,
            wanted: Wanted::new(mac, EtherType::Ipv4),
            address,
            routes,
            neighbors: Neighbors::new(NEIGHBORS),
            pmtu: PathMtu::new(),
            identification: 1,
            leads_everywhere,
            own: VecDeque::new(),
            loopback,
        }
    }

    /// Whether `ip` is one of our addresses.
    pub(crate) fn is_ours(&self, ip: Ipv4Addr) -> bool {
        IpAddr::V4(ip) == self.address.address || (self.loopback && ip.is_loopback())
    }

    /// Whether it has a way to everywhere.
    pub(crate) fn has_default_route(&self) -> bool {
        self.leads_everywhere
    }

    /// The port's interface has come, changed or gone.
    pub(crate) fn take_port_news(&mut self) {
        if self.port.take_news() {
            self.capabilities = *self.port.capabilities();
            self.mac = mac_of(&self.capabilities);
            self.wanted = Wanted::new(self.mac, EtherType::Ipv4);
        }
    }

    /// Our address towards `to`.
    pub(crate) fn source_for(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.is_ours(to) {
            return Some(to);
        }
        match self.routes.lookup(to.into())?.source {
            IpAddr::V4(source) => Some(source),
            IpAddr::V6(_) => None,
        }
    }

    /// The largest packet that gets through to `to`.
    pub(crate) fn mtu_to(&mut self, to: Ipv4Addr, now: Instant) -> usize {
        if self.is_ours(to) {
            return usize::from(u16::MAX);
        }
        let link = self.capabilities.mtu.min(65_535);
        let path = self
            .pmtu
            .get(to.into(), net_time(now))
            .map_or(link, usize::from);
        path.min(link)
    }

    /// Where a packet to `to` goes; asks for its next hop if need be.
    pub(crate) fn way_to(&mut self, to: Ipv4Addr, now: Instant, counters: &mut Counters) -> Way {
        if self.is_ours(to) {
            return Way::Own;
        }
        if self.capabilities.link == LinkKind::Ip {
            return Way::Station(MacAddr::default());
        }
        let Some(hop) = self.routes.lookup(to.into()) else {
            return Way::NoRoute;
        };
        let IpAddr::V4(next_hop) = hop.next_hop else {
            return Way::NoRoute;
        };
        if next_hop.is_broadcast() || self.address.broadcast() == Some(next_hop) {
            return Way::Station(MacAddr::BROADCAST);
        }
        match self.neighbors.lookup(next_hop, net_time(now)) {
            Lookup::Found(mac) => Way::Station(mac),
            Lookup::Wait => Way::Wait,
            Lookup::Ask => {
                self.ask(next_hop, counters);
                Way::Wait
            }
            Lookup::Failed => Way::Failed,
        }
    }

    fn ask(&mut self, ip: Ipv4Addr, counters: &mut Counters) {
        let IpAddr::V4(ours) = self.address.address else {
            return;
        };
        let packet = arp::request(self.mac, ours, ip);
        self.send_arp(&packet, MacAddr::BROADCAST, counters);
    }

    fn send_arp(&mut self, packet: &ArpPacket, to: MacAddr, counters: &mut Counters) {
        let mut frame = [0; ethernet::HEADER_LEN + arp_wire::PACKET_LEN];
        let header = EthernetHeader {
            destination: to,
            source: self.mac,
            ether_type: EtherType::Arp,
        };
        let at = header.emit(&mut frame);
        packet.emit(&mut frame[at..]);
        if self.port.send(&TxFrame::whole(&frame)).is_err() {
            counters.drop(EngineDrop::PortRefused);
        }
    }

    /// Takes an ARP packet; says whether somebody we asked for has answered.
    pub(crate) fn take_arp(
        &mut self,
        packet: &ArpPacket,
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        let for_us = self.is_ours(packet.target_ip);
        let resolved = packet.sender_mac.is_unicast()
            && !packet.sender_ip.is_unspecified()
            && !self.is_ours(packet.sender_ip)
            && self
                .neighbors
                .learn(packet.sender_ip, packet.sender_mac, for_us, net_time(now));
        let address = self.address.address;
        if let Some(answer) = arp::answer(packet, self.mac, |ip| IpAddr::V4(ip) == address) {
            self.send_arp(&answer, packet.sender_mac, counters);
        }
        resolved
    }

    /// Repeats what was asked and not answered; says whether a neighbour was
    /// given up.
    pub(crate) fn poll_neighbors(&mut self, now: Instant, counters: &mut Counters) -> bool {
        let mut ask = Vec::new();
        let mut failed = false;
        self.neighbors.poll(net_time(now), |event| match event {
            NeighborEvent::Ask(ip) => ask.push(ip),
            NeighborEvent::Failed(_) => failed = true,
        });
        for ip in ask {
            self.ask(ip, counters);
        }
        failed
    }

    /// When `poll_neighbors` has something to do.
    pub(crate) fn neighbor_deadline(&self) -> Option<Instant> {
        self.neighbors.deadline().map(|t| Instant(t.0))
    }

    #[inline]
    pub(crate) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Sends an IPv4 packet. `buffer` has the transport header from
    /// [`LOWER_HEADERS`] on; what stands before it is written here, and the
    /// transport checksum, by the port if it can.
    pub(crate) fn send_ipv4(
        &mut self,
        ip: &Ipv4Header,
        way: Way,
        buffer: &mut [u8; HEADER_ROOM],
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        let (start, end) = (LOWER_HEADERS, LOWER_HEADERS + transport.header_len);
        let own = way == Way::Own;
        ip.emit(&mut buffer[ethernet::HEADER_LEN..]);
        let payload_len: usize = transport.payload.iter().map(|p| p.len()).sum();
        let length = (transport.header_len + payload_len) as u32;
        let pseudo = Partial::of_pseudo_v4(ip.source, ip.destination, transport.protocol, length);
        let summed = transport.checksum_at != NO_CHECKSUM;
        let offload = !own && summed && self.capabilities.tx_checksum;
        let sum = if !summed {
            0
        } else if offload {
            pseudo.unfinished()
        } else {
            let sum = pseudo
                .plus(Partial::of(&buffer[start..end]))
                .followed_by(transport.header_len, Partial::of_pieces(transport.payload));
            // RFC 768: a UDP checksum that comes out as zero is sent as all ones.
            if sum.finish() == 0 && transport.protocol == ipv4::protocol::UDP {
                0xffff
            } else {
                sum.finish()
            }
        };
        if summed {
            let field = start + transport.checksum_at;
            buffer[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        if own {
            let mut packet = buffer[ethernet::HEADER_LEN..end].to_vec();
            transport
                .payload
                .iter()
                .for_each(|p| packet.extend_from_slice(p));
            self.own.push_back(packet);
            return Ok(());
        }
        let link_len = self.capabilities.link_header_len();
        let skip = ethernet::HEADER_LEN - link_len;
        if let (Way::Station(mac), true) = (way, link_len != 0) {
            let header = EthernetHeader {
                destination: mac,
                source: self.mac,
                ether_type: EtherType::Ipv4,
            };
            header.emit(&mut buffer[..ethernet::HEADER_LEN]);
        }
        let checksum_offset = transport.checksum_at as u16;
        self.port.send(&TxFrame {
            headers: &buffer[skip..end],
            payload: transport.payload,
            checksum: offload.then_some(TxChecksum {
                start: (start - skip) as u16,
                offset: checksum_offset,
            }),
            gso: transport.gso.map(|(kind, size)| TxGso {
                kind,
                size,
                header_len: (end - skip) as u16,
            }),
        })
    }
}
