//! Where the ranges of a scoreboard are stored: a small table in the connection, and a larger one on
//! the heap while there are many.
//!
//! Owns [`Ranges`]. Which of its entries are in use is for the scoreboard to say.

use super::{INLINE_RANGES, MAX_RANGES, RangeState, Stamp, Times};
use crate::pos::Pos;
use crate::time::Instant;
use core::ops::Range;

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
struct Table<const N: usize> {
    stored: [Stored; N],
    /// Difference between the times of the last and the first part, microseconds. It
    /// saturates at 65 ms, which joined neighbours exceed only on a path of seconds,
    /// where that is little.
    spreads: [u16; N],
    states: [RangeState; N],
}

impl<const N: usize> Table<N> {
    const fn new() -> Table<N> {
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

/// Stored ranges, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranges {
    inline: Table<INLINE_RANGES>,
    /// Used instead of `inline` once that is too small, until the recovery ends.
    heap: Option<Box<Table<MAX_RANGES>>>,
}

impl Ranges {
    pub(super) const fn new() -> Ranges {
        Ranges {
            inline: Table::new(),
            heap: None,
        }
    }

    /// Whether they are in the larger table.
    #[inline(always)]
    pub(super) const fn are_many(&self) -> bool {
        self.heap.is_some()
    }

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
    pub(super) fn shift(&mut self, from: usize, to: usize, at: usize) {
        self.stored_mut().copy_within(from..to, at);
        self.spreads_mut().copy_within(from..to, at);
        self.states_mut().copy_within(from..to, at);
    }

    /// Moves the first `len` ranges to the larger table.
    pub(super) fn grow(&mut self, len: usize) {
        let mut heap = Box::new(Table::new());
        heap.stored[..len].copy_from_slice(&self.inline.stored[..len]);
        heap.spreads[..len].copy_from_slice(&self.inline.spreads[..len]);
        heap.states[..len].copy_from_slice(&self.inline.states[..len]);
        self.heap = Some(heap);
    }

    /// Moves these ranges to the front of the small table, which has room for them, and frees the
    /// larger one.
    pub(super) fn shrink(&mut self, used: Range<usize>) {
        if let Some(heap) = self.heap.take() {
            let len = used.len();
            self.inline.stored[..len].copy_from_slice(&heap.stored[used.clone()]);
            self.inline.spreads[..len].copy_from_slice(&heap.spreads[used.clone()]);
            self.inline.states[..len].copy_from_slice(&heap.states[used]);
        }
    }

    // ---- Times. ----

    /// Extends the range at index `i` of the table to `end`, with data sent at `at`.
    #[inline(always)]
    pub(super) fn extend(&mut self, i: usize, end: Pos, at: Stamp) {
        let first = self.first_of(i);
        self.stored_mut()[i].end = end as u32;
        self.set_times(i, first, at);
    }

    /// When the first part of the range at index `i` of the table was sent.
    #[inline]
    pub(super) fn first_of(&self, i: usize) -> Stamp {
        self.stored()[i].first
    }

    /// When its last part was sent.
    #[inline]
    pub(super) fn last_of(&self, i: usize) -> Stamp {
        self.stored()[i].first.after(self.spreads()[i])
    }

    /// If the two times are too far apart to be stored, the first one is stored too late.
    #[inline]
    pub(super) fn set_times(&mut self, i: usize, first: Stamp, at: Stamp) {
        let spread = at.since(first).clamp(0, i32::from(u16::MAX)) as u16;
        self.stored_mut()[i].first = at.before(spread);
        self.spreads_mut()[i] = spread;
    }

    // ---- In the small table: its indices need no check. ----

    /// As [`extend`](Self::extend), within one tick, which is 65 ms at most.
    #[inline(always)]
    pub(super) fn extend_inline(&mut self, i: usize, end: Pos, at: Stamp) {
        let i = i % INLINE_RANGES;
        let s = &mut self.inline.stored[i];
        s.end = end as u32;
        self.inline.spreads[i] = at.since(s.first) as u16;
    }

    /// The low 32 bits of where the range at index `i` ends.
    #[inline(always)]
    pub(super) fn inline_end(&self, i: usize) -> u32 {
        self.inline.stored[i % INLINE_RANGES].end
    }

    /// When the first and the last part of the range at index `i` of the small table were sent.
    #[inline(always)]
    pub(super) fn inline_times(&self, i: usize) -> Times {
        let i = i % INLINE_RANGES;
        let first = self.inline.stored[i].first;
        (first, first.after(self.inline.spreads[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Stamp {
        Stamp::new(Instant(micros))
    }

    #[test]
    fn ranges_go_to_the_larger_table_and_back_as_they_are() {
        let mut ranges = Ranges::new();
        for i in 0..3 {
            ranges.stored_mut()[i].first = at(100 * i as u64);
            ranges.extend(i, 1_000 * (i as Pos + 1), at(100 * i as u64 + 7));
            ranges.states_mut()[i] = RangeState::SACKED;
        }
        let seen = |ranges: &Ranges, from: usize| {
            [0, 1, 2].map(|i| {
                let stored = ranges.stored()[from + i].end;
                let times = (ranges.first_of(from + i), ranges.last_of(from + i));
                (stored, times, ranges.states()[from + i])
            })
        };
        let before = seen(&ranges, 0);
        assert_eq!(before[2], (3_000, (at(200), at(207)), RangeState::SACKED));
        ranges.grow(3);
        assert!(ranges.are_many() && ranges.stored().len() == MAX_RANGES);
        assert_eq!(seen(&ranges, 0), before);
        ranges.shift(0, 3, 5);
        ranges.shrink(5..8);
        assert!(!ranges.are_many() && ranges.stored().len() == INLINE_RANGES);
        assert_eq!(seen(&ranges, 0), before);
        assert_eq!(ranges.inline_end(2), 3_000);
        ranges.extend_inline(2, 3_500, at(250));
        assert_eq!(
            (ranges.inline_end(2), ranges.inline_times(2)),
            (3_500, (at(200), at(250)))
        );
    }
}
