//! What payloads take in time: alone on a processor, two at once, and between programs.

use super::counts::Counts;
use super::paper::Line;
use super::payloads::Direction;
use crate::experiment::{Cell, ExperimentError, Outcome, Sheet, Spread, progress, system};
use crate::experiments::beside::Beside;
use crate::experiments::bulk::Bulk;
use crate::experiments::host::{allowed, keep_to};
use std::path::Path;
use std::time::Instant;

const MTU: u32 = 1500;
/// The payload of Fig. 5.
const OF_THREADS: usize = 1460;

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    pub(super) runs: u32,
    pub(super) milliseconds: u32,
}

impl Effort {
    pub(super) fn of(quick: bool) -> Self {
        let (runs, milliseconds) = if quick { (2, 30) } else { (5, 150) };
        Effort { runs, milliseconds }
    }

    fn basis(self) -> String {
        Spread::basis(self.runs)
    }
}

/// Starts payloads on the processors of this thread; their figure is the nanoseconds of one.
fn start(
    longshore: &Path,
    direction: Direction,
    size: usize,
    effort: Effort,
) -> Result<Beside, ExperimentError> {
    let (size, milliseconds) = (size.to_string(), effort.milliseconds.to_string());
    let words = ["payload-times", direction.word(), &size, &milliseconds];
    Beside::program(longshore, &words)
}

/// Fig. 2b as far as it can be had without a counter of cycles.
pub(super) fn per_instruction(
    longshore: &Path,
    counts: &[Counts],
    gigahertz: f64,
    effort: Effort,
) -> Result<Sheet, ExperimentError> {
    let mut runs = vec![[Vec::new(), Vec::new()]; counts.len()];
    for run in 1..=effort.runs {
        progress(&format!(
            "characterize: times, run {run} of {}",
            effort.runs
        ));
        for (counts, runs) in counts.iter().zip(&mut runs) {
            for (direction, runs) in Direction::BOTH.into_iter().zip(runs) {
                runs.push(start(longshore, direction, counts.line.size, effort)?.figure()?);
            }
        }
    }
    let mut sheet = Sheet::new(
        "times",
        "Fig. 2b: time of a payload, and cycles an instruction as its time, the clock and the \
         counted instructions have it",
        &effort.basis(),
        &[
            ("payload", "bytes"),
            ("sending", "ns"),
            ("receiving", "ns"),
            ("sending, each instruction", "cycles"),
            ("receiving, each instruction", "cycles"),
        ],
    );
    for (counts, [sending, receiving]) in counts.iter().zip(&runs) {
        let each = |runs: &[f64], direction| {
            let factor = gigahertz / counts.of(direction).instructions;
            Cell::from(Spread::of(runs).map(|spread| spread.times(factor)))
        };
        sheet.row([
            Cell::Count(counts.line.size as u64),
            Spread::of(sending).into(),
            Spread::of(receiving).into(),
            each(sending, Direction::Transmit),
            each(receiving, Direction::Receive),
        ]);
    }
    Ok(sheet)
}

/// Another processor that shares the core of the first of these.
fn sibling(processors: &[usize]) -> Option<usize> {
    let first = processors.first()?;
    let path = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).ok()?;
    of_list(&list)
        .into_iter()
        .find(|cpu| cpu != first && processors.contains(cpu))
}

