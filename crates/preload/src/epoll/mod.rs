//! Epoll instances: what the shim keeps beside those of the kernel.
//!
//! An instance has two halves. The kernel's has the kernel's descriptors,
//! and the eventfd on which the engine wakes us; the engine's is a ready set.
//! What is registered for a socket that nobody has decided about goes to the
//! kernel, and moves when the socket becomes the engine's.
//!
//! An instance that a `fork` has handed on is slept on in another way, since what wakes one
//! process there would be taken by another (`apart.rs`). The calls are in `calls/epoll`.

pub(crate) mod apart;
mod asleep;
pub(crate) mod family;
mod nested;
mod once;
mod sides;

use crate::fds::{self, Entry};
use crate::leaked::Leaked;
use crate::log::once;
use crate::results::last_error;
use crate::user::Out;
use crate::{place, real};
use apart::Apart;
pub(crate) use asleep::Asleep;
pub(crate) use sides::{close_undecided, enter_kernel, leave_kernel, leave_undecided, to_engine};

use asleep::Waiters;
use family::Held;
use libc::{c_int, epoll_event};
use longshore_sockets::{ForkLock, Host, ReadySet, SocketError};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// Epoll instances that we look after; more stay the kernel's alone.
const MOST: usize = 4096;
/// In place of the count of descriptors while an instance that has none any more is cleared.
const ENDS: u32 = u32::MAX;
/// How often in a row what the kernel has is reported first where there is room for one event.
const MOST_PASSED_OVER: u32 = 16;
/// What is asked of the kernel for a socket that is the engine's too.
pub(crate) const BESIDE: u32 =
    (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE)
        as u32;

static INSTANCES: [Leaked<Instance>; MOST] = [const { Leaked::none() }; MOST];
/// Registrations of undecided sockets in all instances.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// A registration that is not in the ready set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registered {
    pub(crate) fd: RawFd,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// For an epoll instance in another: its number; for a socket that nobody has decided about: that
    /// of [`Undecided`](crate::fds::Undecided).
    pub(crate) inner: u32,
    /// It was reported, and is reported no more until it is set again (EPOLLONESHOT).
    pub(crate) disarmed: bool,
}

#[derive(Debug, Default)]
struct Lists {
    undecided: Vec<Registered>,
    nested: Vec<Registered>,
}

/// An epoll instance. Its place is used again when it is closed, and stays
/// allocated.
#[derive(Debug)]
pub(crate) struct Instance {
    epfd: AtomicI32,
    /// Descriptors that stand for it, and threads that wait in it; 0 if the place is free.
    descriptors: AtomicU32,
    waiters: Waiters,
    /// The ready set's number plus 1, 0 if there is none.
    set: AtomicU32,
    has_kernels: AtomicBool,
    has_nested: AtomicBool,
    has_both: AtomicBool,
    has_once: AtomicBool,
    rounds: AtomicU32,
    passed_over: AtomicU32,
    lists: ForkLock<Lists>,
    apart: Apart,
}

