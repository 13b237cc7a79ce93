//! Whether this process runs under a filter of system calls (seccomp) that it
//! has set for itself.
//!
//! From then on the host's side makes no call that such a filter is likely to
//! end the process for. What is left is what every program needs that reads and
//! writes: read, write, poll, futex, the clock, memory. Nothing spins by giving
//! way, no descriptor is made or passed, no process is asked whether it lives.

use std::sync::atomic::{AtomicBool, Ordering};

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Whether a filter holds. One load.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Says that a filter is about to hold, or that it came to nothing. What the
/// process will need has to be there before.
pub fn set_confined(confined: bool) {
    CONFINED.store(confined, Ordering::Relaxed);
}