/// The numbers of a list as the kernel writes it: `0,64` or `0-1`.
fn of_list(list: &str) -> Vec<usize> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some(from.parse().ok()?..=to.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

/// Fig. 5: two that work at once.
pub(super) fn threads(
    longshore: &Path,
    effort: Effort,
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    let processors = allowed().map_err(system("read this thread's processors"))?;
    let sibling = sibling(&processors);
    let (place, second) = match (sibling, processors.get(1)) {
        (Some(sibling), _) => ("two threads of a core", sibling),
        (None, Some(other)) => ("two cores", *other),
        (None, None) => {
            outcome
                .left_out
                .push("Fig. 5: this process may use one processor only".to_owned());
            return Ok(());
        }
    };
    if sibling.is_none() {
        outcome.left_out.push(
            "Fig. 5, threads that hide the latency of memory: no core here has two; the table has \
             two cores in their place"
                .to_owned(),
        );
    }
    let mut sheet = Sheet::new(
        "threads",
        "Fig. 5: what two that work at once do more than one, payloads of 1,460 bytes",
        &effort.basis(),
        &[
            ("direction", ""),
            ("where", ""),
            ("one", "payloads/s"),
            ("two", "payloads/s"),
            ("gained", "%"),
            ("2003, threads: least", "%"),
            ("2003, threads: most", "%"),
        ],
    );
    for direction in Direction::BOTH {
        let first = processors[0];
        let sets = [&[first][..], &[first, second]];
        let [one, two] = rates_in_turn(longshore, direction, sets, &processors, effort)?;
        let gained = one
            .zip(two)
            .map(|(one, two)| 100.0 * (two.median / one.median - 1.0));
        sheet.row([
            direction.word().into(),
            place.into(),
            one.into(),
            two.into(),
            gained.into(),
            20.0.into(),
            50.0.into(),
        ]);
    }
    outcome.sheets.push(sheet);
    Ok(())
}

/// Payloads a second on each of two sets of processors, in turn; between the runs this process
/// may be on `all` of them.
fn rates_in_turn(
    longshore: &Path,
    direction: Direction,
    sets: [&[usize]; 2],
    all: &[usize],
    effort: Effort,
) -> Result<[Option<Spread>; 2], ExperimentError> {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..effort.runs {
        for (set, rates) in sets.into_iter().zip(&mut rates) {
            let rate = together(longshore, direction, set, effort);
            keep_to(all).map_err(system("be on all processors again"))?;
            rates.push(rate?);
        }
    }
    Ok(rates.map(|rates| Spread::of(&rates)))
}

/// Payloads a second, one engine on each of these processors.
fn together(
    longshore: &Path,
    direction: Direction,
    processors: &[usize],
    effort: Effort,
) -> Result<f64, ExperimentError> {
    let mut children = Vec::new();
    for processor in processors {
        keep_to(&[*processor]).map_err(system("be on one processor"))?;
        children.push(start(longshore, direction, OF_THREADS, effort)?);
    }
    let times: Result<Vec<f64>, _> = children.into_iter().map(Beside::figure).collect();
    Ok(times?.iter().map(|ns| 1e9 / ns).sum())
}

/// One run of Fig. 1: Gb/s, and the share of a processor that program and engine had.
struct Moved {
    rate: f64,
    program: f64,
    engine: f64,
}

/// Fig. 1.
pub(super) fn throughput(
    longshore: &Path,
    lines: &[&Line],
    effort: Effort,
) -> Result<Sheet, ExperimentError> {
    let effort = Effort {
        runs: effort.runs.div_ceil(2),
        ..effort
    };
    let mut all: Vec<[Vec<f64>; 6]> = vec![Default::default(); lines.len()];
    for run in 1..=effort.runs {
        for (line, figures) in lines.iter().zip(&mut all) {
            progress(&format!(
                "characterize: {} bytes at a time, run {run} of {}",
                line.size, effort.runs
            ));
            for (direction, figures) in Direction::BOTH.into_iter().zip(figures.chunks_mut(3)) {
                let moved = moved(longshore, direction, line.size, effort)?;
                let new = [moved.rate, moved.program, moved.engine];
                figures
                    .iter_mut()
                    .zip(new)
                    .for_each(|(runs, n)| runs.push(n));
            }
        }
    }
    let mut sheet = Sheet::new(
        "throughput",
        "Fig. 1: one connection to the kernel and from it, by the bytes of a call",
        &effort.basis(),
        &[
            ("payload", "bytes"),
            ("sending", "Gb/s"),
            ("sending: program", "% of a processor"),
            ("sending: engine", "% of a processor"),
            ("receiving", "Gb/s"),
            ("receiving: program", "% of a processor"),
            ("receiving: engine", "% of a processor"),
        ],
    );
    for (line, figures) in lines.iter().zip(&all) {
        let size = [Cell::Count(line.size as u64)];
        let figures = figures.iter().map(|runs| Spread::of(runs).into());
        sheet.row(size.into_iter().chain(figures));
    }
    Ok(sheet)
}

#[expect(clippy::cast_precision_loss, reason = "shares to show")]
fn moved(
    longshore: &Path,
    direction: Direction,
    size: usize,
    effort: Effort,
) -> Result<Moved, ExperimentError> {
    let bulk = Bulk {
        longshore,
        programs: match direction {
            Direction::Transmit => ["source", "pull"],
            Direction::Receive => ["sink", "push"],
        },
        native: false,
        size: Some(size),
        mtu: MTU,
        options: &[],
        sleeps: false,
        milliseconds: 2 * effort.milliseconds,
    };
    bulk.with(|waiting| {
        let used = || [waiting.running.processor_ns(), waiting.running.engine_ns()];
        let (before, begin) = (used(), Instant::now());
        let rate = waiting.rate()?;
        let (after, took) = (used(), begin.elapsed());
        let share = |which: usize| {
            let ns = after[which].saturating_sub(before[which]);
            100.0 * ns as f64 / took.as_nanos() as f64
        };
        Ok(Moved {
            rate,
            program: share(0),
            engine: share(1),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(of_list("0,64\n"), [0, 64]);
        assert_eq!(of_list("2-4,7\n"), [2, 3, 4, 7]);
        assert_eq!(of_list("0"), [0]);
        assert!(of_list("").is_empty());
    }
}
