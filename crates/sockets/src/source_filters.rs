//! From which sources a datagram socket receives the groups that it has joined (RFC 3678).
//!
//! Owns those calls of [`Datagrams`]. A list goes to the engine, and comes from it, one source at a
//! time: it is short, and changed and asked for rarely.

use crate::datagram::Datagrams;
use crate::errors::SocketError;
use longshore_hostif::{Address, Numbered, Request, SourceRequest};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of this process's next list, by which the engine tells those of its threads apart.
static NEXT_LIST: AtomicU16 = AtomicU16::new(0);

/// Most sources of a list (Linux: net.ipv6.mld_max_msf).
const MOST: usize = 64;

/// Which sources of a group a socket receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// Whether those listed are received (MCAST_INCLUDE), or all others (MCAST_EXCLUDE).
    pub included: bool,
    /// The list, in the order in which the program has named them.
    pub list: Vec<IpAddr>,
}

impl Datagrams<'_> {
    /// Whether the engine distinguishes sources (interface version 24).
    pub fn distinguishes_sources(self) -> bool {
        self.socket.host.session.agreed().distinguishes_sources()
    }

    /// Receives a group from one more source, or from one fewer, as `change` says.
    ///
    /// # Errors
    /// EINVAL if the group is none, was not joined or has a list that means the opposite,
    /// EADDRNOTAVAIL if the source is listed already or not at all, ENOBUFS if there are too
    /// many groups or sources.
    pub fn change_source(
        self,
        group: IpAddr,
        source: IpAddr,
        change: SourceRequest,
    ) -> Result<(), SocketError> {
        self.ask((group, 0), (source, 0), change).map(|_| ())
    }

    /// Receives a group from these sources: from none, if it is to be left.
    ///
    /// # Errors
    /// EINVAL if the group was not joined, EADDRNOTAVAIL if it was to be left, too, and ENOBUFS
    /// if there are too many sources.
    pub fn set_sources(self, group: IpAddr, sources: &Sources) -> Result<(), SocketError> {
        if sources.list.len() > MOST {
            return Err(SocketError::Refused(Errno::NOBUFS));
        }
        let number = NEXT_LIST.fetch_add(1, Ordering::Relaxed);
        let (group, mut place) = ((group, number), 0);
        for source in &sources.list {
            self.ask(group, (*source, place), SourceRequest::Propose)?;
            place += 1;
        }
        let set = match sources.included {
            true => SourceRequest::Include,
            false => SourceRequest::Exclude,
        };
        self.ask(group, (unspecified(group.0), place), set)
            .map(|_| ())
    }

    /// The sources from which a group is received.
    ///
    /// # Errors
    /// EADDRNOTAVAIL if it was not joined.
    pub fn sources(self, group: IpAddr) -> Result<Sources, SocketError> {
        let mut sources = Sources {
            included: false,
            list: Vec::new(),
        };
        for place in 0..MOST as u16 {
            let source = (unspecified(group), place);
            let (value, address) = self.ask((group, 0), source, SourceRequest::Ask)?;
            sources.included = value & 1 != 0;
            let Some(source) = address.get() else {
                break;
            };
            sources.list.push(source.ip());
            if u64::from(place) + 1 >= value >> 8 {
                break;
            }
        }
        Ok(sources)
    }

    fn ask(
        self,
        (group, number): (IpAddr, u16),
        (source, place): (IpAddr, u16),
        change: SourceRequest,
    ) -> Result<(u64, Address), SocketError> {
        let group = Numbered::new(group, number);
        let source = Numbered::new(source, place);
        let answer = self.socket.call(|socket, tag, waiter| Request::Sources {
            socket,
            tag,
            waiter,
            group,
            source,
            change,
        });
        answer.map(|answer| (answer.value, answer.address))
    }
}

/// No address, of the version of a group.
fn unspecified(group: IpAddr) -> IpAddr {
    match group {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests;
