//! The routing table: the next hop of a packet, and its source address.
//!
//! It is a table of a few entries, longest prefix first: the next hop in a connected
//! network is the destination itself, otherwise the gateway.

use crate::Cidr;
use core::net::IpAddr;

/// An entry of the routing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destination network.
    pub to: Cidr,
    /// The gateway; `None` for a network on the link.
    pub next_hop: Option<IpAddr>,
    /// Our source address for it.
    pub source: IpAddr,
    /// The route's MTU, if less than the link's.
    pub mtu: Option<u16>,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The host on the link that gets the packet.
    pub next_hop: IpAddr,
    /// Our source address for the destination.
    pub source: IpAddr,
    /// The route's MTU, if less than the link's.
    pub mtu: Option<u16>,
}

/// The routing table.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Longest prefix first.
    routes: Vec<Route>,
}

impl Routes {
    /// An empty table.
    #[must_use]
    pub const fn new() -> Self {
        Self { routes: Vec::new() }
    }

    /// Adds an entry, which replaces one for the same network.
    pub fn add(&mut self, route: Route) {
        self.remove(&route.to);
        let at = self
            .routes
            .partition_point(|r| r.to.prefix_len >= route.to.prefix_len);
        self.routes.insert(at, route);
    }

    /// Removes the entry for a network; returns whether there was one.
    pub fn remove(&mut self, to: &Cidr) -> bool {
        let before = self.routes.len();
        self.routes
            .retain(|r| r.to.prefix_len != to.prefix_len || r.to.network() != to.network());
        self.routes.len() != before
    }

    /// Looks up the route to `destination`.
    #[must_use]
    pub fn lookup(&self, destination: IpAddr) -> Option<Hop> {
        let route = self.routes.iter().find(|r| r.to.contains(destination))?;
        Some(Hop {
            next_hop: route.next_hop.unwrap_or(destination),
            source: route.source,
            mtu: route.mtu,
        })
    }

    /// All entries, longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    fn route(to: &str, next_hop: Option<&str>) -> Route {
        let to: Cidr = to.parse().unwrap();
        Route {
            to,
            next_hop: next_hop.map(|h| h.parse().unwrap()),
            source: to.address,
            mtu: None,
        }
    }

    #[test]
    fn connected_before_gateway() {
        let mut routes = Routes::new();
        routes.add(route("0.0.0.0/0", Some("10.0.0.1")));
        routes.add(route("10.0.0.2/24", None));
        routes.add(route("fd00::2/64", None));
        let hop = |to: &str| {
            routes
                .lookup(to.parse().unwrap())
                .map(|h| h.next_hop.to_string())
        };
        assert_eq!(hop("10.0.0.77").as_deref(), Some("10.0.0.77"));
        assert_eq!(hop("8.8.8.8").as_deref(), Some("10.0.0.1"));
        assert_eq!(hop("fd00::77").as_deref(), Some("fd00::77"));
        assert_eq!(hop("fd01::77"), None);
    }

    #[test]
    fn a_network_has_one_entry() {
        let mut routes = Routes::new();
        routes.add(route("10.0.0.2/24", None));
        routes.add(route("10.0.0.9/24", Some("10.0.0.1")));
        assert_eq!(routes.iter().count(), 1);
        let hop = routes.lookup(IpAddr::from([10, 0, 0, 5])).unwrap();
        assert_eq!(hop.source, IpAddr::from([10, 0, 0, 9]));
        assert!(routes.remove(&"10.0.0.0/24".parse().unwrap()));
        assert!(!routes.remove(&"10.0.0.0/24".parse().unwrap()));
        assert_eq!(routes.lookup(IpAddr::from([10, 0, 0, 5])), None);
    }

    #[test]
    fn entries_are_listed_longest_first_and_as_they_were_added() {
        let mut routes = Routes::new();
        for to in ["10.0.0.0/24", "0.0.0.0/0", "10.0.2.0/24", "10.0.1.9/32"] {
            routes.add(route(to, None));
        }
        let listed: Vec<String> = routes.iter().map(|r| r.to.to_string()).collect();
        assert_eq!(
            listed,
            ["10.0.1.9/32", "10.0.0.0/24", "10.0.2.0/24", "0.0.0.0/0"]
        );
    }

    proptest! {
        #[test]
        fn the_longest_prefix_wins(entries in proptest::collection::vec((0u32..64, 26u8..=32), 0..12), to in 0u32..64) {
            let ip = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
            let mut routes = Routes::new();
            for (i, (bits, prefix_len)) in entries.iter().enumerate() {
                let to = Cidr { address: ip(*bits), prefix_len: *prefix_len };
                routes.add(Route { to, next_hop: None, source: ip(i as u32), mtu: None });
            }
            let best = entries
                .iter()
                .enumerate()
                .filter(|(_, (bits, len))| (bits ^ to).leading_zeros() >= u32::from(*len))
                .max_by_key(|(i, (_, len))| (*len, *i));
            prop_assert_eq!(routes.lookup(ip(to)).map(|h| h.source), best.map(|(i, _)| ip(i as u32)));
        }
    }
}
