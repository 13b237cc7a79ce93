//! The scoreboard's fast path while nothing is lost, SACKed or retransmitted: a send
//! extends the last range or appends one, and acknowledgments remove ranges from the
//! front.
//!
//! Owns those methods of [`Scoreboard`]. `output/` calls the former for all new data,
//! `input/fast_path.rs` the latter for predicted acknowledgments.

use super::ranges::Stored;
use super::{RangeState, Scoreboard, Stamp, Times};
use crate::pos::Pos;
use crate::time::Instant;

/// The value of `open_until` when it is unknown whether the next send extends a range.
pub(super) const CLOSED: Instant = Instant(0);

impl Scoreboard {
    /// New data up to `end`, which follows everything sent before, is sent; `granularity`
    /// is the result of [`granularity`](super::granularity), used if a range begins here.
    pub(crate) fn send(&mut self, end: Pos, now: Instant, granularity: u8) {
        if !self.send_with_last(end, now) {
            self.send_apart(end, now, granularity);
        }
    }

    /// As [`send`](Self::send), if the last range is not open.
    #[inline(never)]
    pub(crate) fn send_apart(&mut self, end: Pos, now: Instant, granularity: u8) {
        if !self.send_with_closed(end, now) {
            self.granularity = granularity;
            self.append(end, Stamp::new(now));
        }
        if !self.ranges.are_many() {
            self.open_until = now.next_tick(self.granularity);
            self.open_at = self.index(self.len() - 1) as u8;
        }
    }

    /// Extends the last range if it was sent within the same tick.
    fn send_with_closed(&mut self, end: Pos, now: Instant) -> bool {
        let at = Stamp::new(now);
        let Some(last) = self.len().checked_sub(1).map(|i| self.index(i)) else {
            return false;
        };
        let shared = self.ranges.stored()[last]
            .first
            .is_same_tick(at, self.granularity);
        let joins = shared && self.ranges.states()[last].is_empty();
        if joins {
            self.ranges.extend(last, end, at);
        }
        joins
    }

    /// Appends a range up to `end`.
    fn append(&mut self, end: Pos, at: Stamp) {
        if self.index(self.len()) >= self.ranges.stored().len() && !self.make_room(1) {
            // The last range is extended instead: at worst it is retransmitted
            // unnecessarily.
            let last = self.index(self.len() - 1);
            let stored = self.ranges.stored();
            let len = stored[last].end.wrapping_sub(stored[last - 1].end);
            self.uncount(self.ranges.states()[last], u64::from(len));
            self.ranges.states_mut()[last] -= RangeState::SACKED | RangeState::LOST;
            return self.ranges.extend(last, end, at);
        }
        let i = self.index(self.len());
        self.ranges.stored_mut()[i] = Stored {
            end: end as u32,
            first: at,
        };
        self.ranges.spreads_mut()[i] = 0;
        self.ranges.states_mut()[i] = RangeState::empty();
        self.len += 1;
    }

    /// As [`send`](Scoreboard::send), if the last range is open; otherwise returns
    /// `false` and changes nothing.
    #[inline(always)]
    pub(crate) fn send_with_last(&mut self, end: Pos, now: Instant) -> bool {
        if now >= self.open_until {
            return false;
        }
        self.ranges
            .extend_inline(self.open_at.into(), end, Stamp::new(now));
        true
    }

    /// Whether nothing is SACKed or lost, and nothing from SND.UNA on was retransmitted:
    /// then the two methods below may process the next acknowledgment.
    pub(crate) fn is_in_order(&self, una: Pos) -> bool {
        self.is_plain() && una >= self.plain_from
    }

    /// SND.UNA advances to SND.NXT, with data in flight that is all [in
    /// order](Scoreboard::is_in_order). Returns when the first and the last part of the
    /// last range were sent, which is all that the caller needs.
    #[inline(always)]
    pub(crate) fn finish_in_order(&mut self) -> Times {
        let last = self.index(self.len()).wrapping_sub(1);
        self.len = 0;
        self.first = 0;
        self.open_until = CLOSED;
        self.ranges.inline_times(last)
    }

    /// As [`finish_in_order`](Self::finish_in_order) if SND.UNA advances to `una` and
    /// data is left in flight: returns the times of the range that contains `una` or ends
    /// there.
    #[inline(always)]
    pub(crate) fn advance_in_order(&mut self, una: Pos) -> Times {
        let mut at = self.index(0);
        while let beyond = (una as u32).wrapping_sub(self.ranges.inline_end(at)) as i32
            && beyond >= 0
            && self.len > 1
        {
            self.first += 1;
            self.len -= 1;
            if beyond == 0 {
                break;
            }
            at += 1;
        }
        self.ranges.inline_times(at)
    }
}
