//! What programs read of the stack in the memory that they share with it: where their
//! connections go, how long their packets may be, what their sockets begin with.
//!
//! Called when a session begins and when one of these has changed.

use super::Stack;
use super::session::Session;
use longshore_hostif::Route;
use longshore_tcp::Congestion;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Its place in [`longshore_hostif::CONGESTION_NAMES`].
fn place_of(congestion: Congestion) -> u32 {
    let place = Congestion::ALL.iter().position(|c| *c == congestion);
    place.unwrap_or(0) as u32
}

/// The programs of a session learn with which congestion control their sockets begin, where
/// it is `usual` unless their launcher has chosen one.
pub(super) fn publish_congestion_to(session: &Session, usual: Congestion) {
    let congestion = session.congestion.unwrap_or(usual);
    session.host.set_congestion(place_of(congestion));
}

impl Stack {
    /// Programs learn with which congestion control their sockets begin.
    pub fn publish_congestion(&mut self) {
        let usual = self.settings.default_congestion(self.now);
        for (_, session) in self.sessions.iter() {
            publish_congestion_to(session, usual);
        }
    }

    /// Programs are told where their connections go now.
    pub(crate) fn addresses_changed(&mut self) {
        for (_, session) in self.sessions.iter() {
            self.publish_routes(session);
        }
        self.sockets.retry_unresolved();
    }

    /// The programs of a session are told where their connections go.
    pub(crate) fn publish_routes(&self, session: &Session) {
        session
            .host
            .publish_routes(&self.routes_for_programs(), self.settings.loopback);
        self.publish_mtu(session);
    }

    /// The first narrow path was found. Programs are told: those that refuse to have datagrams
    /// cut look there (IP_MTU_DISCOVER).
    pub(crate) fn path_mtu_changed(&self) {
        for (_, session) in self.sessions.iter() {
            self.publish_mtu(session);
        }
    }

    fn publish_mtu(&self, session: &Session) {
        let any = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let link = any.map(|to| self.link.link_mtu(to));
        let narrow = !self.link.pmtu.is_empty();
        session.host.publish_mtu(link, narrow);
    }

    fn routes_for_programs(&self) -> Vec<Route> {
        let route = |address, prefix_len, local| Route {
            address,
            prefix_len,
            local,
            scope: self.settings.scope,
        };
        let own = self.link.addresses().map(|c| {
            let all = if c.address.is_ipv4() { 32 } else { 128 };
            route(c.address, all, true)
        });
        let reached = self.link.routes.iter();
        let reached = reached.map(|r| route(r.to.network(), r.to.prefix_len, false));
        own.chain(reached).collect()
    }
}
