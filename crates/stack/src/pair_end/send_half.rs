//! What one end sends: how far its host has written, how far that has gone, and what ends it.
//!
//! Owns [`SendHalf`], a part of [`Pair`](super::Pair). Positions are offsets in the stream,
//! bytes.

/// The sending half of an end.
#[derive(Debug, Default)]
pub(crate) struct SendHalf {
    edge: u64,
    moved: u64,
    done: u64,
    urgent: u64,
    shut: bool,
    lingers: bool,
}

impl SendHalf {
    /// How far the host has written.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// How far the other end has it.
    pub(crate) fn moved(&self) -> u64 {
        self.moved
    }

    /// How far it is done with, so that its chunks are the host's. What is lent is done with
    /// once it was read.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Bytes that the other end has not got.
    pub(crate) fn unmoved(&self) -> u64 {
        self.edge - self.moved
    }

    /// Whether the host has written, or has said that it writes nothing.
    pub(crate) fn has_begun(&self) -> bool {
        self.edge != 0 || self.shut
    }

    /// The host has written up to `edge`.
    pub(crate) fn write_to(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
    }

    /// The other end has it up to `moved`.
    pub(crate) fn move_to(&mut self, moved: u64) {
        self.moved = moved;
    }

    /// What the other end has not got, nobody gets.
    pub(crate) fn abandon_rest(&mut self) {
        self.moved = self.edge;
    }

    /// It is done with up to `done`.
    pub(crate) fn finish_to(&mut self, done: u64) {
        self.done = self.done.max(done);
    }

    // ---- its end ----

    /// Whether this end has said that it sends no more.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut
    }

    /// This end sends no more.
    pub(crate) fn shut(&mut self) {
        self.shut = true;
    }

    /// The host is to be told when the other end has all that was sent (SO_LINGER).
    pub(crate) fn linger(&mut self) {
        self.lingers = true;
    }

    /// Whether the host wanted to be told that the other end has all of it, and it has.
    pub(crate) fn is_lingering_over(&self) -> bool {
        self.lingers && self.unmoved() == 0
    }

    // ---- urgent data ----

    /// What follows the last urgent byte written; 0 if there was none.
    pub(crate) fn urgent(&self) -> u64 {
        self.urgent
    }

    /// The last byte written before `edge` is urgent.
    pub(crate) fn set_urgent(&mut self, edge: u64) {
        self.urgent = self.urgent.max(edge.min(self.edge));
    }

    /// Whether there is urgent data that the other end has not got.
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent > self.moved
    }
}
