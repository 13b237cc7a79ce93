//! `send`, `sendto`, and the sending that the other calls share.

use crate::address::{self, Given};
use crate::calls::fast_open::{self, First};
use crate::calls::send_datagram::{check_datagram, send_datagram};
use crate::calls::{Way, flow_label, must_not_wait, refused, returned, unless_kernels, wait_limit};
use crate::cancel::point;
use crate::fds::{self, Entry};
use crate::signals::{self, within};
use crate::user::In;
use crate::{decide, page_exchange, place, real, vectors};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};
use longshore_hostif::Owner;
use longshore_sockets::{Departure, Sending, Socket, SocketError, host_bits};
use std::cell::Cell;
use std::io::IoSlice;
use std::net::SocketAddr;

/// `send(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn send(
    fd: c_int,
    buf: In<'_, c_void>,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if fds::is_engines(fd) {
        point(|| {
            within(|| match fds::engine_or_closed(fd) {
                Ok(socket) => send_buffer(fd, &socket, buf, len, flags, None),
                Err(e) => returned(Err(e)),
            })
        })
    } else {
        kernels_send(fd, || real::send(fd, buf, len, flags))
    }
}

/// A send that is the kernel's to do, or to refuse.
pub(crate) fn kernels_send(fd: c_int, send: impl FnOnce() -> ssize_t) -> ssize_t {
    let sent = send();
    if sent < 0 && !fds::is_kernels(fd) {
        within(|| decide::after_failed_call(fd));
    }
    sent
}

/// `sendto(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sendto(
    fd: c_int,
    buf: In<'_, c_void>,
    len: size_t,
    flags: c_int,
    addr: In<'_, sockaddr>,
    addr_len: socklen_t,
) -> ssize_t {
    let plain = || kernels_send(fd, || real::sendto(fd, buf, len, flags, addr, addr_len));
    if fds::is_kernels(fd) {
        return plain();
    }
    match fast_open::begin(fd, flags, addr, addr_len) {
        First::Plain => {}
        First::Send => return send(fd, buf, len, flags & !libc::MSG_FASTOPEN),
        First::Failed => return -1,
    }
    point(|| {
        let sent = unless_kernels(|| {
            let to = destination(fd, addr, addr_len);
            match to.and_then(|to| sender(fd, to)) {
                Ok(Sender::Kernel) => None,
                Ok(Sender::Engine(socket, to)) => {
                    Some(send_buffer(fd, &socket, buf, len, flags, to))
                }
                Err(e) => Some(returned(Err(e))),
            }
        });
        sent.unwrap_or_else(plain)
    })
}

/// Called in a section.
pub(crate) fn send_buffer(
    fd: c_int,
    socket: &Socket,
    buf: In<'_, c_void>,
    len: usize,
    flags: c_int,
    to: Option<SocketAddr>,
) -> ssize_t {
    match vectors::source(buf, len) {
        Ok(part) => send_parts(fd, socket, &mut [part], flags, to, nothing_beside),
        Err(e) => returned(Err(without_bytes(
            fd,
            socket,
            (len, flags),
            to,
            nothing_beside,
        )
        .unwrap_or(e))),
    }
}

/// Of a datagram beside which nothing is said.
pub(crate) fn nothing_beside() -> Result<Departure, SocketError> {
    Ok(Departure::default())
}

/// What is wrong with a send of so many bytes, with these flags, before the bytes are looked at,
/// which are nowhere.
pub(crate) fn without_bytes(
    fd: c_int,
    socket: &Socket,
    (len, flags): (usize, c_int),
    to: Option<SocketAddr>,
    asked: impl FnOnce() -> Result<Departure, SocketError>,
) -> Option<SocketError> {
    if socket.is_datagram() {
        return check_datagram(fd, socket, (len, flags), to, asked).err();
    }
    socket.send_stream().send(&[], false).err()
}

