//! `getsockname`, `getpeername`.

use crate::address::Native;
use crate::calls::{answer, refused};
use crate::signals::within;
use crate::user::Out;
use crate::{fds, real};
use libc::{c_int, sockaddr, socklen_t};
use longshore_sockets::{Socket, SocketError};
use std::net::SocketAddr;

/// `getsockname(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getsockname(
    fd: c_int,
    addr: Out<'_, sockaddr>,
    len: Out<'_, socklen_t>,
) -> c_int {
    let local = |s: Socket| {
        s.addresses()
            .local()
            .map(|a| Native::of_engine(a, s.is_v6()))
    };
    within(|| match fds::engine(fd).and_then(local) {
        Some(local) => answer(|| local.tell(addr, len).map(|()| 0)),
        None => real::getsockname(fd, addr, len),
    })
}

/// The peer that is reported to a program: one with port 0, to which a datagram socket may be
/// connected, counts as none.
pub(crate) fn peer_of(socket: &Socket) -> Result<SocketAddr, SocketError> {
    let peer = socket.addresses().peer()?;
    match peer.port() {
        0 => Err(refused(libc::ENOTCONN)),
        _ => Ok(peer),
    }
}

/// `getpeername(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getpeername(
    fd: c_int,
    addr: Out<'_, sockaddr>,
    len: Out<'_, socklen_t>,
) -> c_int {
    within(|| match fds::engine(fd) {
        Some(socket) => answer(|| {
            let peer = Native::of_engine(peer_of(&socket)?, socket.is_v6());
            peer.tell(addr, len).map(|()| 0)
        }),
        None => real::getpeername(fd, addr, len),
    })
}
