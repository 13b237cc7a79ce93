//! Data beyond RCV.NXT, and its reports to the peer.
//!
//! Owns [`Reassembly`], which is part of the `Tcb`. `input/data.rs` inserts and removes
//! ranges, `output/segment.rs` asks for the SACK blocks that report them. All of this state may be
//! discarded: the peer then retransmits what was never acknowledged.

use crate::assembler::Assembler;
use crate::flags::Flags;
use crate::paws::PawsBound;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::violation::{Violation, require};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::SackBlocks;

/// Length of a SACK option with so many blocks, bytes.
pub(crate) const fn sack_len(blocks: usize) -> u16 {
    match blocks {
        0 => 0,
        n => 4 + 8 * n as u16,
    }
}

/// Out-of-order ranges, and the order in which they are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reassembly {
    /// The duplicate to report first in the next SACK option (RFC 2883).
    duplicate: (SeqNumber, SeqNumber),
    /// The latest out-of-order arrivals, each in another range, the most recent first
    /// (RFC 2018 section 4: they are reported in this order).
    recent: [SeqNumber; 3],
    /// The lower bound for timestamps while segments are missing.
    paws: PawsBound,
    pub(crate) ranges: Assembler,
}

impl Reassembly {
    /// All data has arrived in order.
    pub(crate) const fn new() -> Reassembly {
        Reassembly {
            duplicate: (SeqNumber(0), SeqNumber(0)),
            recent: [SeqNumber(0); 3],
            paws: PawsBound::new(),
            ranges: Assembler::new(),
        }
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, rcv: &ReceiveSide) -> Result<(), Violation> {
        let mut below = rcv.nxt();
        for (start, end) in self.ranges.iter(rcv.nxt()) {
            require(start > below, "a range that is not beyond RCV.NXT")?;
            require(start < end, "a range with nothing in it")?;
            require(end <= rcv.adv(), "a range beyond the window")?;
            require(end <= rcv.fin(), "a range beyond the peer's FIN")?;
            below = end;
        }
        Ok(())
    }

    /// The first hole is about to appear: TS.Recent may advance with the next segment
    /// that fills one, while missing segments were sent earlier.
    pub(crate) fn note_first_hole(&mut self, rcv: &ReceiveSide, stamps: &TimestampState) {
        if self.ranges.is_empty() {
            self.follow_paws_bound(rcv, stamps);
        }
    }

    /// Whether a segment with an older timestamp than TS.Recent may be one that is late: some
    /// are missing, or were a window ago, and its timestamp is not below theirs.
    pub(crate) fn admits_late(&self, rcv: &ReceiveSide, timestamp: u32) -> bool {
        let late = !self.ranges.is_empty() || rcv.nxt() < self.paws.until;
        late && self.paws.admits(timestamp)
    }

    /// TS.Recent may advance past the timestamps of segments that have not arrived yet.
    pub(crate) fn follow_paws_bound(&mut self, rcv: &ReceiveSide, stamps: &TimestampState) {
        self.paws.follow(stamps.recent(), rcv.nxt(), rcv.adv());
    }

    /// Keeps the most recently changed ranges in order (RFC 2018 section 4).
    pub(crate) fn note_recent(&mut self, rcv: &ReceiveSide, pos: Pos) {
        let Some((start, end)) = self.ranges.find(rcv.nxt(), pos) else {
            return;
        };
        let mut r = self.recent;
        let inside = |seq| (start..end).contains(&rcv.pos(seq));
        if !inside(r[0]) {
            if !inside(r[1]) {
                r[2] = r[1];
            }
            r[1] = r[0];
        }
        r[0] = rcv.seq(pos);
        self.recent = r;
    }

    /// RFC 2883 section 4: reports the first part of `start..end` that is already in the
    /// assembler.
    pub(crate) fn note_first_overlap(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        start: Pos,
        end: Pos,
    ) {
        let overlap = self
            .ranges
            .ranges_from(rcv.nxt(), start)
            .next()
            .map(|(s, e)| (s.max(start), e.min(end)))
            .filter(|(s, e)| s < e);
        if let Some((s, e)) = overlap {
            self.note_dsack(snd, rcv, flags, s, e);
        }
    }

    /// A segment from `start` to `end` was a duplicate, completely or in front.
    pub(crate) fn note_duplicate(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        start: Pos,
        end: Pos,
    ) {
        let end = end.min(rcv.nxt());
        if start < end {
            self.note_dsack(snd, rcv, flags, start, end);
        }
    }

    pub(crate) fn note_dsack(
        &mut self,
        snd: &SendSide,
        rcv: &ReceiveSide,
        flags: &mut Flags,
        start: Pos,
        end: Pos,
    ) {
        if snd.sack() {
            *flags |= Flags::DSACK;
            self.duplicate = (rcv.seq(start), rcv.seq(end));
        }
    }

    #[inline]
    pub(crate) fn owes_sack(&self, snd: &SendSide, flags: Flags) -> bool {
        snd.sack() && (!self.ranges.is_empty() || flags.contains(Flags::DSACK))
    }

    /// How many SACK blocks fit beside the timestamps; all options together have 40
    /// bytes.
    fn sack_room(&self, flags: Flags) -> usize {
        if flags.contains(Flags::TIMESTAMPS) {
            3
        } else {
            4
        }
    }

    /// Length of the SACK option in the next segment, bytes.
    #[inline]
    pub(crate) fn sack_len_due(&self, snd: &SendSide, flags: Flags) -> u16 {
        if !self.owes_sack(snd, flags) {
            return 0;
        }
        let blocks = self.ranges.len() + usize::from(flags.contains(Flags::DSACK));
        sack_len(blocks.min(self.sack_room(flags)))
    }

    /// RFC 2883 section 4: the first block reports a duplicate, if there was one. RFC
    /// 2018 section 4: the range with the latest arrival follows, then those reported
    /// most recently before.
    pub(crate) fn sack_blocks(&self, rcv: &ReceiveSide, flags: Flags) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let room = self.sack_room(flags);
        if flags.contains(Flags::DSACK) {
            let (start, end) = self.duplicate;
            blocks.push(start, end);
        }
        let recent = self
            .recent
            .iter()
            .filter_map(|&seq| self.ranges.find(rcv.nxt(), rcv.pos(seq)));
        let mut seen = [0; 4];
        let mut count = 0;
        for (start, end) in recent.chain(self.ranges.iter(rcv.nxt())) {
            if blocks.len() >= room {
                break;
            }
            if seen.iter().take(count).any(|s| *s == start) {
                continue;
            }
            if let Some(slot) = seen.get_mut(count) {
                *slot = start;
            }
            count += 1;
            blocks.push(rcv.seq(start), rcv.seq(end));
        }
        blocks
    }
}

#[cfg(test)]
mod tests;
