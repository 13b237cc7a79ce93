//! Where our own descriptors go: above the program's limit, where there is no number of the
//! program's, and they count for nothing of it.
//!
//! The limit (RLIMIT_NOFILE) binds the process that makes a descriptor, not one that has it. So while one of
//! ours is made the limit is as high as the program may set it itself: up to the hard limit, or, if
//! that is no higher, above it with CAP_SYS_RESOURCE. Where it may not, or the limit is so high that a
//! table as long would be dear to copy at each fork, they are the last numbers below the limit, or lie
//! from [`BELOW`] on. Called by `state`, when the process joins, and whenever the
//! engine gives it a descriptor.

use crate::cancel::held;
use crate::fds::{self, Entry};
use longshore_sockets::is_confined;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Where they go below a limit that is higher: above what a program that goes through all numbers
/// takes for the last (FD_SETSIZE), and in a table of 32 KiB.
const BELOW: u64 = 4096 - LAST;
/// Limits that are passed: the kernel's table of a process with a descriptor above is 128 KiB long.
const HIGHEST: u64 = 8192;
/// So much above a hard limit is room for ours.
const ABOVE_HARD: u64 = 1 << 16;
/// Numbers below a limit that are left for ours at first.
const LAST: u64 = 64;

/// A thread has the limit raised.
static IS_RAISED: AtomicBool = AtomicBool::new(false);
/// The first number above the limit while it is raised; 0 otherwise.
static ABOVE: AtomicI32 = AtomicI32::new(0);

/// The limit, raised until this goes.
struct Raised {
    before: Rlimit,
    raised: Rlimit,
}

impl Raised {
    /// Raises it. None if it cannot be, or is not to be, or by another thread is.
    fn new() -> Option<Self> {
        if is_confined() || IS_RAISED.swap(true, Ordering::Acquire) {
            return None;
        }
        let before = getrlimit(Resource::Nofile);
        let raise = |now| {
            let raised = match before.maximum {
                Some(most) if most <= now => Some(now + ABOVE_HARD),
                higher => higher,
            };
            let raised = Rlimit {
                current: raised,
                maximum: raised,
            };
            setrlimit(Resource::Nofile, raised).ok()?;
            Some((now, raised))
        };
        let now = before.current.filter(|now| *now <= HIGHEST);
        let Some((now, raised)) = now.and_then(raise) else {
            IS_RAISED.store(false, Ordering::Release);
            return None;
        };
        ABOVE.store(now as RawFd, Ordering::Relaxed);
        Some(Self { before, raised })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        ABOVE.store(0, Ordering::Relaxed);
        // Another thread of the program's may have set it meanwhile.
        if getrlimit(Resource::Nofile) == self.raised {
            let _ = setrlimit(Resource::Nofile, self.before);
        }
        IS_RAISED.store(false, Ordering::Release);
    }
}

/// Does what makes descriptors of ours.
pub(crate) fn within<T>(work: impl FnOnce() -> T) -> T {
    let _raised = Raised::new();
    work()
}

/// Takes a descriptor of ours to where the program does not get at it, and protects it there.
pub(crate) fn keep(fd: OwnedFd) -> OwnedFd {
    let above = ABOVE.load(Ordering::Relaxed);
    let moved = match above {
        0 => low(&fd),
        _ if fd.as_raw_fd() >= above => None,
        _ => fcntl_dupfd_cloexec(&fd, above).ok().or_else(|| low(&fd)),
    };
    let fd = moved.unwrap_or_else(|| {
        let _ = fcntl_setfd(&fd, FdFlags::CLOEXEC);
        fd
    });
    fds::put(fd.as_raw_fd(), Entry::Kept);
    fd
}

/// Opens a file to be read by us alone, as [`keep`] has it: one of `/proc`, by which the kernel is
/// asked.
pub(crate) fn open_kept(path: &CStr, flags: OFlags) -> Option<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty()).ok().map(keep)
}

/// A copy at a high number below the limit.
fn low(fd: &OwnedFd) -> Option<OwnedFd> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let from = limit.saturating_sub(LAST).min(BELOW);
    fcntl_dupfd_cloexec(fd, from as RawFd).ok()
}

/// Closes a descriptor that was kept.
pub(crate) fn discard(fd: OwnedFd) {
    fds::put(fd.as_raw_fd(), Entry::Kernel);
    held(|| drop(fd));
}
