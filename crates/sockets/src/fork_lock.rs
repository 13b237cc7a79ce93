//! A lock private to one process that a signal handler cannot deadlock on, and
//! that can be carried across `fork`.
//!
//! The child of a fork has one thread, with the locks as they were. So the
//! forking thread takes them all before, and lets go of them on both sides.

use longshore_ring::{Locked, Reentered, SharedLock};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// That the process has this thread alone, which is inside of nothing that a [`ForkLock`] guards:
/// that of a child which was just made.
#[derive(Debug)]
pub struct OnlyThread(PhantomData<*const ()>);

impl OnlyThread {
    /// Says so.
    ///
    /// # Safety
    /// It is so, for as long as the result lives.
    pub unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// A value behind a lock.
#[derive(Debug, Default)]
pub struct ForkLock<T> {
    lock: SharedLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached by the thread that holds the lock.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    /// The value, with nobody inside.
    pub fn new(value: T) -> Self {
        Self {
            lock: SharedLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`Reentered`] if a signal handler interrupted this very thread while it
    /// was inside.
    pub fn enter(&self) -> Result<ForkGuard<'_, T>, Reentered> {
        Ok(ForkGuard {
            _lock: self.lock.lock()?,
            value: &self.value,
        })
    }

    /// In the child of a fork across which it was not carried: nobody is inside. What a
    /// thread that is not there any more had half done is replaced by `anew`, and not dropped.
    pub fn recover(&self, _: &OnlyThread, anew: impl FnOnce() -> T) {
        if self.lock.free_in_child() {
            // SAFETY: no other thread is there, and this one is not inside: nobody has a reference.
            unsafe { self.value.get().write(anew()) };
        }
    }

    /// As `recover`, where the value is `anew` in any case.
    pub fn replace(&self, _: &OnlyThread, anew: T) {
        let was_held = self.lock.free_in_child();
        // SAFETY: as above.
        unsafe {
            if was_held {
                self.value.get().write(anew);
            } else {
                *self.value.get() = anew;
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_enter(&self) -> Option<ForkGuard<'_, T>> {
        Some(ForkGuard {
            _lock: self.lock.try_lock()?,
            value: &self.value,
        })
    }
}

/// The value, locked until this goes.
#[derive(Debug)]
pub struct ForkGuard<'a, T> {
    _lock: Locked<'a>,
    value: &'a UnsafeCell<T>,
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the lock is ours, so nobody else has a reference.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and we are borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}

#[cfg(test)]
mod tests;
