//! The groups that programs have joined, with their sources, and what is told to routers of them
//! (IGMP and MLD).
//!
//! Owns [`Memberships`]; `groups` and `source_filters` change what is received for sockets.

use super::local_addresses::LocalAddresses;
use super::{Device, IpOutput, Link, net_time};
use crate::address_pair::AddressPair;
use crate::bytes::part;
use crate::counters::{Counters, EngineDrop};
use crate::secrets::{Purpose, Secrets};
use longshore_frames::TxFrame;
use longshore_net::groups::{Filter, Full, Groups, Member, Mode, Report};
use longshore_tcp::Instant;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::icmpv6::mld;
use longshore_wire::igmp::{self, Query, Version};
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};
use longshore_wire::ipv6::ALL_NODES;
use longshore_wire::membership::Record;
use longshore_wire::{MacAddr, WireError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// For how long an older router's version is spoken after its query, in microseconds
/// (RFC 3376 section 8.12, RFC 3810 section 9.12: twice its interval of 125 s, and the time for
/// answers).
const OLDER_ROUTER: u64 = 260_000_000;

/// The groups that programs have joined.
#[derive(Debug)]
pub(crate) struct Memberships {
    pub(crate) v4: Groups<Ipv4Addr>,
    pub(crate) v6: Groups<Ipv6Addr>,
    /// The oldest version that a router has asked in, and until when it counts.
    older: (Version, Instant),
    /// Until when the routers of IPv6 speak MLDv1.
    older6: Instant,
}

impl Memberships {
    pub(crate) fn new(secrets: &Secrets) -> Self {
        Self {
            v4: Groups::new(secrets.number(Purpose::Groups4)),
            v6: Groups::new(secrets.number(Purpose::Groups6)),
            older: (Version::V3, Instant(0)),
            older6: Instant(0),
        }
    }

    /// When [`poll`](Self::poll) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (v4, v6) = (self.v4.deadline(), self.v6.deadline());
        v4.into_iter().chain(v6).min().map(|at| Instant(at.0))
    }

    /// What is spoken to the routers of the link.
    fn version(&self, now: Instant) -> Version {
        match self.older {
            (version, until) if now < until => version,
            _ => Version::V3,
        }
    }

    /// A router has asked in this version.
    pub(crate) fn note_query(&mut self, version: Version, now: Instant) {
        if version < Version::V3 && version <= self.version(now) {
            self.older = (version, Instant(now.0 + OLDER_ROUTER));
        }
    }

    /// What is spoken to the routers of IPv6 (RFC 3810 section 8.2.1).
    pub(crate) fn version6(&self, now: Instant) -> mld::Version {
        match now < self.older6 {
            true => mld::Version::V1,
            false => mld::Version::V2,
        }
    }

    /// As `note_query`, of IPv6.
    pub(crate) fn note_query6(&mut self, version: mld::Version, now: Instant) {
        if version == mld::Version::V1 {
            self.older6 = Instant(now.0 + OLDER_ROUTER);
        }
    }

    /// An IGMP message: of a router's queries, the answers are put off at random (RFC
    /// 3376 section 5.2).
    ///
    /// # Errors
    /// [`WireError`], if it is none.
    pub(crate) fn take_igmp(
        &mut self,
        ip: &Ipv4Header,
        message: &[u8],
        now: Instant,
    ) -> Result<(), WireError> {
        let Some(query) = Query::parse(message)?.filter(|_| ip.ttl == igmp::TTL) else {
            return Ok(());
        };
        self.note_query(query.version, now);
        let (within, at) = (query.within_ms, net_time(now));
        match query.group {
            group if group.is_unspecified() => self.v4.asked_all(within, at),
            group => self
                .v4
                .asked(group, igmp::sources_asked(message), within, at),
        }
        Ok(())
    }

    /// What a socket of `by` receives of a group changes from one filter to another, if there is
    /// room for that. The port is told of a group that comes or goes.
    pub(crate) fn change(
        &mut self,
        (group, by): (IpAddr, Member),
        (from, to): (Filter<'_, IpAddr>, Filter<'_, IpAddr>),
        now: Instant,
        device: &mut Device,
    ) -> Result<(), Full> {
        let now = net_time(now);
        let was_there = self.contains(group);
        match group {
            IpAddr::V4(group) => {
                let [from_list, to_list] = [from, to].map(|f| sources_of(f, v4));
                let filters = (listing(from.mode, &from_list), listing(to.mode, &to_list));
                self.v4.change(group, by, filters, now)?;
            }
            IpAddr::V6(group) => {
                let [from_list, to_list] = [from, to].map(|f| sources_of(f, v6));
                let filters = (listing(from.mode, &from_list), listing(to.mode, &to_list));
                self.v6.change(group, by, filters, now)?;
            }
        }
        if self.contains(group) != was_there {
            self.show(device);
        }
        Ok(())
    }

    /// Whether somebody here is a member of a group.
    fn contains(&self, group: IpAddr) -> bool {
        match group {
            IpAddr::V4(group) => self.v4.contains(group),
            IpAddr::V6(group) => self.v6.contains(group),
        }
    }

    /// Whether somebody here receives what `source` sends to a group.
    pub(crate) fn permits(&self, group: IpAddr, source: IpAddr) -> bool {
        match (group, source) {
            (IpAddr::V4(group), IpAddr::V4(source)) => self.v4.permits(group, source),
            (IpAddr::V6(group), IpAddr::V6(source)) => self.v6.permits(group, source),
            _ => false,
        }
    }

    /// Has the port let through what is wanted.
    fn show(&self, device: &mut Device) {
        let v4 = self.v4.iter().map(IpAddr::V4);
        let all: Vec<IpAddr> = v4.chain(self.v6.iter().map(IpAddr::V6)).collect();
        device.show_groups(&all);
    }

    /// Tells routers what is due.
    pub(super) fn poll(
        &mut self,
        addresses: &LocalAddresses,
        output: &mut IpOutput,
        now: Instant,
        counters: &mut Counters,
    ) {
        let (at, version, version6) = (net_time(now), self.version(now), self.version6(now));
        self.v4.poll(at, |report| {
            // In the group of all hosts everybody is (RFC 3376 section 6).
            if let Some(from) = addresses.v4().filter(|_| report.group != igmp::ALL_SYSTEMS) {
                report4((from, version), report, &mut output.device, counters);
            }
        });
        self.v6.poll(at, |report| {
            // Nor are groups that do not leave the link's hosts (RFC 3810 section 6).
            if report.group != ALL_NODES && report.group.octets()[1] & 15 > 1 {
                report6((addresses, version6), report, output, counters);
            }
        });
    }
}

