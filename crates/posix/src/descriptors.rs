//! The table of a program's descriptors: which of them are ours, and what they are. One word
//! for each, so that a call on any other descriptor costs a load.
//!
//! Owns nothing but the words: what follows when a descriptor changes is its caller's, the
//! shim's.

use longshore_hostif::SocketId;
use longshore_sockets::Map;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Descriptors that the table has room for; numbers above stay the kernel's.
pub const MOST: usize = 1 << 20;

const KIND: u64 = 7;
/// The kind of a socket that is undecided.
const UNDECIDED: u64 = 1;
/// The kind of a socket of the engine.
const ENGINE: u64 = 2;
const V6: u64 = 1 << 3;
const STREAM: u64 = 1 << 4;
const DUPLICATED: u64 = 1 << 5;
const SHUT_READ: u64 = 1 << 6;
const SHUT_WRITE: u64 = 1 << 7;
/// An undecided socket that another process has, too.
const SHARED: u64 = 1 << 31;
const INDEX_SHIFT: u32 = 8;
const INDEX: u64 = 0xff_ffff;
/// The number of an undecided socket.
const NUMBER: u64 = 0x7f_ffff;

/// What a descriptor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The kernel's, and none of our business.
    Kernel,
    /// A new inet socket, of which nobody knows yet whose it will be.
    Undecided(Undecided),
    /// A socket of the engine.
    Engine(SocketId),
    /// An epoll instance, by its number among those of the process.
    Epoll(u32),
    /// One of our own, which the program must not get at.
    Kept,
}

/// What is known of a socket that is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecided {
    /// AF_INET6.
    pub v6: bool,
    /// SOCK_STREAM, not SOCK_DGRAM.
    pub stream: bool,
    /// Other descriptors may stand for it too.
    pub duplicated: bool,
    /// Its receiving half was shut down: that fails, and leaves its mark.
    pub shut_read: bool,
    /// Its sending half was.
    pub shut_write: bool,
    /// Another process may have it, and decide whose it is.
    pub shared: bool,
    /// Tells it from other undecided sockets, modulo 2^23.
    pub number: u32,
    /// The options that were set, by their bits ([`Known::bit`](crate::options::known::Known::bit)).
    pub options: u32,
}

impl Entry {
    fn encode(self) -> u64 {
        match self {
            Self::Kernel => 0,
            Self::Undecided(u) => {
                let flag = |on: bool, bit: u64| if on { bit } else { 0 };
                UNDECIDED
                    | flag(u.v6, V6)
                    | flag(u.stream, STREAM)
                    | flag(u.duplicated, DUPLICATED)
                    | flag(u.shut_read, SHUT_READ)
                    | flag(u.shut_write, SHUT_WRITE)
                    | flag(u.shared, SHARED)
                    | (u64::from(u.number) & NUMBER) << INDEX_SHIFT
                    | u64::from(u.options) << 32
            }
            Self::Engine(id) => {
                ENGINE | u64::from(id.index) << INDEX_SHIFT | u64::from(id.generation) << 32
            }
            Self::Epoll(number) => 3 | u64::from(number) << INDEX_SHIFT,
            Self::Kept => 4,
        }
    }

    fn decode(word: u64) -> Self {
        let index = (word >> INDEX_SHIFT & INDEX) as u32;
        let high = (word >> 32) as u32;
        match word & KIND {
            UNDECIDED => Self::Undecided(Undecided {
                v6: word & V6 != 0,
                stream: word & STREAM != 0,
                duplicated: word & DUPLICATED != 0,
                shut_read: word & SHUT_READ != 0,
                shut_write: word & SHUT_WRITE != 0,
                shared: word & SHARED != 0,
                number: index & NUMBER as u32,
                options: high,
            }),
            ENGINE => Self::Engine(SocketId {
                index,
                generation: high,
            }),
            3 => Self::Epoll(index),
            4 => Self::Kept,
            _ => Self::Kernel,
        }
    }
}

