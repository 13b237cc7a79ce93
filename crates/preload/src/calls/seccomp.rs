//! `prctl`, and what goes to it and to `seccomp` by number: a program that locks
//! itself into a filter of system calls.
//!
//! Such a filter is written for what the program calls, not for what we do. So
//! what we shall need is made before the filter holds, and after it the shim
//! waits with the calls that any such filter has to permit
//! ([`longshore_sockets::is_confined`]).

use crate::calls::{epoll, note_nonblocking};
use crate::fds::{self, Entry};
use crate::state::{self, Mode};
use crate::{real, signals};
use libc::{c_int, c_ulong};
use rustix::fs::OFlags;

/// `seccomp(2)`: a filter is set.
const SET_MODE_FILTER: c_ulong = 1;

/// `prctl(2)`.
///
/// # Safety
/// As libc's. It takes its arguments as variadic ones; on this architecture
/// they come in the same places as these.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { real::prctl(option, a, b, c, d) };
    if option == libc::PR_SET_SECCOMP && a == c_ulong::from(libc::SECCOMP_MODE_FILTER) {
        filtered(plain, |result| *result == 0)
    } else {
        plain()
    }
}

/// Whether `seccomp(2)` with this first argument sets a filter.
pub(crate) fn sets_filter(operation: c_ulong) -> bool {
    operation == SET_MODE_FILTER
}

/// Makes ready for a filter, and has it set. One that is refused changes
/// nothing.
pub(crate) fn filtered<T>(set: impl FnOnce() -> T, done: impl FnOnce(&T) -> bool) -> T {
    let before = longshore_sockets::is_confined();
    let host = match state::mode() {
        Mode::On(host) if !before => host,
        _ => return set(),
    };
    for (fd, entry) in fds::all() {
        if matches!(entry, Entry::Engine(_)) {
            let flags = rustix::fs::fcntl_getfl(crate::calls::borrow(fd));
            note_nonblocking(fd, flags.is_ok_and(|f| f.contains(OFlags::NONBLOCK)));
        }
    }
    epoll::prepare_all(host);
    signals::remember();
    host.confine();
    let result = set();
    if !done(&result) {
        host.unconfine();
    }
    result
}
