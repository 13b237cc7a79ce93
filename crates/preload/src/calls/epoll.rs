//! `epoll_create`, `epoll_ctl`, `epoll_wait` and their kin.
//!
//! An epoll instance has two halves. The kernel's has the kernel's descriptors,
//! and the eventfd on which the engine wakes us; the engine's is a ready set.
//! What is registered for a socket that nobody has decided about goes to the
//! kernel, and moves when the socket becomes the engine's.

use crate::calls::poll::duration;
use crate::calls::{answer, guard, last_error, refused, set_errno};
use crate::fds::{self, Entry};
use crate::log::once;
use crate::{real, state};
use libc::{c_int, epoll_event, sigset_t, timespec};
use longshore_sockets::{BLIND_SLEEP, Gate, Host, ReadySet, Socket, SocketError};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Epoll instances that we look after; more stay the kernel's alone.
const MOST: usize = 4096;
/// One in so many rounds the kernel's half comes first.
const KERNEL_FIRST: u32 = 4;
/// What is asked of the kernel for a socket that is the engine's too.
const BESIDE: u32 =
    (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE)
        as u32;

static INSTANCES: [AtomicPtr<Instance>; MOST] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// Registrations of undecided sockets in all instances.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// A registration that is not in the ready set.
#[derive(Debug, Clone, Copy)]
struct Registered {
    fd: RawFd,
    events: u32,
    data: u64,
    /// For an epoll instance in another: its number.
    inner: u32,
}

#[derive(Debug, Default)]
struct Lists {
    undecided: Vec<Registered>,
    nested: Vec<Registered>,
}

/// An epoll instance. Its place is used again when it is closed, and stays
/// allocated.
#[derive(Debug)]
struct Instance {
    epfd: AtomicI32,
    /// Descriptors that stand for it; 0 if the place is free.
    descriptors: AtomicU32,
    /// The ready set's number plus 1, 0 if there is none.
    set: AtomicU32,
    has_kernels: AtomicBool,
    has_nested: AtomicBool,
    has_both: AtomicBool,
    rounds: AtomicU32,
    lists: Gate<Lists>,
}

impl Instance {
    /// The word by which the eventfd is told from what the program registers:
    /// no program has our address.
    fn bell_word(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// The same for the connection to the engine.
    fn connection_word(&self) -> u64 {
        self.bell_word() + 1
    }

    fn set(&self) -> Option<ReadySet> {
        let number = self.set.load(Ordering::Acquire).checked_sub(1)?;
        Some(ReadySet::of(state::attached()?, number))
    }

    /// The ready set, made if there is none.
    fn make_set(&self, host: &'static Host) -> Result<ReadySet, SocketError> {
        let _lists = self.lists.enter()?;
        if let Some(set) = self.set() {
            return Ok(set);
        }
        let set = ReadySet::new(host)?;
        self.set.store(set.number() + 1, Ordering::Release);
        Ok(set)
    }

    /// Sees to it that the engine can wake who sleeps in the kernel's half.
    fn prepare_bell(&self, host: &Host, set: &ReadySet) -> Result<(), SocketError> {
        let (bell, new) = set.bell()?;
        if new {
            let epfd = self.epfd.load(Ordering::Relaxed);
            let connection = host.connection().as_raw_fd();
            let words = [
                (bell, self.bell_word()),
                (connection, self.connection_word()),
            ];
            for (fd, word) in words {
                let mut event = epoll_event {
                    events: (libc::EPOLLIN | libc::EPOLLET) as u32,
                    u64: word,
                };
                // SAFETY: numbers and an event.
                if unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &mut event) } != 0 {
                    return Err(last_error());
                }
            }
        }
        Ok(())
    }
}

fn instance(number: u32) -> Option<&'static Instance> {
    let at = INSTANCES.get(number as usize)?.load(Ordering::Acquire);
    // SAFETY: null, or an instance that was leaked.
    unsafe { at.as_ref() }
}

fn instances() -> impl Iterator<Item = &'static Instance> {
    (0..MOST as u32)
        .map_while(instance)
        .filter(|i| i.descriptors.load(Ordering::Relaxed) != 0)
}

/// The instance behind a descriptor.
fn of_descriptor(fd: c_int) -> Option<&'static Instance> {
    match fds::get(fd) {
        Entry::Epoll(number) => instance(number),
        _ => None,
    }
}

