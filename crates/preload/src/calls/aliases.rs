//! The other names under which libc exports the calls that are ours. Programs and libraries
//! that were built against old headers, and a few parts of glibc itself, call these.

use crate::calls::{connect, recv, sendmsg, socket};
use libc::{c_int, c_uint, c_void, mmsghdr, size_t, sockaddr, socklen_t, ssize_t};

/// As [`connect::connect`].
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __connect(
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { connect::connect(fd, addr, len) }
}

/// As [`socket::socket`].
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { socket::socket(domain, kind, protocol) }
}

/// As [`recv::recv`].
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv(
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { recv::recv(fd, buf, len, flags) }
}

/// As [`sendmsg::sendmmsg`].
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sendmmsg(
    fd: c_int,
    msgs: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { sendmsg::sendmmsg(fd, msgs, count, flags) }
}
