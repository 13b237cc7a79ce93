//! `preadv2`, `pwritev2`: on a socket they are `readv` and `writev` with flags, if they say
//! that they mean no offset. All that have one are refused by the kernel, as is due (ESPIPE).

use crate::calls::recvmsg::recvmsg;
use crate::calls::sendmsg::sendmsg;
use crate::calls::{refused, returned};
use crate::user::{Buffer, In, Message, Out};
use crate::{fds, pipes, real, vectors};
use libc::{c_int, off_t, ssize_t};

/// Not at an offset, but where the descriptor is.
const HERE: off_t = -1;
const RWF_NOWAIT: c_int = 8;
/// RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_NOAPPEND: they mean nothing to a socket.
const WITHOUT_EFFECT: c_int = 0x37;

/// The message that a call on `fd` is about, and the flags to receive or send it with, or what the
/// call gives without; `None` if the kernel is to be asked. To move no bytes is nothing, whatever
/// the flags, on any socket.
fn message<'a>(
    fd: c_int,
    iov: In<'a, Buffer<'a>>,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> Option<Result<(Message<'a>, c_int), ssize_t>> {
    if at != HERE || !fds::is_engines(fd) {
        return None;
    }
    let parts = usize::try_from(count)
        .map_err(|_| refused(libc::EINVAL))
        .and_then(|count| Ok((count, vectors::sources(iov, count, libc::EINVAL)?)));
    let count = match parts {
        Ok((_, parts)) if parts.is_empty() => return Some(Err(0)),
        Ok((count, _)) => count,
        Err(error) => return Some(Err(returned(Err(error)))),
    };
    if flags & !(RWF_NOWAIT | WITHOUT_EFFECT) != 0 {
        return Some(Err(returned(Err(refused(libc::EOPNOTSUPP)))));
    }
    let message = Message::of(iov, count);
    let flags = if flags & RWF_NOWAIT != 0 {
        libc::MSG_DONTWAIT
    } else {
        0
    };
    Some(Ok((message, flags)))
}

/// `preadv2(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn preadv2(
    fd: c_int,
    iov: In<'_, Buffer<'_>>,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    match message(fd, iov, count, at, flags) {
        None => real::preadv2(fd, iov, count, at, flags),
        Some(Ok((mut message, flags))) => recvmsg(fd, Out::from(&mut message), flags),
        Some(Err(result)) => result,
    }
}

/// `pwritev2(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pwritev2(
    fd: c_int,
    iov: In<'_, Buffer<'_>>,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    match message(fd, iov, count, at, flags) {
        None => {
            pipes::leave(fd);
            real::pwritev2(fd, iov, count, at, flags)
        }
        Some(Ok((message, flags))) => sendmsg(fd, In::from(&message), flags),
        Some(Err(result)) => result,
    }
}

/// `preadv2` of programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iov: In<'_, Buffer<'_>>,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    preadv2(fd, iov, count, at, flags)
}

/// `pwritev2` of programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iov: In<'_, Buffer<'_>>,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    pwritev2(fd, iov, count, at, flags)
}