/// The ready set of an instance, if it has one.
pub(crate) fn ready_set(number: u32) -> Option<ReadySet> {
    instance(number)?.set()
}

/// Makes an instance ready to be slept on from outside: in poll, in select, or
/// in another instance.
pub(crate) fn prepare_bell(number: u32) -> Result<(), SocketError> {
    match (state::attached(), instance(number)) {
        (Some(host), Some(instance)) => match instance.set() {
            Some(set) => instance.prepare_bell(host, &set),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Finds a place for a new instance.
fn enter(epfd: c_int) {
    for (number, place) in INSTANCES.iter().enumerate() {
        if place.load(Ordering::Acquire).is_null() {
            let new = Box::into_raw(Box::new(Instance {
                epfd: AtomicI32::new(epfd),
                descriptors: AtomicU32::new(0),
                set: AtomicU32::new(0),
                has_kernels: AtomicBool::new(false),
                has_nested: AtomicBool::new(false),
                has_both: AtomicBool::new(false),
                rounds: AtomicU32::new(0),
                lists: Gate::new(Lists::default()),
            }));
            let put = place.compare_exchange(
                std::ptr::null_mut(),
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if put.is_err() {
                // SAFETY: it was made above, and nobody else has it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
        let Some(instance) = instance(number as u32) else {
            continue;
        };
        let free = instance
            .descriptors
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if free.is_ok() {
            instance.epfd.store(epfd, Ordering::Relaxed);
            for flag in [
                &instance.has_kernels,
                &instance.has_nested,
                &instance.has_both,
            ] {
                flag.store(false, Ordering::Relaxed);
            }
            let before = fds::put(epfd, Entry::Epoll(number as u32));
            fds::give_up(epfd, before);
            return;
        }
    }
    once!(
        Warn,
        Resource,
        "more than {MOST} epoll instances: the others cannot have sockets of the engine"
    );
}

/// Another descriptor stands for an instance.
pub(crate) fn another_descriptor(number: u32) {
    if let Some(instance) = instance(number) {
        instance.descriptors.fetch_add(1, Ordering::AcqRel);
    }
}

/// A descriptor of an instance was closed; with the last it is gone.
pub(crate) fn one_descriptor_less(number: u32) {
    let Some(instance) = instance(number) else {
        return;
    };
    if instance.descriptors.load(Ordering::Acquire) == 1 {
        if let Some(set) = instance.set() {
            instance.set.store(0, Ordering::Release);
            set.close();
        }
        if let Ok(mut lists) = instance.lists.enter() {
            WAITING.fetch_sub(lists.undecided.len() as u32, Ordering::Relaxed);
            *lists = Lists::default();
        }
    }
    instance.descriptors.fetch_sub(1, Ordering::AcqRel);
}

/// An undecided socket was closed: the kernel has dropped it.
pub(crate) fn forget_undecided(fd: RawFd) {
    if WAITING.load(Ordering::Relaxed) == 0 {
        return;
    }
    for instance in instances() {
        if let Ok(mut lists) = instance.lists.enter() {
            let before = lists.undecided.len();
            lists.undecided.retain(|r| r.fd != fd);
            let gone = before - lists.undecided.len();
            WAITING.fetch_sub(gone as u32, Ordering::Relaxed);
        }
    }
}

/// A socket became the engine's: what was registered for it moves.
pub(crate) fn to_engine(fd: RawFd, socket: &Socket) {
    if WAITING.load(Ordering::Relaxed) == 0 {
        return;
    }
    for instance in instances() {
        let found = instance.lists.enter().ok().and_then(|mut lists| {
            let at = lists.undecided.iter().position(|r| r.fd == fd)?;
            WAITING.fetch_sub(1, Ordering::Relaxed);
            Some(lists.undecided.swap_remove(at))
        });
        if let Some(r) = found
            && let Ok(set) = instance.make_set(socket.host())
        {
            let epfd = instance.epfd.load(Ordering::Relaxed);
            let mut event = epoll_event {
                events: r.events & BESIDE,
                u64: r.data,
            };
            let op = if socket.has_kernel_side() {
                instance.has_both.store(true, Ordering::Relaxed);
                libc::EPOLL_CTL_MOD
            } else {
                libc::EPOLL_CTL_DEL
            };
            // SAFETY: numbers and an event.
            unsafe { real::epoll_ctl(epfd, op, fd, &mut event) };
            let _ = set.add(socket, fd, r.events, r.data);
        }
    }
}

/// `epoll_create1(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let epfd = unsafe { real::epoll_create1(flags) };
    if epfd >= 0 && !state::is_off() {
        return guard(|| {
            enter(epfd);
            epfd
        });
    }
    epfd
}

/// `epoll_create(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_create(size: c_int) -> c_int {
    if size <= 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller's promise.
    unsafe { epoll_create1(0) }
}

/// `epoll_ctl(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller's promise.
    let plain = || unsafe { real::epoll_ctl(epfd, op, fd, event) };
    let Some(instance) = of_descriptor(epfd) else {
        return plain();
    };
    let needs_event = op != libc::EPOLL_CTL_DEL;
    if needs_event && event.is_null() {
        return plain();
    }
    let (events, data) = if needs_event {
        // SAFETY: the caller's promise.
        let e = unsafe { event.read_unaligned() };
        (e.events, e.u64)
    } else {
        (0, 0)
    };
    let registered = Registered {
        fd,
        events,
        data,
        inner: 0,
    };
    guard(|| match fds::get(fd) {
        Entry::Engine(_) => match fds::engine(fd) {
            Some(socket) => {
                answer(|| control_socket(instance, epfd, op, &socket, registered).map(|()| 0))
            }
            None => plain(),
        },
        Entry::Undecided(_) => {
            let result = plain();
            if result == 0 {
                note_undecided(instance, op, registered);
            }
            result
        }
        Entry::Epoll(inner) => {
            let result = plain();
            if result == 0 {
                note_nested(
                    instance,
                    op,
                    Registered {
                        inner,
                        ..registered
                    },
                );
            }
            result
        }
        Entry::Kept => {
            set_errno(libc::EBADF);
            -1
        }
        Entry::Kernel => {
            instance.has_kernels.store(true, Ordering::Relaxed);
            plain()
        }
    })
}

fn control_socket(
    instance: &Instance,
    epfd: c_int,
    op: c_int,
    socket: &Socket,
    r: Registered,
) -> Result<(), SocketError> {
    let first = instance.set().is_none();
    let set = instance.make_set(socket.host())?;
    if first {
        // Who sleeps in the kernel already does so without a bell of ours.
        instance.prepare_bell(socket.host(), &set)?;
        set.ring()?;
    }
    match op {
        libc::EPOLL_CTL_ADD => set.add(socket, r.fd, r.events, r.data)?,
        libc::EPOLL_CTL_MOD => set.modify(socket, r.fd, r.events, r.data)?,
        libc::EPOLL_CTL_DEL => set.remove(socket, r.fd)?,
        _ => return Err(refused(libc::EINVAL)),
    }
    if socket.has_kernel_side() {
        instance.has_both.store(true, Ordering::Relaxed);
        let mut event = epoll_event {
            events: r.events & BESIDE,
            u64: r.data,
        };
        // SAFETY: numbers and an event.
        let ctl = |op, event: &mut epoll_event| unsafe { real::epoll_ctl(epfd, op, r.fd, event) };
        // A socket that went both ways after it was registered is not there yet.
        if ctl(op, &mut event) != 0 && op == libc::EPOLL_CTL_MOD {
            ctl(libc::EPOLL_CTL_ADD, &mut event);
        }
    }
    Ok(())
}

fn replace(list: &mut Vec<Registered>, op: c_int, r: Registered) {
    list.retain(|other| other.fd != r.fd);
    if op != libc::EPOLL_CTL_DEL {
        list.push(r);
    }
}

fn note_undecided(instance: &Instance, op: c_int, r: Registered) {
    instance.has_kernels.store(true, Ordering::Relaxed);
    if let Ok(mut lists) = instance.lists.enter() {
        let before = lists.undecided.len() as u32;
        replace(&mut lists.undecided, op, r);
        let now = lists.undecided.len() as u32;
        WAITING.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }
}

fn note_nested(instance: &Instance, op: c_int, r: Registered) {
    instance.has_kernels.store(true, Ordering::Relaxed);
    if let Ok(mut lists) = instance.lists.enter() {
        replace(&mut lists.nested, op, r);
        instance
            .has_nested
            .store(!lists.nested.is_empty(), Ordering::Relaxed);
    }
}

/// The program's array, being filled.
struct Found {
    at: *mut epoll_event,
    most: usize,
    count: usize,
}

impl Found {
    fn room(&self) -> usize {
        self.most - self.count
    }

    fn push(&mut self, events: u32, data: u64) {
        if self.room() != 0 {
            // SAFETY: inside the array, which has `most` places.
            unsafe {
                self.at
                    .add(self.count)
                    .write_unaligned(epoll_event { events, u64: data });
            }
            self.count += 1;
        }
    }

    /// What is there with this word, if there is.
    fn merge(&mut self, events: u32, data: u64) -> bool {
        for i in 0..self.count {
            // SAFETY: inside the array, and written.
            let mut e = unsafe { self.at.add(i).read_unaligned() };
            if { e.u64 } == data {
                e.events |= events;
                // SAFETY: as above.
                unsafe { self.at.add(i).write_unaligned(e) };
                return true;
            }
        }
        false
    }
}

/// A wait in progress.
struct Waiting<'a> {
    host: &'static Host,
    instance: &'a Instance,
    epfd: c_int,
    set: Option<ReadySet>,
    mask: *const sigset_t,
    found: Found,
}

impl Waiting<'_> {
    /// Takes what of the engine's sockets is ready.
    fn harvest(&mut self) -> Result<usize, SocketError> {
        let before = self.found.count;
        if let Some(set) = &self.set {
            let (found, both) = (
                &mut self.found,
                self.instance.has_both.load(Ordering::Relaxed),
            );
            set.harvest(found.room(), |r| {
                if !(both && found.merge(r.events, r.data)) {
                    found.push(r.events, r.data);
                }
            })?;
        }
        if self.instance.has_nested.load(Ordering::Relaxed) {
            self.harvest_nested()?;
        }
        Ok(self.found.count - before)
    }

    fn harvest_nested(&mut self) -> Result<(), SocketError> {
        let lists = self.instance.lists.enter()?;
        for r in &lists.nested {
            if ready_set(r.inner).is_some_and(|s| s.is_ready())
                && !self.found.merge(libc::EPOLLIN as u32, r.data)
            {
                self.found.push(
                    r.events & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32,
                    r.data,
                );
            }
        }
        Ok(())
    }

    /// Asks the kernel's half for what fits, and waits for at most `timeout`
    /// milliseconds.
    fn ask_kernel(&mut self, room: usize, timeout: c_int) -> Result<(), SocketError> {
        let room = room.min(self.found.room());
        if room == 0 {
            return Ok(());
        }
        // SAFETY: the free part of the array.
        let got = unsafe {
            let at = self.found.at.add(self.found.count);
            real::epoll_pwait(self.epfd, at, room as c_int, timeout, self.mask)
        };
        if got < 0 {
            return Err(last_error());
        }
        let first = self.found.count;
        let both = self.instance.has_both.load(Ordering::Relaxed);
        for i in first..first + got as usize {
            // SAFETY: the kernel wrote it.
            let e = unsafe { self.found.at.add(i).read_unaligned() };
            let (events, word) = (e.events, e.u64);
            if word == self.instance.bell_word() {
                continue;
            }
            if word == self.instance.connection_word() {
                self.host.look_at_engine();
                continue;
            }
            if self.is_hollow(word)? {
                continue;
            }
            if !(both && self.found.merge(events, word)) {
                self.found.push(events, word);
            }
        }
        Ok(())
    }

    /// Whether an event only says that the bell of a nested instance has rung,
    /// for something that is not there any more. Silences the bell.
    fn is_hollow(&self, word: u64) -> Result<bool, SocketError> {
        if !self.instance.has_nested.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let lists = self.instance.lists.enter()?;
        let Some(r) = lists.nested.iter().find(|r| r.data == word) else {
            return Ok(false);
        };
        let (Some(set), Some(inner)) = (ready_set(r.inner), instance(r.inner)) else {
            return Ok(false);
        };
        if set.is_ready() {
            return Ok(false);
        }
        set.silence()?;
        let mut fd = libc::pollfd {
            fd: inner.epfd.load(Ordering::Relaxed),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which lives until the call is over.
        Ok(unsafe { real::poll(&mut fd, 1, 0) } == 0)
    }

    fn has_kernels(&self) -> bool {
        self.instance.has_kernels.load(Ordering::Relaxed)
            || self.instance.has_both.load(Ordering::Relaxed)
    }

    fn run(&mut self, limit: Option<Duration>) -> Result<usize, SocketError> {
        self.host.drain_if_free();
        let round = self.instance.rounds.fetch_add(1, Ordering::Relaxed);
        if self.has_kernels() && round.is_multiple_of(KERNEL_FIRST) {
            self.ask_kernel(self.found.most.div_ceil(2), 0)?;
        }
        self.harvest()?;
        if self.found.count != 0 {
            return Ok(self.found.count);
        }
        if limit == Some(Duration::ZERO) {
            self.host.settle()?;
            self.ask_kernel(usize::MAX, 0)?;
            return Ok(self.found.count);
        }
        self.host.settle()?;
        let host = self.host;
        let concerns_us = self.set.is_some() || self.instance.has_nested.load(Ordering::Relaxed);
        if concerns_us
            && host
                .spin(|| Ok(Some(self.harvest()?).filter(|n| *n != 0)))?
                .is_some()
        {
            return Ok(self.found.count);
        }
        self.sleep(limit)
    }

    fn sleep(&mut self, limit: Option<Duration>) -> Result<usize, SocketError> {
        let deadline = limit.map(|l| Instant::now() + l);
        loop {
            let sets = self.declare()?;
            let result = match self.harvest() {
                Ok(0) => {
                    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                    self.ask_kernel(usize::MAX, milliseconds(self.host, left))
                }
                Ok(_) => self.ask_kernel(usize::MAX, 0),
                Err(e) => Err(e),
            };
            for set in sets {
                set.awake();
            }
            result?;
            if self.found.count == 0 {
                self.host.drain_if_free();
                self.harvest()?;
            }
            if self.found.count != 0 || deadline.is_some_and(|d| d <= Instant::now()) {
                return Ok(self.found.count);
            }
        }
    }

    /// Declares that we sleep for the set, and for those nested in it.
    fn declare(&mut self) -> Result<Vec<ReadySet>, SocketError> {
        let mut sets = Vec::new();
        // A set may have come since: another thread registered a socket.
        self.set = self.set.or_else(|| self.instance.set());
        if let Some(set) = self.set {
            self.instance.prepare_bell(self.host, &set)?;
            sets.push(set);
        }
        if self.instance.has_nested.load(Ordering::Relaxed) {
            let lists = self.instance.lists.enter()?;
            for r in &lists.nested {
                prepare_bell(r.inner)?;
                sets.extend(ready_set(r.inner));
            }
        }
        for set in &sets {
            set.declare()?;
        }
        Ok(sets)
    }
}

/// The kernel's milliseconds, rounded up; -1 is for ever.
fn milliseconds(host: &Host, left: Option<Duration>) -> c_int {
    let left = if host.is_short() {
        Some(left.map_or(BLIND_SLEEP, |l| l.min(BLIND_SLEEP)))
    } else {
        left
    };
    left.map_or(-1, |l| {
        c_int::try_from(l.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
    })
}

/// Waits, if the instance has anything to do with the engine.
unsafe fn wait(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    limit: Option<Duration>,
    mask: *const sigset_t,
    plain: impl FnOnce() -> c_int,
) -> c_int {
    let (Some(host), Some(instance)) = (state::attached(), of_descriptor(epfd)) else {
        return plain();
    };
    let set = instance.set();
    let concerns_us = set.is_some() || instance.has_nested.load(Ordering::Relaxed);
    // Who sleeps may still be given a socket of the engine by another thread.
    let sleeps = limit != Some(Duration::ZERO);
    if !(concerns_us || sleeps) || most <= 0 || events.is_null() {
        // What was put off is said before the program sleeps.
        let _ = host.settle();
        return plain();
    }
    let mut waiting = Waiting {
        host,
        instance,
        epfd,
        set,
        mask,
        found: Found {
            at: events,
            most: most as usize,
            count: 0,
        },
    };
    answer(|| waiting.run(limit).map(|n| n as c_int))
}

/// `epoll_wait(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { epoll_pwait(epfd, events, most, timeout, std::ptr::null()) }
}

/// `epoll_pwait(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    // SAFETY: the caller's promise.
    unsafe {
        wait(epfd, events, most, limit, mask, || {
            real::epoll_pwait(epfd, events, most, timeout, mask)
        })
    }
}

/// `epoll_pwait2(2)`; with sockets of the engine its time is rounded up to
/// milliseconds.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn epoll_pwait2(
    epfd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let limit = unsafe { timeout.as_ref() }.map(duration);
    // SAFETY: as above.
    unsafe {
        wait(epfd, events, most, limit, mask, || {
            real::epoll_pwait2(epfd, events, most, timeout, mask)
        })
    }
}
