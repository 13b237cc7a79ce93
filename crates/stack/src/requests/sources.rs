//! What programs ask of the sources of their groups: IP_ADD_SOURCE_MEMBERSHIP and its like.
//!
//! The checks and their order are those of `ip_mc_source`, `ip_mc_msfilter` and `ip_mc_msfget` in
//! Linux's net/ipv4/igmp.c, which those of IPv6 in net/ipv6/mcast.c follow.

use super::{NOTHING, Setup};
use crate::link::Link;
use crate::request_error::RequestError;
use crate::socket::Datagram;
use crate::source_filters::{Membership, Proposed, most_sources};
use longshore_hostif::{Address, Numbered, SourceRequest};
use longshore_net::groups::{Member, Mode};
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};

impl Setup<'_> {
    /// Does what the process of `channel` asks of the sources from which the socket of `key`
    /// receives a group: of these names, the numbers say more ([`SourceRequest`]).
    pub(crate) fn change_sources(
        &mut self,
        key: u32,
        channel: u16,
        (group, source): (Numbered, Numbered),
        change: SourceRequest,
    ) -> Result<(u64, Address), RequestError> {
        use SourceRequest as R;
        let by = self.member(key)?;
        let ((group, number), (source, place)) = (group.get(), source.get());
        if !group.is_multicast() || group.is_ipv4() != source.is_ipv4() {
            return Err(RequestError::Invalid);
        }
        let socket = self.endpoints.sockets.get_mut(key);
        let datagrams = socket.and_then(|socket| socket.kind.become_datagram());
        let datagrams = datagrams.ok_or(RequestError::Invalid)?;
        let (of, link, now) = ((channel, number), &mut *self.link, self.now);
        let done = match change {
            R::Join | R::Leave => {
                let add = change == R::Join;
                datagrams.change_source(((group, by), source), (Mode::Include, add), link, now)
            }
            R::Block | R::Unblock => {
                let add = change == R::Block;
                datagrams.change_source(((group, by), source), (Mode::Exclude, add), link, now)
            }
            R::Propose => match Proposed::take(&mut datagrams.proposed, of, (source, place)) {
                true => Ok(()),
                false => Err(RequestError::Invalid),
            },
            R::Include | R::Exclude => {
                let list = Proposed::whole(&mut datagrams.proposed, of, place);
                let list = list.ok_or(RequestError::Invalid)?;
                let mode = match change {
                    R::Include => Mode::Include,
                    _ => Mode::Exclude,
                };
                datagrams.set_sources(Membership::new((group, by), mode, Some(list)), link, now)
            }
            R::Ask => return datagrams.source_at(group, place),
        };
        self.count_full(&done);
        done.map(|()| NOTHING)
    }
}

impl Datagram {
    /// Lists a source of a group that is to be received or not, by the mode, or lists it no longer.
    fn change_source(
        &mut self,
        ((group, by), source): ((IpAddr, Member), IpAddr),
        (mode, add): (Mode, bool),
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let is_new = mode == Mode::Include && add && self.place_of(group).is_none();
        if is_new {
            self.join(Membership::new((group, by), mode, None), link, now)?;
        }
        let changed = self.list_source((group, source), (mode, add), link, now);
        if is_new && changed.is_err() {
            // The link has no room for it.
            let _ = self.leave(group, link, now);
        }
        changed
    }

    fn list_source(
        &mut self,
        (group, source): (IpAddr, IpAddr),
        (mode, add): (Mode, bool),
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let at = self.place_of(group);
        let membership = at.and_then(|at| self.groups.get_mut(at));
        let membership = membership.ok_or(RequestError::Invalid)?;
        if membership.settled_mode().is_some_and(|m| m != mode) {
            return Err(RequestError::Invalid);
        }
        if membership.mode() != mode {
            // As in Linux, the mode of an empty list has changed even if nothing is done then.
            let empty = Membership::new((group, membership.by()), mode, None);
            membership.become_as(empty, link, now)?;
        }
        let mut list = membership.sources().to_vec();
        if add && list.len() >= most_sources(group) {
            return Err(RequestError::TooManyGroups);
        }
        let place = list.iter().position(|s| *s == source);
        match (place, add) {
            (None, true) => list.push(source),
            (Some(_), false) if mode == Mode::Include && list.len() == 1 => {
                return self.leave(group, link, now);
            }
            (Some(place), false) => {
                list.remove(place);
            }
            (Some(_), true) | (None, false) => return Err(RequestError::AddressNotAvailable),
        }
        let next = Membership::new((group, membership.by()), mode, Some(list));
        Ok(membership.become_as(next, link, now)?)
    }

    /// The sources of a group are those of `next`.
    fn set_sources(
        &mut self,
        next: Membership,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), RequestError> {
        let group = next.group;
        if next.sources().len() > most_sources(group) {
            return Err(RequestError::TooManyGroups);
        }
        let next = match next.sources() {
            [] if next.mode() == Mode::Include => {
                return self.leave(group, link, now);
            }
            [] => Membership::of_all(group, next.by()),
            _ => next,
        };
        let at = self.place_of(group);
        let membership = at.and_then(|at| self.groups.get_mut(at));
        let membership = membership.ok_or(RequestError::Invalid)?;
        Ok(membership.become_as(next, link, now)?)
    }

    /// The mode and the number of the sources of a group, and that at this place.
    fn source_at(&self, group: IpAddr, place: u16) -> Result<(u64, Address), RequestError> {
        let at = self.place_of(group);
        let membership = at.and_then(|at| self.groups.get(at));
        let membership = membership.ok_or(RequestError::AddressNotAvailable)?;
        let (sources, includes) = (membership.sources(), membership.mode() == Mode::Include);
        let source = sources.get(usize::from(place));
        let source = source.map(|source| SocketAddr::new(*source, 0));
        let value = u64::from(includes) | (sources.len() as u64) << 8;
        Ok((value, source.into()))
    }
}
