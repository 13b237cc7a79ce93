//! Ends of records in the send stream (MSG_EOR): what `flight` keeps of them.
//!
//! Owns [`RecordEnds`], which is part of `Flight`. `records` has what they mean.

use crate::pos::Pos;
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
}
