//! `splice` between a pipe and a stream. What it takes out of a stream it leaves in the pipe
//! where it lies, if it may (`pipes`), and copies it otherwise. The stream is nobody's while the
//! pipe is read or written: the thread that does that may be held up.

use crate::calls::pipe::prepare;
use crate::calls::{Way, answer, must_not_wait, refused, wait_unless_nonblocking};
use crate::cancel::point;
use crate::pages::page_size;
use crate::pipes::{self, Put};
use crate::signals::{self, within};
use crate::user::Out;
use crate::{fds, real, vectors};
use libc::{c_int, c_uint, size_t, ssize_t};
use longshore_sockets::{Prepared, Socket, SocketError, WaitLimit, is_confined};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::IoSliceMut;

/// Most bytes that go to a pipe at a time: what one holds unless its program has set otherwise.
const MOST_OUT: usize = 64 * 1024;
/// The flags that there are.
const KNOWN: c_uint =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;
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
        point(|| within(|| splice_ours(from, to, (from_at, to_at), len, flags)))
    } else {
        // Elsewhere the pages of a pipe may stay for any time.
        pipes::leave(from);
        pipes::leave(to);
        real::splice(from, from_at, to, to_at, len, flags)
    }
}

/// With the offset of each end, of which none has any.
fn splice_ours(
    from: c_int,
    to: c_int,
    (from_at, to_at): (Out<'_, i64>, Out<'_, i64>),
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    if len == 0 {
        return 0;
    }
    if flags & !KNOWN != 0 {
        return answer(|| Err(refused(libc::EINVAL)));
    }
    let (source, sink) = (fds::engine(from), fds::engine(to));
    let work = || match (&source, &sink) {
        // One end has to be a pipe.
        (Some(_), Some(_)) => Err(refused(libc::EINVAL)),
        (Some(s), None) => {
            let pipe = Pipe::of(to, flags, OFlags::WRONLY)?;
            check_offsets(to_at, from_at)?;
            check_length(len)?;
            out_of(from, s, pipe, len)
        }
        (None, Some(s)) => {
            let pipe = Pipe::of(from, flags, OFlags::RDONLY)?;
            check_offsets(from_at, to_at)?;
            check_length(len)?;
            let more = flags & libc::SPLICE_F_MORE != 0;
            let done = into(to, s, pipe, len, more);
            if done.is_err_and(|e| e.errno() == libc::EPIPE) && !s.is_datagram() {
                signals::broken_pipe();
            }
            done
        }
        (None, None) => Err(refused(libc::EBADF)),
    };
    answer(|| work().map(|n| n as ssize_t))
}

/// Refuses an offset for the pipe, which comes first, or for the socket.
fn check_offsets(of_pipe: Out<'_, i64>, of_socket: Out<'_, i64>) -> Result<(), SocketError> {
    if !of_pipe.is_null() {
        return Err(refused(libc::ESPIPE));
    }
    if !of_socket.is_null() {
        vectors::check(of_socket, size_of::<i64>())?;
        return Err(refused(libc::EINVAL));
    }
    Ok(())
}

/// Refuses what is no length.
fn check_length(len: size_t) -> Result<(), SocketError> {
    match len.cast_signed() {
        0.. => Ok(()),
        _ => Err(refused(libc::EINVAL)),
    }
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
    /// The pipe of this descriptor, which `end` says is to be read or to be written to. Of the other
    /// end a call that waits would wait for ever; one that does not finds nothing there.
    fn of(fd: c_int, flags: c_uint, end: OFlags) -> Result<Self, SocketError> {
        let inode = pipes::inode_of(fd).map_or_else(|| inode_of_pipe(fd), Ok)?;
        let mut no_wait = flags & libc::SPLICE_F_NONBLOCK != 0;
        if !no_wait && let Ok(status) = rustix::fs::fcntl_getfl(crate::calls::borrow(fd)) {
            let mode = status & OFlags::RWMODE;
            if mode != end && mode != OFlags::RDWR {
                return Err(refused(libc::EBADF));
            }
            no_wait = status.contains(OFlags::NONBLOCK);
        }
        Ok(Self { fd, inode, no_wait })
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
        0 => rustix::pipe::fcntl_getpipe_size(crate::calls::borrow(pipe)).unwrap_or(page_size()),
        _ => page_size(),
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

/// Appends what was read, which is not to be lost: if others have filled the stream meanwhile,
/// it waits, whatever the descriptor says.
pub(crate) fn append(
    socket: &Socket,
    mut prepared: Prepared<'_>,
    len: usize,
    more: bool,
) -> Result<(), SocketError> {
    match prepared.append(len, more) {
        Err(SocketError::WouldBlock) => socket.wait(None, WaitLimit::of_call(None), || {
            prepared.append(len, more)
        }),
        other => other,
    }
}
