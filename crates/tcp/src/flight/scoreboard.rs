//! What is in flight, range by range: when each was last sent, and what became of
//! it (RFC 2018, RFC 6675 section 4, RFC 8985 section 5).
//!
//! Owns [`Scoreboard`]. Output tells it what goes out, `input/ack.rs` what came back,
//! and `recovery/` asks what is lost, what to send next and how much is in the
//! network.
//!
//! RACK wants the transmit time of every segment. A window may hold ten thousand of
//! them, and nothing is allocated here, so neighbours share a [`SentRange`]: what goes
//! out in one tick of a clock a few times finer than the reordering window (see
//! [`granularity`]) extends the last one, and a SACK block or a repetition cuts a range
//! where it must. A path without loss thus needs some forty of them whatever its
//! rate. The ranges lie side by side from SND.UNA to SND.NXT, so each stores only
//! its end. When the table is full, the two neighbours whose times differ least become
//! one.
//!
//! A range knows when its first and its last part were sent. What is delivered counts
//! by the first, what may be lost by the last, so that what is not known exactly delays
//! the discovery of a loss by the difference and never invents one.
//!
//! If the table is full and every neighbour has another state, a further SACK block is
//! passed over: the sender believes less to have arrived than has, and at worst repeats
//! it.

mod in_order;
mod sent_range;
mod table;

pub(crate) use sent_range::{RangeState, SentRange, Stamp, granularity};

use crate::pos::{NO_POS, Pos};
use crate::time::Instant;
use crate::violation::{Violation, require};
use in_order::CLOSED;
use table::Table;

/// How many ranges are remembered in place: enough for a path without loss, and for a
/// few losses in a window.
pub(crate) const INLINE_RANGES: usize = 64;
/// How many are remembered while a loss follows the other, as where a queue has
/// overflowed: 1023 reported ranges and the holes between them, as many as a receiver of
/// ours remembers.
pub(crate) const MAX_RANGES: usize = 2048;

/// When the first and the last part of a range were sent.
pub(crate) type Times = (Stamp, Stamp);

/// What is in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scoreboard {
    inline: Table<INLINE_RANGES>,
    /// In its place from when it was too small until a recovery ends.
    heap: Option<Box<Table<MAX_RANGES>>>,
    /// The ranges are `first..first + len` of the table.
    first: u16,
    len: u16,
    /// What sends share a range, see [`granularity`].
    granularity: u8,
    /// The place in the table of the last range, if that is in `inline`.
    open_at: u8,
    /// So long, what goes out joins the last range: until its tick is over, or anything
    /// but that happens to it.
    open_until: Instant,
    /// Nothing from here on was `REPEATED`, and all of it is in `inline`; `NO_POS` if that
    /// is not known.
    plain_from: Pos,
    /// Bytes that are `SACKED`, and that are `LOST`.
    sacked: u64,
    lost: u64,
}

