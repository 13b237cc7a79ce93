//! `poll`, `ppoll`, and the waiting that `select` shares.
//!
//! The engine's sockets are looked at in the arena; all other descriptors stay
//! in a list for the kernel, in which the thread's eventfd and the connection to
//! the engine stand beside them while the thread sleeps.

use crate::calls::timeouts::{is_mask_there, limit_of, longest_sleep, timespec_of};
use crate::calls::{answer, last_error, refused, unless_kernels};
use crate::cancel::{held, is_cancelled, point};
use crate::epoll::{Asleep, Instance, instance};
use crate::fds::{self, Entry};
use crate::owner::Interruption;
use crate::signals::{self, waits};
use crate::user::{In, Out};
use crate::{place, real, vectors};
use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use longshore_hostif::{OwnersSignal, Raised};
use longshore_sockets::{Host, Ready, Sleeper, Socket, SocketError, deadline_after, is_confined};
use std::ops::{Add, Range};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// `poll(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn poll(list: Out<'_, pollfd>, count: nfds_t, timeout: c_int) -> c_int {
    point(|| {
        let ours = unless_kernels(|| {
            let (host, list) = with_ours(list, count)?;
            let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
            Some(answer(|| wait_in_poll(host, list, limit, In::null())))
        });
        ours.unwrap_or_else(|| real::poll(list, count, timeout))
    })
}

/// `ppoll(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn ppoll(
    list: Out<'_, pollfd>,
    count: nfds_t,
    timeout: In<'_, timespec>,
    mask: In<'_, sigset_t>,
) -> c_int {
    point(|| {
        let ours = unless_kernels(|| {
            let (host, list) = with_ours(list, count)?;
            let limit = limit_of(timeout).filter(|_| is_mask_there(mask))?;
            Some(answer(|| wait_in_poll(host, list, limit, mask)))
        });
        ours.unwrap_or_else(|| real::ppoll(list, count, timeout, mask))
    })
}

/// Waits for a list of the program's, which may not be longer than it may have descriptors.
fn wait_in_poll(
    host: &'static Host,
    list: &mut [pollfd],
    limit: Option<Duration>,
    mask: In<'_, sigset_t>,
) -> Result<c_int, SocketError> {
    check_length(list)?;
    wait(host, (list, counts_in_poll), limit, mask).map(|n| n as c_int)
}

/// Of what there is of a descriptor, what its entry in a list for poll is ready with.
fn counts_in_poll(entry: &pollfd) -> i16 {
    entry.events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL
}

fn check_length(list: &[pollfd]) -> Result<(), SocketError> {
    // Nobody sets fewer, and a short list is not to cost a system call more.
    const ALWAYS: usize = 4;
    if list.len() <= ALWAYS || is_confined() {
        return Ok(());
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if most.is_some_and(|most| list.len() as u64 > most) {
        return Err(refused(libc::EINVAL));
    }
    Ok(())
}

/// The list, if there is anything of ours in it.
fn with_ours<'a>(
    list: Out<'a, pollfd>,
    count: nfds_t,
) -> Option<(&'static Host, &'a mut [pollfd])> {
    let host = place::attached()?;
    let bytes = usize::try_from(count)
        .ok()?
        .checked_mul(size_of::<pollfd>())?;
    if count == 0 || !vectors::can_be_written(list, bytes) {
        return None;
    }
    let list = list.slice_mut(count as usize);
    list.iter().any(|p| is_ours(p.fd)).then_some((host, list))
}

/// Whether a descriptor is a socket of the engine or an epoll instance that has
/// some.
pub(crate) fn is_ours(fd: c_int) -> bool {
    match fds::get(fd) {
        Entry::Engine(_) => true,
        Entry::Epoll(number) => instance(number).is_some_and(Instance::has_sets),
        _ => false,
    }
}

/// One of ours in a list.
enum Ours {
    Socket(Socket),
    Instance(&'static Instance),
}

impl Ours {
    fn of(fd: c_int) -> Option<Self> {
        match fds::get(fd) {
            Entry::Engine(_) => fds::engine(fd).map(Self::Socket),
            Entry::Epoll(number) => {
                let instance = instance(number).filter(|instance| instance.has_sets());
                instance.map(Self::Instance)
            }
            _ => None,
        }
    }

