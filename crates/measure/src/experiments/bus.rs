//! What crosses between host and adapter, as an outcome among those of the other experiments.
//! [`crate::crossing`] measures it.

use crate::crossing::load::LoadRow;
use crate::crossing::show::size_name;
use crate::crossing::{Mode, Moved, Paper, Row};
use crate::experiment::{Axis, Cell, Chart, Kind, Outcome, Series, Sheet};
use longshore_bus::AnyBus;

/// Its name on the command line.
pub const NAME: &str = "bus";
const PAPER: &str = "Freimuth et al., Server network scalability and TCP offload, USENIX 2005";
const FIGURES: [(&str, &str); 8] = [
    ("receive transfers", "number"),
    ("receive bytes", "bytes"),
    ("receive cycles", "cycles"),
    ("receive round trips", "number"),
    ("send transfers", "number"),
    ("send bytes", "bytes"),
    ("send cycles", "cycles"),
    ("send round trips", "number"),
];

/// Rows as sheets of `outcome`.
#[must_use]
pub fn outcome(rows: &[Row], loads: &[LoadRow], bus: &AnyBus, quick: bool) -> Outcome {
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    outcome.sheets.push(fetches_sheet(rows, bus));
    if !loads.is_empty() {
        outcome.sheets.push(loads_sheet(loads, bus));
    }
    outcome
}

/// The columns of both sheets.
fn columns() -> Vec<(&'static str, &'static str)> {
    [("fetch", "")].into_iter().chain(FIGURES).collect()
}

/// What one fetch moves, and moved in the paper.
fn fetches_sheet(rows: &[Row], bus: &AnyBus) -> Sheet {
    let title = format!("Tables 4 and 5: what one fetch moves, on {bus}");
    let basis = "exact counts of the fetch in the middle";
    let mut fetches = Sheet::new("fetches", &title, basis, &columns());
    for row in rows {
        let server = match row.workload.name() {
            "nginx" => String::new(),
            other => format!(" by {other}"),
        };
        let (adapter, mode) = (row.adapter.name(), row.mode.name());
        let name = format!("{adapter} {} {mode}{server}", row.size);
        let figures = [row.receive, row.send].map(figures);
        fetches.row(
            [Cell::Text(name)]
                .into_iter()
                .chain(figures.into_iter().flatten()),
        );
    }
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for paper in sizes.into_iter().filter_map(Paper::of) {
        let columns = [
            ("E1000", paper.e1000),
            ("offload", paper.offload),
            ("batching 10", paper.batching),
        ];
        for (name, column) in columns {
            let tallies = [column.receive, column.send];
            let figures = tallies.map(|tally| {
                let [transfers, bytes, cycles, _] = figures(tally.into());
                // It counted no round trips, and cycles of PCI-X.
                [transfers, bytes, cycles, Cell::None]
            });
            let name = format!("paper: {name}, {}", size_name(paper.size));
            fetches.row(
                [Cell::Text(name)]
                    .into_iter()
                    .chain(figures.into_iter().flatten()),
            );
        }
    }
    fetches
}

/// What a request moves in a run of many.
fn loads_sheet(loads: &[LoadRow], bus: &AnyBus) -> Sheet {
    let title = format!("Under load: what a request moves, on {bus}");
    let basis = "means of a run's requests";
    let mut sheet = Sheet::new("loads", &title, basis, &columns());
    for row in loads {
        let (adapter, mode) = (row.adapter.name(), row.mode.name());
        let name = format!(
            "{adapter}, {}, {} at once, {mode}",
            row.workload, row.connections
        );
        let figures = [row.receive, row.send].map(|each| {
            [each.transfers, each.bytes, each.cycles, each.round_trips].map(Cell::Number)
        });
        sheet.row(
            [Cell::Text(name)]
                .into_iter()
                .chain(figures.into_iter().flatten()),
        );
    }
    sheet
}

fn figures(moved: Moved) -> [Cell; 4] {
    [
        moved.transfers,
        moved.bytes,
        moved.cycles,
        moved.round_trips,
    ]
    .map(Cell::Count)
}

/// Transfers of a fetch on a connection of its own: Tables 4 and 5 as bars.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let Some(sheet) = outcome.sheet("fetches") else {
        return Vec::new();
    };
    let groups = [1_u64 << 10, 64 << 10, 512 << 10];
    let close = Mode::Close.name();
    let chart = |title: &str, column: &str| {
        let ours = |adapter: &str, name: &str| {
            let value = |size: &u64| sheet.value(&format!("{adapter} {size} {close}"), column);
            series(name, &groups, value)
        };
        let theirs = |adapter: &str| {
            let value = |size: &u64| {
                sheet.value(&format!("paper: {adapter}, {}", size_name(*size)), column)
            };
            series(&format!("paper's {adapter}"), &groups, value)
        };
        Chart {
            title: title.to_owned(),
            x: Axis::linear("file"),
            y: Axis::decades("transfers"),
            kind: Kind::Bars(groups.iter().map(|size| size_name(*size)).collect()),
            series: vec![
                theirs("E1000"),
                ours("e1000", "E1000 here"),
                theirs("offload"),
                theirs("batching 10"),
                ours("longshore", "Longshore"),
            ],
        }
    };
    vec![
        chart(
            "Transfers to the host, a connection for each fetch",
            "receive transfers",
        ),
        chart(
            "Transfers to the adapter, a connection for each fetch",
            "send transfers",
        ),
    ]
}

fn series(name: &str, groups: &[u64], value: impl Fn(&u64) -> Option<f64>) -> Series {
    let points = groups.iter().zip(0_u32..);
    let points = points.filter_map(|(size, group)| Some((f64::from(group), value(size)?)));
    Series::new(name, points.collect())
}
