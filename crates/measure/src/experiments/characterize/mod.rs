//! The experiment of 2003: what a payload asks of a processor, by its size.
//!
//! `payloads` sends and receives payloads; `counts` has them counted by callgrind with the
//! paper's caches, `times` measures how long they take, and `projections` says what faster
//! processors and memory would do. `paper` has the paper's figures.

mod counts;
mod paper;
pub(crate) mod payloads;
mod projections;
mod times;

pub(super) use counts::instructions;

use super::host::{self, memory};
use super::tap::of_tap;
use crate::experiment::{Axis, Chart, ExperimentError, Kind, Outcome, Series, progress};
use payloads::Direction;
use std::path::Path;

/// Its name on the command line.
pub const NAME: &str = "characterize";
const PAPER: &str = "Makineni, Iyer, Performance Characterization of TCP/IP Packet Processing in \
                     Commercial Server Workloads, 2003";

/// Counts and measures payloads. The process must be in a network namespace of its own, in
/// which it may make devices.
///
/// # Errors
/// [`ExperimentError`]; without valgrind there is nothing to show.
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    let lines = counts::lines(quick);
    progress("characterize: callgrind counts");
    let counts = counts::count(longshore, &lines)?;
    for direction in Direction::BOTH {
        outcome.sheets.push(counts::table_1(direction, &counts));
    }
    outcome.sheets.push(counts::ratios(&counts));
    outcome.sheets.push(counts::table_3(&counts));
    progress("characterize: memory");
    let effort = host::Effort::of(quick);
    let clock = memory::frequency(effort).zip(memory::main_memory(effort));
    let effort = times::Effort::of(quick);
    if let Some((clock, latency)) = clock {
        let memory = projections::Memory { ns: latency.median };
        outcome.sheets.extend([
            times::per_instruction(longshore, &counts, clock.median, effort)?,
            projections::table_2(&counts, memory),
            projections::fig_3(&counts, memory, clock.median),
            projections::fig_4(&counts, memory, clock.median),
        ]);
    }
    times::threads(longshore, effort, &mut outcome)?;
    of_tap(&mut outcome, "throughput (Fig. 1)", |outcome| {
        let throughput = times::throughput(longshore, &lines, effort)?;
        outcome.sheets.push(throughput);
        Ok(())
    })?;
    progress("");
    outcome.left_out.extend([
        "the paper's own counters: valgrind simulates caches, and TLBs as caches of pages; \
         neither it nor the clock sees what a processor fetches ahead"
            .to_owned(),
        "in the counts: wake-ups, system calls and a driver. The program and the engine take \
         turns without sleeping, and the adapter moves payload by itself"
            .to_owned(),
    ]);
    Ok(outcome)
}

/// Figs. 1 to 4.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(sheet) = outcome.sheet("throughput") {
        let series = |column: &str| Series::new(column, sheet.points("payload", column));
        for (title, unit, columns) in [
            ("Throughput (Fig. 1)", "Gb/s", &["sending", "receiving"][..]),
            (
                "Processor use (Fig. 1)",
                "% of a processor",
                &[
                    "sending: program",
                    "sending: engine",
                    "receiving: program",
                    "receiving: engine",
                ],
            ),
        ] {
            charts.push(Chart {
                title: title.to_owned(),
                x: Axis::doubling("payload, bytes"),
                y: Axis::linear(unit),
                kind: Kind::Lines,
                series: columns.iter().map(|column| series(column)).collect(),
            });
        }
    }
    charts.extend(path_lengths(outcome));
    charts.extend(projections::charts(outcome));
    charts
}

/// Fig. 2a.
fn path_lengths(outcome: &Outcome) -> Option<Chart> {
    let series = |direction: Direction| {
        let sheet = outcome.sheet(direction.word())?;
        let of = |name: &str, column: &str| Series::new(name, sheet.points("payload", column));
        Some([
            of(direction.doing(), "instructions"),
            of(
                &format!("{}, 2003", direction.doing()),
                "2003: instructions",
            ),
        ])
    };
    let [sending, receiving] = Direction::BOTH.map(series);
    Some(Chart {
        title: "Path length (Fig. 2a)".to_owned(),
        x: Axis::doubling("payload, bytes"),
        y: Axis::decades("instructions"),
        kind: Kind::Lines,
        series: sending?.into_iter().chain(receiving?).collect(),
    })
}
