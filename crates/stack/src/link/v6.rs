//! The way out for IPv6: its addresses, its neighbours, and the messages of neighbour
//! discovery.
//!
//! Owns [`Link6`], what the [`Link`] has for IPv6 alone. `input6` hands the messages in,
//! `link` asks for the rest.

use crate::bytes::part;
use crate::counters::{Counters, EngineDrop};
use crate::link::routing::AddressError;
use crate::link::{Link, NEIGHBORS, NextHop, Transport, net_time};
use crate::secrets::{Purpose, Secrets};
use longshore_frames::{LinkKind, PortError};
use longshore_net::address6::{Addresses, Event};
use longshore_net::neighbor::{Lookup, NeighborEvent, Neighbors};
use longshore_net::router::Routers;
use longshore_net::{Cidr, ndp};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType};
use longshore_wire::icmpv6::{Icmpv6, NdpOptions, mld};
use longshore_wire::ipv6::{self, Ipv6Header, link_local, next_header};
use longshore_wire::membership::Record;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv6Addr};

/// The link and IP header that we write.
pub(crate) const LOWER_HEADERS: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
/// Room for all headers of a segment.
pub(crate) const HEADER_ROOM: usize = LOWER_HEADERS + longshore_wire::tcp::MAX_HEADER_LEN;

/// Addresses are asked for within this time, in microseconds (RFC 4862 section 5.4.2).
const CLAIM_WITHIN: u64 = 1_000_000;
/// The link-local network's prefix (RFC 4291 section 2.5.6).
const LINK_LOCAL_PREFIX: u8 = 64;

/// What IPv6 has for itself.
pub(crate) struct Link6 {
    pub(crate) addresses: Addresses,
    pub(crate) neighbors: Neighbors<Ipv6Addr>,
    /// As that of IPv4 in [`Link`].
    pub(super) last_route: Option<(Ipv6Addr, Ipv6Addr)>,
    /// Our address on the link itself; none where there are no stations.
    pub(crate) link_local: Option<Ipv6Addr>,
    identification: u32,
    /// Our groups have been reported to switches and routers at all.
    reported: bool,
}

impl Link6 {
    /// With these addresses and, where there is Ethernet, a link-local one: that among
    /// them, or else the one that goes with addresses made of what `routers` say, or else
    /// that of `mac`.
    pub(crate) fn new(
        given: &[Cidr],
        mac: Option<MacAddr>,
        routers: Option<&Routers>,
        secrets: &Secrets,
        now: Instant,
    ) -> Result<Self, AddressError> {
        let mut addresses = Addresses::new();
        let at = Instant(now.0 + secrets.number(Purpose::AddressDelay) % CLAIM_WITHIN);
        for cidr in given {
            let IpAddr::V6(ip) = cidr.address else {
                return Err(AddressError::V6(*cidr));
            };
            if !addresses.add(ip, cidr.prefix_len, net_time(at)) {
                return Err(AddressError::V6(*cidr));
            }
        }
        let of_link = |c: &Cidr| match c.address {
            IpAddr::V6(ip) => Some(ip).filter(Ipv6Addr::is_unicast_link_local),
            IpAddr::V4(_) => None,
        };
        let given = given.iter().find_map(of_link);
        let made = routers.map(Routers::link_local);
        let link_local = mac.map(|mac| given.or(made).unwrap_or(link_local(mac)));
        match (given, routers, link_local) {
            (None, Some(routers), _) => routers.add_link_local(&mut addresses, net_time(at)),
            (None, None, Some(ip)) => {
                addresses.add(ip, LINK_LOCAL_PREFIX, net_time(at));
            }
            _ => {}
        }
        Ok(Self {
            addresses,
            neighbors: Neighbors::new(NEIGHBORS),
            last_route: None,
            link_local,
            identification: secrets.number(Purpose::Identification6) as u32,
            reported: false,
        })
    }

