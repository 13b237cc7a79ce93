//! Whether other threads want the processor that the engine gives way on.
//!
//! Owns [`Contention`]. The loop reports to it when it gives way and when it runs again, and asks it
//! before it gives way or spins.

use longshore_tcp::Instant;

/// What other threads do with the processor when the engine gives way. A thread that has work
/// of its own keeps it for a time slice: then it is better to sleep, since a thread that is woken
/// comes before it, and one that has given way comes after.
#[derive(Debug, Default)]
pub(super) struct Contention {
    gave_way: Option<Instant>,
    until: Instant,
    /// How long it was taken to last when it was met last.
    length: u64,
}

/// As long as this, in microseconds, the processor is kept by no thread that only
/// passes something on.
const KEPT: u64 = 1_000;

/// How long the engine does not give way to a thread that has kept the processor, if it
/// is the first for a while: it may
/// have been an interruption, of which a virtual machine has many.
const CONTENDED_FOR: u64 = 10_000;

/// And how long at the most, if it is twice as long with each that is met within as long as
/// this: a thread that has work all the time costs a time slice whenever the engine gives way.
const CONTENDED_LONGEST: u64 = 100_000;

impl Contention {
    /// The engine gives way.
    pub(super) fn enter(&mut self, now: Instant) {
        self.gave_way = Some(now);
    }

    /// The engine has had a turn; says whether the thread that ran before it kept
    /// the processor.
    pub(super) fn leave(&mut self, now: Instant) -> bool {
        let gave_way = self.gave_way.take();
        let was_kept = gave_way.is_some_and(|then| now.since(then) >= KEPT);
        if was_kept {
            let goes_on = now.0 < self.until.0.saturating_add(CONTENDED_LONGEST);
            self.length = match self.length {
                0 => CONTENDED_FOR,
                last if goes_on => (2 * last).min(CONTENDED_LONGEST),
                _ => CONTENDED_FOR,
            };
            self.until = Instant(now.0 + self.length);
        }
        was_kept
    }

    /// Whether there are others who keep the processor.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_does_not_give_way_to_a_thread_that_keeps_the_processor() {
        let mut contention = Contention::default();
        contention.enter(Instant(5_000));
        contention.leave(Instant(5_000 + KEPT - 1));
        assert!(!contention.is_contended(Instant(6_000)));
        contention.enter(Instant(7_000));
        contention.leave(Instant(7_000 + KEPT));
        assert!(contention.is_contended(Instant(8_000)));
        // A long turn without giving way says nothing.
        contention.leave(Instant(17_000));
        assert!(!contention.is_contended(Instant(8_000 + CONTENDED_FOR)));
    }

    #[test]
    fn a_thread_that_keeps_the_processor_again_and_again_is_avoided_for_longer() {
        let mut contention = Contention::default();
        // How long the engine does not give way to the thread that keeps the processor now.
        let mut meet = |at: u64| {
            contention.enter(Instant(at - KEPT));
            contention.leave(Instant(at));
            let lasts = |length: &u64| contention.is_contended(Instant(at + length));
            (0..).step_by(1_000).take_while(lasts).count() as u64 * 1_000
        };
        let mut at = 5_000;
        for expected in [10_000, 20_000, 40_000, 80_000, 100_000, 100_000] {
            assert_eq!(meet(at), expected);
            at += expected + CONTENDED_LONGEST - 1;
        }
        assert_eq!(meet(at + 1), CONTENDED_FOR, "none was met for long");
    }
}
