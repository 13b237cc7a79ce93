//! The waiter on which each thread of this process sleeps, for a thread that has to wake one
//! without the engine: `pthread_cancel`, and what one thread does to a socket that another
//! waits for.
//!
//! A place belongs to a thread for as long as it has a waiter. Places are used again and
//! never freed, so that they can be looked through without a lock.

use super::Threads;
use crate::grow_only::GrowOnly;
use longshore_ring::{Sleep, Waiter};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

static PLACES: GrowOnly<Place> = GrowOnly::new();
const NOBODY: usize = 0;
/// A thread is about to enter itself.
const SOMEBODY: usize = usize::MAX;
const NO_WAKE_FD: RawFd = -1;
/// How often a thread that ends looks whether those that are about to wake it have done so.
const LOOKS: u32 = 1000;

/// Where one thread sleeps.
#[derive(Debug)]
pub(crate) struct Place {
    thread: AtomicUsize,
    waiter: AtomicU32,
    /// The forks between the process that joined and the one whose thread this is: in a child,
    /// the threads of its parent are not there.
    epoch: AtomicU32,
    wake_fd: AtomicI32,
    /// Threads that are about to wake this one: until they have, neither its waiter nor
    /// its eventfd becomes another's.
    wakers: AtomicU32,
}

impl Place {
    /// The place of `thread`, which sleeps on `waiter`, in the process of this epoch.
    pub(crate) fn take(thread: usize, waiter: u32, epoch: u32) -> &'static Self {
        let free = PLACES.iter().find(|p| {
            p.wakers.load(Ordering::Relaxed) == 0
                && p.thread
                    .compare_exchange(NOBODY, SOMEBODY, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        let place = free.unwrap_or_else(|| {
            PLACES.push(Self {
                thread: AtomicUsize::new(SOMEBODY),
                waiter: AtomicU32::new(waiter),
                epoch: AtomicU32::new(epoch),
                wake_fd: AtomicI32::new(NO_WAKE_FD),
                wakers: AtomicU32::new(0),
            })
        });
        place.waiter.store(waiter, Ordering::Relaxed);
        place.epoch.store(epoch, Ordering::Relaxed);
        place.wake_fd.store(NO_WAKE_FD, Ordering::Relaxed);
        place.thread.store(thread, Ordering::SeqCst);
        place
    }

    /// Whether a thread of the process of this epoch has entered itself.
    fn is_of(&self, epoch: u32) -> bool {
        !matches!(self.thread.load(Ordering::SeqCst), NOBODY | SOMEBODY)
            && self.epoch.load(Ordering::Relaxed) == epoch
    }

    /// The thread has an eventfd for its waiter.
    pub(crate) fn set_wake_fd(&self, wake_fd: RawFd) {
        self.wake_fd.store(wake_fd, Ordering::Release);
    }

    /// The thread, of the process of this epoch, gives its waiter and its eventfd back. Says whether
    /// they may be another's now: not while a waker may still write to what is at the eventfd's
    /// number then. It is waited for, but not for ever, as it may have been cancelled.
    pub(crate) fn leave(&self, epoch: u32) -> bool {
        self.thread.store(NOBODY, Ordering::SeqCst);
        for _ in 0..LOOKS {
            if self.wakers.load(Ordering::SeqCst) == 0 {
                return true;
            }
            rustix::thread::sched_yield();
        }
        // A waker that was interrupted by a fork is not there in the child.
        let is_of_parent = self.epoch.load(Ordering::Relaxed) != epoch;
        if is_of_parent {
            self.wakers.store(0, Ordering::Relaxed);
        }
        is_of_parent
    }
}

impl Threads {
    /// Wakes a thread of this process, by the name that [`Hooks::thread`] gives it, if it
    /// waits for the engine. Others that wait in a ready set look again, and go on.
    ///
    /// [`Hooks::thread`]: crate::Hooks::thread
    pub fn wake_thread(self, thread: usize) {
        self.wake_where(|place| place.thread.load(Ordering::SeqCst) == thread);
        if let Ok(ready_sets) = self.host.ready_sets.enter() {
            for set in 0..ready_sets.sets.len() as u32 {
                ready_sets.ring(&self.host.session, set);
            }
        }
    }

    /// Wakes the thread of this process that sleeps on a waiter, if one does.
    pub(crate) fn wake_waiter(self, waiter: u32) {
        self.wake_where(|place| place.waiter.load(Ordering::Relaxed) == waiter);
    }

    /// Wakes the sleeper of a waiter: a thread of this process, however it sleeps. One of another
    /// process has its eventfd there, and is told by the engine; in futex it looks again.
    pub(crate) fn wake_sleeper(self, index: u32, waiter: &Waiter) {
        if waiter.owner.load(Ordering::Relaxed) == self.host.identity.pid() {
            self.wake_waiter(index);
        } else {
            waiter.wake_futex();
        }
    }

    fn wake_where(self, is_meant: impl Fn(&Place) -> bool) {
        let epoch = self.host.identity.epoch();
        for place in PLACES.iter() {
            place.wakers.fetch_add(1, Ordering::SeqCst);
            if place.is_of(epoch) && is_meant(place) {
                self.wake_at(place);
            }
            place.wakers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn wake_at(self, place: &Place) {
        let index = place.waiter.load(Ordering::Relaxed);
        let Some(waiter) = self.host.session.waiters().get(index) else {
            return;
        };
        Waiter::fence();
        match waiter.take() {
            Some(Sleep::Futex) => waiter.wake_futex(),
            Some(Sleep::Eventfd) => {
                let wake_fd = place.wake_fd.load(Ordering::Acquire);
                if wake_fd != NO_WAKE_FD {
                    // SAFETY: its owner keeps it open while there are wakers.
                    let wake_fd = unsafe { BorrowedFd::borrow_raw(wake_fd) };
                    let _ = rustix::io::write(wake_fd, &1u64.to_ne_bytes());
                }
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Hooks;
    use crate::host::Host;
    use crate::testing::Engine;
    use crate::testing::fixture::engine;
    use longshore_ring::Woken;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    /// A thread that gets the place of one that has ended has nothing of that there.
    #[test]
    fn a_place_that_is_used_again_is_of_its_new_thread_alone() {
        let first = Place::take(1_001, 5, 2);
        first.set_wake_fd(9);
        assert!(first.leave(2));
        let second = Place::take(1_002, 6, 3);
        let words = (
            second.thread.load(Ordering::Relaxed),
            second.waiter.load(Ordering::Relaxed),
            second.epoch.load(Ordering::Relaxed),
            second.wake_fd.load(Ordering::Relaxed),
        );
        assert_eq!(words, (1_002, 6, 3, NO_WAKE_FD));
        assert!(second.leave(3));
    }

    /// In a child, the waiter on which a thread of its parent slept may be another's.
    #[test]
    fn no_thread_is_woken_that_a_parent_has_or_that_has_no_waiter_yet() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        // Not one that the threads of other tests have.
        let index = host.session.waiters().claim(host.identity.pid(), 200);
        let index = index.unwrap();
        let waiter = host.session.waiters().get(index).unwrap();
        let epoch = host.identity.epoch();
        let own = 0x7007;
        for (thread, epoch, is_woken) in [
            (own, epoch.wrapping_sub(1), false),
            (SOMEBODY, epoch, false),
            (NOBODY, epoch, false),
            (own, epoch, true),
        ] {
            let place = Place::take(thread, index, epoch);
            waiter.declare(Sleep::Futex);
            host.threads().wake_waiter(index);
            assert_eq!(waiter.is_declared(), !is_woken, "{thread:#x} {epoch}");
            assert!(place.leave(host.identity.epoch()));
        }
    }

    #[test]
    fn a_thread_that_sleeps_in_poll_is_woken_by_its_eventfd() {
        let (_engine, host, _directory) = engine();
        let (threads, epoch) = (host.threads(), host.identity.epoch());
        let index = host.session.waiters().claim(host.identity.pid(), 210);
        let index = index.unwrap();
        let waiter = host.session.waiters().get(index).unwrap();
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake_fd = eventfd(0, flags).unwrap();
        let has_rung = || rustix::io::read(&wake_fd, &mut [0; 8]).is_ok();
        let own = 0x7008;
        let place = Place::take(own, index, epoch);
        // It has none yet, and looks again.
        waiter.declare(Sleep::Eventfd);
        threads.wake_waiter(index);
        assert!(!waiter.is_declared() && !has_rung());
        place.set_wake_fd(wake_fd.as_raw_fd());
        for by_name in [true, false] {
            waiter.declare(Sleep::Eventfd);
            threads.wake_thread(own + 1);
            threads.wake_waiter(index + 1);
            assert!(waiter.is_declared() && !has_rung());
            let wake = || match by_name {
                true => threads.wake_thread(own),
                false => threads.wake_sleeper(index, waiter),
            };
            wake();
            assert!(!waiter.is_declared() && has_rung());
            // It is awake.
            wake();
            assert!(!has_rung());
        }
        // Another process has the eventfd of its threads.
        let pid = waiter.owner.swap(u32::MAX, Ordering::Relaxed);
        waiter.declare(Sleep::Eventfd);
        threads.wake_sleeper(index, waiter);
        assert!(!has_rung());
        waiter.owner.store(pid, Ordering::Relaxed);
        assert!(place.leave(epoch));
        threads.wake_thread(own);
        threads.wake_waiter(index);
        assert!(waiter.is_declared() && !has_rung(), "it has left");
    }

    /// One of another process that sleeps on its word looks again.
    #[test]
    fn a_sleeper_of_another_process_is_woken_in_futex() {
        let (_engine, host, _directory) = engine();
        let index = host.session.waiters().claim(u32::MAX, 220).unwrap();
        let waiter = host.session.waiters().get(index).unwrap();
        waiter.declare(Sleep::Futex);
        let longest = Some(Duration::from_secs(10));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| waiter.sleep(longest));
            while !sleeper.is_finished() {
                host.threads().wake_sleeper(index, waiter);
                std::thread::yield_now();
            }
            assert_eq!(sleeper.join().unwrap(), Woken::Yes);
        });
    }

    static DISCARDED: AtomicUsize = AtomicUsize::new(0);

    fn discard(fd: OwnedFd) {
        DISCARDED.fetch_add(1, Ordering::SeqCst);
        drop(fd);
    }

    /// A thread that is about to wake another may write to its eventfd until it is through: by then
    /// another file could have that number, and would have eight bytes that are not its own.
    #[test]
    fn what_a_thread_sleeps_on_is_no_others_while_somebody_may_wake_it() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let hooks = Hooks {
            discard,
            ..Hooks::default()
        };
        let host = Host::join(engine.path(), engine.token(), hooks).unwrap();
        // A thread that ends so; its place, the wakers there, and how many eventfds were given
        // back.
        let end = |wakers: u32, forks: u32| {
            let own = move || {
                let (index, _) = host.threads().thread_eventfd().unwrap();
                let epoch = host.identity.epoch();
                let is_own =
                    |p: &&Place| p.waiter.load(Ordering::Relaxed) == index && p.is_of(epoch);
                let place = PLACES.iter().find(is_own).unwrap();
                let before = epoch.wrapping_sub(forks);
                place.epoch.store(before, Ordering::Relaxed);
                place.wakers.store(wakers, Ordering::SeqCst);
                place
            };
            let before = DISCARDED.load(Ordering::SeqCst);
            let place = std::thread::spawn(own).join().unwrap();
            let discarded = DISCARDED.load(Ordering::SeqCst) - before;
            (place, place.wakers.load(Ordering::SeqCst), discarded)
        };
        let (_, wakers, discarded) = end(0, 0);
        assert_eq!((wakers, discarded), (0, 1));
        let (place, wakers, discarded) = end(1, 0);
        assert_eq!((wakers, discarded), (1, 0));
        let wake_fd = place.wake_fd.load(Ordering::Acquire);
        // SAFETY: what is asked of the number is whether it is a descriptor.
        let wake_fd = unsafe { BorrowedFd::borrow_raw(wake_fd) };
        assert!(rustix::io::fcntl_getfd(wake_fd).is_ok(), "it is not closed");
        let other = Place::take(0x7011, 1, 0);
        assert!(!std::ptr::eq(place, other), "nor is the place another's");
        assert!(other.leave(0));
        place.wakers.store(0, Ordering::SeqCst);
        // A waker that a fork has left behind goes on in the parent alone.
        let (_, wakers, discarded) = end(1, 1);
        assert_eq!((wakers, discarded), (0, 1));
    }
}
