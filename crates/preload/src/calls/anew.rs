//! Sockets that Linux uses again where the engine makes a new one: after an attempt to connect
//! that has failed, and after a listener was shut down.

use crate::calls::beside::{Beside, OTHER_PORTS, bind_beside};
use crate::{decide, epoll};
use libc::c_int;
use longshore_hostif::SocketState;
use longshore_sockets::{Socket, SocketError, host_bits};

/// What stands for a descriptor that is to connect.
pub(crate) fn to_connect(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    // What the engine says of the attempt before this one may still be on its way to another process,
    // and would be taken for the end of this one.
    let socket = if socket.is_spent() && (socket.has_listened() || socket.is_shared()) {
        keeping_shut(fd, socket)?
    } else {
        socket
    };
    if !socket.is_spent() && is_new(&socket) {
        socket.addresses().keep_address()?;
    }
    Ok(socket)
}

/// What stands for a descriptor that is to be bound.
pub(crate) fn to_bind(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    if socket.addresses().bound_port().is_some() {
        Ok(socket)
    } else if socket.is_spent() {
        keeping_shut(fd, socket)
    } else if is_over(&socket) {
        let old = socket.clone();
        let new = begin_anew(fd, socket)?;
        new.connector().is_over_like(&old);
        Ok(new)
    } else {
        Ok(socket)
    }
}

/// Whether it is a stream that had a connection, or tried to have one, and is to be disconnected
/// before it has another. One with data unread keeps its port for them.
fn is_over(socket: &Socket) -> bool {
    if socket.is_datagram() {
        return false;
    }
    socket.connector().catch_up_unreported();
    let is_over = socket.state() == SocketState::Dead || socket.halves().are_over();
    is_over && socket.receive_stream().readable_bytes() == 0
}

/// What stands for a descriptor that is to listen, on a port that is new if the program has not
/// chosen one.
pub(crate) fn to_listen(fd: c_int, socket: Socket) -> Result<Socket, SocketError> {
    let mut socket = if socket.is_spent() {
        begin_anew(fd, socket)?
    } else {
        socket
    };
    let is_chosen = is_new(&socket) && !socket.addresses().is_bound();
    let mut more_tries = if is_chosen { OTHER_PORTS } else { 0 };
    loop {
        bind_unbound(&socket)?;
        let Some(local) = socket.addresses().local().filter(|_| is_new(&socket)) else {
            return Ok(socket);
        };
        let beside = bind_beside(fd, &socket, local);
        if beside != Beside::InUse || more_tries == 0 {
            beside.settle(local.port());
            return Ok(socket);
        }
        more_tries -= 1;
        socket = begin_anew(fd, socket)?;
    }
}

/// Binds a stream that is new and not bound to a port of the engine's choice, at the address that
/// the program has chosen for it before.
fn bind_unbound(socket: &Socket) -> Result<(), SocketError> {
    if is_new(socket) && !socket.addresses().is_bound() {
        socket.addresses().bind_to_any_port()?;
    }
    Ok(())
}

fn is_new(socket: &Socket) -> bool {
    socket.state() == SocketState::Open && !socket.is_datagram()
}

/// A new socket in the place of the old one, of which the same halves are shut down.
fn keeping_shut(fd: c_int, old: Socket) -> Result<Socket, SocketError> {
    let (read, write) = old.halves().shut();
    let new = begin_anew(fd, old)?;
    new.halves().note(read, write);
    Ok(new)
}

/// A new socket in the place of one that was bound and is used no more, bound as its program has
/// bound that.
pub(crate) fn begin_anew(fd: c_int, old: Socket) -> Result<Socket, SocketError> {
    let had_kernel_side = old.has_kernel_side();
    let new = decide::begin_anew(fd, old)?;
    if had_kernel_side {
        if new
            .addresses()
            .bound_port()
            .is_some_and(|local| decide::is_for_all(&new, local))
        {
            // The kernel's half has kept the port, too.
            new.set_host_bits(host_bits::KERNEL_TOO);
        } else {
            epoll::leave_kernel(&new);
        }
    }
    Ok(new)
}
