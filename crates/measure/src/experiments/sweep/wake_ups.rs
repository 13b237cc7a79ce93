//! The sweep with wake-ups suppressed and not: a program that looks for a while before it sleeps
//! is woken seldom, and one that sleeps at once whenever it has nothing left. It is what the
//! papers' suppression of interrupts is for them.

use super::NAME;
use crate::experiment::{Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread};
use crate::experiments::bulk::{self, Bulk, ENGINE_CUTS, Waiting};
use std::path::Path;

const SHEET: &str = "wake-ups";
/// Largest packets: where the papers say that suppression pays, and where not.
const MTUS: [u32; 4] = [1500, 9000, 16_384, 57_344];
/// Directions, and their programs.
const DIRECTIONS: [(&str, [&str; 2]); 2] = [
    ("sending", ["source", "pull"]),
    ("receiving", ["sink", "push"]),
];
/// Whether the program sleeps at once: columns of bandwidth, and of wake-ups.
const MODES: [(bool, &str, &str); 2] = [
    (false, "suppressed", "suppressed: wake-ups"),
    (true, "not suppressed", "not suppressed: wake-ups"),
];

/// One run: Gb/s, and how often the program was woken for each MB.
#[expect(clippy::cast_precision_loss, reason = "a rate to show")]
fn run(waiting: &Waiting<'_>) -> Result<[f64; 2], ExperimentError> {
    let before = waiting.running.counts()?;
    let gigabits = waiting.rate()?;
    let counts = waiting.running.counts_at_rest()?.since(&before);
    // What crossed to the adapter and back is what was moved, but for descriptors.
    let megabytes = counts.to_host.bytes().max(counts.to_adapter.bytes()) as f64 / 1e6;
    Ok([gigabits, counts.to_host.wakeups as f64 / megabytes])
}

/// Measures both in turn, so many runs of so many milliseconds.
pub(super) fn measure(
    longshore: &Path,
    quick: bool,
    (runs, milliseconds): (u32, u32),
) -> Result<Sheet, ExperimentError> {
    let mtus = if quick { &MTUS[..1] } else { &MTUS };
    let mut bulks = Vec::new();
    for (direction, programs) in DIRECTIONS {
        for mtu in mtus {
            for (sleeps, name, _) in MODES {
                let bulk = Bulk {
                    longshore,
                    programs,
                    native: false,
                    size: None,
                    mtu: *mtu,
                    options: ENGINE_CUTS,
                    sleeps,
                    milliseconds,
                };
                bulks.push((format!("wake-ups {name}, {direction}, MTU {mtu}"), bulk));
            }
        }
    }
    let mut all = bulk::in_turn(NAME, runs, &bulks, run)?.into_iter();
    let mut sheet = Sheet::new(
        SHEET,
        "Suppression of wake-ups: a program that looks for a while before it sleeps, and one that \
         does not; the engine sums",
        &Spread::basis(runs),
        &[
            ("direction", ""),
            ("MTU", "bytes"),
            (MODES[0].1, "Gb/s"),
            (MODES[1].1, "Gb/s"),
            (MODES[0].2, "number/MB"),
            (MODES[1].2, "number/MB"),
        ],
    );
    for (direction, _) in DIRECTIONS {
        for mtu in mtus {
            let [on, off] = [all.next(), all.next()].map(Option::unwrap_or_default);
            let cell = |runs: &[[f64; 2]], which: usize| {
                let figures: Vec<f64> = runs.iter().map(|run| run[which]).collect();
                Cell::from(Spread::of(&figures))
            };
            sheet.row([
                direction.into(),
                Cell::Count((*mtu).into()),
                cell(&on, 0),
                cell(&off, 0),
                cell(&on, 1),
                cell(&off, 1),
            ]);
        }
    }
    Ok(sheet)
}

/// Bandwidth with and without.
pub(super) fn chart(outcome: &Outcome) -> Option<Chart> {
    let sheet = outcome.sheet(SHEET)?;
    let lines = DIRECTIONS.iter().flat_map(|(direction, _)| {
        MODES.map(|(_, column, _)| {
            let points = sheet.points_of(&[(*direction).into()], "MTU", column);
            Series::new(&format!("{direction}, {column}"), points)
        })
    });
    Some(Chart {
        title: "TCP bandwidth with wake-ups suppressed and not".to_owned(),
        x: Axis::doubling("MTU, bytes"),
        y: Axis::linear("Gb/s"),
        kind: Kind::Lines,
        series: lines.collect(),
    })
}
