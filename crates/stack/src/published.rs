//! What programs read of the stack in the memory that they share with it: where their
//! connections go, how long their packets may be, what their sockets begin with.
//!
//! Called when a session begins and when one of these has changed.

use super::link::Link;
use super::session::Session;
use super::sessions::Sessions;
use super::settings::Settings;
use longshore_hostif::Route;
use longshore_tcp::Congestion;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Its place in [`longshore_hostif::CONGESTION_NAMES`].
fn place_of(congestion: Congestion) -> u32 {
    let place = Congestion::ALL.iter().position(|c| *c == congestion);
    place.unwrap_or(0) as u32
}

impl Session {
    /// Its programs learn with which congestion control their sockets begin, where it is `usual`
    /// unless their launcher has chosen one.
    pub(super) fn publish_congestion(&self, usual: Congestion) {
        let congestion = self.congestion.unwrap_or(usual);
        self.host.header().set_congestion(place_of(congestion));
    }

    /// Its programs are told where their connections go.
    pub(super) fn publish_routes(&self, link: &Link, settings: &Settings) {
        let routes = routes_for_programs(link, settings.scope);
        self.host
            .header()
            .publish_routes(&routes, settings.loopback);
        self.publish_mtu(link);
    }

    fn publish_mtu(&self, link: &Link) {
        let any = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let narrow = !link.pmtu.is_empty();
        self.host
            .header()
            .publish_mtu(any.map(|to| link.link_mtu(to)), narrow);
    }
}

impl Sessions {
    /// Programs are told where their connections go now.
    pub(super) fn publish_routes(&self, link: &Link, settings: &Settings) {
        for (_, session) in self.iter() {
            session.publish_routes(link, settings);
        }
    }

    /// The first narrow path was found. Programs are told: those that refuse to have datagrams
    /// cut look there (IP_MTU_DISCOVER).
    pub(super) fn path_mtu_changed(&self, link: &Link) {
        for (_, session) in self.iter() {
            session.publish_mtu(link);
        }
    }
}

fn routes_for_programs(link: &Link, scope: u32) -> Vec<Route> {
    let route = |address, prefix_len, local| Route {
        address,
        prefix_len,
        local,
        scope,
    };
    let own = link.addresses.iter().map(|c| {
        let all = if c.address.is_ipv4() { 32 } else { 128 };
        route(c.address, all, true)
    });
    let reached = link.output.hops.routes().iter();
    let reached = reached.map(|r| route(r.to.network(), r.to.prefix_len, false));
    own.chain(reached).collect()
}
