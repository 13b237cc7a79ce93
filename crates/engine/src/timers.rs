//! The timer wheel. One entry for each thing that has a deadline.
//!
//! Arming overwrites a deadline in the thing itself; the wheel is only told
//! when the new deadline is earlier than the entry it has. An entry that comes
//! up is looked at again by its owner, which arms it anew if its deadline has
//! moved on. So a connection that acknowledges a million packets a second
//! touches the wheel a few times a second.

use longshore_tcp::Instant;

/// Slots of the wheel, each one tick of [`TICK`] microseconds.
const SLOTS: usize = 4096;
/// One tick, in microseconds.
pub(crate) const TICK: u64 = 1000;

/// Deadlines of things named by `T`, to the millisecond.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Vec<Vec<T>>,
    /// The next tick to be looked at.
    tick: u64,
    /// Entries in all.
    count: usize,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that starts at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            tick: now.0 / TICK,
            count: 0,
        }
    }

    /// Enters `name`, to come up at `deadline` or, if that is further away than
    /// the wheel is round, at its far end.
    pub(crate) fn enter(&mut self, name: T, deadline: Instant) -> Instant {
        let due = deadline.0.div_ceil(TICK);
        let tick = due.clamp(self.tick, self.tick + SLOTS as u64 - 1);
        self.slots[tick as usize % SLOTS].push(name);
        self.count += 1;
        Instant(tick * TICK)
    }

    /// Moves all that came up by `now` to `due`.
    pub(crate) fn advance(&mut self, now: Instant, due: &mut Vec<T>) {
        let target = now.0 / TICK;
        if self.count == 0 {
            self.tick = self.tick.max(target + 1);
            return;
        }
        let last = target.min(self.tick + SLOTS as u64);
        while self.tick <= last {
            let slot = &mut self.slots[self.tick as usize % SLOTS];
            self.count -= slot.len();
            due.append(slot);
            self.tick += 1;
        }
        self.tick = self.tick.max(target + 1);
    }

    /// When the next entry comes up; it may be later than that.
    pub(crate) fn next(&self) -> Option<Instant> {
        if self.count == 0 {
            return None;
        }
        (self.tick..self.tick + SLOTS as u64)
            .find(|t| !self.slots[*t as usize % SLOTS].is_empty())
            .map(|t| Instant(t * TICK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant(micros)
    }

    #[test]
    fn entries_come_up_at_their_tick_and_never_before() {
        let mut wheel = Wheel::new(at(0));
        wheel.enter(1, at(2_500));
        wheel.enter(2, at(10_000));
        let mut due = Vec::new();
        wheel.advance(at(2_499), &mut due);
        assert!(due.is_empty());
        assert_eq!(wheel.next(), Some(at(3_000)));
        wheel.advance(at(3_000), &mut due);
        assert_eq!(due, [1]);
        wheel.advance(at(50_000), &mut due);
        assert_eq!(due, [1, 2]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn far_deadlines_come_up_early_to_be_entered_again() {
        let mut wheel = Wheel::new(at(0));
        let when = wheel.enter(7, at(3_600_000_000));
        assert_eq!(when, at(4_095_000));
        let mut due = Vec::new();
        wheel.advance(at(4_095_000), &mut due);
        assert_eq!(due, [7]);
    }

    #[test]
    fn a_long_silence_loses_nothing() {
        let mut wheel = Wheel::new(at(0));
        wheel.enter(1, at(1_000));
        wheel.enter(2, at(4_000_000));
        let mut due = Vec::new();
        wheel.advance(at(100_000_000), &mut due);
        assert_eq!(due, [1, 2]);
        wheel.enter(3, at(100_001_000));
        wheel.advance(at(100_002_000), &mut due);
        assert_eq!(due, [1, 2, 3]);
    }
}
