//! `connect`.

use crate::address::{self, Given};
use crate::calls::shutdown::forget_shut;
use crate::calls::{
    Way, anew, answer, flow_label, groups, must_not_wait, refused, returned, unless_kernels,
    wait_limit,
};
use crate::cancel::point;
use crate::fds::{self, Entry, Undecided};
use crate::signals::{waits, within};
use crate::user::In;
use crate::{decide, epoll, place, real, vectors};
use libc::{c_int, sockaddr, socklen_t};
use longshore_hostif::{Owner, SocketId, SocketState};
use longshore_sockets::{Socket, SocketError, host_bits};
use std::net::SocketAddr;

/// `connect(2)`: on the engine if it has a route there, else on the kernel.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn connect(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) -> c_int {
    connect_as(fd, addr, len, 0)
}

/// As `connect`, as part of a send with `flags` (MSG_FASTOPEN): it does not wait if one of them
/// is MSG_DONTWAIT.
pub(crate) fn connect_as(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t, flags: c_int) -> c_int {
    let plain = || {
        let done = real::connect(fd, addr, len);
        if done < 0 && !fds::is_kernels(fd) {
            within(|| decide::after_failed_call(fd));
        } else if done == 0 && address::read(addr, len) == Given::Unspecified {
            within(|| forget_shut(fd));
        }
        done
    };
    if !matches!(fds::get(fd), Entry::Undecided(_) | Entry::Engine(_)) {
        return plain();
    }
    let done = || {
        unless_kernels(|| {
            let host = place::attached()?;
            let given = address::read(addr, len);
            if is_still_to_connect(fd)
                && let Err(why) = flow_label::check(fd, addr, len)
            {
                return Some(answer(|| Err(why)));
            }
            match (fds::get(fd), given) {
                // The kernel says what is wrong with it.
                (Entry::Undecided(undecided), Given::Inet(peer))
                    if is_of_other_family(undecided, peer) =>
                {
                    None
                }
                (Entry::Undecided(undecided), Given::Inet(peer)) => {
                    match decide::owner_of_first_peer(fd, host, undecided, peer) {
                        Owner::Kernel => {
                            decide::leave(fd, peer);
                            None
                        }
                        Owner::Engine => Some(answer(|| connect_new(fd, undecided, peer, flags))),
                    }
                }
                (Entry::Engine(id), given) => {
                    connect_engines((fd, id, fds::engine(fd)?), (addr, len, given), flags)
                }
                _ => None,
            }
        })
    };
    point(|| done().unwrap_or_else(plain))
}

