//! Bandwidth of one connection by the largest packet, as Fig. 2 of the papers of 1999 and 2001 has
//! it: with the payload copied, shown by exchanging pages, or used in place, touched by the program
//! or not, and with what touches bytes done by the port or by the engine. `wake_ups` has the same
//! with their suppression on and off.

mod wake_ups;

use super::bulk::{self, Bulk, ENGINE_CUTS, ENGINE_CUTS_BY, PAPERS};
use super::tap;
use crate::experiment::{Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread};
use std::path::Path;

/// Its name on the command line.
pub const NAME: &str = "sweep";
/// Largest packets: the papers'.
const MTUS: [u32; 6] = [1500, 4096, 9000, 16_384, 32_768, 57_344];

/// A way of moving bulk.
struct Way {
    direction: &'static str,
    name: &'static str,
    /// The program on Longshore, and the kernel's at the far end.
    programs: [&'static str; 2],
    /// Whether the program is written for Longshore.
    native: bool,
    /// What `longshore run` is to do besides.
    options: &'static [&'static str],
}

const fn way(
    direction: &'static str,
    name: &'static str,
    programs: [&'static str; 2],
    native: bool,
) -> Way {
    Way {
        direction,
        name,
        programs,
        native,
        options: &[],
    }
}

/// One in which the pages of a program's buffer are exchanged for those that hold the payload.
/// What is sent is one buffer again and again: untouched it is copied once, touched each time.
const fn exchanging(
    direction: &'static str,
    name: &'static str,
    programs: [&'static str; 2],
) -> Way {
    Way {
        options: &["--zero-copy", "always"],
        ..way(direction, name, programs, false)
    }
}

const WAYS: [Way; 10] = [
    way("sending", "copied", ["source", "pull"], false),
    way(
        "sending",
        "copied, touched",
        ["source-touched", "pull"],
        false,
    ),
    exchanging("sending", "pages exchanged", ["source", "pull"]),
    exchanging(
        "sending",
        "pages exchanged, touched",
        ["source-touched", "pull"],
    ),
    way(
        "sending",
        "in place, touched",
        ["native-source", "pull"],
        true,
    ),
    way("receiving", "copied", ["sink", "push"], false),
    way(
        "receiving",
        "copied, touched",
        ["sink-touched", "push"],
        false,
    ),
    exchanging("receiving", "pages exchanged", ["sink", "push"]),
    exchanging(
        "receiving",
        "pages exchanged, touched",
        ["sink-touched", "push"],
    ),
    way("receiving", "in place", ["native-sink", "push"], true),
];

/// The part that cuts packets and makes checksums: its column, and options of `longshore run`. The
/// engine sums what it receives in one pass with its copy, and what it sends in a pass of its own.
const WHO: [(&str, &[&str]); 2] = [
    ("port cuts and sums", &[]),
    ("engine cuts and sums", ENGINE_CUTS),
];

/// Measures all ways in turn. The process must be in a network namespace of its own, in which
/// it may make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    tap::needed()?;
    let (runs, milliseconds) = if quick { (2, 60) } else { (3, 300) };
    let mtus: Vec<u32> = MTUS
        .into_iter()
        .filter(|mtu| !quick || [1500, 9000].contains(mtu))
        .collect();
    let options = WAYS.each_ref().map(|way| {
        let of_both = |(_, who): (_, &[&'static str])| [way.options, who].concat();
        WHO.map(of_both)
    });
    let mut bulks = Vec::new();
    for mtu in &mtus {
        for (way, options) in WAYS.iter().zip(&options) {
            for ((who, _), options) in WHO.iter().zip(options) {
                let bulk = Bulk {
                    longshore,
                    programs: way.programs,
                    native: way.native,
                    size: None,
                    mtu: *mtu,
                    options,
                    sleeps: false,
                    milliseconds,
                };
                let name = format!("MTU {mtu}, {}, {}, {who}", way.direction, way.name);
                bulks.push((name, bulk));
            }
        }
    }
    let rates = bulk::in_turn(NAME, runs, &bulks, |waiting| waiting.rate())?;
    let sheet = bandwidth_sheet(&mtus, runs, &rates);
    let mut outcome = Outcome::new(NAME, PAPERS, quick);
    let gains = gains(&sheet);
    let wake_ups = wake_ups::measure(longshore, quick, (runs, milliseconds))?;
    outcome.sheets.extend([sheet, gains, wake_ups]);
    outcome.left_out.extend([
        ENGINE_CUTS_BY.to_owned(),
        "checksum offload without segmentation offload: the port has both or none".to_owned(),
        "the engine's own wake-ups with suppression off: it looks for a while before it sleeps, \
         whatever programs do"
            .to_owned(),
    ]);
    Ok(outcome)
}

/// Rates by MTU and way, in the order in which they were measured, as a sheet.
fn bandwidth_sheet(mtus: &[u32], runs: u32, rates: &[Vec<f64>]) -> Sheet {
    let mut sheet = Sheet::new(
        "bandwidth",
        "Fig. 2: bandwidth of one connection by the largest packet, the kernel at the far end",
        &Spread::basis(runs),
        &[
            ("direction", ""),
            ("payload", ""),
            ("MTU", "bytes"),
            (WHO[0].0, "Gb/s"),
            (WHO[1].0, "Gb/s"),
        ],
    );
    let mut places = rates.iter();
    for mtu in mtus {
        for way in &WAYS {
            let mut next = || Cell::from(places.next().and_then(|runs| Spread::of(runs)));
            let (port, engine) = (next(), next());
            sheet.row([
                way.direction.into(),
                way.name.into(),
                Cell::Count((*mtu).into()),
                port,
                engine,
            ]);
        }
    }
    sheet
}

/// One place in the table of bandwidths: direction, payload, MTU, and which of [`WHO`].
type At = (&'static str, &'static str, u32, usize);

/// What the papers say of two places in their figure: in words, and by how much the first is
/// above the second.
const GAINS: [(&str, At, At); 5] = [
    (
        "receiving, copied: MTU 9000 by 1500",
        ("receiving", "copied", 9000, 1),
        ("receiving", "copied", 1500, 1),
    ),
    (
        "receiving, copied: MTU 32768 by 16384",
        ("receiving", "copied", 32_768, 1),
        ("receiving", "copied", 16_384, 1),
    ),
    (
        "receiving, MTU 9000: in place, port sums by copied, engine sums",
        ("receiving", "in place", 9000, 0),
        ("receiving", "copied", 9000, 1),
    ),
    (
        "sending, touched, MTU 9000: in place by copied",
        ("sending", "in place, touched", 9000, 0),
        ("sending", "copied, touched", 9000, 0),
    ),
    (
        "sending, copied, MTU 9000: port sums by engine sums",
        ("sending", "copied", 9000, 0),
        ("sending", "copied", 9000, 1),
    ),
];

/// How places of the table compare; those of short runs lack some.
fn gains(bandwidth: &Sheet) -> Sheet {
    let mut sheet = Sheet::new(
        "gains",
        "What larger packets, use in place, and offloading gain",
        "computed from the medians above",
        &[("what", ""), ("gain", "x")],
    );
    let figure = |(direction, payload, mtu, who): At| {
        let own = |row: &&Vec<Cell>| {
            row[..3] == [direction.into(), payload.into(), Cell::Count(mtu.into())]
        };
        bandwidth.rows.iter().find(own)?[3 + who].value()
    };
    for (what, first, second) in GAINS {
        if let Some((first, second)) = figure(first).zip(figure(second)) {
            sheet.row([what.into(), (first / second).into()]);
        }
    }
    sheet
}

/// Fig. 2, a plot for each direction.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let Some(sheet) = outcome.sheet("bandwidth") else {
        return Vec::new();
    };
    let line = |way: &Way, column: usize| {
        let first = [way.direction.into(), way.name.into()];
        let points = sheet.points_of(&first, "MTU", WHO[column].0);
        let who = if column == 0 { "port" } else { "engine" };
        Series::new(&format!("{}; {who} sums", way.name), points)
    };
    let chart = |direction: &str| Chart {
        title: format!("TCP bandwidth, {direction} (Fig. 2)"),
        x: Axis::doubling("MTU, bytes"),
        y: Axis::linear("Gb/s"),
        kind: Kind::Lines,
        series: WAYS
            .iter()
            .filter(|way| way.direction == direction)
            .flat_map(|way| [line(way, 0), line(way, 1)])
            .collect(),
    };
    let mut charts = vec![chart("sending"), chart("receiving")];
    charts.extend(wake_ups::chart(outcome));
    charts
}
