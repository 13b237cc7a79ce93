//! The local address and port of a socket, and how it has them in the tables: as what its program
//! has bound it to, or as a connection that nobody has bound and that holds its port.
//!
//! Owns [`Bound`]. `binding` sets it, and those change it that connect, accept and end.

use super::any_ip;
use super::options::Options;
use crate::demux::{Demux, Ports, Reuse};
use longshore_hostif::Interface;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// What a socket is bound to. The parts of its address take less room than a `SocketAddr`.
///
/// A stream may have an address without a port (IP_BIND_ADDRESS_NO_PORT, or after a connection
/// that had a port of its own): it is in no table, and gets a port as it connects or listens.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bound {
    /// None if it has no address.
    ip: Option<IpAddr>,
    /// 0 if it has no port with it.
    port: u16,
    /// The link of an address of IPv6 that means something only there; 0 for others.
    scope: u32,
    /// What of that its program has chosen.
    given: Given,
    /// It holds the port of a connection that nobody has bound, so that others may have
    /// it as this says.
    held: Held,
}

/// What of the address that a socket is bound to its program has chosen: that outlives a peer
/// that is taken away. It is a byte, since there may be many sockets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given(u8);

impl Given {
    const ADDRESS: u8 = 1;
    const PORT: u8 = 2;
    const TAKEN: u8 = 4;

    /// What was chosen of `local`.
    pub(crate) fn of(local: SocketAddr) -> Self {
        let mut given = Self::default();
        given.set(Self::ADDRESS, !local.ip().is_unspecified());
        given.set(Self::PORT, local.port() != 0);
        given
    }

    fn set(&mut self, bit: u8, is_so: bool) {
        self.0 = self.0 & !bit | if is_so { bit } else { 0 };
    }

    pub(crate) fn address(self) -> bool {
        self.0 & Self::ADDRESS != 0
    }

    pub(crate) fn port(self) -> bool {
        self.0 & Self::PORT != 0
    }

    /// Whether the address is that of another socket, whose place it takes, and it is still to be
    /// bound to that.
    pub(crate) fn is_taken(self) -> bool {
        self.0 & Self::TAKEN != 0
    }

    pub(crate) fn set_taken(&mut self, is_taken: bool) {
        self.set(Self::TAKEN, is_taken);
    }
}

/// As which a connection that nobody has bound holds its port, if it does; in a byte, as `Given`.
#[derive(Debug, Clone, Copy, Default)]
struct Held(u8);

impl Held {
    const HOLDS: u8 = 1;
    const ADDRESS: u8 = 2;
    const PORT: u8 = 4;
    const OVER_V4: u8 = 8;

    fn by(reuse: Reuse) -> Self {
        let bit = |is_so: bool, bit: u8| if is_so { bit } else { 0 };
        Self(
            Self::HOLDS
                | bit(reuse.address, Self::ADDRESS)
                | bit(reuse.port, Self::PORT)
                | bit(reuse.over_v4, Self::OVER_V4),
        )
    }

    fn get(self) -> Option<Reuse> {
        (self.0 != 0).then_some(Reuse {
            address: self.0 & Self::ADDRESS != 0,
            port: self.0 & Self::PORT != 0,
            over_v4: self.0 & Self::OVER_V4 != 0,
            interface: Interface::Any,
        })
    }
}

impl Bound {
    /// The address and port; `None` if it has none, or no port.
    #[inline]
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        match self.port {
            0 => None,
            _ => self.address(),
        }
    }

    /// The address, with port 0 while it has none.
    #[inline]
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        Some(match self.ip? {
            IpAddr::V4(ip) => SocketAddrV4::new(ip, self.port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, 0, self.scope).into(),
        })
    }

    /// What of that its program has chosen.
    pub(crate) fn given(&self) -> Given {
        self.given
    }

    /// Whether what is sent to `address` is for a socket that is bound so.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.ip.is_some_and(|ip| {
            let ip = ip.to_canonical();
            let for_all = ip.is_unspecified() || ip == address.ip().to_canonical();
            for_all && self.port == address.port()
        })
    }

    /// Its program has bound it to an address of which it has chosen what is `given`.
    pub(crate) fn bind(&mut self, local: SocketAddr, given: Given) {
        self.set_local(local);
        self.given = given;
    }

    /// Its address is this from now on; what was chosen of the last one counts as chosen of this.
    pub(crate) fn set_local(&mut self, local: SocketAddr) {
        self.ip = Some(local.ip());
        self.port = local.port();
        self.scope = match local {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(local) => local.scope_id(),
        };
    }

    /// It takes the place of the socket whose address it has, or does so no longer.
    pub(crate) fn set_taken(&mut self, is_taken: bool) {
        self.given.set_taken(is_taken);
    }

    /// Nothing counts as chosen by its program any more.
    pub(crate) fn forget_given(&mut self) {
        self.given = Given::default();
    }

    /// It has no address any more; the one that it had.
    pub(crate) fn take_local(&mut self) -> Option<SocketAddr> {
        let local = self.local();
        self.ip = None;
        local
    }

    // ---- In the tables. ----

    /// A connection that nobody has bound, of a socket with these options, holds its port from now
    /// on; `over_v4` if it connects, and may be one of IPv6 that is not for that alone.
    pub(crate) fn hold(&mut self, over_v4: bool, options: &Options, demux: &mut Demux) {
        if let (Some(local), None) = (self.local(), self.held.get()) {
            let reuse = Reuse {
                over_v4: over_v4 && local.is_ipv6() && !options.v6_only,
                ..options.reuse
            };
            self.held = Held::by(reuse);
            demux.tcp.hold(local, reuse);
        }
    }

    /// Enters the port that it holds in a table that was made anew.
    pub(crate) fn hold_anew(&self, demux: &mut Demux) {
        if let (Some(local), Some(reuse)) = (self.local(), self.held.get()) {
            demux.tcp.hold(local, reuse);
        }
    }

    /// It, which has this key there, receives by this interface from now on.
    pub(crate) fn receive_by(&self, interface: Interface, key: u32, ports: &mut Ports) {
        if self.local().is_some() {
            ports.set_interface(self.port, key, interface);
        }
    }

    /// It holds no port any more.
    pub(crate) fn let_go(&mut self, demux: &mut Demux) {
        let held = std::mem::take(&mut self.held).get();
        if let (Some(local), Some(reuse)) = (self.local(), held) {
            demux.tcp.let_go(local, reuse);
        }
    }

    /// Its connection is over: it, which has this key, keeps no port but one that its program has
    /// chosen, as Linux has it.
    pub(crate) fn give_port_back(&mut self, key: u32, demux: &mut Demux) {
        self.let_go(demux);
        if self.local().is_some() && !self.given.port() {
            demux.tcp.release(self.port, key);
        }
    }

    /// An attempt to connect has come to nothing, of which a call that connects has told, or the
    /// program has ended it, or another takes its place: a socket, of IPv6 or not, whose
    /// program has bound it to a port and to no address is bound to all of them again, as Linux has
    /// it. The one that it had was that of its way to the peer.
    pub(crate) fn leave_address(&mut self, v6: bool, key: u32, demux: &mut Demux) {
        if self.given.port() && !self.given.address() && self.ip.is_some() {
            let local = SocketAddr::new(any_ip(v6), self.port);
            self.set_local(local);
            demux.tcp.move_to(local, key);
        }
    }
}

#[cfg(test)]
mod tests;
