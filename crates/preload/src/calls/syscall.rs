//! `syscall`, for libraries that make calls by number: libuv closes so, and sends and
//! receives datagrams so, several at a time. And for those that ask for io_uring by number, which
//! is refused.

use crate::calls::timeouts::{limit_of, timespec_of};
use crate::calls::{
    accept, bind, close, connect, dup, epoll, execve, fcntl, fork, io_uring, ioctl, linux_aio,
    listen, memory, names, namespaces, offset, options, pipe, poll, recv, recvmsg, rw, seccomp,
    select, send, sendfile, sendmsg, set_errno, shutdown, sigaction, socket, splice,
};
use crate::cancel::held;
use crate::kernel::{self, Call};
use crate::namespace;
use crate::results::errno;
use crate::signals::SET_BYTES;
use crate::state;
use crate::user::{Argument, Buffer, Filter, In, Out};
use crate::vectors;
use libc::{c_int, c_long, sigset_t, timespec};
use longshore_sockets::is_confined;
use std::time::Instant;

/// Makes a call of the shim's of what came by number.
macro_rules! call {
    ($call:path: $($argument:expr),*) => {
        held(|| $call($($argument.into()),*) as c_long)
    };
}

/// Does what libc's `syscall` does with a call.
fn make(call: Call<'_>) -> c_long {
    made(call.make())
}

/// What libc's `syscall` returns where the kernel has returned this.
fn made(result: c_long) -> c_long {
    match result {
        failed @ -4095..=-1 => {
            set_errno(-failed as c_int);
            -1
        }
        result => result,
    }
}

/// As `make`, with another argument in this place.
fn make_with<'a>(call: Call<'a>, place: usize, argument: Argument<'a>) -> c_long {
    let mut call = call;
    call.arguments[place] = argument;
    make(call)
}

/// The calls of which [`socket_call`] makes some.
#[cfg(target_arch = "x86_64")]
const SOCKET_CALLS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendfile,
    libc::SYS_pipe2,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_splice,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
];

/// What else [`by_number`] looks at.
#[cfg(target_arch = "x86_64")]
const OTHER_CALLS: &[c_long] = &[
    libc::SYS_prctl,
    libc::SYS_seccomp,
    libc::SYS_rt_sigaction,
    libc::SYS_io_uring_setup,
    libc::SYS_io_submit,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_execve,
    libc::SYS_execveat,
];

/// `syscall(2)`: what may concern a socket goes where the calls of that name go, and what
/// makes a process or executes a program; all others go to the kernel.
/// It takes its arguments as variadic ones; on this architecture they come in the same places
/// as these.
///
/// Allocators call this while they get ready: what is no business of ours takes no memory.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn syscall(
    number: c_long,
    a: Argument<'_>,
    b: Argument<'_>,
    c: Argument<'_>,
    d: Argument<'_>,
    e: Argument<'_>,
    f: Argument<'_>,
) -> c_long {
    by_number(Call {
        number,
        arguments: [a, b, c, d, e, f],
    })
}

