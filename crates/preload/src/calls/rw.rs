//! `read`, `readv`, `write`, `writev`, and the names under which fortified
//! programs call the receiving calls.

use crate::calls::recv::{recv, recv_stream, recvfrom};
use crate::calls::recvmsg::recv_message;
use crate::calls::send::{kernels_send, nothing_beside, send, send_parts};
use crate::calls::{answer, refused, returned};
use crate::cancel::point;
use crate::signals::within;
use crate::user::{Buffer, In, Message, Out};
use crate::{fds, pipes, real, vectors};
use libc::{c_int, c_void, size_t, sockaddr, socklen_t, ssize_t};

/// `read(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn read(fd: c_int, buf: Out<'_, c_void>, len: size_t) -> ssize_t {
    if fds::is_engines(fd) {
        match len {
            // To read nothing never waits, unlike to receive nothing.
            0 => 0,
            _ => recv(fd, buf, len, 0),
        }
    } else {
        real::read(fd, buf, len)
    }
}

/// `write(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn write(fd: c_int, buf: In<'_, c_void>, len: size_t) -> ssize_t {
    if fds::is_engines(fd) {
        send(fd, buf, len, 0)
    } else {
        pipes::leave(fd);
        kernels_send(fd, || real::write(fd, buf, len))
    }
}

/// `readv(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn readv(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t {
    if fds::is_engines(fd) {
        point(|| read_vector(fd, iov, count))
    } else {
        real::readv(fd, iov, count)
    }
}

fn read_vector(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t {
    answer(|| {
        let socket = &fds::engine_or_closed(fd)?;
        let length = usize::try_from(count).map_err(|_| refused(libc::EINVAL))?;
        let mut parts = vectors::sinks(iov, length, libc::EINVAL)?;
        if parts.iter().all(|part| part.is_empty()) {
            // To read nothing never waits, unlike to receive nothing.
            return Ok(0);
        }
        if socket.is_datagram() {
            let mut msg = Message::of(iov, length);
            return recv_message(fd, socket, Out::from(&mut msg), 0);
        }
        recv_stream(fd, socket, &mut parts, 0).map(|n| n as ssize_t)
    })
}

/// `writev(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn writev(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t {
    if fds::is_engines(fd) {
        point(|| within(|| write_vector(fd, iov, count)))
    } else {
        pipes::leave(fd);
        kernels_send(fd, || real::writev(fd, iov, count))
    }
}

fn write_vector(fd: c_int, iov: In<'_, Buffer<'_>>, count: c_int) -> ssize_t {
    let parts = fds::engine_or_closed(fd).and_then(|socket| {
        let count = usize::try_from(count).map_err(|_| refused(libc::EINVAL))?;
        Ok((socket, vectors::sources(iov, count, libc::EINVAL)?))
    });
    match parts {
        // To write nothing by a vector sends no datagram, and needs no connection.
        Ok((_, parts)) if parts.iter().all(|part| part.is_empty()) => 0,
        Ok((socket, mut parts)) => send_parts(fd, &socket, &mut parts, 0, None, nothing_beside),
        Err(e) => returned(Err(e)),
    }
}

unsafe extern "C" {
    safe fn __chk_fail() -> !;
}

/// Ends the program if a call would write past a buffer of known size.
fn check(len: size_t, room: size_t) {
    if len > room {
        __chk_fail()
    }
}

/// `read` with the size of the buffer.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __read_chk(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: size_t,
    room: size_t,
) -> ssize_t {
    check(len, room);
    read(fd, buf, len)
}

/// `recv` with the size of the buffer.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __recv_chk(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(len, room);
    recv(fd, buf, len, flags)
}

/// `recvfrom` with the size of the buffer.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    buf: Out<'_, c_void>,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: Out<'_, sockaddr>,
    addr_len: Out<'_, socklen_t>,
) -> ssize_t {
    check(len, room);
    recvfrom(fd, buf, len, flags, addr, addr_len)
}

/// `__read`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __read(fd: c_int, buf: Out<'_, c_void>, len: size_t) -> ssize_t {
    read(fd, buf, len)
}

/// `__write`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __write(fd: c_int, buf: In<'_, c_void>, len: size_t) -> ssize_t {
    write(fd, buf, len)
}

/// `__send`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __send(
    fd: c_int,
    buf: In<'_, c_void>,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    crate::calls::send::send(fd, buf, len, flags)
}
