//! Rings eventfds that a side has that is not trusted, and is never held up by them.
//!
//! A program that sleeps in poll is given an eventfd, and has it, too: it can make
//! it blocking and fill it to the brim at any moment, and then `write` would hold up
//! whoever rings it for as long as the program likes. What the kernel signals by itself
//! never waits: it counts up as far as there is room, and wakes. So a read of nothing
//! from a file of our own is submitted (Linux AIO, `io_submit(2)`) whose end is to be
//! signalled to that eventfd (IOCB_FLAG_RESFD); it is at its end when the call
//! returns. That costs about twice as much as `write`, so an engine with one program
//! alone, which can hold up nobody but itself, writes. An engine has one [`EventfdSignaler`].
//!
//! A program can also have its eventfd watched by ten thousands of epoll instances, each of
//! which the kernel looks at before a signal is done, and it lets nobody else have the
//! processor meanwhile. One that has taken long is rung by a thread for such from then on,
//! which pauses for a multiple of what it took, until it has been quick several times in a
//! row.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Reads in flight at most. Each is over before the next is made; what the kernel
/// notes of their ends is taken when there is no more room for it.
const DEPTH: usize = 64;

/// To ring takes a microsecond or two; as long as this if many look at it, or if the
/// processor was taken away.
const DEAR: Duration = Duration::from_micros(100);
/// So often in a row the thread for dear ones has rung one quickly: it is one no more.
const QUICK: u32 = 16;
/// The thread for dear ones pauses so many times as long as it took to ring one: what it does
/// comes to less of a processor than what is noticed in the 99th of 100 cases.
const PAUSE: u32 = 200;
/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// An eventfd that a side has that is not trusted.
#[derive(Debug)]
pub struct UntrustedEventfd {
    fd: OwnedFd,
    /// How often it has to be quick to ring before it is not dear; 0 if it is not.
    strikes: AtomicU32,
    /// It is about to be rung by the thread for dear ones.
    is_due: AtomicBool,
}

impl UntrustedEventfd {
    /// Makes one, non-blocking, as it stays unless the other side has evil in mind.
    ///
    /// # Errors
    /// The kernel's, most likely that the limit of descriptors is reached.
    pub fn make() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self {
            fd: eventfd(0, flags)?,
            strikes: AtomicU32::new(0),
            is_due: AtomicBool::new(false),
        })
    }

    /// The eventfd, to be given to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Rings it, and notes whether that took long; how long it took.
    fn rung_by(&self, submitter: &Submitter) -> Duration {
        let began = Instant::now();
        submitter.signal(&self.fd);
        let took = began.elapsed();
        let strikes = if took >= DEAR {
            QUICK
        } else {
            self.strikes.load(Ordering::Relaxed).saturating_sub(1)
        };
        self.strikes.store(strikes, Ordering::Relaxed);
        took
    }

    /// Whether it is rung by a thread for such, since that takes long.
    pub fn is_dear(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) != 0
    }
}

/// What rings them: by the kernel's signals, if there is a submitter, and then it never
/// waits; else by writing, and a program that has evil in mind can make it wait.
#[derive(Debug)]
pub struct EventfdSignaler {
    submitter: Option<Arc<Submitter>>,
    /// To the thread that rings dear ones.
    dear: Option<Sender<Arc<UntrustedEventfd>>>,
}

impl EventfdSignaler {
    /// One for programs that do not trust each other. Where the kernel has no AIO, or
    /// none left (fs.aio-max-nr), it writes after all, and [`EventfdSignaler::may_wait`].
    pub fn for_many() -> Self {
        let submitter = Submitter::new().ok().map(Arc::new);
        let dear = submitter.as_ref().and_then(|submitter| {
            let (send, bells) = channel::<Arc<UntrustedEventfd>>();
            let submitter = submitter.clone();
            let ring = move || {
                for bell in bells {
                    bell.is_due.store(false, Ordering::Release);
                    let took = bell.rung_by(&submitter);
                    if took >= DEAR {
                        std::thread::sleep((took * PAUSE).min(LONGEST_PAUSE));
                    }
                }
            };
            let thread = std::thread::Builder::new().name("bells".to_owned());
            thread.spawn(ring).ok().map(|_| send)
        });
        Self { submitter, dear }
    }

    /// One for a program that holds up nobody but itself.
    pub fn for_one() -> Self {
        Self {
            submitter: None,
            dear: None,
        }
    }

    /// Whether a hostile program may hold it up.
    pub fn may_wait(&self) -> bool {
        self.submitter.is_none()
    }

    /// Wakes whoever waits for `bell`. One that rings already is left so.
    pub fn ring(&self, bell: &Arc<UntrustedEventfd>) {
        let Some(submitter) = &self.submitter else {
            let _ = rustix::io::write(&bell.fd, &1u64.to_ne_bytes());
            return;
        };
        if bell.is_dear()
            && let Some(dear) = &self.dear
        {
            if !bell.is_due.swap(true, Ordering::AcqRel) {
                let _ = dear.send(bell.clone());
            }
            return;
        }
        bell.rung_by(submitter);
    }
}

/// A context of Linux AIO, and the empty file that it reads.
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
    /// `aio_key` and `aio_rw_flags`, in the order of the machine.
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

    fn signal(&self, bell: &OwnedFd) {
        let read = Iocb {
            opcode: IOCB_CMD_PREAD,
            fd: self.empty.as_raw_fd() as u32,
            flags: IOCB_FLAG_RESFD,
            signalled: bell.as_raw_fd() as u32,
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

    fn count(bell: impl AsFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(bell, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
    }

    fn bell() -> (OwnedFd, Arc<UntrustedEventfd>) {
        let bell = UntrustedEventfd::make().unwrap();
        (bell.fd().try_clone_to_owned().unwrap(), Arc::new(bell))
    }

    /// One that very many watch is rung elsewhere, and none is lost.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_bell_that_many_watch_holds_up_nobody_else() {
        use rustix::event::epoll;
        let signaler = EventfdSignaler::for_many();
        if signaler.may_wait() {
            return;
        }
        let (own, bell) = bell();
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
        while !bell.is_dear() {
            signaler.ring(&bell);
            rung += 1;
            assert!(rung < 1000, "20,000 watch it, and it is not dear");
        }
        assert_eq!(count(&own), rung);
        signaler.ring(&bell);
        let began = Instant::now();
        while count(&own) == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "it is not rung");
            std::thread::yield_now();
        }
        // When nobody watches it any more it is soon like any other.
        drop(sets);
        while bell.is_dear() {
            signaler.ring(&bell);
            assert!(began.elapsed() < Duration::from_secs(60), "it stays dear");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn rings_as_often_as_it_likes() {
        let (own, bell) = bell();
        for signaler in [EventfdSignaler::for_many(), EventfdSignaler::for_one()] {
            for _ in 0..10 * DEPTH {
                signaler.ring(&bell);
                // On a machine that is busy with others.
                bell.strikes.store(0, Ordering::Relaxed);
            }
            assert_eq!(count(&own), 10 * DEPTH as u64);
            assert_eq!(count(&own), 0);
        }
    }

    /// As full as a program can make it, and fuller, as only the kernel can.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_full_eventfd_that_blocks_does_not_hold_it_up() {
        let signaler = EventfdSignaler::for_many();
        if signaler.may_wait() {
            return;
        }
        let (own, bell) = bell();
        fcntl_setfl(&own, OFlags::empty()).unwrap();
        rustix::io::write(&own, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            signaler.ring(&bell);
        }
        assert_eq!(count(&own), u64::MAX);
    }
}
