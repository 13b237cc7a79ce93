//! Addresses and networks as users write them, and the choice of a free
//! network when they do not.

use longshore_ports::tap::{InterfaceAddress, overlaps};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The smallest MTU that IPv6 has (RFC 8200 section 5).
pub(crate) const LEAST_MTU_V6: usize = 1280;

/// An address and the length of its network's prefix, as `10.77.0.2/24` or
/// `fd00::2/64`: a host's. A network of two addresses is a link between two hosts (RFC 3021,
/// RFC 6164), and one of a single address has no others at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    pub(crate) prefix_len: u8,
}

/// Not an address, or not one that an engine can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub(crate) struct BadAddress {
    text: String,
    wanted: &'static str,
}

fn bad(text: &str, wanted: &'static str) -> BadAddress {
    BadAddress {
        text: text.to_owned(),
        wanted,
    }
}

/// An address's bits, the first of them uppermost.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Network {
    fn mask(self) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(self.prefix_len))
            .unwrap_or(0)
    }

    /// The bits behind the prefix that an address of this version has.
    fn host_mask(self) -> u128 {
        let all = if self.address.is_ipv4() {
            u128::from(u32::MAX) << 96
        } else {
            u128::MAX
        };
        all & !self.mask()
    }

    pub(crate) fn contains(self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4()
            && (bits(other) ^ bits(self.address)) & self.mask() == 0
    }

    /// Whether all bits are the prefix's: there is no other address in the network.
    pub(crate) fn is_single(self) -> bool {
        self.host_mask() == 0
    }

    /// Whether the network is one of at most two addresses, each of them a host's.
    fn is_point_to_point(self) -> bool {
        self.host_mask().count_ones() <= 1
    }

    /// Whether a router with this address can be on the link: a host that is alone in its
    /// network has its routers outside of it.
    pub(crate) fn reaches(self, router: IpAddr) -> bool {
        let alike = self.address.is_ipv4() == router.is_ipv4();
        self.contains(router) || (self.is_single() && alike)
    }

    /// An address of the network for the kernel, beside the engine's own: the
    /// first host, or the second if the engine has that; the other of two. `None` if there
    /// is no other.
    pub(crate) fn kernel_side(self) -> Option<IpAddr> {
        if self.is_single() {
            return None;
        }
        if self.is_point_to_point() {
            return Some(match self.address {
                IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) ^ 1).into(),
                IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) ^ 1).into(),
            });
        }
        let host = |number: u128| match self.address {
            IpAddr::V4(ip) => {
                let first = u32::from(ip) & (self.mask() >> 96) as u32;
                IpAddr::V4(Ipv4Addr::from(first + number as u32))
            }
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from((u128::from(ip) & self.mask()) + number)),
        };
        Some(if host(1) == self.address {
            host(2)
        } else {
            host(1)
        })
    }
}

impl FromStr for Network {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        const WANTED: &str =
            "an address with a prefix length, as 10.77.0.2/24 or fd00::2/64, nor dhcp or slaac";
        let (address, prefix_len) = text.split_once('/').ok_or_else(|| bad(text, WANTED))?;
        let network = Network {
            address: address.parse().map_err(|_| bad(text, WANTED))?,
            prefix_len: prefix_len.parse().map_err(|_| bad(text, WANTED))?,
        };
        let ip = network.address;
        let (range, room) = if ip.is_ipv4() {
            (1..=32, "an address with a prefix length of /1 to /32")
        } else {
            (1..=128, "an address with a prefix length of /1 to /128")
        };
        if !range.contains(&network.prefix_len) {
            return Err(bad(text, room));
        }
        let no_host = match ip {
            IpAddr::V4(ip) => ip.is_broadcast(),
            IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
        };
        if ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || no_host {
            return Err(bad(text, "an address that a host can have"));
        }
        let host = bits(ip) & network.host_mask();
        if network.is_point_to_point() {
            return Ok(network);
        }
        if host == 0 || (ip.is_ipv4() && host == network.host_mask()) {
            return Err(bad(
                text,
                "a host's address: it is that of the network or its broadcast",
            ));
        }
        Ok(network)
    }
}

/// An address of the engine, or where it is to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressOrder {
    /// This one.
    Fixed(Network),
    /// One of IPv4 from a DHCP server.
    Dhcp,
    /// Those of IPv6 that go with the prefixes that routers advertise.
    Slaac,
}

impl FromStr for AddressOrder {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        match text {
            "dhcp" => Ok(Self::Dhcp),
            "slaac" => Ok(Self::Slaac),
            _ => text.parse().map(Self::Fixed),
        }
    }
}

/// The addresses of an engine that are to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Automatic {
    pub(crate) dhcp: bool,
    pub(crate) slaac: bool,
}

