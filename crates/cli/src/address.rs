//! Addresses and networks as users write them, and the choice of a free
//! network when they do not.

use longshore_ports::tap::{InterfaceAddress, overlaps};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// An address and the length of its network's prefix, as `10.77.0.2/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Network {
    pub(crate) address: Ipv4Addr,
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

impl Network {
    fn mask(self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.prefix_len))
            .unwrap_or(0)
    }

    /// The first address of the network, all host bits zero.
    fn first(self) -> u32 {
        u32::from(self.address) & self.mask()
    }

    pub(crate) fn contains(self, other: Ipv4Addr) -> bool {
        u32::from(other) & self.mask() == self.first()
    }

    /// An address of the network for the kernel, beside the engine's own: the
    /// first host, or the second if the engine has that.
    pub(crate) fn kernel_side(self) -> Ipv4Addr {
        let first = Ipv4Addr::from(self.first() + 1);
        if first == self.address {
            Ipv4Addr::from(self.first() + 2)
        } else {
            first
        }
    }
}

impl FromStr for Network {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        const WANTED: &str = "an IPv4 address with a prefix length, as 10.77.0.2/24";
        let (address, prefix_len) = text.split_once('/').ok_or_else(|| bad(text, WANTED))?;
        let network = Network {
            address: address.parse().map_err(|_| bad(text, WANTED))?,
            prefix_len: prefix_len.parse().map_err(|_| bad(text, WANTED))?,
        };
        if !(1..=30).contains(&network.prefix_len) {
            return Err(bad(text, "a network with room for two hosts: /1 to /30"));
        }
        let ip = network.address;
        let host = u32::from(ip) & !network.mask();
        if ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast() {
            return Err(bad(text, "an address that a host can have"));
        }
        if host == 0 || host == !network.mask() {
            return Err(bad(
                text,
                "a host's address: it is that of the network or its broadcast",
            ));
        }
        Ok(network)
    }
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

/// A kernel port that is relayed to a port of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expose {
    pub(crate) listen: SocketAddr,
    pub(crate) port: u16,
}

impl FromStr for Expose {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        const WANTED: &str = "[ADDRESS:]HOSTPORT:PORT, as 8080:80 or 127.0.0.1:8080:80";
        let parse = || {
            let (listen, port) = text.rsplit_once(':')?;
            let port: u16 = port.parse().ok().filter(|p| *p != 0)?;
            let listen = match listen.parse::<u16>() {
                Ok(host_port) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), host_port),
                Err(_) => listen.parse().ok()?,
            };
            Some(Expose { listen, port })
        };
        parse().ok_or_else(|| bad(text, WANTED))
    }
}

/// A free network of 10.77.0.0/16 with 256 addresses, of which the engine has
/// the second: one that overlaps with nothing in `taken`. `skip` passes over
/// that many, for those who found one taken after all.
pub(crate) fn free_network(
    taken: &[InterfaceAddress],
    routes: &[(Ipv4Addr, u8)],
    skip: usize,
) -> Option<Network> {
    let of = |third| Network {
        address: Ipv4Addr::new(10, 77, third, 2),
        prefix_len: 24,
    };
    let is_free = |network: &Network| {
        let prefix = (IpAddr::V4(network.address), network.prefix_len);
        !taken
            .iter()
            .any(|t| overlaps(prefix, (t.address, t.prefix_len)))
            && !routes
                .iter()
                .any(|(a, len)| overlaps(prefix, (IpAddr::V4(*a), *len)))
    };
    (0..=255).map(of).filter(is_free).nth(skip)
}

/// The routes of this network namespace that are not default routes, read from
/// the text of `/proc/net/route`.
pub(crate) fn parse_routes(table: &str) -> Vec<(Ipv4Addr, u8)> {
    let route = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Both in the machine's byte order, which is the network's reversed.
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let address = Ipv4Addr::from(number(1)?.to_ne_bytes());
        let prefix_len = number(7)?.count_ones() as u8;
        (prefix_len > 0).then_some((address, prefix_len))
    };
    table.lines().skip(1).filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_printed() {
        let n: Network = "10.77.3.2/24".parse().unwrap();
        assert_eq!(n.to_string(), "10.77.3.2/24");
        assert_eq!(n.kernel_side(), Ipv4Addr::new(10, 77, 3, 1));
        let n: Network = "10.77.3.1/24".parse().unwrap();
        assert_eq!(n.kernel_side(), Ipv4Addr::new(10, 77, 3, 2));
        let n: Network = "10.0.0.130/25".parse().unwrap();
        assert_eq!(n.kernel_side(), Ipv4Addr::new(10, 0, 0, 129));
        assert!(n.contains(Ipv4Addr::new(10, 0, 0, 254)));
        assert!(!n.contains(Ipv4Addr::new(10, 0, 0, 1)));
    }

    #[test]
    fn what_is_no_host_address_is_refused() {
        for bad in [
            "10.77.0.2",
            "10.77.0.2/",
            "10.77.0.2/31",
            "10.77.0.2/0",
            "10.77.0.0/24",
            "10.77.0.255/24",
            "127.0.0.1/8",
            "224.0.0.1/24",
            "::1/64",
            "x/24",
        ] {
            let error = bad.parse::<Network>().unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn exposed_ports_are_read() {
        let e: Expose = "8080:80".parse().unwrap();
        assert_eq!(
            (e.listen.to_string().as_str(), e.port),
            ("0.0.0.0:8080", 80)
        );
        let e: Expose = "127.0.0.1:8080:80".parse().unwrap();
        assert_eq!(e.listen.to_string(), "127.0.0.1:8080");
        let e: Expose = "[::1]:8080:80".parse().unwrap();
        assert_eq!(e.listen.to_string(), "[::1]:8080");
        for bad in [
            "80",
            "8080:0",
            "x:80",
            "8080:x",
            "1.2.3.4:80",
            "70000:80",
            "",
        ] {
            assert!(bad.parse::<Expose>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_first_network_that_overlaps_with_nothing_is_taken() {
        let taken = |address: &str, prefix_len| InterfaceAddress {
            interface: "x".to_owned(),
            address: address.parse().unwrap(),
            prefix_len,
        };
        let free = |taken: &[_], routes: &[_], skip| {
            free_network(taken, routes, skip).map(|n| n.to_string())
        };
        assert_eq!(free(&[], &[], 0).unwrap(), "10.77.0.2/24");
        let some = [taken("10.77.0.1", 24), taken("10.77.2.9", 23)];
        assert_eq!(free(&some, &[], 0).unwrap(), "10.77.1.2/24");
        assert_eq!(free(&some, &[], 1).unwrap(), "10.77.4.2/24");
        assert_eq!(free(&[], &[(Ipv4Addr::new(10, 0, 0, 0), 8)], 0), None);
    }

    #[test]
    fn the_kernels_routes_are_read() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
             eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\n\
             eth0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
             garbage\n";
        assert_eq!(parse_routes(table), [(Ipv4Addr::new(10, 77, 0, 0), 24)]);
    }
}
