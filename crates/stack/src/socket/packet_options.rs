//! Options of a socket that are about IP and UDP: what its packets have in their headers, and
//! what is done with its datagrams.
//!
//! Owns [`HeaderOptions`], [`PathOptions`] and [`DatagramOptions`], parts of
//! [`Options`](super::Options).

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

    /// What a connection's packets to `to` are to have, which routers may cut or not.
    #[inline]
    pub(super) fn service(&self, to: IpAddr, dont_fragment: bool) -> Service {
        let (ttl, tos) = match to {
            IpAddr::V4(_) => (self.ttl, self.tos),
            IpAddr::V6(_) => (self.hops6, self.class6),
        };
        Service {
            ttl,
            tos,
            dont_fragment,
        }
    }
}

/// IP_MTU_DISCOVER and IPV6_MTU_DISCOVER: what is done with packets that their paths do not take.
/// Both in a byte, since there may be many sockets: IPv4's in the lower half.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathOptions(u8);

impl Default for PathOptions {
    fn default() -> Self {
        let usual = PathMtu::default() as u8;
        Self(usual << 4 | usual)
    }
}

/// What a connection does as a router says that its path takes less than it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnNarrowPath {
    /// What is in flight is sent again at once, in smaller segments (RFC 1191 section 6.4).
    SendAgain,
    /// What is sent from then on is smaller.
    SendLess,
    /// Nothing: the router is not believed.
    Nothing,
}

impl PathOptions {
    /// Sets one.
    pub(super) fn set(&mut self, name: OptionName, value: u32) {
        match name {
            OptionName::PathMtu => self.0 = self.0 & 0xf0 | PathMtu::from_raw(value) as u8,
            OptionName::PathMtu6 => self.0 = self.0 & 0xf | (PathMtu::from_raw(value) as u8) << 4,
            _ => {}
        }
    }

    #[inline]
    fn v4(self) -> PathMtu {
        PathMtu::from_raw(self.0.into())
    }

    fn v6(self) -> PathMtu {
        PathMtu::from_raw((self.0 >> 4).into())
    }

    /// Whether no router may cut the segments of a connection (DF). As in Linux they may be cut if
    /// its program looks for the path's MTU itself (IP_PMTUDISC_PROBE), other than datagrams.
    #[inline]
    pub(super) fn keeps_segments_whole(&self) -> bool {
        matches!(self.v4(), PathMtu::Want | PathMtu::Do)
    }

    /// What a connection to `to` does as its path takes less, as in Linux: `tcp_v4_mtu_reduced` has
    /// the route changed whatever the socket says, and so the segments that follow;
    /// `tcp_v6_err` asks the socket first.
    pub(crate) fn on_narrow_path(&self, to: IpAddr) -> OnNarrowPath {
        use PathMtu::{Dont, Interface, Omit};
        match to {
            IpAddr::V4(_) if matches!(self.v4(), Dont | Interface | Omit) => OnNarrowPath::SendLess,
            IpAddr::V6(_) if matches!(self.v6(), Interface | Omit) => OnNarrowPath::Nothing,
            _ => OnNarrowPath::SendAgain,
        }
    }

    /// Whether a datagram that its path does not take whole is an error to the program: in
    /// IPv4 unless it leaves the path alone, in IPv6 if it wants nothing cut, as in Linux.
    pub(crate) fn reports_to_datagrams(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.v4() != PathMtu::Dont,
            IpAddr::V6(_) => self.v6() == PathMtu::Do,
        }
    }

    /// Whether what was learnt of the path to `to` counts for datagrams that are sent there.
    pub(crate) fn counts_for_datagrams(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.v4().honors_path_mtu(),
            IpAddr::V6(_) => self.v6().honors_path_mtu(),
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

    /// Whether the program has asked for all errors about what it sends to `to`.
    pub(crate) fn asks_for_errors(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(_) => self.receive_errors,
            IpAddr::V6(_) => self.receive_errors6,
        }
    }
}
