//! Splitting ranges of the scoreboard, joining them and making room.
//!
//! Owns those methods of [`Scoreboard`], private to it; how ranges are stored is `ranges`'. None of
//! them changes the state of a byte, except for its time, and that only when the table is full.

use super::{CLOSED, INLINE_RANGES, RangeState, Scoreboard};
use crate::pos::{NO_POS, Pos};

impl Scoreboard {
    /// Moves entries `from..to` of the table to `at`.
    fn shift(&mut self, from: usize, to: usize, at: usize) {
        self.open_until = CLOSED;
        self.ranges.shift(from, to, at);
    }

    /// The index of the range that contains `pos`, or the number of ranges if `pos` is
    /// above all.
    pub(super) fn find(&self, una: Pos, pos: Pos) -> usize {
        let above = pos - una;
        self.ranges.stored()[self.index(0)..self.index(self.len())]
            .partition_point(|s| i64::from(s.end.wrapping_sub(una as u32)) <= above)
    }

    /// Splits ranges so that `start..end` consists of whole ones; returns their indices.
    /// Returns `None` and changes nothing if there is no room for that.
    pub(super) fn split_out(&mut self, una: Pos, start: Pos, end: Pos) -> Option<(usize, usize)> {
        let inside = |pos: Pos| {
            let i = self.find(una, pos);
            i < self.len() && self.get(una, i).start < pos
        };
        if (inside(start) || inside(end)) && !self.make_room(2) {
            return None;
        }
        let from = self.split_at(una, start);
        let to = self.split_at(una, end);
        (from < to).then_some((from, to))
    }

    /// Splits the range that contains `pos`; returns the index of the range that now
    /// begins there.
    fn split_at(&mut self, una: Pos, pos: Pos) -> usize {
        let i = self.find(una, pos);
        if i == self.len() || pos <= self.get(una, i).start {
            return i;
        }
        let (a, z) = (self.index(i), self.index(self.len()));
        self.shift(a, z, a + 1);
        self.ranges.stored_mut()[a].end = pos as u32;
        self.len += 1;
        i + 1
    }

    /// Makes room for `wanted` more ranges after the last one.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        if self.index(self.len()) + wanted <= self.ranges.stored().len() {
            return true;
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        self.shift(a, z, 0);
        self.first = 0;
        if self.len() + wanted <= self.ranges.stored().len() {
            return true;
        }
        // Without holes, times may be made less exact; SACKs must not be.
        if !self.ranges.are_many() && !self.is_plain() {
            self.ranges.grow(self.len());
            self.open_until = CLOSED;
            self.plain_from = NO_POS;
            return true;
        }
        while self.len() + wanted > self.ranges.stored().len() {
            if !self.join_closest() {
                return false;
            }
        }
        true
    }

    /// No recovery is in progress, with SND.NXT at `nxt`: frees the larger table, unless
    /// there are holes.
    pub(crate) fn shrink(&mut self, nxt: Pos) {
        if !self.ranges.are_many() || !self.is_plain() {
            return;
        }
        while self.len() > INLINE_RANGES - 2 {
            if !self.join_closest() {
                return;
            }
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        self.ranges.shrink(a..z);
        self.first = 0;
        self.open_until = CLOSED;
        self.plain_from = nxt;
    }

    /// Joins the two neighbours of the same state whose times differ least.
    fn join_closest(&mut self) -> bool {
        let state = |i: usize| self.ranges.states()[self.index(i)];
        let at = |i: usize| self.ranges.last_of(self.index(i));
        let best = (1..self.len())
            .filter(|&i| state(i) == state(i - 1))
            .min_by_key(|&i| at(i).since(at(i - 1)).unsigned_abs());
        // Failing that, neighbours that differ only in whether they were retransmitted
        // are joined.
        let best = best.or_else(|| {
            let kind = |i: usize| state(i) - RangeState::RETRANSMITTED;
            (1..self.len()).find(|&i| kind(i) == kind(i - 1))
        });
        if let Some(i) = best {
            self.join(i);
        }
        best.is_some()
    }

    /// Joins range `i` to the one before it.
    fn join(&mut self, i: usize) {
        let (a, b) = (self.index(i - 1), self.index(i));
        let first = self.ranges.first_of(a).earlier(self.ranges.first_of(b));
        let at = self.ranges.last_of(a).later(self.ranges.last_of(b));
        let state = self.ranges.states()[a] | self.ranges.states()[b];
        if state != self.ranges.states()[a] || state != self.ranges.states()[b] {
            self.plain_from = NO_POS;
        }
        let z = self.index(self.len());
        self.shift(b, z, a);
        self.ranges.set_times(a, first, at);
        self.ranges.states_mut()[a] = state;
        self.len -= 1;
    }

    /// Joins neighbours of the same state whose times are close, or irrelevant.
    pub(super) fn merge(&mut self) {
        self.merge_around(0, self.len());
    }

    /// As [`merge`](Self::merge), for ranges `from..to`, which have changed, and their
    /// neighbours.
    pub(super) fn merge_around(&mut self, from: usize, to: usize) {
        let mut i = from.max(1);
        let mut end = (to + 1).min(self.len());
        while i < end {
            if self.may_join(i) {
                self.join(i);
                end -= 1;
            } else {
                i += 1;
            }
        }
    }

    /// Whether range `i` and the previous one can be joined without loss of information.
    fn may_join(&self, i: usize) -> bool {
        let (a, b) = (self.index(i - 1), self.index(i));
        let state = self.ranges.states()[a];
        let timeless = state.intersects(RangeState::SACKED | RangeState::LOST);
        let near = || {
            self.ranges
                .last_of(a)
                .is_same_tick(self.ranges.last_of(b), self.granularity)
        };
        state == self.ranges.states()[b] && (timeless || near())
    }
}