impl Instance {
    /// The word by which the eventfd is distinguished from what the program registers:
    /// no program has our address.
    pub(crate) fn wake_fd_word(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// As `wake_fd_word`, for the connection to the engine.
    pub(crate) fn connection_word(&self) -> u64 {
        self.wake_fd_word() + 1
    }

    pub(crate) fn set(&self) -> Option<ReadySet> {
        let number = self.set.load(Ordering::Acquire).checked_sub(1)?;
        Some(ReadySet::of(place::attached()?, number))
    }

    /// The kernel's instance.
    pub(crate) fn epfd(&self) -> RawFd {
        self.epfd.load(Ordering::Relaxed)
    }

    /// The number of the wait for the instance, which wraps.
    pub(crate) fn next_round(&self) -> u32 {
        self.rounds.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether sockets of the engine that are ready are passed over once more for what the kernel
    /// may have.
    pub(crate) fn passes_over(&self) -> bool {
        self.passed_over.fetch_add(1, Ordering::Relaxed) < MOST_PASSED_OVER
    }

    /// A socket of the engine is reported.
    pub(crate) fn end_passing_over(&self) {
        self.passed_over.store(0, Ordering::Relaxed);
    }

    /// Whether the kernel's half has something of the program's.
    pub(crate) fn has_kernels(&self) -> bool {
        self.has_kernels.load(Ordering::Relaxed)
            || self.has_both()
            || family::may_have(Held::Kernels)
    }

    /// The kernel's half has something of the program's.
    pub(crate) fn note_kernels(&self) {
        self.has_kernels.store(true, Ordering::Relaxed);
        if self.is_shared() {
            family::note(Held::Kernels);
        }
    }

    /// Whether a socket stands in both halves.
    pub(crate) fn has_both(&self) -> bool {
        self.has_both.load(Ordering::Relaxed) || family::may_have(Held::Both)
    }

    /// A socket stands in both halves.
    pub(crate) fn note_both(&self) {
        self.has_both.store(true, Ordering::Relaxed);
        if self.is_shared() {
            family::note(Held::Both);
        }
    }

    /// Notes what `epoll_ctl` did with an instance that is in this one.
    pub(crate) fn note_nested(&self, op: c_int, r: Registered) {
        self.note_kernels();
        self.note_once(r.events);
        if let Ok(mut lists) = self.lists.enter() {
            replace(&mut lists.nested, op, r);
            self.has_nested
                .store(!lists.nested.is_empty(), Ordering::Relaxed);
        }
    }

    /// Notes what `epoll_ctl` did with a socket that nobody has decided about.
    pub(crate) fn note_undecided(&self, op: c_int, r: Registered) {
        self.note_kernels();
        self.note_once(r.events);
        if let Ok(mut lists) = self.lists.enter() {
            let before = lists.undecided.len() as u32;
            // What was registered under the same descriptor when that was another socket, which has
            // others, stays.
            let is_same = |other: &Registered| other.fd == r.fd && other.inner == r.inner;
            lists.undecided.retain(|other| !is_same(other));
            if op != libc::EPOLL_CTL_DEL {
                lists.undecided.push(r);
            }
            let now = lists.undecided.len() as u32;
            WAITING.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        }
    }

    /// Moves what is registered for sockets that another process has made the engine's.
    pub(crate) fn look_for_decided(&self) {
        let registered = self.lists.enter().map_or(Vec::new(), |lists| {
            lists.undecided.iter().map(|r| r.fd).collect()
        });
        for fd in registered {
            fds::get(fd);
        }
    }

    /// The ready set, made if there is none.
    #[inline]
    pub(crate) fn make_set(&self, host: &'static Host) -> Result<ReadySet, SocketError> {
        match self.set() {
            Some(set) => Ok(set),
            None => self.make_new_set(host),
        }
    }

    #[cold]
    fn make_new_set(&self, host: &'static Host) -> Result<ReadySet, SocketError> {
        let set = {
            let _lists = self.lists.enter()?;
            if let Some(set) = self.set() {
                return Ok(set);
            }
            let set = ReadySet::new(host)?;
            self.set.store(set.number() + 1, Ordering::Release);
            set
        };
        // A thread that sleeps in the kernel already does so without an eventfd of ours.
        self.prepare_wake_fd(host, &set)?;
        if self.is_shared()
            && !apart::is_only_thread()
            && let Some(wake_fd) = set.wake_fd_if_made()
        {
            self.wake_in_kernel(wake_fd)?;
        }
        set.ring()?;
        Ok(set)
    }

    /// Sees to it that the engine can wake who sleeps for the instance; says whether it can.
    fn prepare_wake_fd(&self, host: &Host, set: &ReadySet) -> Result<bool, SocketError> {
        family::look();
        let Some((wake_fd, new)) = set.wake_fd()? else {
            return Ok(false);
        };
        if self.is_shared() {
            let own = self.prepare_apart(host, Some((wake_fd, new)))?;
            return Ok(own.is_some());
        }
        if new {
            self.enter_ours(host, self.epfd.load(Ordering::Relaxed), wake_fd)?;
        }
        Ok(true)
    }

    /// Enters in the kernel's instance `epfd` what wakes the threads that sleep there: the eventfd, and
    /// the connection to the engine, for its end alone, as answers to questions come over it,
    /// too.
    fn enter_ours(&self, host: &Host, epfd: RawFd, wake_fd: RawFd) -> Result<(), SocketError> {
        let edge = libc::EPOLLET as u32;
        let connection = host.connection().as_raw_fd();
        let events = edge | libc::EPOLLIN as u32;
        kernel_add(epfd, wake_fd, events, self.wake_fd_word())?;
        kernel_add(epfd, connection, edge, self.connection_word())
    }
}

fn replace(list: &mut Vec<Registered>, op: c_int, r: Registered) {
    list.retain(|other| other.fd != r.fd);
    if op != libc::EPOLL_CTL_DEL {
        list.push(r);
    }
}

/// Enters a descriptor in an instance of the kernel's, if it is not there already.
fn kernel_add(epfd: RawFd, fd: RawFd, events: u32, word: u64) -> Result<(), SocketError> {
    let mut event = epoll_event { events, u64: word };
    if real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, Out::from(&mut event)) != 0 {
        let error = last_error();
        if error.errno() != libc::EEXIST {
            return Err(error);
        }
    }
    Ok(())
}

/// Takes a descriptor out of an instance of the kernel's, if it is there.
fn kernel_remove(epfd: RawFd, fd: RawFd) {
    let mut nothing = epoll_event { events: 0, u64: 0 };
    real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, Out::from(&mut nothing));
}

