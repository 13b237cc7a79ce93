//! A word on which one side sleeps until the other wakes it.
//!
//! The sleeper declares itself ([`Waiter::declare`]), checks once more whether what it
//! waits for has arrived, and only then sleeps. The waker publishes first and then checks
//! the word ([`Waiter::wake`]). With a full fence on both sides at least one of them sees
//! the other, so no wake-up is lost, and a waker whose peer is awake pays one load.
//!
//! A sleeper with an eventfd may also be parked ([`Waiter::park`]): it does not check
//! anything until its eventfd is signalled, not even what could otherwise wait until its
//! next check.

use crate::Doorbell;
use crate::futex::{self, Woken};
use crate::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

const AWAKE: u32 = 0;
/// Used beside the values of [`Sleep`].
const PARKED: u32 = 3;

/// How a sleeper sleeps, which determines how it is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Sleep {
    /// On the word itself, in `futex`.
    Futex = 1,
    /// In poll, select or epoll, on an eventfd that the waker also has.
    Eventfd = 2,
}

/// A word in shared memory on which one thread or poll set sleeps.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Waiter {
    sleeping: AtomicU32,
    /// The process that owns it; 0 if it is free.
    pub owner: AtomicU32,
}

impl Waiter {
    /// A free waiter, awake.
    pub fn new() -> Self {
        Self {
            sleeping: AtomicU32::new(AWAKE),
            owner: AtomicU32::new(0),
        }
    }

