//! `sendfile`: the file is read straight into memory of which the send stream is made; or the
//! engine gets the range of it that is to be sent, and nothing is read here.

use crate::calls::send::kernels_send;
use crate::calls::splice::{append, splice};
use crate::calls::{
    Way, answer, errno, must_not_wait, refused, wait_limit, wait_unless_nonblocking,
};
use crate::cancel::held;
use crate::pages::page_size;
use crate::signals::within;
use crate::user::{In, Out};
use crate::{fds, kernel, pipes, real, signals, vectors};
use libc::{c_int, off_t, size_t, ssize_t};
use longshore_hostif::{CHUNK, FileId};
use longshore_sockets::{
    Appended, Departure, MOST_PIECES_IN_PLACE, MOST_PREPARED, Prepared, SharedFile, Socket,
    SocketError, WaitLimit, is_confined,
};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU32, Ordering};

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
        pipes::leave(out);
        return kernels_send(out, || real::sendfile(out, from, offset, count));
    }
    let has_length = count.cast_signed() >= 0;
    if offset.is_null() && has_length && fds::is_engines(from) && is_pipe(out) {
        return to_pipe(out, from, count);
    }
    // It is no cancellation point.
    let send = || answer(|| held(|| send_from(out, from, offset, count)));
    let mut sent = send();
    while sent < 0 && signals::is_to_restart() {
        sent = send();
    }
    if sent < 0 && errno() == libc::EPIPE && !is_datagram(out) {
        signals::broken_pipe();
    }
    sent
}

/// `sendfile` from a socket to a pipe, which is `splice` (since Linux 5.12). A descriptor that is
/// set to O_NONBLOCK does not wait.
fn to_pipe(out: c_int, from: c_int, count: usize) -> ssize_t {
    let waits = within(|| !must_not_wait(from, 0));
    let flags = if waits { 0 } else { libc::SPLICE_F_NONBLOCK };
    let nowhere = || Out::null();
    splice(from, nowhere(), out, nowhere(), count, flags)
}

/// Whether a descriptor is the end of a pipe that is written to.
fn is_pipe(fd: c_int) -> bool {
    rustix::fs::fstat(crate::calls::borrow(fd))
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
        && why_not_to(fd).is_none()
}

/// Whether it is a datagram socket of the engine, which is no pipe.
fn is_datagram(fd: c_int) -> bool {
    fds::engine(fd).is_some_and(|socket| socket.is_datagram())
}

/// `sendfile` with a socket of the engine at one end at least.
fn send_from(
    out: c_int,
    from: c_int,
    offset: Out<'_, off_t>,
    count: usize,
) -> Result<ssize_t, SocketError> {
    if !offset.is_null() {
        vectors::check_room(offset, size_of::<off_t>())?;
    }
    if fds::is_engines(from) {
        // A socket is no file, and has no places.
        let place = (!offset.is_null()).then_some(libc::ESPIPE);
        let length = (count.cast_signed() < 0).then_some(libc::EINVAL);
        let why = place.or(length).or_else(|| why_not_to(out));
        return Err(refused(why.unwrap_or(libc::EINVAL)));
    }
    if offset.is_null() && !is_file(from)? {
        return Err(refused(libc::EINVAL));
    }
    let socket = fds::engine_or_closed(out)?;
    let mut at = offset.get();
    let sent = if count.cast_signed() < 0 {
        Err(refused(libc::EINVAL))
    } else if socket.is_datagram() {
        send_as_datagram(out, &socket, from, &mut at, count)
    } else {
        send_file(out, &socket, from, &mut at, count)
    };
    let sent = sent.or_else(|error| match error {
        SocketError::WouldBlock | SocketError::TimedOut | SocketError::Restarts => Err(error),
        error => instead(error, from, offset.get()),
    });
    if let Some(at) = at {
        offset.put(at);
    }
    sent.map(|n| n as ssize_t)
}

/// Why nothing can be written to a descriptor, which is asked before what it would be.
fn why_not_to(out: c_int) -> Option<c_int> {
    let flags = rustix::fs::fcntl_getfl(crate::calls::borrow(out)).ok();
    let is_written = |flags: OFlags| flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    (!flags.is_some_and(is_written)).then_some(libc::EBADF)
}

/// What a call gives whose socket takes nothing: what is wrong with the file comes before, and of a
/// file that ends there nothing is sent, which any socket takes.
fn instead(error: SocketError, from: c_int, at: Option<off_t>) -> Result<usize, SocketError> {
    if !is_readable(from) {
        return Err(refused(libc::EBADF));
    }
    let file = crate::calls::borrow(from);
    let here = rustix::fs::tell(file).map_err(SocketError::Refused)?;
    let begin = match at.map(u64::try_from) {
        None => here,
        Some(at) => at.map_err(|_| refused(libc::EINVAL))?,
    };
    if error == refused(libc::EINVAL) {
        return Err(error);
    }
    let mut byte = [0];
    let mut to = [IoSliceMut::new(&mut byte)];
    match preadv2(file, &mut to, begin, ReadWriteFlags::NOWAIT) {
        Ok(0) => Ok(0),
        _ => Err(error),
    }
}