/// As `syscall`.
pub(crate) fn by_number(call: Call<'_>) -> c_long {
    if let Some(result) = socket_call(call) {
        return result;
    }
    let [a, b, c, d, e, _] = call.arguments;
    match call.number {
        libc::SYS_prctl => call!(seccomp::prctl: a, b, c, d, e),
        libc::SYS_seccomp if seccomp::sets_filter(a.into()) => {
            let with = |program: In<'_, Filter<'_>>| make_with(call, 2, program.into());
            seccomp::filtered(c.into(), with, |result| *result == 0)
        }
        libc::SYS_rt_sigaction if !state::is_off() && d.number() == size_of::<u64>() => {
            set_handler(call)
        }
        libc::SYS_io_uring_setup if io_uring::is_refused() => {
            set_errno(libc::ENOSYS);
            -1
        }
        libc::SYS_io_submit => made(linux_aio::submit(call)),
        #[cfg(target_arch = "x86_64")]
        // What would be a child in our memory is one in its own, as with `vfork`.
        libc::SYS_fork | libc::SYS_vfork if !state::is_off() => {
            let number = libc::SYS_fork;
            fork::unhandled(0, || make(Call { number, ..call }))
        }
        libc::SYS_clone if !state::is_off() => {
            fork::clone_by_number(a.into(), |flags| make_with(call, 0, flags.into()))
        }
        libc::SYS_clone3 if !state::is_off() && b.number() >= size_of::<u64>() => {
            // Its flags come first.
            let place: Out<'_, u64> = a.into();
            match place.get() {
                Some(flags) => fork::clone_by_number(flags, |flags| {
                    place.put(flags);
                    make(call)
                }),
                None => make(call),
            }
        }
        libc::SYS_unshare => {
            namespace::follow(a.number() as u64);
            make(call)
        }
        libc::SYS_setns => {
            if namespaces::may_be_network(b.into()) {
                namespace::may_differ();
            }
            make(call)
        }
        libc::SYS_execve => call!(execve::execve: a, b, c),
        libc::SYS_execveat => call!(execve::execveat: a, b, c, d, e),
        _ => make(call),
    }
}

/// Whether [`by_number`] does anything with a call but to make it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn concerns(number: c_long) -> bool {
    SOCKET_CALLS.contains(&number) || OTHER_CALLS.contains(&number)
}

/// `rt_sigaction`, whose structures the kernel would find where they are, or not.
fn set_handler(call: Call<'_>) -> c_long {
    let [signal, new, old, ..] = call.arguments;
    let all = size_of::<sigaction::KernelAction>();
    let is_nowhere = |at: Argument<'_>| at.number() != 0 && !is_confined() && !is_there(at, all);
    if is_nowhere(new) || is_nowhere(old) {
        return make(call);
    }
    sigaction::by_number(signal.into(), new.into(), old.into(), |new, old| {
        let mut arguments = call.arguments;
        arguments[1] = new.into();
        arguments[2] = old.into();
        make(Call { arguments, ..call })
    })
}

/// Whether the memory in which a call that waits finds its sets, its time and its mask can
/// be read. libc's functions of that name, and ours, read it in the program, where the
/// kernel would say EFAULT.
fn can_be_read(call: Call<'_>) -> bool {
    let [a, b, c, d, e, f] = call.arguments;
    let count = i64::from(a).clamp(0, i64::from(c_int::MAX));
    let set = (count as usize).div_ceil(64) * size_of::<u64>();
    let time = size_of::<libc::timespec>();
    let parts: &[(Argument<'_>, usize)] = match call.number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => &[(b, set), (c, set), (d, set), (e, time)],
        libc::SYS_pselect6 => &[(b, set), (c, set), (d, set), (e, time), (f, time)],
        libc::SYS_ppoll => &[(c, time)],
        libc::SYS_epoll_pwait2 => &[(d, time)],
        libc::SYS_recvmmsg => &[(e, time)],
        _ => return true,
    };
    // A filter of system calls may not let us ask.
    is_confined()
        || parts
            .iter()
            .filter(|(at, len)| at.number() != 0 && *len != 0)
            .all(|(at, len)| is_there(*at, *len))
}

/// Whether the first and the last byte of a piece of memory can be read, as the kernel says.
pub(crate) fn is_there(at: Argument<'_>, len: usize) -> bool {
    let mut bytes = [0_u8; 2];
    if at.number().checked_add(len - 1).is_none() {
        return false;
    }
    let (first, last) = (Out::<u8>::from(at), Out::<u8>::from(at).add(len - 1));
    let piece = |iov_base, iov_len| Buffer { iov_base, iov_len };
    // The kernel writes two bytes to where two are, and looks itself at what it reads.
    let room = bytes.len();
    let to = piece(Out::from(&mut bytes).cast(), room);
    let from = [piece(first.cast(), 1), piece(last.cast(), 1)];
    let me = rustix::process::getpid().as_raw_pid();
    let count = from.len();
    kernel::process_vm_readv(me, In::from(&to), 1, In::from(&from[..]), count, 0) == 2
}

/// Whether the mask of signals that a call waits with has another size than the kernel's masks
/// have. The kernel refuses it; to libc's functions of that name, and ours, no size is given.
fn has_mask_of_other_size(call: Call<'_>) -> bool {
    let [_, _, _, d, e, f] = call.arguments;
    let Mask { set, bytes } = match call.number {
        libc::SYS_ppoll => Mask::of(d, e),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Mask::of(e, f),
        libc::SYS_pselect6 => mask_and_size(f),
        _ => return false,
    };
    !set.is_null() && bytes != SET_BYTES
}

/// A mask of signals and its size, as `pselect6` takes them.
#[repr(C)]
#[derive(Clone, Copy)]
struct Mask<'a> {
    set: In<'a, sigset_t>,
    bytes: usize,
}

