//! Counting what the adapter writes across beside descriptors and payload: the words of
//! blocks, of the header and of mailboxes.
//!
//! None of it is on a hot path. It is counted through a shared reference, so that whoever may
//! write such a word needs no more.

use super::AdapterSession;
use crate::meter::Meter;
use std::cell::Cell;

/// Bytes of an entry of a chunk directory.
const ENTRY: u64 = size_of::<u32>() as u64;

/// Words that were written.
#[derive(Debug, Default)]
pub(super) struct Words {
    transfers: Cell<u64>,
    bytes: Cell<u64>,
}

impl Words {
    /// So many bytes side by side are written.
    pub(super) fn note(&self, bytes: usize) {
        self.transfers.set(self.transfers.get() + 1);
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

impl AdapterSession {
    /// All that crossed: descriptors and payload, and what is written beside them.
    #[must_use]
    pub fn crossings(&self) -> Meter {
        let mut all = self.meter;
        let (words, entries) = (&self.words, self.receive.entries_written());
        all.to_host
            .payload(words.transfers.get(), words.bytes.get());
        all.to_host.payload(entries, entries * ENTRY);
        all
    }
}
