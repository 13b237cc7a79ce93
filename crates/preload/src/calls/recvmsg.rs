//! `recvmsg`, `recvmmsg`.

use crate::address::Native;
use crate::calls::control::{passed, write_control, write_unread};
use crate::calls::recv::{
    Got, kernels_datagram, length_to_say, next_datagram, recv_datagram, recv_stream, stream_flags,
};
use crate::calls::sendmsg::MSG_CMSG_COMPAT;
use crate::calls::timeouts::{limit_of, timespec_of};
use crate::calls::{answer, refused};
use crate::calls::{error_queue, newcomers};
use crate::cancel::{held, is_cancelled, loses_parts, point};
use crate::signals::within;
use crate::user::{In, Message, OneMessage, Out};
use crate::{decide, fds, real, state, vectors};
use libc::{c_int, c_uint, ssize_t, timespec};
use longshore_sockets::{Socket, SocketError};
use std::time::{Duration, Instant};

/// `recvmsg(2)`. Descriptors of the engine's sockets that come over Unix
/// sockets from other processes of the session are the engine's here, too.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn recvmsg(fd: c_int, msg: Out<'_, Message<'_>>, flags: c_int) -> ssize_t {
    if flags & MSG_CMSG_COMPAT == 0 && fds::is_engines(fd) {
        return point(|| {
            answer(|| {
                let socket = fds::engine_or_closed(fd)?;
                vectors::check_room(msg, size_of::<Message<'_>>())
                    .map_err(|_| refused(libc::EFAULT))?;
                recv_message(fd, &socket, msg, flags)
            })
        });
    }
    let got = real::recvmsg(fd, msg, flags);
    if got >= 0 {
        within(|| held(|| take_passed(msg.as_in(), flags)));
    }
    got
}

/// Takes hold of the engine's sockets among the descriptors that came, and notes those that may
/// become the engine's.
fn take_passed(msg: In<'_, Message<'_>>, flags: c_int) {
    if msg.get().is_none_or(|m| m.msg_controllen == 0) || state::is_off() {
        return;
    }
    for fd in passed(msg) {
        if fds::is_kernels(fd)
            && newcomers::inet_domain(fd).is_some()
            && let state::Mode::On(host) = state::mode()
            && !decide::inherit(host, fd)
        {
            newcomers::note(fd);
        }
        // What is only peeked at comes again.
        if flags & libc::MSG_PEEK == 0
            && let Some(socket) = fds::engine(fd)
        {
            socket.arrived();
        }
    }
}

pub(crate) fn recv_message(
    fd: c_int,
    socket: &Socket,
    msg: Out<'_, Message<'_>>,
    flags: c_int,
) -> Result<ssize_t, SocketError> {
    let got = take_message(fd, socket, msg, flags)?;
    if let Some(m) = msg.as_mut() {
        // Linux repeats it, whether there were descriptors or not.
        m.msg_flags |= flags & libc::MSG_CMSG_CLOEXEC;
    }
    Ok(got)
}

