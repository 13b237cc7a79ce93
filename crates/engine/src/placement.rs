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
mod tests;
