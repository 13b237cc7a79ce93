//! The table of the program's descriptors: which of them are ours, and what
//! they are. One word for each, so that a call on any other descriptor costs a
//! load.

use crate::log::once;
use crate::state;
use longshore_hostif::SocketId;
use longshore_sockets::{Socket, SocketError};
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Descriptors that the table has room for; numbers above stay the kernel's.
const MOST: usize = 1 << 20;

static TABLE: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// One more than the highest number that ever was in the table.
static END: AtomicUsize = AtomicUsize::new(0);

const KIND: u64 = 7;
const V6: u64 = 1 << 3;
const STREAM: u64 = 1 << 4;
const DUPLICATED: u64 = 1 << 5;
const INDEX_SHIFT: u32 = 8;
const INDEX: u64 = 0xff_ffff;

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The kernel's, and none of our business.
    Kernel,
    /// A new inet socket, of which nobody knows yet whose it will be.
    Undecided(Undecided),
    /// A socket of the engine.
    Engine(SocketId),
    /// An epoll instance, by its number in `calls::epoll`.
    Epoll(u32),
    /// One of our own, which the program must not get at.
    Kept,
}

/// What is known of a socket that is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecided {
    pub(crate) v6: bool,
    pub(crate) stream: bool,
    /// Other descriptors may stand for it too.
    pub(crate) duplicated: bool,
    /// Tells it from other undecided sockets.
    pub(crate) number: u32,
    /// The options that were set (bits of `calls::options`).
    pub(crate) options: u32,
}

impl Entry {
    fn encode(self) -> u64 {
        match self {
            Self::Kernel => 0,
            Self::Undecided(u) => {
                let flag = |on: bool, bit: u64| if on { bit } else { 0 };
                1 | flag(u.v6, V6)
                    | flag(u.stream, STREAM)
                    | flag(u.duplicated, DUPLICATED)
                    | (u64::from(u.number) & INDEX) << INDEX_SHIFT
                    | u64::from(u.options) << 32
            }
            Self::Engine(id) => {
                2 | u64::from(id.index) << INDEX_SHIFT | u64::from(id.generation) << 32
            }
            Self::Epoll(number) => 3 | u64::from(number) << INDEX_SHIFT,
            Self::Kept => 4,
        }
    }

    fn decode(word: u64) -> Self {
        let index = (word >> INDEX_SHIFT & INDEX) as u32;
        let high = (word >> 32) as u32;
        match word & KIND {
            1 => Self::Undecided(Undecided {
                v6: word & V6 != 0,
                stream: word & STREAM != 0,
                duplicated: word & DUPLICATED != 0,
                number: index,
                options: high,
            }),
            2 => Self::Engine(SocketId {
                index,
                generation: high,
            }),
            3 => Self::Epoll(index),
            4 => Self::Kept,
            _ => Self::Kernel,
        }
    }
}

fn slot(fd: RawFd) -> Option<&'static AtomicU64> {
    TABLE.get(usize::try_from(fd).ok()?)
}

/// What `fd` is.
#[inline]
pub(crate) fn get(fd: RawFd) -> Entry {
    match slot(fd).map(|s| s.load(Ordering::Acquire)) {
        None | Some(0) => Entry::Kernel,
        Some(word) => Entry::decode(word),
    }
}

/// Whether `fd` is nothing of ours.
#[inline]
pub(crate) fn is_kernels(fd: RawFd) -> bool {
    slot(fd).is_none_or(|s| s.load(Ordering::Relaxed) == 0)
}

/// Whether `fd` is a socket of the engine.
#[inline]
pub(crate) fn is_engines(fd: RawFd) -> bool {
    slot(fd).is_some_and(|s| s.load(Ordering::Relaxed) & KIND == 2)
}

/// Sets what `fd` is; returns what it was. `false` in the second place if the
/// table has no room for the number.
pub(crate) fn put(fd: RawFd, entry: Entry) -> Entry {
    let Some(slot) = slot(fd) else {
        if entry != Entry::Kernel {
            once!(
                Warn,
                Numbers,
                "descriptor {fd} is above {MOST}: its socket stays the kernel's"
            );
        }
        return Entry::Kernel;
    };
    if entry != Entry::Kernel {
        END.fetch_max(fd as usize + 1, Ordering::Relaxed);
    }
    Entry::decode(slot.swap(entry.encode(), Ordering::AcqRel))
}

