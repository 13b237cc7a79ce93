//! Sleeping for an instance: a thread that does says so to the engine, for the instance and for those in
//! it, and is woken by their eventfds.
//!
//! An instance outlives its descriptors while a thread waits in it, as the kernel's does: the
//! thread is notified of what comes although another has closed the last of them.
//!
//! Called by `epoll_wait`, `poll` and `select`.

use super::Instance;
use super::apart::WaitTarget;
use crate::place;
use longshore_sockets::{ReadySet, SocketError};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// A thread that sleeps for an instance, while this lives.
pub(crate) struct Asleep {
    instance: &'static Instance,
    sets: Vec<ReadySet>,
    /// So many of them know of it.
    declared: usize,
    target: Option<WaitTarget>,
    /// Whether the engine can wake the thread.
    pub(crate) is_watched: bool,
}

/// Threads that wait in an instance.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// For the engine as well; each of them counts as a descriptor of the instance.
    inside: AtomicU32,
    /// In the kernel alone, since they began before anything of the engine's was in it. One that a
    /// handler of a signal has led away stays counted.
    in_kernel: AtomicU32,
}

impl Waiters {
    /// In a child, where none of them is: how many there were that count as descriptors.
    pub(super) fn leave(&self) -> u32 {
        self.in_kernel.store(0, Ordering::Relaxed);
        self.inside.swap(0, Ordering::AcqRel)
    }
}

/// A thread that waits in an instance, while this lives.
pub(crate) struct Inside(&'static Instance);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.waiters.inside.fetch_sub(1, Ordering::AcqRel);
        self.0.drop_descriptor();
    }
}

impl Instance {
    /// Keeps the instance for a thread that waits in it.
    pub(crate) fn enter_to_wait(&'static self) -> Inside {
        self.add_descriptor();
        self.waiters.inside.fetch_add(1, Ordering::AcqRel);
        Inside(self)
    }

    /// Has this thread wait in the kernel, where nothing of the engine's is in the instance yet.
    pub(crate) fn wait_in_kernel<T>(&self, wait: impl FnOnce() -> T) -> T {
        let in_kernel = &self.waiters.in_kernel;
        in_kernel.fetch_add(1, Ordering::AcqRel);
        let result = wait();
        let less = |n: u32| n.checked_sub(1);
        _ = in_kernel.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        result
    }

    /// A thread that does not sleep was told by the kernel that the eventfd was written to, which
    /// the kernel says once: that is said to those who do sleep.
    pub(crate) fn hand_on(&self) {
        let Some(set) = self.set() else { return };
        if self.waiters.in_kernel.load(Ordering::Acquire) != 0 {
            let _ = set.ring();
        } else {
            set.hand_on();
        }
    }

    /// Declares that this thread sleeps for the instance and for those in it.
    ///
    /// # Errors
    /// If no eventfd can be had, or a signal handler has interrupted this thread in the middle
    /// of it.
    pub(crate) fn fall_asleep(&'static self) -> Result<Asleep, SocketError> {
        let mut asleep = Asleep {
            instance: self,
            sets: Vec::new(),
            declared: 0,
            target: None,
            is_watched: true,
        };
        if let Some(host) = place::attached() {
            let within = self.all_within()?;
            for (of, set) in self.having_sets(&within) {
                asleep.is_watched &= of.prepare_wake_fd(host, &set)?;
                asleep.sets.push(set);
            }
            asleep.is_watched &= self.watch_nested(host, &within)?;
        }
        for set in &asleep.sets {
            set.declare()?;
            asleep.declared += 1;
        }
        let target = self.wait_target();
        asleep.is_watched &= target.is_watched;
        asleep.target = Some(target);
        Ok(asleep)
    }
}

impl Asleep {
    /// The descriptor to sleep on in the kernel.
    pub(crate) fn fd(&self) -> RawFd {
        self.target
            .as_ref()
            .map_or_else(|| self.instance.epfd(), WaitTarget::fd)
    }

    /// Whether that is not the instance that the program made.
    pub(crate) fn is_own(&self) -> bool {
        self.target.as_ref().is_some_and(WaitTarget::is_own)
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        self.target = None;
        for set in self.sets.iter().take(self.declared) {
            set.awake();
        }
    }
}
