//! The timer wheel. One entry for each thing that has a deadline.
//!
//! Owns [`Wheel`] and [`Alarm`]. Arming overwrites the deadline in the thing's own
//! alarm; the wheel is only told when the new deadline is earlier than the entry it
//! has. An entry that comes up is looked at again, and entered anew if the deadline
//! has moved on. So a connection that acknowledges a million packets a second touches
//! the wheel a few times a second. `sockets` sets alarms, `engine` advances the
//! wheel each turn, `sleep` asks how long nothing will come up.

use longshore_tcp::Instant;

/// Slots of the wheel, each one tick: 4.2 s in all.
const SLOTS: usize = 4096;
/// A tick is this power of two of microseconds.
const TICK_SHIFT: u32 = 10;

/// When the tick of `now` is over: before that, nothing comes up that has not by now.
pub(crate) fn end_of_tick(now: Instant) -> Instant {
    Instant(((now.0 >> TICK_SHIFT) + 1) << TICK_SHIFT)
}

/// The deadline of one thing, [`Instant::NEVER`] if it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alarm {
    deadline: Instant,
    /// The wheel will name it when the tick of this is over; [`Instant::NEVER`] if it
    /// will not.
    entered: Instant,
}

impl Alarm {
    /// Not set.
    pub(crate) const OFF: Self = Self {
        deadline: Instant::NEVER,
        entered: Instant::NEVER,
    };

    /// Whether the wheel will name it, if it has a deadline.
    pub(crate) fn is_sound(&self) -> bool {
        self.deadline.is_never() || !self.entered.is_never()
    }

    /// Takes the deadline away. An entry in the wheel comes up in vain.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.deadline = Instant::NEVER;
    }
}

/// Deadlines of things named by `T`, to the tick.
#[derive(Debug)]
pub(crate) struct Wheel<T> {
    slots: Box<[Vec<T>; SLOTS]>,
    /// A bit for each slot that has entries.
    occupied: [u64; SLOTS / 64],
    /// The next tick to be looked at, once it is over.
    tick: u64,
}

