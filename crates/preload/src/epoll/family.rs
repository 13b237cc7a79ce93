//! Epoll instances that a child has inherited which was made without our knowing, by a system
//! call that nobody catches.
//!
//! Its parent still sleeps in the instance that the program made, with its eventfd in it
//! (`apart.rs`), which the kernel reports to whoever asks first, and that may be the child. So
//! the child raises a count that both have in memory of their own, and its parent goes apart
//! before it sleeps again. What the child gets in its parent's place until then, it
//! repeats: it rings the eventfds that it has inherited.
//!
//! Called by `state`, when a process joins and when a child finds out that it is one, and by
//! those who sleep for an instance.

use super::apart;
use crate::leaked::Leaked;
use crate::mapping::Mapping;
use crate::user::In;
use longshore_sockets::{ForkLock, OnlyThread, pause};
use rustix::mm::MapFlags;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a child that was notified in its parent's place leaves the processor to it.
const STEP: Duration = Duration::from_micros(200);

/// The children of this kind of the process that joined and of all who descend from it, in
/// memory that they share, if there was any to be had.
static CHILDREN: Leaked<AtomicU32> = Leaked::none();
/// Those of whom this process knows.
static KNOWN: AtomicU32 = AtomicU32::new(0);
/// The eventfds on which the parent of this process sleeps, if it is such a child.
static PARENTS: LazyLock<ForkLock<Vec<OwnedFd>>> = LazyLock::new(ForkLock::default);

/// The process that joins begins to count.
pub(crate) fn begin() {
    let memory = Mapping::new(size_of::<AtomicU32>(), MapFlags::SHARED);
    let count = memory.map(|memory| memory.leak().cast().as_in());
    if let Some(count) = count.ok().and_then(In::as_ref) {
        CHILDREN.set(count);
    }
}

/// This process is such a child, and its parent sleeps on these.
pub(crate) fn in_child(only: &OnlyThread, parents: Vec<OwnedFd>) {
    if let Some(children) = CHILDREN.get() {
        let before = children.fetch_add(1, Ordering::SeqCst);
        KNOWN.store(before.wrapping_add(1), Ordering::Relaxed);
    }
    apart::in_child(only);
    // A grandparent does not sleep where its grandchild is notified.
    PARENTS.replace(only, parents);
}

/// If there has been another such child, all instances of this process are shared from now
/// on.
pub(super) fn look() {
    let Some(children) = CHILDREN.get() else {
        return;
    };
    let now = children.load(Ordering::SeqCst);
    if KNOWN.load(Ordering::Relaxed) != now {
        KNOWN.store(now, Ordering::Relaxed);
        apart::before_fork();
    }
}

/// What woke this process may have been for its parent.
pub(crate) fn repeat() {
    let has_rung = PARENTS.enter().is_ok_and(|parents| {
        for wake_fd in parents.iter() {
            let _ = rustix::io::write(wake_fd, &1u64.to_ne_bytes());
        }
        !parents.is_empty()
    });
    if has_rung {
        pause(STEP);
    }
}
