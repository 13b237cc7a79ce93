//! Epoll instances that a child has inherited which was made without our knowing, by a system
//! call that nobody catches.
//!
//! Its parent still sleeps in the instance that the program made, with its eventfd in it
//! (`apart.rs`), which the kernel reports to whoever asks first, and that may be the child. So
//! the child raises a count that both have in memory of their own, and its parent goes apart
//! before it sleeps again. What the child gets in its parent's place until then, it
//! repeats: it rings the eventfds that it has inherited.
//!
//! What any process of a family registers in the kernel's half of an instance that others have,
//! too, is reported to all of them, so the family's memory also says whether there is any.
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
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How long a child that was notified in its parent's place leaves the processor to it.
const STEP: Duration = Duration::from_micros(200);

/// What the process that joined and all who descend from it know of each other.
struct Family {
    /// How many children of this kind there have been.
    children: AtomicU32,
    /// Whether the kernel's half of an instance that several of them have may have such things.
    has_kernels: AtomicBool,
    has_both: AtomicBool,
}

/// What the kernel's half of an instance may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Something of the program's.
    Kernels,
    /// Sockets that stand in both halves.
    Both,
}

impl Family {
    fn has(&self, held: Held) -> &AtomicBool {
        match held {
            Held::Kernels => &self.has_kernels,
            Held::Both => &self.has_both,
        }
    }
}

/// In memory that they share, if there was any to be had.
static FAMILY: Leaked<Family> = Leaked::none();
/// Those of whom this process knows.
static KNOWN: AtomicU32 = AtomicU32::new(0);
/// The eventfds on which the parent of this process sleeps, if it is such a child.
static PARENTS: LazyLock<ForkLock<Vec<OwnedFd>>> = LazyLock::new(ForkLock::default);

/// The process that joins begins to count.
pub(crate) fn begin() {
    let memory = Mapping::new(size_of::<Family>(), MapFlags::SHARED);
    let family = memory.map(|memory| memory.leak().cast().as_in());
    if let Some(family) = family.ok().and_then(In::as_ref) {
        FAMILY.set(family);
    }
}

/// This process is about to register such a thing in an instance that others may have.
pub(super) fn note(held: Held) {
    if let Some(family) = FAMILY.get() {
        family.has(held).store(true, Ordering::SeqCst);
    }
}

/// Whether a process of this family may have registered such a thing in an instance that others
/// have.
pub(super) fn may_have(held: Held) -> bool {
    FAMILY
        .get()
        .is_some_and(|family| family.has(held).load(Ordering::Relaxed))
}

/// This process is such a child, and its parent sleeps on these.
pub(crate) fn in_child(only: &OnlyThread, parents: Vec<OwnedFd>) {
    if let Some(family) = FAMILY.get() {
        let before = family.children.fetch_add(1, Ordering::SeqCst);
        KNOWN.store(before.wrapping_add(1), Ordering::Relaxed);
    }
    apart::in_child(only);
    // A grandparent does not sleep where its grandchild is notified.
    PARENTS.replace(only, parents);
}

/// If there has been another such child, all instances of this process are shared from now
/// on.
pub(super) fn look() {
    let Some(family) = FAMILY.get() else {
        return;
    };
    let now = family.children.load(Ordering::SeqCst);
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
