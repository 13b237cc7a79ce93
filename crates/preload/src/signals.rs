//! What signals mean for calls that wait: EINTR or not, and SIGPIPE; and holding them
//! back from a thread.

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

/// Whether a signal is held back from this thread, in a call that has this `mask`; null is
/// the thread's own.
pub(crate) fn is_blocked(signal: c_int, mask: *const libc::sigset_t) -> bool {
    // SAFETY: an all-zero set is a valid one to be overwritten.
    let mut own: libc::sigset_t = unsafe { std::mem::zeroed() };
    let mask = if mask.is_null() {
        // SAFETY: asks only; the set outlives the call.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut own) };
        &raw const own
    } else {
        mask
    };
    // SAFETY: the thread's, or the one that the caller waits with.
    unsafe { libc::sigismember(mask, signal) == 1 }
}

/// Sends this thread SIGPIPE.
pub(crate) fn broken_pipe() {
    // SAFETY: a signal to ourselves.
    let _: c_int = unsafe { libc::raise(libc::SIGPIPE) };
}

/// All signals that have a meaning, held back from this thread until this goes.
pub(crate) struct Held {
    /// What was held back before; nothing if a filter of system calls may not let us ask.
    before: Option<libc::sigset_t>,
}

impl Held {
    /// Holds them back.
    pub(crate) fn all() -> Self {
        if is_confined() {
            return Self { before: None };
        }
        // SAFETY: all-zero sets are valid ones to be overwritten.
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: two sets that outlive the calls.
        let failed = unsafe {
            libc::sigfillset(&mut all);
            // Without a handler the kernel forgets it, unless it is held back from a thread:
            // then another gets it, whose epoll_wait it ends with EINTR.
            if !interrupts(libc::SIGCHLD, false) {
                libc::sigdelset(&mut all, libc::SIGCHLD);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before)
        };
        Self {
            before: (failed == 0).then_some(before),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: a set that outlives the call.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}
