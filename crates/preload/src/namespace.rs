//! Network namespaces. A new socket belongs to the one in which its thread is, and the engine's
//! are for those in the launcher's: what a program puts into another one (`unshare`, `setns`, `clone`),
//! most often to have no network there, has the kernel's sockets, and what was opened before
//! stays what it is.
//!
//! Owns what is known of where this process may be. Asked when a socket is made, received or
//! inherited, for names and interfaces.

use crate::environment;
use crate::real;
use crate::user::Out;
use libc::{c_int, socklen_t};
use longshore_sockets::is_confined;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Nobody has looked yet: the program may have been executed in another one.
const UNKNOWN: u8 = 0;
/// All threads are in the launcher's.
const HOME: u8 = 1;
/// A thread may be in another one.
const MAY_DIFFER: u8 = 2;

static PLACE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// A call with these flags may bring a thread or a child into another network namespace.
pub(crate) fn follow(flags: u64) {
    if flags & libc::CLONE_NEWNET as u64 != 0 {
        may_differ();
    }
}

/// A thread or a child may be in another network namespace from now on.
pub(crate) fn may_differ() {
    PLACE.store(MAY_DIFFER, Ordering::Relaxed);
}

/// Whether a socket of the kernel's, which this thread has just made, is of another network
/// namespace than the launcher's. Under a filter of system calls it is known only if it was before.
pub(crate) fn has_made_elsewhere(fd: RawFd) -> bool {
    match PLACE.load(Ordering::Relaxed) {
        HOME => false,
        place if is_elsewhere(fd) => {
            if place == UNKNOWN {
                may_differ();
            }
            true
        }
        UNKNOWN => {
            // Another thread may have gone on meanwhile.
            let order = Ordering::Relaxed;
            let _ = PLACE.compare_exchange(UNKNOWN, HOME, order, order);
            false
        }
        _ => false,
    }
}

/// Whether this thread is in another network namespace than the launcher.
pub(crate) fn is_another() -> bool {
    if PLACE.load(Ordering::Relaxed) == HOME || is_confined() {
        return false;
    }
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None);
    socket.is_ok_and(|socket| has_made_elsewhere(socket.as_raw_fd()))
}

/// Whether a socket of the kernel's is of another network namespace than the launcher's, as far as
/// both are known.
pub(crate) fn is_elsewhere(fd: RawFd) -> bool {
    let home = environment::remembered().and_then(|ours| ours.namespace);
    home.is_some_and(|home| cookie(fd).is_some_and(|of_socket| of_socket != home))
}

/// The number of a socket's namespace; `None` on a kernel before 5.14.
fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    let mut len = size_of::<u64>() as socklen_t;
    let (level, name): (c_int, c_int) = (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    let value = Out::from(&mut cookie).cast();
    let result = real::getsockopt(fd, level, name, value, Out::from(&mut len));
    (result == 0).then_some(cookie)
}
