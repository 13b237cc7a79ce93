//! Where the processor's time goes, as Fig. 3 of 2001 and Fig. 5 of 1999 have it: in data, in
//! wake-ups, memory, buffers, TCP/IP and the driver, by the largest packet.
//!
//! `samples` has perf sample program and engine while bulk moves; `symbols` is the table that
//! says what a function is part of.

mod samples;
mod symbols;

use super::bulk::{self, Bulk, ENGINE_CUTS, ENGINE_CUTS_BY, PAPERS, Waiting};
use super::tap;
use crate::experiment::{Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread};
use samples::{PERIOD_NS, Recording, Sampled};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
pub use symbols::built_names;
use symbols::{Owner, Part, RULES, part_of};

/// Its name on the command line.
pub const NAME: &str = "cpu";
/// Functions that are shown for each part.
const SHOWN: usize = 5;

/// A configuration of Fig. 3.
struct Configuration {
    name: &'static str,
    mtu: u32,
    /// Whether the program is written for Longshore, and copies nothing.
    in_place: bool,
    /// Whether the port cuts packets and makes checksums, and not the engine.
    by_port: bool,
}

const fn configuration(
    name: &'static str,
    mtu: u32,
    in_place: bool,
    by_port: bool,
) -> Configuration {
    Configuration {
        name,
        mtu,
        in_place,
        by_port,
    }
}

/// The figure's six.
const CONFIGURATIONS: [Configuration; 6] = [
    configuration("1500", 1500, false, false),
    configuration("9000", 9000, false, false),
    configuration("32768", 32_768, false, false),
    configuration("32768, in place", 32_768, true, false),
    configuration("32768, offloaded", 32_768, false, true),
    configuration("32768, both", 32_768, true, true),
];

/// Direction, its programs, and those for use in place.
const DIRECTIONS: [(&str, [&str; 2], [&str; 2]); 2] = [
    ("receiving", ["sink", "push"], ["native-sink", "push"]),
    ("sending", ["source", "pull"], ["native-source", "pull"]),
];

/// What one run gave.
struct Run {
    gigabits: f64,
    /// Microseconds of a processor for each MB: of program and engine.
    micros: f64,
    /// Percent of them in each part, 100 together.
    shares: [f64; Part::ALL.len()],
    samples: Vec<Sampled>,
}

/// Runs of a configuration, in the order in which they were made. Parts of a run add up, and
/// medians of parts do not: so all figures of a row of parts are of the run in the middle, by the
/// processor time that was taken for each MB.
struct Runs {
    all: Vec<Run>,
    /// The place of the run in the middle.
    middle: Option<usize>,
}

impl Runs {
    fn of(all: Vec<Run>) -> Self {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| all[*a].micros.total_cmp(&all[*b].micros));
        let middle = order.get(all.len().saturating_sub(1) / 2).copied();
        Runs { all, middle }
    }

    /// A figure of the run in the middle, with the least and the most of all runs.
    fn spread(&self, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        let figures: Vec<f64> = self.all.iter().map(figure).collect();
        let middle = figures[self.middle?];
        Spread::of(&figures).map(|spread| Spread {
            median: middle,
            ..spread
        })
    }

    /// Microseconds for each MB in some parts, of each run.
    fn micros_in(&self, parts: &[Part]) -> Vec<f64> {
        let of = |run: &Run| {
            let share: f64 = parts.iter().map(|part| run.shares[*part as usize]).sum();
            run.micros * share / 100.0
        };
        self.all.iter().map(of).collect()
    }

    fn basis(runs: u32) -> String {
        match runs {
            1 => Spread::basis(1),
            _ => format!(
                "each row is the run in the middle by processor time, of {runs} in turn; least \
                 and most in brackets"
            ),
        }
    }
}