    /// Declares that its owner is about to sleep. The owner must check once more for what
    /// it waits for before it does.
    pub fn declare(&self, how: Sleep) {
        self.sleeping.store(how as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Declares that its owner checks nothing more until its eventfd is signalled. Every
    /// waker signals it from now on, until its owner withdraws this ([`Waiter::cancel`]);
    /// so a waker that dies or is stopped between the two steps of a wake-up does not
    /// prevent others from waking it. The owner must check once more before it relies on
    /// that.
    pub fn park(&self) {
        self.sleeping.store(PARKED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the declaration, since what was waited for has arrived.
    pub fn cancel(&self) {
        self.sleeping.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether it still declares that its owner sleeps.
    pub fn is_declared(&self) -> bool {
        self.sleeping.load(Ordering::Acquire) != AWAKE
    }

    /// The waker's fence, between publishing and checking waiters.
    #[inline]
    pub fn fence() {
        fence(Ordering::SeqCst);
    }

    /// Takes the sleeper's declaration, so that only one waker wakes it. Call it after
    /// [`Waiter::fence`]. `None` if its owner is awake, or parked.
    pub fn take(&self) -> Option<Sleep> {
        let seen = self.sleeping.load(Ordering::Relaxed);
        if seen == AWAKE || seen == PARKED {
            return None;
        }
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let taken = self
            .sleeping
            .compare_exchange(seen, AWAKE, success, failure);
        match taken {
            Ok(2) => Some(Sleep::Eventfd),
            Ok(_) => Some(Sleep::Futex),
            // It has checked since the waker published: when it woke, or before it was
            // parked.
            Err(_) => None,
        }
    }

    /// Wakes its owner if it sleeps or is parked; returns whether it did. Call it after
    /// [`Waiter::fence`]. `doorbell` is the eventfd of this waiter, if it has one.
    pub fn wake(&self, doorbell: Option<&Doorbell>) -> bool {
        if let Some(doorbell) = doorbell
            && self.wake_parked(doorbell)
        {
            return true;
        }
        match self.take() {
            None => false,
            Some(Sleep::Eventfd) => {
                if let Some(doorbell) = doorbell {
                    doorbell.ring();
                }
                true
            }
            Some(Sleep::Futex) => {
                self.wake_futex();
                true
            }
        }
    }

    /// For events that can wait until the owner's next check: wakes it only if it is
    /// parked.
    pub fn wake_parked(&self, doorbell: &Doorbell) -> bool {
        let is_parked = self.sleeping.load(Ordering::Relaxed) == PARKED;
        if is_parked {
            doorbell.ring();
        }
        is_parked
    }

    /// Wakes a sleeper on the word, whose declaration was taken.
    pub fn wake_futex(&self) {
        futex::wake_all(&self.sleeping);
    }

    /// Sleeps on the word for at most `timeout`, unless the declaration was taken.
    pub fn sleep(&self, timeout: Option<Duration>) -> Woken {
        futex::wait(&self.sleeping, Sleep::Futex as u32, timeout)
    }

    /// As [`sleep`](Self::sleep), unless a handler was postponed in this thread's section
    /// ([`interruptible`](crate::interruptible)).
    pub fn sleep_unless_interrupted(&self, timeout: Option<Duration>) -> Woken {
        futex::wait_unless_interrupted(&self.sleeping, Sleep::Futex as u32, timeout)
    }
}

impl Default for Waiter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::testing::{LONG, while_asleep};

    #[test]
    fn a_waker_whose_peer_is_awake_wakes_nobody() {
        let w = Waiter::new();
        assert!(!w.wake(None));
        w.declare(Sleep::Futex);
        assert!(w.wake(None));
        assert!(!w.wake(None));
        assert_eq!(w.sleep(None), Woken::Yes);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it reads an eventfd")]
    fn one_that_is_parked_is_rung_for_until_it_has_looked() {
        let (w, doorbell) = (Waiter::new(), Doorbell::new().unwrap());
        let rung = || {
            let mut count = [0; 8];
            rustix::io::read(&doorbell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        assert!(!w.wake_parked(&doorbell));
        w.declare(Sleep::Eventfd);
        assert!(
            !w.wake_parked(&doorbell),
            "what can wait waits for a sleeper"
        );
        w.park();
        assert_eq!(w.take(), None, "nobody takes it");
        assert!(w.wake_parked(&doorbell) && w.wake(Some(&doorbell)) && w.is_declared());
        assert_eq!(rung(), 2);
        w.cancel();
        assert!(!w.wake_parked(&doorbell) && !w.wake(Some(&doorbell)));
        assert_eq!(rung(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it reads an eventfd")]
    fn one_that_sleeps_on_an_eventfd_is_rung_for_once() {
        let (w, doorbell) = (Waiter::new(), Doorbell::new().unwrap());
        w.declare(Sleep::Eventfd);
        assert!(w.is_declared());
        assert!(w.wake(Some(&doorbell)) && !w.is_declared());
        assert!(!w.wake(Some(&doorbell)));
        let mut count = [0; 8];
        rustix::io::read(&doorbell, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    const SLEEPS: [fn(&Waiter, Option<Duration>) -> Woken; 2] =
        [Waiter::sleep, Waiter::sleep_unless_interrupted];

    #[test]
    #[cfg_attr(miri, ignore = "looks at the kernel's threads")]
    fn one_that_sleeps_on_the_word_is_woken() {
        for sleep in SLEEPS {
            for at_most in [None, Some(LONG)] {
                let w = Waiter::new();
                w.declare(Sleep::Futex);
                let woken = while_asleep(|| sleep(&w, at_most), |_| assert!(w.wake(None)));
                assert_eq!(woken, Woken::Yes);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "futex timeouts are the kernel's")]
    fn a_sleep_ends_with_its_time() {
        let w = Waiter::new();
        w.declare(Sleep::Futex);
        for sleep in SLEEPS {
            assert_eq!(sleep(&w, Some(Duration::from_millis(1))), Woken::TimedOut);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no signals")]
    fn a_sleep_ends_when_a_handler_runs() {
        extern "C" fn nothing(_: libc::c_int) {}
        // One that nothing else here uses.
        let signal = libc::SIGRTMAX() - 3;
        // SAFETY: all zeros is an action without flags; the handler does nothing.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        assert_eq!(failed, 0);
        for sleep in SLEEPS {
            let w = Waiter::new();
            w.declare(Sleep::Futex);
            let woken = while_asleep(
                || sleep(&w, Some(LONG)),
                |thread| {
                    let (process, thread) = (std::process::id(), thread.as_raw_nonzero().get());
                    // SAFETY: it has a handler.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
                },
            );
            assert_eq!(woken, Woken::Interrupted);
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn nobody_sleeps_who_has_a_handler_to_run() {
        let w = Waiter::new();
        w.declare(Sleep::Futex);
        crate::section(|own| own.postpone(10));
        assert_eq!(w.sleep_unless_interrupted(Some(LONG)), Woken::Interrupted);
        crate::section(|own| own.postpone(0));
    }
}
