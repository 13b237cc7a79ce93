//! The table under the scoreboard: stretches cut, joined and squeezed to make room.
//!
//! Owns those methods of [`Scoreboard`], private to it. None of them changes what is
//! known of a byte but its time, and that only when the table is full.

use super::{CLOSED, FEW_STRETCHES, Fate, Scoreboard, Stamp};
use crate::tcb::{NO_POS, Pos};
use crate::time::Instant;

/// One stretch as stored; it begins where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// The low 32 bits of its end.
    pub(super) end: u32,
    /// When its first part was sent.
    pub(super) first: Stamp,
}

/// Room for stretches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table<const N: usize> {
    pub(super) stored: [Stored; N],
    /// From the first to the last part's time, microseconds. Joined neighbours may lie
    /// wider apart than 65 ms; only on a path of seconds, where that is little.
    pub(super) spreads: [u16; N],
    pub(super) fates: [Fate; N],
}

impl<const N: usize> Table<N> {
    pub(super) const fn new() -> Table<N> {
        let none = Stored {
            end: 0,
            first: Stamp::new(Instant(0)),
        };
        Table {
            stored: [none; N],
            spreads: [0; N],
            fates: [Fate::empty(); N],
        }
    }
}

impl Scoreboard {
    #[inline(always)]
    pub(super) fn stored(&self) -> &[Stored] {
        match &self.many {
            None => &self.few.stored,
            Some(many) => &many.stored,
        }
    }

    #[inline(always)]
    pub(super) fn stored_mut(&mut self) -> &mut [Stored] {
        match &mut self.many {
            None => &mut self.few.stored,
            Some(many) => &mut many.stored,
        }
    }

    #[inline(always)]
    pub(super) fn spreads(&self) -> &[u16] {
        match &self.many {
            None => &self.few.spreads,
            Some(many) => &many.spreads,
        }
    }

    #[inline(always)]
    pub(super) fn spreads_mut(&mut self) -> &mut [u16] {
        match &mut self.many {
            None => &mut self.few.spreads,
            Some(many) => &mut many.spreads,
        }
    }

    #[inline(always)]
    pub(super) fn fates(&self) -> &[Fate] {
        match &self.many {
            None => &self.few.fates,
            Some(many) => &many.fates,
        }
    }

    #[inline(always)]
    pub(super) fn fates_mut(&mut self) -> &mut [Fate] {
        match &mut self.many {
            None => &mut self.few.fates,
            Some(many) => &mut many.fates,
        }
    }

    /// Moves `from..to` of the table to `at`.
    fn shift(&mut self, from: usize, to: usize, at: usize) {
        self.open_until = CLOSED;
        self.stored_mut().copy_within(from..to, at);
        self.spreads_mut().copy_within(from..to, at);
        self.fates_mut().copy_within(from..to, at);
    }

    /// Which stretch `pos` lies in, or how many there are if it lies above all.
    pub(super) fn find(&self, una: Pos, pos: Pos) -> usize {
        let above = pos - una;
        self.stored()[self.index(0)..self.index(self.len())]
            .partition_point(|s| i64::from(s.end.wrapping_sub(una as u32)) <= above)
    }

    /// Cuts stretches so that `start..end` consists of whole ones; says which.
    /// `None` if there is no room for that, and nothing has changed.
    pub(super) fn cut_out(&mut self, una: Pos, start: Pos, end: Pos) -> Option<(usize, usize)> {
        let inside = |pos: Pos| {
            let i = self.find(una, pos);
            i < self.len() && self.get(una, i).start < pos
        };
        if (inside(start) || inside(end)) && !self.make_room(2) {
            return None;
        }
        let from = self.cut_at(una, start);
        let to = self.cut_at(una, end);
        (from < to).then_some((from, to))
    }

    /// Cuts the stretch that `pos` lies in; says which one begins there now.
    fn cut_at(&mut self, una: Pos, pos: Pos) -> usize {
        let i = self.find(una, pos);
        if i == self.len() || pos <= self.get(una, i).start {
            return i;
        }
        let (a, z) = (self.index(i), self.index(self.len()));
        self.shift(a, z, a + 1);
        self.stored_mut()[a].end = pos as u32;
        self.len += 1;
        i + 1
    }

