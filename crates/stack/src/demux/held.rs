//! Ports that connections keep though nobody has bound them: of those that a listener
//! accepted, of those that chose one when they connected, and of those in TIME-WAIT.
//!
//! Owns [`HeldPorts`]. `ports` asks it when somebody wants to bind; the engine says when a
//! connection begins to hold its port and when it ends.

use super::Reuse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A port, the address that it is held on, SO_REUSEADDR and SO_REUSEPORT of the socket that holds
/// it, and whether the wildcard of IPv4 is held, too.
type Name = (u16, IpAddr, bool, bool, bool);

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct HeldPorts {
    /// How many connections hold each.
    connections: BTreeMap<Name, u32>,
    /// How many names of those there are that differ in their addresses alone, for those who want a
    /// wildcard, by the loopback address of their version of IP.
    at_some_address: BTreeMap<Name, u32>,
}

fn name(local: SocketAddr, reuse: Reuse) -> Name {
    (
        local.port(),
        local.ip(),
        reuse.address,
        reuse.port,
        reuse.over_v4,
    )
}

fn at_some_address(name: Name) -> Name {
    let address = match name.1 {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    (name.0, address, name.2, name.3, name.4)
}

/// One more has this name; whether it is the first.
fn add(names: &mut BTreeMap<Name, u32>, name: Name) -> bool {
    let count = names.entry(name).or_insert(0);
    *count += 1;
    *count == 1
}

/// One that has this name has gone; whether it was the last.
fn take(names: &mut BTreeMap<Name, u32>, name: Name) -> bool {
    let Some(count) = names.get_mut(&name) else {
        return false;
    };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        names.remove(&name);
    }
    is_last
}

impl HeldPorts {
    /// A connection from `local` holds its port.
    pub(super) fn hold(&mut self, local: SocketAddr, reuse: Reuse) {
        let name = name(local, reuse);
        if add(&mut self.connections, name) {
            add(&mut self.at_some_address, at_some_address(name));
        }
    }

    /// It does no more.
    pub(super) fn let_go(&mut self, local: SocketAddr, reuse: Reuse) {
        let name = name(local, reuse);
        if take(&mut self.connections, name) {
            take(&mut self.at_some_address, at_some_address(name));
        }
    }

    /// Whether a connection holds this port.
    pub(super) fn has(&self, port: u16) -> bool {
        let first = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let last = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
        of(&self.at_some_address, port, first, last)
            .next()
            .is_some()
    }

    /// As which a port is held on addresses that are those of a socket which is bound to `ip`, and
    /// perhaps on others; of all that a wildcard has, one is named for each version of IP.
    pub(super) fn near(&self, port: u16, ip: IpAddr) -> impl Iterator<Item = (IpAddr, Reuse)> + '_ {
        if ip.is_unspecified() {
            let first = Ipv4Addr::LOCALHOST.into();
            of(
                &self.at_some_address,
                port,
                first,
                Ipv6Addr::LOCALHOST.into(),
            )
        } else {
            of(&self.connections, port, ip, ip)
        }
    }
}

/// As which a port is held on these addresses.
fn of(
    names: &BTreeMap<Name, u32>,
    port: u16,
    first: IpAddr,
    last: IpAddr,
) -> impl Iterator<Item = (IpAddr, Reuse)> + '_ {
    let names = names.range((port, first, false, false, false)..=(port, last, true, true, true));
    names.map(|(name, _)| {
        let reuse = Reuse {
            address: name.2,
            port: name.3,
            over_v4: name.4,
            ..Reuse::default()
        };
        (name.1, reuse)
    })
}
