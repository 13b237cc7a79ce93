//! `splice` between a pipe and a stream. What it takes out of a stream it leaves in the pipe
//! where it lies, if it may (`pipes`), and copies it otherwise. The stream is nobody's while the
//! pipe is read or written: the thread that does that may be held up.

use crate::calls::pipe::prepare;
use crate::calls::sendfile::append;
use crate::calls::{Way, answer, must_not_wait, refused, wait_unless_nonblocking};
use crate::cancel::point;
use crate::pipes::{self, Put};
use crate::signals::{self, within};
use crate::user::Out;

use crate::{fds, real};
use libc::{c_int, c_uint, size_t, ssize_t};
use longshore_sockets::{Socket, SocketError, is_confined};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::IoSliceMut;

/// Most bytes that go to a pipe at a time: what one holds unless its program has set otherwise.
const MOST_OUT: usize = 64 * 1024;
/// What a pipe is made of.
const PAGE: usize = 4096;

/// `splice(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn splice(
    from: c_int,
    from_at: Out<'_, i64>,
    to: c_int,
    to_at: Out<'_, i64>,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if fds::is_engines(from) || fds::is_engines(to) {
        let offsets = (!from_at.is_null(), !to_at.is_null());
        point(|| within(|| splice_ours(from, to, offsets, len, flags)))
    } else {
        // Elsewhere the pages of a pipe may stay for any time.
        pipes::leave(from);
        pipes::leave(to);
        real::splice(from, from_at, to, to_at, len, flags)
    }
}

/// `offsets` says whether the call has one for each end.
fn splice_ours(
    from: c_int,
    to: c_int,
    offsets: (bool, bool),
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if len == 0 {
        return 0;
    }
    let (source, sink) = (fds::engine(from), fds::engine(to));
    let work = || match (&source, &sink) {
        // One end has to be a pipe, and a socket has no offset.
        (Some(_), Some(_)) => Err(refused(libc::EINVAL)),
        (Some(_), _) if offsets.0 => Err(refused(libc::ESPIPE)),
        (_, Some(_)) if offsets.1 => Err(refused(libc::ESPIPE)),
        (Some(s), None) => out_of(from, s, Pipe::of(to, flags)?, len),
        (None, Some(s)) => {
            let more = flags & libc::SPLICE_F_MORE != 0;
            let done = into(to, s, Pipe::of(from, flags)?, len, more);
            if done.is_err_and(|e| e.errno() == libc::EPIPE) && !s.is_datagram() {
                signals::broken_pipe();
            }
            done
        }
        (None, None) => Err(refused(libc::EBADF)),
    };
    answer(|| work().map(|n| n as ssize_t))
}

/// The pipe of a call.
#[derive(Clone, Copy)]
struct Pipe {
    fd: c_int,
    inode: u64,
    /// The call does not wait for it. Whether it waits for the socket is the socket's own
    /// (O_NONBLOCK).
    no_wait: bool,
}

impl Pipe {
    fn of(fd: c_int, flags: c_uint) -> Result<Self, SocketError> {
        let inode = pipes::inode_of(fd).map_or_else(|| inode_of_pipe(fd), Ok)?;
        let is_nonblocking = || {
            let flags = rustix::fs::fcntl_getfl(crate::calls::borrow(fd));
            flags.is_ok_and(|f| f.contains(OFlags::NONBLOCK))
        };
        Ok(Self {
            fd,
            inode,
            no_wait: flags & libc::SPLICE_F_NONBLOCK != 0 || is_nonblocking(),
        })
    }
}

/// The inode of a pipe, from the kernel.
fn inode_of_pipe(fd: c_int) -> Result<u64, SocketError> {
    let stat = rustix::fs::fstat(crate::calls::borrow(fd)).map_err(SocketError::Refused)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Fifo {
        return Err(refused(libc::EINVAL));
    }
    Ok(stat.st_ino)
}

/// Leaves what has arrived in a pipe that takes pages, without asking how the pipe stands: its
/// other end is this process's, and one that is full refuses. `None` if that is to be asked.
fn put_at_once(socket: &Socket, pipe: Pipe, len: usize) -> Result<Option<Put>, SocketError> {
    // What is to be said of a stream that is empty, or at its mark, is said after a look at the
    // pipe.
    if socket.receive_stream().readable_bytes() == 0 || socket.urgent_data().is_at_mark() {
        return Ok(None);
    }
    match pipes::put(pipe.fd, socket, len) {
        Ok(Put::Full) | Err(SocketError::WouldBlock) => Ok(None),
        put => put.map(Some),
    }
}

