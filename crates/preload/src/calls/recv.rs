//! `recv`, `recvfrom`, and the receiving that the other calls share.

use crate::address::Native;
use crate::calls::error_queue::{self, Found};
use crate::calls::gone::without_engine;
use crate::calls::low_water::{self, Wanted};
use crate::calls::{
    Asked, Way, answer, last_error, must_not_wait, refused, wait_for_either,
    wait_unless_nonblocking,
};
use crate::cancel::{held, point};
use crate::owner::Interruption;
use crate::user::{In, Out};
use crate::{fds, page_exchange, real, vectors};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};
use longshore_sockets::{Received, Socket, SocketError};
use std::cell::Cell;
use std::io::IoSliceMut;

/// `recv(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn recv(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    if fds::is_engines(fd) {
        point(|| recv_buffer(fd, buf, len, flags, Out::null(), Out::null()))
    } else {
        real::recv(fd, buf, len, flags)
    }
}

/// `recvfrom(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn recvfrom(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: size_t,
    flags: c_int,
    addr: Out<'_, sockaddr>,
    addr_len: Out<'_, socklen_t>,
) -> ssize_t {
    if fds::is_engines(fd) {
        point(|| recv_buffer(fd, buf, len, flags, addr, addr_len))
    } else {
        real::recvfrom(fd, buf, len, flags, addr, addr_len)
    }
}

fn recv_buffer(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: usize,
    flags: c_int,
    addr: Out<'_, sockaddr>,
    addr_len: Out<'_, socklen_t>,
) -> ssize_t {
    answer(|| {
        let socket = &fds::engine_or_closed(fd)?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            let mut parts = [vectors::sink(buf, len)?];
            let kernel = || held(|| real::recvfrom(fd, buf, len, flags, addr, addr_len));
            return match error_queue::next(socket, &mut parts, kernel)? {
                Found::Kernel(len) => Ok(len as ssize_t),
                Found::Notice(_) => {
                    if !addr.is_null() && !addr_len.is_null() {
                        addr_len.put(0);
                    }
                    Ok(0)
                }
                Found::Engine(report, quoted) => {
                    let to = error_queue::destination(&report, socket);
                    to.copy_out(addr, addr_len)?;
                    Ok(quoted.min(len) as ssize_t)
                }
            };
        }
        if socket.is_datagram() {
            return recv_datagram_buffer(fd, socket, buf, len, flags, addr, addr_len);
        }
        let got = if discards(flags) && len != 0 && flags & libc::MSG_OOB == 0 {
            // The buffer is not looked at.
            discard_stream(fd, socket, len, flags)?
        } else {
            let mut parts = [vectors::sink(buf, len)?];
            recv_stream(fd, socket, &mut parts, flags)?
        };
        if !addr.is_null() && !addr_len.is_null() {
            // Linux says nothing about the peer of a stream, and looks at the length when it
            // has received.
            vectors::check_room(addr_len, size_of::<socklen_t>())?;
            if addr_len.get().is_some_and(|len| len.cast_signed() < 0) {
                return Err(refused(libc::EINVAL));
            }
            addr_len.put(0);
        }
        Ok(got as ssize_t)
    })
}

/// As `recv_buffer`, of a datagram socket.
fn recv_datagram_buffer(
    fd: c_int,
    socket: &Socket,
    buf: Out<'_, c_void>,
    len: usize,
    flags: c_int,
    addr: Out<'_, sockaddr>,
    addr_len: Out<'_, socklen_t>,
) -> Result<ssize_t, SocketError> {
    let got = next_datagram(fd, socket, flags, |attempt| {
        let mut parts = [vectors::sink(buf, len)?];
        match recv_datagram(fd, socket, &mut parts, flags, attempt) {
            Err(e) => kernels_datagram(fd, socket, flags, attempt.asked, e, |flags| {
                real::recvfrom(fd, buf, len, flags, addr, addr_len)
            }),
            Ok(got) => Ok(Got::Engine(got)),
        }
    })?;
    let got = match got {
        Got::Kernel(len) => return Ok(len as ssize_t),
        Got::Engine(got) => got,
    };
    match got.from {
        Some(from) => Native::of_engine(from, socket.is_v6()).copy_out(addr, addr_len)?,
        None if !addr.is_null() => addr_len.put(0),
        None => {}
    }
    Ok(length_to_say(&got, flags) as ssize_t)
}