impl Scoreboard {
    pub(crate) const fn new() -> Scoreboard {
        Scoreboard {
            inline: Table::new(),
            heap: None,
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

    /// Bytes that the peer reports to have.
    pub(crate) const fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Bytes that are believed lost and wait to be repeated.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Nothing is reported and nothing lost.
    pub(crate) const fn is_plain(&self) -> bool {
        self.sacked == 0 && self.lost == 0
    }

    /// How many ranges there are.
    pub(crate) const fn len(&self) -> usize {
        self.len as usize
    }

    // ---- Times. ----

    /// The range at `i` of the tables grows to `end`, with something sent at `at`.
    #[inline(always)]
    fn extend(&mut self, i: usize, end: Pos, at: Stamp) {
        let first = self.first_of(i);
        self.stored_mut()[i].end = end as u32;
        self.set_times(i, first, at);
    }

    /// When the first part of the range at `i` of the tables was sent.
    #[inline]
    fn first_of(&self, i: usize) -> Stamp {
        self.stored()[i].first
    }

    /// When its last part was.
    #[inline]
    fn last_of(&self, i: usize) -> Stamp {
        self.stored()[i].first.after(self.spreads()[i])
    }

    /// If they are too far apart to be told, `first` is late.
    #[inline]
    fn set_times(&mut self, i: usize, first: Stamp, at: Stamp) {
        let spread = at.since(first).clamp(0, i32::from(u16::MAX)) as u16;
        self.stored_mut()[i].first = at.before(spread);
        self.spreads_mut()[i] = spread;
    }

    // ---- Sent again. ----

    /// `start..end`, sent before, goes out again.
    pub(crate) fn repeat(&mut self, una: Pos, start: Pos, end: Pos, now: Instant) {
        self.plain_from = self.plain_from.max(end);
        let Some((from, to)) = self.cut_out(una, start, end) else {
            // No room to tell it from its surroundings: they count as sent again
            // with it, and what was not is found lost in its turn.
            self.plain_from = NO_POS;
            self.for_each(una, |s| {
                if s.start < end && s.end > start && !s.is_sacked() {
                    s.state = (s.state | RangeState::REPEATED) - RangeState::LOST;
                    s.first = Stamp::new(now);
                    s.at = s.first;
                }
            });
            return self.merge();
        };
        for i in from..to {
            let mut s = self.get(una, i);
            if !s.is_sacked() {
                s.state = (s.state | RangeState::REPEATED) - RangeState::LOST;
                s.first = Stamp::new(now);
                s.at = s.first;
                self.put(i, s);
            }
        }
        self.merge_around(from, to);
    }

    // ---- What came back. ----

    /// SND.UNA goes from `old_una` to `una`, and `news` is told of each range, or
    /// part of one, that this covers.
    #[inline]
    pub(crate) fn advance(&mut self, old_una: Pos, una: Pos, mut news: impl FnMut(SentRange)) {
        let mut start = old_una;
        while self.len > 0 && start < una {
            let mut s = self.get_from(start, 0);
            let whole = s.end <= una;
            start = s.end;
            s.end = s.end.min(una);
            self.uncount(s.state, s.len());
            news(s);
            if !whole {
                return;
            }
            self.first += 1;
            self.len -= 1;
        }
        if self.len == 0 {
            self.first = 0;
            if self.plain_from == NO_POS && self.heap.is_none() {
                self.plain_from = Pos::MIN;
            }
            self.open_until = CLOSED;
        }
    }

    /// Takes a SACK block that lies in `una..snd_nxt` (the caller has checked); `news`
    /// is told of each part that was not reported before. Says how many bytes that
    /// were.
    pub(crate) fn sack(
        &mut self,
        una: Pos,
        start: Pos,
        end: Pos,
        mut news: impl FnMut(SentRange),
    ) -> u64 {
        if self.is_sacked_within(una, start, end) {
            return 0;
        }
        let Some((from, to)) = self.cut_out(una, start, end) else {
            return 0;
        };
        let before = self.sacked;
        for i in from..to {
            let mut s = self.get(una, i);
            if s.is_sacked() {
                continue;
            }
            news(s);
            s.state = RangeState::SACKED;
            self.put(i, s);
        }
        self.merge_around(from, to);
        self.sacked - before
    }

    /// Whether all of `start..end` is reported.
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

    // ---- What to think of it. ----

    /// Marks as lost what `is_lost` says of what is in the network. Says how many
    /// bytes that were.
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

    /// Marks as lost what is in the network of `start..end` (of more, if the table is
    /// full). Says how many bytes that were.
    pub(crate) fn mark_lost_within(&mut self, una: Pos, start: Pos, end: Pos) -> u64 {
        let _ = self.cut_out(una, start, end);
        self.mark_lost(una, |s| s.start < end && s.end > start)
    }

    /// Nothing was lost after all: what waits to be repeated is in the network.
    pub(crate) fn unmark_lost(&mut self, una: Pos) {
        self.for_each(una, |s| s.state.remove(RangeState::LOST));
        self.merge();
    }

    /// The peer may have thrown away what it reported (RFC 2018 section 8).
    pub(crate) fn forget_sacked(&mut self, una: Pos) {
        self.for_each(una, |s| s.state.remove(RangeState::SACKED));
        self.merge();
    }

    // ---- Questions. ----

    /// The first range that is to be repeated.
    pub(crate) fn first_lost(&self, una: Pos) -> Option<SentRange> {
        if self.lost == 0 {
            return None;
        }
        let i = self.position(RangeState::LOST)?;
        Some(self.get(una, i))
    }

    /// The highest reported position, plus one; `una` if there is none.
    pub(crate) fn highest(&self, una: Pos) -> Pos {
        if self.sacked == 0 {
            return una;
        }
        let states = &self.states()[self.index(0)..self.index(self.len())];
        let last = states.iter().rposition(|f| f.contains(RangeState::SACKED));
        last.map_or(una, |i| self.get(una, i).end)
    }

    /// Whether what starts at SND.UNA is reported: a peer that had it in order
    /// would have acknowledged it, so it has thrown data away (reneging).
    pub(crate) fn is_reneged(&self, una: Pos) -> bool {
        self.sacked > 0 && self.get(una, 0).is_sacked()
    }

    /// Segments of `mss` bytes that are reported, as far as bytes tell, but at most
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

    /// Bytes that were repeated and are in the network.
    pub(crate) fn repeated_in_network(&self, una: Pos) -> u64 {
        self.iter(una)
            .filter(|s| s.was_repeated() && s.in_network())
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
        let states = &self.states()[self.index(0)..self.index(self.len())];
        states.iter().position(|f| f.contains(state))
    }

    /// Range `i`, which begins at `start`.
    fn get_from(&self, start: Pos, i: usize) -> SentRange {
        let at = self.index(i);
        let stored = self.stored()[at];
        SentRange {
            start,
            end: start + i64::from(stored.end.wrapping_sub(start as u32)),
            first: self.first_of(at),
            at: self.last_of(at),
            state: self.states()[at],
        }
    }

    fn get(&self, una: Pos, i: usize) -> SentRange {
        let start = match i {
            0 => una,
            _ => {
                let end = self.stored()[self.index(i - 1)].end;
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

    /// Changes time and state of range `i`.
    fn put(&mut self, i: usize, s: SentRange) {
        let at = self.index(i);
        self.open_until = CLOSED;
        self.uncount(self.states()[at], s.len());
        self.set_times(at, s.first, s.at);
        self.states_mut()[at] = s.state;
        self.count(s.state, s.len());
    }

    /// Lets `change` change time and state of each range.
    fn for_each(&mut self, una: Pos, mut change: impl FnMut(&mut SentRange)) {
        let mut start = una;
        for i in 0..self.len() {
            let mut s = self.get_from(start, i);
            start = s.end;
            change(&mut s);
            self.put(i, s);
        }
    }
    /// See [`Tcb::check`](crate::Tcb::check): the ranges lie side by side from `una` to
    /// `nxt`, and the sums are theirs. A SYN alone makes none.
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
