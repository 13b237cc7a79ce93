//! `sendmsg`, `sendmmsg`.

use crate::calls::fast_open::{self, First};
use crate::calls::send::{Sender, destination, send_parts, sender};
use crate::calls::{answer, guard};
use crate::log::once;
use crate::{fds, real, vectors};
use libc::{c_int, c_uint, cmsghdr, mmsghdr, msghdr, ssize_t};
use longshore_sockets::Socket;

/// `sendmsg(2)`. Descriptors of the engine's sockets may go to other processes
/// of the session over Unix sockets.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { real::sendmsg(fd, msg, flags) };
    if vectors::check(msg, size_of::<msghdr>()).is_err() {
        return plain();
    }
    if fds::is_kernels(fd) {
        // SAFETY: the caller's promise.
        let leaving = unsafe { send_off(msg) };
        let sent = plain();
        if sent < 0 {
            leaving.iter().for_each(Socket::arrived);
        }
        return sent;
    }
    // SAFETY: the caller's promise.
    let (name, name_len) = unsafe { ((*msg).msg_name.cast(), (*msg).msg_namelen) };
    // SAFETY: as above.
    match unsafe { fast_open::begin(fd, flags, name, name_len) } {
        First::Plain => {}
        First::Send => {
            // SAFETY: as above; a copy without the address.
            let mut rest = unsafe { *msg };
            rest.msg_name = std::ptr::null_mut();
            rest.msg_namelen = 0;
            // SAFETY: as above.
            return unsafe { sendmsg(fd, &rest, flags & !libc::MSG_FASTOPEN) };
        }
        First::Failed => return -1,
    }
    guard(|| {
        // SAFETY: the caller's promise.
        let m = unsafe { &*msg };
        // SAFETY: as above.
        let to = unsafe { destination(m.msg_name.cast(), m.msg_namelen) };
        match sender(fd, to) {
            Ok(Sender::Kernel) => plain(),
            Ok(Sender::Engine(socket)) => {
                // SAFETY: as above.
                let parts =
                    unsafe { vectors::sources(m.msg_iov, m.msg_iovlen as _, libc::EMSGSIZE) };
                let mut parts = match parts {
                    Ok(parts) => parts,
                    Err(e) => return answer(|| Err(e)),
                };
                // SAFETY: as above.
                let segment = unsafe { segment_of(msg) };
                send_parts(fd, &socket, &mut parts, flags, to, segment)
            }
            Err(e) => answer(|| Err(e)),
        }
    })
}

/// The control messages of a message.
///
/// # Safety
/// `msg` is a message whose control buffer may be read.
pub(crate) unsafe fn control<'a>(msg: *const msghdr) -> impl Iterator<Item = &'a cmsghdr> {
    // SAFETY: the caller's promise.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(msg) };
    std::iter::from_fn(move || {
        // SAFETY: null, or a header inside the buffer.
        let here = unsafe { next.as_ref() }?;
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(msg, here) };
        Some(here)
    })
}

/// UDP_SEGMENT's value, if a message has it; 0 if not.
unsafe fn segment_of(msg: *const msghdr) -> u16 {
    let mut segment = 0;
    // SAFETY: the caller's promise.
    for c in unsafe { control(msg) } {
        // SAFETY: a header of the message.
        let (data, header) = unsafe { (libc::CMSG_DATA(c), libc::CMSG_LEN(0)) };
        let have = c.cmsg_len.saturating_sub(header as usize);
        if (c.cmsg_level, c.cmsg_type) == (libc::SOL_UDP, libc::UDP_SEGMENT) && have >= 2 {
            // SAFETY: two bytes are there.
            segment = unsafe { data.cast::<u16>().read_unaligned() };
        } else {
            once!(
                Warn,
                Control,
                "control message {} of level {} has no effect on the engine",
                c.cmsg_type,
                c.cmsg_level
            );
        }
    }
    segment
}

/// Sends the engine's sockets off that leave with a message on a Unix socket.
/// This comes before the message: who receives it counts them as arrived.
unsafe fn send_off(msg: *const msghdr) -> Vec<Socket> {
    // SAFETY: the caller's promise.
    if unsafe { (*msg).msg_controllen } == 0 || crate::state::attached().is_none() {
        return Vec::new();
    }
    // SAFETY: as above.
    let leaving: Vec<Socket> = unsafe { passed(msg) }
        .into_iter()
        .filter_map(fds::engine)
        .collect();
    leaving.iter().for_each(Socket::send_off);
    leaving
}

/// The descriptors that a message carries.
///
/// # Safety
/// As [`control`].
pub(crate) unsafe fn passed(msg: *const msghdr) -> Vec<c_int> {
    let mut found = Vec::new();
    // SAFETY: the caller's promise.
    for c in unsafe { control(msg) } {
        if (c.cmsg_level, c.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            continue;
        }
        // SAFETY: a header of the message.
        let (data, header) = unsafe { (libc::CMSG_DATA(c), libc::CMSG_LEN(0)) };
        let bytes = c.cmsg_len.saturating_sub(header as usize);
        for i in 0..bytes / size_of::<c_int>() {
            // SAFETY: inside the control message, by its length.
            found.push(unsafe { data.cast::<c_int>().add(i).read_unaligned() });
        }
    }
    found
}

/// `sendmmsg(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    fd: c_int,
    msgs: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let passes = || unsafe { (*msgs).msg_hdr.msg_controllen } != 0;
    let kernels = fds::is_kernels(fd) && (crate::state::attached().is_none() || !passes());
    if msgs.is_null() || count == 0 || kernels {
        // SAFETY: the caller's promise.
        return unsafe { real::sendmmsg(fd, msgs, count, flags) };
    }
    for i in 0..count.min(vectors::MOST as c_uint) {
        // SAFETY: the caller's promise.
        let one = unsafe { &mut *msgs.add(i as usize) };
        // SAFETY: as above.
        let sent = unsafe { sendmsg(fd, &one.msg_hdr, flags) };
        if sent < 0 {
            // What went before counts; the error comes again.
            return if i == 0 { -1 } else { i as c_int };
        }
        one.msg_len = sent as c_uint;
    }
    count.min(vectors::MOST as c_uint) as c_int
}