/// Whether a descriptor is one that may be sent from, from where it stands: what is read of a pipe,
/// or of an event counter, would be lost if it could not be sent.
fn is_file(fd: c_int) -> Result<bool, SocketError> {
    let stat = rustix::fs::fstat(crate::calls::borrow(fd)).map_err(SocketError::Refused)?;
    Ok(matches!(
        FileType::from_raw_mode(stat.st_mode),
        FileType::RegularFile | FileType::BlockDevice | FileType::CharacterDevice
    ))
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

/// Sends a datagram of as much of the file as there is, of `count` bytes: as Linux has it, which
/// reads no more at a time than this, and that is no datagram any more. Where the file is read
/// moves if it has gone.
fn send_as_datagram(
    out: c_int,
    socket: &Socket,
    from: c_int,
    at: &mut Option<off_t>,
    count: usize,
) -> Result<usize, SocketError> {
    const MOST_READ: usize = 1 << 16;
    let file = crate::calls::borrow(from);
    let mut bytes = vec![0; count.min(MOST_READ)];
    let own = at.is_none();
    let begin = match *at {
        Some(at) => at,
        None => rustix::fs::tell(file).map_err(SocketError::Refused)? as off_t,
    };
    let mut end = Some(begin);
    let read = read_file(from, &mut [IoSliceMut::new(&mut bytes)], &mut end)?;
    if read == 0 {
        return Ok(0);
    }
    wait_unless_nonblocking(out, socket, 0, Way::Out, || {
        socket
            .datagrams()
            .send(&[IoSlice::new(&bytes[..read])], None, Departure::default())
    })?;
    if own {
        let to = rustix::fs::SeekFrom::Start((begin + read as off_t) as u64);
        rustix::fs::seek(file, to).map_err(SocketError::Refused)?;
    } else {
        *at = end;
    }
    Ok(read)
}

fn send_file(
    out: c_int,
    socket: &Socket,
    from: c_int,
    at: &mut Option<off_t>,
    count: usize,
) -> Result<usize, SocketError> {
    let mut sent = 0;
    let mut limit = None;
    let file = at.and_then(|at| share(socket, from, at, count));
    while sent < count {
        let mut step = count - sent;
        if let (Some((file, end)), Some(at)) = (&file, &mut *at) {
            let left = end.saturating_sub(*at as u64).min(step as u64) as usize;
            match append_range(out, socket, (file, *at as u64, left), &mut limit) {
                Ok(Appended::Bytes(n)) => {
                    sent += n;
                    *at += n as off_t;
                    continue;
                }
                Ok(Appended::Copy(n)) => step = step.min(n),
                Err(_) if sent != 0 => break,
                Err(e) => return Err(e),
            }
        }
        match append_in_place(socket, from, at, step) {
            Ok(Some(n)) => {
                sent += n;
                continue;
            }
            Ok(None) | Err(SocketError::WouldBlock) => {}
            Err(_) if sent != 0 => break,
            Err(e) => return Err(e),
        }
        let prepared = with_room(out, socket, &mut limit, || {
            socket.send_stream().prepare(step)
        });
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

/// The file, if ranges of it may be appended from `at` on, by a call for `count` bytes, and
/// where in it they end: a regular one, of which all that is asked for is in the page cache, so
/// that the engine does not wait for a disk.
fn share(socket: &Socket, from: c_int, at: off_t, count: usize) -> Option<(SharedFile, u64)> {
    if is_confined() || !socket.send_stream().takes_files(count as u64) {
        return None;
    }
    let fd = crate::calls::borrow(from);
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let left = stat.st_size.checked_sub(at)?;
    let len = u64::try_from(left).ok()?.min(count as u64);
    // One that is in no directory any more is let go of when the program closes it.
    if !is_regular || len == 0 || stat.st_nlink == 0 || at < 0 {
        return None;
    }
    if !is_readable_at_once(from, at as u64, len) {
        return None;
    }
    let id = FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    let file = socket.send_stream().share_file(id, len, || {
        let path = format!("/proc/self/fd/{from}");
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(path, flags, Mode::empty()).ok()
    })?;
    let end = file.len().min(at as u64 + len);
    Some((file, end))
}

/// Calls of `sendfile` by this process that do not ask for the page cache's state yet, as it
/// was refused.
static NOT_ASKED: Pause = Pause(AtomicU32::new(0));

/// A server whose files are another's, as a worker of nginx, is refused each time; one with
/// files of both kinds asks often enough.
const NOT_ASKED_FOR: u32 = 256;

/// How often something is left out.
struct Pause(AtomicU32);

impl Pause {
    /// Whether it is left out this time.
    fn passes(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
            .is_ok()
    }

    fn begin(&self) {
        self.0.store(NOT_ASKED_FOR, Ordering::Relaxed);
    }
}

/// Whether the descriptor may be read from, and these bytes of its file are in the page cache,
/// as far as the kernel says so: to one that may not write to the file it says nothing, nor
/// does it before Linux 6.5. Then a byte is read here and there, as a file is read in larger
/// pieces than that.
fn is_readable_at_once(fd: c_int, at: u64, len: u64) -> bool {
    if !NOT_ASKED.passes() {
        match pages_resident(fd, at, len) {
            Some(found) => {
                let page = page_size() as u64;
                let pages = (at + len).div_ceil(page) - at / page;
                return found >= pages && is_readable(fd);
            }
            None => NOT_ASKED.begin(),
        }
    }
    let is_there = |at: u64| {
        let mut byte = [0];
        let mut to = [IoSliceMut::new(&mut byte)];
        let file = crate::calls::borrow(fd);
        preadv2(file, &mut to, at, ReadWriteFlags::NOWAIT).is_ok_and(|n| n == 1)
    };
    let mut looked_at = (at..at + len).step_by(CHUNK).chain(Some(at + len - 1));
    looked_at.all(is_there)
}

/// How many pages of a range of a file are in the page cache, if the kernel says so.
fn pages_resident(fd: c_int, at: u64, len: u64) -> Option<u64> {
    let mut found = [0u64; 5];
    let failed = kernel::cachestat(fd, In::from(&[at, len]), Out::from(&mut found), 0);
    (failed == 0).then_some(found[0])
}

/// Whether the descriptor was opened for reading.
fn is_readable(fd: c_int) -> bool {
    rustix::fs::fcntl_getfl(crate::calls::borrow(fd))
        .is_ok_and(|mode| mode & OFlags::ACCMODE != OFlags::WRONLY && !mode.contains(OFlags::PATH))
}

/// Appends a range, if any is left of the file that may be appended.
fn append_range(
    out: c_int,
    socket: &Socket,
    (file, at, left): (&SharedFile, u64, usize),
    limit: &mut Option<WaitLimit>,
) -> Result<Appended, SocketError> {
    if left == 0 {
        return Ok(Appended::Copy(usize::MAX));
    }
    with_room(out, socket, limit, || {
        socket.send_stream().append_range(file, at, left, false)
    })
}

/// Tries, and waits for room in the send stream as long as the socket's calls do: a call of
/// `sendfile` has one `limit`, from its first wait on.
fn with_room<T>(
    out: c_int,
    socket: &Socket,
    limit: &mut Option<WaitLimit>,
    mut attempt: impl FnMut() -> Result<T, SocketError>,
) -> Result<T, SocketError> {
    match attempt() {
        Err(SocketError::WouldBlock) if !must_not_wait(out, 0) => {
            let limit = *limit.get_or_insert_with(|| wait_limit(socket, Way::Out));
            socket.wait(None, limit, attempt)
        }
        other => other,
    }
}

/// Reads at most `most` bytes of the file to the end of the stream itself, if the kernel has them
/// at hand; `None` if they are to be prepared, or there are none.
fn append_in_place(
    socket: &Socket,
    from: c_int,
    at: &mut Option<off_t>,
    most: usize,
) -> Result<Option<usize>, SocketError> {
    // An offset of -1 would be taken for the file's own.
    if is_confined() || at.is_some_and(|at| at < 0) {
        return Ok(None);
    }
    socket.send_stream().append_in_place(most, |reserved| {
        let mut pieces: [IoSliceMut<'_>; MOST_PIECES_IN_PLACE] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let (len, mut used) = (reserved.len(), 0);
        for (slot, piece) in pieces.iter_mut().zip(reserved.pieces(0, len)) {
            *slot = IoSliceMut::new(piece.ok()?);
            used += 1;
        }
        let offset = at.map_or(u64::MAX, |at| at as u64);
        let file = crate::calls::borrow(from);
        let read = preadv2(file, &mut pieces[..used], offset, ReadWriteFlags::NOWAIT).ok()?;
        if let Some(at) = at {
            *at += read as off_t;
        }
        Some(read)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_asked_for_again_later() {
        let pause = Pause(AtomicU32::new(0));
        assert!(!pause.passes());
        pause.begin();
        let passed = (0..1_000).take_while(|_| pause.passes()).count();
        assert_eq!(passed, NOT_ASKED_FOR as usize);
        assert!(!pause.passes());
    }
}
