//! What has arrived out of order: ranges above RCV.NXT, bounded and inline.
//!
//! Owns [`Assembler`]. `input/data.rs` puts ranges in and takes them out when the
//! hole below is filled; `output/options.rs` makes SACK blocks of them.
//!
//! When the table is full a newcomer that touches no range is refused, even if it
//! lies below the others: throwing a reported range out in its favour would break
//! the promise that a SACK block makes (RFC 2018 section 8 allows it, but a sender
//! finds out only by timeout). Progress is safe, for what continues RCV.NXT needs
//! no room here.

use crate::ranges::{Full, RangeSet};
use crate::tcb::Pos;

/// How many separate ranges are remembered.
pub(crate) const MAX_RANGES: usize = 32;

/// The out-of-order ranges of a receive stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assembler {
    ranges: RangeSet<MAX_RANGES>,
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
        while !self.is_empty() {
            let (start, end) = self.ranges.get(old_rcv_nxt, 0);
            if start > edge {
                break;
            }
            edge = edge.max(end);
            self.ranges.trim_below(old_rcv_nxt, end);
        }
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

    /// Bytes of `start..end` that are here already.
    pub(crate) fn covered(&self, rcv_nxt: Pos, start: Pos, end: Pos) -> u64 {
        self.ranges.count_within(rcv_nxt, start, end)
    }
}

#[cfg(test)]
mod tests;
