//! Network namespaces. A new socket belongs to the one in which its thread is, and the engine's
//! are for those in which the program was started: what it puts into another one itself (`unshare`,
//! `setns`, `clone`), most often to have no network there, has the kernel's sockets, and what was
//! opened before stays what it is. A program that is executed in another one has the engine there: who
//! does that to a whole program wants it to have no network but Longshore's.
//!
//! Owns what is known of where this process may be. Asked when a socket is made, received or
//! inherited, for names and interfaces.

use crate::real;
use crate::user::Out;
use libc::{c_int, socklen_t};
use longshore_sockets::is_confined;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a thread may be in another one than the program was started in.
static MAY_DIFFER: AtomicBool = AtomicBool::new(false);

/// The one in which the program was started, as the kernel numbers it (SO_NETNS_COOKIE); 0 while nobody
/// has looked, or if the kernel does not say.
static HOME: AtomicU64 = AtomicU64::new(0);

/// A call with these flags may bring a thread or a child into another network namespace.
pub(crate) fn follow(flags: u64) {
    if flags & libc::CLONE_NEWNET as u64 != 0 {
        may_differ();
    }
}

/// A thread or a child may be in another network namespace from now on.
pub(crate) fn may_differ() {
    home();
    MAY_DIFFER.store(true, Ordering::Release);
}

/// Whether a socket of the kernel's, which this thread has just made, is of another network
/// namespace than the program.
#[inline]
pub(crate) fn has_made_elsewhere(fd: RawFd) -> bool {
    MAY_DIFFER.load(Ordering::Acquire) && is_elsewhere(fd)
}

/// Whether this thread is in another network namespace than the program. Under a filter of system
/// calls it counts as being in the program's.
pub(crate) fn is_another() -> bool {
    MAY_DIFFER.load(Ordering::Acquire) && present().is_some_and(|present| Some(present) != home())
}

/// Whether a socket of the kernel's is of another network namespace than the program, as far as
/// both are known.
pub(crate) fn is_elsewhere(fd: RawFd) -> bool {
    let home = home();
    home.is_some() && cookie(fd).is_some_and(|of_socket| Some(of_socket) != home)
}

/// The program's own. Whoever asks first is in it: all that may leave it have asked before.
fn home() -> Option<u64> {
    let known = HOME.load(Ordering::Relaxed);
    if known != 0 || MAY_DIFFER.load(Ordering::Acquire) {
        return (known != 0).then_some(known);
    }
    let present = present()?;
    HOME.store(present, Ordering::Relaxed);
    Some(present)
}

/// The number of that in which this thread is.
fn present() -> Option<u64> {
    if is_confined() {
        return None;
    }
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
    cookie(socket.as_raw_fd())
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
