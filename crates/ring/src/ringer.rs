//! Rings eventfds that a side has that is not trusted, and is never held up by them.
//!
//! A program that sleeps in poll is given an eventfd, and has it, too: it can make
//! it blocking and fill it to the brim at any moment, and then `write` would hold up
//! whoever rings it for as long as the program likes. What the kernel signals by itself
//! never waits: it counts up as far as there is room, and wakes. So a read of nothing
//! from a file of our own is submitted (Linux AIO, `io_submit(2)`) whose end is to be
//! signalled to that eventfd (IOCB_FLAG_RESFD); it is at its end when the call
//! returns. That costs about twice as much as `write`, so an engine with one program
//! alone, which can hold up nobody but itself, writes. An engine has one [`Ringer`].

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Reads in flight at most. Each is over before the next is made; what the kernel
/// notes of their ends is taken when there is no more room for it.
const DEPTH: usize = 64;

/// An eventfd that a side has that is not trusted.
#[derive(Debug)]
pub struct StrangersBell(OwnedFd);

impl StrangersBell {
    /// Makes one, non-blocking, as it stays unless the other side has evil in mind.
    ///
    /// # Errors
    /// The kernel's, most likely that the limit of descriptors is reached.
    pub fn make() -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self(eventfd(0, flags)?))
    }

    /// The eventfd, to be given to the other side.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What rings them: by the kernel's signals, if there is a submitter, and then it never
/// waits; else by writing, and a program that has evil in mind can make it wait.
#[derive(Debug)]
pub struct Ringer(Option<Submitter>);

impl Ringer {
    /// One for programs that do not trust each other. Where the kernel has no AIO, or
    /// none left (fs.aio-max-nr), it writes after all, and [`Ringer::may_wait`].
    pub fn for_many() -> Self {
        Self(Submitter::new().ok())
    }

    /// One for a program that holds up nobody but itself.
    pub fn for_one() -> Self {
        Self(None)
    }

    /// Whether a hostile program may hold it up.
    pub fn may_wait(&self) -> bool {
        self.0.is_none()
    }

    /// Wakes whoever waits for `bell`. One that rings already is left so.
    pub fn ring(&self, bell: &StrangersBell) {
        match &self.0 {
            Some(submitter) => submitter.signal(&bell.0),
            None => {
                let _ = rustix::io::write(&bell.0, &1u64.to_ne_bytes());
            }
        }
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

    fn bell() -> (OwnedFd, StrangersBell) {
        let bell = StrangersBell::make().unwrap();
        (bell.fd().try_clone_to_owned().unwrap(), bell)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn rings_as_often_as_it_likes() {
        let (own, bell) = bell();
        for ringer in [Ringer::for_many(), Ringer::for_one()] {
            for _ in 0..10 * DEPTH {
                ringer.ring(&bell);
            }
            assert_eq!(count(&own), 10 * DEPTH as u64);
            assert_eq!(count(&own), 0);
        }
    }

    /// As full as a program can make it, and fuller, as only the kernel can.
    #[test]
    #[cfg_attr(miri, ignore = "it has no Linux AIO")]
    fn a_full_eventfd_that_blocks_does_not_hold_it_up() {
        let ringer = Ringer::for_many();
        if ringer.may_wait() {
            return;
        }
        let (own, bell) = bell();
        fcntl_setfl(&own, OFlags::empty()).unwrap();
        rustix::io::write(&own, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 {
            ringer.ring(&bell);
        }
        assert_eq!(count(&own), u64::MAX);
    }
}
