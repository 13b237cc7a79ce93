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

/// How many connections hold each.
#[derive(Debug, Default)]
pub(crate) struct HeldPorts(BTreeMap<Name, u32>);

fn name(local: SocketAddr, reuse: Reuse) -> Name {
    (
        local.port(),
        local.ip(),
        reuse.address,
        reuse.port,
        reuse.over_v4,
    )
}

impl HeldPorts {
    /// A connection from `local` holds its port.
    pub(super) fn hold(&mut self, local: SocketAddr, reuse: Reuse) {
        *self.0.entry(name(local, reuse)).or_insert(0) += 1;
    }

    /// It does no more.
    pub(super) fn let_go(&mut self, local: SocketAddr, reuse: Reuse) {
        let name = name(local, reuse);
        if let Some(count) = self.0.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&name);
            }
        }
    }

    /// On which addresses a port is held, and how.
    pub(super) fn of(&self, port: u16) -> impl Iterator<Item = (IpAddr, Reuse)> + '_ {
        let first = (port, IpAddr::V4(Ipv4Addr::UNSPECIFIED), false, false, false);
        let last = (
            port,
            IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
            true,
            true,
            true,
        );
        self.0.range(first..=last).map(|(name, _)| {
            let reuse = Reuse {
                address: name.2,
                port: name.3,
                over_v4: name.4,
                ..Reuse::default()
            };
            (name.1, reuse)
        })
    }
}
