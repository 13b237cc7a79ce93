//! This program's table of descriptors, and what follows when one is closed, replaced or
//! duplicated.

use crate::log::once;
use crate::{pipes, state};
use longshore_hostif::SocketId;
use longshore_posix::descriptors::{Descriptors, MOST};
pub(crate) use longshore_posix::descriptors::{Entry, Undecided};
use longshore_sockets::{Socket, SocketError};
use std::collections::HashMap;
use std::os::fd::RawFd;

static TABLE: Descriptors = Descriptors::new();

/// What `fd` is.
#[inline]
pub(crate) fn get(fd: RawFd) -> Entry {
    TABLE.get(fd)
}

/// Whether `fd` is nothing of ours.
#[inline]
pub(crate) fn is_kernels(fd: RawFd) -> bool {
    TABLE.is_kernels(fd)
}

/// Whether `fd` is a socket of the engine.
#[inline]
pub(crate) fn is_engines(fd: RawFd) -> bool {
    TABLE.is_engines(fd)
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

/// A use of the engine's socket that `fd` is, if it is one.
#[inline]
pub(crate) fn engine(fd: RawFd) -> Option<Socket> {
    let id = TABLE.engines(fd)?;
    state::attached()?.acquire(id)
}

/// The same, in a call on what was the engine's socket when it began.
///
/// # Errors
/// EBADF if it is closed by now.
pub(crate) fn engine_or_closed(fd: RawFd) -> Result<Socket, SocketError> {
    engine(fd).ok_or(crate::results::refused(libc::EBADF))
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
pub(crate) fn counts() -> HashMap<SocketId, u32> {
    TABLE.counts()
}

/// Notes that `to` is a duplicate of `from` from now on, and gives up what `to`
/// was.
pub(crate) fn duplicate(from: RawFd, to: RawFd) {
    let entry = match get(from) {
        Entry::Engine(id) => match engine(from) {
            Some(socket) => {
                let _ = socket.into_use();
                Entry::Engine(id)
            }
            None => Entry::Kernel,
        },
        Entry::Undecided(_) => TABLE.duplicate_undecided(from).unwrap_or(Entry::Kernel),
        Entry::Epoll(number) => {
            crate::calls::epoll::another_descriptor(number);
            Entry::Epoll(number)
        }
        Entry::Kept | Entry::Kernel => Entry::Kernel,
    };
    let before = put(to, entry);
    if matches!(entry, Entry::Engine(_)) && !has_room_for(to) {
        give_up(to, entry);
    }
    give_up(to, before);
}

/// Lets go of what a descriptor was that is closed or replaced.
pub(crate) fn give_up(fd: RawFd, entry: Entry) {
    match entry {
        Entry::Engine(id) => {
            pipes::leave_socket(id);
            if let Some(host) = state::attached() {
                drop(Socket::from_use(host, id));
            }
        }
        Entry::Epoll(number) => crate::calls::epoll::one_descriptor_less(number),
        Entry::Undecided(_) => crate::calls::epoll::forget_undecided(fd),
        Entry::Kernel | Entry::Kept => {}
    }
}
