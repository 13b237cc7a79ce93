//! The experiment of 1989: how many instructions a packet takes, part by part, and what rate
//! that allows.
//!
//! `parts` has the parts; `real` runs servers and asks the engine how often the connection of
//! a segment was that of the segment before.

pub(crate) mod parts;
mod real;

use super::callgrind::{self, Events};
use super::ns_each;
use super::tap::of_tap;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress,
};
use crate::installed;
use longshore_wire::checksum::Partial;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

/// Its name on the command line.
pub const NAME: &str = "path";
const PAPER: &str = "Clark, Jacobson, Romkey, Salwen, An Analysis of TCP Processing Overhead, \
                     IEEE Communications Magazine, June 1989";
/// Instructions a second, in millions, for which the paper computes.
pub const PAPER_MIPS: u32 = 10;
/// What an exact count is.
const EXACT: &str = "exact counts by callgrind, the same on each run";

/// A part: its name, that of its function, and what the paper counted, in words and, to be
/// added up, as a number.
type Part = (&'static str, &'static str, &'static str, Option<u64>);

const PARTS: [Part; 14] = [
    (
        "TCP input, receiver of data",
        "tcp_input_data",
        "186",
        Some(186),
    ),
    (
        "TCP input, sender of data",
        "tcp_input_ack",
        "191 to 213",
        Some(213),
    ),
    ("TCP output of data", "tcp_output_data", "235", Some(235)),
    (
        "TCP output of an acknowledgment",
        "tcp_output_ack",
        "235",
        Some(235),
    ),
    ("IP input", "ip_input", "57", Some(57)),
    (
        "IP input, flow of the packet before",
        "ip_input_cached",
        "57",
        Some(57),
    ),
    ("IP output", "ip_output", "61", Some(61)),
    (
        "finding the connection, not the last one",
        "connection_lookup",
        "about 25",
        Some(25),
    ),
    ("setting a timer", "timer_set", "35", Some(35)),
    ("setting it again", "timer_reset", "41", Some(41)),
    ("clearing it", "timer_clear", "17", Some(17)),
    (
        "buffer layer, receiving data, no byte moved",
        "buffer_receive",
        "35",
        Some(35),
    ),
    (
        "buffer layer, sending data, no byte moved",
        "buffer_send",
        "40",
        Some(40),
    ),
    (
        "buffer layer, an acknowledgment for whose room a program waits",
        "buffer_ack",
        "30",
        Some(30),
    ),
];

/// The way of a packet as sums of parts: as the paper adds them up. That a program is told of
/// room is not among them, since few acknowledgments lead to it: `longshore measure bus` counts one
/// or two transfers to the host for a file of 512 KB, whose segments have some hundred.
const WAYS: [(&str, &[&str]); 4] = [
    (
        "data received",
        &[
            "ip_input",
            "connection_lookup",
            "tcp_input_data",
            "timer_reset",
            "buffer_receive",
        ],
    ),
    (
        "acknowledgment received",
        &[
            "ip_input",
            "connection_lookup",
            "tcp_input_ack",
            "timer_reset",
        ],
    ),
    (
        "data sent",
        &["buffer_send", "tcp_output_data", "timer_reset", "ip_output"],
    ),
    ("acknowledgment sent", &["tcp_output_ack", "ip_output"]),
];

/// Counts parts and rates at `mips` million instructions a second. The process must be in a
/// network namespace of its own, in which it may make devices.
///
/// # Errors
/// [`ExperimentError`]; without valgrind there is nothing to show.
pub fn measure(longshore: &Path, quick: bool, mips: u32) -> Result<Outcome, ExperimentError> {
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    progress("path: callgrind counts instructions");
    let counts = counted(longshore)?;
    outcome.sheets.push(parts_sheet(&counts)?);
    outcome.sheets.push(ways_sheet(&counts)?);
    outcome.sheets.push(rates_sheet(&counts, mips)?);
    progress("path: costs of each byte");
    outcome.sheets.push(bytes_sheet(&counts, quick)?);
    progress("path: real traffic");
    of_tap(&mut outcome, "real traffic", |outcome| {
        real::measure(longshore, quick, outcome)
    })?;
    progress("");
    outcome.left_out.extend([
        "the window, congestion window and round-trip estimate apart from each other: header \
         prediction does them together"
            .to_owned(),
        "driver and operating system in microseconds, which need a logic analyzer; `longshore \
         measure host` has wake-ups and system calls"
            .to_owned(),
        "AVX-512: callgrind's processor copies and sums 32 bytes at a time".to_owned(),
    ]);
    Ok(outcome)
}

/// What was counted in each part. The parts run twice, and the second time counts: by then all
/// that is done once has been done.
fn counted(longshore: &Path) -> Result<BTreeMap<String, Events>, ExperimentError> {
    let calls = callgrind::count(&callgrind::Order {
        program: longshore,
        arguments: &[installed::WORD, "parts"],
        counted: "parts::counted_",
        ends: "parts::counted_",
        simulated: callgrind::NOTHING,
    })?;
    if calls.len() != 2 * parts::ORDER.len() {
        return Err(ExperimentError::Program {
            program: "callgrind".to_owned(),
            why: format!("it saw {} calls of parts", calls.len()),
        });
    }
    let second = calls.into_iter().skip(parts::ORDER.len());
    let names = parts::ORDER.iter().map(|name| (*name).to_owned());
    Ok(names.zip(second).collect())
}

fn instructions(counts: &BTreeMap<String, Events>, part: &str) -> Result<u64, ExperimentError> {
    let count = counts.get(part).and_then(|events| events.get("Ir"));
    count.copied().ok_or_else(|| ExperimentError::Program {
        program: "callgrind".to_owned(),
        why: format!("it counted nothing in {part}"),
    })
}

fn parts_sheet(counts: &BTreeMap<String, Events>) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "parts",
        "Instructions of each part (1989: TCP, IP, timers, buffer layer)",
        EXACT,
        &[
            ("part", ""),
            ("instructions", "number"),
            ("1989", "number"),
            ("paper says", ""),
        ],
    );
    for (name, function, words, number) in PARTS {
        sheet.row([
            Cell::from(name),
            Cell::Count(instructions(counts, function)?),
            number.into(),
            words.into(),
        ]);
    }
    Ok(sheet)
}

