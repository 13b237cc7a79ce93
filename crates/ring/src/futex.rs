//! Sleeping on a word of shared memory until another thread wakes the sleepers: the
//! kernel's futex, or a model of it when loom explores all interleavings. `Waiter` and
//! `SharedLock` use it.
//!
//! The model has no timeouts. So a missing wake-up is a deadlock in the model, which loom
//! reports, and not an unnoticed delay.

#[cfg(not(loom))]
pub(crate) use kernel::{wait, wait_unless_interrupted, wake_all};
#[cfg(loom)]
pub(crate) use model::{wait, wait as wait_unless_interrupted, wake_all};

/// Why [`Waiter::sleep`](crate::Waiter::sleep) has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// It was woken, or woke up spuriously: check again.
    Yes,
    /// The timeout has expired.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

#[cfg(not(loom))]
mod kernel {
    use super::Woken;
    use crate::sync::AtomicU32;
    use rustix::io::Errno;
    use rustix::thread::futex;
    use std::time::Duration;

    /// Sleeps on `word` while it has the value `value`, for at most `timeout`.
    pub(crate) fn wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) -> Woken {
        let timeout = timespec(timeout);
        match futex::wait(word, futex::Flags::empty(), value, timeout.as_ref()) {
            Err(Errno::TIMEDOUT) => Woken::TimedOut,
            Err(Errno::INTR) => Woken::Interrupted,
            _ => Woken::Yes,
        }
    }

    /// As [`wait`], interruptible as in [`interruptible`](crate::interruptible).
    pub(crate) fn wait_unless_interrupted(
        word: &AtomicU32,
        value: u32,
        timeout: Option<Duration>,
    ) -> Woken {
        const TIMED_OUT: isize = -(Errno::TIMEDOUT.raw_os_error() as isize);
        const INTERRUPTED: isize = -(Errno::INTR.raw_os_error() as isize);
        let timeout = timespec(timeout);
        let at_most = timeout.as_ref().map_or(0, |t| std::ptr::from_ref(t).addr());
        let (at, wait) = (word.as_ptr().addr(), libc::FUTEX_WAIT as usize);
        let arguments = [at, wait, value as usize, at_most, 0, 0];
        // SAFETY: a word and a time that outlive the call.
        match unsafe { crate::interruptible(libc::SYS_futex, arguments) } {
            TIMED_OUT => Woken::TimedOut,
            INTERRUPTED => Woken::Interrupted,
            _ => Woken::Yes,
        }
    }

    fn timespec(timeout: Option<Duration>) -> Option<futex::Timespec> {
        timeout.map(|t| futex::Timespec {
            tv_sec: t.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        })
    }

    /// Wakes all threads that sleep on `word`.
    pub(crate) fn wake_all(word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(loom)]
mod model {
    use super::Woken;
    use crate::sync::{AtomicU32, Ordering};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    loom::lazy_static! {
        // One for all words: a model uses only one word.
        static ref SLEEPERS: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    pub(crate) fn wait(word: &AtomicU32, value: u32, _: Option<Duration>) -> Woken {
        let sleepers = SLEEPERS.0.lock().expect("no model panics with it");
        if word.load(Ordering::Relaxed) == value {
            drop(SLEEPERS.1.wait(sleepers));
        }
        Woken::Yes
    }

    pub(crate) fn wake_all(_: &AtomicU32) {
        let _sleepers = SLEEPERS.0.lock();
        SLEEPERS.1.notify_all();
    }
}
