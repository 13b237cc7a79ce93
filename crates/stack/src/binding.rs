//! What sockets are bound to: addresses and ports that their programs choose, or that are chosen
//! for them when they connect.
//!
//! Owns [`Binding`], which borrows the tables of ports, the link with its addresses, and whom a
//! program may reach; `requests` makes one for a socket.

use crate::access::{Access, Transport};
use crate::demux::{Demux, Reuse};
use crate::link::Link;
use crate::request_error::RequestError;
use crate::sessions::Sessions;
use crate::socket::{Given, Kind, Options, Socket, any_ip, as_family};
use crate::sockets::Sockets;
use longshore_hostif::{Address, Interface, SocketId, SocketKind};
use longshore_tcp::Instant;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Binds the sockets of a user.
pub(crate) struct Binding<'a> {
    pub(crate) demux: &'a mut Demux,
    pub(crate) link: &'a Link,
    pub(crate) access: &'a Access,
    pub(crate) user: u32,
    pub(crate) now: Instant,
}

impl Binding<'_> {
    /// Binds a socket, which has this key; port 0 asks for any.
    pub(crate) fn bind(
        &mut self,
        key: u32,
        socket: &mut Socket,
        local: Address,
    ) -> Result<SocketAddr, RequestError> {
        let local = local.get().ok_or(RequestError::Invalid)?;
        let given = Given::of(local);
        // Of a stream that is over what it has received may still be read; its program may use it
        // again meanwhile.
        let is_over = socket.kind.is_over();
        let kind = match socket.kind {
            Kind::Idle(kind) => kind,
            // It has joined a group before.
            Kind::Datagram(_) => SocketKind::Datagram,
            _ if is_over => SocketKind::Stream,
            _ => return Err(RequestError::Invalid),
        };
        let is_taken = socket.bound.given().is_taken();
        let is_bound = if is_over {
            socket.bound.given().port()
        } else {
            socket.bound.local().is_some()
        };
        if is_bound && !is_taken {
            return Err(RequestError::Invalid);
        }
        let taken = socket.bound.local().filter(|_| is_taken);
        let v6_only = socket.options.v6_only;
        let reuse = Reuse {
            over_v4: !socket.options.ipv6,
            ..socket.options.reuse
        };
        let mut local = self.checked(local, kind, &socket.options)?;
        if let Some(taken) = taken {
            socket.bound.set_taken(false);
            if taken == local {
                return Ok(as_family(local, socket.options.ipv6));
            }
            socket.bound.take_local();
            self.demux.tcp.release(taken.port(), key);
        }
        if local.port() == 0 && socket.options.address_alone {
            return Ok(socket.bind_alone(kind, local));
        }
        if local.port() == 0 {
            let port = self.any_port(kind, key, local.ip(), (reuse, v6_only));
            local.set_port(port.ok_or(RequestError::AddressInUse)?);
        }
        let transport = match kind {
            SocketKind::Stream => Transport::Tcp,
            SocketKind::Datagram => Transport::Udp,
        };
        if !self.access.may_bind(transport, local) {
            return Err(RequestError::Denied);
        }
        let user = self.user;
        if !self
            .demux
            .ports(kind)
            .bind(local, key, reuse, v6_only, user)
        {
            return Err(RequestError::AddressInUse);
        }
        // What is over gives back the port of its connection alone.
        let chosen = if is_over { Given::of(local) } else { given };
        socket.bound.bind(local, chosen);
        socket.be_of_version(local);
        if kind == SocketKind::Datagram {
            socket.kind.become_datagram();
        }
        Ok(as_family(local, socket.options.ipv6))
    }

    /// The address to bind a socket of these options to, where its program names `local`: one of
    /// ours, or for datagrams one of many hosts.
    fn checked(
        &self,
        local: SocketAddr,
        kind: SocketKind,
        options: &Options,
    ) -> Result<SocketAddr, RequestError> {
        if local.ip().is_unspecified() {
            return Ok(local);
        }
        let local = options
            .destination(local)
            .map_err(|_| RequestError::Invalid)?;
        let to_all = kind == SocketKind::Datagram && self.link.addresses.is_for_all(local.ip());
        // The wildcard of IPv4, mapped into IPv6, is for IPv4 alone.
        let is_any = local.ip().is_unspecified();
        // As Linux has it, of addresses of IPv6.
        let is_on_other =
            local.ip() == Ipv6Addr::LOCALHOST && options.reuse.interface == Interface::Link;
        let is_own = to_all || self.link.addresses.contains(local.ip());
        if !is_any && (!is_own || is_on_other) {
            return Err(RequestError::AddressNotAvailable);
        }
        Ok(local)
    }

    /// A port for a socket that asks for any: a free one, or else one that it may share.
    fn any_port(
        &mut self,
        kind: SocketKind,
        key: u32,
        ip: IpAddr,
        (reuse, v6_only): (Reuse, bool),
    ) -> Option<u16> {
        let (seed, user) = ((key, self.now.0), self.user);
        let ports = self.demux.ports(kind);
        let shared = || match kind {
            SocketKind::Stream => ports.pick_shared_by_streams(seed, ip, key, reuse, v6_only, user),
            SocketKind::Datagram => ports.pick_shared(seed, ip, key, reuse, v6_only, user),
        };
        ports.pick(seed).or_else(shared)
    }

    /// Binds a listener that was shut down and has given back a port that nobody had chosen: to that
    /// one, or to any if it is another's by now.
    pub(crate) fn bind_shut(&mut self, key: u32, socket: &mut Socket) -> Result<(), RequestError> {
        let mut local = socket.bound.local().ok_or(RequestError::Invalid)?;
        let reuse = Reuse {
            over_v4: !socket.options.ipv6,
            ..socket.options.reuse
        };
        let (tcp, v6_only) = (&mut self.demux.tcp, socket.options.v6_only);
        if tcp.bind(local, key, reuse, v6_only, self.user) {
            return Ok(());
        }
        let port = tcp.pick((key, self.now.0));
        local.set_port(port.ok_or(RequestError::AddressInUse)?);
        if !tcp.bind(local, key, reuse, v6_only, self.user) {
            return Err(RequestError::AddressInUse);
        }
        socket.bound.set_local(local);
        Ok(())
    }

    /// The address from which a socket connects to `remote`: what it is `bound` to, or else one
    /// that is chosen.
    pub(crate) fn local_for(
        &mut self,
        key: u32,
        bound: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketAddr, RequestError> {
        let to = remote.ip();
        // There must be a way even if the address is chosen.
        let source = self.link.source_for(to).ok_or(RequestError::Unreachable)?;
        let ip = match bound.map(|b| b.ip().to_canonical()) {
            Some(ip) if !ip.is_unspecified() => ip,
            _ => source,
        };
        if ip.is_ipv4() != to.is_ipv4() {
            // As Linux has it, of one of IPv6 that is bound to an address of IPv4.
            return Err(match ip {
                IpAddr::V4(_) => RequestError::Family,
                IpAddr::V6(_) => RequestError::Unreachable,
            });
        }
        let port = match bound.map_or(0, |bound| bound.port()) {
            0 => {
                let seed = ("port", ip, remote, key, self.now.0);
                let port = self.demux.pick_port(seed, ip, remote);
                port.ok_or(RequestError::NoPortLeft)?
            }
            port => port,
        };
        Ok(SocketAddr::new(ip, port))
    }

    /// `connect` on a UDP socket, which has this key.
    pub(crate) fn connect_datagram(
        &mut self,
        key: u32,
        socket: &mut Socket,
        peer: SocketAddr,
    ) -> Result<SocketAddr, RequestError> {
        let (v6, bound) = (socket.options.ipv6, socket.bound.local());
        let bound = bound.or(socket.kind.without_port());
        let peer = socket.options.destination(peer)?;
        if !self.access.may_connect(Transport::Udp, peer) {
            return Err(RequestError::Denied);
        }
        // There must be a way even if the address is chosen.
        let source = self
            .link
            .source_for(peer.ip())
            .ok_or(RequestError::Unreachable)?;
        let bound = bound.map(|bound| socket.local_towards(bound, peer.ip()));
        let is_v4 = |local: SocketAddr| local.ip().to_canonical().is_ipv4();
        let why = match peer.ip() {
            // As Linux has it, of one of IPv6 that is bound to an address of IPv4.
            IpAddr::V6(_) if bound.is_some_and(is_v4) => RequestError::Family,
            _ => RequestError::Unreachable,
        };
        self.link.addresses_towards(bound, peer.ip()).ok_or(why)?;
        if socket.bound.local().is_none() {
            socket.bind_datagram(key, &mut self.demux.udp, self.user, self.now)?;
        }
        let was = socket.bound.local().ok_or(RequestError::Invalid)?;
        let local = socket.local_towards(was, peer.ip());
        if let Kind::Datagram(d) = &mut socket.kind {
            d.peer = Some(peer);
        }
        self.demux.udp.connect(local.port(), key, peer);
        let from_source = SocketAddr::new(source, local.port());
        if self.link.addresses.is_for_all(local.ip()) {
            return Ok(as_family(from_source, v6));
        }
        // As Linux has it, it keeps the address that was chosen with its next peers.
        let now = match local.ip().is_unspecified() {
            true => from_source,
            false => local,
        };
        let shown = socket.stay_datagram(key, (was, now), &mut self.demux.udp);
        Ok(as_family(shown, v6))
    }
}

