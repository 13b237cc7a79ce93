//! What is installed for signals, as typed arguments.

use super::{In, Out, Zero};
use libc::{c_int, c_void, sighandler_t, siginfo_t, sigset_t, ucontext_t};

/// What C has called for a signal: a function of the program's, or one of libc's numbers for
/// what else may happen.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handler(sighandler_t);

/// A handler of signals, called with what the kernel gives for one; a handler that takes the
/// number alone does not look at the rest.
pub(crate) type Function = extern "C-unwind" fn(c_int, Out<'_, siginfo_t>, Out<'_, ucontext_t>);

impl Handler {
    /// What libc says when it has failed.
    pub(crate) const FAILED: Self = Self(libc::SIG_ERR);
    /// What `sigset` takes and gives for a signal that is held back.
    pub(crate) const HOLD: Self = Self(2);

    /// One of ours.
    pub(crate) fn of(function: Function) -> Self {
        Self(function as *const c_void as usize)
    }

    /// What is installed, or was.
    ///
    /// # Safety
    /// It is the address of such a handler.
    pub(crate) const unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    pub(crate) fn addr(self) -> usize {
        self.0
    }

    /// Whether the signal is handled, and neither ignored nor left to the kernel.
    pub(crate) fn is_handling(self) -> bool {
        self.0 != libc::SIG_DFL && self.0 != libc::SIG_IGN
    }

    /// To be called for a signal for which it was installed.
    pub(crate) fn function(self) -> Option<Function> {
        if [libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR, Self::HOLD.0].contains(&self.0) {
            return None;
        }
        // SAFETY: it is none of libc's numbers, and so a handler of C's or ours.
        Some(unsafe { std::mem::transmute::<usize, Function>(self.0) })
    }
}

/// libc's `struct sigaction`, of which the handler is one.
#[repr(transparent)]
#[derive(Debug, Clone, Copy)]
pub struct Action(libc::sigaction);

// SAFETY: numbers, and pointers that may be null; zero is the handler of what the kernel does by
// itself.
unsafe impl Zero for Action {}

impl Action {
    /// A handler with its flags, and what it holds back: signal by signal from the first bit on.
    pub(crate) fn new(handler: Handler, flags: c_int, held: u64) -> Self {
        let mut new = Self::zero();
        new.0.sa_sigaction = handler.0;
        new.0.sa_flags = flags;
        new.0.sa_mask = set_of(held);
        new
    }

    pub(crate) fn handler(&self) -> Handler {
        Handler(self.0.sa_sigaction)
    }

    pub(crate) fn set_handler(&mut self, handler: Handler) {
        self.0.sa_sigaction = handler.0;
    }

    pub(crate) fn flags(&self) -> c_int {
        self.0.sa_flags
    }

    pub(crate) fn set_flags(&mut self, flags: c_int) {
        self.0.sa_flags = flags;
    }

    pub(crate) fn set_held(&mut self, held: u64) {
        self.0.sa_mask = set_of(held);
    }

    /// What it holds back.
    pub(crate) fn held(&self) -> u64 {
        word_of(In::from(&self.0.sa_mask)).unwrap_or(0)
    }
}

/// The signals of a set as the kernel has them, bit by bit from 1 on; `None` at a null pointer.
/// libc's sets are longer, but a call by number has no more than this.
pub(crate) fn word_of(set: In<'_, sigset_t>) -> Option<u64> {
    set.cast::<u64>().get()
}

/// The set with these signals: the kernel's is the first word of libc's.
pub(crate) fn set_of(word: u64) -> sigset_t {
    let mut set = sigset_t::zero();
    Out::from(&mut set).cast().put(word);
    set
}
