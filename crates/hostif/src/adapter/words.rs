//! Counting what the adapter writes across beside descriptors and payload: the words of
//! blocks, of the header and of mailboxes.
//!
//! None of it is on a hot path. It is counted through a shared reference, so that whoever may
//! write such a word needs no more.

use super::AdapterSession;
use crate::meter::{Meter, Moved};
use std::cell::Cell;

/// Bytes of an entry of a chunk directory.
pub(super) const ENTRY: u64 = size_of::<u32>() as u64;

/// Words that were written.
#[derive(Debug, Default)]
pub(super) struct Words(Cell<Moved>);

impl Words {
    /// So many bytes side by side are written.
    pub(super) fn note(&self, bytes: usize) {
        let mut words = self.0.get();
        words.add(&Moved::one(bytes as u64));
        self.0.set(words);
    }
}

impl AdapterSession {
    /// All that crossed: descriptors and payload, and what is written beside them.
    #[must_use]
    pub fn crossings(&self) -> Meter {
        let mut all = self.meter;
        let entries = self.receive.entries_written();
        all.to_host.control.add(&self.words.0.get());
        all.to_host.control.add(&Moved::equal(entries, ENTRY));
        all
    }

    /// So many bytes side by side are written for the socket of block `index`.
    pub(super) fn note_word(&self, index: u32, bytes: usize) {
        self.words.note(bytes);
        if let Some(row) = self.by_socket.by_index(index) {
            row.note_word(bytes);
        }
    }
}
