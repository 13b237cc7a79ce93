//! Options that say from which sources a group is received, in all the shapes of RFC 3678.
//!
//! `options` comes here, with its `get`; `source_functions` makes such options. What is malformed, or
//! is about an interface of the kernel's, is for the kernel's socket, which refuses it or keeps it.

use super::groups::{Interface, engines, index, interface_at, ipv4, ipv6, is_v6, number};
use crate::calls::refused;
use crate::fds::Entry;
use crate::user::In;
use crate::{place, vectors};
use libc::{IPPROTO_IP as IP, IPPROTO_IPV6 as IP6};
use libc::{c_int, c_void, sockaddr_storage, socklen_t};
use longshore_hostif::{Owner, SourceRequest};
use longshore_posix::options::known;
use longshore_sockets::{Host, SocketError, Sources};
use std::net::{IpAddr, SocketAddr};

/// MCAST_EXCLUDE and MCAST_INCLUDE of linux/in.h.
const EXCLUDE: u32 = 0;
const INCLUDE: u32 = 1;
/// `struct ip_mreq_source`: group, interface, source.
const MREQ_SOURCE: usize = 12;
/// `struct ip_msfilter`: group, interface, mode, number; then the sources.
pub(super) const MSFILTER: usize = 16;
pub(super) const MODE4_AT: usize = 8;
/// `struct group_source_req` and `struct group_filter`: interface, group; then the source, or mode,
/// number and the sources.
pub(super) const GROUP_AT: usize = 8;
const SOURCE_AT: usize = GROUP_AT + STORAGE;
const GROUP_SOURCE: usize = SOURCE_AT + STORAGE;
pub(super) const MODE_AT: usize = GROUP_AT + STORAGE;
pub(super) const GROUP_FILTER: usize = MODE_AT + 8;
pub(super) const STORAGE: usize = size_of::<sockaddr_storage>();
/// Most sources in a list (Linux: net.ipv4.igmp_max_msf, net.ipv6.mld_max_msf).
const MOST4: u32 = 10;
pub(super) const MOST6: u32 = 64;

/// What an option says of a group.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Change(IpAddr, SourceRequest),
    Set(Sources),
}

/// One of the options: the group, the interface, and what is wished.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    group: IpAddr,
    interface: Interface,
    wish: Wish,
}

/// The address of a family in a `sockaddr_storage` at `at`.
fn stored(bytes: &[u8], at: usize, family: c_int) -> Option<IpAddr> {
    let said = bytes.get(at..)?.first_chunk::<2>()?;
    if c_int::from(u16::from_ne_bytes(*said)) != family {
        return None;
    }
    Some(match family {
        libc::AF_INET => ipv4(bytes, at + 4)?.into(),
        _ => ipv6(bytes, at + 8)?.into(),
    })
}

fn family_of(level: c_int) -> c_int {
    match level {
        IP => libc::AF_INET,
        _ => libc::AF_INET6,
    }
}

/// The list that a filter has, if its numbers are valid: `source` reads one.
fn list(
    bytes: &[u8],
    (mode_at, most): (usize, u32),
    source: impl Fn(usize) -> Option<IpAddr>,
) -> Option<Sources> {
    let (mode, count) = (number(bytes, mode_at)?, number(bytes, mode_at + 4)?);
    if !matches!(mode, EXCLUDE | INCLUDE) || count > most {
        return None;
    }
    Some(Sources {
        included: mode == INCLUDE,
        list: (0..count as usize).map(source).collect::<Option<_>>()?,
    })
}

/// Reads an option; `None` if it is about something else, or the kernel refuses it.
fn read(level: c_int, name: c_int, bytes: &[u8]) -> Option<Read> {
    use SourceRequest as R;
    let family = family_of(level);
    let change = match (level, name) {
        (IP, libc::IP_ADD_SOURCE_MEMBERSHIP) | (_, known::MCAST_JOIN_SOURCE_GROUP) => Some(R::Join),
        (IP, libc::IP_DROP_SOURCE_MEMBERSHIP) | (_, known::MCAST_LEAVE_SOURCE_GROUP) => {
            Some(R::Leave)
        }
        (IP, known::IP_BLOCK_SOURCE) | (_, known::MCAST_BLOCK_SOURCE) => Some(R::Block),
        (IP, known::IP_UNBLOCK_SOURCE) | (_, known::MCAST_UNBLOCK_SOURCE) => Some(R::Unblock),
        _ => None,
    };
    let is_old = name < known::MCAST_JOIN_GROUP;
    match (change, name) {
        (Some(change), _) if is_old && bytes.len() == MREQ_SOURCE => Some(Read {
            group: ipv4(bytes, 0)?.into(),
            interface: interface_at(bytes.get(..8)?, 4)?,
            wish: Wish::Change(ipv4(bytes, 8)?.into(), change),
        }),
        (Some(change), _) if !is_old && bytes.len() >= GROUP_SOURCE => Some(Read {
            group: stored(bytes, GROUP_AT, family)?,
            interface: index(number(bytes, 0)?),
            wish: Wish::Change(stored(bytes, SOURCE_AT, family)?, change),
        }),
        (None, known::IP_MSFILTER) if level == IP => {
            let source = |nth| ipv4(bytes, MSFILTER + 4 * nth).map(IpAddr::V4);
            Some(Read {
                group: ipv4(bytes, 0)?.into(),
                interface: interface_at(bytes.get(..8)?, 4)?,
                wish: Wish::Set(list(bytes, (MODE4_AT, MOST4), source)?),
            })
        }
        (None, known::MCAST_MSFILTER) => {
            let source = |nth| {
                let at = GROUP_FILTER + STORAGE * nth;
                bytes.get(at..at + STORAGE)?;
                stored(bytes, at, family)
            };
            let most = if level == IP { MOST4 } else { MOST6 };
            Some(Read {
                group: stored(bytes, GROUP_AT, family)?,
                interface: index(number(bytes, 0)?),
                wish: Wish::Set(list(bytes, (MODE_AT, most), source)?),
            })
        }
        _ => None,
    }
}

