//! `chroot`: the engine's socket is in the directories that the program leaves, so it takes
//! its place in the session before it does.

use crate::calls::errno;
use crate::{real, state};
use libc::{c_char, c_int};

/// `chroot(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn chroot(path: *const c_char) -> c_int {
    let before = errno();
    let _ = state::mode();
    crate::calls::set_errno(before);
    // SAFETY: the caller's promise.
    unsafe { real::chroot(path) }
}