    /// Whether the descriptor still stands for it.
    fn is_behind(&self, fd: c_int) -> bool {
        match (self, fds::get(fd)) {
            (Self::Socket(socket), Entry::Engine(_)) => fds::is_of(fd, socket.id()),
            (Self::Instance(of), Entry::Epoll(number)) => {
                instance(number).is_some_and(|now| std::ptr::eq(now, *of))
            }
            _ => false,
        }
    }

    fn ready(&self) -> u32 {
        match self {
            Self::Socket(socket) => socket.readiness().bits(),
            Self::Instance(of) if of.is_ready() => (Ready::IN | Ready::RDNORM).bits(),
            Self::Instance(_) => 0,
        }
    }

    /// Whether the kernel, too, may have something to say about it, and what it
    /// is to be asked for.
    fn kernel_events(&self, wanted: i16) -> Option<i16> {
        match self {
            Self::Socket(s) if s.has_kernel_side() => {
                Some(wanted & (libc::POLLIN | libc::POLLRDNORM))
            }
            Self::Socket(_) => None,
            Self::Instance(_) => Some(wanted),
        }
    }
}

/// A list with its part for the kernel.
struct Lists<'a> {
    list: &'a mut [pollfd],
    /// What of all that there is an entry is ready with.
    counts: fn(&pollfd) -> i16,
    ours: Vec<(usize, Ours)>,
    kernel: Vec<pollfd>,
}

impl<'a> Lists<'a> {
    fn new(list: &'a mut [pollfd], counts: fn(&pollfd) -> i16) -> Self {
        let mut ours = Vec::new();
        let mut kernel = list.to_vec();
        for (i, p) in list.iter().enumerate() {
            if let Some(one) = Ours::of(p.fd) {
                match one.kernel_events(p.events) {
                    Some(events) => kernel[i].events = events,
                    None => kernel[i].fd = -1,
                }
                ours.push((i, one));
            }
        }
        Self {
            list,
            counts,
            ours,
            kernel,
        }
    }

    /// Looks up what the descriptors stand for now: another thread may have closed or replaced
    /// some while this one slept, and poll reports what is there when it has been woken.
    fn look_up_again(&mut self) -> Result<(), SocketError> {
        let (list, kernel) = (&self.list, &mut self.kernel);
        let before = self.ours.len();
        self.ours.retain_mut(|(i, one)| {
            let p = list[*i];
            if !one.is_behind(p.fd) {
                let Some(other) = Ours::of(p.fd) else {
                    kernel[*i] = pollfd { revents: 0, ..p };
                    return false;
                };
                *one = other;
            }
            true
        });
        if self.ours.len() < before {
            self.ask_kernel()?;
        }
        Ok(())
    }

    /// Looks at ours; says how many are ready.
    fn look(&mut self) -> usize {
        let mut found = 0;
        for (i, one) in &self.ours {
            let p = &mut self.list[*i];
            p.revents = one.ready() as i16 & (self.counts)(p);
            found += usize::from(p.revents != 0);
        }
        found
    }

    /// Waits for what is on its way to ours from other sockets of the engine; whether there
    /// was anything.
    fn await_coming(&self, host: &'static Host) -> bool {
        host.under_way().wait() | self.await_coming_within()
    }

    /// As `await_coming`, for connections within the engine alone, of which it is known.
    fn await_coming_within(&self) -> bool {
        let mut any = false;
        for (_, one) in &self.ours {
            if let Ours::Socket(socket) = one {
                any |= socket.is_within() && socket.pair_end().await_coming();
            }
        }
        any
    }

    /// How often the owners of ours were signalled, all together.
    fn raised(&self, signal: OwnersSignal) -> Raised {
        let each = self.ours.iter().map(|(_, one)| match one {
            Ours::Socket(socket) => socket.urgent_data().raised(signal),
            Ours::Instance(of) => of.raised(signal),
        });
        each.fold(Raised::default(), Raised::add)
    }

