//! How a socket is bound to a port: all of it that is compared with how others are, and with where
//! a packet goes.
//!
//! Owns [`Bound`] and [`Reuse`]. `ports` compares them, and so does the look-up of each packet; the
//! stack makes a [`Reuse`] of a socket's options.

use longshore_hostif::Interface;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How a socket is bound to its port. Sockets whose are equal are one [class](super::class::Class).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) address: IpAddr,
    /// SO_REUSEADDR and SO_REUSEPORT as they were when it was bound.
    pub(super) reuse_address: bool,
    pub(super) reuse_port: bool,
    /// IPV6_V6ONLY: the IPv6 wildcard is not IPv4's too.
    pub(super) v6_only: bool,
    pub(super) listening: bool,
    /// By which interface what it receives has to come.
    pub(super) interface: Interface,
    /// It was bound to the wildcard, and connects from this address.
    pub(super) is_moved: bool,
    /// The user whose program has bound it.
    pub(super) user: u32,
}

impl Bound {
    /// At an address, by a program of `user`.
    pub(super) fn new(address: IpAddr, reuse: Reuse, v6_only: bool, user: u32) -> Self {
        Self {
            address,
            reuse_address: reuse.address,
            reuse_port: reuse.port,
            v6_only,
            listening: false,
            interface: reuse.interface,
            is_moved: false,
            user,
        }
    }

    /// Whether it is bound to a wildcard.
    pub(super) fn is_to_any(&self) -> bool {
        self.address.is_unspecified()
    }

    /// What all sockets are that are bound so to some address of their own, of the same version of
    /// IP: a wildcard overlaps either each of them or none.
    pub(super) fn at_some_address(self) -> Self {
        let address = match self.address {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        Self { address, ..self }
    }

    /// Whether packets to `ip` may be its: of the wildcards, IPv4's is for IPv4, and
    /// IPv6's for both unless it is for IPv6 only.
    fn covers(&self, ip: IpAddr) -> bool {
        self.address == ip
            || (self.is_to_any()
                && if self.address.is_ipv4() {
                    ip.is_ipv4()
                } else {
                    ip.is_ipv6() || !self.v6_only
                })
    }

    /// Whether packets to `ip` are its, by the interface that it is bound to: as Linux has it, what
    /// goes to an address of the host's own comes by the interface that has that address.
    pub(super) fn takes(&self, ip: IpAddr) -> bool {
        let comes_by_it = match self.interface {
            Interface::Any => true,
            Interface::Loopback => ip.is_loopback(),
            Interface::Link => !ip.is_loopback(),
        };
        comes_by_it && self.covers(ip)
    }

    /// How well a socket that covers `ip` fits it: its own address best, then the wildcard of
    /// its version.
    pub(super) fn rank(&self, ip: IpAddr) -> u8 {
        match self.address {
            own if own == ip => 2,
            any if any.is_ipv4() == ip.is_ipv4() => 1,
            _ => 0,
        }
    }

    /// Whether both share what comes by SO_REUSEPORT.
    pub(super) fn is_grouped_with(&self, other: &Self) -> bool {
        let group = |b: &Self| (b.address, b.reuse_port, b.user, b.v6_only, b.interface);
        group(self) == group(other)
    }

    /// Whether it leaves none of its port to others, whoever they are, of the versions of IP that it is
    /// for.
    pub(super) fn is_exclusive(&self) -> bool {
        let shares = self.reuse_address || self.reuse_port || self.interface != Interface::Any;
        self.is_to_any() && !shares
    }

    /// Whether both have SO_REUSEPORT and are of one user.
    pub(super) fn shares_port_with(&self, other: &Self) -> bool {
        self.reuse_port && other.reuse_port && self.user == other.user
    }

    /// Whether some packet may be of both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let is_by_any = self.interface == Interface::Any || other.interface == Interface::Any;
        (is_by_any || self.interface == other.interface)
            && (self.covers(other.address) || other.covers(self.address))
    }

    /// Whether one that comes may not have its address beside it, though both are of one port.
    /// `is_any_v4`: it is a socket of IPv4 that comes, to be bound to the wildcard.
    pub(super) fn refuses(&self, new: &Self, is_any_v4: bool) -> bool {
        // As Linux has it, one of IPv6 that was bound to the wildcard keeps that of IPv4 from others
        // while it is connected, unless it is for IPv6 alone.
        let is_over = is_any_v4 && self.is_moved && self.address.is_ipv6() && !self.v6_only;
        let shares_address = self.reuse_address && new.reuse_address && !self.listening;
        (self.overlaps(new) || is_over) && !shares_address && !self.shares_port_with(new)
    }

    /// Whether it keeps `new`, which has the same port, from listening.
    pub(super) fn listens_alone(&self, new: &Self) -> bool {
        self.listening && !self.shares_port_with(new) && self.overlaps(new)
    }

    /// Whether a connection that holds this address, and leaves it to others so, keeps it from `self`.
    pub(super) fn is_refused_by_held(&self, address: IpAddr, of: Reuse, is_any_v4: bool) -> bool {
        let may_share = (of.address && self.reuse_address) || (of.port && self.reuse_port);
        !may_share && (self.covers(address) || (of.over_v4 && is_any_v4))
    }
}

/// Which options allow two sockets on one port.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reuse {
    pub(crate) address: bool,
    pub(crate) port: bool,
    /// Of a connection of IPv6 that holds its port: no socket of IPv4 may be bound to it at the
    /// wildcard either. So Linux has it of one that nobody has bound, unless it is for IPv6 alone.
    /// Of one that is to be bound: it is of IPv4.
    pub(crate) over_v4: bool,
    /// Of one that is to be bound: by which interface what it receives has to come.
    pub(crate) interface: Interface,
}

impl Reuse {
    /// Without those by which a port is shared.
    pub(crate) fn of_none(self) -> Self {
        Self {
            over_v4: self.over_v4,
            ..Self::default()
        }
    }
}
