//! What `--expose` says: which ports of the kernel lead to which of the program's, and how.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The version of the PROXY protocol in which the program learns who its clients are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Proxy {
    V1,
    V2,
}

/// What passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Passes {
    /// Connections of TCP, each of which may begin with its client's address.
    Streams(Option<Proxy>),
    /// Datagrams of UDP.
    Datagrams,
}

/// Where clients come: a port, on one address or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// All addresses of the kernel, of both versions of IP as far as it has them.
    Everywhere(u16),
    At(SocketAddr),
}

impl Outside {
    /// The address to bind to, for both versions of IP where it is that of everywhere.
    pub(crate) fn address(self) -> SocketAddr {
        match self {
            Outside::Everywhere(port) => (Ipv6Addr::UNSPECIFIED, port).into(),
            Outside::At(address) => address,
        }
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outside::Everywhere(port) => write!(f, "port {port}"),
            Outside::At(address) => address.fmt(f),
        }
    }
}

/// A kernel port that is relayed to a port of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expose {
    pub(crate) listen: Outside,
    pub(crate) port: u16,
    pub(crate) passes: Passes,
}

/// One `--expose`: a port, or a range of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExposeOrder(pub(crate) Vec<Expose>);

/// Not what `--expose` takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not [ADDRESS:]HOSTPORT:PORT, as 8080:80, 127.0.0.1:8080:80, 9000-9009:9000-9009, \
     5353:53/udp or 8080:80/proxy{why}"
)]
pub(crate) struct BadExpose {
    text: String,
    why: &'static str,
}

/// A port or a range of them, both ends included; none is 0.
fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first != 0 && first <= last).then_some((first, last))
}

impl FromStr for ExposeOrder {
    type Err = BadExpose;

    fn from_str(text: &str) -> Result<Self, BadExpose> {
        let bad = |why| BadExpose {
            text: text.to_owned(),
            why,
        };
        let (places, how) = text.split_once('/').unwrap_or((text, "tcp"));
        let passes = match how {
            "tcp" => Passes::Streams(None),
            "proxy" | "proxy-v1" => Passes::Streams(Some(Proxy::V1)),
            "proxy-v2" => Passes::Streams(Some(Proxy::V2)),
            "udp" => Passes::Datagrams,
            _ => return Err(bad("; behind the / stands tcp, udp, proxy or proxy-v2")),
        };
        let (outside, inside) = places.rsplit_once(':').ok_or_else(|| bad(""))?;
        let (address, outside) = match outside.rsplit_once(':') {
            // The address is read together with a port, which tells that of IPv6 apart.
            Some((address, ports)) => {
                let whole: SocketAddr = format!("{address}:0").parse().map_err(|_| bad(""))?;
                (Some(whole.ip()), ports)
            }
            None => (None, outside),
        };
        let (from, to) = ports(outside).ok_or_else(|| bad(""))?;
        let (first, last) = ports(inside).ok_or_else(|| bad(""))?;
        if to - from != last - first {
            return Err(bad("; both ranges are of one length"));
        }
        let one = |(outside, port)| Expose {
            listen: match address {
                Some(address) => Outside::At(SocketAddr::new(address, outside)),
                None => Outside::Everywhere(outside),
            },
            port,
            passes,
        };
        Ok(ExposeOrder(
            (from..=to).zip(first..=last).map(one).collect(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, u16, Passes)> {
        let ExposeOrder(all) = text.parse().unwrap();
        let plain = |e: &Expose| (e.listen.to_string(), e.port, e.passes);
        all.iter().map(plain).collect()
    }

    #[test]
    fn ports_ranges_addresses_and_protocols_are_read() {
        let tcp = Passes::Streams(None);
        let one = |listen: &str, port, passes| vec![(listen.to_owned(), port, passes)];
        assert_eq!(read("8080:80"), one("port 8080", 80, tcp));
        assert_eq!(
            read("127.0.0.1:8080:80/tcp"),
            one("127.0.0.1:8080", 80, tcp)
        );
        assert_eq!(read("0.0.0.0:8080:80"), one("0.0.0.0:8080", 80, tcp));
        assert_eq!(read("[::1]:8080:80"), one("[::1]:8080", 80, tcp));
        let udp = Passes::Datagrams;
        assert_eq!(read("5353:53/udp"), one("port 5353", 53, udp));
        for (how, version) in [("proxy", Proxy::V1), ("proxy-v2", Proxy::V2)] {
            let passes = Passes::Streams(Some(version));
            assert_eq!(read(&format!("1:2/{how}")), one("port 1", 2, passes));
        }
        let range = read("[fd00::1]:9000-9001:80-81");
        assert_eq!(range[0], ("[fd00::1]:9000".to_owned(), 80, tcp));
        assert_eq!(range[1], ("[fd00::1]:9001".to_owned(), 81, tcp));
        assert_eq!(read("1-65535:1-65535").len(), 65_535);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for bad in [
            "80",
            "80:",
            ":80",
            "0:80",
            "80:0",
            "x:80",
            "80:x",
            "1.2.3:80:80",
            "::1:80:80",
            "65536:80",
            "2-1:2-1",
            "1-2:1",
            "1-2:1-3",
            "1:2/sctp",
            "1:2/udp/proxy",
            "1-:1-",
        ] {
            assert!(bad.parse::<ExposeOrder>().is_err(), "{bad}");
        }
    }
}
