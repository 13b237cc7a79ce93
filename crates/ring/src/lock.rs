//! A lock in shared memory that survives the death of its holder.
//!
//! Several threads and processes of one session may use the same socket; what
//! one call does to a stream is done under this lock. The word holds the
//! holder's thread id. Whoever waits for long looks whether that thread still
//! lives and takes the lock over if it does not: all that is done under it only
//! moves edges forward, so what the dead one left half done is safe to redo.

use crate::futex;
use crate::sync::{AtomicU32, Ordering, hint};
use std::cell::Cell;
use std::time::Duration;

const FREE: u32 = 0;
/// Set beside the holder's id when somebody sleeps for the lock.
const WAITED_FOR: u32 = 1 << 31;
/// Looks at the lock before sleeping for it.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };
/// How long to sleep before looking whether the holder still lives.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

#[cfg(not(loom))]
thread_local! {
    static THREAD_ID: Cell<u32> = const { Cell::new(0) };
}
#[cfg(loom)]
loom::thread_local! {
    static THREAD_ID: Cell<u32> = Cell::new(0);
}

fn thread_id() -> u32 {
    THREAD_ID.with(|id| {
        if id.get() == 0 {
            id.set(new_thread_id());
        }
        id.get()
    })
}

#[cfg(not(loom))]
fn new_thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// All threads of a model are one of the kernel's.
#[cfg(loom)]
fn new_thread_id() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(DEAD + 1);
    NEXT.fetch_add(1, Ordering::Relaxed) & !WAITED_FOR
}

/// The thread of a model that has died.
#[cfg(loom)]
const DEAD: u32 = 1;

/// Forgets the cached id of this thread: a child of `fork` has another.
pub fn forget_thread_id() {
    THREAD_ID.with(|id| id.set(0));
}

/// This thread holds the lock already: a signal handler interrupted it inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

/// The lock. All zero is free.
#[repr(transparent)]
#[derive(Debug)]
pub struct SharedLock(AtomicU32);

impl SharedLock {
    /// A free lock.
    pub fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// A lock that a thread has with which it died, while another slept for it.
    #[cfg(loom)]
    pub fn left_by_the_dead() -> Self {
        Self(AtomicU32::new(DEAD | WAITED_FOR))
    }

    /// Takes the lock, waiting for it as long as its holder lives.
    ///
    /// # Errors
    /// [`Reentered`] if this very thread holds it.
    pub fn lock(&self) -> Result<Locked<'_>, Reentered> {
        let me = thread_id();
        match self
            .0
            .compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(Locked(self)),
            Err(_) => self.lock_slowly(me),
        }
    }

    /// Frees the lock in a child of `fork` that has a copy of it, where its holder is not.
    /// Says whether there was one.
    pub fn free_in_child(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) != FREE
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        self.0
            .compare_exchange(FREE, thread_id(), Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Locked(self))
    }

    #[cold]
    fn lock_slowly(&self, me: u32) -> Result<Locked<'_>, Reentered> {
        loop {
            for _ in 0..SPINS {
                let word = self.0.load(Ordering::Relaxed);
                if word & !WAITED_FOR == me {
                    return Err(Reentered);
                }
                if word == FREE
                    && self
                        .0
                        .compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    return Ok(Locked(self));
                }
                hint::spin_loop();
            }
            let word = self.0.load(Ordering::Relaxed);
            if word == FREE {
                continue;
            }
            let owner = word & !WAITED_FOR;
            if !lives(owner)
                && self
                    .0
                    .compare_exchange(word, me, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Ok(Locked(self));
            }
            let waited = owner | WAITED_FOR;
            if word == waited
                || self
                    .0
                    .compare_exchange(word, waited, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                futex::wait(&self.0, waited, Some(LONGEST_SLEEP));
            }
        }
    }
}

impl Default for SharedLock {
    fn default() -> Self {
        Self::new()
    }
}

/// The lock, held until this goes.
#[derive(Debug)]
pub struct Locked<'a>(&'a SharedLock);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if self.0.0.swap(FREE, Ordering::Release) & WAITED_FOR != 0 {
            futex::wake_all(&self.0.0);
        }
    }
}

/// Whether a thread of this id exists (in this pid namespace).
#[cfg(loom)]
fn lives(id: u32) -> bool {
    id != DEAD
}

/// Whether a thread of this id exists (in this pid namespace).
#[cfg(not(loom))]
fn lives(id: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    if crate::is_confined() {
        // It cannot be asked; if it is dead, another process finds out.
        return true;
    }
    match Pid::from_raw(id as i32) {
        Some(pid) => test_kill_process(pid) != Err(rustix::io::Errno::SRCH),
        None => false,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_holds_it_is_told_so() {
        let lock = SharedLock::new();
        let held = lock.lock().unwrap();
        assert_eq!(lock.lock().err(), Some(Reentered));
        drop(held);
        assert!(lock.lock().is_ok());
    }

    #[test]
    fn a_child_frees_what_another_thread_held() {
        let lock = SharedLock::new();
        assert!(!lock.free_in_child());
        std::mem::forget(lock.lock().unwrap());
        assert!(lock.free_in_child());
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn it_is_not_waited_for_by_who_only_tries() {
        let lock = SharedLock::new();
        let held = lock.try_lock();
        assert!(held.is_some() && lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel which threads live")]
    fn a_dead_holders_lock_is_taken_over() {
        let lock = SharedLock::new();
        std::thread::scope(|s| {
            s.spawn(|| std::mem::forget(lock.lock().unwrap()));
        });
        assert!(lock.lock().is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel which threads live")]
    fn it_excludes() {
        let (lock, inside) = (SharedLock::new(), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..5_000 {
                        let _held = lock.lock().unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
    }
}
