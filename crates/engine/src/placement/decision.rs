//! Whether the engine runs wherever the scheduler puts it, or on its program's processor: tried
//! out, by what the engine gets done in each place.
//!
//! Owns [`Decision`], which knows neither the clock nor processors: `placement` reports to it what was
//! done in each interval, and does what it says.

/// Where the engine is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Wherever the scheduler puts it.
    Free,
    /// On the processor on which its program runs.
    WithProgram,
}

/// What was seen of an interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    /// Bytes of payload that went in and out.
    pub(super) payload: u64,
    /// The program was ready to run for a good part of it, and had no processor.
    pub(super) program_waits: bool,
}

/// Intervals in which a place is measured.
const MEASURED: usize = 8;
/// Intervals before that: for what was under way, and until the scheduler has spread threads anew
/// that it finds on one processor.
const SETTLES_WITH: u32 = 1;
const SETTLES_FREE: u32 = 10;
/// By this part, in hundredths, more has to be done on the program's processor for it to be chosen:
/// less is what two measurements of one place differ by.
const BETTER_BY: u64 = 10;
/// And so much less may be done in the free place for it to be as good.
const AS_GOOD_WITHIN: u64 = 3;
/// Intervals in a row with a program that waits, before a trial.
const WAITED: u32 = 5;
/// Intervals without anything to measure after which the engine is free again.
const QUIET: u64 = 20;
/// Intervals to the next trial: after one that was lost, and twice as many after each further
/// one, up to so many. A trial costs what the worse place costs for some intervals.
const SHORTEST_PAUSE: u32 = 25;
const LONGEST_PAUSE: u32 = 1_000;
/// Intervals after which the free place is tried again.
const LASTS: u32 = 500;

/// What was done in the last intervals.
#[derive(Debug, Default)]
struct Recent {
    payload: [u64; MEASURED],
    /// Intervals noted so far.
    count: usize,
}

impl Recent {
    fn note(&mut self, payload: u64) {
        self.payload[self.count % MEASURED] = payload;
        self.count += 1;
    }

    /// What was done in [`MEASURED`] intervals, once there were as many.
    fn sum(&self) -> Option<u64> {
        (self.count >= MEASURED).then(|| self.payload.iter().sum())
    }
}

/// What is going on.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The engine is free, and has been so for as many intervals with a program that waited; no
    /// trial before so many further ones.
    Free { waited: u32, pause: u32 },
    /// A place is tried, in comparison with what was done in the other; so many intervals before
    /// it is measured.
    Trial {
        place: Place,
        settles: u32,
        other: u64,
    },
    /// The program's processor was better; so many intervals to the next trial, and what was done
    /// in the free place.
    With { left: u32, free: u64 },
}

/// Where the engine runs, and what is known of it.
#[derive(Debug)]
pub(super) struct Decision {
    phase: Phase,
    /// What was done in this place.
    recent: Recent,
    /// Intervals in a row in which hardly anything was done.
    quiet: u64,
    /// How long the pause after the next lost trial is.
    pause: u32,
}

impl Default for Decision {
    fn default() -> Self {
        Self {
            phase: Phase::Free {
                waited: 0,
                pause: 0,
            },
            recent: Recent::default(),
            quiet: 0,
            pause: SHORTEST_PAUSE,
        }
    }
}

impl Decision {
    /// Where the engine is to run now.
    pub(super) fn place(&self) -> Place {
        match self.phase {
            Phase::Free { .. } => Place::Free,
            Phase::Trial { place, .. } => place,
            Phase::With { .. } => Place::WithProgram,
        }
    }

