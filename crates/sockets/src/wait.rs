//! How a thread waits: it looks, spins a little, and sleeps until the engine
//! wakes it.
//!
//! A thread that sleeps has a waiter of the arena, which it keeps until it
//! ends. It sleeps on the waiter's word for a moment, since waking it there costs least,
//! and then on an eventfd, in the kernel's poll beside the connection to the engine, which
//! hangs up when the engine has died. So does who waits for other descriptors, too. An engine
//! that ends in order wakes everybody.
//!
//! Wake-ups are exact: nobody relies on looking again after a while. Where it is done all the
//! same, it mends what a faulty or hostile engine leaves undone; tests turn it off
//! ([`LOOKS_VARIABLE`]), so that a wake-up that is missing shows.

mod places;
mod spin;

use crate::errors::SocketError;
use crate::host::Host;
use crate::wait_limit::{Signals, WaitLimit};
use crate::wake_eventfd::WakeEventfd;
use longshore_ring::{Sleep, Woken, is_confined, poll_unless_interrupted, section, set_confined};
use places::Place;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
pub use spin::SPIN_VARIABLE;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
#[cfg(any(test, feature = "testing"))]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The longest that anybody sleeps before it looks whether the engine lives.
pub const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// How long a thread sleeps where an engine that was killed does not wake it.
const SHORT_SLEEP: Duration = Duration::from_millis(10);
/// The environment variable that, set to `never`, keeps threads asleep until they are woken:
/// for tests of the wake-ups.
pub const LOOKS_VARIABLE: &str = "LONGSHORE_LOOKS";
/// How long to sleep where nobody will wake us: there was no waiter left, or
/// the session is short of memory.
pub const BLIND_SLEEP: Duration = Duration::from_millis(5);
/// No thread of this process that sleeps looks again, as with [`LOOKS_VARIABLE`].
#[cfg(any(test, feature = "testing"))]
pub(crate) static NEVER_LOOKS: AtomicBool = AtomicBool::new(false);

/// Whether a thread that sleeps looks again by itself.
fn looks_again() -> bool {
    #[cfg(any(test, feature = "testing"))]
    if NEVER_LOOKS.load(Ordering::Relaxed) {
        return false;
    }
    static CHOSEN: OnceLock<bool> = OnceLock::new();
    *CHOSEN.get_or_init(|| are_looks_wanted(std::env::var_os(LOOKS_VARIABLE).as_deref()))
}

/// What [`LOOKS_VARIABLE`] says.
fn are_looks_wanted(variable: Option<&OsStr>) -> bool {
    variable.is_none_or(|value| value != "never")
}

thread_local! {
    static THREAD_WAITER: RefCell<Option<ThreadWaiter>> = const { RefCell::new(None) };
}

/// What a thread has to sleep on.
struct ThreadWaiter {
    host: &'static Host,
    epoch: u32,
    index: u32,
    wake_fd: Option<WakeEventfd>,
    place: &'static Place,
}

impl Drop for ThreadWaiter {
    fn drop(&mut self) {
        if !self.place.leave(self.host.identity.epoch()) {
            // Somebody may wake it by these at any moment: they are nobody's until this process
            // ends.
            std::mem::forget(self.wake_fd.take());
            return;
        }
        // After a fork the waiter is the parent's.
        if self.epoch == self.host.identity.epoch() {
            self.host.threads().free_waiter(self.index);
        }
        if let Some(wake_fd) = self.wake_fd.take() {
            (self.host.hooks.discard)(wake_fd.into_fd());
        }
    }
}

/// Why a thread that waits looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It looks by itself.
    ByItself,
    /// It slept, and was woken.
    Woken,
}

/// What else, beside the engine, may end a wait: a kernel descriptor.
pub type Also<'a> = Option<(BorrowedFd<'a>, PollFlags)>;

/// The threads of a process that wait: what each sleeps on, and how long it looks before.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    host: &'static Host,
}

impl Host {
    /// Its threads that wait.
    #[inline]
    pub fn threads(&'static self) -> Threads {
        Threads { host: self }
    }
}

impl Threads {
    /// Claims a waiter of the arena for this process, one that it has given back before others.
    pub(crate) fn claim_waiter(self) -> Option<u32> {
        let pid = self.host.identity.pid();
        let waiters = self.host.session.waiters();
        while let Some(index) = self.host.given_back.take() {
            if waiters.claim_this(pid, index) {
                return Some(index);
            }
        }
        let start = self.host.next_waiter.load(Ordering::Relaxed);
        let index = waiters.claim(pid, start)?;
        self.host.next_waiter.store(index + 1, Ordering::Relaxed);
        Some(index)
    }