impl<'a> Mask<'a> {
    /// Of two arguments.
    fn of(set: Argument<'a>, bytes: Argument<'a>) -> Self {
        Self {
            set: set.into(),
            bytes: bytes.number(),
        }
    }
}

/// The mask of `pselect6`, in memory that can be read.
fn mask_and_size(at: Argument<'_>) -> Mask<'_> {
    let none = Mask {
        set: In::null(),
        bytes: 0,
    };
    let at: In<'_, Mask<'_>> = at.into();
    match vectors::check(at, size_of::<Mask<'_>>()) {
        Ok(()) => at.get().unwrap_or(none),
        Err(_) => none,
    }
}

/// Makes a call that waits, and writes back how much of its time is left, as the kernel does:
/// libc's functions of that name keep this from their callers. Memory that cannot be written
/// stays as it is, which the kernel does not mind either.
fn writing_time_left(time: Argument<'_>, wait: impl FnOnce() -> c_long) -> c_long {
    let given: In<'_, timespec> = time.into();
    let limit = limit_of(given).flatten();
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return wait();
    };
    let start = Instant::now();
    let result = wait();
    let error = errno();
    let left = limit.saturating_sub(start.elapsed());
    put_if_there(time, timespec_of(left));
    set_errno(error);
    result
}

/// Writes to memory of the program's if the kernel says that it can be written.
fn put_if_there(at: Argument<'_>, value: timespec) {
    // A filter of system calls may not let us ask.
    if is_confined() {
        return;
    }
    // The kernel reads the value, and looks itself at where it writes.
    let mut value = value;
    let piece = |iov_base| Buffer {
        iov_base,
        iov_len: size_of::<timespec>(),
    };
    let (from, to) = (piece(Out::from(&mut value).cast()), piece(at.into()));
    let me = rustix::process::getpid().as_raw_pid();
    kernel::process_vm_writev(me, In::from(&from), 1, In::from(&to), 1, 0);
}