    /// Another program is the one that asks most, or none is: what was found does not hold for it.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// An interval is over.
    pub(super) fn note(&mut self, interval: Interval) {
        self.quiet = 0;
        self.recent.note(interval.payload);
        let done = self.recent.sum();
        match &mut self.phase {
            Phase::Free { waited, pause } => {
                *pause = pause.saturating_sub(1);
                *waited = match interval.program_waits {
                    true => waited.saturating_add(1),
                    false => 0,
                };
                if *waited >= WAITED
                    && *pause == 0
                    && let Some(free) = done
                {
                    self.begin(Phase::Trial {
                        place: Place::WithProgram,
                        settles: SETTLES_WITH,
                        other: free,
                    });
                }
            }
            Phase::Trial {
                settles: 0,
                place,
                other,
            } => {
                let (place, other) = (*place, *other);
                if let Some(done) = done {
                    self.end_trial(place, done, other);
                }
            }
            Phase::Trial { settles, .. } => {
                *settles -= 1;
                self.recent = Recent::default();
            }
            Phase::With { left, free } => {
                *left = left.saturating_sub(1);
                if let Some(with) = done
                    && (*left == 0 || with < *free)
                {
                    self.begin(Phase::Trial {
                        place: Place::Free,
                        settles: SETTLES_FREE,
                        other: with,
                    });
                }
            }
        }
    }

    /// So much was done in the place that was tried, and so much in the other before.
    fn end_trial(&mut self, place: Place, done: u64, other: u64) {
        let reaches = |hundredths: u64| {
            u128::from(done) * 100 >= u128::from(other) * u128::from(hundredths) && done != 0
        };
        match place {
            Place::WithProgram if reaches(100 + BETTER_BY) => {
                self.pause = SHORTEST_PAUSE;
                self.begin(Phase::With {
                    left: LASTS,
                    free: other,
                });
            }
            Place::Free if !reaches(100 - AS_GOOD_WITHIN) => {
                self.begin(Phase::With {
                    left: LASTS,
                    free: done,
                });
            }
            Place::WithProgram | Place::Free => self.be_free(),
        }
    }

