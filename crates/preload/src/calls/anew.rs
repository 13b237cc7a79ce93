//! Sockets that Linux uses again where the engine makes a new one: after an attempt to connect
//! that has failed, and after a listener was shut down.

use crate::{decide, epoll};
use libc::c_int;
use longshore_sockets::{Socket, SocketError, any_address, host_bits};

/// What stands for a descriptor that is to connect.
pub(crate) fn to_connect(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    if socket.is_spent() && socket.has_listened() {
        begin_anew(fd, socket)
    } else {
        Ok(socket)
    }
}

/// What stands for a descriptor that is to be bound.
pub(crate) fn to_bind(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    if socket.is_spent() && socket.bound_port().is_none() {
        begin_anew(fd, socket)
    } else {
        Ok(socket)
    }
}

/// What stands for a descriptor that is to listen, on a port that is new if the program has not
/// chosen one.
pub(crate) fn to_listen(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    if !socket.is_spent() {
        return Ok(socket);
    }
    let new = begin_anew(fd, socket)?;
    if !new.is_bound() {
        new.bind(any_address(new.is_v6()))?;
    }
    Ok(new)
}

/// A new socket in the place of one that was bound and is used no more, bound as its program has
/// bound that.
pub(crate) fn begin_anew(fd: c_int, old: Socket) -> Result<Socket, SocketError> {
    let had_kernel_side = old.has_kernel_side();
    let new = decide::begin_anew(fd, old)?;
    if had_kernel_side {
        if new
            .bound_port()
            .is_some_and(|local| decide::is_for_all(&new, local))
        {
            // The kernel's half has kept the port, too.
            new.set_host_bits(host_bits::KERNEL_TOO);
        } else {
            epoll::leave_kernel(fd);
        }
    }
    Ok(new)
}
