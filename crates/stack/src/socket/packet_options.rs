//! Options of a socket that are about IP and UDP: what its packets have in their headers, and
//! what is done with its datagrams.
//!
//! Owns [`HeaderOptions`] and [`DatagramOptions`], parts of [`Options`](super::Options).

use crate::address_pair::{DEFAULT_TTL, Service};
use longshore_hostif::{OptionName, PathMtu};
use std::net::IpAddr;

/// What the packets of a connection have in their headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderOptions {
    /// IP_TOS and IPV6_TCLASS.
    tos: u8,
    class6: u8,
    /// IP_TTL and IPV6_UNICAST_HOPS.
    ttl: u8,
    hops6: u8,
}

impl Default for HeaderOptions {
    fn default() -> Self {
        Self {
            tos: 0,
            class6: 0,
            ttl: DEFAULT_TTL,
            hops6: DEFAULT_TTL,
        }
    }
}

impl HeaderOptions {
    /// Sets one, brought into range.
    pub(super) fn set(&mut self, name: OptionName, value: u32) {
        match name {
            OptionName::TypeOfService => self.tos = value as u8,
            OptionName::TrafficClass => self.class6 = value as u8,
            OptionName::TimeToLive => self.ttl = value.clamp(1, 255) as u8,
            OptionName::HopLimit => self.hops6 = value.min(255) as u8,
            _ => {}
        }
    }

    /// IPv6 packets may take so many hops, as routers have advertised.
    pub(crate) fn set_hop_limit(&mut self, hops: u8) {
        self.hops6 = hops;
    }

    /// What a connection's packets to `to` are to have.
    #[inline]
    pub(crate) fn service(&self, to: IpAddr) -> Service {
        let (ttl, tos) = match to {
            IpAddr::V4(_) => (self.ttl, self.tos),
            IpAddr::V6(_) => (self.hops6, self.class6),
        };
        Service {
            ttl,
            tos,
            dont_fragment: true,
        }
    }
}

/// What is done with the datagrams of a socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatagramOptions {
    /// UDP_GRO.
    gro: bool,
    /// IP_MULTICAST_ALL and IPV6_MULTICAST_ALL.
    group_all: bool,
    group_all6: bool,
    /// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER.
    path_mtu: PathMtu,
    path_mtu6: PathMtu,
    /// SO_TIMESTAMP and the others like it.
    stamped: bool,
    /// IP_RECVERR and IPV6_RECVERR.
    receive_errors: bool,
    receive_errors6: bool,
}

impl DatagramOptions {
    /// Those of a new socket, of IPv6 or not.
    pub(super) fn new(ipv6: bool) -> Self {
        Self {
            gro: false,
            // As in Linux.
            group_all: !ipv6,
            group_all6: true,
            path_mtu: PathMtu::default(),
            path_mtu6: PathMtu::default(),
            stamped: false,
            receive_errors: false,
            receive_errors6: false,
        }
    }

    /// Sets one.
    pub(super) fn set(&mut self, name: OptionName, value: u32) {
        let on = value != 0;
        match name {
            OptionName::UdpGro => self.gro = on,
            OptionName::GroupAll => self.group_all = on,
            OptionName::GroupAll6 => self.group_all6 = on,
            OptionName::PathMtu => self.path_mtu = PathMtu::from_raw(value),
            OptionName::PathMtu6 => self.path_mtu6 = PathMtu::from_raw(value),
            OptionName::Stamped => self.stamped = on,
            OptionName::ReceiveErrors => self.receive_errors = on,
            OptionName::ReceiveErrors6 => self.receive_errors6 = on,
            _ => {}
        }
    }

    /// Whether several that came together are given to the program together.
    pub(crate) fn is_merged(&self) -> bool {
        self.gro
    }

    /// Whether those to a group like `group` come, too, that another socket of the host has
    /// joined.
    pub(crate) fn has_all_groups(&self, group: IpAddr) -> bool {
        match group {
            IpAddr::V4(_) => self.group_all,
            IpAddr::V6(_) => self.group_all6,
        }
    }

    /// Whether they are stamped when they arrive.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Whether one that its path does not take whole is an error to the program: in
    /// IPv4 unless it leaves the path alone, in IPv6 if it wants nothing cut, as in Linux.
    pub(crate) fn reports_path(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.path_mtu != PathMtu::Dont,
            IpAddr::V6(_) => self.path_mtu6 == PathMtu::Do,
        }
    }

    /// Whether what was learnt of the path to `to` counts for what is sent there.
    pub(crate) fn honors_path(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.path_mtu.honors_path_mtu(),
            IpAddr::V6(_) => self.path_mtu6.honors_path_mtu(),
        }
    }

    /// Whether the program has asked for all errors about what it sends to `to`.
    pub(crate) fn asks_for_errors(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.receive_errors,
            IpAddr::V6(_) => self.receive_errors6,
        }
    }
}
