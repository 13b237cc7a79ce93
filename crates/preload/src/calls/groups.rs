//! Options that join and leave groups or choose an interface for them, and the one that
//! lets a socket send broadcasts. `options`, `send` and `connect` come here.
//!
//! Those that choose its sources are in `sources`.
//!
//! A group is joined, and sent to, on the engine's link, unless the program names an
//! interface of the kernel's.

use crate::calls::{borrow, refused};
use crate::fds::{self, Entry};
use crate::options::device::{self, LOOPBACK};
use crate::user::In;
use crate::{decide, place, real, vectors};
use libc::{c_int, c_void, socklen_t};
use longshore_hostif::Owner;
use longshore_posix::options::known::{MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP};
use longshore_sockets::{Host, Socket, SocketError, more_bits};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where the group stands in a `group_req`.
const GROUP_AT: usize = 8;

/// Which interface the program names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface {
    Any,
    Address(Ipv4Addr),
    Index(u32),
}

/// What an option says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Join(IpAddr, Interface),
    Leave(IpAddr, Interface),
    /// What is sent to groups goes there.
    Send(Interface),
}

/// A number in the machine's order at `at`.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*bytes))
}

pub(super) fn ipv4(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*bytes))
}

pub(super) fn ipv6(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    let bytes = bytes.get(at..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*bytes))
}

pub(super) fn index(number: u32) -> Interface {
    match number {
        0 => Interface::Any,
        number => Interface::Index(number),
    }
}

/// The interface of an `ip_mreqn`, or of an `ip_mreq`, which ends before the index.
pub(super) fn interface_at(bytes: &[u8], at: usize) -> Option<Interface> {
    match number(bytes, at + 4).map_or(Interface::Any, index) {
        Interface::Any => {}
        chosen => return Some(chosen),
    }
    let address = ipv4(bytes, at)?;
    Some(if address.is_unspecified() {
        Interface::Any
    } else {
        Interface::Address(address)
    })
}

