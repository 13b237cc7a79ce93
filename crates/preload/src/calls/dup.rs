//! `dup`, `dup2`, `dup3`.

use crate::calls::close::linger;
use crate::calls::{guard, set_errno, stdio};
use crate::cancel::held;
use crate::fds::{self, Entry};
use crate::log::once;
use crate::{lifecycle, pipes, real};
use libc::c_int;
use rustix::process::{Resource, getrlimit};

/// `dup(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dup(fd: c_int) -> c_int {
    pipes::leave(fd);
    let new = real::dup(fd);
    if new >= 0 && !fds::is_kernels(fd) {
        return guard(|| {
            lifecycle::duplicate(fd, new);
            stdio::take_place_of(new);
            new
        });
    }
    new
}

/// `dup2(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dup2(from: c_int, to: c_int) -> c_int {
    onto(from, to, || real::dup2(from, to))
}

/// `dup3(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    onto(from, to, || real::dup3(from, to, flags))
}

fn onto(from: c_int, to: c_int, real: impl FnOnce() -> c_int) -> c_int {
    pipes::leave(from);
    pipes::leave(to);
    if (fds::is_kernels(from) && fds::is_kernels(to)) || from == to {
        return real();
    }
    if fds::get(to) == Entry::Kept {
        let limit = getrlimit(Resource::Nofile).current;
        if limit.is_some_and(|limit| to as u64 >= limit) {
            set_errno(libc::EBADF);
            return -1;
        }
        once!(
            Warn,
            KeptNumber,
            "descriptor {to} is Longshore's own and cannot be replaced: EBUSY"
        );
        set_errno(libc::EBUSY);
        return -1;
    }
    guard(|| {
        stdio::before_duplicate(from, to);
        let replaced = fds::engine(to);
        let new = real();
        if new >= 0 {
            lifecycle::duplicate(from, new);
            stdio::take_place_of(new);
            // As Linux has it, what was there is closed when the number is another's already.
            if let Some(replaced) = replaced {
                held(|| linger(&replaced, 1));
            }
        }
        new
    })
}

/// `__dup2`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __dup2(from: c_int, to: c_int) -> c_int {
    dup2(from, to)
}
