//! The calls that the shim takes over, one file for each family.
//!
//! A call reads "ours first, libc otherwise": it looks the descriptor up, does
//! the work if the socket is the engine's, and hands everything else on as it
//! came. All of it is called by C, so nothing here may panic into it.

pub mod accept;
pub mod aliases;
mod anew;
mod beside;
pub mod bind;
pub mod cancel;
pub mod close;
pub mod connect;
mod control;
pub mod dup;
pub mod dynamic;
pub mod epoll;
mod error_queue;
pub mod exec;
pub mod execve;
pub mod fast_open;
pub mod fcntl;
mod flow_label;
pub mod fork;
mod gone;
mod groups;
pub mod interfaces;
pub mod io_uring;
pub mod ioctl;
pub mod limits;
pub mod linux_aio;
pub mod listen;
mod lost;
mod low_water;
pub mod memory;
pub mod names;
pub mod namespaces;
pub mod newcomers;
pub mod offset;
pub mod options;
#[cfg(target_arch = "x86_64")]
mod own_calls;
pub mod pipe;
pub mod poll;
pub mod recv;
pub mod recvmsg;
pub mod resolver;
pub mod root;
pub mod rw;
pub mod seccomp;
pub mod select;
pub mod send;
mod send_datagram;
pub mod sendfile;
pub mod sendmsg;
pub mod shutdown;
pub mod sigaction;
pub mod sigmask;
pub mod socket;
pub mod source_functions;
mod sources;
pub mod spawn;
pub mod splice;
pub mod stdio;
pub mod syscall;
pub mod threads;
mod timeouts;
mod variadic;
mod wall_clock;

use crate::fds;
pub(crate) use crate::results::{Returned, borrow, errno, last_error, refused, set_errno};
use crate::signals::{self, within};
use libc::c_int;
use longshore_sockets::{Socket, SocketError, WaitLimit, host_bits, is_confined};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does the work of a call; an error becomes errno, a panic EIO.
pub(crate) fn answer<T: Returned>(work: impl FnOnce() -> Result<T, SocketError>) -> T {
    within(|| match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => returned(result),
        Err(_) => {
            set_errno(libc::EIO);
            T::FAILED
        }
    })
}

/// A result as C has it: an error becomes errno.
#[inline]
pub(crate) fn returned<T: Returned>(result: Result<T, SocketError>) -> T {
    match result {
        Ok(value) => value,
        Err(e) => {
            if e == SocketError::Restarts {
                signals::note_restart();
            }
            set_errno(e.errno());
            T::FAILED
        }
    }
}

/// Runs what may go to libc, but does not wait there, and sets errno itself; a panic is EIO.
pub(crate) fn guard<T: Returned>(work: impl FnOnce() -> T) -> T {
    within(|| {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            set_errno(libc::EIO);
            T::FAILED
        })
    })
}

/// As `guard`, of what may turn out to be the kernel's to do, which says so by `None`: it is
/// done by libc's function after that, in a frame that a cancelled thread can leave.
pub(crate) fn unless_kernels<T: Returned>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    within(|| {
        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
            set_errno(libc::EIO);
            Some(T::FAILED)
        })
    })
}

/// Whether a call on `fd` must not wait.
pub(crate) fn must_not_wait(fd: c_int, flags: c_int) -> bool {
    flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(fd)
}

/// Whether a descriptor is set to O_NONBLOCK: the kernel knows, as it may have
/// been told by a program that has no shim. Where it cannot be asked, what was
/// last known of it.
fn is_nonblocking(fd: c_int) -> bool {
    let noted = fds::engine(fd).is_some_and(|s| noted_nonblocking(&s));
    if is_confined() {
        return noted;
    }
    let is = rustix::fs::fcntl_getfl(borrow(fd)).is_ok_and(|f| f.contains(OFlags::NONBLOCK));
    if is != noted {
        note_nonblocking(fd, is);
    }
    is
}

/// What was last known of a socket's O_NONBLOCK.
fn noted_nonblocking(socket: &Socket) -> bool {
    socket.host_bits() & host_bits::NONBLOCKING != 0
}

/// Notes whether a descriptor is set to O_NONBLOCK.
pub(crate) fn note_nonblocking(fd: c_int, on: bool) {
    if let Some(socket) = fds::engine(fd) {
        if on {
            socket.set_host_bits(host_bits::NONBLOCKING);
        } else {
            socket.clear_host_bits(host_bits::NONBLOCKING);
        }
    }
}

/// Which way a call moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

/// How long a call on `socket` may wait (SO_RCVTIMEO, SO_SNDTIMEO).
pub(crate) fn wait_limit(socket: &Socket, way: Way) -> WaitLimit {
    WaitLimit::of_call(socket.options().time_limit(way == Way::Out))
}

/// Which stacks an attempt asks, of a socket beside which there may be one of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The engine alone, which takes no system call.
    Engine,
    /// The engine, and the kernel if that has nothing.
    Both,
}

/// Tries, and waits and tries again if the descriptor blocks.
#[inline]
pub(crate) fn wait_unless_nonblocking<T>(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    way: Way,
    mut attempt: impl FnMut() -> Result<T, SocketError>,
) -> Result<T, SocketError> {
    wait_for_either(fd, socket, flags, way, Asked::Both, |_, _| attempt())
}

/// As `wait_unless_nonblocking`, of what the kernel may have, too. It is asked whenever the call may end
/// with nothing, and after each sleep, in which its descriptor is listened to; not with each look
/// before that, and the first time only if `first` says so. `attempt` is told whether the call waits
/// by now, whatever becomes of O_NONBLOCK meanwhile.
#[inline]
pub(crate) fn wait_for_either<T>(
    fd: c_int,
    socket: &Socket,
    flags: c_int,
    way: Way,
    first: Asked,
    mut attempt: impl FnMut(Asked, bool) -> Result<T, SocketError>,
) -> Result<T, SocketError> {
    // Of one that is taken to wait, the kernel is asked whether it does before it sleeps:
    // most often there is an answer first.
    let must_not = flags & libc::MSG_DONTWAIT != 0;
    let looks = !must_not && !noted_nonblocking(socket);
    let asked = if looks { first } else { Asked::Both };
    match attempt(asked, false) {
        Err(SocketError::WouldBlock) if !must_not => {}
        other => return other,
    }
    if looks && let Some(found) = socket.look_again(|| attempt(Asked::Engine, false))? {
        return Ok(found);
    }
    if is_nonblocking(fd) {
        return match asked {
            Asked::Engine => attempt(Asked::Both, false),
            Asked::Both => Err(SocketError::WouldBlock),
        };
    }
    let also = (way == Way::In && socket.has_kernel_side()).then(|| (borrow(fd), PollFlags::IN));
    let wait_limit = WaitLimit {
        looked: looks,
        ..wait_limit(socket, way)
    };
    // The first sleep ends at once if the kernel's descriptor is readable. A call that is
    // not to sleep for a signal's sake asks.
    let mut is_first = also.is_some();
    let waited = socket.wait(also, wait_limit, || {
        let sleeps = std::mem::take(&mut is_first) && !signals::are_postponed();
        attempt(if sleeps { Asked::Engine } else { Asked::Both }, true)
    });
    match waited {
        Err(SocketError::TimedOut) if also.is_some() => match attempt(Asked::Both, true) {
            Err(SocketError::WouldBlock) => Err(SocketError::TimedOut),
            other => other,
        },
        waited => waited,
    }
}
