//! `accept`, `accept4`.

use crate::address::Native;
use crate::calls::close::close;
use crate::calls::gone::without_engine;
use crate::calls::{
    Asked, Way, answer, borrow, last_error, must_not_wait, note_nonblocking, wait_for_either,
};
use crate::cancel::{held, point};
use crate::fds::{self, Entry};
use crate::user::Out;
use crate::{decide, lifecycle, options, real};
use libc::{c_int, sockaddr, socklen_t};
use longshore_sockets::{Socket, SocketError, is_confined};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::time::Timespec;
use std::os::fd::IntoRawFd;

/// `accept(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn accept(
    fd: c_int,
    addr: Out<'_, sockaddr>,
    len: Out<'_, socklen_t>,
) -> c_int {
    accept4(fd, addr, len, 0)
}

/// `accept4(2)`. A listener that the kernel has too gives what either has.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn accept4(
    fd: c_int,
    addr: Out<'_, sockaddr>,
    len: Out<'_, socklen_t>,
    flags: c_int,
) -> c_int {
    if fds::is_engines(fd) {
        point(|| accept_ours(fd, addr, len, flags))
    } else {
        real::accept4(fd, addr, len, flags)
    }
}

fn accept_ours(fd: c_int, addr: Out<'_, sockaddr>, len: Out<'_, socklen_t>, flags: c_int) -> c_int {
    answer(|| {
        let listener = fds::engine_or_closed(fd)?;
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(crate::calls::refused(libc::EINVAL));
        }
        if listener.is_datagram() {
            return Err(crate::calls::refused(libc::EOPNOTSUPP));
        }
        wait_for_either(fd, &listener, 0, Way::In, Asked::Both, |asked, _| {
            match held(|| accept_from_engine(fd, &listener, flags)) {
                Ok((accepted, peer)) => {
                    let copied = peer.copy_out(addr, len);
                    if copied.is_err() {
                        // As Linux has it, the connection is lost.
                        held(|| close(accepted));
                    }
                    copied.map(|()| accepted)
                }
                Err(SocketError::WouldBlock) if !has_descriptor_left(fd, &listener) => {
                    Err(crate::calls::refused(libc::EMFILE))
                }
                Err(SocketError::WouldBlock)
                    if asked == Asked::Both && listener.has_kernel_side() =>
                {
                    accept_from_kernel(fd, addr, len, flags)
                }
                Err(SocketError::EngineGone) => Err(without_engine(fd, 0)),
                Err(e) => Err(e),
            }
        })
    })
}

/// Whether there is a number for what is to be accepted, which Linux takes before it waits, or says
/// that there is nothing.
fn has_descriptor_left(fd: c_int, listener: &Socket) -> bool {
    let waits = !must_not_wait(fd, 0);
    if is_confined() || (listener.has_kernel_side() && !waits) {
        // A filter may permit other calls alone; and the kernel's half is asked anyway.
        return true;
    }
    let errno = if waits {
        let number = held(|| rustix::io::fcntl_dupfd_cloexec(borrow(fd), 0).map(drop));
        number.map_or_else(|e| e.raw_os_error(), |()| 0)
    } else {
        // The kernel's socket does not listen, which it says once there is a number.
        let accepted = held(|| real::accept4(fd, Out::null(), Out::null(), 0));
        if accepted >= 0 {
            real::close(accepted);
            return true;
        }
        last_error().errno()
    };
    !matches!(errno, libc::EMFILE | libc::ENFILE)
}

/// Accepts on the kernel's half, without waiting.
fn accept_from_kernel(
    fd: c_int,
    addr: Out<'_, sockaddr>,
    len: Out<'_, socklen_t>,
    flags: c_int,
) -> Result<c_int, SocketError> {
    if !must_not_wait(fd, 0) && !is_readable(fd) {
        return Err(SocketError::WouldBlock);
    }
    let accepted = held(|| real::accept4(fd, addr, len, flags));
    if accepted < 0 {
        return Err(last_error());
    }
    // The number may have been something of ours that was closed behind our
    // back.
    lifecycle::give_up(fds::put(accepted, Entry::Kernel));
    Ok(accepted)
}

fn is_readable(fd: c_int) -> bool {
    let fd = borrow(fd);
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&at_once)).is_ok_and(|n| n != 0)
}

fn accept_from_engine(
    fd: c_int,
    listener: &Socket,
    flags: c_int,
) -> Result<(c_int, Native), SocketError> {
    let v6 = listener.is_v6();
    let family = if v6 {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let new = SocketFlags::from_bits_retain(flags as u32);
    let (socket, record, backing) = listener.accept_queue().accept_with(|| {
        socket_with(family, SocketType::STREAM, new, None).map_err(SocketError::Refused)
    })?;
    let backing = backing.into_raw_fd();
    if !fds::has_room_for(backing) {
        real::close(backing);
        return Err(crate::calls::refused(libc::EMFILE));
    }
    socket.set_inode(decide::inode(backing));
    options::inherit(fd, listener, backing, &socket);
    let peer = record.peer.get().ok_or(SocketError::Broken)?;
    let before = fds::put(backing, Entry::Engine(socket.into_use()));
    lifecycle::give_up(before);
    if flags & libc::SOCK_NONBLOCK != 0 {
        note_nonblocking(backing, true);
    }
    Ok((backing, Native::of_engine(peer, v6)))
}
