//! `pthread_cancel`, `pthread_setcanceltype`: ours so that a thread that sleeps in the shim is
//! woken when it is cancelled.

use crate::cancel::{ASYNCHRONOUS, Request, note_asynchronous, note_use};
use crate::user::Out;
use crate::{cancel, place, real, state};
use libc::{c_int, pthread_t};

/// `pthread_cancel(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    if state::is_off() {
        return real::pthread_cancel(thread);
    }
    note_use();
    // If it is this thread, it may end here, and is in no call that this could end.
    let is_own = thread as usize == cancel::thread();
    let request = (!is_own).then(|| Request::list(thread));
    let result = real::pthread_cancel(thread);
    let request = request.unwrap_or_else(|| Request::list(thread));
    request.answered(result == 0);
    if result == 0
        && let Some(host) = place::attached()
    {
        host.threads().wake_thread(thread as usize);
    }
    result
}

/// `pthread_setcanceltype(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_setcanceltype(kind: c_int, old: Out<'_, c_int>) -> c_int {
    if kind == ASYNCHRONOUS {
        note_asynchronous();
    }
    real::pthread_setcanceltype(kind, old)
}
