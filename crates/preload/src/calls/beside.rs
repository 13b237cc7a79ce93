//! The kernel's half of a socket of the engine that is bound for all interfaces: it is bound
//! there, too.
//!
//! Called where a socket is bound, and where one begins to listen that is used again.

use crate::address::Native;
use crate::calls::last_error;
use crate::{decide, epoll, real};
use libc::c_int;
use longshore_sockets::{Socket, host_bits};
use std::net::SocketAddr;

/// What has been bound to `local` on the engine, and is registered with epoll already, is bound on
/// the kernel beside it, if that is for all interfaces.
pub(super) fn bind_beside(fd: c_int, socket: &Socket, local: SocketAddr) {
    if socket.has_kernel_side() || !decide::is_for_all(socket, local) {
        return;
    }
    bind_on_kernel(fd, socket, local);
    if socket.has_kernel_side() {
        epoll::enter_kernel(socket);
    }
}

/// Binds the kernel socket beside a socket of the engine.
pub(super) fn bind_on_kernel(fd: c_int, socket: &Socket, local: SocketAddr) {
    let native = Native::new(local, socket.is_v6());
    let has_it = decide::bound_by_kernel(fd) == Some(local);
    if has_it || real::bind(fd, native.as_in(), native.len) == 0 {
        socket.set_host_bits(host_bits::KERNEL_TOO);
    } else {
        decide::port_is_the_engines_alone(local.port(), last_error().errno());
    }
}
