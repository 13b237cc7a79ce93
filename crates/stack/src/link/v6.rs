//! Next hops of IPv6, and the messages of neighbour discovery and of MLD: what is asked for
//! our addresses and for neighbours, and what others are answered.
//!
//! `input6` hands the messages in, `link` asks for the rest.

use crate::counters::{Counters, EngineDrop};
use crate::link::local_addresses::LocalAddresses6;
use crate::link::{Link, NextHop, net_time};
use longshore_net::address6::Event;
use longshore_net::ndp;
use longshore_net::neighbor::{Lookup, NeighborEvent};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::icmpv6::{Icmpv6, NdpOptions, mld};
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::membership::Record;
use std::net::{IpAddr, Ipv6Addr};

impl Link {
    /// Whether packets to `ip` are taken: to one of our addresses, or a group.
    pub(crate) fn takes6(&self, ip: Ipv6Addr) -> bool {
        let listens = |v6: &LocalAddresses6| v6.addresses.listens_to(ip);
        self.addresses.is_ours6(ip)
            || (ip.is_multicast()
                && (self.addresses.v6().is_some_and(listens) || self.groups.v6.contains(ip)))
    }

    /// Where a packet to `to` goes; asks for its next hop if need be.
    pub(crate) fn next_hop6(
        &mut self,
        to: Ipv6Addr,
        now: Instant,
        counters: &mut Counters,
    ) -> NextHop {
        if self.addresses.is_ours6(to) {
            return NextHop::Local;
        }
        if self.output.device.is_bare() {
            return NextHop::Neighbor(MacAddr::default());
        }
        if to.is_multicast() {
            return NextHop::Neighbor(MacAddr::of_group(to));
        }
        if !self.addresses.has_v6() {
            return NextHop::NoRoute;
        }
        let Some(hop) = self.output.hops.route_v6(to) else {
            return NextHop::NoRoute;
        };
        match self.output.hops.v6.lookup(hop, net_time(now)) {
            Lookup::Found(mac) => NextHop::Neighbor(mac),
            Lookup::Wait => NextHop::Resolving,
            Lookup::Failed => NextHop::Unreachable,
            Lookup::Ask => {
                self.solicit(hop, None, counters);
                NextHop::Resolving
            }
        }
    }

    /// Asks where `ip` is: everybody, or the hardware address that was known to have it.
    fn solicit(&mut self, ip: Ipv6Addr, known: Option<MacAddr>, counters: &mut Counters) {
        let Some(v6) = self.addresses.v6() else {
            return;
        };
        let Some(source) = v6.addresses.source_for(ip) else {
            return;
        };
        let mac = v6
            .addresses
            .is_certain(source)
            .then_some(self.output.device.mac());
        let (message, to) = match known {
            Some(known) => (ndp::probe(source, ip, mac), known),
            None => {
                let message = ndp::solicit(source, ip, mac);
                (message, MacAddr::of_group(message.destination))
            }
        };
        self.output
            .send_ndp(&message, NextHop::Neighbor(to), counters);
    }

    /// Takes a message of neighbour discovery whose form is right; `options` stand
    /// behind its header. Says whether somebody we asked for has answered.
    pub(crate) fn take_ndp(
        &mut self,
        ip: &Ipv6Header,
        message: &Icmpv6,
        options: &[u8],
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        let Ok(options) = NdpOptions::parse(options) else {
            return false;
        };
        match *message {
            Icmpv6::NeighborSolicit { target } => {
                self.take_solicit(ip.source, target, options.source_link, now, counters)
            }
            Icmpv6::NeighborAdvert {
                solicited,
                override_known,
                target,
                ..
            } => {
                let Some(v6) = self.addresses.v6() else {
                    return false;
                };
                if v6.addresses.is_ours(target) {
                    self.take_conflict(target, now, counters);
                    return false;
                }
                let (at, then) = (options.target_link, net_time(now));
                let resolved =
                    self.output
                        .hops
                        .v6
                        .advertised(target, at, solicited, override_known, then);
                if resolved {
                    self.release_held(target.into(), now, counters);
                }
                resolved
            }
            Icmpv6::RouterAdvert { .. } => {
                if !self.addresses.has_v6() {
                    return false;
                }
                let answers = options
                    .source_link
                    .is_some_and(|mac| self.output.hops.v6.asked_by(ip.source, mac, net_time(now)));
                if answers {
                    self.release_held(ip.source.into(), now, counters);
                }
                self.take_router_advert(ip.source, message, &options, now, counters);
                answers
            }
            _ => false,
        }
    }

    /// Another host has `ip`, or wants it as we do: says whether that takes it from us.
    /// In the place of one that we made, another is made.
    fn take_conflict(&mut self, ip: Ipv6Addr, now: Instant, counters: &mut Counters) -> bool {
        let Some(v6) = self.addresses.v6_mut() else {
            return false;
        };
        if !v6.addresses.conflict(ip) {
            return false;
        }
        counters.drop(EngineDrop::DuplicateAddress);
        self.replace_address(ip, now);
        true
    }

