//! From an engine's addresses and gateways to its routes, when it starts and when they
//! change.
//!
//! `link` asks for them; what cannot be is an [`AddressError`].

use longshore_net::Cidr;
use longshore_net::route::{Route, Routes};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where packets go: the networks of our addresses, and everything else by a gateway
/// of the same version of IP, which must be on the link.
pub(crate) fn routes(
    v4: Option<Cidr>,
    v6: impl IntoIterator<Item = Cidr>,
    gateways: &[IpAddr],
    ethernet: bool,
) -> Result<Routes, AddressError> {
    let mut routes = Routes::new();
    let own: Vec<Cidr> = v4.into_iter().chain(v6).collect();
    for cidr in &own {
        routes.add(Route {
            to: Cidr {
                address: cidr.network(),
                prefix_len: cidr.prefix_len,
            },
            next_hop: None,
            source: cidr.address,
            mtu: None,
        });
    }
    for gateway in gateways {
        let on_link = own.iter().find(|c| c.contains(*gateway));
        let alone = || own.iter().find(|c| is_alone_like(c, *gateway));
        let source = on_link.or_else(alone);
        let source = source.ok_or(AddressError::Gateway(*gateway))?.address;
        if on_link.is_none() {
            routes.add(Route {
                to: Cidr {
                    address: *gateway,
                    prefix_len: if gateway.is_ipv4() { 32 } else { 128 },
                },
                next_hop: None,
                source,
                mtu: None,
            });
        }
        let to = everything(source);
        if routes.iter().any(|r| r.to == to) {
            return Err(AddressError::SecondGateway(*gateway));
        }
        routes.add(Route {
            to,
            next_hop: Some(*gateway),
            source,
            mtu: None,
        });
    }
    if !ethernet {
        lead_all_to_other_end(&mut routes, &own);
    }
    Ok(routes)
}

/// What has no link layer has another end and no neighbours: all that is sent there
/// arrives, and what it leads to is the other end's affair.
fn lead_all_to_other_end(routes: &mut Routes, own: &[Cidr]) {
    for cidr in own {
        let to = everything(cidr.address);
        if !routes.iter().any(|r| r.to == to) {
            routes.add(Route {
                to,
                next_hop: None,
                source: cidr.address,
                mtu: None,
            });
        }
    }
}

/// Whether an address of the gateway's version is alone in its network: its gateway is on the
/// link although it is not in the network.
fn is_alone_like(own: &Cidr, gateway: IpAddr) -> bool {
    let whole = if own.address.is_ipv4() { 32 } else { 128 };
    own.prefix_len >= whole && own.address.is_ipv4() == gateway.is_ipv4()
}

/// All addresses of the version that `like` has.
pub(crate) fn everything(like: IpAddr) -> Cidr {
    let address = match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Cidr {
        address,
        prefix_len: 0,
    }
}

/// Addresses that an engine cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// None at all.
    #[error("an engine needs an address")]
    None,
    /// More than one of IPv4.
    #[error("{0} is a second IPv4 address: an engine has one")]
    SecondV4(Cidr),
    /// Of IPv6, one that no host can have, that was given twice, or one too many.
    #[error(
        "{0} cannot be an address of the engine: it is no host's, given twice, or one too many"
    )]
    V6(Cidr),
    /// One of IPv6, on a link that does not take its packets.
    #[error("an IPv6 address needs an MTU of 1280 bytes; the port's is {0}")]
    Mtu(usize),
    /// A second source of IPv4 addresses or gateways.
    #[error(
        "an engine that asks a DHCP server is given neither an IPv4 address nor an IPv4 gateway"
    )]
    DhcpAndV4,
    /// Nobody can be asked.
    #[error("the port has no link layer, so that there is nobody to ask for an address")]
    NobodyToAsk,
    /// A gateway that is in none of the engine's networks, none of which is of one address.
    #[error("the gateway {0} is in none of the engine's networks")]
    Gateway(IpAddr),
    /// More than one gateway for a version of IP.
    #[error("{0} is a second gateway for its version of IP")]
    SecondGateway(IpAddr),
}
