//! `close`, `close_range`, `closefrom`.

use crate::cancel::held;
use crate::fds::{self, Entry};
use crate::{lifecycle, pipes, real};
use libc::{c_int, c_uint};
use longshore_sockets::{Socket, SocketError, WaitLimit, section};
use std::time::Duration;

/// Flags of `close_range` that do not close anything here and now.
const CLOSE_RANGE_UNSHARE: c_int = 1 << 1;
const CLOSE_RANGE_CLOEXEC: c_int = 1 << 2;

/// `close(2)`. Our own descriptors stay open, and it looks as if they were
/// closed.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn close(fd: c_int) -> c_int {
    match fds::get(fd) {
        Entry::Kernel => {
            pipes::leave(fd);
            if section(|s| s.is_entered()) {
                // One of the shim's own, in the midst of a call: libc may not end the thread there.
                held(|| real::close(fd))
            } else {
                real::close(fd)
            }
        }
        Entry::Kept => 0,
        Entry::Engine(_) => held(|| crate::calls::guard(|| close_socket(fd))),
        Entry::Undecided(_) | Entry::Epoll(_) => held(|| {
            crate::calls::guard(|| {
                let before = fds::put(fd, Entry::Kernel);
                let result = real::close(fd);
                lifecycle::give_up(before);
                result
            })
        }),
    }
}

fn close_socket(fd: c_int) -> c_int {
    if let Some(socket) = fds::engine(fd) {
        linger(&socket, 2);
    }
    // From here on the number may be another's.
    let before = fds::put(fd, Entry::Kernel);
    let result = real::close(fd);
    lifecycle::give_up(before);
    result
}

/// SO_LINGER with a time: waits until the end of what was written is acknowledged, as Linux does of
/// sockets that do not block, too. Of its uses, `ending` are those that end with the call: the
/// caller's own, and the descriptor's if that has it still. With more, nobody closes it here.
pub(super) fn linger(socket: &Socket, ending: u32) {
    let Some(seconds @ 1..) = socket.options().linger() else {
        return;
    };
    if socket.uses() > ending {
        return;
    }
    // With data unread it is reset, for which nobody waits.
    if socket.receive_stream().readable_bytes() != 0
        || socket.halves().shut_down_to_linger().is_err()
    {
        return;
    }
    let wait_limit = WaitLimit::of_call(Some(Duration::from_secs(u64::from(seconds))));
    let _ = socket.wait(None, wait_limit, || {
        if socket.halves().is_end_acked() {
            Ok(())
        } else {
            Err(SocketError::WouldBlock)
        }
    });
}

/// `__close`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __close(fd: c_int) -> c_int {
    close(fd)
}

/// `close_range(2)`, around our own descriptors.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & CLOSE_RANGE_CLOEXEC == 0 {
        pipes::leave_range(first, last);
    }
    let none_of_ours = first >= fds::end() as c_uint;
    // With other flags the kernel closes nothing.
    if none_of_ours || first > last || flags & !CLOSE_RANGE_UNSHARE != 0 {
        return real::close_range(first, last, flags);
    }
    let mut from = first;
    for fd in first..(fds::end() as c_uint).min(last.saturating_add(1)) {
        match fds::get(fd as c_int) {
            Entry::Kernel => continue,
            Entry::Kept => {}
            _ => {
                close(fd as c_int);
            }
        }
        close_between(from, fd, flags);
        from = fd + 1;
    }
    if from > last {
        return 0;
    }
    real::close_range(from, last, flags & CLOSE_RANGE_UNSHARE)
}

fn close_between(from: c_uint, to: c_uint, flags: c_int) {
    if from < to {
        real::close_range(from, to - 1, flags & CLOSE_RANGE_UNSHARE);
    }
}

/// `closefrom(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}
