//! The scoreboard: data in flight by range, with the time when each was last sent and
//! what became of it (RFC 2018, RFC 6675 section 4, RFC 8985 section 5).
//!
//! Owns [`Scoreboard`]. Output records what is sent, `input/ack.rs` what is acknowledged,
//! and `recovery/` asks what is lost, what to send next and how much is in the network.
//!
//! RACK needs the transmit time of every segment. A window may hold ten thousand of them,
//! and nothing is allocated here, so neighbours share a [`SentRange`]: a segment sent
//! within one tick of a clock a few times finer than the reordering window (see
//! [`granularity`]) extends the last range, and a SACK block or a retransmission splits a
//! range where necessary. A path without loss thus needs some forty ranges whatever its
//! rate. The ranges are contiguous from SND.UNA to SND.NXT, so each stores only its end.
//! When the table is full, the two neighbours whose times differ least are merged.
//!
//! A range records when its first and its last part were sent. Delivery uses the first
//! time, loss detection the last, so that inexact times delay the detection of a loss by
//! the difference and never cause a false one.
//!
//! If the table is full and no two neighbours have the same state, a further SACK block
//! is ignored: the sender then assumes that less has arrived than has, and at worst
//! retransmits it.

mod in_order;
mod ranges;
mod sent_range;
mod table;

pub(crate) use sent_range::{RangeState, SentRange, Stamp, granularity};

use crate::pos::{NO_POS, Pos};
use crate::time::Instant;
use crate::violation::{Violation, require};
use in_order::CLOSED;
use ranges::Ranges;

/// Number of ranges stored inline: enough for a path without loss, and for a few losses
/// in a window.
pub(crate) const INLINE_RANGES: usize = 64;
/// Number of ranges in the heap table, used while there are many losses, for example
/// after a queue has overflowed: 1023 SACKed ranges and the holes between them, as many
/// as our receiver keeps.
pub(crate) const MAX_RANGES: usize = 2048;

/// When the first and the last part of a range were sent.
pub(crate) type Times = (Stamp, Stamp);

/// The ranges in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scoreboard {
    ranges: Ranges,
    /// The ranges are `first..first + len` of the table.
    first: u16,
    len: u16,
    /// The tick within which sends share a range, see [`granularity`].
    granularity: u8,
    /// Index of the last range in the table, if that is the small one.
    open_at: u8,
    /// Until then a send extends the last range: until the range's tick ends or the range
    /// is changed in another way.
    open_until: Instant,
    /// From this position on nothing was `RETRANSMITTED`, and all ranges are in the small table;
    /// `NO_POS` if unknown.
    plain_from: Pos,
    /// Bytes that are `SACKED`, and bytes that are `LOST`.
    sacked: u64,
    lost: u64,
}

impl Scoreboard {
    pub(crate) const fn new() -> Scoreboard {
        Scoreboard {
            ranges: Ranges::new(),
            first: 0,
            len: 0,
            granularity: 0,
            open_at: 0,
            open_until: CLOSED,
            plain_from: Pos::MIN,
            sacked: 0,
            lost: 0,
        }
    }

    /// Bytes that the peer has reported by SACK.
    pub(crate) const fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Bytes that are considered lost and wait to be retransmitted.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Nothing is SACKed and nothing is lost.
    pub(crate) const fn is_plain(&self) -> bool {
        self.sacked == 0 && self.lost == 0
    }

    /// The number of ranges.
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    // ---- Retransmissions. ----

    /// `start..end` is retransmitted.
    pub(crate) fn repeat(&mut self, una: Pos, start: Pos, end: Pos, now: Instant) {
        self.plain_from = self.plain_from.max(end);
        let Some((from, to)) = self.split_out(una, start, end) else {
            // There is no room to split it off: the ranges that it touches count as
            // retransmitted too, and a part that was not is detected as lost later.
            self.plain_from = NO_POS;
            self.for_each(una, |s| {
                if s.start < end && s.end > start && !s.is_sacked() {
                    s.state = (s.state | RangeState::RETRANSMITTED) - RangeState::LOST;
                    s.first = Stamp::new(now);
                    s.at = s.first;
                }
            });
            return self.merge();
        };
        for i in from..to {
            let mut s = self.get(una, i);
            if !s.is_sacked() {
                s.state = (s.state | RangeState::RETRANSMITTED) - RangeState::LOST;
                s.first = Stamp::new(now);
                s.at = s.first;
                self.put(i, s);
            }
        }
        self.merge_around(from, to);
    }

    // ---- Acknowledgments. ----

