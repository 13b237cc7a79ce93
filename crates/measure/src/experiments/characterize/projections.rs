//! What faster processors and memory would do: Table 2, Figs. 3 and 4, by a model.
//!
//! A payload takes a cycle for each instruction, and the time of memory for each access to it,
//! none of which overlap. Real processors do several instructions in a cycle and several
//! accesses at a time; the model's share of memory is an upper bound where both do alike. The
//! paper's own counts go through the same model, so that its measurements show how good it is.

use super::counts::Counts;
use super::paper::{FREQUENCIES, Taken};
use super::payloads::Direction;
use crate::experiment::{Axis, Cell, Chart, Kind, Outcome, Series, Sheet};

/// Frequencies of Fig. 3, in GHz.
const GIGAHERTZ: [f64; 8] = [0.6, 1.6, 2.4, 3.2, 4.8, 6.4, 8.0, 10.0];
/// Shares of today's latency of memory in Fig. 4.
const LATENCIES: [f64; 4] = [1.0, 0.75, 0.5, 0.25];
/// Payloads of Fig. 4, in bytes.
const SIZES: [usize; 5] = [128, 256, 512, 1024, 1460];
const BASIS: &str = "computed: a cycle for each instruction, and main memory's time for each \
                     memory access";

/// The time that memory takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) ns: f64,
}

impl Memory {
    /// Nanoseconds of a payload.
    fn time(self, taken: &Taken, gigahertz: f64) -> f64 {
        taken.instructions / gigahertz + taken.memory * self.ns
    }

    /// What of a faster clock becomes faster work, in percent.
    fn scaling(self, taken: &Taken) -> f64 {
        let [slow, fast] = FREQUENCIES;
        let gained = self.time(taken, slow) / self.time(taken, fast);
        100.0 * gained / (fast / slow)
    }
}

/// Table 2.
pub(super) fn table_2(counts: &[Counts], memory: Memory) -> Sheet {
    let mut sheet = Sheet::new(
        "scaling",
        "Table 2: what of a clock that goes from 0.6 to 1.6 GHz becomes faster work",
        BASIS,
        &[
            ("payload", "bytes"),
            ("sending", "%"),
            ("receiving", "%"),
            ("2003: sending, measured", "%"),
            ("2003: sending, by this model", "%"),
            ("2003: receiving, measured", "%"),
            ("2003: receiving, by this model", "%"),
        ],
    );
    for counts in counts {
        let here = |direction| Cell::Number(memory.scaling(counts.of(direction)));
        let measured = |direction| Cell::from(counts.line.scaling(direction));
        let modelled = |direction| Cell::Number(memory.scaling(counts.line.taken(direction)));
        sheet.row([
            Cell::Count(counts.line.size as u64),
            here(Direction::Transmit),
            here(Direction::Receive),
            measured(Direction::Transmit),
            modelled(Direction::Transmit),
            measured(Direction::Receive),
            modelled(Direction::Receive),
        ]);
    }
    sheet
}

/// Fig. 3: `mscale` has memory as it is, `pscale` memory that grows as fast as the clock.
#[expect(clippy::cast_precision_loss, reason = "a rate to show")]
pub(super) fn fig_3(counts: &[Counts], memory: Memory, today: f64) -> Sheet {
    let mut sheet = Sheet::new(
        "frequency",
        "Fig. 3: rates that one processor allows by its clock; pscale is with memory that becomes \
         faster as the clock does",
        BASIS,
        &[
            ("direction", ""),
            ("payload", "bytes"),
            ("clock", "GHz"),
            ("mscale", "Gb/s"),
            ("pscale", "Gb/s"),
        ],
    );
    for direction in Direction::BOTH {
        for counts in counts {
            for gigahertz in GIGAHERTZ {
                let scaled = Memory {
                    ns: memory.ns * today / gigahertz,
                };
                let rate = |memory: Memory| {
                    let ns = memory.time(counts.of(direction), gigahertz);
                    Cell::Number(counts.line.size as f64 * 8.0 / ns)
                };
                sheet.row([
                    direction.word().into(),
                    Cell::Count(counts.line.size as u64),
                    gigahertz.into(),
                    rate(memory),
                    rate(scaled),
                ]);
            }
        }
    }
    sheet
}

/// Fig. 4.
pub(super) fn fig_4(counts: &[Counts], memory: Memory, today: f64) -> Sheet {
    let mut sheet = Sheet::new(
        "latency",
        "Fig. 4: how much more is received where memory takes a share of today's time",
        BASIS,
        &[
            ("payload", "bytes"),
            ("memory's time", "%"),
            ("here", "x"),
            ("2003, by this model", "x"),
        ],
    );
    for counts in counts {
        for share in LATENCIES {
            let faster = Memory {
                ns: memory.ns * share,
            };
            let gain = |taken: &Taken, gigahertz: f64| {
                Cell::Number(memory.time(taken, gigahertz) / faster.time(taken, gigahertz))
            };
            sheet.row([
                Cell::Count(counts.line.size as u64),
                Cell::Number(100.0 * share),
                gain(counts.of(Direction::Receive), today),
                gain(counts.line.taken(Direction::Receive), FREQUENCIES[1]),
            ]);
        }
    }
    sheet
}

/// Figs. 3 and 4.
pub(super) fn charts(outcome: &Outcome) -> Vec<Chart> {
    let mut charts = Vec::new();
    if let Some(sheet) = outcome.sheet("frequency") {
        charts.extend(Direction::BOTH.map(|direction| frequency(sheet, direction)));
    }
    if let Some(sheet) = outcome.sheet("latency") {
        let sizes = SIZES.iter().map(|size| {
            let first = [Cell::Count(*size as u64)];
            let points = sheet.points_of(&first, "memory's time", "here");
            Series::new(&size.to_string(), points)
        });
        charts.push(Chart {
            title: "Receiving with faster memory (Fig. 4)".to_owned(),
            x: Axis::linear("memory's time, % of today's"),
            y: Axis::linear("times today's rate"),
            kind: Kind::Lines,
            series: drawn(sizes),
        });
    }
    charts
}

fn frequency(sheet: &Sheet, direction: Direction) -> Chart {
    let lines = [1460, 4096, 8192].into_iter().flat_map(|size| {
        ["mscale", "pscale"].map(|scale| {
            let first = [direction.word().into(), Cell::Count(size)];
            let points = sheet.points_of(&first, "clock", scale);
            Series::new(&format!("{size}_{scale}"), points)
        })
    });
    Chart {
        title: format!("Rate by clock, {} (Fig. 3)", direction.doing()),
        x: Axis::linear("GHz"),
        y: Axis::linear("Gb/s"),
        kind: Kind::Lines,
        series: drawn(lines),
    }
}

/// Those that have points: short runs have fewer sizes.
fn drawn(series: impl Iterator<Item = Series>) -> Vec<Series> {
    series.filter(|series| !series.points.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::characterize::paper::LINES;

    #[test]
    fn without_accesses_to_memory_the_clock_is_all() {
        let memory = Memory { ns: 100.0 };
        let mut taken = *LINES[0].taken(Direction::Receive);
        taken.memory = 0.0;
        assert!((memory.scaling(&taken) - 100.0).abs() < 1e-9);
        // 3,759 instructions and 3.1 accesses.
        taken.memory = 3.1;
        let expected = (3759.0 / 0.6 + 310.0) / (3759.0 / 1.6 + 310.0) / (1.6 / 0.6);
        assert!((memory.scaling(&taken) - 100.0 * expected).abs() < 1e-9);
    }
}