impl fmt::Display for Automatic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.dhcp, self.slaac) {
            (true, true) => "dhcp and slaac",
            (true, false) => "dhcp",
            (false, true) => "slaac",
            (false, false) => "none",
        })
    }
}

impl Automatic {
    /// Whether any are.
    pub(crate) fn any(self) -> bool {
        self.dhcp || self.slaac
    }

    /// The orders by what they are.
    pub(crate) fn split(orders: &[AddressOrder]) -> (Vec<Network>, Self) {
        let fixed = orders.iter().filter_map(|order| match order {
            AddressOrder::Fixed(network) => Some(*network),
            _ => None,
        });
        let automatic = Self {
            dhcp: orders.contains(&AddressOrder::Dhcp),
            slaac: orders.contains(&AddressOrder::Slaac),
        };
        (fixed.collect(), automatic)
    }
}

/// Networks as they are shown to people.
pub(crate) fn list(networks: &[Network]) -> String {
    let texts: Vec<String> = networks.iter().map(Network::to_string).collect();
    texts.join(" and ")
}

impl TryFrom<String> for Network {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Self, BadAddress> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> String {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

/// A link-local address for an engine that shares a hardware address with the kernel,
/// which has the one made of that; none without IPv6, or if one was given. Made of the
/// engine's own address, so that it is the same each time (in the manner of RFC 7217).
pub(crate) fn link_local_beside(networks: &[Network]) -> Option<Network> {
    let v6 = |n: &Network| match n.address {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(_) => None,
    };
    let mut own = networks.iter().filter_map(v6);
    if networks
        .iter()
        .filter_map(v6)
        .any(|ip| ip.is_unicast_link_local())
    {
        return None;
    }
    let bits = u128::from(own.next()?);
    // FNV-1a over the address.
    let identifier = bits
        .to_be_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3)
        });
    Some(Network {
        address: Ipv6Addr::from(0xfe80 << 112 | u128::from(identifier)).into(),
        prefix_len: 64,
    })
}

/// Free networks: of 10.77.0.0/16 one with 256 addresses and, if `ipv6`, the one of
/// fd4c:6f6e:6773::/48 with the same number. The engine has the second address of each.
/// They overlap with nothing in `taken`. `skip` passes over that many, for those who
/// found one taken after all.
///
/// RFC 4193 has the number of a local network drawn at random, so that two that are
/// joined some day do not clash; these never leave the machine, and people have to type
/// them.
pub(crate) fn free_networks(
    taken: &[InterfaceAddress],
    routes: &[(IpAddr, u8)],
    ipv6: bool,
    skip: usize,
) -> Option<Vec<Network>> {
    let of = |number: u8| {
        let v4 = Network {
            address: Ipv4Addr::new(10, 77, number, 2).into(),
            prefix_len: 24,
        };
        let v6 = Network {
            address: Ipv6Addr::new(0xfd4c, 0x6f6e, 0x6773, number.into(), 0, 0, 0, 2).into(),
            prefix_len: 64,
        };
        [Some(v4), ipv6.then_some(v6)]
    };
    let is_free = |network: &Network| {
        let prefix = (network.address, network.prefix_len);
        !taken
            .iter()
            .any(|t| overlaps(prefix, (t.address, t.prefix_len)))
            && !routes.iter().any(|route| overlaps(prefix, *route))
    };
    (0..=255)
        .map(of)
        .filter(|both| both.iter().flatten().all(is_free))
        .nth(skip)
        .map(|both| both.into_iter().flatten().collect())
}

/// The routes of this network namespace that are not default routes, read from
/// the text of `/proc/net/route`.
pub(crate) fn parse_routes(table: &str) -> Vec<(IpAddr, u8)> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Both in the machine's byte order, which is the network's reversed.
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let address = Ipv4Addr::from(number(1)?.to_ne_bytes());
        let prefix_len = number(7)?.count_ones() as u8;
        (prefix_len > 0).then_some((IpAddr::V4(address), prefix_len))
    };
    table.lines().skip(1).filter_map(route).collect()
}

