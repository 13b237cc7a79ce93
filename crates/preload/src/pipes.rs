//! Pipes in which `splice` leaves what a connection has received, for another connection to
//! send: the kernel's pipe holds the very pages that the engine has placed the bytes in, and the
//! shim knows which bytes of which stream they are. So everybody who looks at the pipe finds
//! them there (read, poll, FIONREAD), and `splice` to a connection of the engine has that send
//! them where they lie.
//!
//! The pages must stay as they are until the pipe has let go of them. That is known of a pipe
//! only that this process has made, by `pipe` or `pipe2`, that has its two first descriptors
//! alone, that no other process can have, and that is used for nothing but `read` and `splice`
//! with the engine's sockets ([`MADE`]). Before anything else happens to it ([`leave`],
//! [`leave_all`]), or to the socket ([`leave_socket`]), bytes of the pipe's own take the place
//! of the pages. Called by `splice`, and by all calls that are such a happening.

use crate::results::borrow;
use libc::{c_int, c_uint};
use longshore_hostif::SocketId;
use longshore_sockets::{
    ForkGuard, ForkLock, Forwarded, Host, KeptBytes, MOST_PIECES_KEPT, NotForwarded, OnlyThread,
    Socket, SocketError, is_confined, poll_unless_interrupted,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, ReadWriteFlags, ioctl_fionread, preadv2};
use rustix::pipe::{IoSliceRaw, SpliceFlags, splice, vmsplice};
use rustix::time::Timespec;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

/// Descriptors that are looked at.
const MOST: usize = 1 << 16;

/// For each descriptor of a pipe of which the above is true its inode, and in the lower half
/// one more than the number of its other end, and [`HAS_BYTES`]; 0 for all others.
static MADE: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// Of a writing end: there may be bytes of the pipe's own in it, which `splice` has copied.
const HAS_BYTES: u64 = 1 << 31;
/// One more than the highest number that is there.
static END: AtomicI32 = AtomicI32::new(0);

/// What lies in pipes.
static REFERENCES: LazyLock<ForkLock<Vec<Reference>>> = LazyLock::new(ForkLock::default);
/// Whether anything does.
static ANY: AtomicBool = AtomicBool::new(false);

/// The place in a file without places.
const HERE: u64 = u64::MAX;

/// Where bytes go that nobody wants.
static NOWHERE: OnceLock<Option<OwnedFd>> = OnceLock::new();

/// The two descriptors of a pipe.
#[derive(Debug, Clone, Copy)]
struct Pipe {
    inode: u64,
    reader: c_int,
    writer: c_int,
}

/// Bytes of a stream that lie in a pipe.
struct Reference {
    pipe: Pipe,
    host: &'static Host,
    kept: KeptBytes,
}

/// What came of an attempt to leave bytes in a pipe.
pub(crate) enum Put {
    /// So many lie there.
    Bytes(usize),
    /// It has no room.
    Full,
    /// They are to be copied.
    Copy,
}

fn word(inode: u64, other: c_int) -> u64 {
    inode << 32 | (other as u64 + 1)
}

fn made(fd: c_int) -> Option<(u64, c_int)> {
    let word = MADE.get(usize::try_from(fd).ok()?)?.load(Ordering::Relaxed);
    let other = word & (HAS_BYTES - 1);
    (word != 0).then(|| (word >> 32, other as c_int - 1))
}

/// The inode of a pipe of this process's that may hold pages, of which `fd` is an end: nothing
/// has happened to its descriptors since they were made, so the kernel need not be asked.
#[inline]
pub(crate) fn inode_of(fd: c_int) -> Option<u64> {
    made(fd).map(|(inode, _)| inode)
}

/// Bytes are about to be copied to the pipe of which `writer` is the writing end.
pub(crate) fn note_bytes(writer: c_int) {
    set_has_bytes(writer, true);
}

fn set_has_bytes(writer: c_int, has: bool) {
    let bit = if has { HAS_BYTES } else { 0 };
    let set = |word| (word != 0).then_some(word & !HAS_BYTES | bit);
    if let Some(word) = usize::try_from(writer).ok().and_then(|fd| MADE.get(fd)) {
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
    }
}