impl Wish {
    /// Reads an option; `None` if it is about something else, or too short.
    fn read(level: c_int, name: c_int, bytes: &[u8]) -> Option<Self> {
        let change = |join: bool, group: IpAddr, interface| match join {
            true => Self::Join(group, interface),
            false => Self::Leave(group, interface),
        };
        match (level, name) {
            (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP) => {
                let group = ipv4(bytes, 0)?.into();
                let join = name == libc::IP_ADD_MEMBERSHIP;
                Some(change(join, group, interface_at(bytes, 4)?))
            }
            (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP) => {
                let group = ipv6(bytes, 0)?.into();
                let join = name == libc::IPV6_ADD_MEMBERSHIP;
                Some(change(join, group, index(number(bytes, 16)?)))
            }
            (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP) => {
                let family = bytes.get(GROUP_AT..)?.first_chunk::<2>()?;
                let group = match (level, c_int::from(u16::from_ne_bytes(*family))) {
                    (libc::IPPROTO_IP, libc::AF_INET) => ipv4(bytes, GROUP_AT + 4)?.into(),
                    (libc::IPPROTO_IPV6, libc::AF_INET6) => ipv6(bytes, GROUP_AT + 8)?.into(),
                    _ => return None,
                };
                let join = name == MCAST_JOIN_GROUP;
                Some(change(join, group, index(number(bytes, 0)?)))
            }
            (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => Some(Self::Send(match bytes.len() {
                4..8 => interface_at(bytes, 0)?,
                _ => interface_at(bytes, 4)?,
            })),
            (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => {
                Some(Self::Send(index(number(bytes, 0)?)))
            }
            _ => None,
        }
    }
}

impl Interface {
    /// Whether it is one of the engine's, which it is if none is named.
    pub(super) fn is_engines(self, host: &Host) -> bool {
        match self {
            Self::Any => true,
            // No interface has a group's address, or a broadcast address; to say so is the
            // kernel's, which refuses them.
            Self::Address(ip) if ip.is_multicast() || host.routes().is_broadcast(ip.into()) => {
                false
            }
            Self::Address(ip) => {
                host.routes().owner_of_local(SocketAddr::new(ip.into(), 0)) == Owner::Engine
            }
            Self::Index(index) => device::is_engines(host, index),
        }
    }

    fn is_loopback(self) -> bool {
        match self {
            Self::Any => false,
            Self::Address(ip) => ip.is_loopback(),
            Self::Index(index) => index == LOOPBACK,
        }
    }
}

/// Does what an option of a datagram socket says that is about groups on the engine.
/// `None` if it is for the kernel alone.
pub(crate) fn set(
    fd: c_int,
    entry: Entry,
    level: c_int,
    name: c_int,
    value: In<'_, c_void>,
    len: socklen_t,
) -> Option<Result<(), SocketError>> {
    const LONGEST: usize = 256;
    if !matches!(level, libc::IPPROTO_IP | libc::IPPROTO_IPV6) {
        return None;
    }
    // A socket of IPv4 has no options of IPv6: the kernel says so.
    if level == libc::IPPROTO_IPV6 && !is_v6(fd, entry) {
        return None;
    }
    let len = (len as usize).min(LONGEST);
    if !vectors::can_be_read(value, len) {
        return None;
    }
    let bytes = value.cast::<u8>().slice(len);
    let wish = Wish::read(level, name, bytes)?;
    let host = place::attached()?;
    let (group, interface, join) = match wish {
        Wish::Join(group, interface) => (group, interface, true),
        Wish::Leave(group, interface) => (group, interface, false),
        Wish::Send(interface) => {
            return interface.is_engines(host).then(|| {
                keep(fd, (level, name), bytes);
                note_loopback(fd, entry, level, interface.is_loopback())
            });
        }
    };
    let reaches = host.routes().owner_of(SocketAddr::new(group, 0)) == Owner::Engine;
    if !group.is_multicast() || !reaches || !interface.is_engines(host) {
        return None;
    }
    let socket = engines(fd, entry);
    Some(socket.and_then(|socket| socket.datagrams().change_group(group, join)))
}

/// Notes whether what the socket sends to groups goes to the loopback. One that is to do so is the
/// engine's from then on.
fn note_loopback(
    fd: c_int,
    entry: Entry,
    level: c_int,
    by_loopback: bool,
) -> Result<(), SocketError> {
    let bit = match level {
        libc::IPPROTO_IP => more_bits::GROUPS_BY_LOOPBACK,
        _ => more_bits::GROUPS6_BY_LOOPBACK,
    };
    match (by_loopback, entry) {
        (true, _) => engines(fd, entry)?.set_more_bits(bit),
        (false, Entry::Undecided(_)) => {}
        (false, _) => engines(fd, entry)?.clear_more_bits(bit),
    }
    Ok(())
}

/// The interface of the engine's that `bytes` name is kept by the kernel's socket, which
/// says it again when it is asked: an address beside an interface is not looked for, and the
/// loopback interface is there always; an index is kept if the kernel has such an interface.
fn keep(fd: c_int, (level, name): (c_int, c_int), bytes: &[u8]) {
    let set = |value: &[u8]| {
        let len = value.len() as socklen_t;
        real::setsockopt(fd, level, name, In::from(value).cast(), len) == 0
    };
    let address_at = if bytes.len() < 8 { 0 } else { 4 };
    let is_kept = match ipv4(bytes, address_at) {
        Some(ip) if level == libc::IPPROTO_IP && !ip.is_unspecified() => {
            let mut request = [0; 12];
            request[4..8].copy_from_slice(&ip.octets());
            request[8..].copy_from_slice(&LOOPBACK.to_ne_bytes());
            set(&request)
        }
        _ => level == libc::IPPROTO_IPV6 && set(bytes),
    };
    if !is_kept {
        // Nor does it keep another from before.
        set(&[0; 4]);
    }
}

/// The engine's socket behind `fd`, which becomes the engine's if nothing has been said
/// of it yet.
pub(super) fn engines(fd: c_int, entry: Entry) -> Result<Socket, SocketError> {
    match entry {
        Entry::Undecided(undecided) => {
            let socket = decide::to_engine(fd, undecided)?;
            decide::note_engine_socket(undecided, &socket);
            Ok(socket)
        }
        _ => fds::engine(fd).ok_or(refused(libc::EBADF)),
    }
}

pub(super) fn is_v6(fd: c_int, entry: Entry) -> bool {
    match entry {
        Entry::Undecided(undecided) => undecided.v6,
        _ => fds::engine(fd).is_some_and(|socket| socket.is_v6()),
    }
}

/// Only who has said so (SO_BROADCAST) may send to everybody.
pub(crate) fn check_broadcast(fd: c_int, host: &Host, to: SocketAddr) -> Result<(), SocketError> {
    let allowed = !host.routes().is_broadcast(to.ip())
        || rustix::net::sockopt::socket_broadcast(borrow(fd)).unwrap_or(false);
    if allowed {
        Ok(())
    } else {
        Err(refused(libc::EACCES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));

    #[test]
    fn requests_are_read_in_all_their_shapes() {
        use Interface::{Address, Any, Index};
        let ip = libc::IPPROTO_IP;
        let add = |bytes: &[u8]| Wish::read(ip, libc::IP_ADD_MEMBERSHIP, bytes);
        let mut mreqn = vec![239, 1, 2, 3, 0, 0, 0, 0];
        assert_eq!(add(&mreqn), Some(Wish::Join(GROUP, Any)));
        mreqn[4..].copy_from_slice(&[10, 0, 0, 1]);
        let address = Address(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(add(&mreqn), Some(Wish::Join(GROUP, address)));
        mreqn.extend(7u32.to_ne_bytes());
        assert_eq!(add(&mreqn), Some(Wish::Join(GROUP, Index(7))));
        assert_eq!(add(&mreqn[..7]), None);
        let drop = Wish::read(ip, libc::IP_DROP_MEMBERSHIP, &mreqn[..8]);
        assert_eq!(drop, Some(Wish::Leave(GROUP, address)));

        let mut general = vec![0; 136];
        general[..4].copy_from_slice(&3u32.to_ne_bytes());
        general[8..10].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        general[12..16].copy_from_slice(&[239, 1, 2, 3]);
        let join = Wish::read(ip, MCAST_JOIN_GROUP, &general);
        assert_eq!(join, Some(Wish::Join(GROUP, Index(3))));
        let of_other_version = Wish::read(libc::IPPROTO_IPV6, MCAST_JOIN_GROUP, &general);
        assert_eq!(of_other_version, None);
        general[8..10].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        let group: Ipv6Addr = "ff02::fb".parse().unwrap();
        general[16..32].copy_from_slice(&group.octets());
        let leave = Wish::read(libc::IPPROTO_IPV6, MCAST_LEAVE_GROUP, &general);
        assert_eq!(leave, Some(Wish::Leave(group.into(), Index(3))));
        assert_eq!(Wish::read(ip, MCAST_LEAVE_GROUP, &general), None);
        let mut mreq6 = group.octets().to_vec();
        mreq6.extend([0; 4]);
        let join = Wish::read(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &mreq6);
        assert_eq!(join, Some(Wish::Join(group.into(), Any)));
    }

    #[test]
    fn interfaces_for_sending_are_read() {
        use Interface::{Address, Any, Index};
        let (ip, name) = (libc::IPPROTO_IP, libc::IP_MULTICAST_IF);
        let address = Address(Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(
            Wish::read(ip, name, &[10, 0, 0, 1]),
            Some(Wish::Send(address))
        );
        assert_eq!(Wish::read(ip, name, &[0; 4]), Some(Wish::Send(Any)));
        let mreq = [0, 0, 0, 0, 10, 0, 0, 1];
        assert_eq!(Wish::read(ip, name, &mreq), Some(Wish::Send(address)));
        let (ip6, name6) = (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF);
        let five = 5u32.to_ne_bytes();
        assert_eq!(Wish::read(ip6, name6, &five), Some(Wish::Send(Index(5))));
        assert_eq!(Wish::read(ip6, name6, &five[..3]), None);
        assert_eq!(Wish::read(libc::IPPROTO_TCP, name, &[0; 4]), None);
    }
}