/// What all parts of a way take: here, and in the paper.
fn way(counts: &BTreeMap<String, Events>, parts: &[&str]) -> Result<(u64, u64), ExperimentError> {
    let mut sum = (0, 0);
    for part in parts {
        sum.0 += instructions(counts, part)?;
        let theirs = PARTS.iter().find(|(_, function, ..)| function == part);
        sum.1 += theirs.and_then(|(.., number)| *number).unwrap_or(0);
    }
    Ok(sum)
}

fn ways_sheet(counts: &BTreeMap<String, Events>) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "packets",
        "A packet's whole way, its parts added up as the paper does (it says about 335 for the \
         dearest)",
        EXACT,
        &[
            ("packet", ""),
            ("instructions", "number"),
            ("1989", "number"),
            ("of the paper's", "%"),
        ],
    );
    for (name, parts) in WAYS {
        let (ours, theirs) = way(counts, parts)?;
        #[expect(clippy::cast_precision_loss, reason = "a percentage to show")]
        let share = 100.0 * ours as f64 / theirs as f64;
        sheet.row([Cell::from(name), ours.into(), theirs.into(), share.into()]);
    }
    Ok(sheet)
}

/// Packets and bits a second, as the paper computes them from 400 instructions at 10 MIPS:
/// where every other packet is acknowledged, two of three carry data.
#[expect(clippy::cast_precision_loss, reason = "rates to show")]
fn rates_sheet(counts: &BTreeMap<String, Events>, mips: u32) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "rates",
        "Rates that the dearest way allows, if instructions were all",
        "computed from exact counts, as the paper computes",
        &[
            ("instructions a packet", ""),
            ("MIPS", "MIPS"),
            ("packets", "packets/s"),
            ("packet size", "bytes"),
            ("bandwidth", "Mb/s"),
            ("every other one acknowledged", "Mb/s"),
        ],
    );
    let mut dearest = 0;
    for (_, parts) in WAYS {
        dearest = dearest.max(way(counts, parts)?.0);
    }
    for (name, instructions) in [("paper: 400", 400), ("here", dearest)] {
        let packets = f64::from(mips) * 1e6 / instructions as f64;
        for size in [500_u64, 1460, 4000, 9000, 65_535] {
            let bandwidth = packets * size as f64 * 8.0 / 1e6;
            let label = match name {
                "here" => format!("here: {instructions}"),
                name => name.to_owned(),
            };
            sheet.row([
                Cell::Text(label),
                Cell::Count(mips.into()),
                Cell::Number(packets.floor()),
                Cell::Count(size),
                Cell::Number(bandwidth),
                Cell::Number(bandwidth * 2.0 / 3.0),
            ]);
        }
    }
    Ok(sheet)
}

