//! Next hops of IPv4 and who has their addresses: what is asked, answered and given up by ARP.
//!
//! `output` asks where a packet goes, `input` brings ARP packets, and the stack's timers call
//! [`Link::poll_neighbors`], which sees to all else of the link that is due, too.

use super::{Link, NextHop, net_time};
use crate::counters::Counters;
use longshore_net::arp;
use longshore_net::neighbor::{Lookup, NeighborEvent};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::arp::ArpPacket;
use std::net::{IpAddr, Ipv4Addr};

impl Link {
    /// Where a packet to `to` goes; asks for its next hop if need be.
    pub(crate) fn next_hop_to(
        &mut self,
        to: Ipv4Addr,
        now: Instant,
        counters: &mut Counters,
    ) -> NextHop {
        if self.addresses.is_ours(to) {
            return NextHop::Local;
        }
        if self.output.device.is_bare() {
            return NextHop::Neighbor(MacAddr::default());
        }
        let next_hop = match self.output.hops.last_v4(to) {
            Some(next_hop) => next_hop,
            None => {
                if let Some(mac) = self.addresses.mac_of_all(to) {
                    return NextHop::Neighbor(mac);
                }
                match self.output.hops.route_v4(to) {
                    Some(next_hop) => next_hop,
                    None => return NextHop::NoRoute,
                }
            }
        };
        match self.output.hops.v4.lookup(next_hop, net_time(now)) {
            Lookup::Found(mac) => NextHop::Neighbor(mac),
            Lookup::Wait => NextHop::Resolving,
            Lookup::Ask => {
                self.ask(next_hop, MacAddr::BROADCAST, counters);
                NextHop::Resolving
            }
            Lookup::Failed => NextHop::Unreachable,
        }
    }

    fn ask(&mut self, ip: Ipv4Addr, to: MacAddr, counters: &mut Counters) {
        if let Some(ours) = self.addresses.v4() {
            let packet = arp::request(self.output.device.mac(), ours, ip);
            self.output.device.send_arp(&packet, to, counters);
        }
    }

    /// Takes an ARP packet; says whether somebody we asked for has answered.
    pub(crate) fn take_arp(
        &mut self,
        packet: &ArpPacket,
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        let for_us = self.addresses.is_ours(packet.target_ip);
        self.auto.take_arp(packet, now);
        let sender = packet.sender_ip;
        let resolved = packet.sender_mac.is_unicast()
            && !packet.sender_ip.is_unspecified()
            && !self.addresses.is_ours(packet.sender_ip)
            && self.output.hops.v4.learn(
                packet.sender_ip,
                packet.sender_mac,
                for_us,
                net_time(now),
            );
        let (address, mac) = (self.addresses.v4(), self.output.device.mac());
        if let Some(answer) = arp::answer(packet, mac, |ip| Some(ip) == address) {
            self.output
                .device
                .send_arp(&answer, packet.sender_mac, counters);
        }
        if resolved {
            self.release_held(sender.into(), now, counters);
        }
        resolved
    }

    /// Repeats what was asked and not answered, and does what is due for our own IPv6
    /// addresses; says whether a neighbour was given up.
    pub(crate) fn poll_neighbors(&mut self, now: Instant, counters: &mut Counters) -> bool {
        let mut ask = Vec::new();
        let mut failed = Vec::new();
        self.output
            .hops
            .v4
            .poll(net_time(now), |event| match event {
                NeighborEvent::Ask(ip) => ask.push((ip, MacAddr::BROADCAST)),
                NeighborEvent::Probe(ip, mac) => ask.push((ip, mac)),
                NeighborEvent::Failed(ip) => failed.push(IpAddr::V4(ip)),
            });
        for (ip, to) in ask {
            self.ask(ip, to, counters);
        }
        self.poll6(now, &mut failed, counters);
        self.output.drop_held(&failed, counters);
        let (addresses, output) = (&self.addresses, &mut self.output);
        let is_leased = self.auto.asks_dhcp();
        let told = (addresses, self.groups.version6(now));
        self.announcing.poll(told, is_leased, output, now, counters);
        self.groups.poll(addresses, output, now, counters);
        self.poll_automatic(now, counters);
        !failed.is_empty()
    }

    /// When `poll_neighbors` has something to do.
    pub(crate) fn neighbor_deadline(&self) -> Option<Instant> {
        let hops = self.output.hops.deadline();
        let own = self.addresses.v6().and_then(|v6| v6.addresses.deadline());
        let own = own.map(|t| Instant(t.0));
        let auto = self.auto.deadline();
        let groups = self.groups.deadline();
        let announcing = self.announcing.deadline();
        let due = hops.into_iter().chain(own).chain(auto).chain(groups);
        due.chain(announcing).min()
    }
}