impl<T: Copy> Wheel<T> {
    /// An empty wheel that starts at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slots: Box::new([const { Vec::new() }; SLOTS]),
            occupied: [0; SLOTS / 64],
            tick: now.0 >> TICK_SHIFT,
        }
    }

    /// Sets the alarm of `name`, whatever it was set to before.
    #[inline(always)]
    pub(crate) fn set(&mut self, alarm: &mut Alarm, name: T, deadline: Instant) {
        alarm.deadline = deadline;
        if deadline < alarm.entered {
            alarm.entered = self.enter(name, deadline);
        }
    }

    /// As `set`, or clears it if that is [`Instant::NEVER`].
    #[inline(always)]
    pub(crate) fn set_or_clear(&mut self, alarm: &mut Alarm, name: T, deadline: Instant) {
        if deadline.is_never() {
            alarm.clear();
        } else {
            self.set(alarm, name, deadline);
        }
    }

    /// The wheel has named `name`: says whether its deadline has passed, and if so
    /// clears the alarm; if not, sees to it that it is named again. An entry that is
    /// not the alarm's last (of an earlier thing of this name, say) says nothing.
    pub(crate) fn is_due(&mut self, alarm: &mut Alarm, name: T, now: Instant) -> bool {
        if alarm.entered > now {
            return false;
        }
        alarm.entered = Instant::NEVER;
        let deadline = alarm.deadline;
        if deadline <= now {
            alarm.deadline = Instant::NEVER;
            return true;
        }
        if !deadline.is_never() {
            alarm.entered = self.enter(name, deadline);
        }
        false
    }

    /// Enters `name`, to come up when the tick of `deadline` is over or, if that is past
    /// or further away than the wheel is round, at its near or far end. Says when.
    #[inline(always)]
    fn enter(&mut self, name: T, deadline: Instant) -> Instant {
        let tick = deadline.0 >> TICK_SHIFT;
        if tick.wrapping_sub(self.tick) < SLOTS as u64 {
            self.enter_at(name, tick);
            deadline
        } else {
            self.enter_at_an_end(name, tick)
        }
    }

    #[cold]
    #[inline(never)]
    fn enter_at_an_end(&mut self, name: T, tick: u64) -> Instant {
        let end = tick.clamp(self.tick, self.tick + SLOTS as u64 - 1);
        self.enter_at(name, end);
        Instant(end << TICK_SHIFT)
    }

    #[inline(always)]
    fn enter_at(&mut self, name: T, tick: u64) {
        let slot = tick as usize % SLOTS;
        let (Some(word), Some(names)) =
            (self.occupied.get_mut(slot / 64), self.slots.get_mut(slot))
        else {
            return;
        };
        *word |= 1 << (slot % 64);
        // A slot that has room, as all have after a while, takes no call: the registers
        // of whoever sets an alarm stay as they are.
        if names.len() < names.capacity() {
            names.push(name);
        } else {
            push_growing(names, name);
        }
    }

    /// Moves all that came up by `now` to `due`.
    pub(crate) fn advance(&mut self, now: Instant, due: &mut Vec<T>) {
        let target = now.0 >> TICK_SHIFT;
        // Once around, each slot has been looked at.
        let end = target.min(self.tick + SLOTS as u64);
        let mut tick = self.tick;
        while tick < end {
            let slot = tick as usize % SLOTS;
            let (Some(occupied), Some(names)) =
                (self.occupied.get_mut(slot / 64), self.slots.get_mut(slot))
            else {
                break;
            };
            let word = *occupied >> (slot % 64);
            if word & 1 != 0 {
                due.append(names);
                *occupied &= !(1 << (slot % 64));
                tick += 1;
            } else if word != 0 {
                tick += u64::from(word.trailing_zeros());
            } else {
                tick += 64 - slot as u64 % 64;
            }
        }
        self.tick = self.tick.max(target);
    }

    /// The first tick from the next on that has entries.
    fn next_tick(&self) -> Option<u64> {
        let first = self.tick as usize % SLOTS;
        let words = SLOTS / 64;
        let from = |slot: usize| self.tick + ((slot + SLOTS - first) % SLOTS) as u64;
        let lowest = |word: usize, bits: u64| word * 64 + bits.trailing_zeros() as usize;
        let start = first / 64;
        let beyond = u64::MAX << (first % 64);
        let occupied = |word: usize| self.occupied.get(word).copied().unwrap_or(0);
        let head = occupied(start) & beyond;
        if head != 0 {
            return Some(from(lowest(start, head)));
        }
        for i in 1..words {
            let word = (start + i) % words;
            let bits = occupied(word);
            if bits != 0 {
                return Some(from(lowest(word, bits)));
            }
        }
        let rest = occupied(start) & !beyond;
        (rest != 0).then(|| from(lowest(start, rest)))
    }

    /// When the next entry comes up; its deadline may have moved on.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next_tick().map(|t| Instant((t + 1) << TICK_SHIFT))
    }
}

