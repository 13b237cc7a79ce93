//! io_uring is refused, as by a kernel that has none: what goes through a ring is the kernel's to
//! do, on the kernel's sockets that stand behind the engine's. libuv, which changes what epoll waits
//! for by a ring where it gets one, would wait for those for ever. Programs that can do without
//! make plain calls.
//!
//! Here are the functions by which liburing sets a ring up, in place of its own: it enters the kernel
//! by itself, which `syscall` does not see. `dynamic` gives them to programs that look for those
//! in the library.

use crate::log::once;
use crate::real;
use crate::state::{self, Mode};
use crate::user::{Out, Text};
use libc::{c_int, c_uint, c_void, size_t};

/// What this file has of liburing.
const NAMES: [&[u8]; 4] = [
    b"io_uring_queue_init",
    b"io_uring_queue_init_params",
    b"io_uring_queue_init_mem",
    b"io_uring_setup",
];

/// Whether this is the name of a function here.
pub(crate) fn has(name: Text<'_>) -> bool {
    name.get()
        .is_some_and(|name| NAMES.contains(&name.to_bytes()))
}

/// Whether this program gets no ring, which is reported to it the first time.
pub(crate) fn is_refused() -> bool {
    let is_refused = matches!(state::mode(), Mode::On(_));
    if is_refused {
        once!(
            Warn,
            Ring,
            "io_uring is refused, as it cannot reach Longshore's sockets: programs that can do \
             without it make plain calls"
        );
    }
    is_refused
}

/// liburing's own, for programs that are not on Longshore. Where it is not among the libraries
/// that the program was linked with these fail.
mod liburing {
    use super::{Out, c_int, c_uint, c_void, real, size_t};

    real::real! {
        io_uring_queue_init(entries: c_uint, ring: Out<'_, c_void>, flags: c_uint) -> c_int;
        io_uring_queue_init_params(entries: c_uint, ring: Out<'_, c_void>, p: Out<'_, c_void>) -> c_int;
        io_uring_queue_init_mem(entries: c_uint, ring: Out<'_, c_void>, p: Out<'_, c_void>, buf: Out<'_, c_void>, size: size_t) -> c_int;
        io_uring_setup(entries: c_uint, p: Out<'_, c_void>) -> c_int;
    }
}

/// What liburing's functions return then.
const NONE: c_int = -libc::ENOSYS;

/// `io_uring_queue_init(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: Out<'_, c_void>,
    flags: c_uint,
) -> c_int {
    if is_refused() {
        return NONE;
    }
    liburing::io_uring_queue_init(entries, ring, flags)
}

/// `io_uring_queue_init_params(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: Out<'_, c_void>,
    p: Out<'_, c_void>,
) -> c_int {
    if is_refused() {
        return NONE;
    }
    liburing::io_uring_queue_init_params(entries, ring, p)
}

/// `io_uring_queue_init_mem(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: Out<'_, c_void>,
    p: Out<'_, c_void>,
    buf: Out<'_, c_void>,
    size: size_t,
) -> c_int {
    if is_refused() {
        return NONE;
    }
    liburing::io_uring_queue_init_mem(entries, ring, p, buf, size)
}

/// `io_uring_setup(2)`, as liburing has it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn io_uring_setup(entries: c_uint, p: Out<'_, c_void>) -> c_int {
    if is_refused() {
        return NONE;
    }
    liburing::io_uring_setup(entries, p)
}
