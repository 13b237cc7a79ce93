//! What signals mean for the shim's calls: their handlers wait for the end of a call, and
//! end those that sleep; SIGPIPE; and holding signals back from a thread.

#[cfg(target_arch = "x86_64")]
pub(crate) mod handlers;

use crate::calls::errno;
use crate::real;
use libc::c_int;
use longshore_sockets::{SocketError, interruptible, is_confined, section};
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`restarts`] was before a filter of system calls came to hold.
static REMEMBERED: AtomicBool = AtomicBool::new(true);

/// Bytes of the kernel's set of signals.
pub(crate) const SET_BYTES: usize = size_of::<u64>();

/// Keeps what the handlers are, for the time when they cannot be asked, and are not postponed.
pub(crate) fn remember() {
    let restarts = !(1..=libc::SIGRTMAX()).any(|signal| interrupts(signal, true));
    REMEMBERED.store(restarts, Ordering::Relaxed);
}

/// Whether a call goes on that a signal handler interrupted which could not be postponed: the
/// program has installed it by a system call of its own. Which signal it was cannot be known,
/// so: only if all such handlers have SA_RESTART.
pub(crate) fn restarts() -> bool {
    if is_confined() {
        return REMEMBERED.load(Ordering::Relaxed);
    }
    !(1..=libc::SIGRTMAX()).any(|signal| {
        action(signal).is_some_and(|now| {
            !handlers::is_postponed(signal, now.sa_sigaction) && ends_calls(&now, true)
        })
    })
}

/// Does `work`, a part of a call that takes locks or holds sockets, without any handler of
/// the program's in between; one that came runs at the end, when nothing is held any more.
#[inline(always)]
pub(crate) fn within<T: Copy>(work: impl FnOnce() -> T) -> T {
    section(|s| s.enter());
    let result = work();
    if section(|s| s.leave()) {
        handlers::raise_postponed();
    }
    result
}

/// A call has failed: whether it is to be made again, as it was given up for a handler with
/// SA_RESTART, which has run.
#[inline]
pub(crate) fn is_to_restart() -> bool {
    errno() == libc::EINTR && section(|s| s.again.take())
}

/// Notes that a call which fails with EINTR may be made again after the handler.
pub(crate) fn note_restart() {
    section(|s| s.restarts.set(true));
}

/// Makes a system call that may wait in the kernel, unless a handler was postponed.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// As the system call.
pub(crate) unsafe fn kernel_call(
    number: libc::c_long,
    arguments: [usize; 6],
) -> Result<usize, SocketError> {
    // SAFETY: the caller's promise.
    match unsafe { interruptible(number, arguments) } {
        failed @ ..0 if failed == -(libc::EINTR as isize) => Err(SocketError::Interrupted),
        failed @ ..0 if failed == -(libc::EAGAIN as isize) => Err(SocketError::WouldBlock),
        failed @ ..0 => Err(crate::calls::refused(-failed as c_int)),
        result => Ok(result as usize),
    }
}

/// What the kernel has for a signal.
fn action(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: an all-zero `sigaction` is a valid one to be overwritten.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `now` outlives the call.
    let known = unsafe { real::sigaction(signal, std::ptr::null(), &mut now) } == 0;
    known.then_some(now)
}

fn ends_calls(action: &libc::sigaction, restarts: bool) -> bool {
    let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
    handled && !(restarts && action.sa_flags & libc::SA_RESTART != 0)
}

/// Whether a signal interrupts a call that waits: it has a handler, and where calls go on
/// after some (`restarts`), one without SA_RESTART.
pub(crate) fn interrupts(signal: c_int, restarts: bool) -> bool {
    action(signal).is_some_and(|now| ends_calls(&now, restarts))
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
