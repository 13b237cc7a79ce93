//! `sendfile`: the file is read straight into memory of which the send stream is made.

use crate::calls::{Way, answer, errno, must_not_wait, patience, refused};
use crate::cancel::held;
use crate::user::Out;
use crate::{fds, real, signals};
use libc::{c_int, off_t, size_t, ssize_t};
use longshore_hostif::CHUNK;
use longshore_sockets::{MOST_PREPARED, Patience, Prepared, Socket, SocketError, is_confined};
use rustix::io::Errno;
use std::io::IoSliceMut;

/// Most pieces of memory that what is read at a time lies in.
const MOST_PIECES: usize = MOST_PREPARED / CHUNK + 1;

/// `sendfile(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sendfile(
    out: c_int,
    from: c_int,
    offset: Out<'_, off_t>,
    count: size_t,
) -> ssize_t {
    if !fds::is_engines(from) && !fds::is_engines(out) {
        return real::sendfile(out, from, offset, count);
    }
    // It is no cancellation point.
    let send = || answer(|| held(|| send_from(out, from, offset, count)));
    let mut sent = send();
    while sent < 0 && signals::is_to_restart() {
        sent = send();
    }
    if sent < 0 && errno() == libc::EPIPE {
        signals::broken_pipe();
    }
    sent
}

/// `sendfile` with a socket of the engine at one end at least.
fn send_from(
    out: c_int,
    from: c_int,
    offset: Out<'_, off_t>,
    count: usize,
) -> Result<ssize_t, SocketError> {
    if fds::is_engines(from) {
        // A socket is no file.
        return Err(refused(libc::EINVAL));
    }
    let socket = fds::engine_or_closed(out)?;
    if socket.is_datagram() {
        return Err(refused(libc::EINVAL));
    }
    let mut at = offset.get();
    let sent = send_file(out, &socket, from, &mut at, count);
    if let Some(at) = at {
        offset.put(at);
    }
    sent.map(|n| n as ssize_t)
}

/// `sendfile` of programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn sendfile64(
    out: c_int,
    from: c_int,
    offset: Out<'_, off_t>,
    count: size_t,
) -> ssize_t {
    sendfile(out, from, offset, count)
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
        let step = count - sent;
        let prepared = match socket.prepare(step) {
            Err(SocketError::WouldBlock) if !must_not_wait(out, 0) => {
                let patience = *patient.get_or_insert_with(|| patience(socket, Way::Out));
                socket.wait(None, patience, || socket.prepare(step))
            }
            other => other,
        };
        let mut prepared = match prepared {
            Ok(prepared) => prepared,
            Err(_) if sent != 0 => break,
            Err(e) => return Err(e),
        };
        let room = prepared.len();
        let read = match fill(&mut prepared, from, at) {
            Ok(read) => read,
            Err(_) if sent != 0 => break,
            Err(e) => return Err(e),
        };
        append(socket, prepared, read, false)?;
        sent += read;
        if read < room {
            break;
        }
    }
    Ok(sent)
}

/// Reads the file into what is prepared. At the end of the file that is less than all.
fn fill(
    prepared: &mut Prepared<'_>,
    from: c_int,
    at: &mut Option<off_t>,
) -> Result<usize, SocketError> {
    let mut pieces: [IoSliceMut<'_>; MOST_PIECES] =
        std::array::from_fn(|_| IoSliceMut::new(&mut []));
    let mut used = 0;
    for (slot, piece) in pieces.iter_mut().zip(prepared.pieces()) {
        *slot = IoSliceMut::new(piece?);
        used += 1;
    }
    read_file(from, &mut pieces[..used], at)
}

/// Appends what was read, which is not to be lost: if others have filled the stream meanwhile,
/// it waits, whatever the descriptor says.
pub(crate) fn append(
    socket: &Socket,
    mut prepared: Prepared<'_>,
    len: usize,
    more: bool,
) -> Result<(), SocketError> {
    match prepared.append(len, more) {
        Err(SocketError::WouldBlock) => {
            socket.wait(None, Patience::of_call(None), || prepared.append(len, more))
        }
        other => other,
    }
}

/// Fills the pieces, with one call where nothing comes between, or, under a filter of system
/// calls, with the plainest; gives how many bytes there were.
fn read_file(
    from: c_int,
    mut to: &mut [IoSliceMut<'_>],
    at: &mut Option<off_t>,
) -> Result<usize, SocketError> {
    let file = crate::calls::borrow(from);
    let most = if is_confined() { 1 } else { to.len() };
    let mut filled = 0;
    while !to.is_empty() {
        let read = match (&mut *at, &mut to[..]) {
            (Some(at), [one, ..]) if most == 1 => rustix::io::pread(file, &mut **one, *at as u64),
            (None, [one, ..]) if most == 1 => rustix::io::read(file, &mut **one),
            (Some(at), all) => rustix::io::preadv(file, all, *at as u64),
            (None, all) => rustix::io::readv(file, all),
        };
        match read {
            Ok(0) => break,
            Ok(n) => {
                filled += n;
                if let Some(at) = at {
                    *at += n as off_t;
                }
                IoSliceMut::advance_slices(&mut to, n);
            }
            Err(Errno::INTR) => {}
            Err(_) if filled != 0 => break,
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    Ok(filled)
}
