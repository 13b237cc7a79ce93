//! What goes to more than one host: groups (multicast) and broadcasts.
//!
//! Owns what sockets have to do with it; which groups the link is in is said by
//! `link::memberships`. `requests` joins and leaves, `datagram` asks who receives. A
//! datagram to a group is delivered to every socket that Linux delivers it to.

use crate::link::Link;
use crate::request_error::RequestError;
use crate::socket::{Datagram, Kind, Socket};
use longshore_hostif::{Address, SocketKind};
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};

/// Groups that one socket may join (Linux: net.ipv4.igmp_max_memberships).
const MOST_OF_SOCKET: usize = 20;

impl Socket {
    /// It is a UDP socket for good; what it is already stays.
    pub(crate) fn become_datagram(&mut self) {
        if matches!(self.kind, Kind::Idle(SocketKind::Datagram)) {
            self.kind = Kind::Datagram(Datagram::default());
        }
    }

    /// Whether a datagram from `remote` to `group` is delivered to it: with
    /// IP_MULTICAST_ALL or IPV6_MULTICAST_ALL also if another socket has joined.
    pub(crate) fn receives_from(&self, group: IpAddr, remote: SocketAddr) -> bool {
        let Kind::Datagram(d) = &self.kind else {
            return false;
        };
        let of_peer = d.peer.is_none_or(|peer| peer == remote);
        let joined = !group.is_multicast()
            || d.groups.contains(&group)
            || self.options.datagrams.has_all_groups(group);
        of_peer && joined
    }
}

impl Socket {
    /// Joins a group, or leaves it.
    pub(crate) fn change_group(
        &mut self,
        group: Address,
        join: bool,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let group = group.get().ok_or(RequestError::Invalid)?.ip();
        let group = group.to_canonical();
        if !group.is_multicast() {
            return Err(RequestError::Invalid);
        }
        self.become_datagram();
        let Kind::Datagram(d) = &mut self.kind else {
            return Err(RequestError::Invalid);
        };
        let at = d.groups.iter().position(|g| *g == group);
        match (at, join) {
            (Some(_), true) => Err(RequestError::AddressInUse),
            (None, false) => Err(RequestError::AddressNotAvailable),
            (None, true) if d.groups.len() == MOST_OF_SOCKET => Err(RequestError::TooManyGroups),
            (None, true) => {
                if !link.groups.join(group, now, &mut link.output.device) {
                    return Err(RequestError::TooManyGroups);
                }
                d.groups.push(group);
                Ok(())
            }
            (Some(at), false) => {
                d.groups.swap_remove(at);
                link.groups.leave(group, now, &mut link.output.device);
                Ok(())
            }
        }
    }
}
