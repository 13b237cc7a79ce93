//! Where packets go: routes, and the hardware addresses of the neighbours that these lead to.
//!
//! Owns [`NextHops`], which is part of the [`Link`](super::Link), with the packets that wait for
//! a neighbour's answer. `neighbors` and `v6` ask on the link for what is not known here.

use super::net_time;
use longshore_net::neighbor::Neighbors;
use longshore_net::route::Routes;
use longshore_tcp::Instant;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Neighbours of one version of IP remembered at most.
pub(super) const NEIGHBORS: usize = 1024;
/// How often progress towards one destination tells of its next hop, in microseconds.
const CONFIRM_AFTER: u64 = 1_000_000;

/// Routes and neighbours.
pub(crate) struct NextHops {
    routes: Routes,
    gateways: Vec<IpAddr>,
    /// The destination that was looked up last of those behind a neighbor, and its next hop:
    /// what follows to it is not looked up again.
    last_v4: Option<(Ipv4Addr, Ipv4Addr)>,
    /// As `last_v4`, of IPv6.
    last_v6: Option<(Ipv6Addr, Ipv6Addr)>,
    pub(super) v4: Neighbors,
    pub(super) v6: Neighbors<Ipv6Addr>,
    /// Of whom it was said last that what we send arrives, and when.
    confirmed: Option<(IpAddr, Instant)>,
}

impl NextHops {
    pub(super) fn new(routes: Routes, gateways: &[IpAddr]) -> Self {
        Self {
            routes,
            gateways: gateways.to_vec(),
            last_v4: None,
            last_v6: None,
            v4: Neighbors::new(NEIGHBORS),
            v6: Neighbors::new(NEIGHBORS),
            confirmed: None,
        }
    }

    // ---- Routes. ----

    /// The routes.
    pub(crate) fn routes(&self) -> &Routes {
        &self.routes
    }

    /// The routers to everywhere else.
    pub(crate) fn gateways(&self) -> &[IpAddr] {
        &self.gateways
    }

    /// Packets go by these routes from now on.
    pub(super) fn set_routes(&mut self, routes: Routes) {
        self.gateways = routes.iter().filter_map(|route| route.next_hop).collect();
        self.routes = routes;
    }

    /// What was looked up may go elsewhere now.
    pub(super) fn forget_last(&mut self) {
        self.last_v4 = None;
        self.last_v6 = None;
    }

    /// The next hop of `to`, if that was looked up last.
    #[inline]
    pub(super) fn last_v4(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        self.last_v4
            .and_then(|(last, next_hop)| (last == to).then_some(next_hop))
    }

    /// Looks up the next hop of `to`; `None` if there is no route.
    pub(super) fn route_v4(&mut self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let Some(IpAddr::V4(next_hop)) = self.routes.lookup(to.into()).map(|r| r.next_hop) else {
            return None;
        };
        self.last_v4 = Some((to, next_hop));
        Some(next_hop)
    }

    /// The next hop of `to`; `None` if there is no route.
    #[inline]
    pub(super) fn route_v6(&mut self, to: Ipv6Addr) -> Option<Ipv6Addr> {
        if let Some((last, next_hop)) = self.last_v6
            && last == to
        {
            return Some(next_hop);
        }
        let Some(IpAddr::V6(next_hop)) = self.routes.lookup(to.into()).map(|r| r.next_hop) else {
            return None;
        };
        self.last_v6 = Some((to, next_hop));
        Some(next_hop)
    }

    // ---- Neighbours. ----

    /// What we send to `to` arrives there, as its acknowledgments prove (RFC 4861
    /// section 7.3.1): the next hop need not be asked. Not more than once a second is
    /// worth the search.
    pub(crate) fn confirm(&mut self, to: IpAddr, now: Instant) {
        if let Some((last, at)) = self.confirmed
            && last == to
            && now.0.saturating_sub(at.0) < CONFIRM_AFTER
        {
            return;
        }
        self.confirmed = Some((to, now));
        match self.routes.lookup(to).map(|hop| hop.next_hop) {
            Some(IpAddr::V4(hop)) => self.v4.confirm(hop, net_time(now)),
            Some(IpAddr::V6(hop)) => self.v6.confirm(hop, net_time(now)),
            None => {}
        }
    }

    /// The link carries frames again: those in use are asked whether they are still there.
    pub(super) fn link_returned(&mut self, now: Instant) {
        self.confirmed = None;
        self.v4.link_returned(net_time(now));
        self.v6.link_returned(net_time(now));
    }

    /// When a neighbour is to be asked again, or given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = self.v4.deadline().into_iter().chain(self.v6.deadline());
        due.min().map(|t| Instant(t.0))
    }

    // ---- Packets that wait. ----

    /// Keeps a finished packet to `to`, from its IP header on, until its next hop answers.
    pub(super) fn hold(&mut self, to: IpAddr, packet: Vec<u8>) {
        match self.routes.lookup(to).map(|hop| hop.next_hop) {
            Some(IpAddr::V4(hop)) => self.v4.hold(hop, packet),
            Some(IpAddr::V6(hop)) => self.v6.hold(hop, packet),
            None => {}
        }
    }

    /// The packets that wait for a neighbour wait no longer.
    pub(super) fn release(&mut self, neighbor: IpAddr) -> VecDeque<Vec<u8>> {
        match neighbor {
            IpAddr::V4(ip) => self.v4.release(ip),
            IpAddr::V6(ip) => self.v6.release(ip),
        }
    }

    /// How many packets have found no room to wait since this was last asked.
    pub(super) fn take_overflowed(&mut self) -> u64 {
        self.v4.take_overflowed() + self.v6.take_overflowed()
    }
}

#[cfg(test)]
mod tests;
