//! `pthread_cancel`, `pthread_setcanceltype`: ours so that a thread that sleeps in the shim is
//! woken when it is cancelled.

use crate::cancel::{ASYNCHRONOUS, note_asynchronous, note_cancelled, note_use};
use crate::user::Out;
use crate::{place, real, state};
use libc::{c_int, pthread_t};

/// `pthread_cancel(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    if state::is_off() {
        return real::pthread_cancel(thread);
    }
    note_use();
    // If it is this thread, it may end here.
    let result = real::pthread_cancel(thread);
    if result == 0 {
        note_cancelled(thread);
        if let Some(host) = place::attached() {
            host.threads().wake_thread(thread as usize);
        }
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
