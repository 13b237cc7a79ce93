//! The table under the scoreboard: stretches cut, joined and squeezed to make room.
//!
//! Owns those methods of [`Scoreboard`], private to it. None of them changes what is
//! known of a byte but its time, and that only when the table is full.

use super::{Fate, MAX_STRETCHES, Scoreboard};
use crate::tcb::Pos;

impl Scoreboard {
    /// Cuts stretches so that `start..end` consists of whole ones; says which.
    /// `None` if there is no room for that, and nothing has changed.
    pub(super) fn cut_out(&mut self, una: Pos, start: Pos, end: Pos) -> Option<(usize, usize)> {
        let inside = |pos: Pos| self.iter(una).any(|s| s.start < pos && pos < s.end);
        if (inside(start) || inside(end)) && !self.make_room(2) {
            return None;
        }
        let from = self.cut_at(una, start);
        let to = self.cut_at(una, end);
        (from < to).then_some((from, to))
    }

    /// Cuts the stretch that `pos` lies in; says which one begins there now.
    fn cut_at(&mut self, una: Pos, pos: Pos) -> usize {
        for i in 0..self.len() {
            let s = self.get(una, i);
            if pos <= s.start {
                return i;
            }
            if pos < s.end {
                let (a, z) = (self.index(i), self.index(self.len()));
                self.stored.copy_within(a..z, a + 1);
                self.spreads.copy_within(a..z, a + 1);
                self.fates.copy_within(a..z, a + 1);
                self.stored[a].end = pos as u32;
                self.len += 1;
                return i + 1;
            }
        }
        self.len()
    }

    /// Makes room for `wanted` more stretches after the last one.
    pub(super) fn make_room(&mut self, wanted: usize) -> bool {
        if self.index(self.len()) + wanted <= MAX_STRETCHES {
            return true;
        }
        let (a, z) = (self.index(0), self.index(self.len()));
        self.stored.copy_within(a..z, 0);
        self.spreads.copy_within(a..z, 0);
        self.fates.copy_within(a..z, 0);
        self.first = 0;
        while self.len() + wanted > MAX_STRETCHES {
            if !self.squeeze() {
                return false;
            }
        }
        true
    }

    /// Makes one of the two neighbours in the network whose times differ least.
    fn squeeze(&mut self) -> bool {
        let fate = |i: usize| self.fates[self.index(i)];
        let at = |i: usize| self.stored[self.index(i)].at;
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
        let at = self.stored[a].at.later(self.stored[b].at);
        let fate = self.fates[a] | self.fates[b];
        let z = self.index(self.len());
        self.stored.copy_within(b..z, a);
        self.spreads.copy_within(b..z, a);
        self.fates.copy_within(b..z, a);
        self.set_times(a, first, at);
        self.fates[a] = fate;
        self.len -= 1;
    }

    /// Joins neighbours of one fate whose times are near, or do not matter.
    pub(super) fn merge(&mut self) {
        let mut i = 1;
        while i < self.len() {
            let (a, b) = (self.index(i - 1), self.index(i));
            let fate = self.fates[a];
            let timeless = fate.intersects(Fate::SACKED | Fate::LOST);
            let near = self.stored[a]
                .at
                .is_same_tick(self.stored[b].at, self.grain);
            if fate == self.fates[b] && (timeless || near) {
                self.join(i);
            } else {
                i += 1;
            }
        }
    }
}
