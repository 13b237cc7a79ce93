//! `sendmsg`, `sendmmsg`.

use crate::calls::control::{asked, passed};
use crate::calls::fast_open::{self, First};
use crate::calls::send::{Sender, destination, send_parts, sender, without_bytes};
use crate::calls::{told, unless_kernels};
use crate::cancel::{held, point};
use crate::{fds, real, vectors};
use libc::{c_int, c_uint, mmsghdr, msghdr, sockaddr_storage, socklen_t, ssize_t};
use longshore_sockets::{Departure, Socket, SocketError};

/// Bytes of the longest address.
const LONGEST_NAME: socklen_t = size_of::<sockaddr_storage>() as socklen_t;

/// `sendmsg(2)`. Descriptors of the engine's sockets may go to other processes
/// of the session over Unix sockets.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let plain = || unsafe { real::sendmsg(fd, msg, flags) };
    if vectors::check(msg, size_of::<msghdr>()).is_err() {
        return plain();
    }
    if fds::is_kernels(fd) {
        // SAFETY: the caller's promise.
        return unsafe { send_passing(msg, plain) }.unwrap_or_else(plain);
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
    // SAFETY: the caller's promise.
    point(|| unsafe { send_message(fd, msg, flags) }.unwrap_or_else(plain))
}

/// Sends a message; `None` if it is the kernel's to send.
///
/// # Safety
/// As libc's `sendmsg`.
unsafe fn send_message(fd: c_int, msg: *const msghdr, flags: c_int) -> Option<ssize_t> {
    unless_kernels(|| {
        // SAFETY: the caller's promise.
        let m = unsafe { &*msg };
        // A name of no length is none, and of a long one the kernel reads so much.
        let (name, len) = match m.msg_namelen {
            0 => (std::ptr::null(), 0),
            len if len.cast_signed() < 0 => (m.msg_name.cast_const(), len),
            len => (m.msg_name.cast_const(), len.min(LONGEST_NAME)),
        };
        // SAFETY: as above.
        let to = unsafe { destination(name.cast(), len) };
        match to.and_then(|to| sender(fd, to)) {
            Ok(Sender::Kernel) => None,
            Ok(Sender::Engine(socket, to)) => {
                // SAFETY: as above.
                let parts =
                    unsafe { vectors::sources(m.msg_iov, m.msg_iovlen as _, libc::EMSGSIZE) };
                let mut parts = match parts {
                    Ok(parts) => parts,
                    Err(e) if is_fault_of_bytes(m, &e) => {
                        return Some(told(Err(without_bytes(&socket, to).unwrap_or(e))));
                    }
                    Err(e) => return Some(told(Err(e))),
                };
                let asked = if socket.is_datagram() {
                    let to = to.or_else(|| socket.peer().ok());
                    // SAFETY: as above.
                    unsafe { asked(msg, socket.is_v6(), to) }
                } else {
                    Ok(Departure::default())
                };
                let asked = match asked {
                    Ok(asked) => asked,
                    Err(e) => return Some(told(Err(e))),
                };
                Some(send_parts(fd, &socket, &mut parts, flags, to, asked))
            }
            Err(e) => Some(told(Err(e))),
        }
    })
}

/// Whether it is the bytes that are nowhere, and not the list of them.
fn is_fault_of_bytes(m: &msghdr, e: &SocketError) -> bool {
    e.errno() == libc::EFAULT
        && vectors::check(m.msg_iov, m.msg_iovlen * size_of::<libc::iovec>()).is_ok()
}

/// Sends a message that takes sockets of the engine along; `None` if it has none. It is
/// no cancellation point then: who is cancelled would not know whether they have left.
///
/// # Safety
/// As libc's `sendmsg`.
unsafe fn send_passing(msg: *const msghdr, plain: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    // SAFETY: the caller's promise.
    let leaving = unsafe { send_off(msg) };
    if leaving.is_empty() {
        return None;
    }
    let sent = held(plain);
    if sent < 0 {
        leaving.iter().for_each(Socket::arrived);
    }
    Some(sent)
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

/// `sendmmsg(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
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
