//! The out-of-order ranges above RCV.NXT, bounded in number.
//!
//! Owns [`Assembler`]. `input/data.rs` inserts ranges and removes them when the hole
//! below is filled; `output/options.rs` builds SACK blocks from them.
//!
//! When the table is full, a new range that touches no other is refused even if it lies
//! below the others: discarding a range that was reported would break the promise of its
//! SACK block (RFC 2018 section 8 allows it, but the sender finds out only by timeout).
//! Progress is safe because data that continues RCV.NXT needs no entry here.

use crate::pos::Pos;
use crate::ranges::{Full, RangeSet};

/// The most separate ranges that are kept: enough for a queue that has overflowed on a
/// long path, where many losses follow each other. A peer that makes holes on purpose
/// costs 8 KiB and no more time than any other.
pub(crate) const MAX_RANGES: usize = 1024;
/// How many ranges are stored without allocation: a few losses in a window. Every
/// connection reserves the memory for these, and most never use it.
const FEW_RANGES: usize = 8;

/// The out-of-order ranges of a receive stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assembler {
    ranges: RangeSet<FEW_RANGES, MAX_RANGES>,
}

impl Assembler {
    pub(crate) const fn new() -> Assembler {
        Assembler {
            ranges: RangeSet::new(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    pub(crate) const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Inserts a range above `rcv_nxt` and returns how many of its bytes were new.
    pub(crate) fn add(&mut self, rcv_nxt: Pos, start: Pos, end: Pos) -> Result<u64, Full> {
        self.ranges.insert(rcv_nxt, start, end)
    }

    /// In-order data has moved RCV.NXT from `old_rcv_nxt` to `rcv_nxt`: removes the
    /// ranges that it reached and returns the new RCV.NXT.
    pub(crate) fn advance(&mut self, old_rcv_nxt: Pos, rcv_nxt: Pos) -> Pos {
        let mut edge = rcv_nxt;
        for (start, end) in self.ranges.iter(old_rcv_nxt) {
            if start > edge {
                break;
            }
            edge = edge.max(end);
        }
        self.ranges.trim_below(old_rcv_nxt, edge);
        edge
    }

    /// The range that contains `pos`.
    pub(crate) fn find(&self, rcv_nxt: Pos, pos: Pos) -> Option<(Pos, Pos)> {
        self.ranges.find(rcv_nxt, pos)
    }

    /// The ranges, lowest first.
    pub(crate) fn iter(&self, rcv_nxt: Pos) -> impl DoubleEndedIterator<Item = (Pos, Pos)> + '_ {
        self.ranges.iter(rcv_nxt)
    }

    /// The ranges that end above `pos`, lowest first.
    pub(crate) fn ranges_from(
        &self,
        rcv_nxt: Pos,
        pos: Pos,
    ) -> impl Iterator<Item = (Pos, Pos)> + '_ {
        self.ranges.ranges_from(rcv_nxt, pos)
    }

    /// How many bytes of `start..end` have already arrived.
    pub(crate) fn covered(&self, rcv_nxt: Pos, start: Pos, end: Pos) -> u64 {
        self.ranges.count_within(rcv_nxt, start, end)
    }
}

#[cfg(test)]
mod tests;
