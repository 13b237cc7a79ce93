//! What calls of C return and leave behind: errno, -1, and errors as the host library has them.
//!
//! Used by all of the shim; it stands on nothing else of it but C's pointers.

use crate::user::Out;
use libc::{c_int, ssize_t};
use longshore_sockets::SocketError;
use rustix::fd::BorrowedFd;

unsafe extern "C" {
    safe fn __errno_location<'a>() -> Out<'a, c_int>;
}

/// Sets errno.
pub(crate) fn set_errno(errno: c_int) {
    __errno_location().put(errno);
}

/// This thread's errno.
pub(crate) fn errno() -> c_int {
    __errno_location().get().unwrap_or(0)
}

/// What C functions return, -1 being an error.
pub(crate) trait Returned: Copy + PartialEq {
    /// -1.
    const FAILED: Self;

    /// Whether it says that the call has failed.
    fn has_failed(self) -> bool {
        self == Self::FAILED
    }
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl Returned for ssize_t {
    const FAILED: Self = -1;
}

/// An errno that Linux gives.
pub(crate) fn refused(errno: c_int) -> SocketError {
    SocketError::Refused(rustix::io::Errno::from_raw_os_error(errno))
}

/// The descriptor, for calls on the kernel socket behind it.
pub(crate) fn borrow(fd: c_int) -> BorrowedFd<'static> {
    // SAFETY: the program's descriptor, which the program keeps open while it
    // calls us; if it does not, the call on it fails as it should. -1 is not a
    // descriptor that can be borrowed.
    unsafe { BorrowedFd::borrow_raw(if fd < 0 { libc::AT_FDCWD } else { fd }) }
}

/// The errno that libc's own function has left, as an error.
pub(crate) fn last_error() -> SocketError {
    match errno() {
        libc::EAGAIN => SocketError::WouldBlock,
        libc::EINTR => SocketError::Interrupted,
        errno => refused(errno),
    }
}
