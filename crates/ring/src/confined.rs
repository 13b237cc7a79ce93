//! Whether this process runs under a system call filter (seccomp) that it has installed
//! itself.
//!
//! From then on the host's side makes no call for which such a filter is likely to kill
//! the process. It only uses what every program needs: read, write, poll, futex, clocks,
//! memory. No loop yields, no descriptor is created or passed, and no process is checked
//! for being alive.

use std::sync::atomic::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether a filter is installed. One load.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Records that a filter is about to be installed, or that this has failed. Whatever the
/// process will need must exist before.
pub fn set_confined(confined: bool) {
    CONFINED.store(confined, Ordering::Relaxed);
}
