//! What signals mean for the shim's calls: their handlers wait for the end of a call, and
//! end those that sleep; SIGPIPE; and holding signals back from a thread.

pub(crate) mod handlers;
pub(crate) mod waits;

use crate::real;
use crate::results::errno;
use crate::user::{Action, In, Out, Zero, set_of, word_of};
use libc::{c_int, sigset_t};
use longshore_sockets::{is_confined, section};
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    safe fn raise(signal: c_int) -> c_int;
}

/// What [`restarts`] was before a filter of system calls came to hold.
static REMEMBERED: AtomicBool = AtomicBool::new(true);

/// SIGSYS in a set of signals.
pub(crate) const SIGSYS: u64 = 1 << (libc::SIGSYS - 1);

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
            !handlers::is_postponed(signal, now.handler()) && ends_calls(&now, true)
        })
    })
}

/// Does `work`, a part of a call that takes locks or holds sockets, without any handler of
/// the program's in between; one that came runs at the end, when nothing is held any more.
#[inline(always)]
pub(crate) fn within<T: Copy>(work: impl FnOnce() -> T) -> T {
    prepare(work)
}

/// As `within`, of what makes something that the call has to drop. A handler that runs at the
/// end and never comes back leaves it behind.
#[inline(always)]
pub(crate) fn prepare<T>(work: impl FnOnce() -> T) -> T {
    section(|s| s.enter());
    let result = work();
    if section(|s| s.leave()) {
        handlers::raise_postponed();
    }
    result
}

/// Whether a handler waits for the end of this thread's call.
pub(crate) fn are_postponed() -> bool {
    section(|s| s.postponed()) != 0
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

/// What the kernel has for a signal.
pub(crate) fn action(signal: c_int) -> Option<Action> {
    let mut now = Action::zero();
    let known = real::sigaction(signal, In::null(), Out::from(&mut now)) == 0;
    known.then_some(now)
}

/// Changes which signals are held back from this thread, or only asks; gives which were.
pub(crate) fn change_mask(how: c_int, word: Option<u64>) -> Option<u64> {
    let (set, mut before) = (word.map(set_of), sigset_t::zero());
    let set = set.as_ref().map_or(In::null(), In::from);
    let failed = real::pthread_sigmask(how, set, Out::from(&mut before));
    word_of(In::from(&before)).filter(|_| failed == 0)
}

fn ends_calls(action: &Action, restarts: bool) -> bool {
    action.handler().is_handling() && !(restarts && action.flags() & libc::SA_RESTART != 0)
}

/// Whether a signal interrupts a call that waits: it has a handler, and where calls go on
/// after some (`restarts`), one without SA_RESTART.
pub(crate) fn interrupts(signal: c_int, restarts: bool) -> bool {
    action(signal).is_some_and(|now| ends_calls(&now, restarts))
}

/// Whether a signal is held back from this thread, in a call that has this `mask`; null is
/// the thread's own.
pub(crate) fn is_blocked(signal: c_int, mask: In<'_, sigset_t>) -> bool {
    let word = word_of(mask).or_else(|| change_mask(libc::SIG_BLOCK, None));
    word.is_some_and(|word| word & 1 << (signal - 1) != 0)
}

/// Sends this thread SIGPIPE.
pub(crate) fn broken_pipe() {
    raise(libc::SIGPIPE);
}

/// All signals that have a meaning, held back from this thread until this goes.
pub(crate) struct Held {
    /// What was held back before; nothing if a filter of system calls may not let us ask.
    before: Option<u64>,
}

impl Held {
    /// Holds them back.
    pub(crate) fn all() -> Self {
        if is_confined() {
            return Self { before: None };
        }
        // A call that is made by number within, as an allocator of the program's may, raises SIGSYS.
        let mut all = !(handlers::LIBCS | SIGSYS);
        // Without a handler the kernel forgets it, unless it is held back from a thread:
        // then another gets it, whose epoll_wait it ends with EINTR.
        if !interrupts(libc::SIGCHLD, false) {
            all &= !(1 << (libc::SIGCHLD - 1));
        }
        Self {
            before: change_mask(libc::SIG_BLOCK, Some(all)),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            change_mask(libc::SIG_SETMASK, Some(before));
        }
    }
}
