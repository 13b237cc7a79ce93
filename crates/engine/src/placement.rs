//! On which processor the engine runs.
//!
//! As a rule the scheduler decides. But an engine that looks for work keeps a processor busy in
//! the scheduler's eyes, also while there is none, so its program may be put beside its client on
//! the other, where the two wait for each other. Whether it is better for the engine to share the
//! program's processor depends on what each of the three has to do, and is not known beforehand:
//! with redis the engine gets a fifth to a half more done there, with one connection a third less.
//! So it is tried, where the program is seen to wait for a processor: in turn, and the place in
//! which more is done is kept for some seconds (`decision`).
//!
//! Owns [`Placer`]. `sleep` asks it from time to time while the engine is at work; in a turn it
//! costs one comparison. It has no effect where the engine may use one processor alone (taskset(1)
//! and control groups decide), and processors that it may not use are never chosen.

mod decision;
mod program;

use crate::config::Placement;
use decision::{Decision, Interval, Place};
use longshore_tcp::Instant;
use program::{Program, Seen};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::mem::replace;

/// How often it is looked at, in microseconds.
const INTERVAL: u64 = 10_000;
/// An interval that has become as long as this was slept through in part.
const TOO_LONG: u64 = 2 * INTERVAL;
/// Frames in an interval from which on it says something.
const FEW_FRAMES: u64 = 20;
/// Of an interval the program has waited for at least one part in as many.
const WAITED_PART: u64 = 10;
/// Bytes of a frame that are no payload: the headers of Ethernet, IPv4 and TCP.
const HEADERS: u64 = 54;
/// Looks in a row that have met the program on another processor than the engine's, after which
/// the engine goes there, too: a thread that is woken is often put elsewhere and soon comes back.
const GONE: u32 = 3;
/// Looks in a row that have met the same program, after which it is the one that asks most.
const SURE: u32 = 5;

/// What the engine has done since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Frames in and out.
    pub(crate) frames: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Bytes that went from one program to another without a packet.
    pub(crate) own_bytes: u64,
}

impl Done {
    /// Bytes of payload since then; none if that is too little to say something.
    fn since(self, before: Self) -> Option<u64> {
        let frames = self.frames - before.frames;
        let own_bytes = self.own_bytes - before.own_bytes;
        let payload = (self.bytes - before.bytes).saturating_sub(frames * HEADERS);
        (frames >= FEW_FRAMES || own_bytes != 0).then_some(payload + own_bytes)
    }
}

/// Chooses the processor of the thread that runs the loop.
#[derive(Debug)]
pub(crate) struct Placer {
    decision: Decision,
    /// When it is looked at next.
    due: Instant,
    /// When it was looked at last, and what had been done then.
    seen: (Instant, Done),
    asker: Asker,
    /// Looks in a row that have met it on another processor than the engine's.
    gone: u32,
    processors: Processors,
}

/// The program that asks most, and what the scheduler says of it.
#[derive(Debug, Default)]
struct Asker {
    program: Option<Program>,
    /// How often in a row it was met.
    met: u32,
    /// What was last seen of it.
    seen: Option<Seen>,
}

/// The processors that the engine may use, and those that it does.
#[derive(Debug)]
struct Processors {
    may: CpuSet,
    /// What it has chosen of them, if not all.
    chosen: Option<usize>,
    /// The one that it has just left. The scheduler moves no thread without need, so the engine
    /// would stay there, and what it does in the free place would be what it does in the other.
    left: Option<usize>,
}

impl Placer {
    /// That of the calling thread, from `now` on.
    pub(crate) fn of_this_thread(placement: Placement, now: Instant) -> Self {
        let may = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        Self {
            due: match (placement, may.count()) {
                (Placement::Scheduler, _) | (Placement::Tried, 0 | 1) => Instant::NEVER,
                (Placement::Tried, _) => Instant(now.0 + INTERVAL),
            },
            decision: Decision::default(),
            seen: (now, Done::default()),
            asker: Asker::default(),
            gone: 0,
            processors: Processors {
                may,
                chosen: None,
                left: None,
            },
        }
    }