/// Where a call says that something goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum To {
    /// The address that the socket is connected to.
    Peer,
    Address(SocketAddr),
    /// To an address of no family. One of IPv6 sends to its peer then, and for one of IPv4
    /// Linux takes it as its own.
    NoFamily(Given),
    /// To what is no address of the internet. A stream does not look at it, and of a
    /// datagram the kernel knows what to say to it.
    Unclear,
}

/// Where a C address says that something of `fd` goes.
///
/// # Errors
/// EINVAL if it is longer than any address, or has a flow label; EFAULT.
pub(crate) fn destination(
    fd: c_int,
    addr: In<'_, sockaddr>,
    len: socklen_t,
) -> Result<To, SocketError> {
    if addr.is_null() {
        return Ok(To::Peer);
    }
    if len as usize > size_of::<libc::sockaddr_storage>() {
        return Err(refused(libc::EINVAL));
    }
    if len != 0 {
        vectors::check(addr, len as usize)?;
    }
    flow_label::check(fd, addr, len)?;
    Ok(match address::read(addr, len) {
        Given::Inet(to) => To::Address(to),
        Given::Unspecified => To::NoFamily(address::read_to_bind(addr, len, false)),
        Given::Other => To::Unclear,
    })
}

/// The socket that sends, and where a datagram goes, if not to the peer.
pub(crate) enum Sender {
    Kernel,
    Engine(Socket, Option<SocketAddr>),
}

/// What sends from `fd` to `to`: the kernel or the engine. Decides about a new datagram socket if
/// it has to.
pub(crate) fn sender(fd: c_int, to: To) -> Result<Sender, SocketError> {
    let Some(host) = place::attached() else {
        return Ok(Sender::Kernel);
    };
    match fds::get(fd) {
        Entry::Engine(_) => {
            let Some(socket) = fds::engine(fd) else {
                return Ok(Sender::Kernel);
            };
            let to = match to {
                _ if !socket.is_datagram() => None,
                To::Peer => None,
                To::NoFamily(_) if socket.is_v6() => None,
                To::NoFamily(Given::Inet(to)) => Some(to),
                To::NoFamily(_) => return Ok(Sender::Kernel),
                To::Address(to) => Some(to),
                To::Unclear => return Ok(Sender::Kernel),
            };
            let by_kernel =
                to.is_some_and(|to| decide::owner_of_datagram(fd, &socket, to) == Owner::Kernel);
            if by_kernel {
                // What comes back comes to the kernel socket.
                socket.set_host_bits(host_bits::KERNEL_TOO);
                return Ok(Sender::Kernel);
            }
            Ok(Sender::Engine(socket, to))
        }
        Entry::Undecided(undecided) if !undecided.stream => match to {
            To::Address(to)
                if decide::owner_of_first_datagram(fd, host, undecided, to) == Owner::Engine =>
            {
                let socket = decide::to_engine_with_port(fd, undecided)?;
                decide::note_engine_socket(undecided, &socket);
                Ok(Sender::Engine(socket, Some(to)))
            }
            // It may still go elsewhere later.
            _ => Ok(Sender::Kernel),
        },
        _ => Ok(Sender::Kernel),
    }
}

/// Sends what `parts` hold, with Linux's meaning of `flags`. `asked` is
/// what goes beside a datagram, which is read once it is clear that the datagram may go. Called in a
/// section.
pub(crate) fn send_parts(
    fd: c_int,
    socket: &Socket,
    parts: &mut [IoSlice<'_>],
    flags: c_int,
    to: Option<SocketAddr>,
    asked: impl FnOnce() -> Result<Departure, SocketError>,
) -> ssize_t {
    let copied = Cell::new(socket.is_datagram());
    let sent = guard_result(|| {
        if socket.is_datagram() {
            send_datagram(fd, socket, parts, flags, to, asked)
        } else {
            send_stream(fd, socket, parts, flags, &copied)
        }
    });
    if flags & libc::MSG_ZEROCOPY != 0 && matches!(sent, Ok(1..)) {
        socket.add_notice(copied.get());
    }
    // Also where EPIPE is what the peer's reset has left.
    let is_broken = sent.is_err_and(|e| e.errno() == libc::EPIPE);
    if is_broken && !socket.is_datagram() && flags & libc::MSG_NOSIGNAL == 0 {
        signals::broken_pipe();
    }
    returned(sent.map(|n| n as ssize_t))
}

fn guard_result(work: impl FnOnce() -> Result<usize, SocketError>) -> Result<usize, SocketError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(Err(SocketError::Broken))
}

