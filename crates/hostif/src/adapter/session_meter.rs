//! What crossed for a session: descriptors, payload, words and wake-ups, in all and for each
//! socket.
//!
//! Owns [`SessionMeter`], a part of [`AdapterSession`](super::AdapterSession) that the others
//! count in. Payload is counted by the stack. The words of blocks, of the header and of
//! mailboxes are counted through a shared reference, so that whoever may write such a word
//! needs no more; none of them is on a hot path.

use super::socket_meters::SocketMeters;
use crate::abi::SocketId;
use crate::meter::{Crossings, Descriptors, Meter, Moved};
use std::cell::Cell;

/// Bytes of an entry of a chunk directory.
pub(super) const ENTRY: u64 = size_of::<u32>() as u64;

/// What crossed for a session since it began, and what programs asked for that cannot be.
#[derive(Debug)]
pub struct SessionMeter {
    /// From programs to the engine, but for the words.
    pub to_adapter: Crossings,
    /// From the engine to programs, but for the words.
    pub to_host: Crossings,
    words: Cell<Moved>,
    by_socket: SocketMeters,
    /// Times that the doorbell rang since a request was taken.
    doorbells: u64,
    bad_descriptors: Cell<u64>,
    misrouted: u64,
}

impl SessionMeter {
    /// Nothing has crossed for a session of so many sockets.
    pub(super) fn new(sockets: u32) -> Self {
        Self {
            to_adapter: Crossings::default(),
            to_host: Crossings::default(),
            words: Cell::default(),
            by_socket: SocketMeters::new(sockets),
            doorbells: 0,
            bad_descriptors: Cell::default(),
            misrouted: 0,
        }
    }

    /// What crosses for a socket is counted from now on.
    pub fn begin(&mut self, socket: SocketId) {
        self.by_socket.begin(socket);
    }

    /// Nobody has the socket of block `index` any more.
    pub fn end(&mut self, index: u32) {
        self.by_socket.end(index);
    }

    /// What crossed for a socket, but for its payload and the entries of its directories.
    #[must_use]
    pub fn of(&self, socket: SocketId) -> Meter {
        self.by_socket.meter(socket)
    }

    /// A program has rung the doorbell, by which the adapter woke.
    pub fn note_doorbell(&mut self) {
        self.to_adapter.wakeups += 1;
        self.doorbells += 1;
    }

    /// Descriptors that meant nothing or asked for what is not theirs.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors.get()
    }

    /// A descriptor meant nothing, or asked for what is not its program's.
    pub fn note_bad_descriptor(&self) {
        self.bad_descriptors.set(self.bad_descriptors.get() + 1);
    }

    /// Requests that were about a socket which another worker has, by its name, or none.
    #[must_use]
    pub fn misrouted(&self) -> u64 {
        self.misrouted
    }

    /// Counts a request that was taken, which `opens` a socket or does not; whether it may be
    /// about a socket of this worker. `is_ours` says whether the name of a socket says so.
    #[inline]
    pub(super) fn count_request(
        &mut self,
        crossed: &Descriptors,
        socket: SocketId,
        opens: bool,
        is_ours: impl Fn(SocketId) -> bool,
    ) -> bool {
        self.to_adapter.descriptors.add(crossed);
        if opens && is_ours(socket) {
            self.by_socket.begin_if_free(socket);
        }
        let doorbells = std::mem::take(&mut self.doorbells);
        match self.by_socket.of(socket) {
            Some(row) => {
                row.to_adapter.add(crossed);
                row.doorbells += doorbells;
                true
            }
            None => self.note_uncounted(is_ours(socket)),
        }
    }

    /// A request was taken about a socket that is not counted: one that is gone, or that another
    /// worker has. Whether it is not the latter.
    #[cold]
    fn note_uncounted(&mut self, is_ours: bool) -> bool {
        self.misrouted += u64::from(!is_ours);
        is_ours
    }

    /// Counts what was staged about a socket.
    #[inline]
    pub(super) fn count_completion(&mut self, socket: SocketId, crossed: &Descriptors) {
        self.to_host.descriptors.add(crossed);
        if let Some(row) = self.by_socket.of(socket) {
            row.to_host.add(crossed);
        }
    }

    /// A thread was woken, for the socket of block `index` if that is known.
    pub(super) fn count_wakeup(&mut self, index: Option<u32>) {
        self.to_host.wakeups += 1;
        if let Some(row) = index.and_then(|index| self.by_socket.by_index_mut(index)) {
            row.wakeups += 1;
        }
    }

    /// So many bytes side by side are written for all sockets.
    pub(super) fn note_words(&self, bytes: usize) {
        let mut words = self.words.get();
        words.add(&Moved::one(bytes as u64));
        self.words.set(words);
    }

    /// So many bytes side by side are written for the socket of block `index`.
    pub(super) fn note_word(&self, index: u32, bytes: usize) {
        self.note_words(bytes);
        if let Some(row) = self.by_socket.by_index(index) {
            row.note_word(bytes);
        }
    }

    /// All that crossed: descriptors and payload, and what is written beside them, of which so
    /// many entries of directories.
    pub(super) fn total(&self, entries: u64) -> Meter {
        let mut all = Meter {
            to_adapter: self.to_adapter,
            to_host: self.to_host,
        };
        all.to_host.control.add(&self.words.get());
        all.to_host.control.add(&Moved::equal(entries, ENTRY));
        all
    }
}