    /// Whether an interval is over.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// An interval is over, in which so much was done, and the process of `pid` was the last that
    /// asked for something. Says whether the engine has gone to the program's processor now.
    #[cold]
    pub(crate) fn look(&mut self, now: Instant, done: Done, pid: Option<u32>) -> bool {
        self.due = Instant(now.0 + INTERVAL);
        let (then, before) = replace(&mut self.seen, (now, done));
        let took = now.since(then);
        match done.since(before).filter(|_| took < TOO_LONG) {
            None => {
                self.asker.look();
                self.decision.note_quiet(took / INTERVAL);
            }
            Some(payload) => {
                if self.asker.meet(pid) {
                    self.decision.forget();
                }
                let waited = self.asker.look();
                let program_waits = waited.is_some_and(|ns| ns * WAITED_PART >= took * 1_000);
                self.decision.note(Interval {
                    payload,
                    program_waits,
                });
            }
        }
        let processor = match self.decision.place() {
            Place::Free => None,
            Place::WithProgram => self.follow(),
        };
        self.processors.choose(processor)
    }

    /// The processor on which the engine is to be with its program.
    fn follow(&mut self) -> Option<usize> {
        let of_program = self.asker.seen?.processor;
        let chosen = self.processors.chosen.filter(|own| *own != of_program);
        let Some(own) = chosen else {
            self.gone = 0;
            return Some(of_program);
        };
        self.gone += 1;
        if self.gone < GONE {
            return Some(own);
        }
        self.gone = 0;
        Some(of_program)
    }
}

impl Asker {
    /// This process asked last; says whether another program than before asks most by now.
    fn meet(&mut self, pid: Option<u32>) -> bool {
        let known = self.program.as_ref().map(|program| program.pid);
        if pid == known {
            self.met = (self.met + 1).min(SURE);
            return false;
        }
        self.met = self.met.saturating_sub(1);
        if self.met != 0 {
            return false;
        }
        self.met = 1;
        self.seen = None;
        self.program = pid.and_then(|pid| Program::new(pid).ok());
        true
    }

    /// How long the program has waited for a processor since the last look, in nanoseconds; none
    /// if that is not known. Lets a program go that has ended.
    fn look(&mut self) -> Option<u64> {
        let seen = self.program.as_ref()?.look();
        if seen.is_none() {
            self.program = None;
        }
        let before = replace(&mut self.seen, seen);
        Some(seen?.waited.saturating_sub(before?.waited)).filter(|_| self.met == SURE)
    }
}

impl Processors {
    /// Has the thread run on this processor alone, if it may, or on all that it may. Says whether
    /// it was on another before, and goes to one.
    fn choose(&mut self, processor: Option<usize>) -> bool {
        let processor = processor.filter(|cpu| *cpu < CpuSet::MAX_CPU && self.may.is_set(*cpu));
        if processor == self.chosen && self.left.is_none() {
            return false;
        }
        if self.set().is_none_or(|set| !self.is_chosen(&set)) {
            // Somebody else has changed it, and knows better.
            return self.begin_anew();
        }
        self.left = self.chosen.filter(|_| processor.is_none());
        self.chosen = processor;
        let set = self.chosen_set();
        sched_setaffinity(None, &set).is_ok() && processor.is_some()
    }

    /// Somebody has said on which processors the thread is to run.
    fn begin_anew(&mut self) -> bool {
        if let Some(set) = self.set() {
            self.may = set;
        }
        (self.chosen, self.left) = (None, None);
        false
    }

    fn set(&self) -> Option<CpuSet> {
        sched_getaffinity(None).ok()
    }

    fn is_chosen(&self, set: &CpuSet) -> bool {
        *set == self.chosen_set()
    }