    /// Gives a waiter back.
    pub(crate) fn free_waiter(self, index: u32) {
        if self.host.session.waiters().free(index) {
            self.host.given_back.add(index);
        }
    }

    /// This thread's waiter.
    pub(crate) fn my_waiter(self) -> Option<u32> {
        self.mine(|mine| mine.index)
    }

    /// This thread's waiter with its eventfd, for a sleep in the kernel's poll
    /// or select: the waiter's index and the descriptor.
    pub(crate) fn thread_eventfd(self) -> Option<(u32, RawFd)> {
        self.mine(|mine| {
            if mine.wake_fd.is_none() {
                mine.wake_fd = self.host.descriptor_requests().make_eventfd(mine.index);
                if let Some(wake_fd) = &mine.wake_fd {
                    mine.place.set_wake_fd(wake_fd.as_raw_fd());
                }
            }
            mine.wake_fd.as_ref().map(|b| (mine.index, b.as_raw_fd()))
        })
        .flatten()
    }

    /// Prepares this thread for a filter of system calls (seccomp) that is about
    /// to hold, and the process: from now on it waits with read, write, poll and
    /// futex alone.
    pub fn confine(self) {
        let _ = self.thread_eventfd();
        set_confined(true);
    }

    /// The filter came to nothing.
    pub fn unconfine(self) {
        set_confined(false);
    }

    fn mine<T>(self, with: impl FnOnce(&mut ThreadWaiter) -> T) -> Option<T> {
        THREAD_WAITER
            .try_with(|slot| {
                let mut slot = slot.try_borrow_mut().ok()?;
                let epoch = self.host.identity.epoch();
                let fits = slot
                    .as_ref()
                    .is_some_and(|m| std::ptr::eq(m.host, self.host) && m.epoch == epoch);
                if !fits {
                    let index = self.claim_waiter()?;
                    *slot = Some(ThreadWaiter {
                        host: self.host,
                        epoch,
                        index,
                        wake_fd: None,
                        place: Place::take((self.host.hooks.thread)(), index, epoch),
                    });
                }
                slot.as_mut().map(with)
            })
            .ok()
            .flatten()
    }

    /// What comes before a sleep: looks, says what was put off, and looks for a short
    /// while whether `attempt` gives something. A function of its own, so that samples of a
    /// program show what this takes.
    #[inline(never)]
    pub(crate) fn look_awhile<T>(
        self,
        mut attempt: impl FnMut() -> Result<Option<T>, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        self.host.messages().drain_if_free();
        if let Some(found) = attempt()? {
            return Ok(Some(found));
        }
        self.look_again(attempt)
    }

    /// As `look_awhile`, for a caller that has just looked, in vain.
    pub(crate) fn look_again<T>(
        self,
        attempt: impl FnMut() -> Result<Option<T>, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        self.host.messages().flush()?;
        self.spin(attempt)
    }

    /// Waits until `attempt` gives something, woken by what happens to the
    /// socket of index `socket` (or by an answer sent to this thread's waiter),
    /// or by the kernel descriptor `also`. The attempt is told what it is for.
    pub(crate) fn wait_for<T>(
        self,
        socket: Option<u32>,
        also: Also<'_>,
        wait_limit: WaitLimit,
        mut attempt: impl FnMut(Look) -> Result<Option<T>, SocketError>,
    ) -> Result<T, SocketError> {
        let mut look = Look::ByItself;
        if !wait_limit.looked
            && let Some(found) = self.look_awhile(|| attempt(look))?
        {
            return Ok(found);
        }
        // Under a filter, poll may be allowed one descriptor alone.
        let with_eventfd = also.is_some() && !is_confined();
        let mut wake_fd = if with_eventfd {
            self.thread_eventfd()
        } else {
            None
        };
        let mut on_word = wake_fd.is_none() && also.is_none();
        let waiter = self.my_waiter();
        let listed = Listed::new(self.host, socket, waiter);
        loop {
            if let Some(w) = waiter {
                let how = if wake_fd.is_some() {
                    Sleep::Eventfd
                } else {
                    Sleep::Futex
                };
                self.host.session.waiters().at(w).declare(how);
            }
            self.host.messages().flush()?;
            self.host.messages().drain()?;
            if let Some(found) = attempt(look)? {
                drop(listed);
                return Ok(found);
            }
            if wait_limit.signals != Signals::Ignored && (self.host.hooks.is_cancelled)() {
                return Err(SocketError::Interrupted);
            }
            wait_limit.check_signals()?;
            let longest = if on_word { SHORT_SLEEP } else { LONGEST_SLEEP };
            let slept = self.sleep(waiter, wake_fd.map(|(_, fd)| fd), also, longest, wait_limit)?;
            look = match slept {
                Woken::Yes => Look::Woken,
                _ => Look::ByItself,
            };
            if on_word && slept == Woken::TimedOut && !is_confined() {
                (wake_fd, on_word) = (self.thread_eventfd(), false);
            }
        }
    }

