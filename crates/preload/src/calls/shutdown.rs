//! `shutdown`.

use crate::calls::{answer, errno, refused};
use crate::fds::{self, Entry, Undecided};
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
        if socket.has_kernel_side() {
            real::shutdown(fd, how);
        }
        socket.shutdown(half)?;
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

/// It is shut down no more.
pub(crate) fn forget_shut(fd: c_int) {
    change_undecided(fd, |before| Undecided {
        shut_read: false,
        shut_write: false,
        ..before
    });
}

/// Changes what is known of a socket that nobody has decided about, under all its descriptors.
fn change_undecided(fd: c_int, change: impl Fn(Undecided) -> Undecided) {
    let Entry::Undecided(undecided) = fds::get(fd) else {
        return;
    };
    let number = undecided.number;
    for (fd, entry) in fds::all() {
        let mut entry = entry;
        while let Entry::Undecided(before) = entry
            && before.number == number
        {
            if fds::update(fd, before, Entry::Undecided(change(before))) {
                break;
            }
            entry = fds::get(fd);
        }
    }
}
