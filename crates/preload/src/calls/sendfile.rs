//! `sendfile`: the file is read straight into the send stream.

use crate::calls::{Way, answer, last_error, must_not_wait, patience, refused, wait_unless_told};
use crate::{fds, real, signals};
use libc::{c_int, off_t, size_t, ssize_t};
use longshore_sockets::{Reserved, Socket, SocketError};
use rustix::io::Errno;

/// Most that is reserved at a time.
const STEP: usize = 512 * 1024;

/// `sendfile(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    if fds::engine(from).is_some() {
        // A socket is no file.
        return answer(|| Err(refused(libc::EINVAL)));
    }
    let Some(socket) = fds::engine(out) else {
        // SAFETY: the caller's promise.
        return unsafe { real::sendfile(out, from, offset, count) };
    };
    if socket.is_datagram() {
        return answer(|| Err(refused(libc::EINVAL)));
    }
    let sent = answer(|| {
        // SAFETY: the caller's promise.
        let mut at = unsafe { offset.as_ref() }.copied();
        let sent = send_file(out, &socket, from, &mut at, count);
        if let Some(at) = at {
            // SAFETY: as above; it was there a moment ago.
            unsafe { *offset = at };
        }
        sent.map(|n| n as ssize_t)
    });
    if sent < 0 && last_error() == refused(libc::EPIPE) {
        signals::broken_pipe();
    }
    sent
}

/// `sendfile` of programs with 64-bit file offsets.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { sendfile(out, from, offset, count) }
}

fn send_file(
    out: c_int,
    socket: &Socket,
    from: c_int,
    at: &mut Option<off_t>,
    count: usize,
) -> Result<usize, SocketError> {
    let mut sent = 0;
    let mut patient = None;
    while sent < count {
        let step = (count - sent).min(STEP);
        let reserved = match socket.reserve(step) {
            Err(SocketError::WouldBlock) if !must_not_wait(out, 0) => {
                let patience = *patient.get_or_insert_with(|| patience(socket, Way::Out));
                socket.wait(None, patience, || socket.reserve(step))
            }
            other => other,
        };
        let reserved = match reserved {
            Ok(reserved) => reserved,
            Err(_) if sent != 0 => break,
            Err(e) => return Err(e),
        };
        let room = reserved.len();
        let read = match fill(reserved, from, at) {
            Ok(read) => read,
            Err(_) if sent != 0 => break,
            Err(e) => return Err(e),
        };
        sent += read;
        if read < room {
            break;
        }
    }
    Ok(sent)
}

/// Reads the file into the reservation and sends what was read. At the end of
/// the file that is less than all.
fn fill(
    mut reserved: Reserved<'_>,
    from: c_int,
    at: &mut Option<off_t>,
) -> Result<usize, SocketError> {
    let len = reserved.len();
    let mut filled = 0;
    let mut failed = None;
    for piece in reserved.pieces(0, len) {
        match read_file(from, piece?, at) {
            Ok((read, whole)) => {
                filled += read;
                if !whole {
                    break;
                }
            }
            Err(e) => {
                failed = Some(e);
                break;
            }
        }
    }
    match failed {
        Some(e) if filled == 0 => Err(e),
        _ => reserved.commit(filled, false).map(|()| filled),
    }
}

fn read_file(
    from: c_int,
    to: &mut [u8],
    at: &mut Option<off_t>,
) -> Result<(usize, bool), SocketError> {
    let file = crate::calls::borrow(from);
    let mut filled = 0;
    while filled < to.len() {
        let read = match at {
            Some(at) => rustix::io::pread(file, &mut to[filled..], *at as u64),
            None => rustix::io::read(file, &mut to[filled..]),
        };
        match read {
            Ok(0) => break,
            Ok(n) => {
                filled += n;
                if let Some(at) = at {
                    *at += n as off_t;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) if filled != 0 => break,
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    Ok((filled, filled == to.len()))
}

/// Waits for room in the send stream, if the descriptor blocks, and reserves
/// it.
pub(crate) fn reserve<'a>(
    fd: c_int,
    socket: &'a Socket,
    max: usize,
    flags: c_int,
) -> Result<Reserved<'a>, SocketError> {
    wait_unless_told(fd, socket, flags, Way::Out, || socket.reserve(max))
}
