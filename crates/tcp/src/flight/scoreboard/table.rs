//! The table of ranges under the scoreboard: splitting, joining and making room.
//!
//! Owns those methods of [`Scoreboard`], private to it. None of them changes the state of
//! a byte, except for its time, and that only when the table is full.

use super::{CLOSED, INLINE_RANGES, RangeState, Scoreboard, Stamp};
use crate::pos::{NO_POS, Pos};
use crate::time::Instant;

/// A stored range; it begins where the previous one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// The low 32 bits of its end.
    pub(super) end: u32,
    /// When its first part was sent.
    pub(super) first: Stamp,
}

/// Storage for `N` ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table<const N: usize> {
    pub(super) stored: [Stored; N],
    /// Difference between the times of the last and the first part, microseconds. It
    /// saturates at 65 ms, which joined neighbours exceed only on a path of seconds,
    /// where that is little.
    pub(super) spreads: [u16; N],
    pub(super) states: [RangeState; N],
}

impl<const N: usize> Table<N> {
    pub(super) const fn new() -> Table<N> {
        let none = Stored {
            end: 0,
            first: Stamp::new(Instant(0)),
        };
        Table {
            stored: [none; N],
            spreads: [0; N],
            states: [RangeState::empty(); N],
        }
    }
}

impl Scoreboard {
    #[inline(always)]
    pub(super) fn stored(&self) -> &[Stored] {
        match &self.heap {
            None => &self.inline.stored,
            Some(heap) => &heap.stored,
        }
    }

    #[inline(always)]
    pub(super) fn stored_mut(&mut self) -> &mut [Stored] {
        match &mut self.heap {
            None => &mut self.inline.stored,
            Some(heap) => &mut heap.stored,
        }
    }

    #[inline(always)]
    pub(super) fn spreads(&self) -> &[u16] {
        match &self.heap {
            None => &self.inline.spreads,
            Some(heap) => &heap.spreads,
        }
    }

    #[inline(always)]
    pub(super) fn spreads_mut(&mut self) -> &mut [u16] {
        match &mut self.heap {
            None => &mut self.inline.spreads,
            Some(heap) => &mut heap.spreads,
        }
    }

    #[inline(always)]
    pub(super) fn states(&self) -> &[RangeState] {
        match &self.heap {
            None => &self.inline.states,
            Some(heap) => &heap.states,
        }
    }

    #[inline(always)]
    pub(super) fn states_mut(&mut self) -> &mut [RangeState] {
        match &mut self.heap {
            None => &mut self.inline.states,
            Some(heap) => &mut heap.states,
        }
    }

    /// Moves entries `from..to` of the table to `at`.
    fn shift(&mut self, from: usize, to: usize, at: usize) {
        self.open_until = CLOSED;
        self.stored_mut().copy_within(from..to, at);
        self.spreads_mut().copy_within(from..to, at);
        self.states_mut().copy_within(from..to, at);
    }

    /// The index of the range that contains `pos`, or the number of ranges if `pos` is
    /// above all.
    pub(super) fn find(&self, una: Pos, pos: Pos) -> usize {
        let above = pos - una;
        self.stored()[self.index(0)..self.index(self.len())]
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
        self.stored_mut()[a].end = pos as u32;
        self.len += 1;
        i + 1
    }

    /// Makes room for `wanted` more ranges after the last one.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        if self.index(self.len()) + wanted <= self.stored().len() {
            return true;
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        self.shift(a, z, 0);
        self.first = 0;
        if self.len() + wanted <= self.stored().len() {
            return true;
        }
        // Without holes, times may be made less exact; SACKs must not be.
        if self.heap.is_none() && !self.is_plain() {
            self.grow();
            return true;
        }
        while self.len() + wanted > self.stored().len() {
            if !self.join_closest() {
                return false;
            }
        }
        true
    }

    /// Moves to the larger table. The ranges are at the front.
    fn grow(&mut self) {
        let len = self.len();
        let mut heap = Box::new(Table::new());
        heap.stored[..len].copy_from_slice(&self.inline.stored[..len]);
        heap.spreads[..len].copy_from_slice(&self.inline.spreads[..len]);
        heap.states[..len].copy_from_slice(&self.inline.states[..len]);
        self.open_until = CLOSED;
        self.plain_from = NO_POS;
        self.heap = Some(heap);
    }

    /// No recovery is in progress, with SND.NXT at `nxt`: frees the larger table, unless
    /// there are holes.
    pub(crate) fn shrink(&mut self, nxt: Pos) {
        if self.heap.is_none() || !self.is_plain() {
            return;
        }
        while self.len() > INLINE_RANGES - 2 {
            if !self.join_closest() {
                return;
            }
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        if let Some(heap) = self.heap.take() {
            self.inline.stored[..z - a].copy_from_slice(&heap.stored[a..z]);
            self.inline.spreads[..z - a].copy_from_slice(&heap.spreads[a..z]);
            self.inline.states[..z - a].copy_from_slice(&heap.states[a..z]);
            self.first = 0;
            self.open_until = CLOSED;
            self.plain_from = nxt;
        }
    }

    /// Joins the two neighbours of the same state whose times differ least.
    fn join_closest(&mut self) -> bool {
        let state = |i: usize| self.states()[self.index(i)];
        let at = |i: usize| self.last_of(self.index(i));
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
        let first = self.first_of(a).earlier(self.first_of(b));
        let at = self.last_of(a).later(self.last_of(b));
        let state = self.states()[a] | self.states()[b];
        if state != self.states()[a] || state != self.states()[b] {
            self.plain_from = NO_POS;
        }
        let z = self.index(self.len());
        self.shift(b, z, a);
        self.set_times(a, first, at);
        self.states_mut()[a] = state;
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
        let state = self.states()[a];
        let timeless = state.intersects(RangeState::SACKED | RangeState::LOST);
        let near = || {
            self.last_of(a)
                .is_same_tick(self.last_of(b), self.granularity)
        };
        state == self.states()[b] && (timeless || near())
    }
}
