//! Signals eventfds that an untrusted process also holds, without being blocked by them.
//!
//! A program that sleeps in poll holds the eventfd as well: at any moment it can make it
//! blocking and fill its counter, and a `write` would then block the engine for as long
//! as the program likes. Signals from the kernel itself never block: they raise the count
//! as far as possible, and wake. Therefore the engine submits a read of no bytes from a
//! file of its own (Linux AIO, `io_submit(2)`), whose completion is signalled to that
//! eventfd (IOCB_FLAG_RESFD); it has completed when the call returns. This costs about
//! twice as much as `write`, so an engine with only one program, which can block nobody
//! but itself, uses `write`. An engine has one [`EventfdSignaler`].
//!
//! A program can also have its eventfd watched by tens of thousands of epoll instances.
//! The kernel visits each of them before a signal returns, without rescheduling. An
//! eventfd that was slow to signal is from then on signalled by a separate thread, which
//! sleeps for a multiple of the time that it took, until the eventfd has been fast
//! several times in a row. What counts is the thread's processor time: a thread that is woken
//! often preempts the one that wakes it, and then the signal returns milliseconds later at no
//! fault of the eventfd.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Size of the AIO context. Each read has completed before the next is submitted;
/// completion events are fetched only when the context is full.
const DEPTH: usize = 64;

/// A signal that takes at least this long counts as slow. One usually takes a microsecond
/// or two; more if many instances watch the eventfd.
const SLOW_SIGNAL: Duration = Duration::from_micros(100);
/// After this many fast signals in a row an eventfd no longer counts as slow.
const FAST_SIGNALS: u32 = 16;
/// The thread for slow eventfds sleeps this many times as long as the signal took, so
/// that its load stays below what delays one request in a hundred.
const PAUSE_FACTOR: u32 = 200;
/// Upper bound of that sleep.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An eventfd that an untrusted process also holds.
#[derive(Debug)]
pub struct UntrustedEventfd {
    fd: OwnedFd,
    /// The last signal returned late: the next is measured in processor time.
    is_suspect: AtomicBool,
    /// How many more fast signals are needed before it no longer counts as slow; 0 if it
    /// does not.
    strikes: AtomicU32,
    /// It is queued for the thread for slow eventfds.
    is_due: AtomicBool,
}

impl UntrustedEventfd {
    /// Creates one, non-blocking, as it stays unless the other side is malicious.
    ///
    /// # Errors
    /// The kernel's, most likely that the limit on descriptors is reached.
    pub fn make() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self {
            fd: eventfd(0, flags)?,
            is_suspect: AtomicBool::new(false),
            strikes: AtomicU32::new(0),
            is_due: AtomicBool::new(false),
        })
    }

    /// The eventfd, to be passed to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Signals it, and has the next signal measured if this one returned late. The clock is
    /// cheap, but cannot tell a slow eventfd from a preempted thread.
    fn signal(&self, submitter: &Submitter) {
        if self.is_suspect.load(Ordering::Relaxed) {
            self.signal_timed(submitter);
            return;
        }
        let began = Instant::now();
        submitter.signal(&self.fd);
        if began.elapsed() >= SLOW_SIGNAL {
            self.is_suspect.store(true, Ordering::Relaxed);
        }
    }

    /// Signals it and records whether that was slow; returns the processor time that it took.
    fn signal_timed(&self, submitter: &Submitter) -> Duration {
        let began = thread_time();
        submitter.signal(&self.fd);
        let took = thread_time().saturating_sub(began);
        let strikes = if took >= SLOW_SIGNAL {
            FAST_SIGNALS
        } else {
            self.strikes.load(Ordering::Relaxed).saturating_sub(1)
        };
        self.strikes.store(strikes, Ordering::Relaxed);
        self.is_suspect.store(strikes != 0, Ordering::Relaxed);
        took
    }

    /// Whether it is signalled by the thread for slow eventfds.
    pub fn is_slow(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) != 0
    }
}

/// Signals the eventfds: through the kernel's AIO completions if there is a submitter,
/// which never blocks; otherwise by writing, which a malicious program can block.
#[derive(Debug)]
pub struct EventfdSignaler {
    submitter: Option<Arc<Submitter>>,
    /// The queue of the thread for slow eventfds.
    slow: Option<Sender<Arc<UntrustedEventfd>>>,
}

