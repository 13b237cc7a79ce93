//! New inet sockets that several processes have: inherited through `fork` or `exec`, or received in
//! a message on a Unix socket. Nobody has bound or connected them, so that they may become the engine's
//! in each of these processes, with what any of them has set on them.
//!
//! Owns nothing: what is found goes into the table of descriptors. Called by `exec` at the
//! start of a program, and by `recvmsg`.

use crate::calls::socket::undecided;
use crate::fds::{self, Entry, Undecided};
use crate::namespace;
use crate::results::borrow;
use longshore_sockets::is_confined;
use rustix::net::sockopt::{socket_domain, socket_protocol, socket_type};
use rustix::net::{AddressFamily, SocketType, ipproto};
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Whether a descriptor is a socket of IPv4 or IPv6; which of them.
pub(crate) fn inet_domain(fd: RawFd) -> Option<AddressFamily> {
    let domain = socket_domain(borrow(fd)).ok()?;
    [AddressFamily::INET, AddressFamily::INET6]
        .contains(&domain)
        .then_some(domain)
}

/// Notes that a descriptor, of which the engine knows nothing, is undecided, if it is a new stream
/// or datagram socket. Other processes may have it, too. Under a filter of system calls
/// it stays the kernel's: what there is to be asked may not be permitted.
pub(crate) fn note(fd: RawFd) {
    if is_confined() || !fds::has_room_for(fd) {
        return;
    }
    let Some(domain) = inet_domain(fd) else {
        return;
    };
    let stream = match (socket_type(borrow(fd)), socket_protocol(borrow(fd))) {
        (Ok(SocketType::STREAM), Ok(Some(ipproto::TCP | ipproto::MPTCP))) => true,
        (Ok(SocketType::DGRAM), Ok(Some(ipproto::UDP))) => false,
        // UDP-Lite, SCTP, or ICMP's echo.
        _ => return,
    };
    if is_new(fd) && !namespace::is_elsewhere(fd) {
        let domain = i32::from(domain.as_raw());
        let new = Undecided {
            shared: true,
            ..undecided(domain, stream)
        };
        fds::put(fd, Entry::Undecided(new));
    }
}

/// Whether nobody has bound or connected a socket.
fn is_new(fd: RawFd) -> bool {
    let port = rustix::net::getsockname(borrow(fd))
        .ok()
        .and_then(|a| SocketAddr::try_from(a).ok())
        .map(|a| a.port());
    port == Some(0) && rustix::net::getpeername(borrow(fd)).is_err()
}