/// The calls that may concern a socket, by number; `None` for all others. Made so they are
/// no cancellation points.
fn socket_call(call: Call<'_>) -> Option<c_long> {
    if !can_be_read(call) || has_mask_of_other_size(call) {
        return None;
    }
    let [a, b, c, d, e, f] = call.arguments;
    Some(match call.number {
        libc::SYS_read => call!(rw::read: a, b, c),
        libc::SYS_write => call!(rw::write: a, b, c),
        libc::SYS_readv => call!(rw::readv: a, b, c),
        libc::SYS_writev => call!(rw::writev: a, b, c),
        libc::SYS_preadv2 => call!(offset::preadv2: a, b, c, d, f),
        libc::SYS_pwritev2 => call!(offset::pwritev2: a, b, c, d, f),
        libc::SYS_close => call!(close::close: a),
        libc::SYS_close_range => call!(close::close_range: a, b, c),
        libc::SYS_dup => call!(dup::dup: a),
        libc::SYS_dup3 => call!(dup::dup3: a, b, c),
        libc::SYS_fcntl => call!(fcntl::fcntl: a, b, c),
        libc::SYS_ioctl => call!(ioctl::ioctl: a, b, c),
        libc::SYS_socket => call!(socket::socket: a, b, c),
        libc::SYS_bind => call!(bind::bind: a, b, c),
        libc::SYS_listen => call!(listen::listen: a, b),
        libc::SYS_accept => call!(accept::accept: a, b, c),
        libc::SYS_accept4 => call!(accept::accept4: a, b, c, d),
        libc::SYS_connect => call!(connect::connect: a, b, c),
        libc::SYS_shutdown => call!(shutdown::shutdown: a, b),
        libc::SYS_getsockname => call!(names::getsockname: a, b, c),
        libc::SYS_getpeername => call!(names::getpeername: a, b, c),
        libc::SYS_getsockopt => {
            call!(options::get::getsockopt: a, b, c, d, e)
        }
        libc::SYS_setsockopt => {
            call!(options::setsockopt: a, b, c, d, e)
        }
        libc::SYS_sendto => call!(send::sendto: a, b, c, d, e, f),
        libc::SYS_sendmsg => call!(sendmsg::sendmsg: a, b, c),
        libc::SYS_sendmmsg => call!(sendmsg::sendmmsg: a, b, c, d),
        libc::SYS_recvfrom => call!(recv::recvfrom: a, b, c, d, e, f),
        libc::SYS_recvmsg => call!(recvmsg::recvmsg: a, b, c),
        libc::SYS_recvmmsg => call!(recvmsg::recvmmsg: a, b, c, d, e),
        libc::SYS_sendfile => call!(sendfile::sendfile: a, b, c, d),
        libc::SYS_pipe2 => call!(pipe::pipe2: a, b),
        libc::SYS_tee => call!(pipe::tee: a, b, c, d),
        libc::SYS_vmsplice => call!(pipe::vmsplice: a, b, c, d),
        libc::SYS_splice => call!(splice::splice: a, b, c, d, e, f),
        libc::SYS_madvise => call!(memory::advise: a, b, c),
        libc::SYS_mprotect => call!(memory::protect: a, b, c),
        libc::SYS_munmap => call!(memory::unmap: a, b),
        libc::SYS_mremap => call!(memory::remap: a, b, c, d, e),
        libc::SYS_ppoll => writing_time_left(c, || call!(poll::ppoll: a, b, c, d)),
        libc::SYS_pselect6 => {
            let mask = mask_and_size(f).set;
            writing_time_left(e, || call!(select::pselect: a, b, c, d, e, mask))
        }
        libc::SYS_epoll_create1 => call!(epoll::control::epoll_create1: a),
        libc::SYS_epoll_ctl => call!(epoll::control::epoll_ctl: a, b, c, d),
        libc::SYS_epoll_pwait => {
            call!(epoll::wait::epoll_pwait: a, b, c, d, e)
        }
        libc::SYS_epoll_pwait2 => {
            call!(epoll::wait::epoll_pwait2: a, b, c, d, e)
        }
        _ => return elder_socket_call(call),
    })
}

/// Those of which newer architectures have only what came after them.
#[cfg(target_arch = "x86_64")]
fn elder_socket_call(call: Call<'_>) -> Option<c_long> {
    let [a, b, c, d, e, _] = call.arguments;
    Some(match call.number {
        libc::SYS_dup2 => call!(dup::dup2: a, b),
        libc::SYS_pipe => call!(pipe::pipe: a),
        libc::SYS_poll => call!(poll::poll: a, b, c),
        libc::SYS_select => call!(select::select: a, b, c, d, e),
        libc::SYS_epoll_create => call!(epoll::control::epoll_create: a),
        libc::SYS_epoll_wait => call!(epoll::wait::epoll_wait: a, b, c, d),
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn elder_socket_call(_: Call<'_>) -> Option<c_long> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// What is not among them is handed to nobody, so it can be tried.
    #[test]
    fn the_calls_that_concern_the_shim_are_all_that_it_makes() {
        for number in (0..500).filter(|number| !concerns(*number)) {
            let arguments = [Argument::from(-1); 6];
            assert_eq!(socket_call(Call { number, arguments }), None, "{number}");
        }
    }
}