    /// All addresses that it has or would have.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.addresses.iter().map(|(cidr, _)| cidr)
    }

    /// Those whose networks are on the link: addresses that we made say nothing of that
    /// (RFC 5942 section 4).
    pub(crate) fn on_link(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.addresses().filter(|cidr| match cidr.address {
            IpAddr::V6(ip) => ip.is_unicast_link_local() || self.addresses.made(ip).is_none(),
            IpAddr::V4(_) => false,
        })
    }

    /// When something is to be asked or repeated.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = self.addresses.deadline().into_iter();
        let due = due.chain(self.neighbors.deadline()).min();
        due.map(|t| Instant(t.0))
    }
}

impl Link {
    /// Whether `ip` is one of our addresses.
    #[inline]
    pub(crate) fn is_ours6(&self, ip: Ipv6Addr) -> bool {
        self.v6.as_ref().is_some_and(|v6| v6.addresses.is_ours(ip))
            || (self.loopback && ip.is_loopback())
    }

    /// Whether packets to `ip` are taken: to one of our addresses, or a group.
    pub(crate) fn takes6(&self, ip: Ipv6Addr) -> bool {
        let listens = |v6: &Link6| v6.addresses.listens_to(ip);
        self.is_ours6(ip)
            || (ip.is_multicast()
                && (self.v6.as_ref().is_some_and(listens) || self.groups.v6.contains(ip)))
    }

    /// Our IPv6 addresses.
    pub(crate) fn addresses6(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.v6.iter().flat_map(Link6::addresses)
    }