    fn chosen_set(&self) -> CpuSet {
        let mut set = self.may;
        match (self.chosen, self.left) {
            (Some(processor), _) => {
                set = CpuSet::new();
                set.set(processor);
            }
            (None, Some(processor)) => set.unset(processor),
            (None, None) => {}
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs it in a thread of its own, which has an affinity of its own, with the processors that
    /// it may use.
    fn apart(body: impl FnOnce(Vec<usize>) + Send) {
        let of_thread = || {
            let set = sched_getaffinity(None).unwrap();
            body(
                (0..CpuSet::MAX_CPU)
                    .filter(|cpu| set.is_set(*cpu))
                    .collect(),
            );
        };
        std::thread::scope(|s| s.spawn(of_thread).join().unwrap());
    }

    fn only(processor: usize) -> CpuSet {
        let mut set = CpuSet::new();
        set.set(processor);
        set
    }

    fn now_on() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    fn processors() -> Processors {
        Processors {
            may: now_on(),
            chosen: None,
            left: None,
        }
    }

    #[test]
    fn a_thread_is_put_on_a_processor_and_let_go() {
        apart(|all| {
            let (whole, mut processors) = (now_on(), processors());
            assert!(!processors.choose(None), "it is free already");
            for cpu in &all {
                assert!(processors.choose(Some(*cpu)));
                assert_eq!(now_on(), only(*cpu));
                assert!(!processors.choose(Some(*cpu)), "it is there already");
            }
            // It leaves the last, and may be there again after that.
            assert!(!processors.choose(None), "it goes to none");
            let mut others = whole;
            others.unset(*all.last().unwrap());
            if others.count() != 0 {
                assert_eq!(now_on(), others);
            }
            assert!(!processors.choose(None));
            assert_eq!(now_on(), whole);
            assert!(!processors.choose(None));
            // Processors that it may not use, or that are none.
            processors.may = only(all[0]);
            sched_setaffinity(None, &only(all[0])).unwrap();
            for cpu in all
                .iter()
                .skip(1)
                .copied()
                .chain([CpuSet::MAX_CPU, usize::MAX])
            {
                assert!(!processors.choose(Some(cpu)));
                assert_eq!(now_on(), only(all[0]));
            }
        });
    }

    /// As by taskset(1) from outside.
    #[test]
    fn what_somebody_else_has_set_stays() {
        apart(|all| {
            let mut processors = processors();
            assert!(processors.choose(Some(all[0])));
            processors.chosen = Some(CpuSet::MAX_CPU - 1);
            // So it was set to another than was chosen.
            assert!(!processors.choose(None));
            assert_eq!(now_on(), only(all[0]));
            assert!(!processors.choose(None));
            assert_eq!(now_on(), only(all[0]));
            assert!(!processors.choose(Some(CpuSet::MAX_CPU - 1)));
        });
    }

    #[test]
    fn a_thread_with_one_processor_or_that_is_to_be_let_alone_is_not_looked_at() {
        apart(|all| {
            let late = Instant(u64::MAX - 1);
            let free = Placer::of_this_thread(Placement::Scheduler, Instant(0));
            assert!(!free.is_due(late));
            let several = Placer::of_this_thread(Placement::Tried, Instant(0));
            assert_eq!(several.is_due(Instant(INTERVAL)), all.len() > 1);
            assert!(!several.is_due(Instant(INTERVAL - 1)));
            sched_setaffinity(None, &only(all[0])).unwrap();
            let one = Placer::of_this_thread(Placement::Tried, Instant(0));
            assert!(!one.is_due(late));
        });
    }

    /// A placer whose program is on that processor, as far as it has seen.
    fn with_program(on: usize) -> Placer {
        let mut placer = Placer::of_this_thread(Placement::Tried, Instant(0));
        placer.asker.seen = Some(Seen {
            processor: on,
            waited: 0,
        });
        placer
    }

    #[test]
    fn the_engine_follows_its_program_when_that_stays_away() {
        let mut placer = with_program(1);
        assert_eq!(placer.follow(), Some(1), "at once, the first time");
        placer.processors.chosen = Some(1);
        let seen_on = |placer: &mut Placer, processor| {
            placer.asker.seen = Some(Seen {
                processor,
                waited: 0,
            });
            placer.follow()
        };
        for _ in 0..3 {
            for _ in 1..GONE {
                assert_eq!(seen_on(&mut placer, 0), Some(1));
            }
            assert_eq!(seen_on(&mut placer, 1), Some(1), "it has come back");
        }
        for _ in 1..GONE {
            assert_eq!(seen_on(&mut placer, 0), Some(1));
        }
        assert_eq!(seen_on(&mut placer, 0), Some(0));
    }

    #[test]
    fn the_program_that_asks_most_is_the_one_that_is_met_most() {
        let mut asker = Asker::default();
        let own = Some(std::process::id());
        let other = Some(1);
        let known = |asker: &Asker| asker.program.as_ref().map(|program| program.pid);
        assert!(asker.meet(own), "it is new");
        for _ in 0..10 {
            assert!(!asker.meet(own));
        }
        for _ in 1..SURE {
            assert!(!asker.meet(other));
            assert_eq!(known(&asker), own);
        }
        assert!(asker.meet(other));
        assert_eq!(known(&asker), other);
        // One that cannot be seen from here.
        for _ in 0..SURE {
            asker.meet(None);
        }
        assert_eq!((known(&asker), asker.look()), (None, None));
    }

    /// Its descriptors are closed, also where nothing is done any more.
    #[test]
    fn a_program_that_has_ended_is_let_go() {
        let mut placer = Placer::of_this_thread(Placement::Tried, Instant(0));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(placer.asker.meet(Some(child.id())));
        let done = Done {
            frames: 0,
            bytes: 0,
            own_bytes: 0,
        };
        assert!(!placer.look(Instant(INTERVAL), done, None));
        assert!(placer.asker.program.is_some(), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!placer.look(Instant(2 * INTERVAL), done, None));
        assert!(placer.asker.program.is_none());
    }

    #[test]
    fn what_is_done_is_payload_of_frames_and_of_its_own_connections() {
        let before = Done {
            frames: 100,
            bytes: 10_000,
            own_bytes: 7,
        };
        let after = |frames: u64, bytes: u64, own_bytes: u64| Done {
            frames: 100 + frames,
            bytes: 10_000 + bytes,
            own_bytes: 7 + own_bytes,
        };
        assert_eq!(after(0, 0, 0).since(before), None);
        assert_eq!(after(FEW_FRAMES - 1, 50_000, 0).since(before), None);
        let some = FEW_FRAMES * (HEADERS + 10);
        assert_eq!(
            after(FEW_FRAMES, some, 0).since(before),
            Some(10 * FEW_FRAMES)
        );
        assert_eq!(after(FEW_FRAMES, 0, 0).since(before), Some(0));
        assert_eq!(after(0, 0, 500).since(before), Some(500));
    }

    /// Between two turns, and from then on with each interval.
    #[test]
    fn the_loop_looks_when_an_interval_is_over() {
        apart(|all| {
            let dir = tempfile::tempdir().unwrap();
            let (mut engine, _path, _wire) = crate::testing::engine(dir.path());
            let start = engine.clock.now();
            engine.placer = Placer::of_this_thread(Placement::Tried, start);
            for interval in 1..4 {
                let at = Instant(start.0 + interval * INTERVAL);
                assert_eq!(engine.placer.is_due(at), all.len() > 1);
                engine.turn_at(at).unwrap();
                engine.rest(true).unwrap();
                assert!(!engine.placer.is_due(at));
            }
        });
    }
}
