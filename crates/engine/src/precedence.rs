//! The engine's precedence over others that want its processor.
//!
//! One thread does TCP/IP for all programs, and the scheduler gives it the share of one thread
//! among all that want a processor. The kernel does that work in interrupts, which come before
//! any process. So an engine that was kept from its processor for a time slice raises its
//! scheduling priority (nice(2)) for a while, if it may.
//!
//! It is not raised for good: a thread that has a higher priority than the program on the same
//! processor does not give way to it by one `sched_yield`, so that a round trip on one processor
//! takes half as long again.
//!
//! Owns [`Precedence`], to which `sleep` reports each turn and each sleep.

use longshore_tcp::Instant;
use rustix::process::{getpriority_process, setpriority_process};
use std::mem::replace;

/// By how much the nice value is lowered: the share of the processor is about nine times as
/// large.
const STEP: i32 = 10;
/// The least nice value that there is.
const LEAST: i32 = -20;

/// The time from one turn to the next without a sleep, in microseconds, from which on the
/// engine was kept from its processor: more than the longest turn takes, and about the
/// shortest time slice.
const KEPT_FROM: u64 = 2_000;

/// How long the priority is raised after that, in microseconds.
const LASTS: u64 = 100_000;

/// The scheduling priority of the thread that runs the loop.
#[derive(Debug)]
pub(crate) struct Precedence {
    /// The nice value that the thread was started with.
    usual: i32,
    /// The kernel has not refused it yet.
    is_permitted: bool,
    /// When the priority is the usual again; never if it is.
    until: Instant,
    /// The last turn, or the end of the sleep after it.
    seen: Instant,
}