    /// Our address towards `to` (RFC 6724).
    pub(crate) fn source_for6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        self.v6.as_ref()?.addresses.source_for(to)
    }

    /// The next hop of `to` hears us.
    pub(crate) fn confirm6(&mut self, hop: Ipv6Addr, now: Instant) {
        if let Some(v6) = &mut self.v6 {
            v6.neighbors.confirm(hop, net_time(now));
        }
    }

    /// Where a packet to `to` goes; asks for its next hop if need be.
    pub(crate) fn next_hop6(
        &mut self,
        to: Ipv6Addr,
        now: Instant,
        counters: &mut Counters,
    ) -> NextHop {
        if self.is_ours6(to) {
            return NextHop::Local;
        }
        if self.capabilities.link == LinkKind::Ip {
            return NextHop::Neighbor(MacAddr::default());
        }
        if to.is_multicast() {
            return NextHop::Neighbor(MacAddr::of_group(to));
        }
        let Some(v6) = &mut self.v6 else {
            return NextHop::NoRoute;
        };
        let hop = match v6.last_route {
            Some((last, next_hop)) if last == to => next_hop,
            _ => {
                let route = self.routes.lookup(to.into());
                let Some(IpAddr::V6(next_hop)) = route.map(|route| route.next_hop) else {
                    return NextHop::NoRoute;
                };
                v6.last_route = Some((to, next_hop));
                next_hop
            }
        };
        match v6.neighbors.lookup(hop, net_time(now)) {
            Lookup::Found(mac) => NextHop::Neighbor(mac),
            Lookup::Wait => NextHop::Resolving,
            Lookup::Failed => NextHop::Unreachable,
            Lookup::Ask => {
                self.solicit(hop, None, counters);
                NextHop::Resolving
            }
        }
    }

    /// Asks where `ip` is: everybody, or the station that was known to have it.
    fn solicit(&mut self, ip: Ipv6Addr, station: Option<MacAddr>, counters: &mut Counters) {
        let Some(v6) = &self.v6 else { return };
        let Some(source) = v6.addresses.source_for(ip) else {
            return;
        };
        let mac = v6.addresses.is_certain(source).then_some(self.mac);
        let (message, to) = match station {
            Some(station) => (ndp::probe(source, ip, mac), station),
            None => {
                let message = ndp::solicit(source, ip, mac);
                (message, MacAddr::of_group(message.destination))
            }
        };
        self.send_ndp(&message, NextHop::Neighbor(to), counters);
    }

    pub(crate) fn send_ndp(
        &mut self,
        message: &ndp::Message,
        hop: NextHop,
        counters: &mut Counters,
    ) {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.bytes().len() as u16,
            next_header: next_header::ICMPV6,
            hop_limit: ndp::HOP_LIMIT,
            source: message.source,
            destination: message.destination,
        };
        self.send_finished6(&header, hop, message.bytes(), counters);
    }

    /// Sends a packet whose payload is finished, checksum and all.
    pub(crate) fn send_finished6(
        &mut self,
        ip: &Ipv6Header,
        hop: NextHop,
        payload: &[u8],
        counters: &mut Counters,
    ) {
        let mut buffer = [0u8; HEADER_ROOM];
        let pieces = [IoSlice::new(payload)];
        let sent = self.send_ipv6(ip, hop, &mut buffer, &Transport::finished(&pieces));
        if sent.is_err() {
            counters.drop(EngineDrop::PortRefused);
        }
    }

    /// Sends an IPv6 packet. `buffer` has the transport header from [`LOWER_HEADERS`] on;
    /// what stands before it is written here, and the transport checksum, by the port
    /// if it can.
    pub(crate) fn send_ipv6(
        &mut self,
        ip: &Ipv6Header,
        hop: NextHop,
        buffer: &mut [u8; HEADER_ROOM],
        transport: &Transport<'_>,
    ) -> Result<(), PortError> {
        ip.emit(&mut buffer[ethernet::HEADER_LEN..]);
        let length = transport.len() as u32;
        let pseudo = Partial::of_pseudo_v6(ip.source, ip.destination, transport.protocol, length);
        let kind = (EtherType::Ipv6, pseudo);
        self.send_packet(buffer, LOWER_HEADERS, kind, hop, transport)
    }

    /// The identification of the next packet that goes in fragments (RFC 7739 section
    /// 3: from a random start, so that it is not known to others).
    pub(crate) fn next_identification6(&mut self) -> u32 {
        let Some(v6) = &mut self.v6 else { return 0 };
        v6.identification = v6.identification.wrapping_add(1);
        v6.identification
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
                let Some(v6) = &mut self.v6 else { return false };
                if v6.addresses.is_ours(target) {
                    self.take_conflict(target, now, counters);
                    return false;
                }
                let (at, then) = (options.target_link, net_time(now));
                let resolved = v6
                    .neighbors
                    .advertised(target, at, solicited, override_known, then);
                if resolved {
                    self.release_held6(target, now, counters);
                }
                resolved
            }
            Icmpv6::RouterAdvert { .. } => {
                let Some(v6) = &mut self.v6 else { return false };
                let answers = options
                    .source_link
                    .is_some_and(|mac| v6.neighbors.asked_by(ip.source, mac, net_time(now)));
                if answers {
                    self.release_held6(ip.source, now, counters);
                }
                self.take_router_advert(ip.source, message, &options, now, counters);
                answers
            }
            _ => false,
        }
    }

    /// Another station has `ip`, or wants it as we do: says whether that takes it from us.
    /// In the place of one that we made, another is made.
    fn take_conflict(&mut self, ip: Ipv6Addr, now: Instant, counters: &mut Counters) -> bool {
        let Some(v6) = &mut self.v6 else { return false };
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
        let Some(v6) = &mut self.v6 else { return false };
        if !v6.addresses.is_ours(target) {
            return false;
        }
        // A station that asks without an address wants to have this one itself.
        if asker.is_unspecified() && self.take_conflict(target, now, counters) {
            return false;
        }
        let Some(v6) = &mut self.v6 else { return false };
        let resolved = asker_at.is_some_and(|mac| {
            !asker.is_unspecified() && v6.neighbors.asked_by(asker, mac, net_time(now))
        });
        let certain = v6.addresses.is_certain(target);
        let answer = ndp::answer(asker, target, self.mac, certain);
        match self.next_hop6(answer.destination, now, counters) {
            hop @ (NextHop::Neighbor(_) | NextHop::Resolving) => {
                self.send_ndp(&answer, hop, counters)
            }
            _ => counters.drop(EngineDrop::Unresolved),
        }
        if resolved {
            self.release_held6(asker, now, counters);
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
        let Some(v6) = &mut self.v6 else { return };
        let mut events = Vec::new();
        let mut ask = Vec::new();
        let mut gone = Vec::new();
        v6.addresses.poll(net_time(now), |e| events.push(e));
        if events.iter().any(|e| matches!(e, Event::Ours(_))) {
            v6.neighbors.ask_again(net_time(now));
        }
        v6.neighbors.poll(net_time(now), |event| match event {
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
            self.own_address(event, counters);
        }
        for (ip, station) in ask {
            self.solicit(ip, station, counters);
        }
    }

    /// One of our addresses is to be asked for, or has proved to be ours.
    fn own_address(&mut self, event: Event, counters: &mut Counters) {
        let Some(v6) = &mut self.v6 else { return };
        if self.capabilities.link == LinkKind::Ip {
            return;
        }
        match event {
            Event::Claim(ip) => {
                // First of all, switches must let the answers through.
                if !std::mem::replace(&mut v6.reported, true) {
                    self.report_own_groups(Ipv6Addr::UNSPECIFIED, Record::Joined, counters);
                }
                let message = ndp::claim(ip);
                let to = MacAddr::of_group(message.destination);
                self.send_ndp(&message, NextHop::Neighbor(to), counters);
            }
            // The first report may be lost (RFC 3810 section 9.14.1), and its source
            // was nobody.
            Event::Ours(ip) if v6.link_local == Some(ip) => {
                self.report_own_groups(ip, Record::Joined, counters);
            }
            Event::Ours(_) => {}
            Event::Expired(_) => self.reconfigured(),
        }
    }

    /// Answers who asks which groups we listen to: those of our addresses at once, those
    /// of programs within the time that the query leaves.
    pub(crate) fn answer_multicast_query(
        &mut self,
        ip: &Ipv6Header,
        (group, max_response): (Ipv6Addr, u16),
        now: Instant,
        counters: &mut Counters,
    ) {
        let ours = self.v6.as_ref().and_then(|v6| v6.link_local);
        let asks = ip.hop_limit == mld::HOP_LIMIT && ip.source.is_unicast_link_local();
        if let Some(ours) = ours.filter(|_| asks) {
            let group = (!group.is_unspecified()).then_some(group);
            let within_ms = mld::response_ms(max_response);
            self.groups.v6.asked(group, within_ms, net_time(now));
            self.report_own_groups(ours, Record::Listening, counters);
        }
    }

    pub(crate) fn report_own_groups(
        &mut self,
        from: Ipv6Addr,
        record: Record,
        counters: &mut Counters,
    ) {
        const ROOM: usize = mld::report_len(longshore_net::address6::MOST);
        let Some(v6) = &self.v6 else { return };
        let mut message = [0; ROOM];
        let len = mld::emit_report(from, record, v6.addresses.groups(), &mut message);
        self.send_group_report(from, part(&message, 0..len), counters);
    }

    /// Sends a report on one group that programs listen to.
    pub(crate) fn report_group6(
        &mut self,
        group: Ipv6Addr,
        record: Record,
        counters: &mut Counters,
    ) {
        // Before there is an address on the link, it is from nobody (RFC 3590 section 4).
        let link_local = self.v6.as_ref().and_then(|v6| v6.link_local);
        let from = link_local.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let mut message = [0; mld::report_len(1)];
        let len = mld::emit_report(from, record, std::iter::once(group), &mut message);
        self.send_group_report(from, part(&message, 0..len), counters);
    }

    fn send_group_report(&mut self, from: Ipv6Addr, message: &[u8], counters: &mut Counters) {
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
            next_header: next_header::HOP_BY_HOP,
            hop_limit: mld::HOP_LIMIT,
            source: from,
            destination: mld::ROUTERS,
        };
        let hop = NextHop::Neighbor(MacAddr::of_group(mld::ROUTERS));
        self.send_finished6(&header, hop, message, counters);
    }
}
