//! What the program has installed for SIGSYS, as it would see it: the kernel has our handler there.

use crate::real;
use crate::signals::handlers::handler_of;
use crate::user::{Action, In, Out};
use libc::{c_int, siginfo_t, ucontext_t};
use std::sync::atomic::{AtomicU64, Ordering};

real::real! {
    raise(signal: c_int) -> c_int;
}

static HANDLER: AtomicU64 = AtomicU64::new(0);
static FLAGS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);

/// Installs an action; gives the one before.
pub(crate) fn exchange(new: Option<Action>) -> Action {
    let order = Ordering::Relaxed;
    let handler = handler_of(HANDLER.load(order));
    let before = Action::new(handler, FLAGS.load(order) as c_int, HELD.load(order));
    if let Some(new) = new {
        set(new);
    }
    before
}

/// Installs an action.
pub(super) fn set(new: Action) {
    let order = Ordering::Relaxed;
    HELD.store(new.held(), order);
    FLAGS.store(u64::from(new.flags() as u32), order);
    HANDLER.store(new.handler().addr() as u64, order);
}

/// Does with a SIGSYS that is no call what the program wants, or what the kernel does.
pub(super) fn run(signal: c_int, info: Out<'_, siginfo_t>, context: Out<'_, ucontext_t>) {
    let action = exchange(None);
    if let Some(handler) = action.handler().function() {
        return handler(signal, info, context);
    }
    if action.handler().addr() == libc::SIG_DFL {
        real::sigaction(signal, In::from(&action), Out::null());
        // It comes when this handler is over.
        raise(signal);
    }
}
