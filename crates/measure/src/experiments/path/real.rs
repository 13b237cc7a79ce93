//! How often the connection of a segment is that of the segment before, on real traffic.

use crate::crossing::load::{self, Watched};
use crate::experiment::{Cell, ExperimentError, Outcome, Sheet};
use std::path::Path;

/// What the paper counted: where, segments, and the percentage whose connection was cached.
const OF_THE_PAPER: [(&str, u64, f64); 2] = [
    (
        "paper: workstation, 38 days, 5,715 connections",
        353_238,
        93.2,
    ),
    (
        "paper: mail server, 2 days, 2,044 connections",
        121_676,
        89.8,
    ),
];

/// Adds the sheet.
pub(super) fn measure(
    longshore: &Path,
    quick: bool,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    let (all, left_out) = load::watch(longshore, quick)?;
    outcome.leave_parts_out(left_out);
    let mut sheet = Sheet::new(
        "cache",
        "How often a segment's connection was that of the segment before, and its header as \
         predicted",
        "counts of one run; how many segments there are depends on timing",
        &[
            ("traffic", ""),
            ("connections", "number"),
            ("segments in", "number"),
            ("connection cached", "%"),
            ("header predicted", "%"),
        ],
    );
    for Watched {
        workload,
        connections,
        segments,
        cached,
        predicted,
    } in all
    {
        #[expect(clippy::cast_precision_loss, reason = "a percentage to show")]
        let share = |part: u64| Cell::Number(100.0 * part as f64 / segments.max(1) as f64);
        sheet.row([
            Cell::from(workload),
            Cell::Count(connections.into()),
            Cell::Count(segments),
            share(cached),
            share(predicted),
        ]);
    }
    for (name, segments, cached) in OF_THE_PAPER {
        sheet.row([
            Cell::from(name),
            Cell::None,
            Cell::Count(segments),
            Cell::Number(cached),
            Cell::None,
        ]);
    }
    outcome.sheets.push(sheet);
    Ok(())
}
