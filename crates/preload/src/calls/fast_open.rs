//! MSG_FASTOPEN: a `sendto` or `sendmsg` that connects, with the first data on the SYN
//! (RFC 7413).
//!
//! Owns `begin`, which the two calls ask first. It is TCP_FASTOPEN_CONNECT and
//! `connect` in one call, and so it is made of them; what follows is a plain send.

use crate::address::{self, Given};
use crate::calls::connect::connect_as;
use crate::calls::options::{is_too_late, setsockopt};
use crate::calls::{answer, refused};
use crate::fds::{self, Entry};
use crate::user::In;
use libc::{c_int, c_void, sockaddr, socklen_t};

/// What the caller does next.
pub(crate) enum First {
    /// Go on as if nothing was asked.
    Plain,
    /// The connection is made, or as good as: send without address and flag.
    Send,
    /// The call has failed; `errno` is set.
    Failed,
}

/// Connects a stream that is not the kernel's already, if the flags ask for it.
pub(crate) fn begin(fd: c_int, flags: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> First {
    if flags & libc::MSG_FASTOPEN == 0 || addr.is_null() {
        return First::Plain;
    }
    // `connect` says what is wrong with a socket that has a connection.
    let (ours, fresh) = match fds::get(fd) {
        Entry::Undecided(undecided) => (undecided.stream, true),
        Entry::Engine(_) => match fds::engine(fd) {
            // TCP_FASTOPEN_CONNECT and `connect` were before.
            Some(socket) if socket.is_early() => return First::Send,
            Some(socket) => {
                let late = is_too_late(&socket, libc::TCP_FASTOPEN_CONNECT);
                (!socket.is_datagram(), !late)
            }
            None => (false, false),
        },
        _ => (false, false),
    };
    if !ours {
        return First::Plain;
    }
    if matches!(address::read(addr, len), Given::Unspecified) {
        let _ = answer(|| Err::<c_int, _>(refused(libc::EOPNOTSUPP)));
        return First::Failed;
    }
    let on: c_int = 1;
    let value = In::from(&on).cast::<c_void>();
    let size = size_of::<c_int>() as socklen_t;
    let set = |name| setsockopt(fd, libc::IPPROTO_TCP, name, value, size);
    if fresh && set(libc::TCP_FASTOPEN_CONNECT) != 0 {
        return First::Failed;
    }
    if connect_as(fd, addr, len, flags) != 0 {
        return First::Failed;
    }
    First::Send
}
