//! The kernel's half of a socket of the engine that is bound for all interfaces: it is bound
//! there, too.
//!
//! Called where a socket is bound, and where one begins to listen that is used again.

use crate::address::Native;
use crate::calls::last_error;
use crate::user::In;
use crate::{decide, epoll, real};
use libc::c_int;
use longshore_sockets::{Socket, host_bits, is_confined};
use std::net::SocketAddr;

/// `IP_LOCAL_PORT_RANGE` of linux/in.h: Linux 6.3 has it.
const LOCAL_PORT_RANGE: c_int = 51;

/// How many other ports are tried where the program has named none, and something of the kernel's has
/// the one that the engine has chosen: on Linux alone it would not be chosen.
pub(super) const OTHER_PORTS: u32 = 16;

/// What became of the kernel's half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Beside {
    /// It has the port, or is to have none, or the kernel refuses it, which was said.
    Settled,
    /// Something else has the port there.
    InUse,
}

impl Beside {
    /// No other port is tried.
    pub(super) fn settle(self, port: u16) {
        if self == Self::InUse {
            decide::port_is_the_engines_alone(port, libc::EADDRINUSE);
        }
    }
}

/// What has been bound to `local` on the engine, and is registered with epoll already, is bound on
/// the kernel beside it, if that is for all interfaces.
pub(super) fn bind_beside(fd: c_int, socket: &Socket, local: SocketAddr) -> Beside {
    if !decide::is_for_all(socket, local) {
        return Beside::Settled;
    }
    let was_there = socket.has_kernel_side();
    let beside = bind_on_kernel(fd, socket, local);
    if !was_there && socket.has_kernel_side() {
        epoll::enter_kernel(socket);
    }
    beside
}

/// Binds the kernel socket beside a socket of the engine.
pub(super) fn bind_on_kernel(fd: c_int, socket: &Socket, local: SocketAddr) -> Beside {
    if is_bound_to(fd, socket, local) {
        socket.set_host_bits(host_bits::KERNEL_TOO);
        return Beside::Settled;
    }
    match last_error().errno() {
        libc::EADDRINUSE => Beside::InUse,
        errno => {
            decide::port_is_the_engines_alone(local.port(), errno);
            Beside::Settled
        }
    }
}

/// Whether the kernel socket has this address, or gets it.
fn is_bound_to(fd: c_int, socket: &Socket, local: SocketAddr) -> bool {
    match decide::bound_by_kernel(fd) {
        Some(has) if has == local => return true,
        // The port of what the socket was before.
        Some(_) => give_port_back(fd, socket),
        None => {}
    }
    let native = Native::new(local, socket.is_v6());
    let is_named = socket.addresses().bound_port().is_some();
    (!is_named && binds_by_its_choice(fd, socket, local))
        || real::bind(fd, native.as_in(), native.len) == 0
}

/// Has the kernel choose this port for its socket, as the only one that there is: one that was
/// named, it would keep for the socket for good, and the program has named none.
fn binds_by_its_choice(fd: c_int, socket: &Socket, local: SocketAddr) -> bool {
    let port = u32::from(local.port());
    if is_confined() || !choose_from(fd, port << 16 | port) {
        return false;
    }
    let native = Native::new(SocketAddr::new(local.ip(), 0), socket.is_v6());
    let is_bound = real::bind(fd, native.as_in(), native.len) == 0;
    choose_from(fd, 0);
    if !is_bound || decide::bound_by_kernel(fd) == Some(local) {
        return is_bound;
    }
    // It is none of those that the kernel chooses from in this network namespace.
    give_port_back(fd, socket);
    false
}

/// The kernel chooses ports for this socket from this range, its ends in the lower and the upper
/// half; from the usual one, with 0.
fn choose_from(fd: c_int, range: u32) -> bool {
    let (value, len) = (In::from(&range).cast(), size_of::<u32>() as libc::socklen_t);
    real::setsockopt(fd, libc::IPPROTO_IP, LOCAL_PORT_RANGE, value, len) == 0
}

/// Takes its port from the kernel socket, if the kernel has chosen it: of a stream, as of a listener
/// that is shut down.
fn give_port_back(fd: c_int, socket: &Socket) {
    if !socket.is_datagram() {
        real::listen(fd, 0);
    }
    decide::disconnect_kernel_side(fd);
}
