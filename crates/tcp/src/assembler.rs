//! What has arrived out of order: ranges above RCV.NXT, bounded.
//!
//! Owns [`Assembler`]. `input/data.rs` puts ranges in and takes them out when the
//! hole below is filled; `output/options.rs` makes SACK blocks of them.
//!
//! When the table is full a newcomer that touches no range is refused, even if it
//! lies below the others: throwing a reported range out in its favour would break
//! the promise that a SACK block makes (RFC 2018 section 8 allows it, but a sender
//! finds out only by timeout). Progress is safe, for what continues RCV.NXT needs
//! no room here.

use crate::pos::Pos;
use crate::ranges::{Full, RangeSet};

/// How many separate ranges are remembered: enough for a queue that has overflowed on a
/// long path, where a loss follows the other. A peer that makes holes for their own sake
/// costs us 8 KiB and no more time than any other.
pub(crate) const MAX_RANGES: usize = 1024;
/// How many of them take no allocation: a few losses in a window. Every connection has the
/// memory for them, and most never need any.
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

    /// Takes an arrival above `rcv_nxt`. Says how many of its bytes were new.
    pub(crate) fn add(&mut self, rcv_nxt: Pos, start: Pos, end: Pos) -> Result<u64, Full> {
        self.ranges.insert(rcv_nxt, start, end)
    }

    /// RCV.NXT has been moved to `rcv_nxt` by an arrival in order, from
    /// `old_rcv_nxt`: takes out what that reached and says where RCV.NXT is then.
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

    /// The range that holds `pos`.
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

    /// Bytes of `start..end` that are here already.
    pub(crate) fn covered(&self, rcv_nxt: Pos, start: Pos, end: Pos) -> u64 {
        self.ranges.count_within(rcv_nxt, start, end)
    }
}

#[cfg(test)]
mod tests;