/// As `connect` of a socket that the engine has; `None` if the kernel says what is wrong.
fn connect_engines(
    (fd, id, socket): (c_int, SocketId, Socket),
    (addr, len, given): (In<'_, sockaddr>, socklen_t, Given),
    flags: c_int,
) -> Option<c_int> {
    match given {
        // Where to is not looked at.
        Given::Inet(_) | Given::Other if is_connected(&socket) && is_address(addr, len) => {
            Some(answer(|| socket.connector().note_reported().map(|()| 0)))
        }
        Given::Inet(peer) if let Some(why) = does_not_fit(&socket, peer) => {
            let why = has_connection(&socket).unwrap_or(why);
            Some(answer(|| refuse_to_connect(&socket, why)))
        }
        Given::Inet(peer) if decide::owner_of_peer(fd, &socket, peer) == Owner::Engine => {
            Some(answer(|| connect_on(fd, socket, peer, flags)))
        }
        Given::Inet(_) | Given::Other
            if is_address(addr, len)
                && !socket.is_datagram()
                && let Some(said) = socket.connector().already() =>
        {
            Some(answer(|| tell(fd, socket, said)))
        }
        Given::Inet(_) => {
            // Bound on both sides, it goes on with the kernel alone.
            let done = waits::connect(fd, addr, len);
            if is_kernels_now(&socket, done.as_ref().err()) {
                decide::to_kernel(id);
            }
            let limit = socket.options().time_limit(true);
            Some(returned(done.map(|_| 0).map_err(|e| match e {
                SocketError::Interrupted if limit.is_none() => SocketError::Restarts,
                e => e,
            })))
        }
        Given::Unspecified => Some(answer(|| disconnect(fd, socket))),
        Given::Other => None,
    }
}

/// Whether a label is looked at: what has begun already says so first.
fn is_still_to_connect(fd: c_int) -> bool {
    fds::engine(fd).is_none_or(|socket| {
        socket.is_datagram() || matches!(socket.state(), SocketState::Open | SocketState::Free)
    })
}

/// Whether it is a stream that has its connection.
fn is_connected(socket: &Socket) -> bool {
    if socket.is_datagram() {
        return false;
    }
    socket.connector().catch_up_unreported();
    socket.state() == SocketState::Connected
}

/// Why a socket cannot be connected to an address of the other family: one of IPv6 takes one of
/// IPv4 for datagrams alone.
fn does_not_fit(socket: &Socket, peer: SocketAddr) -> Option<c_int> {
    use SocketState::{Connecting, Dead};
    match (socket.is_v6(), peer) {
        // What has been begun is reported first.
        _ if !socket.is_datagram() && matches!(socket.state(), Dead | Connecting) => None,
        (false, SocketAddr::V6(_)) => Some(libc::EAFNOSUPPORT),
        (true, SocketAddr::V4(_)) if !socket.is_datagram() => Some(libc::EINVAL),
        (true, SocketAddr::V4(_)) if socket.addresses().reaches_v6_alone() => {
            Some(libc::EAFNOSUPPORT)
        }
        (true, SocketAddr::V6(peer))
            if socket.addresses().reaches_v6_alone() && peer.ip().to_ipv4_mapped().is_some() =>
        {
            Some(libc::ENETUNREACH)
        }
        // Of the wildcard of IPv6, Linux takes it to mean the loopback of IPv4.
        (true, SocketAddr::V6(peer))
            if socket.addresses().is_bound_to_mapped()
                && peer.ip().to_ipv4_mapped().is_none()
                && !peer.ip().is_unspecified() =>
        {
            Some(libc::EAFNOSUPPORT)
        }
        _ => None,
    }
}

/// Whether there may be an address, of whatever family.
fn is_address(addr: In<'_, sockaddr>, len: socklen_t) -> bool {
    let (least, most) = (
        size_of::<libc::sa_family_t>(),
        size_of::<libc::sockaddr_storage>(),
    );
    (least..=most).contains(&(len as usize)) && vectors::check(addr, len as usize).is_ok()
}

/// Whether a new socket cannot be connected to an address: one of IPv6 takes one of IPv4 for
/// datagrams alone.
fn is_of_other_family(undecided: Undecided, peer: SocketAddr) -> bool {
    if undecided.v6 {
        peer.is_ipv4() && undecided.stream
    } else {
        peer.is_ipv6()
    }
}

fn connect_new(
    fd: c_int,
    undecided: Undecided,
    peer: SocketAddr,
    flags: c_int,
) -> Result<c_int, SocketError> {
    let socket = if undecided.stream {
        decide::to_engine(fd, undecided)?
    } else {
        decide::to_engine_with_port(fd, undecided)?
    };
    decide::note_engine_socket(undecided, &socket);
    match does_not_fit(&socket, peer) {
        Some(why) => refuse_to_connect(&socket, why),
        None => connect_on(fd, socket, peer, flags),
    }
}

/// An attempt to connect fails by `why`, and has bound a datagram socket all the same.
fn refuse_to_connect(socket: &Socket, why: c_int) -> Result<c_int, SocketError> {
    if socket.is_datagram() {
        socket.datagrams().bind_to_send()?;
    }
    Err(refused(why))
}

/// A stream that was bound to the wildcard stands on the engine alone once it connects
/// there: what the kernel says of its own half means nothing from then on. That half keeps
/// the port.
fn leave_kernel_side(socket: &Socket) {
    socket.clear_host_bits(host_bits::KERNEL_TOO);
    epoll::leave_kernel(socket);
}

fn connect_on(
    fd: c_int,
    socket: Socket,
    peer: SocketAddr,
    flags: c_int,
) -> Result<c_int, SocketError> {
    let peer = decide::effective_for(&socket, peer);
    let socket = anew::to_connect(fd, socket)?;
    if !socket.is_datagram() && socket.has_kernel_side() && !socket.is_listening() {
        leave_kernel_side(&socket);
    }
    if socket.is_datagram() {
        groups::check_broadcast(fd, socket.host(), peer)?;
    } else if socket.state() == SocketState::Open {
        // What was still to be reported of the last connection, Linux forgets with a new attempt.
        socket.pending_error().take();
    }
    let done = if socket.is_datagram() || must_not_wait(fd, flags) {
        socket.connector().start(peer)
    } else {
        socket
            .connector()
            .connect(peer, wait_limit(&socket, Way::Out))
    };
    if done.is_err()
        && socket.is_replaced()
        && let Some(now) = fds::engine(fd)
    {
        // Another thread has taken the attempt back, which this call reports.
        now.pending_error().take();
    }
    tell(fd, socket, done)
}

/// What a call that connects says of a stream, which may be used again if that was why it failed.
fn tell(fd: c_int, socket: Socket, done: Result<(), SocketError>) -> Result<c_int, SocketError> {
    let reported = socket.host_bits() & host_bits::CONNECT_REPORTED != 0;
    if matches!(done, Err(SocketError::Failed(_)))
        && !reported
        && socket.state() == SocketState::Dead
    {
        // It was made, and reset before it was asked for: as after a refusal, another attempt
        // may be made.
        anew::begin_anew(fd, socket)?;
    }
    done.map(|()| 0)
}

/// Whether a socket is the kernel's from now on, which was to connect it: what it has refused stays
/// what it was.
fn is_kernels_now(socket: &Socket, error: Option<&SocketError>) -> bool {
    match error.map(|e| e.errno()) {
        None => true,
        Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => !socket.is_datagram(),
        Some(_) => false,
    }
}

/// Why a stream cannot be connected to an address of the kernel's: it has a connection of
/// the engine's, or listens.
fn has_connection(socket: &Socket) -> Option<c_int> {
    match socket.state() {
        _ if socket.is_datagram() => None,
        SocketState::Open | SocketState::Free => None,
        SocketState::Connecting => Some(libc::EALREADY),
        SocketState::Dead => match socket.pending_error().take() {
            0 => None,
            errno => Some(errno as c_int),
        },
        _ => Some(libc::EISCONN),
    }
}

/// `connect` to AF_UNSPEC. A TCP connection is reset, and the descriptor stands
/// for a new socket with the same options, on the same port if the program has bound it
/// by number, as Linux has it.
fn disconnect(fd: c_int, socket: Socket) -> Result<c_int, SocketError> {
    if socket.is_datagram() {
        socket.connector().disconnect()?;
    } else if socket.state() != SocketState::Open || socket.is_spent() {
        anew::begin_anew(fd, socket)?;
    } else {
        socket.halves().forget();
        if socket.has_kernel_side() {
            decide::disconnect_kernel_side(fd);
        }
    }
    Ok(0)
}
