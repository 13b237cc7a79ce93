//! What crossed for each socket, beside its payload: descriptors, words and wake-ups.
//!
//! Owns [`SocketMeters`], a row for each block. `session_meter` counts there what it counts for
//! the session; payload is counted by the stack, which knows of each piece whose it is. A batch is counted for the socket of its first descriptor, a
//! doorbell for that of the first request that is fetched after it, and a wake-up for the
//! socket that the sleeper was found by; so the rows of a session add up to no more than its
//! own counts.

use crate::abi::SocketId;
use crate::meter::{Descriptors, Meter, Moved};
use std::cell::Cell;

/// Rows that come into being together.
const GROUP: usize = 64;

/// What crossed for a socket.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Which use of the block it counts; 0 if none.
    generation: u32,
    pub(super) to_adapter: Descriptors,
    pub(super) to_host: Descriptors,
    words: Cell<Moved>,
    pub(super) doorbells: u64,
    pub(super) wakeups: u64,
}

impl Row {
    /// So many bytes side by side were written.
    pub(super) fn note_word(&self, bytes: usize) {
        let mut words = self.words.get();
        words.add(&Moved::one(bytes as u64));
        self.words.set(words);
    }
}

/// The rows of a session, by the indices of blocks. Those of a group take memory once one of
/// its sockets was opened.
#[derive(Debug)]
pub(super) struct SocketMeters {
    groups: Vec<Option<Box<[Row; GROUP]>>>,
}

impl SocketMeters {
    pub(super) fn new(sockets: u32) -> Self {
        let groups = (sockets as usize).div_ceil(GROUP);
        Self {
            groups: (0..groups).map(|_| None).collect(),
        }
    }

    /// The row of a block that has one.
    #[inline]
    pub(super) fn by_index(&self, index: u32) -> Option<&Row> {
        let rows = self.groups.get(index as usize / GROUP)?.as_ref()?;
        rows.get(index as usize % GROUP)
    }

    /// The row of a socket that is counted.
    #[inline]
    pub(super) fn of(&mut self, socket: SocketId) -> Option<&mut Row> {
        self.by_index_mut(socket.index)
            .filter(|row| row.generation == socket.generation)
    }

    /// The row of a block that has one, whatever its use.
    #[inline]
    pub(super) fn by_index_mut(&mut self, index: u32) -> Option<&mut Row> {
        let rows = self.groups.get_mut(index as usize / GROUP)?.as_mut()?;
        rows.get_mut(index as usize % GROUP)
    }

    /// A socket is counted from now on, unless it is already.
    pub(super) fn begin(&mut self, socket: SocketId) {
        let Some(group) = self.groups.get_mut(socket.index as usize / GROUP) else {
            return;
        };
        let rows = group.get_or_insert_with(|| Box::new(std::array::from_fn(|_| Row::default())));
        if let Some(row) = rows.get_mut(socket.index as usize % GROUP)
            && row.generation != socket.generation
        {
            *row = Row {
                generation: socket.generation,
                ..Row::default()
            };
        }
    }

    /// As `begin`, as its program says: not in the place of another.
    pub(super) fn begin_if_free(&mut self, socket: SocketId) {
        let is_free = |row: &Row| row.generation == 0;
        if self.by_index(socket.index).is_none_or(is_free) {
            self.begin(socket);
        }
    }

    /// What a row says of a socket that is counted.
    pub(super) fn meter(&self, socket: SocketId) -> Meter {
        let mut meter = Meter::default();
        let row = self.by_index(socket.index);
        if let Some(row) = row.filter(|row| row.generation == socket.generation) {
            meter.to_adapter.descriptors = row.to_adapter;
            meter.to_adapter.wakeups = row.doorbells;
            meter.to_host.descriptors = row.to_host;
            meter.to_host.control = row.words.get();
            meter.to_host.wakeups = row.wakeups;
        }
        meter
    }

    /// Nobody has the socket of block `index` any more.
    pub(super) fn end(&mut self, index: u32) {
        if let Some(row) = self.by_index_mut(index) {
            *row = Row::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: SocketId = SocketId {
        index: 65,
        generation: 7,
    };

    #[test]
    fn a_row_counts_one_use_of_its_block() {
        let mut rows = SocketMeters::new(128);
        assert!(rows.of(FIRST).is_none());
        rows.begin(FIRST);
        rows.of(FIRST).unwrap().wakeups = 3;
        // One that is not it neither counts nor begins.
        let other = SocketId {
            generation: 8,
            ..FIRST
        };
        rows.begin_if_free(other);
        assert!(rows.of(other).is_none());
        rows.begin(FIRST);
        assert_eq!(rows.of(FIRST).unwrap().wakeups, 3);
        rows.end(FIRST.index);
        assert!(rows.of(FIRST).is_none());
        rows.begin_if_free(other);
        assert_eq!(rows.of(other).unwrap().wakeups, 0);
    }

    #[test]
    fn there_are_no_more_rows_than_blocks() {
        let mut rows = SocketMeters::new(64);
        rows.begin(FIRST);
        assert!(rows.of(FIRST).is_none());
        assert!(rows.by_index(u32::MAX).is_none());
    }
}
