//! What the peer reports to have received above SND.UNA (RFC 2018), and what
//! follows from it (RFC 6675 section 4).
//!
//! Owns [`Scoreboard`]. `input/ack.rs` puts SACK blocks in, `recovery.rs` asks what
//! is lost and what to send next. When its table is full, a block that touches no
//! other is ignored: the sender then believes less to have arrived than has, and at
//! worst repeats it.

use crate::ranges::RangeSet;
use crate::tcb::Pos;

/// How many separate ranges are remembered.
pub(crate) const MAX_RANGES: usize = 40;
/// DupThresh of RFC 6675.
pub(crate) const DUP_THRESH: u32 = 3;

/// The reported ranges of a send stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scoreboard {
    ranges: RangeSet<MAX_RANGES>,
    /// Bytes in them.
    sacked: u64,
}

impl Scoreboard {
    pub(crate) const fn new() -> Scoreboard {
        Scoreboard {
            ranges: RangeSet::new(),
            sacked: 0,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes reported.
    pub(crate) const fn sacked(&self) -> u64 {
        self.sacked
    }

    /// How many ranges there are.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.sacked = 0;
    }

    /// Takes a SACK block that lies in `snd_una..snd_nxt` (the caller has checked).
    /// Says how many of its bytes were not reported before.
    pub(crate) fn add(&mut self, snd_una: Pos, start: Pos, end: Pos) -> u64 {
        let new = self.ranges.insert(snd_una, start, end).unwrap_or(0);
        self.sacked += new;
        new
    }

    /// SND.UNA goes from `old_una` to `una`. Says how many reported bytes that
    /// covers.
    pub(crate) fn advance(&mut self, old_una: Pos, una: Pos) -> u64 {
        let gone = self.ranges.trim_below(old_una, una);
        self.sacked -= gone;
        gone
    }

    /// The highest reported position, plus one; `una` if there is none.
    pub(crate) fn highest(&self, una: Pos) -> Pos {
        match self.ranges.len() {
            0 => una,
            n => self.ranges.get(una, n - 1).1,
        }
    }

    /// Whether what starts at SND.UNA is reported: a peer that had it in order
    /// would have acknowledged it, so it has thrown data away (reneging).
    pub(crate) fn is_reneged(&self, una: Pos) -> bool {
        !self.is_empty() && self.ranges.get(una, 0).0 <= una
    }

    /// RFC 6675 section 4, IsLost: everything not reported below the returned
    /// position is lost, that is, it has DupThresh reported ranges or more than
    /// (DupThresh - 1) * SMSS reported bytes above it. `una` if nothing is.
    pub(crate) fn lost_edge(&self, una: Pos, mss: u32) -> Pos {
        let mut ranges = 0;
        let mut bytes = 0;
        for (start, end) in self.ranges.iter(una).rev() {
            ranges += 1;
            bytes += (end - start) as u64;
            if ranges >= DUP_THRESH || bytes > u64::from((DUP_THRESH - 1) * mss) {
                return start;
            }
        }
        una
    }

    /// Positions of `start..end` that are not reported.
    pub(crate) fn missing_within(&self, una: Pos, start: Pos, end: Pos) -> u64 {
        if start >= end {
            return 0;
        }
        (end - start) as u64 - self.ranges.count_within(una, start, end)
    }

    /// The first stretch that is not reported at or after `from` and below `limit`.
    pub(crate) fn next_hole(&self, una: Pos, from: Pos, limit: Pos) -> Option<(Pos, Pos)> {
        let mut start = from;
        for (s, e) in self.ranges.iter(una) {
            if e <= start {
                continue;
            }
            if s > start {
                return (start < limit).then_some((start, s.min(limit)));
            }
            start = e;
        }
        (start < limit).then_some((start, limit))
    }

    /// The ranges, lowest first.
    pub(crate) fn iter(&self, una: Pos) -> impl DoubleEndedIterator<Item = (Pos, Pos)> + '_ {
        self.ranges.iter(una)
    }
}

#[cfg(test)]
mod tests;
