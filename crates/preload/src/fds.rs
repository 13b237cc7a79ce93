//! This program's table of descriptors. What follows when one is closed, replaced or duplicated
//! is in `lifecycle`.

use crate::log::once;
use crate::place;
use longshore_hostif::SocketId;
use longshore_posix::descriptors::{Descriptors, MOST};
pub(crate) use longshore_posix::descriptors::{Entry, Undecided};
use longshore_sockets::{Map, Socket, SocketError};
use std::os::fd::RawFd;
use std::sync::OnceLock;

static TABLE: Descriptors = Descriptors::new();

/// Says what an undecided socket is by now that another process may have decided about.
type Look = fn(RawFd, Undecided) -> Entry;
static LOOK: OnceLock<Look> = OnceLock::new();

/// Says what has taken the place of a socket in another process.
type Follow = fn(RawFd, Socket) -> Socket;
static FOLLOW: OnceLock<Follow> = OnceLock::new();

/// What another process has put in the place of a socket is asked of `follow` from now on.
pub(crate) fn replaced_are_known_by(follow: Follow) {
    let _ = FOLLOW.set(follow);
}

/// What is undecided and another process has, too, is asked of `look` from now on.
pub(crate) fn shared_are_known_by(look: Look) {
    let _ = LOOK.set(look);
}

/// What `fd` is.
#[inline]
pub(crate) fn get(fd: RawFd) -> Entry {
    match TABLE.get(fd) {
        Entry::Undecided(undecided) if undecided.shared => match LOOK.get() {
            Some(look) => look(fd, undecided),
            None => Entry::Undecided(undecided),
        },
        entry => entry,
    }
}

/// Whether `fd` is nothing of ours.
#[inline]
pub(crate) fn is_kernels(fd: RawFd) -> bool {
    TABLE.is_kernels(fd)
}

/// Whether any descriptor is a socket of the engine.
pub(crate) fn are_engines() -> bool {
    TABLE
        .all()
        .any(|(_, entry)| matches!(entry, Entry::Engine(_)))
}

/// Whether `fd` is a socket of the engine.
#[inline]
pub(crate) fn is_engines(fd: RawFd) -> bool {
    TABLE.is_engines(fd) || is_engines_by_another(fd)
}

/// Whether `fd` was undecided, and another process has made it a socket of the engine.
#[inline]
fn is_engines_by_another(fd: RawFd) -> bool {
    TABLE.is_shared_undecided(fd) && matches!(get(fd), Entry::Engine(_))
}

/// From now on, another process has all sockets that are undecided, and may decide.
pub(crate) fn share_undecided() {
    TABLE.share_undecided();
}

/// From now on, another process has the socket that `fd` is if it is undecided, under all its
/// descriptors, and may decide.
pub(crate) fn share(fd: RawFd) {
    change_undecided(fd, |undecided| Undecided {
        shared: true,
        ..undecided
    });
}

/// Sets what `fd` is; returns what it was. A number for which the table has no room stays
/// the kernel's.
pub(crate) fn put(fd: RawFd, entry: Entry) -> Entry {
    let before = TABLE.put(fd, entry);
    if before.is_none() && entry != Entry::Kernel {
        once!(
            Warn,
            Numbers,
            "descriptor {fd} is above {MOST}: its socket stays the kernel's"
        );
    }
    before.unwrap_or(Entry::Kernel)
}

/// Whether the table has room for `fd`.
pub(crate) fn has_room_for(fd: RawFd) -> bool {
    TABLE.has_room_for(fd)
}

/// Changes an undecided entry, if it is still what it was.
pub(crate) fn update(fd: RawFd, from: Undecided, to: Entry) -> bool {
    TABLE.update(fd, from, to)
}

/// Changes an entry, if it is still what it was; says whether it was.
pub(crate) fn change(fd: RawFd, from: Entry, to: Entry) -> bool {
    TABLE.change(fd, from, to)
}

/// Changes what is known of an undecided socket, under all its descriptors; nothing if `fd` is none.
pub(crate) fn change_undecided(fd: RawFd, change: impl Fn(Undecided) -> Undecided) {
    let Entry::Undecided(undecided) = get(fd) else {
        return;
    };
    change_one(fd, undecided, &change);
    if undecided.duplicated {
        let others = all().filter(|(other, _)| *other != fd);
        others.for_each(|(other, _)| change_one(other, undecided, &change));
    }
}

/// Changes what is known of the undecided socket `of` under one descriptor, if it is that.
fn change_one(fd: RawFd, of: Undecided, change: impl Fn(Undecided) -> Undecided) {
    while let Entry::Undecided(before) = get(fd)
        && before.number == of.number
    {
        if update(fd, before, Entry::Undecided(change(before))) {
            return;
        }
    }
}

/// A use of the engine's socket that `fd` is, if it is one.
#[inline]
pub(crate) fn engine(fd: RawFd) -> Option<Socket> {
    let id = match TABLE.engines(fd) {
        Some(id) => id,
        None if is_engines_by_another(fd) => TABLE.engines(fd)?,
        None => return None,
    };
    let socket = place::attached()?.sockets().acquire(id)?;
    if socket.is_replaced() {
        return Some(follow(fd, socket));
    }
    Some(socket)
}

#[cold]
fn follow(fd: RawFd, socket: Socket) -> Socket {
    match FOLLOW.get() {
        Some(follow) => follow(fd, socket),
        None => socket,
    }
}

/// Whether `fd` stands for this socket of the engine.
pub(crate) fn is_of(fd: RawFd, id: SocketId) -> bool {
    TABLE.engines(fd) == Some(id)
}

/// As `engine`, in a call on what was the engine's socket when it began.
///
/// # Errors
/// EBADF if it is closed by now.
pub(crate) fn engine_or_closed(fd: RawFd) -> Result<Socket, SocketError> {
    engine(fd).ok_or(crate::results::refused(libc::EBADF))
}

/// Notes that an undecided socket has more than one descriptor; what both are then, or
/// `None` if `fd` is no undecided socket.
pub(crate) fn duplicate_undecided(fd: RawFd) -> Option<Entry> {
    TABLE.duplicate_undecided(fd)
}

/// One more than the highest number that is of interest.
pub(crate) fn end() -> RawFd {
    TABLE.end()
}

/// All descriptors that are ours, of any kind.
pub(crate) fn all() -> impl Iterator<Item = (RawFd, Entry)> {
    TABLE.all()
}

/// Those of the engine's sockets all of whose descriptors `exec` closes, but for what
/// `keeps` says of a descriptor.
pub(crate) fn closed_by_exec(keeps: impl Fn(RawFd) -> bool) -> Vec<SocketId> {
    TABLE.closed_if(|fd| {
        let flags = rustix::io::fcntl_getfd(crate::results::borrow(fd));
        flags.is_ok_and(|f| f.contains(rustix::io::FdFlags::CLOEXEC)) && !keeps(fd)
    })
}

/// How many descriptors each of the engine's sockets has.
pub(crate) fn counts() -> Map<SocketId, u32> {
    TABLE.counts()
}