/// What each descriptor of a process is. All operations are atomic, and may be made in
/// handlers of signals.
#[derive(Debug)]
pub struct Descriptors {
    words: [AtomicU64; MOST],
    /// One more than the highest number that ever was in the table.
    end: AtomicUsize,
}

impl Default for Descriptors {
    fn default() -> Self {
        Self::new()
    }
}

impl Descriptors {
    /// A table of which all descriptors are the kernel's. It is large, for a `static`: what
    /// is never written takes no memory there.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            words: [const { AtomicU64::new(0) }; MOST],
            end: AtomicUsize::new(0),
        }
    }

    fn word(&self, fd: RawFd) -> Option<&AtomicU64> {
        self.words.get(usize::try_from(fd).ok()?)
    }

    /// What `fd` is.
    #[inline]
    #[must_use]
    pub fn get(&self, fd: RawFd) -> Entry {
        match self.word(fd).map(|w| w.load(Ordering::Acquire)) {
            None | Some(0) => Entry::Kernel,
            Some(word) => Entry::decode(word),
        }
    }

    /// Whether `fd` is nothing of ours.
    #[inline]
    #[must_use]
    pub fn is_kernels(&self, fd: RawFd) -> bool {
        self.word(fd).is_none_or(|w| w.load(Ordering::Relaxed) == 0)
    }

    /// The engine's socket that `fd` is, if it is one.
    #[inline]
    #[must_use]
    pub fn engines(&self, fd: RawFd) -> Option<SocketId> {
        let word = self.word(fd)?.load(Ordering::Acquire);
        if word & KIND != ENGINE {
            return None;
        }
        match Entry::decode(word) {
            Entry::Engine(id) => Some(id),
            _ => None,
        }
    }

    /// Whether `fd` is a socket of the engine.
    #[inline]
    #[must_use]
    pub fn is_engines(&self, fd: RawFd) -> bool {
        self.word(fd)
            .is_some_and(|w| w.load(Ordering::Relaxed) & KIND == ENGINE)
    }

    /// Whether `fd` is an undecided socket that another process may have decided about.
    #[inline]
    #[must_use]
    pub fn is_shared_undecided(&self, fd: RawFd) -> bool {
        let both = KIND | SHARED;
        self.word(fd)
            .is_some_and(|w| w.load(Ordering::Relaxed) & both == UNDECIDED | SHARED)
    }

    /// From now on, another process has all sockets that are undecided.
    pub fn share_undecided(&self) {
        let shared = |word: u64| (word & KIND == UNDECIDED).then_some(word | SHARED);
        for word in &self.words[..self.end.load(Ordering::Relaxed)] {
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, shared);
        }
    }

    /// Sets what `fd` is; returns what it was. `None` if the table has no room for the
    /// number: it stays the kernel's.
    pub fn put(&self, fd: RawFd, entry: Entry) -> Option<Entry> {
        let word = self.word(fd)?;
        if entry != Entry::Kernel {
            self.end.fetch_max(fd as usize + 1, Ordering::Relaxed);
        }
        Some(Entry::decode(word.swap(entry.encode(), Ordering::AcqRel)))
    }

    /// Whether the table has room for `fd`.
    #[must_use]
    pub fn has_room_for(&self, fd: RawFd) -> bool {
        self.word(fd).is_some()
    }

    /// Changes an undecided entry, if it is still what it was; says whether it was.
    pub fn update(&self, fd: RawFd, from: Undecided, to: Entry) -> bool {
        self.change(fd, Entry::Undecided(from), to)
    }

    /// Changes an entry, if it is still what it was; says whether it was.
    pub fn change(&self, fd: RawFd, from: Entry, to: Entry) -> bool {
        self.word(fd).is_some_and(|w| {
            let (from, to) = (from.encode(), to.encode());
            w.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    /// One more than the highest number that is of interest.
    #[must_use]
    pub fn end(&self) -> RawFd {
        self.end.load(Ordering::Relaxed) as RawFd
    }

    /// All descriptors that are ours, of any kind.
    pub fn all(&self) -> impl Iterator<Item = (RawFd, Entry)> {
        (0..self.end())
            .map(|fd| (fd, self.get(fd)))
            .filter(|(_, e)| *e != Entry::Kernel)
    }

    /// Those of the engine's sockets of which each descriptor is closed, as `closes` says.
    pub fn closed_if(&self, closes: impl Fn(RawFd) -> bool) -> Vec<SocketId> {
        let mut kept = Vec::new();
        let mut closed = Vec::new();
        for (fd, entry) in self.all() {
            if let Entry::Engine(id) = entry {
                let list = if closes(fd) { &mut closed } else { &mut kept };
                list.push(id);
            }
        }
        closed.sort_unstable_by_key(|id| id.index);
        closed.dedup();
        closed.retain(|id| !kept.contains(id));
        closed
    }

    /// How many descriptors each of the engine's sockets has.
    #[must_use]
    pub fn counts(&self) -> Map<SocketId, u32> {
        let mut counts = Map::default();
        for (_, entry) in self.all() {
            if let Entry::Engine(id) = entry {
                *counts.entry(id).or_default() += 1;
            }
        }
        counts
    }

    /// Notes that an undecided socket has more than one descriptor; what both are then, or
    /// `None` if `fd` is no undecided socket.
    pub fn duplicate_undecided(&self, fd: RawFd) -> Option<Entry> {
        let Entry::Undecided(undecided) = self.get(fd) else {
            return None;
        };
        let both = Entry::Undecided(Undecided {
            duplicated: true,
            ..undecided
        });
        self.update(fd, undecided, both);
        Some(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One for each test: it is too large for a stack.
    fn socket(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 7,
        }
    }

    #[test]
    fn entries_come_back() {
        let undecided = Undecided {
            v6: true,
            stream: false,
            duplicated: true,
            shut_read: false,
            shut_write: true,
            shared: true,
            number: 0x2bcdef,
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
        static TABLE: Descriptors = Descriptors::new();
        assert!(TABLE.is_kernels(-1) && TABLE.is_kernels(i32::MAX));
        assert_eq!(TABLE.put(i32::MAX, Entry::Kept), None);
        assert_eq!(TABLE.get(i32::MAX), Entry::Kernel);
        assert_eq!(TABLE.end(), 0);
    }

    #[test]
    fn a_socket_is_closed_with_its_last_descriptor() {
        static TABLE: Descriptors = Descriptors::new();
        for (fd, index) in [(3, 1), (4, 1), (9, 2), (70, 2)] {
            assert_eq!(
                TABLE.put(fd, Entry::Engine(socket(index))),
                Some(Entry::Kernel)
            );
        }
        TABLE.put(5, Entry::Kept);
        assert_eq!(TABLE.end(), 71);
        assert_eq!(
            TABLE.counts(),
            Map::from_iter([(socket(1), 2), (socket(2), 2)])
        );
        assert_eq!(TABLE.closed_if(|fd| fd < 10), [socket(1)]);
        assert_eq!(TABLE.closed_if(|fd| fd > 3), [socket(2)]);
        assert_eq!(TABLE.engines(9), Some(socket(2)));
        assert_eq!(TABLE.engines(5), None);
    }

    #[test]
    fn an_undecided_entry_changes_only_if_it_is_what_it_was() {
        static TABLE: Descriptors = Descriptors::new();
        let new = Undecided {
            v6: false,
            stream: true,
            duplicated: false,
            shut_read: false,
            shut_write: false,
            shared: false,
            number: 1,
            options: 0,
        };
        TABLE.put(3, Entry::Undecided(new));
        let both = TABLE.duplicate_undecided(3);
        assert_eq!(both, Some(TABLE.get(3)));
        assert!(!TABLE.update(3, new, Entry::Engine(socket(1))));
        assert_eq!(TABLE.duplicate_undecided(4), None);
    }
}