/// Table I's upper half.
fn bytes_sheet(counts: &BTreeMap<String, Events>, quick: bool) -> Result<Sheet, ExperimentError> {
    let (runs, times) = if quick { (3, 2_000) } else { (7, 40_000) };
    let mut sheet = Sheet::new(
        "bytes",
        "Table I: what touching the bytes of a packet takes, 1,460 of them",
        &format!("times: medians of {runs} runs in turn; instructions: exact"),
        &[
            ("what", ""),
            ("instructions", "number"),
            ("hot", "ns"),
            ("cold", "ns"),
            ("1989, Sun-3/60", "us"),
        ],
    );
    for ((name, part, _, theirs), [hot, cold]) in TOUCHES.iter().zip(&times_of(runs, times)) {
        sheet.row([
            Cell::from(*name),
            instructions(counts, part)?.into(),
            Spread::of(hot).into(),
            Spread::of(cold).into(),
            (*theirs).into(),
        ]);
    }
    Ok(sheet)
}

type Touch = fn(&mut [u8], &[u8]);

/// What touches the bytes of a packet: its name, the part that counts its instructions, itself,
/// and the paper's microseconds.
const TOUCHES: [(&str, &str, Touch, Option<f64>); 3] = [
    (
        "copy",
        "copy",
        |to, from| to.copy_from_slice(from),
        Some(200.0),
    ),
    (
        "checksum",
        "checksum",
        |_, from| _ = black_box(Partial::of(from)),
        Some(185.0),
    ),
    (
        "copy and checksum in one pass",
        "copy_and_checksum",
        |to, from| _ = black_box(Partial::of_copy(to, from)),
        None,
    ),
];

/// Nanoseconds of each of [`TOUCHES`] in each run, on bytes that caches hold and on others.
fn times_of(runs: u32, times: u32) -> Vec<[Vec<f64>; 2]> {
    const PACKET: usize = 1460;
    /// More than caches hold.
    const COLD: usize = 128 << 20;
    let source = vec![1_u8; COLD];
    let mut target = vec![0_u8; PACKET];
    let mut times_of = vec![[Vec::new(), Vec::new()]; TOUCHES.len()];
    for _ in 0..runs {
        for ((.., touch, _), figures) in TOUCHES.iter().zip(&mut times_of) {
            for (place, stride) in [0, 17 * 4096].into_iter().enumerate() {
                let mut at = 0;
                let ns = ns_each(times, || {
                    touch(black_box(&mut target), &source[at..at + PACKET]);
                    at = (at + stride) % (COLD - PACKET);
                });
                figures[place].push(ns);
            }
        }
    }
    times_of
}

/// The parts beside the paper's.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let beside = |sheet: &Sheet, title: &str| {
        let names = sheet.rows.iter().map(|row| match &row[0] {
            Cell::Text(name) => name.clone(),
            _ => String::new(),
        });
        let column = |at: usize, name: &str| {
            let points = sheet.rows.iter().zip(0_u32..);
            let points = points.filter_map(|(row, x)| Some((f64::from(x), row[at].value()?)));
            Series::new(name, points.collect())
        };
        Chart {
            title: title.to_owned(),
            x: Axis::linear(""),
            y: Axis::linear("instructions"),
            kind: Kind::Bars(names.collect()),
            series: vec![column(1, "Longshore"), column(2, "1989")],
        }
    };
    let packets = outcome.sheet("packets");
    let packets = packets.map(|sheet| beside(sheet, "Instructions of a packet's whole way"));
    packets.into_iter().collect()
}
