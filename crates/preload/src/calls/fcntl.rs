//! `fcntl`.
//!
//! Flags live in the kernel socket behind the descriptor, so only duplicating and owning
//! concern us, with O_ASYNC; O_NONBLOCK is noted for the time when the kernel cannot be
//! asked. The argument is a number or a pointer, passed in a register in either case.

use crate::calls::{guard, note_nonblocking};
use crate::owner::{self, F_SETOWN_EX, F_SETSIG};
use crate::user::Argument;
use crate::{fds, lifecycle, pipes, real};
use libc::c_int;

/// `fcntl(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn fcntl(fd: c_int, cmd: c_int, arg: Argument<'_>) -> c_int {
    if matches!(cmd, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        pipes::leave(fd);
    }
    let result = real::fcntl(fd, cmd, arg);
    let duplicated = matches!(cmd, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) && result >= 0;
    if duplicated && !fds::is_kernels(fd) {
        return guard(|| {
            lifecycle::duplicate(fd, result);
            result
        });
    }
    if matches!(cmd, libc::F_SETOWN | F_SETOWN_EX | F_SETSIG) && result == 0 {
        return guard(|| {
            owner::changed(fd);
            result
        });
    }
    if cmd == libc::F_SETFL && result == 0 && !fds::is_kernels(fd) {
        let flags = c_int::from(arg);
        note_nonblocking(fd, flags & libc::O_NONBLOCK != 0);
        return guard(|| {
            owner::flags_set(fd, flags & libc::O_ASYNC != 0);
            result
        });
    }
    result
}
