//! Epoll instances that more than one process has, after a `fork`.
//!
//! The kernel wakes one of those who sleep in `epoll_wait` on an instance, and gives what is
//! reported once to whoever asks first. As long as one process has the instance, what wakes
//! it for the engine's sockets (the eventfd and the connection to the engine) is entered
//! there. After a `fork` that would wake a parent for its child, and the child that it was
//! for would sleep on. So from then on each process sleeps apart: in an instance of its own,
//! in which its own eventfd stands beside the instance that the program made.
//!
//! Called around `fork`, and by all who sleep for an instance (`wait`, `poll`, `select`).

use super::{Instance, Lists, instance, instances, kernel_add, kernel_remove, ready_set};
use crate::{place, room};
use longshore_sockets::{ForkGuard, Host, OnlyThread, ReadySet, SocketError, is_confined, pause};
use rustix::event::epoll;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a fork waits for the threads that sleep in the instance that is shared from then
/// on. They are woken, and so are gone at once unless something holds them up.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_micros(100);

/// How the threads of this process sleep for an instance.
#[derive(Debug)]
pub(super) struct Apart {
    /// Another process may have the instance.
    is_shared: AtomicBool,
    /// What this process alone sleeps in; -1 if there is none.
    own: AtomicI32,
    /// Threads that sleep in the program's instance.
    inside: AtomicU32,
}

impl Apart {
    pub(super) const fn new() -> Self {
        Self {
            is_shared: AtomicBool::new(false),
            own: AtomicI32::new(-1),
            inside: AtomicU32::new(0),
        }
    }

    /// The place is for a new instance.
    pub(super) fn begin(&self) {
        self.is_shared.store(false, Ordering::SeqCst);
        self.inside.store(0, Ordering::SeqCst);
    }

    /// The instance is closed, or this is a child that has inherited it.
    pub(super) fn end(&self) {
        let own = self.own.swap(-1, Ordering::AcqRel);
        if own >= 0 {
            // SAFETY: made here, and by the swap in nobody else's hands.
            room::discard(unsafe { OwnedFd::from_raw_fd(own) });
        }
    }
}

/// What a thread sleeps on in the kernel for an instance, while this lives.
#[derive(Debug)]
pub(super) struct WaitTarget {
    instance: &'static Instance,
    /// This process's own instance, if not in the program's.
    own: Option<RawFd>,
    /// Whether the engine can wake it there.
    pub(super) is_watched: bool,
}

impl WaitTarget {
    /// The descriptor to sleep on.
    pub(super) fn fd(&self) -> RawFd {
        let programs = || self.instance.epfd.load(Ordering::Relaxed);
        self.own.unwrap_or_else(programs)
    }

