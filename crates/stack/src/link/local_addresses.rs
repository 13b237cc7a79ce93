//! Our own addresses, of both versions.
//!
//! Owns [`LocalAddresses`], which is part of the [`Link`](super::Link): whoever needs to know
//! whether an address is ours, or which of ours to use, borrows it alone. `automatic` changes it,
//! and `v6` asks on the link for the addresses that are to be ours.

use super::routing::AddressError;
use super::{IpOutput, net_time};
use crate::bytes::part;
use crate::counters::Counters;
use crate::secrets::{Purpose, Secrets};
use longshore_hostif::{loopback_at, loopback_place};
use longshore_net::Cidr;
use longshore_net::address6::{Addresses, State};
use longshore_net::router::Routers;
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::icmpv6::mld;
use longshore_wire::ipv6::link_local;
use longshore_wire::membership::Record;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Addresses are asked for within this time, in microseconds (RFC 4862 section 5.4.2).
const CLAIM_WITHIN: u64 = 1_000_000;
/// The link-local network's prefix (RFC 4291 section 2.5.6).
const LINK_LOCAL_PREFIX: u8 = 64;

/// Our addresses: at most one of IPv4.
pub(crate) struct LocalAddresses {
    /// The IPv4 address with its network. That of a lease that is over stays, so that the others
    /// keep their places in the list.
    v4: Option<Cidr>,
    /// The IPv4 address, as long as it is ours.
    v4_in_use: Option<Ipv4Addr>,
    v6: Option<LocalAddresses6>,
    /// Whether 127.0.0.0/8 and ::1 are ours.
    loopback: bool,
}

/// Our addresses of IPv6.
pub(crate) struct LocalAddresses6 {
    pub(super) addresses: Addresses,
    /// Our address on the link itself; none where there is no link layer.
    pub(super) link_local: Option<Ipv6Addr>,
    /// Our groups have been reported to switches and routers at all.
    pub(super) reported: bool,
}

impl LocalAddresses {
    pub(super) fn new(v4: Option<Cidr>, v6: Option<LocalAddresses6>, loopback: bool) -> Self {
        Self {
            v4,
            v4_in_use: address_of(v4),
            v6,
            loopback,
        }
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    pub(crate) fn is_ours(&self, ip: Ipv4Addr) -> bool {
        Some(ip) == self.v4_in_use || (self.loopback && ip.is_loopback())
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    pub(crate) fn is_ours6(&self, ip: Ipv6Addr) -> bool {
        self.v6.as_ref().is_some_and(|v6| v6.addresses.is_ours(ip))
            || (self.loopback && ip.is_loopback())
    }

    /// Whether `ip` is one of our addresses, of either version.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.is_ours(ip),
            IpAddr::V6(ip) => self.is_ours6(ip),
        }
    }

