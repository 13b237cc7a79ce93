//! How long it takes to reach another thread: by a line of memory that both look at, and by
//! waking it.

use super::{Effort, keep_to};
use crate::experiment::{Cell, ExperimentError, Sheet, Spread, system};
use crate::experiments::ns_each;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// How two threads hand a turn to each other. The first has the even turns.
trait Exchange: Sync {
    /// Hands the turn over.
    fn give(&self, turn: u32);
    /// Waits until it is this turn.
    fn take(&self, turn: u32);
}

/// A word that both look at.
#[derive(Default)]
#[repr(align(64))]
struct Line(AtomicU32);

impl Exchange for Line {
    fn give(&self, turn: u32) {
        self.0.store(turn, Ordering::Release);
    }

    fn take(&self, turn: u32) {
        while self.0.load(Ordering::Acquire) != turn {
            std::hint::spin_loop();
        }
    }
}

/// A word on which one of them sleeps.
#[derive(Default)]
struct Futex(AtomicU32);

impl Exchange for Futex {
    fn give(&self, turn: u32) {
        self.0.store(turn, Ordering::Release);
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    fn take(&self, turn: u32) {
        while self.0.load(Ordering::Acquire) != turn {
            let before = turn.wrapping_sub(1);
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, before, None);
        }
    }
}

/// An eventfd for each.
struct Eventfds([OwnedFd; 2]);

impl Exchange for Eventfds {
    fn give(&self, turn: u32) {
        let _ = rustix::io::write(&self.0[(turn % 2) as usize], &1_u64.to_ne_bytes());
    }

    fn take(&self, turn: u32) {
        let _ = rustix::io::read(&self.0[(turn % 2) as usize], &mut [0; 8]);
    }
}

/// Nanoseconds of one handing over, with the first thread on one processor and the second on
/// another.
fn one_way(exchange: &dyn Exchange, processors: [usize; 2], times: u32) -> rustix::io::Result<f64> {
    std::thread::scope(|scope| {
        let first = scope.spawn(move || {
            keep_to(&processors[..1])?;
            let mut turn = 0;
            Ok(ns_each(times, || {
                exchange.give(turn + 1);
                turn += 2;
                exchange.take(turn);
            }) / 2.0)
        });
        let second = scope.spawn(move || {
            // Where it may run makes a difference, and no other.
            let kept = keep_to(&processors[1..]);
            for turn in 0..times {
                exchange.take(2 * turn + 1);
                exchange.give(2 * turn + 2);
            }
            kept
        });
        let ended = |_| rustix::io::Errno::INTR;
        second.join().map_err(ended)??;
        first.join().map_err(ended)?
    })
}

/// What stands for the paper's access to a device's registers.
pub(super) fn sheet(
    effort: Effort,
    processors: &[usize],
    frequency: Option<Spread>,
) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "reach",
        "Table 2, for the device's registers: time to reach another thread or the kernel",
        &effort.basis(),
        &[
            ("what", ""),
            ("where", ""),
            ("time", "ns"),
            ("cycles", "cycles"),
            ("paper: register read, 3.2 GHz Xeon", "ns"),
            ("register write", "ns"),
        ],
    );
    let make = || eventfd(0, EventfdFlags::CLOEXEC).map_err(system("make an eventfd"));
    let eventfds = Eventfds([make()?, make()?]);
    let (line, word) = (Line::default(), Futex::default());
    let exchanges: [(&str, &dyn Exchange, u32, bool); 3] = [
        ("a line of memory goes over", &line, 100_000, false),
        ("wake-up by futex", &word, 3_000, true),
        ("wake-up by eventfd", &eventfds, 3_000, true),
    ];
    let pairs = [
        ("same processor", Some([0, 0])),
        ("two processors", (processors.len() > 1).then_some([0, 1])),
    ];
    // Each run begins with turn 0.
    let begin = || {
        line.0.store(0, Ordering::Relaxed);
        word.0.store(0, Ordering::Relaxed);
    };
    for (what, exchange, times, sleeps) in exchanges {
        for (place, pair) in pairs {
            let Some(pair) = pair.filter(|pair| sleeps || pair[0] != pair[1]) else {
                continue;
            };
            let pair = pair.map(|at| processors[at]);
            let run = |_| {
                begin();
                one_way(exchange, pair, effort.times(times))
            };
            let runs: rustix::io::Result<Vec<f64>> = (0..effort.runs).map(run).collect();
            let runs = runs.map_err(system("keep a thread to a processor"))?;
            sheet.row(row(what, place, Spread::of(&runs), frequency));
        }
    }
    let call = effort.spread(|| {
        ns_each(effort.times(300_000), || {
            let _ = rustix::process::getppid();
        })
    });
    sheet.row(row("an empty system call", "", call, frequency));
    Ok(sheet)
}

fn row(what: &str, place: &str, ns: Option<Spread>, frequency: Option<Spread>) -> [Cell; 6] {
    let cycles = ns.zip(frequency).map(|(ns, f)| ns.median * f.median);
    [
        what.into(),
        place.into(),
        ns.into(),
        cycles.into(),
        Cell::Number(500.0),
        Cell::Number(200.0),
    ]
}