/// Whether a pipe that may hold pages, and in which none are known of, is empty. The kernel is
/// asked only if bytes were copied to it. Should it have others, as nobody knows of, they come
/// before the pages, and [`send`] finds that it has more than those.
fn is_empty(writer: c_int) -> bool {
    let word = MADE.get(writer as usize);
    let has = word.is_some_and(|word| word.load(Ordering::Relaxed) & HAS_BYTES != 0);
    if has && held_in(writer) == 0 {
        set_has_bytes(writer, false);
        return true;
    }
    !has
}

fn is_pipe(fd: c_int, inode: u64) -> bool {
    fstat(borrow(fd)).is_ok_and(|stat| stat.st_ino == inode)
}

/// This process has made a pipe.
pub(crate) fn note_made(reader: c_int, writer: c_int) {
    let places = (MADE.get(reader as usize), MADE.get(writer as usize));
    let (Some(of_reader), Some(of_writer)) = places else {
        return;
    };
    let inode = fstat(borrow(reader)).map_or(0, |stat| stat.st_ino);
    if inode != 0 && inode <= u64::from(u32::MAX) {
        of_reader.store(word(inode, writer), Ordering::Relaxed);
        of_writer.store(word(inode, reader), Ordering::Relaxed);
        END.fetch_max(reader.max(writer) + 1, Ordering::Relaxed);
    }
}

/// Something happens to this descriptor for which its pipe must have bytes, now and from now
/// on, if it is one.
#[inline]
pub(crate) fn leave(fd: c_int) {
    if made(fd).is_some() {
        leave_pipe(fd);
    }
}

#[cold]
fn leave_pipe(fd: c_int) {
    crate::signals::within(|| {
        let Some((inode, other)) = made(fd) else {
            return;
        };
        if let Ok(mut all) = REFERENCES.enter() {
            replace(&mut all, |r| r.pipe.inode == inode);
        }
        for fd in [fd, other] {
            MADE[fd as usize].store(0, Ordering::Relaxed);
        }
    });
}

/// Does as [`leave`] for all from one descriptor to another, which are closed.
pub(crate) fn leave_range(first: c_uint, last: c_uint) {
    let end = END.load(Ordering::Relaxed) as c_uint;
    for fd in first..end.min(last.saturating_add(1)) {
        leave(fd as c_int);
    }
}

/// Does as [`leave`] for all: another process may have them from now on.
pub(crate) fn leave_all() {
    let end = END.swap(0, Ordering::Relaxed);
    if end != 0 || ANY.load(Ordering::Relaxed) {
        crate::signals::within(|| {
            for word in &MADE[..end as usize] {
                word.store(0, Ordering::Relaxed);
            }
            if let Ok(mut all) = REFERENCES.enter() {
                replace(&mut all, |_| true);
            }
        });
    }
}

/// This process lets go of a descriptor of this socket, or shares it.
#[inline]
pub(crate) fn leave_socket(id: SocketId) {
    if ANY.load(Ordering::Relaxed) {
        crate::signals::within(|| {
            if let Ok(mut all) = REFERENCES.enter() {
                replace(&mut all, |r| r.kept.socket() == id);
            }
        });
    }
}

/// While it lives, nothing is left in pipes.
pub(crate) struct Stopped(
    #[expect(dead_code, reason = "a lock")] ForkGuard<'static, Vec<Reference>>,
);

/// Before a fork: what it returns is to live until after it.
pub(crate) fn before_fork() -> Option<Stopped> {
    leave_all();
    REFERENCES.enter().ok().map(Stopped)
}

/// In a child that was made without our knowing: nothing of its parent's is its own.
pub(crate) fn begin_anew(only: &OnlyThread) {
    REFERENCES.replace(only, Vec::new());
    ANY.store(false, Ordering::Relaxed);
    for word in &MADE[..END.swap(0, Ordering::Relaxed) as usize] {
        word.store(0, Ordering::Relaxed);
    }
}