    fn sleep(
        self,
        waiter: Option<u32>,
        wake_fd: Option<RawFd>,
        also: Also<'_>,
        longest: Duration,
        wait_limit: WaitLimit,
    ) -> Result<Woken, SocketError> {
        let left = wait_limit.left();
        if left.is_some_and(|l| l.is_zero()) {
            return Err(SocketError::TimedOut);
        }
        let is_unwakeable = waiter.is_none() || (also.is_some() && wake_fd.is_none());
        let blind = is_unwakeable || self.host.is_short();
        let longest = if blind {
            Some(BLIND_SLEEP)
        } else {
            looks_again().then_some(longest)
        };
        let nap = match (left, longest) {
            (Some(left), Some(longest)) => Some(left.min(longest)),
            (left, longest) => left.or(longest),
        };
        let woken = match (waiter, also, wake_fd) {
            (Some(w), None, None) => {
                let waiter = self.host.session.waiters().at(w);
                match wait_limit.signals {
                    Signals::Ignored => waiter.sleep(nap),
                    _ => waiter.sleep_unless_interrupted(nap),
                }
            }
            (_, also, wake_fd) => self.sleep_in_poll(wake_fd, also, nap, wait_limit.signals),
        };
        match woken {
            // One that could not be postponed has run.
            Woken::Interrupted if section(|s| s.postponed()) == 0 => {
                let ends = match wait_limit.signals {
                    Signals::Ignored => false,
                    Signals::Restart => !(self.host.hooks.restarts)(),
                    Signals::End => true,
                };
                if ends {
                    return Err(SocketError::Interrupted);
                }
            }
            Woken::TimedOut => self.host.look_at_engine(),
            _ => {}
        }
        Ok(woken)
    }

    /// Sleeps on an eventfd, and for what else is waited for, and for the engine's death.
    fn sleep_in_poll(
        self,
        wake_fd: Option<RawFd>,
        also: Also<'_>,
        nap: Option<Duration>,
        signals: Signals,
    ) -> Woken {
        // Under a filter, poll may be allowed one descriptor alone.
        let connection = (!is_confined()).then(|| self.host.connection());
        let (woken, has_hung_up) = sleep_on(wake_fd, also, connection, nap, signals);
        if has_hung_up {
            self.host.look_at_engine();
        }
        woken
    }
}

fn sleep_on(
    wake_fd: Option<RawFd>,
    also: Also<'_>,
    connection: Option<BorrowedFd<'_>>,
    nap: Option<Duration>,
    signals: Signals,
) -> (Woken, bool) {
    // SAFETY: the eventfd is this thread's, which keeps it open.
    let wake_fd = wake_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let mut fds = Vec::with_capacity(3);
    if let Some(wake_fd) = &wake_fd {
        fds.push(PollFd::new(wake_fd, PollFlags::IN));
    }
    if let Some((fd, events)) = &also {
        fds.push(PollFd::new(fd, *events));
    }
    if let Some(connection) = &connection {
        fds.push(PollFd::new(connection, PollFlags::empty()));
    }
    let time = nap.map(|nap| Timespec {
        tv_sec: nap.as_secs() as i64,
        tv_nsec: i64::from(nap.subsec_nanos()),
    });
    let result = match signals {
        Signals::Ignored => poll(&mut fds, time.as_ref()),
        _ => poll_unless_interrupted(&mut fds, time),
    };
    let has_hung_up = connection.is_some() && fds.last().is_some_and(|p| !p.revents().is_empty());
    if let Some(wake_fd) = wake_fd {
        let _ = rustix::io::read(wake_fd, &mut [0u8; 8]);
    }
    let woken = match result {
        Err(Errno::INTR) => Woken::Interrupted,
        Ok(0) => Woken::TimedOut,
        _ => Woken::Yes,
    };
    (woken, has_hung_up)
}

/// A waiter listed at a socket's block, for as long as this lives.
struct Listed {
    host: &'static Host,
    socket: Option<u32>,
    waiter: Option<u32>,
}

impl Listed {
    fn new(host: &'static Host, socket: Option<u32>, waiter: Option<u32>) -> Self {
        if let (Some(socket), Some(waiter)) = (socket, waiter) {
            host.session.block(socket).add_waiter(waiter);
        }
        Self {
            host,
            socket,
            waiter,
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.host.session.waiters().at(waiter).cancel();
            if let Some(socket) = self.socket {
                self.host.session.block(socket).remove_waiter(waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests;
