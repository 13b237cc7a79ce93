//! `fork`, by the handlers that libc runs around it, and `vfork`, which is a
//! fork here: the child of a real one would run in our memory.
//!
//! No signal handler runs while the locks of the process are held for the fork: it would
//! find none of its sockets in order. On either side signals come when they are free.

use crate::signals::Held;
use crate::{fds, real, state};
use libc::pid_t;
use longshore_sockets::{Forking, Reservation};
use std::cell::{Cell, RefCell};

thread_local! {
    static FORKING: RefCell<Option<(Forking, Held)>> = const { RefCell::new(None) };
    /// What this thread's last fork has reserved for its child.
    static RESERVED: Cell<Option<Reservation>> = const { Cell::new(None) };
}

extern "C" fn before() {
    if let Some(host) = state::attached() {
        let held = Held::all();
        let forking = host.before_fork();
        let _ = FORKING.try_with(|f| f.replace(Some((forking, held))));
    }
}

fn forking() -> Option<(Forking, Held)> {
    FORKING.try_with(RefCell::take).ok().flatten()
}

extern "C" fn in_parent() {
    if let Some((forking, held)) = forking() {
        let reserved = forking.in_parent();
        let _ = RESERVED.try_with(|r| r.set(reserved));
        drop(held);
    }
}

extern "C" fn in_child() {
    if let Some((forking, held)) = forking() {
        forking.in_child(fds::counts().into_iter());
        drop(held);
    }
}

/// Has libc call us around each fork.
pub(crate) fn install() {
    // SAFETY: three functions that live as long as the program.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// `fork(2)`. The parent's handler does not know the child yet; here it is known.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    // SAFETY: the caller's promise.
    let child = unsafe { real::fork() };
    if child > 0
        && let Some(reserved) = RESERVED.try_with(Cell::take).ok().flatten()
    {
        reserved.is_for(child as u32);
    }
    child
}

/// `vfork(2)`, as `fork`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vfork() -> pid_t {
    // SAFETY: the caller's promise, which was a stricter one.
    unsafe { fork() }
}