    /// SND.UNA advances from `old_una` to `una`; `on_range` is called with each range, or
    /// part of one, that this covers.
    #[inline]
    pub(crate) fn advance(&mut self, old_una: Pos, una: Pos, mut on_range: impl FnMut(SentRange)) {
        let mut start = old_una;
        while self.len > 0 && start < una {
            let mut s = self.get_from(start, 0);
            let covered = s.end <= una;
            start = s.end;
            s.end = s.end.min(una);
            self.uncount(s.state, s.len());
            on_range(s);
            if !covered {
                return;
            }
            self.first += 1;
            self.len -= 1;
        }
        if self.len == 0 {
            self.first = 0;
            if self.plain_from == NO_POS && !self.ranges.are_many() {
                self.plain_from = Pos::MIN;
            }
            self.open_until = CLOSED;
        }
    }

    /// Records a SACK block within `una..snd_nxt` (checked by the caller); `on_range` is
    /// called with each newly reported part. Returns the number of newly reported bytes.
    pub(crate) fn sack(
        &mut self,
        una: Pos,
        start: Pos,
        end: Pos,
        mut on_range: impl FnMut(SentRange),
    ) -> u64 {
        if self.is_sacked_within(una, start, end) {
            return 0;
        }
        let Some((from, to)) = self.split_out(una, start, end) else {
            return 0;
        };
        let before = self.sacked;
        for i in from..to {
            let mut s = self.get(una, i);
            if s.is_sacked() {
                continue;
            }
            on_range(s);
            s.state = RangeState::SACKED;
            self.put(i, s);
        }
        self.merge_around(from, to);
        self.sacked - before
    }

    /// Whether all of `start..end` is SACKed.
    pub(crate) fn is_sacked_within(&self, una: Pos, start: Pos, end: Pos) -> bool {
        if self.sacked == 0 {
            return false;
        }
        let i = self.find(una, start);
        i < self.len() && {
            let s = self.get(una, i);
            s.is_sacked() && s.start <= start && end <= s.end
        }
    }

    // ---- Loss. ----

    /// Marks ranges in the network as lost if `is_lost` says so. Returns the number of
    /// newly lost bytes.
    pub(crate) fn mark_lost(
        &mut self,
        una: Pos,
        mut is_lost: impl FnMut(&SentRange) -> bool,
    ) -> u64 {
        let before = self.lost;
        let mut start = una;
        for i in 0..self.len() {
            let mut s = self.get_from(start, i);
            start = s.end;
            if s.in_network() && is_lost(&s) {
                s.state |= RangeState::LOST;
                self.put(i, s);
            }
        }
        let new = self.lost - before;
        if new > 0 {
            self.merge();
        }
        new
    }

    /// Marks the part of `start..end` that is in the network as lost (more if the table
    /// is full). Returns the number of newly lost bytes.
    pub(crate) fn mark_lost_within(&mut self, una: Pos, start: Pos, end: Pos) -> u64 {
        let _ = self.split_out(una, start, end);
        self.mark_lost(una, |s| s.start < end && s.end > start)
    }

    /// The loss was spurious: data that waits to be retransmitted counts as in the
    /// network.
    pub(crate) fn unmark_lost(&mut self, una: Pos) {
        self.for_each(una, |s| s.state.remove(RangeState::LOST));
        self.merge();
    }

    /// Forgets all SACKs, since the peer may have discarded that data (RFC 2018 section
    /// 8).
    pub(crate) fn forget_sacked(&mut self, una: Pos) {
        self.for_each(una, |s| s.state.remove(RangeState::SACKED));
        self.merge();
    }

    // ---- Queries. ----

    /// The first range that has to be retransmitted.
    pub(crate) fn first_lost(&self, una: Pos) -> Option<SentRange> {
        if self.lost == 0 {
            return None;
        }
        let i = self.position(RangeState::LOST)?;
        Some(self.get(una, i))
    }

    /// Whether the first range that is lost and not yet retransmitted begins at `pos`.
    pub(crate) fn is_lost_from(&self, una: Pos, pos: Pos) -> bool {
        self.first_lost(una).is_some_and(|lost| lost.start == pos)
    }

    /// The end of the highest SACKed range; `una` if there is none.
    pub(crate) fn highest(&self, una: Pos) -> Pos {
        if self.sacked == 0 {
            return una;
        }
        let states = &self.ranges.states()[self.index(0)..self.index(self.len())];
        let last = states.iter().rposition(|f| f.contains(RangeState::SACKED));
        last.map_or(una, |i| self.get(una, i).end)
    }