fn v4(ip: &IpAddr) -> Option<Ipv4Addr> {
    match *ip {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

fn v6(ip: &IpAddr) -> Option<Ipv6Addr> {
    match *ip {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(_) => None,
    }
}

fn sources_of<A>(filter: Filter<'_, IpAddr>, read: fn(&IpAddr) -> Option<A>) -> Vec<A> {
    filter.sources.iter().filter_map(read).collect()
}

fn listing<A>(mode: Mode, sources: &[A]) -> Filter<'_, A> {
    Filter { mode, sources }
}

/// The lists of the packets that a record takes of which each has room for `most` sources. Of those
/// that are not received, it may name some alone (RFC 3376 section 4.2.16).
fn lists<A>(record: Record, sources: &[A], most: usize) -> impl Iterator<Item = &[A]> {
    let packets = match record.excludes() || sources.is_empty() {
        true => 1,
        false => sources.len().div_ceil(most),
    };
    let list = move |nth| {
        let rest = sources.get(nth * most..).unwrap_or_default();
        rest.get(..most).unwrap_or(rest)
    };
    (0..packets).map(list)
}

/// Sends a report on one group from an address of ours, in the version that its routers speak:
/// before version 3 there are members alone, who are so whatever their sources (RFC 3376 section
/// 7.3.1).
fn report4(
    (from, version): (Ipv4Addr, Version),
    report: &Report<'_, Ipv4Addr>,
    device: &mut Device,
    counters: &mut Counters,
) {
    let (record, sources) = match (version, report.is_member) {
        (Version::V3, _) => (report.record, report.sources),
        (_, true) if report.record == Record::Block => return,
        (_, true) => (Record::IsExclude, &[][..]),
        (_, false) => (Record::ToInclude, &[][..]),
    };
    for list in lists(record, sources, igmp::MOST_SOURCES) {
        let packet = igmp::report(from, version, record, (report.group, list));
        if let Some((packet, len)) = packet {
            send4(&packet, len, device, counters);
        }
    }
}

fn send4(
    packet: &[u8; igmp::PACKET_LEN],
    len: usize,
    device: &mut Device,
    counters: &mut Counters,
) {
    let mut frame = [0; ethernet::HEADER_LEN + igmp::PACKET_LEN];
    let header = EthernetHeader {
        destination: MacAddr::of_group_v4(igmp::destination(packet)),
        source: device.mac(),
        ether_type: EtherType::Ipv4,
    };
    header.emit(&mut frame);
    frame[ethernet::HEADER_LEN..].copy_from_slice(packet);
    let begins = match device.is_bare() {
        true => ethernet::HEADER_LEN,
        false => 0,
    };
    let frame = part(&frame, begins..ethernet::HEADER_LEN + len);
    if device.send(&TxFrame::whole(frame)).is_err() {
        counters.drop(EngineDrop::PortRefused);
    }
}

/// As `report4`, of IPv6.
fn report6(
    (addresses, version): (&LocalAddresses, mld::Version),
    report: &Report<'_, Ipv6Addr>,
    output: &mut IpOutput,
    counters: &mut Counters,
) {
    // Before there is an address on the link, it is from nobody (RFC 3590 section 4).
    let from = addresses.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED);
    if version == mld::Version::V1 {
        // Of its sources such a router knows nothing (RFC 3810 section 8.3.1).
        if !(report.is_member && report.record == Record::Block) {
            output.send_older_group_report(from, report.is_member, report.group, counters);
        }
        return;
    }
    let mut message = [0; mld::report_len(1, mld::MOST_SOURCES)];
    for list in lists(report.record, report.sources, mld::MOST_SOURCES) {
        let record = (report.record, report.group, list);
        let len = mld::emit_report(from, std::iter::once(record), &mut message);
        output.send_group_report(from, part(&message, 0..len), counters);
    }
}