#[cold]
#[inline(never)]
fn push_growing<T>(names: &mut Vec<T>, name: T) {
    names.push(name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tick, in microseconds.
    const TICK: u64 = 1 << TICK_SHIFT;

    fn at(micros: u64) -> Instant {
        Instant(micros)
    }

    fn came_up(wheel: &mut Wheel<u32>, micros: u64) -> Vec<u32> {
        let mut due = Vec::new();
        wheel.advance(at(micros), &mut due);
        due
    }

    #[test]
    fn entries_come_up_within_a_tick_and_never_before() {
        let mut wheel = Wheel::new(at(0));
        let (mut one, mut two) = (Alarm::OFF, Alarm::OFF);
        wheel.set(&mut one, 1, at(2_500));
        wheel.set(&mut two, 2, at(10_000));
        assert!(came_up(&mut wheel, 2_499).is_empty());
        let next = wheel.next().unwrap();
        assert!((2_500..2_500 + TICK).contains(&next.0), "{next:?}");
        assert_eq!(came_up(&mut wheel, next.0), [1]);
        assert!(wheel.is_due(&mut one, 1, next));
        assert_eq!(one, Alarm::OFF);
        assert_eq!(came_up(&mut wheel, 50_000), [2]);
        assert_eq!(wheel.next(), None);
    }

    #[test]
    fn what_moves_on_is_entered_again_and_what_is_cleared_is_not() {
        let mut wheel = Wheel::new(at(0));
        let mut alarm = Alarm::OFF;
        wheel.set(&mut alarm, 7, at(5_000));
        wheel.set(&mut alarm, 7, at(20_000));
        assert_eq!(came_up(&mut wheel, 7_000), [7]);
        assert!(!wheel.is_due(&mut alarm, 7, at(7_000)));
        alarm.clear();
        assert_eq!(came_up(&mut wheel, 30_000), [7]);
        assert!(!wheel.is_due(&mut alarm, 7, at(30_000)));
        assert_eq!(wheel.next(), None);
        // Set to an earlier time, it has two entries; the second says nothing.
        wheel.set(&mut alarm, 7, at(60_000));
        wheel.set(&mut alarm, 7, at(40_000));
        assert_eq!(came_up(&mut wheel, 42_000), [7]);
        assert!(wheel.is_due(&mut alarm, 7, at(42_000)));
        assert_eq!(came_up(&mut wheel, 70_000), [7]);
        assert!(!wheel.is_due(&mut alarm, 7, at(70_000)));
    }

    #[test]
    fn far_deadlines_come_up_early_to_be_entered_again() {
        let mut wheel = Wheel::new(at(0));
        let mut alarm = Alarm::OFF;
        wheel.set(&mut alarm, 7, at(3_600_000_000));
        let mut rounds = 0;
        let mut now = wheel.next().unwrap();
        loop {
            assert_eq!(came_up(&mut wheel, now.0), [7]);
            if wheel.is_due(&mut alarm, 7, now) {
                break;
            }
            rounds += 1;
            now = wheel.next().unwrap();
        }
        assert!((800..900).contains(&rounds), "{rounds}");
        assert!(now.0 - 3_600_000_000 <= TICK);
    }

    /// What is set again to the same time comes up once, and what is cleared not at all.
    #[test]
    fn a_time_that_stays_is_entered_once() {
        let mut wheel = Wheel::new(at(0));
        let mut alarm = Alarm::OFF;
        (0..3).for_each(|_| wheel.set(&mut alarm, 7, at(5_000)));
        assert_eq!(came_up(&mut wheel, 7_000), [7]);
        assert!(wheel.is_due(&mut alarm, 7, at(7_000)));
        wheel.set_or_clear(&mut alarm, 7, at(9_000));
        wheel.set_or_clear(&mut alarm, 7, Instant::NEVER);
        assert_eq!(came_up(&mut wheel, 12_000), [7]);
        assert!(!wheel.is_due(&mut alarm, 7, at(12_000)));
        assert_eq!(wheel.next(), None);
    }

    /// A name may be another thing's by the time that it comes up: that one has its own entry, and
    /// gets no second.
    #[test]
    fn an_entry_of_who_had_the_name_before_says_nothing() {
        let mut wheel = Wheel::new(at(0));
        let (mut before, mut next) = (Alarm::OFF, Alarm::OFF);
        wheel.set(&mut before, 7, at(5_000));
        wheel.set(&mut next, 7, at(20_000));
        assert_eq!(came_up(&mut wheel, 7_000), [7]);
        assert!(!wheel.is_due(&mut next, 7, at(7_000)));
        assert_eq!(came_up(&mut wheel, 22_000), [7]);
        assert!(wheel.is_due(&mut next, 7, at(22_000)));
    }

    /// A deadline that moves on to this microsecond has passed.
    #[test]
    fn what_moves_on_to_now_is_due() {
        let mut wheel = Wheel::new(at(0));
        let mut alarm = Alarm::OFF;
        wheel.set(&mut alarm, 7, at(5_000));
        wheel.set(&mut alarm, 7, at(7_000));
        assert_eq!(came_up(&mut wheel, 7_000), [7]);
        assert!(wheel.is_due(&mut alarm, 7, at(7_000)));
    }

    /// The slot of a deadline that is once around the wheel away is that of now.
    #[test]
    fn a_deadline_once_around_comes_up_in_its_time() {
        for ticks in [SLOTS as u64 - 1, SLOTS as u64, SLOTS as u64 + 1] {
            let mut wheel = Wheel::new(at(0));
            let (mut alarm, deadline) = (Alarm::OFF, ticks * TICK + 5);
            wheel.set(&mut alarm, 7, at(deadline));
            let mut now = wheel.next().expect("it is entered");
            while !came_up(&mut wheel, now.0).is_empty() && !wheel.is_due(&mut alarm, 7, now) {
                now = wheel.next().expect("it is entered again");
            }
            assert!((deadline..=deadline + TICK).contains(&now.0), "{ticks}");
        }
    }

    /// What has a deadline and no entry would never come up.
    #[test]
    fn an_alarm_without_an_entry_is_not_sound() {
        assert!(Alarm::OFF.is_sound());
        let entered = Instant::NEVER;
        let deadline = at(5_000);
        assert!(!Alarm { deadline, entered }.is_sound());
        let (deadline, entered) = (Instant::NEVER, at(5_000));
        assert!(Alarm { deadline, entered }.is_sound());
    }

    #[test]
    fn a_long_silence_loses_nothing() {
        let mut wheel = Wheel::new(at(0));
        let mut alarms = [Alarm::OFF; 3];
        wheel.set(&mut alarms[0], 0, at(1_000));
        wheel.set(&mut alarms[1], 1, at(4_000_000));
        assert_eq!(came_up(&mut wheel, 100_000_000), [0, 1]);
        wheel.set(&mut alarms[2], 2, at(100_001_000));
        assert_eq!(came_up(&mut wheel, 100_003_000), [2]);
    }

    proptest! {
        /// Whatever is set and cleared when, each alarm goes off once, at its last
        /// deadline, within a tick; and `next` never oversleeps it.
        #[test]
        fn alarms_go_off_when_they_should(
            steps in proptest::collection::vec((0usize..4, 0u64..9_000_000, 0u64..300_000), 1..60),
        ) {
            let mut wheel = Wheel::new(at(0));
            let mut alarms = [Alarm::OFF; 4];
            let mut expected = [Instant::NEVER; 4];
            let mut now = 0;
            for (which, after, pass) in steps {
                if after < 500_000 {
                    alarms[which].clear();
                    expected[which] = Instant::NEVER;
                } else {
                    let deadline = at(now + after - 500_000);
                    wheel.set(&mut alarms[which], which as u32, deadline);
                    expected[which] = deadline;
                }
                let end = now + pass;
                while let Some(next) = wheel.next().filter(|next| next.0 <= end) {
                    now = next.0.max(now);
                    for name in came_up(&mut wheel, now) {
                        let i = name as usize;
                        if wheel.is_due(&mut alarms[i], name, at(now)) {
                            prop_assert!(expected[i].0 <= now && now <= expected[i].0 + 2 * TICK);
                            expected[i] = Instant::NEVER;
                        }
                    }
                }
                now = end;
                prop_assert!(expected.iter().all(|e| e.0 >= now.saturating_sub(2 * TICK)));
            }
        }
    }
}
