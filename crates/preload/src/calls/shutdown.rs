//! `shutdown`.

use crate::calls::{anew, answer, errno, refused};
use crate::fds::{self, Undecided, change_undecided};
use crate::real;
use libc::c_int;
use longshore_sockets::Half;

/// `shutdown(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if !fds::is_engines(fd) {
        let done = real::shutdown(fd, how);
        if done == -1 && errno() == libc::ENOTCONN {
            note_shut(fd, how);
        }
        return done;
    }
    answer(|| {
        let socket = fds::engine_or_closed(fd)?;
        let half = match how {
            libc::SHUT_RD => Half::Read,
            libc::SHUT_WR => Half::Write,
            libc::SHUT_RDWR => Half::Both,
            _ => return Err(refused(libc::EINVAL)),
        };
        if !socket.is_datagram() {
            socket.connector().catch_up_unreported();
            if socket.is_connecting() && !socket.is_shared() {
                // As Linux has it, the attempt ends with ECONNRESET, and the socket has no connection:
                // it is not shut down, and may be connected again. Where another process has it, too,
                // that one could not find what takes its place if this process ended at once.
                anew::begin_anew(fd, socket)?;
                return Ok(0);
            }
        }
        if socket.has_kernel_side() {
            real::shutdown(fd, how);
        }
        socket.halves().shut_down(half)?;
        Ok(0)
    })
}

/// A socket that has no connection is shut down all the same, though the call fails: one that
/// becomes the engine's takes that along.
fn note_shut(fd: c_int, how: c_int) {
    change_undecided(fd, |before| Undecided {
        shut_read: before.shut_read || how != libc::SHUT_WR,
        shut_write: before.shut_write || how != libc::SHUT_RD,
        ..before
    });
}

/// It was disconnected: a stream is shut down no more.
pub(crate) fn forget_shut(fd: c_int) {
    change_undecided(fd, |before| Undecided {
        shut_read: before.shut_read && !before.stream,
        shut_write: before.shut_write && !before.stream,
        ..before
    });
}
