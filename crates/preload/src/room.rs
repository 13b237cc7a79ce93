//! Where our own descriptors go: above the program's limit, where there is no number of the
//! program's, and they count for nothing of it.
//!
//! The limit (RLIMIT_NOFILE) binds the process that makes a descriptor, not one that has it. So while one of
//! ours is made the limit is as high as the program may set it itself. Where that is no
//! higher, or the limit is so high that a table as long would be dear to copy at each fork,
//! they lie from [`BELOW`] on. Called by `state`, when the process joins, and whenever the
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

/// Where they go if not above the limit.
const BELOW: RawFd = 960;
/// Limits that are passed.
const HIGHEST: u64 = 8192;

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
        let raised = Rlimit {
            current: before.maximum,
            maximum: before.maximum,
        };
        let is_higher = |now: &u64| before.maximum.is_none_or(|most| *now < most);
        let now = before
            .current
            .filter(|now| *now <= HIGHEST && is_higher(now));
        let Some(now) = now.filter(|_| setrlimit(Resource::Nofile, raised).is_ok()) else {
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
    let below_limit = || {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        fcntl_dupfd_cloexec(fd, BELOW.min(limit.saturating_sub(64) as i32))
    };
    // Nearly every program may have descriptors as high as that.
    fcntl_dupfd_cloexec(fd, BELOW)
        .or_else(|_| below_limit())
        .ok()
}

/// Closes a descriptor that was kept.
pub(crate) fn discard(fd: OwnedFd) {
    fds::put(fd.as_raw_fd(), Entry::Kernel);
    held(|| drop(fd));
}