/// What flags of a call say of the bytes that it sends.
fn sending(flags: c_int) -> Sending {
    let mut sending = Sending::empty();
    sending.set(Sending::MORE, flags & libc::MSG_MORE != 0);
    sending.set(Sending::URGENT, flags & libc::MSG_OOB != 0);
    sending.set(Sending::RECORD_END, flags & libc::MSG_EOR != 0);
    sending
}

/// Sends all, if the descriptor blocks; what there is room for, if not. Notes whether bytes were
/// `copied`.
fn send_stream(
    fd: c_int,
    socket: &Socket,
    mut parts: &mut [IoSlice<'_>],
    flags: c_int,
    copied: &Cell<bool>,
) -> Result<usize, SocketError> {
    let mut sending = sending(flags);
    if !socket.send_stream().stamped_when().is_empty() {
        // Of what waits for room, all is stamped with the last piece.
        sending |= match must_not_wait(fd, flags) {
            true => Sending::STAMPED_IN_PART,
            false => Sending::STAMPED,
        };
    }
    let send = |parts: &[IoSlice<'_>]| page_exchange::send(socket, parts, sending, copied);
    let total: usize = parts.iter().map(|p| p.len()).sum();
    if socket.is_early() && !must_not_wait(fd, flags) {
        socket.connector().write_past_syn();
    }
    let mut sent = match send(parts) {
        Ok(sent) => sent,
        // A program that writes before the connection is made expects it to be made by now, or
        // refused.
        Err(SocketError::WouldBlock) if socket.is_connecting() => {
            match socket.look_awhile(|| send(parts))? {
                Some(sent) => sent,
                // Linux waits for the connection before it looks how much there is to be sent.
                None if total == 0 && must_not_wait(fd, flags) => {
                    return Err(SocketError::WouldBlock);
                }
                None if total == 0 => {
                    let connected = socket.connector().wait(wait_limit(socket, Way::Out));
                    return connected.map(|()| 0);
                }
                None => 0,
            }
        }
        Err(SocketError::WouldBlock) => 0,
        Err(SocketError::InProgress) if !must_not_wait(fd, flags) => {
            return socket
                .connector()
                .wait(wait_limit(socket, Way::Out))
                .map(|()| 0);
        }
        Err(e) => return Err(e),
    };
    if socket.is_connecting() && sent != 0 && !must_not_wait(fd, flags) {
        // They went with the SYN (RFC 7413): whether there is a connection is reported now.
        match socket.connector().wait(wait_limit(socket, Way::Out)) {
            Err(SocketError::TimedOut) => return Ok(sent),
            waited => waited?,
        }
    }
    if sent == total {
        return Ok(sent);
    }
    if must_not_wait(fd, flags) {
        return match sent {
            0 => Err(SocketError::WouldBlock),
            sent => Ok(sent),
        };
    }
    IoSlice::advance_slices(&mut parts, sent);
    let wait_limit = wait_limit(socket, Way::Out);
    while sent < total {
        match socket.wait(None, wait_limit, || send(parts)) {
            Ok(n) => {
                sent += n;
                IoSlice::advance_slices(&mut parts, n);
            }
            Err(e) if sent != 0 => {
                socket.pending_error().leave(e);
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(sent)
}