    /// Declares that this thread sleeps for the epoll instances in the list, and has the
    /// kernel look at what wakes it for them.
    fn declare(&mut self) -> Result<Vec<Asleep>, SocketError> {
        let mut all = Vec::new();
        for (i, one) in &self.ours {
            if let Ours::Instance(of) = one {
                let asleep = of.fall_asleep()?;
                self.kernel[*i].fd = asleep.fd();
                all.push(asleep);
            }
        }
        Ok(all)
    }

    /// Adds the descriptors that wake a thread of ours to those that the kernel is asked about;
    /// gives the part of all that it is to be asked about.
    fn add_own(&mut self, host: &Host, sleeper: &Sleeper) -> Range<usize> {
        let count = self.list.len();
        // The connection only for its end: answers to questions come over it, too. When that is
        // known, it would say so without end.
        let wake_fd = (sleeper.wake_fd().unwrap_or(-1), libc::POLLIN);
        let connection = if host.is_gone() {
            -1
        } else {
            host.connection().as_raw_fd()
        };
        for (fd, events) in [wake_fd, (connection, 0)] {
            self.kernel.push(pollfd {
                fd,
                events,
                revents: 0,
            });
        }
        // Under a filter of system calls, poll may be allowed no more descriptors
        // than the program itself gives it.
        match (is_confined(), self.has_kernels()) {
            (false, _) => 0..count + 2,
            (true, true) => 0..count,
            (true, false) => count..count + 1,
        }
    }

    /// Whether the kernel has anything to look at.
    fn has_kernels(&self) -> bool {
        self.kernel[..self.list.len()].iter().any(|p| p.fd >= 0)
    }

    /// Asks the kernel again about epoll instances of which it says that they are ready:
    /// it may be for their eventfd alone, written to for what is not there any more.
    fn silence_hollow(&mut self) -> Result<(), SocketError> {
        for (i, one) in &self.ours {
            let Ours::Instance(of) = one else { continue };
            let kernel = &mut self.kernel[*i];
            if kernel.revents != 0 {
                of.is_hollow(|| {
                    held(|| real::poll(Out::from(&mut *kernel), 1, 0));
                    kernel.revents != 0
                })?;
            }
        }
        Ok(())
    }

    /// Puts together what both said; says how many are ready.
    fn merge(&mut self) -> Result<usize, SocketError> {
        self.silence_hollow()?;
        let mut is_ours = self.ours.iter().map(|(i, _)| *i).peekable();
        let mut found = 0;
        for (i, p) in self.list.iter_mut().enumerate() {
            let kernel = &mut self.kernel[i];
            let from_kernel = match kernel.fd {
                0.. => kernel.revents & (self.counts)(p),
                _ => 0,
            };
            if from_kernel == 0 && kernel.fd >= 0 && kernel.revents != 0 {
                // It stays, and the kernel would say so without end.
                kernel.fd = -1;
            }
            if is_ours.next_if_eq(&i).is_some() {
                p.revents |= from_kernel;
            } else {
                p.revents = from_kernel;
            }
            found += usize::from(p.revents != 0);
        }
        Ok(found)
    }

    /// Asks the kernel, without waiting.
    fn ask_kernel(&mut self) -> Result<(), SocketError> {
        if self.has_kernels() {
            let (at, count) = (Out::from(&mut self.kernel[..]), self.list.len() as nfds_t);
            if held(|| real::poll(at, count, 0)) < 0 {
                return Err(last_error());
            }
        }
        Ok(())
    }
}