/// Whether a group is received by the engine, if it is by this interface.
fn is_engines(host: &Host, group: IpAddr, interface: Interface) -> bool {
    let reaches = host.routes().owner_of(SocketAddr::new(group, 0)) == Owner::Engine;
    group.is_multicast() && reaches && interface.is_engines(host)
}

/// Does what an option of a datagram socket says that is about the sources of a group of the
/// engine's. `None` if it is for the kernel alone.
pub(super) fn set(
    fd: c_int,
    entry: Entry,
    (level, name): (c_int, c_int),
    (value, len): (In<'_, c_void>, socklen_t),
) -> Option<Result<(), SocketError>> {
    let len = (len as usize).min(GROUP_FILTER + STORAGE * MOST6 as usize);
    if !vectors::can_be_read(value, len) || level == IP6 && !is_v6(fd, entry) {
        return None;
    }
    let read = read(level, name, value.cast::<u8>().slice(len))?;
    if !is_engines(place::attached()?, read.group, read.interface) {
        return None;
    }
    let wants_interface = (level, name) == (IP6, known::MCAST_MSFILTER);
    let done = engines(fd, entry).and_then(|socket| {
        let datagrams = socket.datagrams();
        if !datagrams.distinguishes_sources() {
            return Err(refused(libc::ENOPROTOOPT));
        }
        match read.wish {
            Wish::Change(source, change) => datagrams.change_source(read.group, source, change),
            // As in Linux, the interface has to be named for a list of IPv6, unless it is the end.
            Wish::Set(sources)
                if wants_interface
                    && read.interface == Interface::Any
                    && !(sources.included && sources.list.is_empty()) =>
            {
                Err(refused(libc::EINVAL))
            }
            Wish::Set(sources) => datagrams.set_sources(read.group, &sources),
        }
    });
    Some(done)
}

/// Tells from which sources a group is received, which IP_MSFILTER and MCAST_MSFILTER ask for, if
/// it is on the engine: what is to be written to the caller's buffer that has `bytes` now. `None`
/// if the kernel is to say.
pub(super) fn get(
    socket: &longshore_sockets::Socket,
    (level, name): (c_int, c_int),
    bytes: &[u8],
) -> Option<Result<Vec<u8>, SocketError>> {
    let (group, interface, mode_at) = match (level, name) {
        (IP, known::IP_MSFILTER) => {
            let interface = interface_at(bytes.get(..8)?, 4)?;
            (IpAddr::V4(ipv4(bytes, 0)?), interface, MODE4_AT)
        }
        (IP | IP6, known::MCAST_MSFILTER) if level == IP || socket.is_v6() => {
            let group = stored(bytes, GROUP_AT, family_of(level))?;
            (group, index(number(bytes, 0)?), MODE_AT)
        }
        _ => return None,
    };
    let begin = mode_at + 8;
    let room = number(bytes, mode_at + 4)? as usize;
    let head = bytes.get(..begin)?;
    let is_known = socket.datagrams().distinguishes_sources();
    if !is_known || !is_engines(place::attached()?, group, interface) {
        return None;
    }
    // As in Linux, a membership is found by its interface alone, which this is none.
    if name == known::MCAST_MSFILTER && interface == Interface::Any {
        return Some(Err(refused(libc::EADDRNOTAVAIL)));
    }
    let told = socket.datagrams().sources(group).map(|sources| {
        let mut told = head.to_vec();
        let mode = if sources.included { INCLUDE } else { EXCLUDE };
        let count = sources.list.len() as u32;
        told[mode_at..].copy_from_slice(&[mode.to_ne_bytes(), count.to_ne_bytes()].concat());
        for source in sources.list.iter().take(room) {
            match (source, name) {
                (IpAddr::V4(ip), known::IP_MSFILTER) => told.extend(ip.octets()),
                (source, _) => told.extend(storage(*source)),
            }
        }
        told
    });
    Some(told)
}

/// An address in a `sockaddr_storage`, without port.
fn storage(ip: IpAddr) -> [u8; STORAGE] {
    let mut bytes = [0; STORAGE];
    let family = if ip.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    match ip {
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes[8..24].copy_from_slice(&ip.octets()),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
    const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 1);
    const SOURCE6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);

    fn change(group: IpAddr, interface: Interface, source: IpAddr, to: SourceRequest) -> Read {
        Read {
            group,
            interface,
            wish: Wish::Change(source, to),
        }
    }

    /// A `group_source_req`, or the head of a `group_filter`, of the interface 3.
    fn general(group: IpAddr, behind: &[u8]) -> Vec<u8> {
        let mut bytes = vec![3, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(storage(group));
        bytes.extend(behind);
        bytes
    }

    #[test]
    fn changes_are_read_in_both_shapes() {
        let octets = [GROUP, Ipv4Addr::UNSPECIFIED, SOURCE].map(|ip| ip.octets());
        let old = octets.concat();
        for (name, to) in [
            (libc::IP_ADD_SOURCE_MEMBERSHIP, SourceRequest::Join),
            (libc::IP_DROP_SOURCE_MEMBERSHIP, SourceRequest::Leave),
            (known::IP_BLOCK_SOURCE, SourceRequest::Block),
            (known::IP_UNBLOCK_SOURCE, SourceRequest::Unblock),
        ] {
            let expected = change(GROUP.into(), Interface::Any, SOURCE.into(), to);
            assert_eq!(read(IP, name, &old), Some(expected));
            assert_eq!(read(IP, name, &old[..11]), None);
            assert_eq!(read(IP, name, &[&old[..], &[0]].concat()), None);
        }
        for (level, group, source) in [
            (IP, GROUP.into(), SOURCE.into()),
            (IP6, IpAddr::from(GROUP6), IpAddr::from(SOURCE6)),
        ] {
            let bytes = general(group, &storage(source));
            for (name, to) in [
                (known::MCAST_JOIN_SOURCE_GROUP, SourceRequest::Join),
                (known::MCAST_LEAVE_SOURCE_GROUP, SourceRequest::Leave),
                (known::MCAST_BLOCK_SOURCE, SourceRequest::Block),
                (known::MCAST_UNBLOCK_SOURCE, SourceRequest::Unblock),
            ] {
                let expected = change(group, Interface::Index(3), source, to);
                assert_eq!(read(level, name, &bytes), Some(expected));
                assert_eq!(read(level, name, &bytes[..bytes.len() - 1]), None);
                assert_eq!(
                    read(IP + IP6 - level, name, &bytes),
                    None,
                    "of the other version"
                );
            }
        }
    }

    #[test]
    fn lists_are_read_as_far_as_they_are_there() {
        let list = |mode: u32, count: u32| [mode.to_ne_bytes(), count.to_ne_bytes()].concat();
        let set = |included, sources: &[IpAddr]| {
            Wish::Set(Sources {
                included,
                list: sources.to_vec(),
            })
        };
        let old = |mode, count| {
            let head = [GROUP.octets(), [0; 4]].concat();
            let sources = [SOURCE, GROUP].map(|ip| ip.octets()).concat();
            [head, list(mode, count), sources].concat()
        };
        let new = |mode, count| {
            let behind = [list(mode, count), storage(SOURCE6.into()).to_vec()].concat();
            general(GROUP6.into(), &behind)
        };
        let read_old = |bytes: &[u8]| read(IP, known::IP_MSFILTER, bytes).map(|r| r.wish);
        let read_new = |bytes: &[u8]| read(IP6, known::MCAST_MSFILTER, bytes).map(|r| r.wish);
        let both = [SOURCE.into(), GROUP.into()];
        assert_eq!(read_old(&old(INCLUDE, 2)), Some(set(true, &both)));
        assert_eq!(read_old(&old(EXCLUDE, 1)), Some(set(false, &both[..1])));
        assert_eq!(read_old(&old(EXCLUDE, 3)), None, "there are two");
        assert_eq!(read_old(&old(2, 1)), None, "no mode");
        assert_eq!(read_old(&old(EXCLUDE, 11)), None);
        assert_eq!(
            read_new(&new(INCLUDE, 1)),
            Some(set(true, &[SOURCE6.into()]))
        );
        assert_eq!(read_new(&new(EXCLUDE, 0)), Some(set(false, &[])));
        assert_eq!(read_new(&new(EXCLUDE, 2)), None);
        assert_eq!(read_new(&new(EXCLUDE, u32::MAX)), None);
        let cut = new(INCLUDE, 1);
        assert_eq!(read_new(&cut[..cut.len() - 1]), None);
    }
}