impl Link {
    /// Whether what a socket sends between these comes back to our own sockets, too, as
    /// it does to the others on the link: broadcasts always, and groups that somebody
    /// listens to unless the sender forbids it (IP_MULTICAST_LOOP).
    pub(crate) fn comes_back(&self, addresses: &AddressPair, looped: bool) -> bool {
        match *addresses {
            AddressPair::V4 { to, .. } if to.is_multicast() => {
                looped && self.groups.v4.contains(to)
            }
            AddressPair::V4 { to, .. } => self.takes4(to),
            AddressPair::V6 { to, .. } => looped && self.groups.v6.contains(to),
        }
    }

    /// Whether packets to an IPv4 address of more than one host are taken.
    pub(crate) fn takes4(&self, ip: Ipv4Addr) -> bool {
        self.addresses.v4().is_some()
            && (self.addresses.is_broadcast(ip)
                || ip == igmp::ALL_SYSTEMS
                || self.groups.v4.contains(ip))
    }

    /// As `takes4`, for the destination of a packet, of which nothing is known yet.
    pub(crate) fn takes_group(&self, packet: &[u8]) -> bool {
        let header = packet.first_chunk::<HEADER_LEN>();
        header.is_some_and(|h| self.takes4(Ipv4Addr::new(h[16], h[17], h[18], h[19])))
    }
}
