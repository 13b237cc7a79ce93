//! The machine itself, as Tables 2 and 3 of the 2005 paper have theirs: how long it takes to
//! reach memory, another processor and the kernel, and how a web server's rate grows with
//! processors.
//!
//! `memory` measures Table 2's left half, `wake` what stands here for its device registers
//! (a device is reached by waking another thread), `pages` exchanges of pages, `scaling`
//! Table 3.

pub(super) mod memory;
mod pages;
mod scaling;
mod wake;

use super::tap::of_tap;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress, system,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::Path;

/// Its name on the command line.
pub const NAME: &str = "host";
const PAPER: &str = "Freimuth et al., Server network scalability and TCP offload, USENIX 2005";

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Runs of each measurement.
    runs: u32,
    /// Each of them is so many times shorter than for the record.
    shorter: u32,
}

impl Effort {
    pub(super) fn of(quick: bool) -> Self {
        let (runs, shorter) = if quick { (3, 10) } else { (7, 1) };
        Effort { runs, shorter }
    }

    fn times(self, full: u32) -> u32 {
        (full / self.shorter).max(1)
    }

    /// Runs that follow each other.
    fn spread(self, mut run: impl FnMut() -> f64) -> Option<Spread> {
        let runs: Vec<f64> = (0..self.runs).map(|_| run()).collect();
        Spread::of(&runs)
    }

    fn basis(self) -> String {
        format!("medians of {} runs, least and most in brackets", self.runs)
    }
}

/// Measures this machine. The process must be in a network namespace of its own, in which it
/// may make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    let effort = Effort::of(quick);
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    let processors = allowed().map_err(system("read this thread's processors"))?;
    progress("host: memory");
    let frequency = memory::frequency(effort);
    let latency = memory::sweep(effort);
    outcome.sheets.push(table_2(effort, frequency, &latency));
    progress("host: other processors, wake-ups, system calls");
    outcome
        .sheets
        .push(wake::sheet(effort, &processors, frequency)?);
    progress("host: pages");
    outcome.sheets.push(pages::sheet(effort, &processors)?);
    outcome
        .sheets
        .push(memory::sheet(effort, &latency, frequency));
    of_tap(&mut outcome, "how a server scales (Table 3)", |outcome| {
        scaling::measure(longshore, effort, &processors, outcome)
    })?;
    progress("");
    if processors.len() < 2 {
        outcome
            .left_out
            .push("what two processors do: this process may use one only".to_owned());
    }
    outcome.left_out.push(
        "reads and writes of device registers: there is no device of ours; Longshore's are \
         wake-ups, which stand there instead"
            .to_owned(),
    );
    Ok(outcome)
}

/// The processors that this process may use.
pub(super) fn allowed() -> rustix::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Keeps this thread, and what it starts, to these processors.
pub(super) fn keep_to(processors: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)
}

/// The paper's slowest and fastest server: ns and cycles for L1, L2, main memory.
const THEIRS: [[f64; 6]; 2] = [
    [6.75, 3.0, 38.3, 17.0, 207.0, 93.0],
    [0.6, 2.0, 5.8, 18.0, 111.0, 376.0],
];

/// Table 2 as far as a machine has it.
fn table_2(effort: Effort, frequency: Option<Spread>, latency: &[memory::Point]) -> Sheet {
    let mut sheet = Sheet::new(
        "memory",
        "Table 2: time to reach memory, in ns and in clock cycles",
        &effort.basis(),
        &[
            ("where", ""),
            ("working set", "KB"),
            ("time", "ns"),
            ("cycles", "cycles"),
            ("2000, 450 MHz Pentium II Xeon", "ns"),
            ("2000, cycles", "cycles"),
            ("2004, 3.2 GHz Xeon", "ns"),
            ("2004, cycles", "cycles"),
        ],
    );
    for (place, name) in memory::LEVELS.iter().enumerate() {
        let Some(point) = memory::of_level(latency, place) else {
            continue;
        };
        // The paper's servers had no third level that it measured.
        let column = [Some(0), Some(1), None, Some(2)][place];
        let theirs = |machine: usize, cycles: usize| -> Cell {
            column
                .map(|column| THEIRS[machine][2 * column + cycles])
                .into()
        };
        sheet.row([
            Cell::from(*name),
            Cell::Count(point.bytes >> 10),
            point.ns.into(),
            frequency.map(|f| point.ns.times(f.median)).into(),
            theirs(0, 0),
            theirs(0, 1),
            theirs(1, 0),
            theirs(1, 1),
        ]);
    }
    sheet.row([
        Cell::from("clock, GHz"),
        Cell::None,
        frequency.into(),
        Cell::None,
        Cell::Number(0.45),
        Cell::None,
        Cell::Number(3.2),
        Cell::None,
    ]);
    sheet
}

/// Latency by working set, and what a rate gains by processors.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(sheet) = outcome.sheet("latency") {
        charts.push(Chart {
            title: "Time to reach memory (Table 2)".to_owned(),
            x: Axis::doubling("working set, KB"),
            y: Axis::decades("ns"),
            kind: Kind::Lines,
            series: vec![Series::new(
                "a load that waits for the one before",
                sheet.points("working set", "time"),
            )],
        });
    }
    if let Some(sheet) = outcome.sheet("pages") {
        let line = |column: &str| Series::new(column, sheet.points("size", column));
        charts.push(Chart {
            title: "Handing over payload: by copying it or by exchanging pages".to_owned(),
            x: Axis::doubling("KB"),
            y: Axis::decades("us"),
            kind: Kind::Lines,
            series: vec![
                line("exchange"),
                line("exchange beside a thread"),
                line("copy, cold"),
                line("copy, hot"),
            ],
        });
    }
    charts.extend(outcome.sheet("scaling").map(scaling::chart));
    charts
}
