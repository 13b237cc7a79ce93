//! What goes to more than one host: groups (multicast) and broadcasts.
//!
//! Owns what sockets have to do with it; which groups the link is in is said by
//! `link::memberships`. `requests` joins and leaves, `datagram` asks who receives. A
//! datagram to a group is delivered to every socket that Linux delivers it to.

use crate::link::Link;
use crate::request_error::RequestError;
use crate::requests::Setup;
use crate::socket::{Datagram, DatagramOptions};
use longshore_hostif::Address;
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};

/// Groups that one socket may join (Linux: net.ipv4.igmp_max_memberships).
const MOST_OF_SOCKET: usize = 20;

impl Datagram {
    /// Whether a datagram from `remote` to `group` is delivered to it, a socket of these options:
    /// with IP_MULTICAST_ALL or IPV6_MULTICAST_ALL also if another socket has joined.
    pub(crate) fn receives_from(
        &self,
        group: IpAddr,
        remote: SocketAddr,
        options: &DatagramOptions,
    ) -> bool {
        let of_peer = self.peer.is_none_or(|peer| peer == remote);
        let joined =
            !group.is_multicast() || self.groups.contains(&group) || options.has_all_groups(group);
        of_peer && joined
    }

    /// Joins a group, or leaves it.
    fn change_group(
        &mut self,
        group: IpAddr,
        join: bool,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let at = self.groups.iter().position(|g| *g == group);
        match (at, join) {
            (Some(_), true) => Err(RequestError::AddressInUse),
            (None, false) => Err(RequestError::AddressNotAvailable),
            (None, true) if self.groups.len() == MOST_OF_SOCKET => Err(RequestError::TooManyGroups),
            (None, true) => {
                if !link.groups.join(group, now, &mut link.output.device) {
                    return Err(RequestError::TooManyGroups);
                }
                self.groups.push(group);
                Ok(())
            }
            (Some(at), false) => {
                self.groups.swap_remove(at);
                link.groups.leave(group, now, &mut link.output.device);
                Ok(())
            }
        }
    }
}

impl Setup<'_> {
    /// Has the socket of `key` join the group of this address, or leave it.
    pub(crate) fn change_group(
        &mut self,
        key: u32,
        group: Address,
        join: bool,
    ) -> Result<(), RequestError> {
        let socket = self.endpoints.sockets.get_mut(key);
        let socket = socket.ok_or(RequestError::NoSocket)?;
        let group = group.get().ok_or(RequestError::Invalid)?.ip();
        let group = group.to_canonical();
        if !group.is_multicast() {
            return Err(RequestError::Invalid);
        }
        let datagrams = socket.kind.become_datagram();
        let datagrams = datagrams.ok_or(RequestError::Invalid)?;
        datagrams.change_group(group, join, self.link, self.now)
    }
}
