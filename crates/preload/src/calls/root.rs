//! `chroot`: the engine's socket is in the directories that the program leaves, so it takes
//! its place in the session before it does, and opens there what it may need.

use crate::calls::{errno, pipe};
use crate::user::In;
use crate::{real, state};
use libc::{c_char, c_int};

/// `chroot(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn chroot(path: In<'_, c_char>) -> c_int {
    let before = errno();
    if let state::Mode::On(_) = state::mode() {
        pipe::prepare();
    }
    crate::calls::set_errno(before);
    real::chroot(path)
}