thread_local! {
    /// Datagrams in a row that this thread has had of the engine, without asking the kernel.
    static OF_ENGINE: Cell<u32> = const { Cell::new(0) };
}

/// Of so many calls that wait for a datagram, one at the least asks the kernel before it
/// looks for what the engine may have next.
const KERNEL_FIRST: u32 = 16;

/// One of the attempts of a call to receive a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) asked: Asked,
    /// The call waits by now, whatever becomes of O_NONBLOCK meanwhile.
    waits: bool,
}

/// Receives the next datagram of either by `attempt`. Where the engine's come one by one, as
/// in an exchange of questions and answers, most calls find none at first and one soon after,
/// and do not ask the kernel in between.
pub(crate) fn next_datagram(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    mut attempt: impl FnMut(Attempt) -> Result<Got, SocketError>,
) -> Result<Got, SocketError> {
    let in_a_row = OF_ENGINE.try_with(Cell::get).unwrap_or(0);
    let first = if in_a_row.is_multiple_of(KERNEL_FIRST) {
        Asked::Both
    } else {
        Asked::Engine
    };
    let got = wait_for_either(fd, socket, flags, Way::In, first, |asked, waits| {
        attempt(Attempt { asked, waits })
    })?;
    let in_a_row = match got {
        Got::Engine(_) => in_a_row.wrapping_add(1),
        Got::Kernel(_) => 0,
    };
    let _ = OF_ENGINE.try_with(|c| c.set(in_a_row));
    Ok(got)
}

/// The engine has none, but `error`: takes one with `recv` from the kernel socket beside, if
/// there is such a socket and it is to be `asked`.
pub(crate) fn kernels_datagram(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    asked: Asked,
    error: SocketError,
    recv: impl FnOnce(c_int) -> ssize_t,
) -> Result<Got, SocketError> {
    let is_gone = socket.host().is_gone();
    let is_asked = is_gone || (asked == Asked::Both && error == SocketError::WouldBlock);
    if is_asked && socket.has_kernel_side() {
        match usize::try_from(held(|| recv(flags | libc::MSG_DONTWAIT))) {
            Ok(len) => return Ok(Got::Kernel(len)),
            Err(_) if is_gone => {}
            Err(_) => return Err(last_error()),
        }
    }
    Err(if is_gone {
        without_engine(fd, flags)
    } else {
        error
    })
}

/// Where a datagram came from.
pub(crate) enum Got {
    /// The kernel socket beside: its bytes are where they belong.
    Kernel(usize),
    /// The engine.
    Engine(Received),
}

/// What a receiving call returns for a datagram: all of its length with
/// MSG_TRUNC.
pub(crate) fn length_to_say(got: &Received, flags: c_int) -> usize {
    if flags & libc::MSG_TRUNC != 0 {
        got.len
    } else {
        got.copied
    }
}

/// Receives a datagram of the engine, without waiting.
pub(crate) fn recv_datagram(
    fd: c_int,
    socket: &Socket,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
    attempt: Attempt,
) -> Result<Received, SocketError> {
    let keep = flags & libc::MSG_PEEK != 0;
    let got = socket.datagrams().recv(parts, keep)?;
    if got.is_end() && !attempt.waits && must_not_wait(fd, flags) {
        // Linux says that nothing will come only to a call that waits for it.
        return Err(SocketError::WouldBlock);
    }
    let said = length_to_say(&got, flags);
    if keep {
        socket.peek_offset().note_peeked(said);
    } else {
        socket.peek_offset().note_consumed(said);
    }
    Ok(got)
}

/// Whether what is received from a stream is thrown away (MSG_TRUNC).
fn discards(flags: c_int) -> bool {
    flags & libc::MSG_TRUNC != 0 && flags & libc::MSG_PEEK == 0
}

