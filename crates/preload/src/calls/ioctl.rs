//! `ioctl`.

use crate::calls::{answer, note_nonblocking};
use crate::{fds, owner, real, vectors};
use libc::{c_int, c_ulong};
use longshore_sockets::{Socket, SocketError};

/// Whether the stream stands at urgent data.
const SIOCATMARK: c_ulong = 0x8905;
/// Bytes that wait to be sent (as TIOCOUTQ).
const SIOCOUTQ: c_ulong = libc::TIOCOUTQ;

/// Who owns the socket, as F_SETOWN.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// `ioctl(2)`. What concerns the streams is answered for the engine; flags,
/// interfaces and all else are the kernel's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    if fds::is_kernels(fd) {
        // SAFETY: the caller's promise.
        return unsafe { real::ioctl(fd, request, arg) };
    }
    let number = fds::engine(fd).and_then(|socket| number(&socket, request));
    match number {
        Some(number) => answer(|| {
            let to = arg as *mut c_int;
            vectors::check(to, size_of::<c_int>())?;
            // SAFETY: these requests take a pointer to a number.
            unsafe { to.write_unaligned(number) };
            Ok(0)
        }),
        None => {
            // SAFETY: the caller's promise.
            let result = unsafe { real::ioctl(fd, request, arg) };
            if matches!(request, FIOSETOWN | SIOCSPGRP) && result == 0 {
                owner::changed(fd);
            }
            if request == libc::FIONBIO && result == 0 {
                // SAFETY: the kernel has read a number there.
                let on = unsafe { (arg as *const c_int).read_unaligned() };
                note_nonblocking(fd, on != 0);
            }
            result
        }
    }
}

/// `sockatmark(3)`, whose own call of `ioctl` is inside libc.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sockatmark(fd: c_int) -> c_int {
    let mut is: c_int = 0;
    // SAFETY: this request takes a pointer to a number.
    match unsafe { ioctl(fd, SIOCATMARK, (&raw mut is).addr()) } {
        -1 => -1,
        _ => is,
    }
}

fn number(socket: &Socket, request: c_ulong) -> Option<c_int> {
    let number = match request {
        libc::FIONREAD if socket.is_datagram() => socket.next_datagram(),
        // As Linux has it, a listener has no such number.
        libc::FIONREAD if socket.is_listening() => return None,
        libc::FIONREAD => arrived(socket),
        SIOCOUTQ => socket.unacked_bytes(),
        // Datagrams have no mark, and the kernel says so.
        SIOCATMARK if socket.is_datagram() => return None,
        SIOCATMARK => {
            socket.host().drain_if_free();
            usize::from(socket.at_mark())
        }
        _ => return None,
    };
    Some(c_int::try_from(number).unwrap_or(c_int::MAX))
}

/// Bytes to read. Before it is said that there are none, what has reached this machine is
/// given a moment to reach the socket: the kernel would have counted it.
fn arrived(socket: &Socket) -> usize {
    let look = || match socket.readable_bytes() {
        0 => Err(SocketError::WouldBlock),
        n => Ok(n),
    };
    socket.look_awhile(look).ok().flatten().unwrap_or(0)
}
