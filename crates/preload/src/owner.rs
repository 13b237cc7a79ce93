//! Who owns a socket (F_SETOWN and its kin), and so gets SIGURG.
//!
//! The kernel keeps the owner of the socket behind the descriptor, but never sees urgent
//! data there. So the engine gets something to ring that the kernel does see: one of a
//! pair of Unix sockets, of which the other has the same owner and sends SIGURG. Neither
//! is kept open here. Called by `fcntl` and `ioctl`, and by `decide` when a socket that
//! has an owner becomes the engine's.

use crate::fds;
use crate::log::once;
use crate::{real, signals};
use libc::{c_int, pid_t};
use longshore_sockets::Socket;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

const F_SETSIG: c_int = 10;
pub(crate) const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;

/// Linux's `struct f_owner_ex`: a thread, process or group.
#[repr(C)]
#[derive(Debug, Default)]
struct OwnerEx {
    kind: c_int,
    pid: pid_t,
}

/// Whether any socket of this process was given an owner.
static MAY_BE_OWNED: AtomicBool = AtomicBool::new(false);

/// A descriptor was given another owner.
pub(crate) fn changed(fd: RawFd) {
    MAY_BE_OWNED.store(true, Ordering::Relaxed);
    if let Some(socket) = fds::engine(fd) {
        tell(fd, &socket);
    }
}

/// A socket has become the engine's.
pub(crate) fn to_engine(fd: RawFd, socket: &Socket) {
    if MAY_BE_OWNED.load(Ordering::Relaxed) {
        tell(fd, socket);
    }
}

/// What a wait for sockets knows of SIGURG. Urgent data wakes whoever waits for its
/// socket just when the owner gets the signal, and then the kernel may not say that it
/// has interrupted the wait.
#[derive(Debug, Default)]
pub(crate) struct Interruption {
    /// Where the urgent data was when the wait began, of all its sockets together.
    before: Option<u64>,
}

impl Interruption {
    /// Nothing was found to end the wait: whether a handler of SIGURG has run meanwhile,
    /// so that the call is to end with EINTR. `restarts` says that such calls go on if
    /// the handler was installed with SA_RESTART.
    pub(crate) fn has_come<'a>(
        &mut self,
        sockets: impl Iterator<Item = &'a Socket>,
        restarts: bool,
    ) -> bool {
        if !MAY_BE_OWNED.load(Ordering::Relaxed) {
            return false;
        }
        let now = sockets.fold(0u64, |sum, s| sum.wrapping_add(s.urgent_end()));
        let before = self.before.replace(now);
        before.is_some_and(|before| before != now) && signals::interrupts(libc::SIGURG, restarts)
    }
}

/// Tells the engine how to reach the owner of the socket behind `fd`.
fn tell(fd: RawFd, socket: &Socket) {
    if socket.is_datagram() {
        return;
    }
    let mut owner = OwnerEx::default();
    // SAFETY: this command writes such a structure.
    if unsafe { real::fcntl(fd, F_GETOWN_EX, (&raw mut owner).addr()) } != 0 {
        return;
    }
    if owner.pid == 0 {
        let _ = socket.host().set_owner(socket.id(), &[]);
        return;
    }
    match signalling(&owner) {
        Some((raises, rings)) => {
            let pair = [raises.as_fd(), rings.as_fd()];
            let _ = socket.host().set_owner(socket.id(), &pair);
        }
        None => once!(
            Warn,
            Resource,
            "no SIGURG for the owner of descriptor {fd}: {}",
            std::io::Error::last_os_error()
        ),
    }
}

/// Two connected sockets, of which the first sends `owner` SIGURG when the other writes.
fn signalling(owner: &OwnerEx) -> Option<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (raises, rings) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    let fd = raises.as_raw_fd();
    let steps = [
        (F_SETOWN_EX, std::ptr::from_ref(owner).addr()),
        (F_SETSIG, libc::SIGURG as usize),
        (libc::F_SETFL, (libc::O_NONBLOCK | libc::O_ASYNC) as usize),
    ];
    for (command, argument) in steps {
        // SAFETY: numbers, and a structure that outlives the call.
        if unsafe { real::fcntl(fd, command, argument) } != 0 {
            return None;
        }
    }
    Some((raises, rings))
}