/// Has a place where unwanted bytes go, which `open` opens.
pub(crate) fn prepare(open: impl FnOnce() -> Option<OwnedFd>) {
    NOWHERE.get_or_init(open);
}

/// Bytes in a pipe.
pub(crate) fn held_in(fd: c_int) -> usize {
    ioctl_fionread(borrow(fd)).map_or(0, |held| held as usize)
}

/// Takes `len` bytes out of a pipe that has them, for nobody.
fn throw_away(reader: c_int, len: usize) -> Result<(), SocketError> {
    let Some(Some(nowhere)) = NOWHERE.get() else {
        return read_out(reader, len).map(drop);
    };
    let mut left = len;
    while left != 0 {
        let flags = SpliceFlags::NONBLOCK;
        match splice(borrow(reader), None, nowhere, None, left, flags) {
            Ok(0) => return Err(SocketError::Broken),
            Ok(n) => left -= n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    Ok(())
}

/// Reads `len` bytes of a pipe that has them, or fewer if another thread reads them meanwhile: it
/// does not wait for others.
fn read_out(reader: c_int, len: usize) -> Result<Vec<u8>, SocketError> {
    let (mut bytes, mut read) = (vec![0; len], 0);
    let mut flags = ReadWriteFlags::NOWAIT;
    while read < len {
        let mut part = [IoSliceMut::new(&mut bytes[read..])];
        match preadv2(borrow(reader), &mut part, HERE, flags) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(n) => read += n,
            Err(Errno::INTR) => {}
            // Linux before 6.4.
            Err(Errno::OPNOTSUPP) if !flags.is_empty() => flags = ReadWriteFlags::empty(),
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// Writes all of it: it is nobody's otherwise. Others may have filled the pipe since there was
/// room, and then this waits for its reader.
pub(crate) fn write_all(writer: c_int, mut bytes: &[u8]) -> Result<(), SocketError> {
    while !bytes.is_empty() {
        match rustix::io::write(borrow(writer), bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => drop(wait_until(writer, PollFlags::OUT)),
            Err(e) => return Err(SocketError::Refused(e)),
        }
    }
    Ok(())
}

/// Whether a pipe can be read or written at once.
pub(crate) fn is_ready(fd: c_int, events: PollFlags) -> bool {
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let fd = borrow(fd);
    poll(&mut [PollFd::new(&fd, events)], Some(&at_once)).is_ok_and(|n| n != 0)
}

/// Waits until a pipe can be read or written; a handler ends that.
pub(crate) fn wait_until(fd: c_int, events: PollFlags) -> Result<(), SocketError> {
    let fd = borrow(fd);
    match poll_unless_interrupted(&mut [PollFd::new(&fd, events)], None) {
        Err(Errno::INTR) => Err(SocketError::Restarts),
        _ => Ok(()),
    }
}

/// Puts the pages of pieces of memory into a pipe; says how many bytes it has room for.
fn put_pages(writer: c_int, pieces: &[&[u8]]) -> Result<usize, SocketError> {
    let parts: [IoSliceRaw<'_>; MOST_PIECES_KEPT] =
        std::array::from_fn(|i| IoSliceRaw::from_slice(pieces.get(i).copied().unwrap_or_default()));
    let parts = &parts[..pieces.len().min(parts.len())];
    // SAFETY: the pages stay as they are as long as the pipe has them, which is what this file
    // is about.
    match unsafe { vmsplice(borrow(writer), parts, SpliceFlags::NONBLOCK) } {
        Ok(n) => Ok(n),
        Err(Errno::AGAIN) => Ok(0),
        Err(e) => Err(SocketError::Refused(e)),
    }
}

/// Puts bytes of the pipes' own in the place of pages.
#[cold]
fn replace(all: &mut Vec<Reference>, which: impl Fn(&Reference) -> bool) {
    for mut reference in all.extract_if(.., |reference| which(reference)) {
        let Pipe {
            inode,
            reader,
            writer,
        } = reference.pipe;
        // What nobody can read any more is gone.
        if is_pipe(reader, inode) && is_pipe(writer, inode) {
            note_bytes(writer);
            let copied =
                read_out(reader, held_in(reader)).and_then(|bytes| write_all(writer, &bytes));
            debug_assert!(copied.is_ok(), "{copied:?}");
        }
        let len = reference.kept.len();
        reference.give_back(len);
    }
    ANY.store(!all.is_empty(), Ordering::Relaxed);
}

impl Reference {
    fn give_back(&mut self, len: usize) {
        if let Some(socket) = self.host.sockets().acquire(self.kept.socket()) {
            let _ = socket.keeping().give_back(&mut self.kept, len);
        }
    }

    /// Notes what was read of the pipe. Whether all else that is in it is what lies here.
    fn note_read(&mut self) -> bool {
        let (held, kept) = (held_in(self.pipe.reader), self.kept.len());
        if held < kept {
            self.give_back(kept - held);
        }
        held <= kept
    }
}

/// The pipe of which `writer` is the writing end, if it may hold pages.
pub(crate) fn takes(writer: c_int, inode: u64) -> bool {
    !is_confined() && made(writer).is_some_and(|(of, _)| of == inode)
}

/// Leaves at most `len` bytes that `socket` has received in a pipe that takes them.
///
/// # Errors
/// As [`Keeping::take`](longshore_sockets::Keeping::take).
pub(crate) fn put(writer: c_int, socket: &Socket, len: usize) -> Result<Put, SocketError> {
    let mut all = REFERENCES.enter()?;
    let Some((inode, reader)) = made(writer).filter(|_| socket.keeping().is_possible()) else {
        return Ok(Put::Copy);
    };
    let there = all.iter().position(|r| r.pipe.inode == inode);
    let is_ours = match there {
        Some(at) => all[at].note_read(),
        None => is_empty(writer),
    };
    let mut put = Ok(None);
    if is_ours {
        let there = there.map(|at| all.swap_remove(at).kept);
        let mut kept = there.filter(|kept| !kept.is_empty());
        put = socket
            .keeping()
            .take(&mut kept, len, |pieces| put_pages(writer, pieces));
        let pipe = Pipe {
            inode,
            reader,
            writer,
        };
        let host = socket.host();
        all.extend(kept.map(|kept| Reference { pipe, host, kept }));
    }
    if matches!(put, Ok(None)) {
        // What is copied instead comes behind.
        note_bytes(writer);
        replace(&mut all, |r| r.pipe.inode == inode);
    }
    ANY.store(!all.is_empty(), Ordering::Relaxed);
    Ok(match put? {
        None => Put::Copy,
        Some(0) => Put::Full,
        Some(n) => Put::Bytes(n),
    })
}

/// Has `sink` send at most `len` of what lies in a pipe. `None` if that has bytes.
///
/// # Errors
/// As [`Forwarding::forward_kept`](longshore_sockets::Forwarding::forward_kept).
pub(crate) fn send(
    (reader, inode): (c_int, u64),
    sink: &Socket,
    len: usize,
    more: bool,
) -> Result<Option<usize>, SocketError> {
    if !ANY.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut all = REFERENCES.enter()?;
    let Some(at) = all.iter().position(|r| r.pipe.inode == inode) else {
        return Ok(None);
    };
    let reference = &mut all[at];
    let source = reference.host.sockets().acquire(reference.kept.socket());
    let sent = match source.filter(|_| reference.note_read()) {
        Some(source) => {
            let forwarding = source.forwarding(sink);
            forwarding.forward_kept(&mut reference.kept, (len, more), |len| {
                throw_away(reader, len)
            })?
        }
        None => Forwarded::Copy(NotForwarded::Kind),
    };
    match sent {
        Forwarded::Bytes(sent) => {
            all.retain(|reference| !reference.kept.is_empty());
            ANY.store(!all.is_empty(), Ordering::Relaxed);
            Ok(Some(sent))
        }
        Forwarded::Copy(_) => {
            replace(&mut all, |r| r.pipe.inode == inode);
            Ok(None)
        }
    }
}