    /// Whether the data at SND.UNA is SACKed: a peer that had it in order would have
    /// acknowledged it, so it has discarded data (reneging).
    pub(crate) fn is_reneged(&self, una: Pos) -> bool {
        self.sacked > 0 && self.get(una, 0).is_sacked()
    }

    /// Number of SACKed segments, estimated by dividing bytes by `mss`, but at most about
    /// `enough`.
    pub(crate) fn segments_sacked(&self, una: Pos, mss: u16, enough: u64) -> u64 {
        let mut segments = 0;
        for s in self.iter(una).filter(SentRange::is_sacked) {
            segments += s.len().div_ceil(u64::from(mss.max(1)));
            if segments >= enough {
                break;
            }
        }
        segments
    }

    /// Retransmitted bytes that are in the network.
    pub(crate) fn retransmitted_in_network(&self, una: Pos) -> u64 {
        self.iter(una)
            .filter(|s| s.was_retransmitted() && s.in_network())
            .map(|s| s.len())
            .sum()
    }

    /// The ranges, lowest first.
    pub(crate) fn iter(&self, una: Pos) -> impl Iterator<Item = SentRange> + '_ {
        let mut start = una;
        (0..self.len()).map(move |i| {
            let s = self.get_from(start, i);
            start = s.end;
            s
        })
    }

    // ---- The table. ----

    #[inline]
    fn index(&self, i: usize) -> usize {
        usize::from(self.first) + i
    }

    /// The first range with this state.
    fn position(&self, state: RangeState) -> Option<usize> {
        let states = &self.ranges.states()[self.index(0)..self.index(self.len())];
        states.iter().position(|f| f.contains(state))
    }

    /// Range `i`, which starts at `start`.
    fn get_from(&self, start: Pos, i: usize) -> SentRange {
        let at = self.index(i);
        let stored = self.ranges.stored()[at];
        SentRange {
            start,
            end: start + i64::from(stored.end.wrapping_sub(start as u32)),
            first: self.ranges.first_of(at),
            at: self.ranges.last_of(at),
            state: self.ranges.states()[at],
        }
    }

    fn get(&self, una: Pos, i: usize) -> SentRange {
        let start = match i {
            0 => una,
            _ => {
                let end = self.ranges.stored()[self.index(i - 1)].end;
                una + i64::from(end.wrapping_sub(una as u32))
            }
        };
        self.get_from(start, i)
    }

    fn count(&mut self, state: RangeState, bytes: u64) {
        if state.contains(RangeState::SACKED) {
            self.sacked += bytes;
        } else if state.contains(RangeState::LOST) {
            self.lost += bytes;
        }
    }

    fn uncount(&mut self, state: RangeState, bytes: u64) {
        if state.contains(RangeState::SACKED) {
            self.sacked -= bytes;
        } else if state.contains(RangeState::LOST) {
            self.lost -= bytes;
        }
    }

    /// Replaces times and state of range `i`.
    fn put(&mut self, i: usize, s: SentRange) {
        let at = self.index(i);
        self.open_until = CLOSED;
        self.uncount(self.ranges.states()[at], s.len());
        self.ranges.set_times(at, s.first, s.at);
        self.ranges.states_mut()[at] = s.state;
        self.count(s.state, s.len());
    }

    /// Calls `change` for each range, which may change its times and state.
    fn for_each(&mut self, una: Pos, mut change: impl FnMut(&mut SentRange)) {
        let mut start = una;
        for i in 0..self.len() {
            let mut s = self.get_from(start, i);
            start = s.end;
            change(&mut s);
            self.put(i, s);
        }
    }

    /// See [`Tcb::check`](crate::Tcb::check): the ranges are contiguous from `una` to
    /// `nxt`, and the sums are correct. A SYN alone has no range.
    pub(crate) fn check(&self, una: Pos, nxt: Pos) -> Result<(), Violation> {
        let (mut end, mut sacked, mut lost) = (una, 0, 0);
        for s in self.iter(una) {
            require(s.end > s.start, "a range with nothing in it")?;
            end = s.end;
            if s.is_sacked() {
                sacked += s.len();
            } else if s.state.contains(RangeState::LOST) {
                lost += s.len();
            }
        }
        require(end <= nxt, "ranges of what is not in flight")?;
        require(end == nxt || nxt <= 0, "something in flight has no range")?;
        let sums = (self.sacked, self.lost);
        require(sums == (sacked, lost), "sums that are not the ranges'")
    }
}

#[cfg(test)]
mod tests;