    /// All of them, those that we would have among them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.v4.into_iter().chain(self.iter6())
    }

    /// Those of IPv6.
    pub(super) fn iter6(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.v6.iter().flat_map(LocalAddresses6::iter)
    }

    /// Those of IPv6 whose networks are on the link.
    pub(super) fn on_link6(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.v6.iter().flat_map(LocalAddresses6::on_link)
    }

    /// The IPv4 address, if there is one.
    #[inline]
    pub(super) fn v4(&self) -> Option<Ipv4Addr> {
        self.v4_in_use
    }

    /// The IPv4 address with its network, if there is one.
    pub(super) fn v4_network(&self) -> Option<Cidr> {
        self.v4.filter(|_| self.v4_in_use.is_some())
    }

    /// This is our IPv4 address from now on, or none is.
    pub(super) fn set_v4(&mut self, v4: Option<Cidr>) {
        self.v4_in_use = address_of(v4);
        self.v4 = v4.or(self.v4);
    }

    /// Whether IPv6 is spoken.
    pub(crate) fn has_v6(&self) -> bool {
        self.v6.is_some()
    }

    /// Our addresses of IPv6, if that is spoken.
    pub(super) fn v6(&self) -> Option<&LocalAddresses6> {
        self.v6.as_ref()
    }

    /// Our addresses of IPv6, if that is spoken.
    pub(super) fn v6_mut(&mut self) -> Option<&mut LocalAddresses6> {
        self.v6.as_mut()
    }

    /// Our IPv6 address on the link itself.
    pub(crate) fn link_local(&self) -> Option<Ipv6Addr> {
        self.v6.as_ref()?.link_local
    }

    /// Reports the groups of our IPv6 addresses to switches and routers of `version`, from the address
    /// `from`.
    pub(super) fn report_groups(
        &self,
        (from, version): (Ipv6Addr, mld::Version),
        record: Record,
        output: &mut IpOutput,
        counters: &mut Counters,
    ) {
        const ROOM: usize = mld::report_len(longshore_net::address6::MOST, 0);
        let Some(v6) = self.v6() else {
            return;
        };
        if version == mld::Version::V1 {
            let report = |group| output.send_older_group_report(from, true, group, counters);
            v6.addresses.groups().for_each(report);
            return;
        }
        let mut message = [0; ROOM];
        let records = v6.addresses.groups().map(|group| (record, group, &[][..]));
        let len = mld::emit_report(from, records, &mut message);
        output.send_group_report(from, part(&message, 0..len), counters);
    }

    // ---- Which of them. ----

    /// Our address towards `to` (RFC 6724).
    pub(crate) fn source_for6(&self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        self.v6.as_ref()?.addresses.source_for(to)
    }

    /// Our address towards more than one host.
    pub(crate) fn source_for_all(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(_) => self.v4_in_use.map(IpAddr::V4),
            IpAddr::V6(to) => self.source_for6(to).map(IpAddr::V6),
        }
    }

    /// The address that `ip` stands for: connecting to the wildcard means to oneself, as in
    /// Linux.
    pub(crate) fn own_for_wildcard(&self, ip: IpAddr) -> IpAddr {
        if !ip.is_unspecified() {
            return ip;
        }
        let mut own = self.iter().map(|c| c.address);
        own.find(|own| own.is_ipv4() == ip.is_ipv4()).unwrap_or(ip)
    }

    /// The place of one of our addresses in a record; 0 for others.
    pub(crate) fn place_of(&self, own: IpAddr) -> u8 {
        if own.is_loopback() {
            return loopback_place(own).unwrap_or(0);
        }
        let at = self.iter().position(|c| c.address == own);
        at.and_then(|at| u8::try_from(at + 1).ok()).unwrap_or(0)
    }

    /// Our address at `place` of a record, with the port of `local`; `local` if there is
    /// none.
    pub(crate) fn own_or(&self, place: u8, local: SocketAddr) -> SocketAddr {
        if let Some(own) = loopback_at(place).filter(|_| self.loopback) {
            return SocketAddr::new(own, local.port());
        }
        let before = usize::from(place).checked_sub(1);
        let own = before.and_then(|before| self.iter().nth(before));
        own.map_or(local, |c| SocketAddr::new(c.address, local.port()))
    }

    // ---- Addresses of more than one host. ----

    /// Whether `ip` is an address of more than one host: a group's, everybody's, or
    /// that of all of our network.
    pub(crate) fn is_for_all(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => {
                self.v4_in_use.is_some() && (ip.is_multicast() || self.is_broadcast(ip))
            }
            IpAddr::V6(ip) => self.v6.is_some() && ip.is_multicast(),
        }
    }

    /// Whether `ip` is everybody's address, or that of all of our network.
    pub(super) fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        ip.is_broadcast() || self.v4.and_then(|c| c.broadcast()) == Some(ip)
    }

    /// The hardware address of packets to more than one host.
    pub(super) fn mac_of_all(&self, to: Ipv4Addr) -> Option<MacAddr> {
        if to.is_multicast() {
            Some(MacAddr::of_group_v4(to))
        } else {
            self.is_broadcast(to).then_some(MacAddr::BROADCAST)
        }
    }
}

/// The address of an IPv4 network that we are in.
fn address_of(v4: Option<Cidr>) -> Option<Ipv4Addr> {
    match v4?.address {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

impl LocalAddresses6 {
    /// With these addresses and, where there is Ethernet, a link-local one: that among
    /// them, or else the one that goes with addresses made of what `routers` say, or else
    /// that of `mac`.
    pub(super) fn new(
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
            link_local,
            reported: false,
        })
    }

    /// All addresses that it has or would have.
    fn iter(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.addresses.iter().map(|(cidr, _)| cidr)
    }

    /// Those whose networks are on the link: addresses that we made say nothing of that
    /// (RFC 5942 section 4).
    fn on_link(&self) -> impl Iterator<Item = Cidr> + '_ {
        self.iter().filter(|cidr| match cidr.address {
            IpAddr::V6(ip) => ip.is_unicast_link_local() || self.addresses.made(ip).is_none(),
            IpAddr::V4(_) => false,
        })
    }

    /// Those of which nobody else on the link has said that they are his (RFC 4862 section 5.4).
    pub(super) fn preferred(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let preferred = |(cidr, state): (Cidr, State)| match cidr.address {
            IpAddr::V6(ip) => (state == State::Preferred).then_some(ip),
            IpAddr::V4(_) => None,
        };
        self.addresses.iter().filter_map(preferred)
    }

    /// Whether there is one that was made of what a router advertised, and may be used.
    pub(super) fn has_made(&self) -> bool {
        let made = |(cidr, state): (Cidr, State)| match (cidr.address, state) {
            (IpAddr::V6(ip), State::Optimistic | State::Preferred) => {
                self.addresses.made(ip).is_some() && !ip.is_unicast_link_local()
            }
            _ => false,
        };
        self.addresses.iter().any(made)
    }
}

#[cfg(test)]
mod tests;