/// Samples all configurations in turn. The process must be in a network namespace of its own,
/// in which it may make devices.
///
/// # Errors
/// [`ExperimentError`]; without perf, or where it may not sample, there is nothing to show.
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    tap::needed()?;
    let (runs, milliseconds) = if quick { (1, 150) } else { (3, 600) };
    let directions = if quick { 1 } else { DIRECTIONS.len() };
    let configurations: Vec<&Configuration> = CONFIGURATIONS
        .iter()
        .filter(|it| !quick || !it.in_place && !it.by_port && it.mtu < 30_000)
        .collect();
    let mut bulks = Vec::new();
    for (direction, usual, in_place) in &DIRECTIONS[..directions] {
        for it in &configurations {
            let bulk = Bulk {
                longshore,
                programs: if it.in_place { *in_place } else { *usual },
                native: it.in_place,
                size: None,
                mtu: it.mtu,
                options: if it.by_port { &[] } else { ENGINE_CUTS },
                sleeps: false,
                milliseconds,
            };
            bulks.push((format!("{direction}, MTU {}", it.name), bulk));
        }
    }
    let all = bulk::in_turn(NAME, runs, &bulks, sample)?;
    let all: Vec<Runs> = all.into_iter().map(Runs::of).collect();
    let mut outcome = Outcome::new(NAME, PAPERS, quick);
    let basis = Runs::basis(runs);
    outcome.sheets.extend([
        shares(&configurations, &all, &basis),
        times(&configurations, &all, &basis),
        packets(&configurations, &all),
        functions(&all),
        table(),
    ]);
    outcome.left_out.extend([
        "the paper's 370 Mb/s, held by a slow sender: here as much moves as can, so that shares \
         are of the time that program and engine had, and not of a processor"
            .to_owned(),
        ENGINE_CUTS_BY.to_owned(),
        "page remapping: `in place` is Longshore's own calls, which need no copy".to_owned(),
    ]);
    if !samples_of(&all).any(|sampled| sampled.owner == Owner::Kernel) {
        outcome.left_out.push(
            "parts of the time in the kernel, which is `unknown`: the sysctl \
             kernel.perf_event_paranoid keeps its samples from this user"
                .to_owned(),
        );
    }
    Ok(outcome)
}

/// Moves bulk, and samples the program and its engine meanwhile.
#[expect(clippy::cast_precision_loss, reason = "times to show")]
fn sample(waiting: &Waiting<'_>) -> Result<Run, ExperimentError> {
    let running = &waiting.running;
    let used = || running.processor_ns() + running.engine_ns();
    let recording = Recording::begin(&running.processes())?;
    let (before, begin) = (used(), Instant::now());
    let gigabits = waiting.rate()?;
    let (ns, seconds) = (used().saturating_sub(before), begin.elapsed().as_secs_f64());
    let samples = recording.end()?;
    let megabytes = gigabits * seconds * 1e3 / 8.0;
    Ok(Run {
        gigabits,
        micros: ns as f64 / 1e3 / megabytes,
        shares: shares_of(&samples, ns),
        samples,
    })
}

/// Percent of `ns` nanoseconds of processor time in each part. What the samples do not account
/// for is unknown: with it the parts are 100 % together.
#[expect(clippy::cast_precision_loss, reason = "shares to show")]
fn shares_of(samples: &[Sampled], ns: u64) -> [f64; Part::ALL.len()] {
    let mut in_part = [0; Part::ALL.len()];
    for sampled in samples {
        in_part[part_of(sampled.owner, &sampled.function) as usize] += sampled.count * PERIOD_NS;
    }
    let sampled: u64 = in_part.iter().sum();
    in_part[Part::Unknown as usize] += ns.saturating_sub(sampled);
    let all = ns.max(sampled).max(1) as f64;
    in_part.map(|part| 100.0 * part as f64 / all)
}

fn samples_of(all: &[Runs]) -> impl Iterator<Item = &Sampled> {
    all.iter()
        .flat_map(|runs| &runs.all)
        .flat_map(|run| &run.samples)
}

