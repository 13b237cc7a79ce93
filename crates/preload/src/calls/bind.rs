//! `bind`.

use crate::address::{self, Given};
use crate::calls::beside::{Beside, OTHER_PORTS, bind_beside, bind_on_kernel};
use crate::calls::{anew, answer, guard, refused};
use crate::fds::{self, Entry, Undecided};
use crate::user::In;
use crate::{decide, place, real};
use libc::{c_int, sockaddr, socklen_t};
use longshore_hostif::Owner;
use longshore_sockets::{Socket, SocketError};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::net::SocketAddr;

/// `bind(2)`. An address of the engine or the wildcard is bound there; the
/// wildcard on the kernel as well, where it can be.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn bind(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> c_int {
    let plain = || real::bind(fd, addr, len);
    match fds::get(fd) {
        Entry::Undecided(undecided) => guard(|| {
            let Given::Inet(local) = address::read_to_bind(addr, len, undecided.v6) else {
                return plain();
            };
            let Some(host) = place::attached() else {
                return plain();
            };
            if local.is_ipv6() != undecided.v6 {
                // The kernel says what is wrong with it.
                return plain();
            }
            if !undecided.stream && decide::bound_by_kernel(fd).is_some() {
                // By a send: the kernel says that it is bound, or what is wrong with the address.
                return plain();
            }
            match host.routes().owner_of_local(local) {
                Owner::Kernel => {
                    let result = plain();
                    if result == 0 {
                        decide::leave(fd, local);
                    }
                    result
                }
                Owner::Engine => answer(|| bind_on_engine(fd, undecided, local).map(|_| 0)),
            }
        }),
        Entry::Engine(_) => guard(|| match fds::engine(fd) {
            Some(socket) => match address::read_to_bind(addr, len, socket.is_v6()) {
                Given::Inet(local) if local.is_ipv6() == socket.is_v6() => {
                    answer(|| bind_again(fd, socket, local).map(|_| 0))
                }
                // The kernel says what is wrong with it.
                _ => plain(),
            },
            None => plain(),
        }),
        _ => plain(),
    }
}

/// Binds an undecided socket on the engine, and on the kernel beside it if it
/// is the wildcard.
pub(crate) fn bind_on_engine(
    fd: c_int,
    undecided: Undecided,
    local: SocketAddr,
) -> Result<Socket, SocketError> {
    let mut more_tries = if local.port() == 0 { OTHER_PORTS } else { 0 };
    loop {
        let socket = decide::to_engine(fd, undecided)?;
        let bound = match socket.addresses().bind(local) {
            Ok(bound) => bound,
            Err(e) => {
                decide::undo(undecided, socket.id());
                return Err(e);
            }
        };
        note_version(fd, &socket, local);
        // Without a port, there is nothing beside it yet.
        if bound.port() != 0 && decide::is_for_all(&socket, local) {
            let there = SocketAddr::new(local.ip(), bound.port());
            let beside = bind_on_kernel(fd, &socket, there);
            if beside == Beside::InUse && more_tries > 0 {
                more_tries -= 1;
                decide::undo(undecided, socket.id());
                continue;
            }
            beside.settle(bound.port());
        }
        decide::note_engine_socket(undecided, &socket);
        return Ok(socket);
    }
}

/// Binds a socket that is the engine's already: one that has joined a group, or has a
/// peer. Unless it is bound, that is as with any other.
fn bind_again(fd: c_int, socket: Socket, local: SocketAddr) -> Result<(), SocketError> {
    // Of one of IPv6, Linux looks at the address afterwards.
    if socket.addresses().local().is_some() && !socket.is_v6() && !is_somebodys(&socket, local) {
        return Err(refused(libc::EADDRNOTAVAIL));
    }
    let socket = &anew::to_bind(fd, socket)?;
    let bound = socket.addresses().bind(local)?;
    note_version(fd, socket, local);
    if bound.port() != 0 {
        let there = SocketAddr::new(local.ip(), bound.port());
        bind_beside(fd, socket, there).settle(bound.port());
    }
    Ok(())
}

/// With an address of IPv6 alone, a socket is for IPv6 alone, and says so (IPV6_V6ONLY).
fn note_version(fd: c_int, socket: &Socket, local: SocketAddr) {
    let ip = local.ip();
    if socket.is_v6() && !ip.is_unspecified() && ip.to_canonical().is_ipv6() {
        socket.options().note_v6_only(true);
        // That it says otherwise is all that comes of it if it cannot be set.
        let _ = rustix::net::sockopt::set_ipv6_v6only(crate::calls::borrow(fd), true);
    }
}

/// Whether an address is the engine's or the kernel's, which is looked at before whether
/// the socket is bound.
fn is_somebodys(socket: &Socket, local: SocketAddr) -> bool {
    if socket.host().routes().owner_of_local(local) == Owner::Engine {
        return true;
    }
    let family = match local {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let probe = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let at = SocketAddr::new(local.ip(), 0);
    probe.is_ok_and(|probe| rustix::net::bind(&probe, &at).is_ok())
}
