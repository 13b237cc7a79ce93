//! Ends of records in the send stream (MSG_EOR), as Linux 4.7 and later have them: no segment,
//! new or retransmitted, has bytes from both sides of one. Two records are apart at the
//! receiver's network card, too, and a sender learns when each has arrived.
//!
//! Owns [`RecordEnds`], which is part of `Flight`, and [`Tcb::end_record`], which the engine
//! calls. `output/` asks where the next end is. An end is kept until what lies before it is
//! acknowledged, and not saved: whoever restores a connection may merge what was in flight.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::tcb::Tcb;
use std::collections::VecDeque;

/// Ends that one connection keeps. Linux, which has a buffer for each, keeps as many as the
/// send buffer's size allows.
const MOST: usize = 4096;

/// Ends of records that are not acknowledged, ascending. Nearly all connections have none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "each connection has one word of this, not four"
)]
pub(crate) struct RecordEnds(Option<Box<VecDeque<Pos>>>);

impl RecordEnds {
    pub(crate) const fn new() -> RecordEnds {
        RecordEnds(None)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A record ends at `end`; `false` if there are as many as are kept.
    fn insert(&mut self, end: Pos) -> bool {
        let ends = self.0.get_or_insert_default();
        // Two processes may be told of in another order than they have written.
        let at = ends.partition_point(|&e| e < end);
        if ends.get(at) == Some(&end) {
            return true;
        }
        let has_room = ends.len() < MOST;
        if has_room {
            ends.insert(at, end);
        }
        has_room
    }

    /// Everything before `una` is acknowledged.
    pub(crate) fn acknowledge(&mut self, una: Pos) {
        if let Some(ends) = &mut self.0 {
            ends.drain(..ends.partition_point(|&e| e <= una));
            if ends.is_empty() {
                self.0 = None;
            }
        }
    }

    /// The first end after `start`, where a segment that begins there has to end.
    pub(crate) fn after(&self, start: Pos) -> Option<Pos> {
        let ends = self.0.as_ref()?;
        ends.get(ends.partition_point(|&e| e <= start)).copied()
    }

    /// The last end before `end`, where a segment that ends there may begin at the earliest.
    pub(crate) fn before(&self, end: Pos) -> Option<Pos> {
        let ends = self.0.as_ref()?;
        let earlier = ends.partition_point(|&e| e < end).checked_sub(1)?;
        ends.get(earlier).copied()
    }

    /// Whether a record ends at `end`.
    pub(crate) fn contains(&self, end: Pos) -> bool {
        self.after(end - 1) == Some(end)
    }
}

impl Tcb {
    /// The record that was written last ends at `edge` of the send stream, already announced by
    /// [`set_snd_edge`](Tcb::set_snd_edge): bytes before and after it share no segment from now
    /// on. Returns whether that is kept: it is not if 4,096 ends are not acknowledged.
    pub fn end_record(&mut self, edge: u64) -> bool {
        let end = edge.min(self.snd.edge() as u64) as Pos;
        let una = self.snd.una();
        self.flight.record_ends.acknowledge(una);
        if end <= una.max(0) {
            return true;
        }
        self.flags |= Flags::RECORD_ENDS;
        self.flight.record_ends.insert(end)
    }

    /// Forgets ends that are acknowledged.
    pub(crate) fn forget_record_ends(&mut self) {
        let ends = &mut self.flight.record_ends;
        ends.acknowledge(self.snd.una());
        if ends.is_empty() {
            self.flags.remove(Flags::RECORD_ENDS);
        }
    }

    /// How much of `len` bytes from `start` on belongs to one record.
    #[inline]
    pub(crate) fn within_record(&self, start: Pos, len: i64) -> i64 {
        if !self.flags.contains(Flags::RECORD_ENDS) {
            return len;
        }
        let end = self.flight.record_ends.after(start);
        end.map_or(len, |end| len.min(end - start))
    }

    /// Whether a record ends at `end`.
    #[inline]
    pub(crate) fn ends_record(&self, end: Pos) -> bool {
        self.flags.contains(Flags::RECORD_ENDS) && self.flight.record_ends.contains(end)
    }
}

#[cfg(test)]
mod tests;