/// Receives from a stream, with Linux's meaning of `flags`.
pub(crate) fn recv_stream(
    fd: c_int,
    socket: &Socket,
    mut parts: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Result<usize, SocketError> {
    if flags & libc::MSG_OOB != 0 {
        return recv_urgent(socket, parts, flags);
    }
    let keep = flags & libc::MSG_PEEK != 0;
    let total: usize = parts.iter().map(|p| p.len()).sum();
    if total == 0 {
        // There has to be something all the same, and be it an urgent byte alone.
        let waited = wait_to_read(fd, socket, flags, || match socket.receive_stream().peek() {
            Err(SocketError::WouldBlock) if socket.urgent_data().holds_reader() => Ok(0),
            peeked => peeked.map(|_| 0),
        });
        // Once Linux has waited, it does not look why that is over.
        return match waited {
            Err(SocketError::TimedOut | SocketError::Interrupted | SocketError::Restarts) => Ok(0),
            waited => waited,
        };
    }
    if discards(flags) {
        return discard_stream(fd, socket, total, flags);
    }
    if flags & libc::MSG_TRUNC != 0 {
        // To peek and throw away is to ask how much there is.
        return wait_to_read(fd, socket, flags, || {
            socket
                .receive_stream()
                .peek()
                .map(|peeked| peeked.len().min(total))
        });
    }
    let Some(wanted) = Wanted::of(socket, flags, total) else {
        return wait_to_read(fd, socket, flags, || {
            page_exchange::receive(socket, parts, keep)
        });
    };
    low_water::receive(fd, socket, flags, wanted, |got| {
        let n = page_exchange::receive(socket, parts, keep)?;
        if got + n < total {
            IoSliceMut::advance_slices(&mut parts, n);
        }
        Ok(n)
    })
}

/// Tries to read from a stream, and waits and tries again if the descriptor blocks.
fn wait_to_read<T>(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    mut attempt: impl FnMut() -> Result<T, SocketError>,
) -> Result<T, SocketError> {
    let raised = |signal| socket.urgent_data().raised(signal);
    let mut interruption = None::<Interruption>;
    wait_unless_nonblocking(fd, socket, flags, Way::In, || {
        let result = attempt();
        if !matches!(result, Err(SocketError::WouldBlock)) {
            return result;
        }
        let Some(begun) = &mut interruption else {
            interruption = Some(Interruption::begin(raised));
            return result;
        };
        if begun.has_come(raised, In::null(), true) {
            return Err(SocketError::Interrupted);
        }
        result
    })
}

/// Receives the urgent byte (MSG_OOB), without waiting. It counts as read, too, if there
/// is no room for it.
fn recv_urgent(
    socket: &Socket,
    parts: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Result<usize, SocketError> {
    let Some(byte) = socket.urgent_data().recv(flags & libc::MSG_PEEK != 0)? else {
        return Ok(0);
    };
    let room = parts.iter_mut().find_map(|part| part.first_mut());
    let has_room = room.is_some();
    if let Some(to) = room.filter(|_| flags & libc::MSG_TRUNC == 0) {
        *to = byte;
    }
    Ok(usize::from(has_room))
}

/// What `recvmsg` says of a stream's bytes, of which `got` came: that they are urgent,
/// and whether there was room.
pub(crate) fn stream_flags(got: usize, flags: c_int) -> c_int {
    match got {
        _ if flags & libc::MSG_OOB == 0 => 0,
        0 => libc::MSG_OOB | libc::MSG_TRUNC,
        _ => libc::MSG_OOB,
    }
}

/// Takes up to `total` bytes off a stream without looking at them.
fn discard_stream(
    fd: c_int,
    socket: &Socket,
    total: usize,
    flags: c_int,
) -> Result<usize, SocketError> {
    match Wanted::of(socket, flags, total) {
        Some(wanted) => low_water::receive(fd, socket, flags, wanted, |got| {
            socket.receive_stream().discard(total - got)
        }),
        None if total == 0 => Ok(0),
        None => wait_unless_nonblocking(fd, socket, flags, Way::In, || {
            socket.receive_stream().discard(total)
        }),
    }
}
