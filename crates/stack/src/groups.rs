//! What goes to more than one host: groups (multicast) and broadcasts.
//!
//! Owns what sockets have to do with it; which groups the link is in is said by
//! `link::memberships`, from which sources a socket receives one by `source_filters`. `requests`
//! joins and leaves, `datagram` asks who receives. A datagram to a group is delivered to every
//! socket that Linux delivers it to.

use crate::link::Link;
use crate::link::memberships::Memberships;
use crate::request_error::RequestError;
use crate::requests::Setup;
use crate::session::Session;
use crate::socket::{Datagram, DatagramOptions};
use crate::source_filters::Membership;
use longshore_hostif::Address;
use longshore_net::groups::Member;
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};

/// Groups that one socket may join (Linux: net.ipv4.igmp_max_memberships).
const MOST_OF_SOCKET: usize = 20;

impl Datagram {
    /// Whether a datagram from `remote` to `group` is delivered to it, a socket of these options: to
    /// a member if its sources have it so; with IP_MULTICAST_ALL or IPV6_MULTICAST_ALL to others,
    /// too, if the link receives it, as `links` say.
    pub(crate) fn receives_from(
        &self,
        group: IpAddr,
        remote: SocketAddr,
        (options, links): (&DatagramOptions, &Memberships),
    ) -> bool {
        let of_peer = self.peer.is_none_or(|peer| peer == remote);
        let receives = || {
            let membership = self.groups.iter().find(|m| m.group == group);
            membership.map_or_else(
                || options.has_all_groups(group) && links.permits(group, remote.ip()),
                |membership| membership.permits(remote.ip()),
            )
        };
        of_peer && (!group.is_multicast() || receives())
    }

    /// Leaves a group.
    pub(crate) fn leave(
        &mut self,
        group: IpAddr,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let at = self.place_of(group);
        let at = at.ok_or(RequestError::AddressNotAvailable)?;
        let membership = self.groups.swap_remove(at);
        membership.end(link, now);
        Ok(())
    }

    /// Has it become a member so.
    pub(crate) fn join(
        &mut self,
        membership: Membership,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        if self.place_of(membership.group).is_some() {
            return Err(RequestError::AddressInUse);
        }
        if self.groups.len() == MOST_OF_SOCKET {
            return Err(RequestError::TooManyGroups);
        }
        membership.begin(link, now)?;
        self.groups.push(membership);
        Ok(())
    }

    /// Which of its groups that is.
    pub(crate) fn place_of(&self, group: IpAddr) -> Option<usize> {
        self.groups.iter().position(|m| m.group == group)
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
        let by = self.member(key)?;
        let socket = self.endpoints.sockets.get_mut(key);
        let socket = socket.ok_or(RequestError::NoSocket)?;
        let group = group.get().ok_or(RequestError::Invalid)?.ip();
        let group = group.to_canonical();
        if !group.is_multicast() {
            return Err(RequestError::Invalid);
        }
        let datagrams = socket.kind.become_datagram();
        let datagrams = datagrams.ok_or(RequestError::Invalid)?;
        let done = match join {
            true => datagrams.join(Membership::of_all(group, by), self.link, self.now),
            false => datagrams.leave(group, self.link, self.now),
        };
        self.count_full(&done);
        done
    }

    /// Whose memberships are those of a socket.
    pub(crate) fn member(&self, key: u32) -> Result<Member, RequestError> {
        let socket = self.endpoints.sockets.get(key);
        let session = socket.ok_or(RequestError::NoSocket)?.session;
        let of = self.endpoints.sessions.get(session);
        let has_bounds = |s: &&Session| s.account.as_ref().is_some_and(|a| a.has_bounds());
        let user = of.filter(has_bounds).map(|s| s.uid);
        Ok(Member { session, user })
    }

    /// Counts what there was no room for.
    pub(crate) fn count_full<T>(&mut self, done: &Result<T, RequestError>) {
        if let Err(RequestError::NoRoomForGroup(full)) = done {
            self.counters.groups.count(*full);
        }
    }
}
