//! What a payload takes, counted by callgrind: Tables 1 and 3.

use super::paper::{self, LINES, Line, Taken};
use super::payloads::{self, Direction};
use crate::experiment::{Cell, ExperimentError, Sheet};
use crate::experiments::callgrind::{self, Events, Simulated};
use crate::installed;
use std::path::Path;

/// The program in which payloads cross with their descriptors, where they are short enough, and
/// that in which all cross apart.
const WITH: &str = "payloads";
const APART: &str = "payloads-apart";
/// Bytes of a cache line.
const LINE: usize = 64;
/// Caches like those of the paper's processor, a Pentium M.
const CACHES: Simulated = &[
    "--cache-sim=yes",
    "--branch-sim=yes",
    "--I1=32768,8,64",
    "--D1=32768,8,64",
    "--LL=1048576,8,64",
];
/// Its TLBs, 128 entries each for pages of 4 KB: as caches with lines that are pages.
const TLBS: Simulated = &[
    "--cache-sim=yes",
    "--I1=524288,4,4096",
    "--D1=524288,4,4096",
    "--LL=1048576,8,64",
];

/// What payloads of a size take.
pub(super) struct Counts {
    pub(super) line: &'static Line,
    /// By direction.
    taken: [Taken; 2],
}

impl Counts {
    pub(super) fn of(&self, direction: Direction) -> &Taken {
        &self.taken[direction as usize]
    }
}