/// From the receive stream to the pipe.
fn out_of(fd: c_int, socket: &Socket, pipe: Pipe, len: usize) -> Result<usize, SocketError> {
    let mut may_refer = pipes::takes(pipe.fd, pipe.inode);
    if may_refer {
        prepare();
        match put_at_once(socket, pipe, len)? {
            Some(Put::Bytes(n)) => return Ok(n),
            Some(_) => may_refer = false,
            None => {}
        }
    }
    loop {
        if pipe.no_wait && !pipes::is_ready(pipe.fd, PollFlags::OUT) {
            return Err(SocketError::WouldBlock);
        }
        let held = wait_unless_nonblocking(fd, socket, 0, Way::In, || {
            // Linux does not pass over an urgent byte here: that is left to `recv`.
            match socket.receive_stream().peek() {
                Ok(peeked) if !peeked.is_empty() && socket.urgent_data().is_at_mark() => Ok(None),
                Err(SocketError::WouldBlock) if socket.urgent_data().holds_reader() => Ok(None),
                peeked => peeked.map(|peeked| Some(peeked.len())),
            }
        })?;
        let held = match held {
            // At the mark of a stream that has ended nothing is waited for.
            None if must_not_wait(fd, 0) && !has_ended(socket) => {
                return Err(SocketError::WouldBlock);
            }
            None | Some(0) => return Ok(0),
            Some(held) => held,
        };
        if !pipe.no_wait && !is_confined() {
            pipes::wait_until(pipe.fd, PollFlags::OUT)?;
        }
        if pipes::is_ready(pipe.fd, PollFlags::ERR) {
            signals::broken_pipe();
            return Err(refused(libc::EPIPE));
        }
        let moved = match may_refer.then(|| pipes::put(pipe.fd, socket, len)) {
            Some(Ok(Put::Bytes(n))) => Ok(n),
            Some(Ok(Put::Full)) => continue,
            Some(Err(e)) => Err(e),
            None | Some(Ok(Put::Copy)) => copy_out(socket, pipe, held.min(len)),
        };
        match moved {
            // Somebody else has read it.
            Err(SocketError::WouldBlock) if !must_not_wait(fd, 0) => {}
            moved => return moved,
        }
    }
}

/// Whether nothing more comes, as the peer or the program has said.
fn has_ended(socket: &Socket) -> bool {
    socket.halves().has_peer_ended() || socket.halves().shut().0
}

/// Copies at most `most` bytes from the receive stream to the pipe, which can be written to.
fn copy_out(socket: &Socket, pipe: Pipe, most: usize) -> Result<usize, SocketError> {
    pipes::note_bytes(pipe.fd);
    let mut bytes = vec![0; most.min(MOST_OUT)];
    let mut done = 0;
    while done < bytes.len() && (done == 0 || pipes::is_ready(pipe.fd, PollFlags::OUT)) {
        let end = bytes.len().min(done + room(pipe.fd));
        match socket
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut bytes[done..end])], false)
        {
            Ok(got) => {
                pipes::write_all(pipe.fd, &bytes[done..done + got])?;
                done += got;
                if got == 0 || socket.urgent_data().is_at_mark() {
                    break;
                }
            }
            Err(e) if done != 0 => {
                socket.pending_error().leave(e);
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// How much a pipe that can be written to takes without waiting for its reader, who may be the
/// caller. If there is anything in it, that cannot be told by how much it is: of a page that was
/// read in part nothing is free. There is one page then.
fn room(pipe: c_int) -> usize {
    match pipes::held_in(pipe) {
        0 => rustix::pipe::fcntl_getpipe_size(crate::calls::borrow(pipe)).unwrap_or(PAGE),
        _ => PAGE,
    }
}

/// From the pipe to the send stream.
fn into(
    fd: c_int,
    socket: &Socket,
    pipe: Pipe,
    len: usize,
    more: bool,
) -> Result<usize, SocketError> {
    let place = (pipe.fd, pipe.inode);
    let sent = wait_unless_nonblocking(fd, socket, 0, Way::Out, || {
        pipes::send(place, socket, len, more)
    })?;
    if let Some(sent) = sent {
        return Ok(sent);
    }
    if pipe.no_wait && !pipes::is_ready(pipe.fd, PollFlags::IN) {
        return Err(SocketError::WouldBlock);
    }
    // Wait for the pipe first, so that the stream is not held up by it.
    let source = crate::calls::borrow(pipe.fd);
    pipes::wait_until(pipe.fd, PollFlags::IN)?;
    let held = pipes::held_in(pipe.fd);
    if held == 0 {
        // The end of the pipe.
        return match rustix::io::read(source, &mut [0u8; 0]) {
            Err(e) => Err(SocketError::Refused(e)),
            Ok(_) => Ok(0),
        };
    }
    let most = len.min(held);
    let mut prepared = wait_unless_nonblocking(fd, socket, 0, Way::Out, || {
        socket.send_stream().prepare(most)
    })?;
    let mut moved = 0;
    for piece in prepared.pieces() {
        let piece = piece?;
        match rustix::io::read(source, &mut piece[..]) {
            Ok(n) => {
                moved += n;
                if n < piece.len() {
                    break;
                }
            }
            Err(Errno::INTR) if moved == 0 => return Err(SocketError::Interrupted),
            Err(_) if moved != 0 => break,
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    append(socket, prepared, moved, more)?;
    Ok(moved)
}
