//! From which sources a socket receives the groups that it has joined (RFC 3678): what is asked of
//! them, in Linux's order of checks, and with its limits.
//!
//! Owns [`Membership`], of which a socket has one for each group, and [`Proposed`], a list of
//! sources on its way. `groups` joins and leaves; `link::memberships` has what all sockets
//! receive, and is told of each change.

use crate::link::Link;
use longshore_net::groups::{Filter, Full, Member, Mode};
use longshore_tcp::Instant;
use std::net::IpAddr;

/// Most sources of a list that is set, of either version of IP.
pub(crate) const MOST_SOURCES: usize = 64;

/// Most sources that one membership may list (Linux: net.ipv4.igmp_max_msf, net.ipv6.mld_max_msf).
pub(crate) fn most_sources(group: IpAddr) -> usize {
    match group {
        IpAddr::V4(_) => 10,
        IpAddr::V6(_) => MOST_SOURCES,
    }
}

/// A group that a socket has joined, and from which sources.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) group: IpAddr,
    /// Whose it is, by whose share of the link's room it is bounded.
    by: Member,
    mode: Mode,
    /// The sources in the order in which the program has named them. As in Linux, the mode of a
    /// list that has been begun stays, though nothing is in it any more; without one it changes
    /// with the next source.
    listed: Option<Vec<IpAddr>>,
}

impl Membership {
    /// One that receives all sources.
    pub(crate) const fn of_all(group: IpAddr, by: Member) -> Self {
        Self::new((group, by), Mode::Exclude, None)
    }

    pub(crate) const fn new(
        (group, by): (IpAddr, Member),
        mode: Mode,
        listed: Option<Vec<IpAddr>>,
    ) -> Self {
        Self {
            group,
            by,
            mode,
            listed,
        }
    }

    /// Whose it is.
    pub(crate) fn by(&self) -> Member {
        self.by
    }

    /// The sources that it lists.
    pub(crate) fn sources(&self) -> &[IpAddr] {
        self.listed.as_deref().unwrap_or_default()
    }

    /// What the list means; `None` if that can change, since there is none.
    pub(crate) fn settled_mode(&self) -> Option<Mode> {
        self.listed.as_ref().map(|_| self.mode)
    }

    /// What the list means.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    fn filter(&self) -> Filter<'_, IpAddr> {
        Filter {
            mode: self.mode,
            sources: self.sources(),
        }
    }

    /// Whether what `source` sends to the group is received.
    pub(crate) fn permits(&self, source: IpAddr) -> bool {
        self.filter().permits(source)
    }

    /// The link receives what this membership does, if there is room for that.
    pub(crate) fn begin(&self, link: &mut Link, now: Instant) -> Result<(), Full> {
        self.change((Filter::NONE, self.filter()), link, now)
    }

    /// The link receives nothing for it any more.
    pub(crate) fn end(&self, link: &mut Link, now: Instant) {
        // What takes no room always has some.
        let _ = self.change((self.filter(), Filter::NONE), link, now);
    }

    /// This membership is as `next` from now on; it stays as it is if there is no room for that.
    pub(crate) fn become_as(
        &mut self,
        next: Self,
        link: &mut Link,
        now: Instant,
    ) -> Result<(), Full> {
        self.change((self.filter(), next.filter()), link, now)?;
        *self = next;
        Ok(())
    }

    fn change(
        &self,
        filters: (Filter<'_, IpAddr>, Filter<'_, IpAddr>),
        link: &mut Link,
        now: Instant,
    ) -> Result<(), Full> {
        let device = &mut link.output.device;
        let name = (self.group, self.by);
        link.groups.change(name, filters, now, device)
    }
}

/// A list of sources that a process proposes one by one.
#[derive(Debug)]
pub(crate) struct Proposed {
    /// Whose list it is: the process's channel, and its number for it.
    pub(crate) of: (u16, u16),
    /// At most [`MOST_SOURCES`].
    pub(crate) sources: Vec<IpAddr>,
}

impl Proposed {
    /// Takes the source at this place of a list; `false` if it is not the next one of a list that
    /// is there, or too many.
    pub(crate) fn take(
        proposed: &mut Option<Box<Self>>,
        of: (u16, u16),
        (source, place): (IpAddr, u16),
    ) -> bool {
        if place == 0 {
            let sources = Vec::new();
            *proposed = Some(Box::new(Self { of, sources }));
        }
        let list = proposed.as_mut().filter(|p| p.of == of);
        let list = list.filter(|p| p.sources.len() == usize::from(place));
        let Some(list) = list.filter(|p| p.sources.len() < MOST_SOURCES) else {
            return false;
        };
        list.sources.push(source);
        true
    }

    /// The list, if it is whole; an empty one need not be proposed.
    pub(crate) fn whole(
        proposed: &mut Option<Box<Self>>,
        of: (u16, u16),
        len: u16,
    ) -> Option<Vec<IpAddr>> {
        if len == 0 {
            return Some(Vec::new());
        }
        let is_whole = |p: &mut Box<Self>| p.of == of && p.sources.len() == usize::from(len);
        proposed.take_if(is_whole).map(|p| p.sources)
    }
}