/// Counts for payloads of the sizes of these lines.
pub(super) fn count(
    longshore: &Path,
    lines: &[&'static Line],
) -> Result<Vec<Counts>, ExperimentError> {
    let sizes: Vec<usize> = lines.iter().map(|line| line.size).collect();
    let caches = counted(longshore, WITH, &sizes, CACHES)?;
    let tlbs = counted(longshore, WITH, &sizes, TLBS)?;
    let both = caches.iter().zip(&tlbs).zip(lines.iter().cycle());
    let all: Vec<Taken> = both
        .map(|((caches, tlbs), line)| taken(payloads::counted(line.size), caches, tlbs))
        .collect();
    let (transmit, receive) = all.split_at(lines.len());
    let pairs = transmit.iter().zip(receive).zip(lines);
    Ok(pairs
        .map(|((transmit, receive), line)| Counts {
            line,
            taken: [*transmit, *receive],
        })
        .collect())
}

/// Instructions of payloads of these sizes in each direction, where they cross with their
/// descriptors or apart.
#[expect(clippy::cast_precision_loss, reason = "a mean of a few payloads")]
pub(in crate::experiments) fn instructions(
    longshore: &Path,
    sizes: &[usize],
    with_descriptors: bool,
) -> Result<Vec<[f64; 2]>, ExperimentError> {
    let program = if with_descriptors { WITH } else { APART };
    let events = counted(longshore, program, sizes, callgrind::NOTHING)?;
    let mean = |(events, size): (&Events, &usize)| {
        events.get("Ir").copied().unwrap_or_default() as f64 / payloads::counted(*size) as f64
    };
    let means: Vec<f64> = events.iter().zip(sizes.iter().cycle()).map(mean).collect();
    let (transmit, receive) = means.split_at(sizes.len());
    let pairs = transmit.iter().zip(receive);
    Ok(pairs
        .map(|(transmit, receive)| [*transmit, *receive])
        .collect())
}

/// What was counted for each direction and size, those payloads left out that warm up.
fn counted(
    longshore: &Path,
    program: &str,
    sizes: &[usize],
    simulated: Simulated,
) -> Result<Vec<Events>, ExperimentError> {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    let mut arguments = vec![installed::WORD, program];
    arguments.extend(sizes.iter().map(String::as_str));
    let all = callgrind::count(&callgrind::Order {
        program: longshore,
        arguments: &arguments,
        counted: "payloads::counted_",
        ends: "payloads::end_of_payloads",
        simulated,
    })?;
    if all.len() != 2 * Direction::BOTH.len() * sizes.len() {
        return Err(ExperimentError::Program {
            program: "callgrind".to_owned(),
            why: format!("it saw {} ends of payloads", all.len()),
        });
    }
    Ok(all.into_iter().skip(1).step_by(2).collect())
}

/// The mean of so many payloads.
#[expect(clippy::cast_precision_loss, reason = "a mean of a few payloads")]
fn taken(payloads: usize, caches: &Events, tlbs: &Events) -> Taken {
    let sum = |events: &Events, names: &[&str]| {
        let sum: u64 = names.iter().filter_map(|name| events.get(*name)).sum();
        sum as f64 / payloads as f64
    };
    Taken {
        instructions: sum(caches, &["Ir"]),
        branches: sum(caches, &["Bc", "Bi"]),
        memory: sum(caches, &["ILmr", "DLmr", "DLmw"]),
        tlb: sum(tlbs, &["I1mr", "D1mr", "D1mw"]),
        instruction_misses: sum(caches, &["I1mr"]),
        data_misses: sum(caches, &["D1mr", "D1mw"]),
    }
}

const BASIS: &str = "means over 256 KB of payloads, counted by callgrind with the paper's caches (32 KB for \
                     instructions, 32 KB for data, 1 MB behind them) and TLBs simulated; \
                     instructions and branches are exact, misses the same to a few";

/// Table 1 in one direction.
pub(super) fn table_1(direction: Direction, counts: &[Counts]) -> Sheet {
    let mut sheet = Sheet::new(
        direction.word(),
        &format!("Table 1: what a payload takes, {}", direction.doing()),
        BASIS,
        &[
            ("payload", "bytes"),
            ("instructions", "number"),
            ("branches", "number"),
            ("memory accesses", "number"),
            ("TLB misses", "number"),
            ("I-cache misses", "number"),
            ("D-cache misses", "number"),
            ("2003: instructions", "number"),
            ("2003: branches", "number"),
            ("2003: memory accesses", "number"),
            ("2003: TLB misses", "number"),
            ("2003: I-cache misses", "number"),
            ("2003: D-cache misses", "number"),
        ],
    );
    for counts in counts {
        let figures = |taken: &Taken| {
            [
                taken.instructions,
                taken.branches,
                taken.memory,
                taken.tlb,
                taken.instruction_misses,
                taken.data_misses,
            ]
            .map(Cell::Number)
        };
        let size = [Cell::Count(counts.line.size as u64)];
        let ours = figures(counts.of(direction));
        let theirs = figures(counts.line.taken(direction));
        sheet.row(size.into_iter().chain(ours).chain(theirs));
    }
    sheet
}

/// How the ways compare: receiving by sending, and both by the paper's.
pub(super) fn ratios(counts: &[Counts]) -> Sheet {
    let mut sheet = Sheet::new(
        "ratios",
        "Fig. 2a: how many times the instructions of sending receiving takes",
        "computed from the counts above",
        &[("payload", "bytes"), ("here", "x"), ("2003", "x")],
    );
    for counts in counts {
        let ratio = |of: &dyn Fn(Direction) -> f64| {
            Cell::Number(of(Direction::Receive) / of(Direction::Transmit))
        };
        sheet.row([
            Cell::Count(counts.line.size as u64),
            ratio(&|direction| counts.of(direction).instructions),
            ratio(&|direction| counts.line.taken(direction).instructions),
        ]);
    }
    sheet
}

/// The share of memory accesses that payload makes.
#[expect(clippy::cast_precision_loss, reason = "a percentage to show")]
pub(super) fn table_3(counts: &[Counts]) -> Sheet {
    let mut sheet = Sheet::new(
        "copies",
        "Table 3: memory accesses, and how many of them are for payload that is copied",
        "computed from the counts above; the paper counts each line twice, as it does not know \
         whether the place that payload goes to is in a cache: here it was used shortly before",
        &[
            ("payload", "bytes"),
            ("sending", "number"),
            ("receiving", "number"),
            ("lines of payload", "number"),
            ("share of receiving", "%"),
            ("2003: share of receiving", "%"),
        ],
    );
    for counts in counts {
        let received = counts.of(Direction::Receive).memory;
        let copied = counts.line.size.div_ceil(LINE);
        let share = (100.0 * copied as f64 / received.max(1.0)).min(100.0);
        sheet.row([
            Cell::Count(counts.line.size as u64),
            counts.of(Direction::Transmit).memory.into(),
            received.into(),
            Cell::Count(copied as u64),
            share.into(),
            counts.line.copies.into(),
        ]);
    }
    sheet
}

/// The lines for a run.
pub(super) fn lines(quick: bool) -> Vec<&'static Line> {
    let wanted = |line: &&Line| !quick || paper::QUICK.contains(&line.size);
    LINES.iter().filter(wanted).collect()
}
