//! What signals mean for calls that wait: EINTR or not, and SIGPIPE.

use libc::c_int;
use longshore_sockets::is_confined;
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`restarts`] was before a filter of system calls came to hold.
static REMEMBERED: AtomicBool = AtomicBool::new(true);

/// Keeps what the handlers are, for the time when they cannot be asked.
pub(crate) fn remember() {
    REMEMBERED.store(restarts(), Ordering::Relaxed);
}

/// Whether a call that a signal handler interrupted goes on. Which signal it
/// was cannot be known, so: only if all handlers of the program were installed
/// with SA_RESTART.
pub(crate) fn restarts() -> bool {
    if is_confined() {
        return REMEMBERED.load(Ordering::Relaxed);
    }
    !(1..=libc::SIGRTMAX()).any(|signal| interrupts(signal, true))
}

/// Whether a signal interrupts a call that waits: it has a handler, and where calls go on
/// after some (`restarts`), one without SA_RESTART.
pub(crate) fn interrupts(signal: c_int, restarts: bool) -> bool {
    // SAFETY: an all-zero `sigaction` is a valid one to be overwritten.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `now` outlives the call.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) } == 0;
    let handled = known && now.sa_sigaction != libc::SIG_DFL && now.sa_sigaction != libc::SIG_IGN;
    handled && !(restarts && now.sa_flags & libc::SA_RESTART != 0)
}

/// Sends this thread SIGPIPE.
pub(crate) fn broken_pipe() {
    // SAFETY: a signal to ourselves.
    let _: c_int = unsafe { libc::raise(libc::SIGPIPE) };
}