/// The rows of a sheet: a name, and a configuration with its runs.
fn rows<'a>(
    configurations: &'a [&'a Configuration],
    all: &'a [Runs],
) -> impl Iterator<Item = (String, &'a Configuration, &'a Runs)> {
    let each = DIRECTIONS.iter().flat_map(move |(direction, ..)| {
        let of_one = configurations.iter();
        of_one.map(move |it| (format!("{direction}, {}", it.name), *it))
    });
    let rows = each.zip(all);
    rows.map(|((name, configuration), runs)| (name, configuration, runs))
}

/// A sheet with a column for each part.
fn by_part(name: &str, title: &str, basis: &str, unit: &str, first: &[(&str, &str)]) -> Sheet {
    let mut columns = vec![("configuration", "")];
    columns.extend(first);
    columns.extend(Part::ALL.map(|part| (part.name(), unit)));
    Sheet::new(name, title, basis, &columns)
}

fn shares(configurations: &[&Configuration], all: &[Runs], basis: &str) -> Sheet {
    let mut sheet = by_part(
        "shares",
        "Fig. 3: what of the time of program and engine goes where",
        basis,
        "%",
        &[("bandwidth", "Gb/s")],
    );
    for (name, _, runs) in rows(configurations, all) {
        let mut cells = vec![name.into(), runs.spread(|run| run.gigabits).into()];
        cells.extend(Part::ALL.map(|part| runs.spread(|run| run.shares[part as usize]).into()));
        sheet.row(cells);
    }
    sheet
}

fn times(configurations: &[&Configuration], all: &[Runs], basis: &str) -> Sheet {
    let mut sheet = by_part(
        "times",
        "The same as time: what each MB takes of a processor",
        basis,
        "us/MB",
        &[("all", "us/MB")],
    );
    for (name, _, runs) in rows(configurations, all) {
        let mut cells = vec![name.into(), runs.spread(|run| run.micros).into()];
        cells.extend(Part::ALL.map(|part| {
            let micros = |run: &Run| run.micros * run.shares[part as usize] / 100.0;
            runs.spread(micros).into()
        }));
        sheet.row(cells);
    }
    sheet
}

/// What the paper says of its figure in words, and the same here. What is compared is of runs that
/// were made one after the other, in the same round: the machine's speed changes in the minutes that
/// all rounds take.
fn packets(configurations: &[&Configuration], all: &[Runs]) -> Sheet {
    /// Handling packets: all but data and memory.
    const HANDLING: [Part; 4] = [Part::WakeUps, Part::Buffers, Part::TcpIp, Part::Driver];
    let mut sheet = Sheet::new(
        "packets",
        "Handling packets (wake-ups, buffers, TCP/IP, driver), which larger ones make cheaper",
        "medians of runs, each by the run of 1500 in the same round; least and most in brackets",
        &[
            ("configuration", ""),
            ("handling", "us/MB"),
            ("of 1500's", "%"),
            ("2001: of 1500's", "%"),
            ("wake-ups of handling", "%"),
            ("2001: wake-ups of handling", "%"),
        ],
    );
    let percent = |of: &[f64], by: &[f64]| {
        let percents = of.iter().zip(by);
        let percents: Vec<f64> = percents
            .map(|(of, by)| 100.0 * of / by.max(f64::MIN_POSITIVE))
            .collect();
        Spread::of(&percents)
    };
    let mut first = None;
    for (name, configuration, runs) in rows(configurations, all) {
        let (handling, wake_ups) = (runs.micros_in(&HANDLING), runs.micros_in(&[Part::WakeUps]));
        if configuration.mtu == 1500 {
            first = Some(handling.clone());
        }
        // 65 % of a processor at 1,500 bytes, 22 % at 8 KB, 10 % at 32 KB, at equal bandwidth.
        let theirs = match (
            configuration.mtu,
            configuration.in_place || configuration.by_port,
        ) {
            (1500, _) => Some(100.0),
            (9000, _) => Some(100.0 * 22.0 / 65.0),
            (_, false) => Some(100.0 * 10.0 / 65.0),
            _ => None,
        };
        sheet.row([
            name.into(),
            Spread::of(&handling).into(),
            first
                .as_ref()
                .and_then(|first| percent(&handling, first))
                .into(),
            theirs.into(),
            percent(&wake_ups, &handling).into(),
            (configuration.mtu < 30_000).then_some(22.5).into(),
        ]);
    }
    sheet
}

