//! The scoreboard where nothing is lost, reported or repeated: what goes out joins the
//! last range or makes a new one, and what is acknowledged leaves at the front.
//!
//! Owns those methods of [`Scoreboard`]. `output/` calls the former for
//! all that goes out for the first time, `input/fast_path.rs` the latter for
//! acknowledgments that were predicted.

use super::table::Stored;
use super::{INLINE_RANGES, RangeState, Scoreboard, Stamp, Times};
use crate::pos::Pos;
use crate::time::Instant;

/// Of `open_until`: what goes out next joins no range, as far as is known.
pub(super) const CLOSED: Instant = Instant(0);

impl Scoreboard {
    /// What ends at `end` and follows everything sent so far goes out for the first
    /// time; `granularity` is that of [`granularity`](super::granularity), for a range that
    /// begins here.
    pub(crate) fn send(&mut self, end: Pos, now: Instant, granularity: u8) {
        if !self.send_with_last(end, now) {
            self.send_apart(end, now, granularity);
        }
    }

    /// The same, if nothing is known of the last range.
    #[inline(never)]
    pub(crate) fn send_apart(&mut self, end: Pos, now: Instant, granularity: u8) {
        if !self.send_with_closed(end, now) {
            self.granularity = granularity;
            self.append(end, Stamp::new(now));
        }
        if self.heap.is_none() {
            self.open_until = now.next_tick(self.granularity);
            self.open_at = self.index(self.len() - 1) as u8;
        }
    }

    /// The last range takes it in if it was sent in this tick, too.
    fn send_with_closed(&mut self, end: Pos, now: Instant) -> bool {
        let at = Stamp::new(now);
        let Some(last) = self.len().checked_sub(1).map(|i| self.index(i)) else {
            return false;
        };
        let shared = self.stored()[last].first.is_same_tick(at, self.granularity);
        let joins = shared && self.states()[last].is_empty();
        if joins {
            self.extend(last, end, at);
        }
        joins
    }

    /// A new range, up to `end`.
    fn append(&mut self, end: Pos, at: Stamp) {
        if self.index(self.len()) >= self.stored().len() && !self.make_room(1) {
            // The last range takes it in: at worst it is sent again in vain.
            let last = self.index(self.len() - 1);
            let stored = self.stored();
            let len = stored[last].end.wrapping_sub(stored[last - 1].end);
            self.uncount(self.states()[last], u64::from(len));
            self.states_mut()[last] -= RangeState::SACKED | RangeState::LOST;
            return self.extend(last, end, at);
        }
        let i = self.index(self.len());
        self.stored_mut()[i] = Stored {
            end: end as u32,
            first: at,
        };
        self.spreads_mut()[i] = 0;
        self.states_mut()[i] = RangeState::empty();
        self.len += 1;
    }

    /// The same, [`send`](Scoreboard::send), if the last range is open; `false` if
    /// it is not, and nothing has changed.
    #[inline(always)]
    pub(crate) fn send_with_last(&mut self, end: Pos, now: Instant) -> bool {
        if now >= self.open_until {
            return false;
        }
        let last = usize::from(self.open_at) % INLINE_RANGES;
        let s = &mut self.inline.stored[last];
        s.end = end as u32;
        // Within a tick, which is 65 ms at most.
        self.inline.spreads[last] = Stamp::new(now).since(s.first) as u16;
        true
    }

    /// Nothing is reported or lost, and nothing from SND.UNA on was repeated: what comes
    /// back next is for the two below.
    pub(crate) fn is_in_order(&self, una: Pos) -> bool {
        self.is_plain() && una >= self.plain_from
    }

    /// SND.UNA goes to SND.NXT, with something in flight and all of it [in
    /// order](Scoreboard::is_in_order). Says when the first and the last part of the last
    /// range were sent, which is all that counts then.
    #[inline(always)]
    pub(crate) fn finish_in_order(&mut self) -> Times {
        let last = self.index(self.len()).wrapping_sub(1);
        self.len = 0;
        self.first = 0;
        self.open_until = CLOSED;
        self.inline_times(last)
    }

    /// The same if SND.UNA goes to `una`, and something is left: of the range in which
    /// `una` lies, or which ends there.
    #[inline(always)]
    pub(crate) fn advance_in_order(&mut self, una: Pos) -> Times {
        let mut at = self.index(0);
        while let beyond =
            (una as u32).wrapping_sub(self.inline.stored[at % INLINE_RANGES].end) as i32
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
        self.inline_times(at)
    }

    /// When the first and the last part of the range at `i` in place were sent.
    #[inline(always)]
    fn inline_times(&self, i: usize) -> Times {
        let i = i % INLINE_RANGES;
        let first = self.inline.stored[i].first;
        (first, first.after(self.inline.spreads[i]))
    }
}