impl EventfdSignaler {
    /// One for programs that do not trust each other. If the kernel has no AIO, or no
    /// context left (fs.aio-max-nr), it writes, and [`EventfdSignaler::may_block`] is
    /// true.
    pub fn for_many() -> Self {
        let submitter = Submitter::new().ok().map(Arc::new);
        let slow = submitter.as_ref().and_then(|submitter| {
            let (send, slow_eventfds) = channel::<Arc<UntrustedEventfd>>();
            let submitter = submitter.clone();
            let ring = move || {
                for eventfd in slow_eventfds {
                    eventfd.is_due.store(false, Ordering::Release);
                    let took = eventfd.signal_timed(&submitter);
                    if took >= SLOW_SIGNAL {
                        std::thread::sleep((took * PAUSE_FACTOR).min(LONGEST_PAUSE));
                    }
                }
            };
            let thread = std::thread::Builder::new().name("slow-eventfds".to_owned());
            thread.spawn(ring).ok().map(|_| send)
        });
        Self { submitter, slow }
    }

    /// One for a single program, which can block nobody but itself.
    pub fn for_one() -> Self {
        Self {
            submitter: None,
            slow: None,
        }
    }

    /// Whether a hostile program can block it.
    pub fn may_block(&self) -> bool {
        self.submitter.is_none()
    }

    /// Wakes the thread that waits for `eventfd`. Signalling it again before it is cleared
    /// has no further effect.
    pub fn ring(&self, eventfd: &Arc<UntrustedEventfd>) {
        let Some(submitter) = &self.submitter else {
            let _ = rustix::io::write(&eventfd.fd, &1u64.to_ne_bytes());
            return;
        };
        if eventfd.is_slow()
            && let Some(slow) = &self.slow
        {
            if !eventfd.is_due.swap(true, Ordering::AcqRel) {
                let _ = slow.send(eventfd.clone());
            }
            return;
        }
        eventfd.signal(submitter);
    }
}

/// How long the calling thread has had a processor. By the C library: rustix looks for the
/// kernel's vDSO at the first call, by calls that an engine in its sandbox may not make.
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call, which fills it.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A Linux AIO context, and the empty file that it reads.
#[derive(Debug)]
struct Submitter {
    context: libc::c_ulong,
    empty: OwnedFd,
}

/// `struct iocb` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct Iocb {
    data: u64,
    /// `aio_key` and `aio_rw_flags`, in native byte order.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    signalled: u32,
}

/// `struct io_event` of the same.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct IoEvent {
    data: u64,
    iocb: u64,
    result: [i64; 2],
}

const _: () = assert!(size_of::<Iocb>() == 64 && size_of::<IoEvent>() == 32);

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_FLAG_RESFD: u32 = 1;

