//! A bounded, ordered set of disjoint ranges of positions, kept inline.
//!
//! Owns [`RangeSet`], which the assembler (out-of-order data) uses. Bounds are stored as
//! the low 32 bits of positions, which halves the size: all ranges lie within a window,
//! so 32 bits and a base near them determine the position. Each call takes that base, a
//! position not above any range and less than 2^31 below.

use crate::pos::Pos;

/// A stored range: its first position, and the one after its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stored {
    start: u32,
    end: u32,
}

/// At most `MOST` disjoint, non-adjacent ranges in ascending order. `N` of them are
/// stored inline; more take one allocation, which is freed with the last range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeSet<const N: usize, const MOST: usize> {
    ranges: [Stored; N],
    /// All ranges, if they are or were more than `N`.
    more: Option<Box<[Stored; MOST]>>,
    len: u16,
}

/// There was no room for one more range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

fn widen(base: Pos, low: u32) -> Pos {
    base + i64::from(low.wrapping_sub(base as u32))
}

impl<const N: usize, const MOST: usize> RangeSet<N, MOST> {
    pub(crate) const fn new() -> Self {
        RangeSet {
            ranges: [Stored { start: 0, end: 0 }; N],
            more: None,
            len: 0,
        }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Storage for ranges; the first `len` are in use.
    fn slots(&self) -> &[Stored] {
        match &self.more {
            None => &self.ranges,
            Some(more) => &more[..],
        }
    }

    fn slots_mut(&mut self) -> &mut [Stored] {
        match &mut self.more {
            None => &mut self.ranges,
            Some(more) => &mut more[..],
        }
    }

    /// Makes room for one more range.
    fn grow(&mut self) -> Result<(), Full> {
        let count = self.len();
        if count < self.slots().len() {
            return Ok(());
        }
        if self.more.is_some() || MOST <= N {
            return Err(Full);
        }
        let mut more = Box::new([Stored::default(); MOST]);
        for (to, from) in more.iter_mut().zip(self.ranges) {
            *to = from;
        }
        self.more = Some(more);
        Ok(())
    }

    /// The ranges in use.
    fn used(&self) -> &[Stored] {
        self.slots().get(..self.len()).unwrap_or_default()
    }

    /// Range number `i`, lowest first; `i` must be below `len`.
    pub(crate) fn get(&self, base: Pos, i: usize) -> (Pos, Pos) {
        let r = self.slots().get(i).copied().unwrap_or_default();
        (widen(base, r.start), widen(base, r.end))
    }

    /// The ranges, lowest first.
    pub(crate) fn iter(&self, base: Pos) -> impl DoubleEndedIterator<Item = (Pos, Pos)> + '_ {
        self.used()
            .iter()
            .map(move |r| (widen(base, r.start), widen(base, r.end)))
    }

    /// The number of ranges that end below `pos`.
    fn below(&self, base: Pos, pos: Pos) -> usize {
        let ranges = self.used();
        // New data extends the highest range more often than any other.
        match ranges.last() {
            Some(last) if widen(base, last.end) >= pos => {
                ranges.partition_point(|r| widen(base, r.end) < pos)
            }
            _ => ranges.len(),
        }
    }

    /// Adds `start..end` and merges it with ranges that it touches. Returns how many of
    /// its positions were new. On `Full` nothing has changed.
    pub(crate) fn insert(&mut self, base: Pos, start: Pos, end: Pos) -> Result<u64, Full> {
        if start >= end {
            return Ok(0);
        }
        let count = self.len();
        let first = self.below(base, start);
        let (mut low, mut high) = (start, end);
        let mut covered = 0;
        let mut past = first;
        while past < count {
            let (s, e) = self.get(base, past);
            if s > end {
                break;
            }
            covered += (e.min(end) - s.max(start)).max(0) as u64;
            low = low.min(s);
            high = high.max(e);
            past += 1;
        }
        if past == first {
            self.grow()?;
            self.slots_mut().copy_within(first..count, first + 1);
            self.len += 1;
        } else {
            self.slots_mut().copy_within(past..count, first + 1);
            self.len -= (past - first - 1) as u16;
        }
        if let Some(slot) = self.slots_mut().get_mut(first) {
            *slot = Stored {
                start: low as u32,
                end: high as u32,
            };
        }
        Ok((end - start) as u64 - covered)
    }

    /// Removes everything below `pos` and returns the number of positions removed.
    pub(crate) fn trim_below(&mut self, base: Pos, pos: Pos) -> u64 {
        let mut gone = 0;
        let mut keep = 0;
        let count = self.len();
        while keep < count {
            let (s, e) = self.get(base, keep);
            if e > pos {
                if s < pos {
                    gone += (pos - s) as u64;
                    if let Some(slot) = self.slots_mut().get_mut(keep) {
                        slot.start = pos as u32;
                    }
                }
                break;
            }
            gone += (e - s) as u64;
            keep += 1;
        }
        if keep > 0 {
            self.slots_mut().copy_within(keep..count, 0);
            self.len -= keep as u16;
            if self.is_empty() {
                self.more = None;
            }
        }
        gone
    }

    /// How many positions of `start..end` are in the set.
    pub(crate) fn count_within(&self, base: Pos, start: Pos, end: Pos) -> u64 {
        self.ranges_from(base, start)
            .take_while(|&(s, _)| s < end)
            .map(|(s, e)| (e.min(end) - s.max(start)).max(0) as u64)
            .sum()
    }

    /// The range that contains `pos`.
    pub(crate) fn find(&self, base: Pos, pos: Pos) -> Option<(Pos, Pos)> {
        self.ranges_from(base, pos)
            .next()
            .filter(|&(s, _)| s <= pos)
    }

    /// The ranges that end above `pos`, lowest first.
    pub(crate) fn ranges_from(&self, base: Pos, pos: Pos) -> impl Iterator<Item = (Pos, Pos)> + '_ {
        let first = self.below(base, pos + 1);
        (first..self.len()).map(move |i| self.get(base, i))
    }
}

#[cfg(test)]
mod tests;
