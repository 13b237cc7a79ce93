//! Ends of records in the send stream (MSG_EOR), as Linux 4.7 and later have them: no segment,
//! new or retransmitted, has bytes from both sides of one. Two records are apart at the
//! receiver's network card, too, and a sender learns when each has arrived.
//!
//! Owns [`RecordEnds`], which is part of `Flight` and says to `output/` where the next end
//! is. An end is kept until what lies before it is acknowledged, and not saved: whoever restores
//! a connection may merge what was in flight.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::snd::SendSide;
use std::collections::VecDeque;

/// Ends of records that are not acknowledged, ascending. Nearly all connections have none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "each connection has one word of this, not four"
)]
pub(crate) struct RecordEnds(Option<Box<VecDeque<Pos>>>);

impl RecordEnds {
    /// Ends that one connection keeps. Linux, which has a buffer for each, keeps as many as the
    /// send buffer's size allows.
    pub(crate) const MOST: usize = 4096;

    pub(crate) const fn new() -> RecordEnds {
        RecordEnds(None)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A record ends at `end`; `false` if there are as many as are kept.
    pub(crate) fn insert(&mut self, end: Pos) -> bool {
        let ends = self.0.get_or_insert_default();
        // Two processes may be told of in another order than they have written.
        let at = ends.partition_point(|&e| e < end);
        if ends.get(at) == Some(&end) {
            return true;
        }
        let has_room = ends.len() < Self::MOST;
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
    /// The record that was written last ends at `edge` of the send stream. Returns whether
    /// that is kept.
    pub(crate) fn end(&mut self, snd: &SendSide, flags: &mut Flags, edge: u64) -> bool {
        let end = edge.min(snd.edge() as u64) as Pos;
        let una = snd.una();
        self.acknowledge(una);
        if end <= una.max(0) {
            return true;
        }
        *flags |= Flags::RECORD_ENDS;
        self.insert(end)
    }

    /// Forgets ends that are acknowledged.
    pub(crate) fn forget_acknowledged(&mut self, snd: &SendSide, flags: &mut Flags) {
        self.acknowledge(snd.una());
        if self.is_empty() {
            flags.remove(Flags::RECORD_ENDS);
        }
    }

    /// How much of `len` bytes from `start` on belongs to one record.
    #[inline]
    pub(crate) fn within(&self, flags: Flags, start: Pos, len: i64) -> i64 {
        if !flags.contains(Flags::RECORD_ENDS) {
            return len;
        }
        let end = self.after(start);
        end.map_or(len, |end| len.min(end - start))
    }

    /// Whether a record ends at `end`.
    #[inline]
    pub(crate) fn ends(&self, flags: Flags, end: Pos) -> bool {
        flags.contains(Flags::RECORD_ENDS) && self.contains(end)
    }

    /// The last boundary of segments before `end`, which is SND.NXT, that a retransmission
    /// keeps, as Linux does: the end of a record, or of the data before a FIN that was sent
    /// alone.
    pub(crate) fn last_boundary(&self, snd: &SendSide, flags: Flags, end: Pos) -> Pos {
        if flags.contains(Flags::FIN_ALONE) {
            return snd.edge();
        }
        let record = self.before(end.min(snd.edge()));
        record.unwrap_or(Pos::MIN)
    }
}

#[cfg(test)]
mod tests;
