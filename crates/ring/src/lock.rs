//! A lock in shared memory that survives the death of its holder.
//!
//! Several threads and processes of one session may use the same socket; each call's work
//! on a stream is done under this lock. The word contains the holder's thread id. A
//! thread that has waited for long checks whether the holder is alive and takes the lock
//! over if it is not: all work under the lock only moves edges forward, so half-finished
//! work is safe to redo.
//!
//! The other side of the shared memory never holds the lock, since neither side may wait
//! for the other. It may still take what is not needed while no call is in progress: it
//! makes an [`Offer`] on a free lock and, if no thread has taken the lock meanwhile,
//! completes it. The next thread that locks is notified ([`Locked::is_taken`]), also if
//! the thread that was notified first has died.

use crate::futex;
use crate::sync::{AtomicU32, Ordering, hint};
use std::cell::Cell;
use std::time::Duration;

const FREE: u32 = 0;
/// Set with the holder's id when a thread sleeps for the lock.
const WAITED_FOR: u32 = 1 << 31;
/// The other side is about to take what the lock protects. Only set in a free lock.
const OFFERED: u32 = 1 << 30;
/// The other side has taken it, and no holder has noted that yet. May be set with a
/// holder's id.
const TAKEN: u32 = 1 << 29;
/// The bits of a thread id (it is less than 2^22, `PID_MAX_LIMIT`).
const HOLDER: u32 = TAKEN - 1;
/// How often the lock is tried before sleeping for it.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };
/// How long to sleep before checking whether the holder is alive.
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

/// All threads of a model are one thread of the kernel.
#[cfg(loom)]
fn new_thread_id() -> u32 {
    use std::sync::atomic::AtomicU32;
    static NEXT: AtomicU32 = AtomicU32::new(DEAD + 1);
    NEXT.fetch_add(1, Ordering::Relaxed) & HOLDER
}

/// A thread of a model that died before it began.
#[cfg(loom)]
const DEAD: u32 = 1;

/// The thread of a model that died last.
#[cfg(loom)]
static DIED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(DEAD);

/// The model's current thread dies, and another continues in its place.
#[cfg(loom)]
pub fn die() {
    DIED.store(thread_id(), Ordering::Relaxed);
    forget_thread_id();
}

/// Discards the cached thread id: a child of `fork` has another one.
pub fn forget_thread_id() {
    THREAD_ID.with(|id| id.set(0));
}

/// This thread already holds the lock: a signal handler interrupted it inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reentered;

/// The lock. An all-zero lock is free.
#[repr(transparent)]
#[derive(Debug)]
pub struct SharedLock(AtomicU32);

impl SharedLock {
    /// A free lock.
    pub fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// A lock whose holder has died while another thread slept for it.
    #[cfg(loom)]
    pub fn left_by_the_dead() -> Self {
        Self(AtomicU32::new(DEAD | WAITED_FOR))
    }

    /// Takes the lock, and waits for it as long as its holder is alive.
    ///
    /// # Errors
    /// [`Reentered`] if the calling thread holds it.
    pub fn lock(&self) -> Result<Locked<'_>, Reentered> {
        let me = thread_id();
        match self
            .0
            .compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => Ok(Locked {
                lock: self,
                taken: false,
            }),
            Err(_) => self.lock_slowly(me),
        }
    }

    /// Frees the copy of the lock in a child of `fork`, where its holder does not exist.
    /// Returns whether there was a holder.
    pub fn free_in_child(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) != FREE
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        self.0
            .compare_exchange(FREE, thread_id(), Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Locked {
                lock: self,
                taken: false,
            })
    }

    /// Begins to take what the lock protects, from the other side of the memory. `None`
    /// if a call is in progress, or it was taken before.
    pub fn offer(&self) -> Option<Offer<'_>> {
        self.0
            .compare_exchange(FREE, OFFERED, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Offer(self))
    }

    /// Whether it was taken, and no holder has noted that yet.
    pub fn is_taken(&self) -> bool {
        self.0.load(Ordering::Acquire) & TAKEN != 0
    }

    /// Clears a free lock's mark of having been taken, for reuse.
    pub fn forget_taken(&self) {
        let _ = self
            .0
            .compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Makes this thread the holder in place of the one in `word`. Threads that slept for
    /// a dead holder's lock now sleep for this thread's.
    fn succeed(&self, word: u32, me: u32) -> Option<Locked<'_>> {
        let marks = word & (TAKEN | WAITED_FOR);
        self.0
            .compare_exchange(word, me | marks, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Locked {
                lock: self,
                taken: marks & TAKEN != 0,
            })
    }

    #[cold]
    fn lock_slowly(&self, me: u32) -> Result<Locked<'_>, Reentered> {
        loop {
            for _ in 0..SPINS {
                let word = self.0.load(Ordering::Relaxed);
                if word & HOLDER == me {
                    return Err(Reentered);
                }
                if word & HOLDER == FREE
                    && let Some(locked) = self.succeed(word, me)
                {
                    return Ok(locked);
                }
                hint::spin_loop();
            }
            let word = self.0.load(Ordering::Relaxed);
            let owner = word & HOLDER;
            if owner == FREE {
                continue;
            }
            if !is_alive(owner)
                && let Some(locked) = self.succeed(word, me)
            {
                return Ok(locked);
            }
            let waited = word | WAITED_FOR;
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

/// The lock, held until this value is dropped.
#[derive(Debug)]
pub struct Locked<'a> {
    lock: &'a SharedLock,
    taken: bool,
}

impl Locked<'_> {
    /// Whether the other side has taken what the lock protects ([`Offer`]), which the
    /// holder must note. Noting it twice must be harmless.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.taken
    }

    /// The holder has noted it.
    pub fn note_taken(&mut self) {
        self.lock.0.fetch_and(!TAKEN, Ordering::AcqRel);
        self.taken = false;
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let mark = if self.taken { TAKEN } else { FREE };
        if self.lock.0.swap(mark, Ordering::Release) & WAITED_FOR != 0 {
            futex::wake_all(&self.lock.0);
        }
    }
}

/// An offer to take what a lock protects; withdrawn when it is dropped.
#[derive(Debug)]
pub struct Offer<'a>(&'a SharedLock);

impl Offer<'_> {
    /// Takes it, unless a call has begun; returns whether it was taken. If so, what was
    /// read since the offer has not changed.
    pub fn take(self) -> bool {
        self.0
            .0
            .compare_exchange(OFFERED, TAKEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        // The mark is gone if it was taken, or a call came first.
        let _ = self
            .0
            .0
            .compare_exchange(OFFERED, FREE, Ordering::Release, Ordering::Relaxed);
    }
}

/// Whether a thread with this id exists (in this pid namespace).
#[cfg(loom)]
fn is_alive(id: u32) -> bool {
    id != DEAD && id != DIED.load(Ordering::Relaxed)
}

/// Whether a thread with this id exists (in this pid namespace).
#[cfg(not(loom))]
fn is_alive(id: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    if crate::is_confined() {
        // The kernel cannot be asked; if the thread is dead, another process detects it.
        return true;
    }
    match Pid::from_raw(id as i32) {
        Some(pid) => test_kill_process(pid) != Err(rustix::io::Errno::SRCH),
        None => false,
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