impl Submitter {
    fn new() -> io::Result<Self> {
        let empty = memfd_create("longshore-empty", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is 0 and outlives the call.
        if unsafe { libc::syscall(libc::SYS_io_setup, DEPTH, &raw mut context) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { context, empty })
    }

    fn signal(&self, eventfd: &OwnedFd) {
        let read = Iocb {
            opcode: IOCB_CMD_PREAD,
            fd: self.empty.as_raw_fd() as u32,
            flags: IOCB_FLAG_RESFD,
            signalled: eventfd.as_raw_fd() as u32,
            ..Iocb::default()
        };
        if self.submit(&read) == Err(Errno::AGAIN) {
            self.take_events();
            let _ = self.submit(&read);
        }
    }

    fn submit(&self, read: &Iocb) -> Result<(), Errno> {
        let list = [std::ptr::from_ref(read)];
        // SAFETY: one read of no bytes, copied by the kernel before the call returns.
        match unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_ptr()) } {
            -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
            _ => Ok(()),
        }
    }

    #[cold]
    fn take_events(&self) {
        let mut events = [IoEvent::default(); DEPTH];
        let (least, most) = (0, events.len());
        let no_time: *mut libc::timespec = std::ptr::null_mut();
        // SAFETY: room for that many; with a least number of 0 it does not wait.
        while unsafe {
            let to = events.as_mut_ptr();
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                least,
                most,
                to,
                no_time,
            )
        } == most as i64
        {}
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and nothing is in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    fn count(eventfd: impl AsFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(eventfd, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    fn eventfd() -> (OwnedFd, Arc<UntrustedEventfd>) {
        let eventfd = UntrustedEventfd::make().unwrap();
        (
            eventfd.fd().try_clone_to_owned().unwrap(),
            Arc::new(eventfd),
        )
    }

    /// One that very many watch is rung elsewhere, and none is lost.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_bell_that_many_watch_holds_up_nobody_else() {
        use rustix::event::epoll;
        let signaler = EventfdSignaler::for_many();
        if signaler.may_block() {
            return;
        }
        let (own, eventfd) = eventfd();
        let copies: Vec<OwnedFd> = (0..200).map(|_| own.try_clone().unwrap()).collect();
        let sets = (0..100).map(|_| {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
            for copy in &copies {
                let data = epoll::EventData::new_u64(1);
                epoll::add(&set, copy, data, epoll::EventFlags::IN).unwrap();
            }
            set
        });
        let sets: Vec<OwnedFd> = sets.collect();
        let mut rung = 0;
        while !eventfd.is_slow() {
            signaler.ring(&eventfd);
            rung += 1;
            assert!(rung < 1000, "20,000 watch it, and it is not slow");
        }
        assert_eq!(count(&own), rung);
        signaler.ring(&eventfd);
        let began = Instant::now();
        while count(&own) == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "it is not rung");
            std::thread::yield_now();
        }
        // When no instance watches it any more, it soon counts as fast again.
        drop(sets);
        while eventfd.is_slow() {
            signaler.ring(&eventfd);
            assert!(began.elapsed() < Duration::from_secs(60), "it stays slow");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// One that was held up once, and is fast, is measured once.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_fast_eventfd_is_not_suspect_for_long() {
        let Ok(submitter) = Submitter::new() else {
            return;
        };
        let (_own, eventfd) = eventfd();
        eventfd.is_suspect.store(true, Ordering::Relaxed);
        while eventfd.signal_timed(&submitter) >= SLOW_SIGNAL {
            assert!(eventfd.is_suspect.load(Ordering::Relaxed) && eventfd.is_slow());
            eventfd.strikes.store(0, Ordering::Relaxed);
        }
        assert!(!eventfd.is_suspect.load(Ordering::Relaxed) && !eventfd.is_slow());
    }

    /// A thread that is preempted while it signals has not been held up by the eventfd.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn an_eventfd_is_not_slow_because_its_signaller_was_preempted() {
        let signaler = EventfdSignaler::for_many();
        if signaler.may_block() {
            return;
        }
        let mut here = rustix::thread::CpuSet::new();
        here.set(rustix::thread::sched_getcpu());
        let (done, (_own, eventfd)) = (AtomicBool::new(false), eventfd());
        let (mut preempted, mut slow) = (0, 0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    rustix::thread::sched_setaffinity(None, &here).unwrap();
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let signals = scope.spawn(|| {
                rustix::thread::sched_setaffinity(None, &here).unwrap();
                let began = Instant::now();
                while preempted < 40 && began.elapsed() < Duration::from_secs(30) {
                    let signal = Instant::now();
                    signaler.ring(&eventfd);
                    preempted += u32::from(signal.elapsed() >= 10 * SLOW_SIGNAL);
                    slow += u32::from(eventfd.is_slow());
                    eventfd.strikes.store(0, Ordering::Relaxed);
                }
                done.store(true, Ordering::Relaxed);
            });
            signals.join().unwrap();
        });
        // A virtual machine that is itself preempted may count that as the thread's time.
        assert!(
            preempted >= 20 && slow <= 4,
            "{slow} slow, {preempted} preempted"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn rings_as_often_as_it_likes() {
        let (own, eventfd) = eventfd();
        for signaler in [EventfdSignaler::for_many(), EventfdSignaler::for_one()] {
            for _ in 0..10 * DEPTH {
                signaler.ring(&eventfd);
                // On a machine that is busy with others.
                eventfd.strikes.store(0, Ordering::Relaxed);
            }
            assert_eq!(count(&own), 10 * DEPTH as u64);
            assert_eq!(count(&own), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn it_blocks_only_without_a_context() {
        assert!(EventfdSignaler::for_one().may_block());
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is 0, outlives the calls, and is used by nobody else.
        let can = unsafe {
            let made = libc::syscall(libc::SYS_io_setup, 1, &raw mut context) == 0;
            libc::syscall(libc::SYS_io_destroy, context);
            made
        };
        assert_ne!(EventfdSignaler::for_many().may_block(), can);
    }

    /// The context is where its events are mapped.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_context_is_given_back() {
        let Ok(submitter) = Submitter::new() else {
            return;
        };
        let context = submitter.context;
        let is_there = || crate::testing::is_mapped(&format!("\n{context:x}-"));
        assert!(is_there());
        drop(submitter);
        // Another test's may take its place for a while.
        crate::testing::until(|| !is_there());
    }

    /// As full as a program can make it, and fuller, as only the kernel can.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_full_eventfd_that_blocks_does_not_hold_it_up() {
        let signaler = EventfdSignaler::for_many();
        if signaler.may_block() {
            return;
        }
        let (own, eventfd) = eventfd();
        fcntl_setfl(&own, OFlags::empty()).unwrap();
        rustix::io::write(&own, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            signaler.ring(&eventfd);
        }
        assert_eq!(count(&own), u64::MAX);
    }
}
