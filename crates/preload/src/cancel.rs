//! Cancellation of threads (`pthread_cancel`).
//!
//! libc ends a cancelled thread by unwinding its stack from within a cancellation point,
//! which must not go through a frame that holds a lock or has something to drop, nor
//! through one that catches panics. So inside the shim nothing is a cancellation point: its
//! own system calls are made without libc's wrappers, or with cancellation `held` off.
//! A call that POSIX has as a cancellation point acts on a request at its `point`, in the
//! frame that C has called and that has nothing to drop: when it begins, and when it was
//! woken from its sleep for it with nothing done yet. `pthread_cancel` is ours (`calls::cancel`)
//! so that it can do this waking; libc would leave a thread that sleeps in our futex asleep.
//!
//! As long as no thread of the process was ever cancelled, this costs a load for each call.

use crate::results::{Returned, errno, set_errno};
use crate::user::{Out, Text};
use crate::{real, signals};
use libc::{c_int, pthread_t};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
pub(crate) const ASYNCHRONOUS: c_int = 1;

unsafe extern "C" {
    safe fn pthread_setcancelstate(state: c_int, old: Out<'_, c_int>) -> c_int;
    safe fn pthread_self() -> pthread_t;
    safe fn gnu_get_libc_version() -> Text<'static>;
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Some thread was cancelled, or may be at any instruction.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// Some thread has asked to be cancelled at any instruction.
static ASYNCHRONOUSLY: AtomicBool = AtomicBool::new(false);
/// The threads that were cancelled last.
static CANCELLED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
/// Beside a thread's name there, which is an address: libc is being asked to cancel it.
const ASKED: usize = 1;
/// How many were: the next one's place, round and round.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The name of this thread.
pub(crate) fn thread() -> usize {
    pthread_self() as usize
}

fn is_listed(thread: usize) -> bool {
    // Many programs let their threads be cancelled, and cancel none before they end.
    IN_USE.load(Ordering::Relaxed)
        && CANCELLED
            .iter()
            .take(NEXT.load(Ordering::SeqCst))
            .any(|place| place.load(Ordering::SeqCst) & !ASKED == thread)
}

/// Whether this thread was cancelled and lets that happen: it is to leave its call instead
/// of sleeping.
pub(crate) fn is_cancelled() -> bool {
    if !is_listed(thread()) {
        return false;
    }
    let mut before = ENABLE;
    pthread_setcancelstate(DISABLE, Out::from(&mut before));
    pthread_setcancelstate(before, Out::null());
    before == ENABLE
}

/// Whether a cancelled thread ends in a call that has done a part of what it was to do, which
/// is lost then. With glibc it did until 2.41.
pub(crate) fn loses_parts() -> bool {
    let version = gnu_get_libc_version().get();
    version.and_then(|v| number(v.to_str().ok()?)) < Some((2, 41))
}

/// A version's first two numbers.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// Does `work` with libc's cancellation points held off. A handler of a signal that ends the thread
/// meanwhile unwinds this frame, and is to find nothing to drop: who ends needs no cancellation.
pub(crate) fn held<T>(work: impl FnOnce() -> T) -> T {
    let mut before = ENABLE;
    pthread_setcancelstate(DISABLE, Out::from(&mut before));
    let result = work();
    pthread_setcancelstate(before, Out::null());
    result
}

/// Makes a call that is a cancellation point, and makes it again if it was given up for the
/// handler of a signal after which it is to begin anew. `call` drops what it holds before it
/// returns, and fails with EINTR if it was left for a cancellation.
#[inline(always)]
pub(crate) fn point<T: Returned>(mut call: impl FnMut() -> T) -> T {
    loop {
        let result = point_once(&mut call);
        if !(result.has_failed() && signals::is_to_restart()) {
            return result;
        }
    }
}

#[inline(always)]
fn point_once<T: Returned>(mut call: impl FnMut() -> T) -> T {
    if !IN_USE.load(Ordering::Relaxed) {
        let result = call();
        if !(result.has_failed() && IN_USE.load(Ordering::Relaxed)) {
            return result;
        }
        if !is_cancelled() {
            return result;
        }
    }
    point_in_use(call)
}

/// Ends this thread, if it was cancelled. If it goes on, it was another of the same name
/// that was, and has ended, or libc is still to learn of it.
fn end_if_cancelled() {
    if is_cancelled() {
        let me = thread();
        for place in &CANCELLED {
            let _ = place.compare_exchange(me, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }
    // SAFETY: this frame and those between it and the program have nothing to drop.
    unsafe { pthread_testcancel() };
}

#[cold]
#[inline(never)]
fn point_in_use<T: Returned>(mut call: impl FnMut() -> T) -> T {
    loop {
        end_if_cancelled();
        let mut kind = DEFERRED;
        let asynchronously = ASYNCHRONOUSLY.load(Ordering::Relaxed);
        if asynchronously {
            real::pthread_setcanceltype(DEFERRED, Out::from(&mut kind));
        }
        let result = call();
        let was_left = result.has_failed() && is_cancelled();
        if asynchronously && kind == ASYNCHRONOUS {
            let errno = errno();
            // A thread that was cancelled meanwhile ends here.
            real::pthread_setcanceltype(kind, Out::null());
            set_errno(errno);
        }
        if !was_left {
            return result;
        }
    }
}

/// Some thread is about to be cancelled, or may be.
pub(crate) fn note_use() {
    IN_USE.store(true, Ordering::SeqCst);
}

/// Some thread may be cancelled at any instruction.
pub(crate) fn note_asynchronous() {
    ASYNCHRONOUSLY.store(true, Ordering::Relaxed);
    note_use();
}

/// A request to cancel a thread, which is listed from its beginning on: since glibc 2.41 it sends
/// a signal, which ends the call that the thread sleeps in, before it returns.
pub(crate) struct Request {
    place: &'static AtomicUsize,
    thread: usize,
}

impl Request {
    /// Lists the thread, before libc is asked.
    pub(crate) fn list(thread: pthread_t) -> Self {
        let thread = thread as usize;
        let place = &CANCELLED[NEXT.fetch_add(1, Ordering::SeqCst) % CANCELLED.len()];
        place.store(thread | ASKED, Ordering::SeqCst);
        Self { place, thread }
    }

    /// libc knows now, or has refused.
    pub(crate) fn answered(self, was_done: bool) {
        let listed = if was_done { self.thread } else { 0 };
        let _ = self.place.compare_exchange(
            self.thread | ASKED,
            listed,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(number("2.36"), Some((2, 36)));
        assert_eq!(number("2.41.9000"), Some((2, 41)));
        assert!(number("2.9") < number("2.41") && number("2.41") < number("3.0"));
        assert_eq!(number("2"), None);
        assert_eq!(number("two.1"), None);
    }
}