/// Whether the table has room for `fd`.
pub(crate) fn has_room_for(fd: RawFd) -> bool {
    slot(fd).is_some()
}

/// Changes an undecided entry, if it is still what it was.
pub(crate) fn update(fd: RawFd, from: Undecided, to: Entry) -> bool {
    slot(fd).is_some_and(|s| {
        let from = Entry::Undecided(from).encode();
        s.compare_exchange(from, to.encode(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

/// A use of the engine's socket that `fd` is, if it is one.
#[inline]
pub(crate) fn engine(fd: RawFd) -> Option<Socket> {
    let word = slot(fd)?.load(Ordering::Acquire);
    if word & KIND != 2 {
        return None;
    }
    let Entry::Engine(id) = Entry::decode(word) else {
        return None;
    };
    state::attached()?.acquire(id)
}

/// The same, in a call on what was the engine's socket when it began.
///
/// # Errors
/// EBADF if it is closed by now.
pub(crate) fn engine_or_closed(fd: RawFd) -> Result<Socket, SocketError> {
    engine(fd).ok_or(crate::calls::refused(libc::EBADF))
}

/// One more than the highest number that is of interest.
pub(crate) fn end() -> RawFd {
    END.load(Ordering::Relaxed) as RawFd
}

/// All descriptors that are ours, of any kind.
pub(crate) fn all() -> impl Iterator<Item = (RawFd, Entry)> {
    (0..end())
        .map(|fd| (fd, get(fd)))
        .filter(|(_, e)| *e != Entry::Kernel)
}

/// Those of the engine's sockets all of whose descriptors `exec` closes, but for what
/// `keeps` says of a descriptor.
pub(crate) fn closed_by_exec(keeps: impl Fn(RawFd) -> bool) -> Vec<SocketId> {
    let mut kept = Vec::new();
    let mut closed = Vec::new();
    for (fd, entry) in all() {
        if let Entry::Engine(id) = entry {
            let flags = rustix::io::fcntl_getfd(crate::calls::borrow(fd));
            let closes = flags.is_ok_and(|f| f.contains(rustix::io::FdFlags::CLOEXEC));
            let list = if closes && !keeps(fd) {
                &mut closed
            } else {
                &mut kept
            };
            list.push(id);
        }
    }
    closed.sort_unstable_by_key(|id| id.index);
    closed.dedup();
    closed.retain(|id| !kept.contains(id));
    closed
}

/// How many descriptors each of the engine's sockets has.
pub(crate) fn counts() -> HashMap<SocketId, u32> {
    let mut counts = HashMap::new();
    for (_, entry) in all() {
        if let Entry::Engine(id) = entry {
            *counts.entry(id).or_default() += 1;
        }
    }
    counts
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
        Entry::Undecided(u) => {
            let both = Undecided {
                duplicated: true,
                ..u
            };
            update(from, u, Entry::Undecided(both));
            Entry::Undecided(both)
        }
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
            if let Some(host) = state::attached() {
                drop(Socket::from_use(host, id));
            }
        }
        Entry::Epoll(number) => crate::calls::epoll::one_descriptor_less(number),
        Entry::Undecided(_) => crate::calls::epoll::forget_undecided(fd),
        Entry::Kernel | Entry::Kept => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back() {
        let undecided = Undecided {
            v6: true,
            stream: false,
            duplicated: true,
            number: 0xabcdef,
            options: 0xdead_beef,
        };
        let all = [
            Entry::Kernel,
            Entry::Undecided(undecided),
            Entry::Engine(SocketId {
                index: 0xf_ffff,
                generation: u32::MAX,
            }),
            Entry::Epoll(77),
            Entry::Kept,
        ];
        for entry in all {
            assert_eq!(Entry::decode(entry.encode()), entry);
        }
    }

    #[test]
    fn numbers_outside_the_table_are_the_kernels() {
        assert!(is_kernels(-1) && is_kernels(i32::MAX));
        assert_eq!(put(i32::MAX, Entry::Kept), Entry::Kernel);
        assert_eq!(get(i32::MAX), Entry::Kernel);
    }
}