/// The functions with the most samples in each part, of all runs.
#[expect(clippy::cast_precision_loss, reason = "a percentage to show")]
fn functions(all: &[Runs]) -> Sheet {
    let mut sheet = Sheet::new(
        "functions",
        "The functions with most of the samples of a part",
        "all runs together",
        &[
            ("part", ""),
            ("whose", ""),
            ("function", ""),
            ("of all", "%"),
        ],
    );
    let mut counts: BTreeMap<(&str, Owner), u64> = BTreeMap::new();
    let mut sum = 0;
    for sampled in samples_of(all) {
        let place = (&*sampled.function, sampled.owner);
        *counts.entry(place).or_default() += sampled.count;
        sum += sampled.count;
    }
    for part in Part::ALL {
        let mut own: Vec<_> = counts
            .iter()
            .filter(|((function, owner), _)| part_of(*owner, function) == part)
            .collect();
        own.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for ((function, owner), count) in own.into_iter().take(SHOWN) {
            sheet.row([
                part.name().into(),
                owner.name().into(),
                (*function).into(),
                (100.0 * *count as f64 / sum as f64).into(),
            ]);
        }
    }
    sheet
}

/// By what functions are sorted.
fn table() -> Sheet {
    let mut sheet = Sheet::new(
        "table",
        "What a function is part of: the first line of which a piece is in its name",
        "`far end` is the kernel's TCP/IP, which runs in the engine's system calls; `other` has a \
         name that no line has, and `unknown` none, or was not sampled",
        &[("part", ""), ("whose", ""), ("pieces of names", "")],
    );
    for rule in &RULES {
        sheet.row([
            rule.part.name().into(),
            rule.owner.name().into(),
            rule.names.into(),
        ]);
    }
    sheet
}

/// Fig. 3, for each direction.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |sheet: &Sheet, direction: &str, title: &str, unit: &str| {
        let own = sheet.rows.iter().filter_map(|row| match &row[0] {
            Cell::Text(name) => Some((name.strip_prefix(direction)?.strip_prefix(", ")?, row)),
            _ => None,
        });
        let own: Vec<_> = own.collect();
        // Behind the configuration and the sum.
        let series = (2..sheet.columns.len()).map(|column| {
            let points = own
                .iter()
                .zip(0_u32..)
                .filter_map(|((_, row), group)| Some((f64::from(group), row[column].value()?)));
            Series::new(&sheet.columns[column].name, points.collect())
        });
        // What is done with packets of 32 KB has short names, for which there is room.
        let names = own
            .iter()
            .map(|(name, _)| name.trim_start_matches("32768, ").to_owned());
        Chart {
            title: format!("{title}, {direction} (Fig. 3)"),
            x: Axis::linear("MTU; on the right with 32,768"),
            y: Axis::linear(unit),
            kind: Kind::Stacked(names.collect()),
            series: series.collect(),
        }
    };
    let all = DIRECTIONS.iter().flat_map(|(direction, ..)| {
        [
            ("times", "Processor time of each MB", "us/MB"),
            ("shares", "Shares of processor time", "%"),
        ]
        .map(|(sheet, title, unit)| Some(chart(outcome.sheet(sheet)?, direction, title, unit)))
    });
    all.flatten().collect()
}

#[cfg(test)]
mod tests;
