//! The owner of a socket (F_SETOWN and its kin), who gets SIGURG, and SIGIO if it is wanted
//! (O_ASYNC).
//!
//! The kernel keeps the owner of the socket behind the descriptor, but never sees data there. So
//! the engine makes something for each signal that the kernel does see: a pair of Unix sockets, one
//! of which is given the same owner here and sends the signal when the engine has it become
//! readable. It is not kept open here. Called by `fcntl` and `ioctl`, and by `decide` when a socket
//! that has an owner becomes the engine's.

use crate::cancel::held;
use crate::fds;
use crate::log::once;
use crate::user::{In, Out};
use crate::{real, signals};
use libc::{c_int, pid_t, sigset_t};
use longshore_hostif::{OwnersSignal, Raised};
use longshore_sockets::Socket;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
pub(crate) const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;

/// The signals, as [`OwnersSignal`] counts them.
const SIGNALS: [c_int; 2] = [libc::SIGURG, libc::SIGIO];
/// What F_SETSIG sets for SIGIO without anything beside it.
const BY_DEFAULT: c_int = 0;

/// Linux's `struct f_owner_ex`: a thread, process or group.
#[repr(C)]
#[derive(Debug, Default)]
struct OwnerEx {
    kind: c_int,
    pid: pid_t,
}

/// Whether any socket of this process was given an owner.
static MAY_BE_OWNED: AtomicBool = AtomicBool::new(false);
/// Whether O_ASYNC was set for any descriptor of this process.
static MAY_BE_ASYNC: AtomicBool = AtomicBool::new(false);

/// The flags of a descriptor were set.
pub(crate) fn flags_set(fd: RawFd, is_async: bool) {
    if is_async || MAY_BE_ASYNC.load(Ordering::Relaxed) {
        MAY_BE_ASYNC.store(true, Ordering::Relaxed);
        changed(fd);
    }
}

/// A descriptor was given another owner, or other things are to be signalled to the owner.
pub(crate) fn changed(fd: RawFd) {
    MAY_BE_OWNED.store(true, Ordering::Relaxed);
    if let Some(socket) = fds::engine(fd) {
        held(|| send_owner(fd, &socket));
    }
}

/// A socket has become the engine's.
pub(crate) fn to_engine(fd: RawFd, socket: &Socket) {
    if MAY_BE_OWNED.load(Ordering::Relaxed) {
        held(|| send_owner(fd, socket));
    }
}

/// What a wait for sockets knows of the signals to their owners. What is signalled wakes
/// whoever waits for its socket, too, and then the kernel may not say that it has
/// interrupted the wait.
#[derive(Debug)]
pub(crate) struct Interruption {
    /// How often each signal was raised when it began, for all its sockets together; none
    /// if no socket had an owner then.
    before: Option<[Raised; 2]>,
}

impl Interruption {
    /// A wait begins for the sockets whose signals `raised` counts.
    pub(crate) fn begin(raised: impl Fn(OwnersSignal) -> Raised) -> Self {
        let before = count(raised);
        Self { before }
    }

    /// Nothing was found to end the wait: whether a handler of such a signal has run since
    /// it began, so that the call is to end with EINTR. The thread waits with `mask`, or
    /// its own if that is null. `restarts` says that such calls go on if the handler was
    /// installed with SA_RESTART.
    pub(crate) fn has_come(
        &mut self,
        raised: impl Fn(OwnersSignal) -> Raised,
        mask: In<'_, sigset_t>,
        restarts: bool,
    ) -> bool {
        let Some(now) = count(raised) else {
            return false;
        };
        let Some(before) = &self.before else {
            self.before = Some(now);
            return false;
        };
        let mut each = SIGNALS.into_iter().zip(now.iter().zip(before));
        each.any(|(signal, (now, before))| {
            now.is_after(before)
                && signals::interrupts(signal, restarts)
                && !signals::is_blocked(signal, mask)
        })
    }
}

/// How often each signal was raised, if sockets of this process have owners at all.
fn count(raised: impl Fn(OwnersSignal) -> Raised) -> Option<[Raised; 2]> {
    let may_be = MAY_BE_OWNED.load(Ordering::Relaxed);
    may_be.then(|| [OwnersSignal::Urgent, OwnersSignal::Ready].map(raised))
}

/// Sends the engine how to reach the owner of the socket behind `fd`.
fn send_owner(fd: RawFd, socket: &Socket) {
    let mut owner = OwnerEx::default();
    let asked = real::fcntl(fd, F_GETOWN_EX, Out::from(&mut owner).into());
    if asked != 0 {
        return;
    }
    let wants_io = wants_io(fd);
    let signals: &[c_int] = match wants_io {
        _ if owner.pid == 0 => &[],
        true => &[libc::SIGURG, BY_DEFAULT],
        false if socket.is_datagram() => &[],
        false => &[libc::SIGURG],
    };
    let (host, id) = (socket.host(), socket.id());
    let raising = host
        .descriptor_requests()
        .owner_signals(id, signals.len() as u32);
    let is_set = raising.len() == signals.len()
        && signals
            .iter()
            .zip(&raising)
            .all(|(signal, fd)| has_raise(fd, &owner, *signal));
    if !is_set {
        once!(
            Warn,
            Resource,
            "no signals for the owner of descriptor {fd}: {}",
            std::io::Error::last_os_error()
        );
    }
    let _ = host.descriptor_requests().owner_is_set(id);
}

/// Whether the owner of the socket behind `fd` wants SIGIO. With another signal
/// (F_SETSIG) goes the number of the descriptor (`si_fd`), which the kernel takes from the
/// socket that raises it: none is better than one with another number.
fn wants_io(fd: RawFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(crate::results::borrow(fd));
    if !flags.is_ok_and(|flags| flags.bits() & libc::O_ASYNC as u32 != 0) {
        return false;
    }
    let signal = real::fcntl(fd, F_GETSIG, 0.into());
    if signal != BY_DEFAULT {
        once!(
            Warn,
            Signal,
            "descriptor {fd} is to raise signal {signal} (F_SETSIG), of which the engine's sockets know nothing: none is raised; SIGIO is, without F_SETSIG"
        );
    }
    signal == BY_DEFAULT
}

/// Has a socket of the engine's send `owner` this signal when it becomes readable.
fn has_raise(socket: &OwnedFd, owner: &OwnerEx, signal: c_int) -> bool {
    let fd = socket.as_raw_fd();
    let steps = [
        (F_SETOWN_EX, In::from(owner).into()),
        (F_SETSIG, signal.into()),
        (libc::F_SETFL, (libc::O_NONBLOCK | libc::O_ASYNC).into()),
    ];
    steps
        .into_iter()
        .all(|(command, argument)| real::fcntl(fd, command, argument) == 0)
}
