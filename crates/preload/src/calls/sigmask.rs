//! Holding signals back: SIGSYS comes nevertheless where the program's own system calls are served
//! (`own_calls`), as it would end the process at the next of them.

use crate::own_calls;
use crate::real;
use crate::signals::SIGSYS;
use crate::user::{In, Out, set_of, word_of};
use libc::{c_int, sigset_t};

/// Makes a call that sets which signals are held back, with what may be.
fn with(how: c_int, new: In<'_, sigset_t>, set: impl FnOnce(In<'_, sigset_t>) -> c_int) -> c_int {
    let word = word_of(new).filter(|_| own_calls::are_served() && how != libc::SIG_UNBLOCK);
    match word.map(|word| set_of(word & !SIGSYS)) {
        Some(without) => set(In::from(&without)),
        None => set(new),
    }
}

/// `pthread_sigmask(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_sigmask(
    how: c_int,
    new: In<'_, sigset_t>,
    old: Out<'_, sigset_t>,
) -> c_int {
    with(how, new, |new| real::pthread_sigmask(how, new, old))
}

/// `sigprocmask(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sigprocmask(
    how: c_int,
    new: In<'_, sigset_t>,
    old: Out<'_, sigset_t>,
) -> c_int {
    with(how, new, |new| real::sigprocmask(how, new, old))
}