/// Waits for what `list` asks for; returns how many are ready, with what `counts` of each.
pub(crate) fn wait(
    host: &'static Host,
    (list, counts): (&mut [pollfd], fn(&pollfd) -> i16),
    limit: Option<Duration>,
    mask: In<'_, sigset_t>,
) -> Result<usize, SocketError> {
    let mut lists = Lists::new(list, counts);
    host.under_way().await_own_pairs();
    host.messages().catch_up();
    let interruption = Interruption::begin(|s| lists.raised(s));
    let mut found = lists.look();
    if found == 0 {
        host.messages().end_turn();
    }
    if limit == Some(Duration::ZERO) {
        // One that does not wait reports all that there is.
        let has_come = match found {
            0 => lists.await_coming(host),
            _ => lists.await_coming_within(),
        };
        if has_come {
            found = lists.look();
        }
    }
    if found == 0 && limit == Some(Duration::ZERO) && !mask.is_null() {
        // Signals that the mask lets in are handled even if there is no time to wait.
        in_kernel(&mut lists.kernel, limit, mask)?;
        return lists.merge();
    }
    if found != 0 || limit == Some(Duration::ZERO) {
        lists.ask_kernel()?;
        return lists.merge();
    }
    host.messages().flush()?;
    let spun = host
        .threads()
        .spin(|| Ok(Some(lists.look()).filter(|n| *n != 0)))?;
    if spun.is_some() {
        lists.ask_kernel()?;
        return lists.merge();
    }
    sleep(host, &mut lists, limit, mask, interruption)
}

fn sleep(
    host: &'static Host,
    lists: &mut Lists<'_>,
    limit: Option<Duration>,
    mask: In<'_, sigset_t>,
    mut interruption: Interruption,
) -> Result<usize, SocketError> {
    let deadline = deadline_after(limit);
    let sleeper = host.sleeper();
    for (_, one) in &lists.ours {
        if let Ours::Socket(socket) = one {
            sleeper.list(socket);
        }
    }
    let count = lists.list.len();
    let asked = lists.add_own(host, &sleeper);
    let wakes = sleeper.wake_fd().is_some() && asked.contains(&count);
    loop {
        let asleep = lists.declare()?;
        let watched = wakes && asleep.iter().all(|one| one.is_watched);
        let longest = longest_sleep(host, watched);
        sleeper.declare()?;
        let result = if lists.look() != 0 {
            lists.ask_kernel()
        } else if is_cancelled() || interruption.has_come(|s| lists.raised(s), mask, false) {
            Err(SocketError::Interrupted)
        } else {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            in_kernel(&mut lists.kernel[asked.clone()], longest(left), mask)
        };
        drop(asleep);
        sleeper.awake(!asked.contains(&count) || lists.kernel[count].revents != 0);
        result?;
        let connection = &mut lists.kernel[count + 1];
        if is_confined() || connection.revents != 0 {
            host.look_at_engine();
        }
        if connection.revents != 0 {
            // It stays hung up. Those of ours that do not report it, as listeners, are waited for
            // without it.
            connection.fd = -1;
        }
        host.messages().catch_up();
        lists.look_up_again()?;
        lists.look();
        let found = lists.merge()?;
        if found != 0 || deadline.is_some_and(|d| d <= Instant::now()) {
            return Ok(found);
        }
    }
}

fn in_kernel(
    list: &mut [pollfd],
    left: Option<Duration>,
    mask: In<'_, sigset_t>,
) -> Result<(), SocketError> {
    let mut time = left.map(timespec_of);
    let time = time.as_mut().map_or(Out::null(), Out::from);
    let count = list.len();
    // At the mask the kernel looks itself.
    waits::ppoll(Out::from(list), count, time, mask, signals::SET_BYTES).map(drop)
}

unsafe extern "C" {
    safe fn __chk_fail() -> !;
}

/// `poll` with the size of the list.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __poll_chk(
    list: Out<'_, pollfd>,
    count: nfds_t,
    timeout: c_int,
    room: libc::size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        __chk_fail();
    }
    poll(list, count, timeout)
}

/// `ppoll` with the size of the list.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __ppoll_chk(
    list: Out<'_, pollfd>,
    count: nfds_t,
    timeout: In<'_, timespec>,
    mask: In<'_, sigset_t>,
    room: libc::size_t,
) -> c_int {
    if room / size_of::<pollfd>() < count as usize {
        __chk_fail();
    }
    ppoll(list, count, timeout, mask)
}

/// `__poll`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __poll(list: Out<'_, pollfd>, count: nfds_t, timeout: c_int) -> c_int {
    poll(list, count, timeout)
}
