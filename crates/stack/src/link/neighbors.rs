//! Next hops of IPv4 and who has their addresses: what is asked, answered and given up by ARP.
//!
//! `output` asks where a packet goes, `input` brings ARP packets, and the stack's timers call
//! [`Link::poll_neighbors`], which sees to all else of the link that is due, too.

use super::v6::Link6;
use super::{Link, NextHop, net_time};
use crate::counters::{Counters, EngineDrop};
use longshore_frames::{LinkKind, TxFrame};
use longshore_net::arp;
use longshore_net::neighbor::{Lookup, NeighborEvent};
use longshore_tcp::Instant;
use longshore_wire::arp::ArpPacket;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::{MacAddr, arp as arp_wire};
use std::net::{IpAddr, Ipv4Addr};

impl Link {
    /// Where a packet to `to` goes; asks for its next hop if need be.
    pub(crate) fn next_hop_to(
        &mut self,
        to: Ipv4Addr,
        now: Instant,
        counters: &mut Counters,
    ) -> NextHop {
        if self.is_ours(to) {
            return NextHop::Local;
        }
        if self.capabilities.link == LinkKind::Ip {
            return NextHop::Neighbor(MacAddr::default());
        }
        let next_hop = match self.last_route {
            Some((last, next_hop)) if last == to => next_hop,
            _ => {
                if let Some(station) = self.station_of_all(to) {
                    return NextHop::Neighbor(station);
                }
                let route = self.routes.lookup(to.into());
                let Some(IpAddr::V4(next_hop)) = route.map(|route| route.next_hop) else {
                    return NextHop::NoRoute;
                };
                self.last_route = Some((to, next_hop));
                next_hop
            }
        };
        match self.neighbors.lookup(next_hop, net_time(now)) {
            Lookup::Found(mac) => NextHop::Neighbor(mac),
            Lookup::Wait => NextHop::Resolving,
            Lookup::Ask => {
                self.ask(next_hop, MacAddr::BROADCAST, counters);
                NextHop::Resolving
            }
            Lookup::Failed => NextHop::Unreachable,
        }
    }

    /// What was looked up may go elsewhere now.
    pub(super) fn forget_last_route(&mut self) {
        self.last_route = None;
        if let Some(v6) = &mut self.v6 {
            v6.last_route = None;
        }
    }

    fn ask(&mut self, ip: Ipv4Addr, to: MacAddr, counters: &mut Counters) {
        if let Some(ours) = self.own_v4 {
            let packet = arp::request(self.mac, ours, ip);
            self.send_arp(&packet, to, counters);
        }
    }

    pub(crate) fn send_arp(&mut self, packet: &ArpPacket, to: MacAddr, counters: &mut Counters) {
        let mut frame = [0; ethernet::HEADER_LEN + arp_wire::PACKET_LEN];
        let header = EthernetHeader {
            destination: to,
            source: self.mac,
            ether_type: EtherType::Arp,
        };
        let at = header.emit(&mut frame);
        packet.emit(frame.get_mut(at..).unwrap_or_default());
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
        if let Some(dhcp) = self.auto.as_mut().and_then(|auto| auto.dhcp.as_mut()) {
            dhcp.handle_arp(packet, net_time(now));
        }
        let sender = packet.sender_ip;
        let resolved = packet.sender_mac.is_unicast()
            && !packet.sender_ip.is_unspecified()
            && !self.is_ours(packet.sender_ip)
            && self
                .neighbors
                .learn(packet.sender_ip, packet.sender_mac, for_us, net_time(now));
        let address = self.own_v4;
        if let Some(answer) = arp::answer(packet, self.mac, |ip| Some(ip) == address) {
            self.send_arp(&answer, packet.sender_mac, counters);
        }
        if resolved {
            self.release_held(sender, now, counters);
        }
        resolved
    }

    /// Repeats what was asked and not answered, and does what is due for our own IPv6
    /// addresses; says whether a neighbour was given up.
    pub(crate) fn poll_neighbors(&mut self, now: Instant, counters: &mut Counters) -> bool {
        let mut ask = Vec::new();
        let mut failed = Vec::new();
        self.neighbors.poll(net_time(now), |event| match event {
            NeighborEvent::Ask(ip) => ask.push((ip, MacAddr::BROADCAST)),
            NeighborEvent::Probe(ip, mac) => ask.push((ip, mac)),
            NeighborEvent::Failed(ip) => failed.push(IpAddr::V4(ip)),
        });
        for (ip, to) in ask {
            self.ask(ip, to, counters);
        }
        self.poll6(now, &mut failed, counters);
        self.drop_held(&failed, counters);
        self.poll_announcements(now, counters);
        self.poll_groups(now, counters);
        self.poll_automatic(now, counters);
        !failed.is_empty()
    }

    /// When `poll_neighbors` has something to do.
    pub(crate) fn neighbor_deadline(&self) -> Option<Instant> {
        let v4 = self.neighbors.deadline().map(|t| Instant(t.0));
        let v6 = self.v6.as_ref().and_then(Link6::deadline);
        let auto = self.auto.as_ref().and_then(|auto| auto.deadline());
        let groups = self.groups.deadline();
        let announcing = self.announcing.deadline();
        let due = v4.into_iter().chain(v6).chain(auto).chain(groups);
        due.chain(announcing).min()
    }
}