    /// Whether that is not the instance that the program made.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

impl Drop for WaitTarget {
    fn drop(&mut self) {
        if self.own.is_none() {
            self.instance.apart.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Instance {
    /// Whether another process may have it.
    pub(crate) fn is_shared(&self) -> bool {
        self.apart.is_shared.load(Ordering::SeqCst)
    }

    /// The word by which the program's instance is known in this process's own.
    pub(crate) fn program_word(&self) -> u64 {
        self.wake_fd_word() + 2
    }

    fn own(&self) -> Option<RawFd> {
        Some(self.apart.own.load(Ordering::Acquire)).filter(|fd| *fd >= 0)
    }

    /// The kernel's instances that it stands on: the program's, and what this process sleeps in.
    fn of_kernel(&self) -> impl Iterator<Item = RawFd> {
        std::iter::once(self.epfd()).chain(self.own())
    }

    /// What this thread is to sleep on. A fork waits until those that sleep in the program's
    /// instance have left it.
    pub(super) fn wait_target(&'static self) -> WaitTarget {
        let own = self.own();
        if own.is_none() {
            self.apart.inside.fetch_add(1, Ordering::SeqCst);
        }
        WaitTarget {
            instance: self,
            own,
            // A fork that did not wait for this thread has taken the eventfd away.
            is_watched: own.is_some() || !self.is_shared(),
        }
    }

    /// Sees to it that this process can sleep apart, woken by `wake_fd`, which may be new;
    /// says whether it can, and on what.
    pub(super) fn prepare_apart(
        &self,
        host: &Host,
        wake_fd: Option<(RawFd, bool)>,
    ) -> Result<Option<RawFd>, SocketError> {
        let _alone = self.lists.enter()?;
        if let Some(own) = self.own() {
            if let Some((wake_fd, true)) = wake_fd {
                self.enter_ours(host, own, wake_fd)?;
            }
            return Ok(Some(own));
        }
        if is_confined() {
            return Ok(None);
        }
        let own = make_instance()?;
        let programs = self.epfd.load(Ordering::Relaxed);
        let readable = libc::EPOLLIN as u32;
        let entered = kernel_add(own.as_raw_fd(), programs, readable, self.program_word());
        let entered = entered.and_then(|()| match wake_fd {
            Some((wake_fd, _)) => self.enter_ours(host, own.as_raw_fd(), wake_fd),
            None => Ok(()),
        });
        if let Err(e) = entered {
            room::discard(own);
            return Err(e);
        }
        let own = own.into_raw_fd();
        self.apart.own.store(own, Ordering::Release);
        Ok(Some(own))
    }

    /// Sees to it that the engine can wake who sleeps here for instances that are in this
    /// one; says whether it can. The eventfds of those that are shared are not in them.
    pub(super) fn watch_nested(&self, host: &Host, nested: &[u32]) -> Result<bool, SocketError> {
        let mut watched = true;
        for number in nested {
            let shared = instance(*number).is_some_and(Instance::is_shared);
            let Some(inner) = ready_set(*number).filter(|_| shared) else {
                continue;
            };
            let own_wake_fd = match self.set() {
                Some(set) => set.wake_fd()?,
                None => None,
            };
            let own = self.prepare_apart(host, own_wake_fd)?;
            match (own, inner.wake_fd()?) {
                (Some(own), Some((wake_fd, _))) => {
                    let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
                    kernel_add(own, wake_fd, edge, self.wake_fd_word())?;
                }
                _ => watched = false,
            }
        }
        Ok(watched)
    }

    /// Wakes a thread that sleeps in the program's instance, where the eventfd is not.
    pub(super) fn wake_in_kernel(&self, wake_fd: RawFd) -> Result<(), SocketError> {
        let once = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLONESHOT) as u32;
        kernel_add(
            self.epfd.load(Ordering::Relaxed),
            wake_fd,
            once,
            self.wake_fd_word(),
        )
    }

    /// Wakes the threads that sleep in the program's instance for it or for what is in it.
    fn ring_inside(&'static self) {
        for set in self.sets().unwrap_or_default() {
            let _ = set.ring();
        }
    }

    /// Takes what wakes this process out of the program's instance.
    fn take_ours_out(&self) {
        let Some(host) = place::attached_already() else {
            return;
        };
        let wake_fd = self.set().and_then(|set| set.wake_fd_if_made());
        let Some(wake_fd) = wake_fd else { return };
        take_out(self.epfd.load(Ordering::Relaxed), host, wake_fd);
    }

    /// Takes the connection to an engine that is gone out of the instances: it has hung up for good,
    /// and until somebody fetches that of an instance, all who ask about that one get it.
    pub(super) fn take_lost_connection_out(&self) {
        let Some(host) = place::attached_already() else {
            return;
        };
        host.look_at_engine();
        if !host.is_gone() {
            return;
        }
        for epfd in self.of_kernel() {
            kernel_remove(epfd, host.connection().as_raw_fd());
        }
    }

    /// Takes what wakes this process for a set of `host` out of the program's instance, and out of
    /// the one that this process sleeps in.
    pub(super) fn take_ours_out_of_all(&self, host: &Host, set: &ReadySet) {
        let Some(wake_fd) = set.wake_fd_if_made() else {
            return;
        };
        for epfd in self.of_kernel() {
            take_out(epfd, host, wake_fd);
        }
    }
}

/// Whether no other thread of this process can sleep anywhere; false where that cannot be known.
pub(super) fn is_only_thread() -> bool {
    // The directory's own entries, and one for each thread.
    !is_confined() && rustix::fs::stat(c"/proc/self/task").is_ok_and(|tasks| tasks.st_nlink == 3)
}

/// Takes the eventfd and the connection to the engine out of an instance of the kernel's.
fn take_out(epfd: RawFd, host: &Host, wake_fd: RawFd) {
    for fd in [wake_fd, host.connection().as_raw_fd()] {
        kernel_remove(epfd, fd);
    }
}

/// A new instance of the kernel's, kept from the program.
fn make_instance() -> Result<OwnedFd, SocketError> {
    room::within(|| {
        let made = epoll::create(epoll::CreateFlags::CLOEXEC);
        made.map(room::keep).map_err(SocketError::Refused)
    })
}

/// From here on, another process has all instances of this one, too: its threads leave them
/// for instances of their own before it is there.
pub(crate) fn before_fork() {
    let newly_shared: Vec<_> = instances()
        .filter(|i| !i.apart.is_shared.swap(true, Ordering::SeqCst))
        .collect();
    let deadline = Instant::now() + LONGEST_WAIT;
    let is_inside = |i: &&&Instance| i.apart.inside.load(Ordering::SeqCst) != 0;
    while newly_shared
        .iter()
        .filter(is_inside)
        .map(|i| i.ring_inside())
        .count()
        != 0
        && Instant::now() < deadline
    {
        pause(STEP);
    }
    for instance in newly_shared {
        instance.take_ours_out();
    }
}

/// What is registered in the instances of this process, which no thread changes while this lives.
pub(crate) struct HeldLists(#[expect(dead_code, reason = "locks")] Vec<ForkGuard<'static, Lists>>);

/// Keeps what is registered as it is while a child is made, so that the child has it whole, and
/// held by nobody.
pub(crate) fn hold_lists() -> HeldLists {
    HeldLists(instances().filter_map(|i| i.lists.enter().ok()).collect())
}

/// In a child: what its parent sleeps in is not its own.
pub(crate) fn in_child(only: &OnlyThread) {
    for instance in instances() {
        instance.lists.recover(only, Lists::default);
        instance.apart.end();
        instance.apart.is_shared.store(true, Ordering::SeqCst);
        instance.apart.inside.store(0, Ordering::SeqCst);
        for _ in 0..instance.waiters.leave() {
            instance.drop_descriptor();
        }
    }
}