    /// The free place is as good, for all that is known.
    fn be_free(&mut self) {
        self.begin(Phase::Free {
            waited: 0,
            pause: self.pause,
        });
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
    }

    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.recent = Recent::default();
    }

    /// So many intervals are over in which hardly anything was done.
    pub(super) fn note_quiet(&mut self, intervals: u64) {
        self.quiet = self.quiet.saturating_add(intervals);
        match &mut self.phase {
            Phase::Free { waited, .. } => *waited = 0,
            // What was measured before and after does not compare.
            Phase::Trial { .. } => self.be_free(),
            Phase::With { .. } if self.quiet >= QUIET => self.forget(),
            Phase::With { .. } => {}
        }
        self.recent = Recent::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many intervals, of which each has what the place gives; in how many the engine was on
    /// the program's processor.
    fn go_on(decision: &mut Decision, intervals: u32, gives: impl Fn(Place) -> u64) -> u32 {
        let mut with = 0;
        for _ in 0..intervals {
            let place = decision.place();
            with += u32::from(place == Place::WithProgram);
            decision.note(Interval {
                payload: gives(place),
                program_waits: true,
            });
        }
        with
    }

    /// Intervals before the first trial, of a trial, and of one of the free place.
    const BEFORE: u32 = MEASURED as u32;
    const TRIAL: u32 = SETTLES_WITH + MEASURED as u32;
    const FREE_TRIAL: u32 = SETTLES_FREE + MEASURED as u32;

    fn in_place(free: u64, with: u64) -> impl Fn(Place) -> u64 {
        move |place| match place {
            Place::Free => free,
            Place::WithProgram => with,
        }
    }

    #[test]
    fn the_better_place_is_found_and_kept() {
        let mut decision = Decision::default();
        let better = in_place(100, 110);
        assert_eq!(go_on(&mut decision, BEFORE, &better), 0);
        assert_eq!(go_on(&mut decision, TRIAL, &better), TRIAL);
        assert_eq!(go_on(&mut decision, LASTS, &better), LASTS);
        // The free place is tried again, and is still worse.
        assert_eq!(go_on(&mut decision, FREE_TRIAL, &better), 0);
        assert_eq!(go_on(&mut decision, LASTS, &better), LASTS);
        // It is as good by now.
        go_on(&mut decision, FREE_TRIAL, in_place(107, 110));
        assert!(matches!(decision.phase, Phase::Free { .. }));
    }

    #[test]
    fn the_free_place_is_tried_again_as_soon_as_it_was_better() {
        for (with, is_kept) in [(100, true), (99, false)] {
            let mut decision = Decision::default();
            go_on(&mut decision, BEFORE + TRIAL, in_place(100, 110));
            let kept = go_on(&mut decision, LASTS, in_place(100, with));
            assert_eq!(kept == LASTS, is_kept, "{with}");
        }
    }

    #[test]
    fn a_place_that_is_worse_or_alike_is_tried_less_and_less() {
        for with in [50, 100, 109, 0] {
            let gives = in_place(100, with);
            let mut decision = Decision::default();
            let mut free_for = Vec::new();
            for _ in 0..8 {
                let mut intervals = 0;
                while decision.place() == Place::Free {
                    go_on(&mut decision, 1, &gives);
                    intervals += 1;
                }
                free_for.push(intervals);
                assert_eq!(go_on(&mut decision, TRIAL, &gives), TRIAL);
                assert_eq!(decision.place(), Place::Free);
            }
            assert_eq!(free_for, [BEFORE, 25, 50, 100, 200, 400, 800, 1_000]);
        }
    }

    /// A place that was better for a moment is given up when it is no longer.
    #[test]
    fn a_place_in_which_less_is_done_than_before_is_compared_at_once() {
        let mut decision = Decision::default();
        go_on(&mut decision, BEFORE + TRIAL, in_place(100, 120));
        assert_eq!(decision.place(), Place::WithProgram);
        go_on(&mut decision, MEASURED as u32, in_place(100, 99));
        assert_eq!(decision.place(), Place::Free);
        go_on(&mut decision, FREE_TRIAL, in_place(100, 99));
        assert!(matches!(decision.phase, Phase::Free { .. }));
    }

    /// What is under way when the engine changes its place is no sign of either.
    #[test]
    fn the_first_interval_of_a_trial_does_not_count() {
        let mut decision = Decision::default();
        go_on(&mut decision, BEFORE, in_place(100, 0));
        go_on(&mut decision, SETTLES_WITH, in_place(0, 1_000_000));
        go_on(&mut decision, MEASURED as u32, in_place(0, 100));
        assert_eq!(decision.place(), Place::Free);
    }

    #[test]
    fn without_a_program_that_waits_nothing_is_tried() {
        let mut decision = Decision::default();
        for at in 0..1_000 {
            decision.note(Interval {
                payload: 100,
                program_waits: at % WAITED != 0,
            });
            assert_eq!(decision.place(), Place::Free);
        }
    }

    #[test]
    fn the_engine_is_free_again_when_there_is_nothing_to_do() {
        let better = in_place(100, 120);
        let mut decision = Decision::default();
        go_on(&mut decision, BEFORE + TRIAL, &better);
        for _ in 1..QUIET {
            decision.note_quiet(1);
        }
        assert_eq!(decision.place(), Place::WithProgram);
        decision.note_quiet(1);
        assert_eq!(decision.place(), Place::Free);
        go_on(&mut decision, BEFORE + TRIAL, &better);
        assert_eq!(decision.place(), Place::WithProgram);
        decision.note_quiet(QUIET);
        assert_eq!(decision.place(), Place::Free, "slept through");
        // A trial in whose midst all fell silent says nothing.
        go_on(&mut decision, BEFORE + 2, &better);
        assert!(matches!(decision.phase, Phase::Trial { .. }));
        decision.note_quiet(1);
        assert_eq!(decision.place(), Place::Free);
    }

    /// A silence before a trial is no part of what the free place has done.
    #[test]
    fn only_intervals_in_a_row_are_compared() {
        let better = in_place(100, 120);
        let mut decision = Decision::default();
        go_on(&mut decision, BEFORE - 1, &better);
        decision.note_quiet(1);
        assert_eq!(go_on(&mut decision, BEFORE, &better), 0);
        assert_eq!(decision.place(), Place::WithProgram);
    }
}