    /// Makes room for `wanted` more stretches after the last one.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        if self.index(self.len()) + wanted <= self.stored().len() {
            return true;
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        self.shift(a, z, 0);
        self.first = 0;
        if self.len() + wanted <= self.stored().len() {
            return true;
        }
        // Times may be blurred where there are no holes; reports may not.
        if self.many.is_none() && !self.is_plain() {
            self.grow();
            return true;
        }
        while self.len() + wanted > self.stored().len() {
            if !self.squeeze() {
                return false;
            }
        }
        true
    }

    /// Takes the larger table. The stretches lie at the front.
    fn grow(&mut self) {
        let len = self.len();
        let mut many = Box::new(Table::new());
        many.stored[..len].copy_from_slice(&self.few.stored[..len]);
        many.spreads[..len].copy_from_slice(&self.few.spreads[..len]);
        many.fates[..len].copy_from_slice(&self.few.fates[..len]);
        self.open_until = CLOSED;
        self.plain_from = NO_POS;
        self.many = Some(many);
    }

    /// A recovery is over, with SND.NXT at `nxt`: gives the larger table back, unless there
    /// are holes again.
    pub(crate) fn shrink(&mut self, nxt: Pos) {
        if self.many.is_none() || !self.is_plain() {
            return;
        }
        while self.len() > FEW_STRETCHES - 2 && self.squeeze() {}
        let (a, z) = (self.index(0), self.index(self.len()));
        if z - a > FEW_STRETCHES {
            return;
        }
        if let Some(many) = self.many.take() {
            self.few.stored[..z - a].copy_from_slice(&many.stored[a..z]);
            self.few.spreads[..z - a].copy_from_slice(&many.spreads[a..z]);
            self.few.fates[..z - a].copy_from_slice(&many.fates[a..z]);
            self.first = 0;
            self.open_until = CLOSED;
            self.plain_from = nxt;
        }
    }

    /// Makes one of the two neighbours in the network whose times differ least.
    fn squeeze(&mut self) -> bool {
        let fate = |i: usize| self.fates()[self.index(i)];
        let at = |i: usize| self.last_of(self.index(i));
        let best = (1..self.len())
            .filter(|&i| fate(i) == fate(i - 1))
            .min_by_key(|&i| at(i).since(at(i - 1)).unsigned_abs());
        // Fates alone differ: which of them were repeated may be blurred.
        let best = best.or_else(|| {
            let kind = |i: usize| fate(i) - Fate::REPEATED;
            (1..self.len()).find(|&i| kind(i) == kind(i - 1))
        });
        if let Some(i) = best {
            self.join(i);
        }
        best.is_some()
    }

    /// Joins stretch `i` to the one before it.
    fn join(&mut self, i: usize) {
        let (a, b) = (self.index(i - 1), self.index(i));
        let first = self.first_of(a).earlier(self.first_of(b));
        let at = self.last_of(a).later(self.last_of(b));
        let fate = self.fates()[a] | self.fates()[b];
        if fate != self.fates()[a] || fate != self.fates()[b] {
            self.plain_from = NO_POS;
        }
        let z = self.index(self.len());
        self.shift(b, z, a);
        self.set_times(a, first, at);
        self.fates_mut()[a] = fate;
        self.len -= 1;
    }

    /// Joins neighbours of one fate whose times are near, or do not matter.
    pub(super) fn merge(&mut self) {
        self.merge_around(0, self.len());
    }

    /// The same for stretches `from..to`, which have changed, and their neighbours.
    pub(super) fn merge_around(&mut self, from: usize, to: usize) {
        let mut i = from.max(1);
        let mut end = (to + 1).min(self.len());
        while i < end {
            if self.may_join(i) {
                self.join(i);
                end -= 1;
            } else {
                i += 1;
            }
        }
    }

    /// Whether stretch `i` and the one before it are one as far as anyone cares.
    fn may_join(&self, i: usize) -> bool {
        let (a, b) = (self.index(i - 1), self.index(i));
        let fate = self.fates()[a];
        let timeless = fate.intersects(Fate::SACKED | Fate::LOST);
        let near = || self.last_of(a).is_same_tick(self.last_of(b), self.grain);
        fate == self.fates()[b] && (timeless || near())
    }
}