impl Precedence {
    /// That of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        let usual = getpriority_process(None);
        Self {
            usual: usual.unwrap_or(0),
            is_permitted: usual.is_ok(),
            until: Instant::NEVER,
            seen: Instant::NEVER,
        }
    }

    /// A turn has begun at `now`; `was_kept`: the engine had given way before it, to somebody
    /// who kept the processor. Says whether the priority was raised.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant, was_kept: bool) -> bool {
        let since = now.since(replace(&mut self.seen, now));
        if was_kept || since >= KEPT_FROM {
            return self.raise(now);
        }
        if self.until <= now {
            self.end();
        }
        false
    }

    /// A sleep ended at `now`.
    pub(crate) fn slept(&mut self, now: Instant) {
        self.seen = now;
    }

    /// When the priority is to be the usual again.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    #[cold]
    fn raise(&mut self, now: Instant) -> bool {
        let is_new = self.until.is_never();
        if is_new && self.is_permitted {
            let raised = (self.usual - STEP).max(LEAST);
            self.is_permitted = setpriority_process(None, raised).is_ok();
        }
        if !self.is_permitted {
            return false;
        }
        self.until = Instant(now.0 + LASTS);
        is_new
    }

    #[cold]
    fn end(&mut self) {
        self.until = Instant::NEVER;
        // To lower it is permitted to everybody.
        let _ = setpriority_process(None, self.usual);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn nice() -> i32 {
        getpriority_process(None).unwrap()
    }

    /// In a thread of its own, since each has its priority: whether this one may raise it. It
    /// begins with no more than the usual one, whichever the tests were started with.
    fn apart(body: impl FnOnce(bool) + Send) {
        let usually = || setpriority_process(None, nice().max(0)).unwrap();
        let may = std::thread::scope(|s| {
            let raises = s.spawn(|| {
                usually();
                setpriority_process(None, nice() - 1).is_ok()
            });
            raises.join().unwrap()
        });
        let body = || {
            usually();
            body(may);
        };
        std::thread::scope(|s| s.spawn(body).join().unwrap());
    }

    #[test]
    fn who_was_kept_from_the_processor_has_precedence_for_a_while() {
        apart(|may| {
            let usual = nice();
            let raised = if may { usual - STEP } else { usual };
            let mut precedence = Precedence::of_this_thread();
            assert!(!precedence.turn(Instant(5_000_000), false), "the first");
            assert!(!precedence.turn(Instant(5_000_000 + KEPT_FROM - 1), false));
            assert_eq!(nice(), usual);
            let at = Instant(6_000_000);
            assert_eq!(precedence.turn(at, false), may);
            assert_eq!(nice(), raised);
            // And for longer if it is again.
            for at in (at.0 + 1_000..).step_by(1_000).take(80) {
                assert!(!precedence.turn(Instant(at), at == 6_050_000));
            }
            for at in (6_081_000..6_050_000 + LASTS).step_by(1_000) {
                assert!(!precedence.turn(Instant(at), false));
                assert_eq!(nice(), raised);
            }
            assert!(!precedence.turn(Instant(6_050_000 + LASTS), false));
            assert_eq!((nice(), precedence.until()), (usual, Instant::NEVER));
        });
    }

    #[test]
    fn a_turn_that_begins_a_time_slice_after_the_last_was_kept_from_the_processor() {
        apart(|may| {
            let mut precedence = Precedence::of_this_thread();
            assert!(!precedence.turn(Instant(1_000), false));
            assert!(!precedence.turn(Instant(KEPT_FROM + 999), false));
            assert_eq!(precedence.turn(Instant(2 * KEPT_FROM + 999), false), may);
            assert_eq!(precedence.until().is_never(), !may);
        });
    }

    #[test]
    fn an_engine_that_was_kept_from_the_processor_has_precedence_until_a_deadline() {
        apart(|may| {
            let dir = tempfile::tempdir().unwrap();
            let (mut engine, _path, _wire) = crate::testing::engine(dir.path());
            let (start, usual) = (engine.clock.now().0, nice());
            let mut turn = |at: u64| {
                engine.turn_at(Instant(start + at)).unwrap();
                engine.rest(true).unwrap();
                let at_the_latest = engine.next_deadline();
                let count = engine.stack.counters.event_loop.precedence;
                (
                    nice() != usual,
                    count,
                    at_the_latest.is_some_and(|d| d <= Duration::from_micros(2 * LASTS)),
                )
            };
            turn(0);
            assert!(!turn(KEPT_FROM - 1).0);
            let (is_raised, count, has_deadline) = turn(2 * KEPT_FROM);
            assert_eq!((is_raised, count), (may, u64::from(may)));
            assert!(has_deadline || !may);
            let until = 2 * KEPT_FROM + LASTS;
            let others = (2 * KEPT_FROM..until).step_by(1_000);
            assert!(others.map(&mut turn).all(|t| t.0 == may));
            let (is_raised, count, _) = turn(until);
            assert_eq!((is_raised, count), (false, u64::from(may)));
        });
    }

    #[test]
    fn who_sleeps_is_kept_from_nothing() {
        apart(|_| {
            let usual = nice();
            let mut precedence = Precedence::of_this_thread();
            precedence.turn(Instant(1_000), false);
            precedence.slept(Instant(900_000));
            assert!(!precedence.turn(Instant(900_001), false));
            assert_eq!(nice(), usual);
        });
    }

    #[test]
    fn an_engine_that_slept_was_kept_from_nothing() {
        apart(|may| {
            if !may {
                return eprintln!("this user may not raise its priority");
            }
            let dir = tempfile::tempdir().unwrap();
            let (mut engine, _path, _wire) = crate::testing::engine(dir.path());
            let usual = nice();
            engine.turn().unwrap();
            engine.sleeper.precedence.turn(engine.clock.now(), true);
            assert_eq!(nice(), usual - STEP);
            // It sleeps until the priority is to be the usual again.
            engine.rest(false).unwrap();
            engine.turn().unwrap();
            engine.rest(true).unwrap();
            assert_eq!(
                (nice(), engine.stack.counters.event_loop.precedence),
                (usual, 0)
            );
        });
    }

    #[test]
    fn what_the_kernel_refuses_is_not_asked_for_again() {
        apart(|_| {
            let mut precedence = Precedence::of_this_thread();
            precedence.is_permitted = false;
            assert!(!precedence.turn(Instant(1_000), true));
            assert!(precedence.until().is_never());
        });
    }
}