fn take_message(
    fd: c_int,
    socket: &Socket,
    msg: Out<'_, Message<'_>>,
    flags: c_int,
) -> Result<ssize_t, SocketError> {
    let Some(m) = msg.as_mut() else {
        return Err(refused(libc::EFAULT));
    };
    let name = m.msg_name;
    let list = m.msg_iov;
    if !m.msg_name.is_null() && m.msg_namelen.cast_signed() < 0 {
        return Err(refused(libc::EINVAL));
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        let parts = vectors::sinks(list, m.msg_iovlen, libc::EMSGSIZE);
        let got = error_queue::recv_message(fd, socket, msg, &mut parts?, flags);
        return got.map(|len| len as ssize_t);
    }
    if socket.is_datagram() {
        let got = next_datagram(fd, socket, flags, |attempt| {
            let parts = vectors::sinks(list, m.msg_iovlen, libc::EMSGSIZE);
            match recv_datagram(fd, socket, &mut parts?, flags, attempt) {
                Err(e) => kernels_datagram(fd, socket, flags, attempt.asked, e, |flags| {
                    real::recvmsg(fd, msg, flags)
                }),
                Ok(got) => Ok(Got::Engine(got)),
            }
        })?;
        let got = match got {
            Got::Kernel(len) => return Ok(len as ssize_t),
            Got::Engine(got) => got,
        };
        if let Some(from) = got.from {
            let from = Native::of_engine(from, socket.is_v6());
            from.copy_out(name, Out::from(&mut m.msg_namelen))?;
        } else {
            m.msg_namelen = 0;
        }
        m.msg_flags = if got.is_cut { libc::MSG_TRUNC } else { 0 };
        write_control(m, socket, &got);
        return Ok(length_to_say(&got, flags) as ssize_t);
    }
    let parts = vectors::sinks(list, m.msg_iovlen, libc::EMSGSIZE);
    let got = recv_stream(fd, socket, &mut parts?, flags)?;
    m.msg_namelen = 0;
    m.msg_flags = stream_flags(got, flags);
    write_unread(m, socket);
    Ok(got as ssize_t)
}

/// `recvmmsg(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn recvmmsg(
    fd: c_int,
    msgs: Out<'_, OneMessage<'_>>,
    count: c_uint,
    flags: c_int,
    timeout: Out<'_, timespec>,
) -> c_int {
    let limit = limit_of(timeout.as_in());
    let ours = flags & MSG_CMSG_COMPAT == 0 && fds::is_engines(fd) && !msgs.is_null();
    let Some(limit) = limit.filter(|_| ours) else {
        let got = real::recvmmsg(fd, msgs, count, flags, timeout);
        for i in 0..usize::try_from(got).unwrap_or(0) {
            within(|| held(|| take_passed(msgs.add(i).cast().as_in(), flags)));
        }
        return got;
    };
    point(|| {
        answer(|| {
            let socket = fds::engine_or_closed(fd)?;
            let count = count as usize;
            let got = receive_many(fd, &socket, (msgs, count), flags, (limit, timeout))?;
            Ok(got as c_int)
        })
    })
}

/// Receives messages, all from the socket that the descriptor stood for when the call began;
/// how many. What went wrong after the first is reported by the next call, and a call that was interrupted
/// then gives those before.
fn receive_many(
    fd: c_int,
    socket: &Socket,
    (msgs, count): (Out<'_, OneMessage<'_>>, usize),
    flags: c_int,
    (limit, timeout): (Option<Duration>, Out<'_, timespec>),
) -> Result<usize, SocketError> {
    // As Linux has it, what went wrong is reported before anything is received, whatever is there.
    match socket.pending_error().take() {
        0 => {}
        pending => return Err(refused(pending.cast_signed())),
    }
    let start = Instant::now();
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    let mut flags = flags & !libc::MSG_WAITFORONE;
    for i in 0..count {
        let one = msgs.add(i);
        // A message is the first part of it.
        let message: Out<'_, Message<'_>> = one.cast();
        let got = vectors::check_room(message, size_of::<Message<'_>>())
            .map_err(|_| refused(libc::EFAULT))
            .and_then(|()| recv_message(fd, socket, message, flags));
        let got = match got {
            Ok(got) => got,
            // A thread that was cancelled ends where it waits, if it would in libc's.
            Err(e) if i == 0 || is_cancelled() && loses_parts() => return Err(e),
            Err(e) => {
                socket.pending_error().leave(e);
                return Ok(i);
            }
        };
        if let Some(one) = one.as_mut() {
            one.msg_len = got as c_uint;
        }
        if wait_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        // As Linux has it: the time is looked at after each datagram, and what is left of it reported.
        if let Some(limit) = limit {
            let left = limit.saturating_sub(start.elapsed());
            timeout.put(timespec_of(left));
            if left.is_zero() {
                return Ok(i + 1);
            }
        }
    }
    Ok(count)
}