    fn take_solicit(
        &mut self,
        asker: Ipv6Addr,
        target: Ipv6Addr,
        asker_at: Option<MacAddr>,
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        let ours = |v6: &LocalAddresses6| v6.addresses.is_ours(target);
        if !self.addresses.v6().is_some_and(ours) {
            return false;
        }
        // A host that asks without an address wants to have this one itself.
        if asker.is_unspecified() && self.take_conflict(target, now, counters) {
            return false;
        }
        let Some(v6) = self.addresses.v6() else {
            return false;
        };
        let resolved = asker_at.is_some_and(|mac| {
            !asker.is_unspecified() && self.output.hops.v6.asked_by(asker, mac, net_time(now))
        });
        let certain = v6.addresses.is_certain(target);
        let answer = ndp::answer(asker, target, self.output.device.mac(), certain);
        match self.next_hop6(answer.destination, now, counters) {
            hop @ (NextHop::Neighbor(_) | NextHop::Resolving) => {
                self.output.send_ndp(&answer, hop, counters)
            }
            _ => counters.drop(EngineDrop::Unresolved),
        }
        if resolved {
            self.release_held(asker.into(), now, counters);
        }
        resolved
    }

    /// Asks for our own addresses, and asks again for what was not answered; those that
    /// were given up join `failed`.
    pub(crate) fn poll6(
        &mut self,
        now: Instant,
        failed: &mut Vec<IpAddr>,
        counters: &mut Counters,
    ) {
        let Some(v6) = self.addresses.v6_mut() else {
            return;
        };
        let mut events = Vec::new();
        let mut ask = Vec::new();
        let mut gone = Vec::new();
        v6.addresses.poll(net_time(now), |e| events.push(e));
        if events.iter().any(|e| matches!(e, Event::Ours(_))) {
            self.output.hops.v6.ask_again(net_time(now));
        }
        self.output
            .hops
            .v6
            .poll(net_time(now), |event| match event {
                NeighborEvent::Ask(ip) => ask.push((ip, None)),
                NeighborEvent::Probe(ip, mac) => ask.push((ip, Some(mac))),
                NeighborEvent::Failed(ip) => {
                    failed.push(ip.into());
                    gone.push(ip);
                }
            });
        for router in gone {
            self.router_failed(router);
        }
        for event in events {
            self.own_address(event, now, counters);
        }
        for (ip, known) in ask {
            self.solicit(ip, known, counters);
        }
    }

    /// One of our addresses is to be asked for, or has proved to be ours.
    fn own_address(&mut self, event: Event, now: Instant, counters: &mut Counters) {
        if self.output.device.is_bare() {
            return;
        }
        let version = self.groups.version6(now);
        let Some(v6) = self.addresses.v6_mut() else {
            return;
        };
        match event {
            Event::Claim(ip) => {
                // First of all, switches must let the answers through.
                if !std::mem::replace(&mut v6.reported, true) {
                    self.addresses.report_groups(
                        (Ipv6Addr::UNSPECIFIED, version),
                        Record::ToExclude,
                        &mut self.output,
                        counters,
                    );
                }
                let message = ndp::claim(ip);
                let to = MacAddr::of_group(message.destination);
                self.output
                    .send_ndp(&message, NextHop::Neighbor(to), counters);
            }
            // The first report may be lost (RFC 3810 section 9.14.1), and its source
            // was nobody.
            Event::Ours(ip) if v6.link_local == Some(ip) => {
                self.addresses.report_groups(
                    (ip, version),
                    Record::ToExclude,
                    &mut self.output,
                    counters,
                );
            }
            Event::Ours(_) => {}
            Event::Expired(_) => self.reconfigured(),
        }
    }

    /// Answers who asks which groups we listen to: those of our addresses at once, those
    /// of programs within the time that the query leaves. `data` is what stands behind its group.
    pub(crate) fn answer_multicast_query(
        &mut self,
        ip: &Ipv6Header,
        (group, max_response): (Ipv6Addr, u16),
        data: &[u8],
        now: Instant,
        counters: &mut Counters,
    ) {
        let ours = self.addresses.link_local();
        let asks = ip.hop_limit == mld::HOP_LIMIT && ip.source.is_unicast_link_local();
        if let Some(ours) = ours.filter(|_| asks) {
            let version = mld::Version::of_query(data);
            self.groups.note_query6(version, now);
            let version6 = self.groups.version6(now);
            let (within, at) = (mld::response_ms(version, max_response), net_time(now));
            let groups = &mut self.groups.v6;
            match group.is_unspecified() {
                true => groups.asked_all(within, at),
                false => groups.asked(group, mld::sources_asked(data), within, at),
            }
            self.addresses.report_groups(
                (ours, version6),
                Record::IsExclude,
                &mut self.output,
                counters,
            );
        }
    }
}