/// As `parse_routes`, for IPv6, from the text of `/proc/net/ipv6_route`; the kernel's addresses
/// and groups among them do no harm.
pub(crate) fn parse_routes6(table: &str) -> Vec<(IpAddr, u8)> {
    let route = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let prefix_len = u8::from_str_radix(fields.next()?, 16).ok()?;
        let address = IpAddr::V6(Ipv6Addr::from(address));
        (prefix_len > 0 && prefix_len <= 128).then_some((address, prefix_len))
    };
    table.lines().filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_printed() {
        let n: Network = "10.77.3.2/24".parse().unwrap();
        assert_eq!(n.to_string(), "10.77.3.2/24");
        assert_eq!(n.kernel_side(), Some(ip("10.77.3.1")));
        let n: Network = "10.77.3.1/24".parse().unwrap();
        assert_eq!(n.kernel_side(), Some(ip("10.77.3.2")));
        let n: Network = "10.0.0.130/25".parse().unwrap();
        assert_eq!(n.kernel_side(), Some(ip("10.0.0.129")));
        assert!(n.contains(ip("10.0.0.254")));
        assert!(!n.contains(ip("10.0.0.1")) && !n.contains(ip("a00:82::")));
        let n: Network = "fd00::1/64".parse().unwrap();
        assert_eq!(n.to_string(), "fd00::1/64");
        assert_eq!(n.kernel_side(), Some(ip("fd00::2")));
        let n: Network = "fd00:0:0:7:1::/48".parse().unwrap();
        assert_eq!(n.kernel_side(), Some(ip("fd00::1")));
        assert!(n.contains(ip("fd00::9:0:0:0:1")) && !n.contains(ip("fd00:0:1::1")));
    }

    #[test]
    fn a_network_may_have_two_addresses_or_one() {
        for (text, other) in [
            ("10.0.0.2/31", Some("10.0.0.3")),
            ("10.0.0.3/31", Some("10.0.0.2")),
            ("fd00::/127", Some("fd00::1")),
            ("10.0.0.255/32", None),
            ("fd00::1/128", None),
        ] {
            let network: Network = text.parse().unwrap();
            assert_eq!(network.kernel_side(), other.map(ip), "{text}");
            assert_eq!(network.is_single(), other.is_none(), "{text}");
            assert_eq!(network.reaches(ip("192.0.2.1")), text == "10.0.0.255/32");
        }
    }

    #[test]
    fn what_is_no_host_address_is_refused() {
        for bad in [
            "10.77.0.2",
            "10.77.0.2/",
            "10.77.0.2/33",
            "10.77.0.2/0",
            "10.77.0.0/24",
            "10.77.0.255/24",
            "127.0.0.1/8",
            "224.0.0.1/24",
            "::1/64",
            "fd00::/64",
            "fd00::2/129",
            "ff02::1/64",
            "::ffff:10.0.0.1/100",
            "fd00::2",
            "x/24",
        ] {
            let error = bad.parse::<Network>().unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn beside_the_kernel_the_link_local_address_is_another() {
        let of = |texts: &[&str]| {
            let networks: Vec<Network> = texts.iter().map(|t| t.parse().unwrap()).collect();
            link_local_beside(&networks).map(|n| n.to_string())
        };
        let made = of(&["10.0.0.2/24", "fd00::2/64"]).unwrap();
        assert!(
            made.starts_with("fe80::") && made.ends_with("/64"),
            "{made}"
        );
        assert_eq!(of(&["fd00::2/64", "fd01::2/64"]), Some(made.clone()));
        assert_ne!(of(&["fd00::3/64"]), Some(made));
        assert_eq!(of(&["10.0.0.2/24"]), None);
        assert_eq!(of(&["fd00::2/64", "fe80::7/64"]), None);
    }

    #[test]
    fn the_first_network_that_overlaps_with_nothing_is_taken() {
        let taken = |address: &str, prefix_len| InterfaceAddress {
            interface: "x".to_owned(),
            address: address.parse().unwrap(),
            prefix_len,
        };
        let free = |taken: &[_], routes: &[_], skip| {
            free_networks(taken, routes, false, skip).map(|n| list(&n))
        };
        assert_eq!(free(&[], &[], 0).unwrap(), "10.77.0.2/24");
        let some = [taken("10.77.0.1", 24), taken("10.77.2.9", 23)];
        assert_eq!(free(&some, &[], 0).unwrap(), "10.77.1.2/24");
        assert_eq!(free(&some, &[], 1).unwrap(), "10.77.4.2/24");
        assert_eq!(free(&[], &[(ip("10.0.0.0"), 8)], 0), None);
        let both =
            |taken: &[_], routes: &[_]| free_networks(taken, routes, true, 0).map(|n| list(&n));
        let first = "10.77.0.2/24 and fd4c:6f6e:6773::2/64";
        assert_eq!(both(&[], &[]).as_deref(), Some(first));
        let second = Some("10.77.1.2/24 and fd4c:6f6e:6773:1::2/64");
        let there = [taken("fd4c:6f6e:6773::1", 64)];
        assert_eq!(both(&there, &[]).as_deref(), second);
        let routed = [(ip("fd4c:6f6e:6773::"), 64)];
        assert_eq!(both(&[], &routed).as_deref(), second);
    }

    #[test]
    fn the_kernels_routes_are_read() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
             eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\n\
             eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
             garbage\n";
        assert_eq!(parse_routes(table), [(ip("10.77.0.0"), 24)]);
        let table = "00000000000000000000000000000000 00 00 00 00 00 lo\n\
             fd4c6f6e677300000000000000000000 40 00 00 00 00 eth0\n\
             garbage\n";
        assert_eq!(parse_routes6(table), [(ip("fd4c:6f6e:6773::"), 64)]);
    }
}