impl Socket {
    /// Binds it to this address, without a port.
    fn bind_alone(&mut self, kind: SocketKind, local: SocketAddr) -> SocketAddr {
        self.be_of_version(local);
        match kind {
            SocketKind::Stream => self.bound.bind(local, Given::of(local)),
            SocketKind::Datagram => {
                self.kind.become_datagram();
                if let Kind::Datagram(d) = &mut self.kind {
                    d.without_port = Some(local.ip());
                }
            }
        }
        as_family(local, self.options.ipv6)
    }

    /// It is bound to this. As Linux has it, and says so: with an address of IPv6 it is for IPv6
    /// alone, also once the port has gone.
    fn be_of_version(&mut self, local: SocketAddr) {
        self.options.v6_only |= local.is_ipv6() && !local.ip().is_unspecified();
    }
}

impl Sockets {
    /// A new socket takes the port that its program has bound another of the same session to, which
    /// it stands for from now on; the other is not bound any more. A program says so once, and
    /// binds the new one to the same address then.
    pub(crate) fn take_port(
        &mut self,
        key: u32,
        of: SocketId,
        sessions: &Sessions,
        demux: &mut Demux,
    ) {
        let Some(socket) = self.get(key) else {
            return;
        };
        let is_new =
            matches!(socket.kind, Kind::Idle(SocketKind::Stream)) && socket.bound.local().is_none();
        let of = self.key_of(sessions, socket.session, of).filter(|_| is_new);
        let Some((of, other)) = of.and_then(|of| Some((of, self.get_mut(of)?))) else {
            return;
        };
        let given = other.bound.given();
        let is_stream = other.kind.opened_as() == SocketKind::Stream;
        let port = other.bound.local().map(|local| local.port());
        let Some(port) = port.filter(|_| is_stream && given.port() && !given.is_taken()) else {
            return;
        };
        let Some(bound) = demux.tcp.hand_on(port, of, key) else {
            return;
        };
        let bound = if given.address() {
            bound
        } else {
            // Where it was connected, it was bound to the address of that.
            let any = SocketAddr::new(any_ip(other.options.ipv6), port);
            demux.tcp.move_to(any, key);
            any
        };
        other.bound.forget_given();
        if let Some(socket) = self.get_mut(key) {
            socket.bound.bind(bound, given);
            socket.bound.set_taken(true);
        }
    }
}
