//! The experiments of the papers, each with its figures beside theirs. Each has a function
//! that measures, and one that says which plots its outcome makes.

mod beside;
mod bulk;
pub mod bus;
mod callgrind;
pub mod characterize;
pub mod cpu;
pub mod host;
pub mod immediate;
pub mod latency;
pub mod path;
pub mod port;
pub mod sweep;
pub mod tap;

use crate::experiment::{Chart, Outcome};
use std::time::Instant;

/// The plots of an experiment's outcome.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let mut charts = match &*outcome.experiment {
        bus::NAME => bus::charts(outcome),
        characterize::NAME => characterize::charts(outcome),
        cpu::NAME => cpu::charts(outcome),
        host::NAME => host::charts(outcome),
        immediate::NAME => immediate::charts(outcome),
        latency::NAME => latency::charts(outcome),
        path::NAME => path::charts(outcome),
        port::NAME => port::charts(outcome),
        sweep::NAME => sweep::charts(outcome),
        _ => Vec::new(),
    };
    // Short runs lack what some show.
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    charts
}

/// Nanoseconds that each of so many calls takes.
fn ns_each(times: u32, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..times).for_each(|_| work());
    #[expect(clippy::cast_precision_loss, reason = "a time to show")]
    let ns = start.elapsed().as_nanos() as f64;
    ns / f64::from(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_has_no_plot() {
        for name in [characterize::NAME, host::NAME, latency::NAME, sweep::NAME] {
            assert!(charts(&Outcome::new(name, "", true)).is_empty(), "{name}");
        }
    }
}
