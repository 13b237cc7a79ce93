//! `sendmsg`, `sendmmsg`.

use crate::calls::control::{asked, check_buffer, check_of_stream, passed};
use crate::calls::fast_open::{self, First};
use crate::calls::send::{Sender, destination, kernels_send, send_parts, sender, without_bytes};
use crate::calls::{returned, unless_kernels};
use crate::cancel::{held, point};
use crate::signals::{prepare, within};
use crate::user::{Buffer, In, Message, OneMessage, Out};
use crate::{fds, kept, pipes, real, vectors};
use libc::{c_int, c_uint, sockaddr_storage, socklen_t, ssize_t};
use longshore_sockets::{Socket, SocketError};

/// Of linux/socket.h: messages of programs of 32 bits, which the kernel refuses.
pub(super) const MSG_CMSG_COMPAT: c_int = c_int::MIN;

/// Bytes of the longest address.
const LONGEST_NAME: socklen_t = size_of::<sockaddr_storage>() as socklen_t;

/// `sendmsg(2)`. Descriptors of the engine's sockets may go to other processes
/// of the session over Unix sockets.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sendmsg(fd: c_int, msg: In<'_, Message<'_>>, flags: c_int) -> ssize_t {
    let plain = || kernels_send(fd, || real::sendmsg(fd, msg, flags));
    if flags & MSG_CMSG_COMPAT != 0 || !vectors::can_be_read(msg, size_of::<Message<'_>>()) {
        return plain();
    }
    if fds::is_kernels(fd) {
        return send_passing(msg, plain).unwrap_or_else(plain);
    }
    let Some(whole) = msg.get() else {
        return plain();
    };
    let (name, name_len) = (whole.msg_name.as_in(), whole.msg_namelen);
    match fast_open::begin(fd, flags, name, name_len) {
        First::Plain => {}
        First::Send => {
            let mut rest = whole;
            rest.msg_name = Out::null();
            rest.msg_namelen = 0;
            return sendmsg(fd, In::from(&rest), flags & !libc::MSG_FASTOPEN);
        }
        First::Failed => return -1,
    }
    point(|| send_message(fd, msg, flags).unwrap_or_else(plain))
}

/// Sends a message; `None` if it is the kernel's to send.
fn send_message(fd: c_int, msg: In<'_, Message<'_>>, flags: c_int) -> Option<ssize_t> {
    unless_kernels(|| {
        let m = &msg.get()?;
        if let Err(e) = check_buffer(m) {
            return Some(returned(Err(e)));
        }
        // A name of no length is none, and of a long one the kernel reads so much.
        let (name, len) = match m.msg_namelen {
            0 => (In::null(), 0),
            len if len.cast_signed() < 0 => (m.msg_name.as_in(), len),
            len => (m.msg_name.as_in(), len.min(LONGEST_NAME)),
        };
        let to = destination(fd, name, len);
        match to.and_then(|to| sender(fd, to)) {
            Ok(Sender::Kernel) => None,
            Ok(Sender::Engine(socket, to)) => {
                let beside = || {
                    let to = to.or_else(|| socket.addresses().peer().ok());
                    asked(msg, socket.is_v6(), to)
                };
                if m.msg_controllen != 0
                    && !socket.is_datagram()
                    && let Err(e) = check_of_stream(msg)
                {
                    return Some(returned(Err(e)));
                }
                let parts = vectors::sources(m.msg_iov, m.msg_iovlen, libc::EMSGSIZE);
                Some(match parts {
                    Ok(mut parts) => send_parts(fd, &socket, &mut parts, flags, to, beside),
                    Err(e) => {
                        let bytes = length_of_faulty(m, &e).map(|len| (len, flags));
                        let first = bytes.and_then(|b| without_bytes(fd, &socket, b, to, beside));
                        returned(Err(first.unwrap_or(e)))
                    }
                })
            }
            Err(e) => Some(returned(Err(e))),
        }
    })
}

/// How long the message is, if it is its bytes that are nowhere, and not the list of them.
fn length_of_faulty(m: &Message<'_>, e: &SocketError) -> Option<usize> {
    let list = m.msg_iovlen * size_of::<Buffer<'_>>();
    if e.errno() != libc::EFAULT || !vectors::can_be_read(m.msg_iov, list) {
        return None;
    }
    let parts = m.msg_iov.slice(m.msg_iovlen).iter();
    Some(parts.fold(0, |len: usize, part| len.saturating_add(part.iov_len)))
}

/// Sends a message that takes sockets of the engine along; `None` if it has none. It is
/// no cancellation point then: a thread that is cancelled would not know whether they have left.
fn send_passing(msg: In<'_, Message<'_>>, plain: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    let leaving = prepare(|| send_off(msg));
    if leaving.is_empty() {
        return None;
    }
    let sent = held(plain);
    within(|| {
        if sent < 0 {
            leaving.iter().for_each(Socket::arrived);
        }
        drop(leaving);
    });
    Some(sent)
}

/// Sends the engine's sockets off that leave with a message on a Unix socket, and shares those that
/// are undecided.
/// This comes before the message: the process that receives it counts them as arrived.
fn send_off(msg: In<'_, Message<'_>>) -> Vec<Socket> {
    if msg.get().is_none_or(|m| m.msg_controllen == 0) || crate::place::attached().is_none() {
        return Vec::new();
    }
    let passed = passed(msg);
    for fd in &passed {
        pipes::leave(*fd);
        fds::share(*fd);
    }
    let leaving: Vec<Socket> = passed.into_iter().filter_map(fds::engine).collect();
    for socket in &leaving {
        kept::leave_socket(socket.id());
    }
    leaving.iter().for_each(Socket::send_off);
    leaving
}

/// `sendmmsg(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sendmmsg(
    fd: c_int,
    msgs: Out<'_, OneMessage<'_>>,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let passes = || {
        vectors::check(msgs, size_of::<OneMessage<'_>>()).is_ok()
            && msgs.get().is_some_and(|m| m.msg_hdr.msg_controllen != 0)
    };
    let kernels = fds::is_kernels(fd) && (crate::place::attached().is_none() || !passes());
    if msgs.is_null() || count == 0 || kernels || flags & MSG_CMSG_COMPAT != 0 {
        return real::sendmmsg(fd, msgs, count, flags);
    }
    for i in 0..count.min(vectors::MOST as c_uint) {
        let one = msgs.add(i as usize);
        // Each may say for itself that it ends a record, which sendmsg does not look for.
        // A message is the first part of it.
        let msg: In<'_, Message<'_>> = one.cast().as_in();
        let ends_record = match vectors::check(msg, size_of::<Message<'_>>()) {
            Ok(()) => msg.get().map_or(0, |m| m.msg_flags & libc::MSG_EOR),
            Err(_) => 0,
        };
        let sent = sendmsg(fd, msg, flags | ends_record);
        if sent < 0 {
            // What went before counts; the error comes again.
            return if i == 0 { -1 } else { i as c_int };
        }
        if let Some(one) = one.as_mut() {
            one.msg_len = sent as c_uint;
        }
    }
    count.min(vectors::MOST as c_uint) as c_int
}
