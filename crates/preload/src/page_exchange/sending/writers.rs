//! Keeps everybody else from writing to pages while they are exchanged: a write between the copy
//! and the exchange would be lost.
//!
//! Owns the descriptors by which that is done, which are of one process: a child opens its own.
//! A process of one thread has nobody else. In others the pages are protected (userfaultfd, for
//! which the kernel wants privileges: without them it would fail what the kernel itself writes
//! there), and whoever writes to one waits until the exchange is over.

use crate::room;
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Links of the directory of a process's threads beside one for each thread.
const LINKS_BESIDE: libc::nlink_t = 2;

/// Another process runs in the memory of this one, and counts among no threads.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// This process is going to have its memory in common with another one.
pub(crate) fn memory_is_shared() {
    IS_SHARED.store(true, Ordering::Relaxed);
}

/// The kernel's structures of userfaultfd(2).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Addresses {
    start: u64,
    len: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Register {
    addresses: Addresses,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct WriteProtect {
    addresses: Addresses,
    mode: u64,
}

const GROUP: u8 = 0xaa;
const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(GROUP, 0);
const UNREGISTER: Opcode = opcode::read::<Addresses>(GROUP, 1);
const WAKE: Opcode = opcode::read::<Addresses>(GROUP, 2);
const WRITE_PROTECT: Opcode = opcode::read_write::<WriteProtect>(GROUP, 6);

const VERSION: u64 = 0xaa;
/// Write protection, also of a file's memory, and of pages that are not there yet.
const FEATURES: u64 = 1 | 1 << 12 | 1 << 13;
const MODE_WRITE_PROTECT: u64 = 2;
const PROTECT: u64 = 1;

/// What reports other writers, and keeps them waiting.
#[derive(Debug)]
pub(super) struct Writers {
    threads: OwnedFd,
    faults: Option<OwnedFd>,
}

impl Writers {
    /// `None` if it cannot be known who else writes.
    pub(super) fn open() -> Option<Self> {
        Some(Self {
            threads: room::open_kept(c"/proc/self/task", OFlags::DIRECTORY)?,
            faults: open_faults().map(room::keep),
        })
    }

    /// Closes it.
    pub(super) fn close(self) {
        room::discard(self.threads);
        if let Some(faults) = self.faults {
            room::discard(faults);
        }
    }

    /// Keeps others from writing to these pages as long as the result lives; `None` if it cannot.
    pub(super) fn hold(&self, range: &Range<usize>) -> Option<Held<'_>> {
        if self.is_alone() {
            return Some(Held(None));
        }
        let faults = self.faults.as_ref()?.as_fd();
        let addresses = Addresses {
            start: range.start as u64,
            len: range.len() as u64,
        };
        protect(faults, addresses).ok()?;
        Some(Held(Some((faults, addresses))))
    }

    /// Whether this thread is the only one that runs in this memory: then it is so until it
    /// makes another.
    fn is_alone(&self) -> bool {
        let links = fstat(&self.threads).map(|stat| stat.st_nlink);
        !IS_SHARED.load(Ordering::Relaxed) && links == Ok(LINKS_BESIDE + 1)
    }
}

/// The faults of the whole process, those of system calls among them.
fn open_faults() -> Option<OwnedFd> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
    // SAFETY: what is done with it is the promise of `Held`.
    let faults = unsafe { userfaultfd(flags) }.ok()?;
    let mut api = Api {
        api: VERSION,
        features: FEATURES,
        ioctls: 0,
    };
    // SAFETY: this is the structure of this request, which the kernel fills.
    unsafe { ioctl(&faults, Updater::<API, Api>::new(&mut api)) }.ok()?;
    Some(faults)
}

fn protect(faults: BorrowedFd<'_>, addresses: Addresses) -> Result<(), Errno> {
    let mut register = Register {
        addresses,
        mode: MODE_WRITE_PROTECT,
        ioctls: 0,
    };
    let mut write_protect = WriteProtect {
        addresses,
        mode: PROTECT,
    };
    // SAFETY: these are the structures of these requests; a thread that writes there waits until `Held`
    // is dropped.
    unsafe {
        ioctl(faults, Updater::<REGISTER, Register>::new(&mut register))?;
        let protect = Updater::<WRITE_PROTECT, WriteProtect>::new(&mut write_protect);
        ioctl(faults, protect).inspect_err(|_| release(faults, addresses))
    }
}

/// Threads that wait go on, with what is mapped there now.
fn release(faults: BorrowedFd<'_>, addresses: Addresses) {
    // SAFETY: these are the structures of these requests. Other memory that is mapped there by
    // now is not registered, and stays as it is.
    unsafe {
        let _ = ioctl(faults, Setter::<UNREGISTER, Addresses>::new(addresses));
        let _ = ioctl(faults, Setter::<WAKE, Addresses>::new(addresses));
    }
}

/// Pages to which nobody else writes as long as this lives.
#[derive(Debug)]
pub(super) struct Held<'a>(Option<(BorrowedFd<'a>, Addresses)>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some((faults, addresses)) = self.0 {
            release(faults, addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PAGE;
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::ptr;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// A thread that writes to pages that are held waits, and then writes.
    #[test]
    fn another_threads_write_waits() {
        let Some(writers) = Writers::open() else {
            return;
        };
        // SAFETY: new memory of this test's own.
        let at = unsafe {
            let how = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(ptr::null_mut(), PAGE, how, MapFlags::PRIVATE)
        };
        let at = at.unwrap();
        // SAFETY: it lies there as long as the threads run.
        let word: &AtomicU32 = unsafe { &*at.cast() };
        let range = at.addr()..at.addr() + PAGE;
        let (turns, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    word.fetch_add(1, Ordering::Relaxed);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            while turns.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(!writers.is_alone());
            if let Some(held) = writers.hold(&range) {
                let before = word.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(word.load(Ordering::Relaxed), before);
                drop(held);
                let stood = turns.load(Ordering::Relaxed);
                while turns.load(Ordering::Relaxed) < stood + 2 {
                    std::thread::yield_now();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(word.load(Ordering::Relaxed), turns.load(Ordering::Relaxed));
        // SAFETY: nobody has it any more.
        unsafe { munmap(at, PAGE) }.unwrap();
        writers.close();
    }
}
