//! System calls that may wait in the kernel, unless a handler was postponed: then they end as if
//! it had come while they waited.

use crate::kernel::words;
use crate::results::refused;
use crate::user::{In, Out, Word};
use libc::{c_int, epoll_event, pollfd, sigset_t, sockaddr, socklen_t, timespec};
use longshore_sockets::{SocketError, interruptible};

/// What the kernel has returned.
///
/// # Errors
/// The kernel's.
fn result_of(result: isize) -> Result<usize, SocketError> {
    match result {
        failed @ ..0 if failed == -(libc::EINTR as isize) => Err(SocketError::Interrupted),
        failed @ ..0 if failed == -(libc::EAGAIN as isize) => Err(SocketError::WouldBlock),
        failed @ ..0 => Err(refused(-failed as c_int)),
        result => Ok(result as usize),
    }
}

/// Such calls by their types; the arguments carry C's promises with them.
macro_rules! waits {
    ($($name:ident($($arg:ident: $type:ty),*) = $number:expr;)*) => {$(
        pub(crate) fn $name($($arg: $type),*) -> Result<usize, SocketError> {
            let arguments = words([$($arg.word()),*]);
            // SAFETY: the call of this number takes arguments of these types, and what C has
            // promised for them they say by their types.
            result_of(unsafe { interruptible($number, arguments) })
        }
    )*};
}

waits! {
    connect(fd: c_int, addr: In<'_, sockaddr>, len: socklen_t) = libc::SYS_connect;
    ppoll(list: Out<'_, pollfd>, count: usize, limit: Out<'_, timespec>, mask: In<'_, sigset_t>, bytes: usize) = libc::SYS_ppoll;
    epoll_pwait(fd: c_int, events: Out<'_, epoll_event>, most: usize, limit: c_int, mask: In<'_, sigset_t>, bytes: usize) = libc::SYS_epoll_pwait;
    nanosleep(time: In<'_, timespec>, left: Out<'_, timespec>) = libc::SYS_nanosleep;
}

#[cfg(target_arch = "x86_64")]
waits! {
    epoll_wait(fd: c_int, events: Out<'_, epoll_event>, most: usize, limit: c_int) = libc::SYS_epoll_wait;
}

/// As libc has it where the kernel has no such call.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn epoll_wait(
    fd: c_int,
    events: Out<'_, epoll_event>,
    most: usize,
    limit: c_int,
) -> Result<usize, SocketError> {
    epoll_pwait(
        fd,
        events,
        most,
        limit,
        In::null(),
        crate::signals::SET_BYTES,
    )
}