/// The instance of this number.
pub(crate) fn instance(number: u32) -> Option<&'static Instance> {
    INSTANCES.get(number as usize)?.get()
}

fn instances() -> impl Iterator<Item = &'static Instance> {
    (0..MOST as u32)
        .map_while(instance)
        .filter(|i| i.descriptors.load(Ordering::Relaxed) != 0)
}

/// Whether this process has any.
pub(crate) fn are_there() -> bool {
    instances().next().is_some()
}

/// The instance behind a descriptor.
pub(crate) fn of_descriptor(fd: c_int) -> Option<&'static Instance> {
    match fds::get(fd) {
        Entry::Epoll(number) => instance(number),
        _ => None,
    }
}

/// The ready set of an instance, if it has one.
pub(crate) fn ready_set(number: u32) -> Option<ReadySet> {
    instance(number)?.set()
}

/// The engine of `gone` is gone, and this process has none of its sockets any more: lets go of what
/// its instances have of it. A thread that sleeps there is woken when one has a socket again.
pub(crate) fn leave(gone: &Host) {
    for instance in instances() {
        let Some(set) = instance.set() else {
            continue;
        };
        instance.take_ours_out_of_all(gone, &set);
        instance.set.store(0, Ordering::Release);
        set.close();
    }
}

/// Makes all instances ready to be slept on, while that can still be done.
pub(crate) fn prepare_all(host: &Host) {
    for instance in instances() {
        if let Some(set) = instance.set() {
            let _ = instance.prepare_wake_fd(host, &set);
        }
    }
}

/// Finds a place for a new instance, for which one descriptor stands; its number. `None`, which
/// is said once, if there are as many as there can be.
pub(crate) fn enter(epfd: c_int) -> Option<u32> {
    for (number, place) in INSTANCES.iter().enumerate() {
        let instance = place.get_or_put(|| Instance {
            epfd: AtomicI32::new(epfd),
            descriptors: AtomicU32::new(0),
            waiters: Waiters::default(),
            set: AtomicU32::new(0),
            has_kernels: AtomicBool::new(false),
            has_nested: AtomicBool::new(false),
            has_both: AtomicBool::new(false),
            has_once: AtomicBool::new(false),
            rounds: AtomicU32::new(0),
            passed_over: AtomicU32::new(0),
            lists: ForkLock::new(Lists::default()),
            apart: Apart::new(),
        });
        let free = instance
            .descriptors
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            instance.epfd.store(epfd, Ordering::Relaxed);
            for flag in [
                &instance.has_kernels,
                &instance.has_nested,
                &instance.has_both,
                &instance.has_once,
            ] {
                flag.store(false, Ordering::Relaxed);
            }
            instance.apart.begin();
            return Some(number as u32);
        }
    }
    once!(
        Warn,
        Resource,
        "more than {MOST} epoll instances: the others cannot have sockets of the engine"
    );
    None
}

/// Another descriptor stands for an instance.
pub(crate) fn another_descriptor(number: u32) {
    if let Some(instance) = instance(number) {
        instance.add_descriptor();
    }
}

/// A descriptor of an instance was closed; with the last it is gone.
pub(crate) fn one_descriptor_less(number: u32) {
    if let Some(instance) = instance(number) {
        instance.drop_descriptor();
    }
}

impl Instance {
    fn add_descriptor(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    fn drop_descriptor(&self) {
        // Its place is taken until all that belongs to it is gone.
        let one_less = |n: u32| Some(if n == 1 { ENDS } else { n - 1 });
        let before = self
            .descriptors
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
        if before != Ok(1) {
            return;
        }
        self.apart.end();
        if let Some(set) = self.set() {
            self.set.store(0, Ordering::Release);
            set.close();
        }
        if let Ok(mut lists) = self.lists.enter() {
            WAITING.fetch_sub(lists.undecided.len() as u32, Ordering::Relaxed);
            *lists = Lists::default();
        }
        self.leave_others();
        self.descriptors.store(0, Ordering::Release);
    }

    /// Takes it out of the instances that it is in, as the kernel does with what is closed: its
    /// number is that of the next instance.
    fn leave_others(&self) {
        let is_this = |r: &Registered| instance(r.inner).is_some_and(|i| std::ptr::eq(i, self));
        for other in instances().filter(|other| other.has_nested()) {
            if let Ok(mut lists) = other.lists.enter() {
                lists.nested.retain(|r| !is_this(r));
            }
        }
    }
}
