//! The addresses of a socket: its own, that of its peer, and which others those let it reach.

use crate::any_address;
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::more_bits;
use longshore_hostif::{Address, BlockFlags, OptionName, Request, SocketState};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address that a socket has, what of it the program has chosen, and the peer.
/// A socket of IPv6 reaches both versions, unless it is bound to an address of one of them, or is
/// to be of IPv6 alone (IPV6_V6ONLY).
#[derive(Debug, Clone, Copy)]
pub struct Addresses<'a> {
    socket: &'a Socket,
}

impl<'a> Addresses<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Its local address, if it has one.
    pub fn local(self) -> Option<SocketAddr> {
        self.socket.block().local().get()
    }

    /// Its peer, if it has one.
    ///
    /// # Errors
    /// ENOTCONN without one.
    pub fn peer(self) -> Result<SocketAddr, SocketError> {
        self.socket.pair_end().await_reset();
        self.socket.host.messages().catch_up();
        let block = self.socket.block();
        let connected = match block.state() {
            SocketState::Connected | SocketState::Closing => true,
            SocketState::Open => self.socket.is_datagram(),
            _ => false,
        };
        let is_over = || !self.socket.is_datagram() && self.socket.halves().are_over();
        let connected = connected && !is_over();
        let peer = block.peer().get().filter(|_| connected);
        peer.ok_or(SocketError::Refused(Errno::NOTCONN))
    }

    /// Binds it; port 0 asks for one, or for none (IP_BIND_ADDRESS_NO_PORT). Returns the address it
    /// has now.
    ///
    /// # Errors
    /// The engine's reason (EADDRINUSE, EADDRNOTAVAIL, EINVAL if it is bound).
    pub fn bind(self, local: SocketAddr) -> Result<SocketAddr, SocketError> {
        let mut flags = BlockFlags::BOUND;
        // What is over keeps any port: it gives back those of its connections alone.
        let keeps = local.port() != 0 || self.is_of_what_is_over();
        flags.set(BlockFlags::PORT_GIVEN, keeps);
        flags.set(BlockFlags::ADDRESS_GIVEN, !local.ip().is_unspecified());
        let local = Address::from(local);
        let answer = self.socket.call(|socket, tag, waiter| Request::Bind {
            socket,
            tag,
            waiter,
            local,
        });
        let answer = answer.inspect_err(|e| self.forget_after(*e))?;
        let block = self.socket.block();
        block.set_local(answer.address);
        let is_without = answer.address.get().is_some_and(|local| local.port() == 0);
        if is_without {
            flags &= BlockFlags::ADDRESS_GIVEN;
            self.socket.set_more_bits(more_bits::WITHOUT_PORT);
        } else {
            self.socket.clear_more_bits(more_bits::WITHOUT_PORT);
        }
        // What was kept of the socket in whose place it is.
        block.clear_flags(BlockFlags::ADDRESS_GIVEN | BlockFlags::PORT_GIVEN);
        block.set_flags(flags);
        answer.address.get().ok_or(SocketError::Broken)
    }

    /// Binds one that is not bound to any port, at the address that its program has chosen for it, if
    /// it has: also one whose program wants no port yet (IP_BIND_ADDRESS_NO_PORT).
    ///
    /// # Errors
    /// As of [`bind`](Self::bind).
    pub fn bind_to_any_port(self) -> Result<(), SocketError> {
        let any = any_address(self.socket.is_v6());
        let ip = self.given_address().unwrap_or(any.ip());
        self.bind_alone_or_not(ip, false)
    }

    /// A stream that is to connect and has no port, does so from the address that its program has
    /// chosen, if it has: the engine is told of it, unless it knows. The port is that of the
    /// connection, with an older engine any.
    ///
    /// # Errors
    /// As of [`bind`](Self::bind).
    pub fn keep_address(self) -> Result<(), SocketError> {
        let Some(ip) = self.given_address().filter(|_| !self.is_bound()) else {
            return Ok(());
        };
        if !self.socket.host.binds_addresses_alone() {
            return self.bind_to_any_port();
        }
        if self.socket.more_bits() & more_bits::WITHOUT_PORT != 0 {
            return Ok(());
        }
        self.bind_alone_or_not(ip, true)
    }

    /// Binds it to an address alone, or with any port, whatever its program has said of that.
    fn bind_alone_or_not(self, ip: IpAddr, alone: bool) -> Result<(), SocketError> {
        let said = self.socket.more_bits() & more_bits::ADDRESS_ALONE != 0;
        let set = |on: bool| match said == alone {
            true => Ok(()),
            false => (self.socket.options()).set(OptionName::AddressAlone, on.into()),
        };
        set(alone)?;
        let bound = self.bind(SocketAddr::new(ip, 0));
        set(said)?;
        bound.map(|_| ())
    }

    /// It was not bound, for this reason. Where others have the port, Linux has taken its address
    /// from it by then: that of a connection goes.
    fn forget_after(self, error: SocketError) {
        if error == SocketError::Refused(Errno::ADDRINUSE)
            && !self.is_bound()
            && let Some(was) = self.local()
        {
            self.socket.block().clear_flags(BlockFlags::ADDRESS_GIVEN);
            self.show_local(was);
        }
    }

    /// Whether it is a stream whose connection is over, or whose attempt to connect has failed.
    fn is_of_what_is_over(self) -> bool {
        self.socket.state() == SocketState::Dead && !self.socket.is_datagram()
    }

    /// Whether it has a port, that it was bound to or that it was given.
    pub fn is_bound(self) -> bool {
        let flags = self.socket.block().flags();
        let is_over = self.socket.is_spent() || self.is_of_what_is_over();
        flags.contains(BlockFlags::BOUND) && (!is_over || flags.contains(BlockFlags::PORT_GIVEN))
    }

    /// What the program has bound it to, if that was a port by number: what outlives a
    /// connection.
    pub fn bound_port(self) -> Option<SocketAddr> {
        let (flags, local) = (self.socket.block().flags(), self.local()?);
        if !flags.contains(BlockFlags::PORT_GIVEN) {
            return None;
        }
        let ip = match local.ip() {
            ip if flags.contains(BlockFlags::ADDRESS_GIVEN) => ip,
            _ if self.socket.is_v6() => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        Some(SocketAddr::new(ip, local.port()))
    }

    /// The address that its program has bound it to, or the socket in whose place it is.
    pub fn given_address(self) -> Option<IpAddr> {
        let is_given = self
            .socket
            .block()
            .flags()
            .contains(BlockFlags::ADDRESS_GIVEN);
        self.local().filter(|_| is_given).map(|local| local.ip())
    }

    /// It is in the place of `old`, and reaches others from the address that the program has bound
    /// that to, though it is not bound.
    pub fn keep_address_of(self, old: &Socket) {
        if let Some(ip) = old.addresses().given_address() {
            self.socket.block().set_flags(BlockFlags::ADDRESS_GIVEN);
            self.socket.block().set_local(SocketAddr::new(ip, 0).into());
        }
    }

    /// Shows an address as that of a socket which is not bound any more: as Linux has it, the
    /// port is still to be seen.
    pub fn show_local(self, was: SocketAddr) {
        let ip = match was.ip() {
            ip if self
                .socket
                .block()
                .flags()
                .contains(BlockFlags::ADDRESS_GIVEN) =>
            {
                ip
            }
            _ if self.socket.is_v6() => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let shown = SocketAddr::new(ip, was.port());
        self.socket.block().set_local(Address::from(shown));
    }

    /// Whether it is a socket of IPv6 that is bound to an address of IPv4, and so reaches no
    /// others.
    pub fn is_bound_to_mapped(self) -> bool {
        self.socket.is_v6()
            && self
                .local()
                .is_some_and(|local| local.ip().to_canonical().is_ipv4())
    }

    /// Whether it is bound to an address of IPv6, and so reaches no others. What a peer has given a
    /// datagram socket is of that peer's version of IP alone.
    fn is_bound_to_v6(self) -> bool {
        let local = match self.socket.is_datagram() {
            true => self.given_address(),
            false => self.local().map(|local| local.ip()),
        };
        local.is_some_and(|ip| ip.to_canonical().is_ipv6() && !ip.is_unspecified())
    }

    /// Whether it reaches no address of IPv4.
    pub fn reaches_v6_alone(self) -> bool {
        self.socket.options().is_v6_only() || self.is_bound_to_v6()
    }
}

#[cfg(test)]
mod tests;
