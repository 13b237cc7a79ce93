//! Rows as tables for people and as CSV.

use crate::crossing::load::{Each, LoadRow};
use crate::crossing::program::Total;
use crate::crossing::web::{Repeated, WebServer};
use crate::crossing::{Adapter, Mode, Moved, Paper, Prediction, Row};
use crate::report;
use longshore_bus::AnyBus;
use std::fmt::Write as _;

/// A figure of a direction, and the name that it has in tables.
type Figure = (&'static str, fn(&Moved) -> u64);

const FIGURES: [Figure; 4] = [
    ("transfers", |moved| moved.transfers),
    ("bus cycles", |moved| moved.cycles),
    ("bytes", |moved| moved.bytes),
    ("round trips", |moved| moved.round_trips),
];

/// A figure of a prediction, and the name that it has in CSV and, with spaces, in the table.
type Predicted = (&'static str, fn(&Prediction) -> f64);

const PREDICTED: [Predicted; 6] = [
    ("host_us", |p| p.host_us),
    ("bus_us", |p| p.bus_us),
    ("round_trips_us", |p| p.round_trips_us),
    ("adapter_us", |p| p.adapter_us),
    ("latency_us", |p| p.latency_us),
    ("fetches_per_second", |p| p.fetches_per_second),
];

/// The name of a size in bytes.
#[must_use]
pub fn size_name(size: u64) -> String {
    match size {
        0..1024 => format!("{size} B"),
        _ => format!("{} KB", size >> 10),
    }
}

/// How much more `ours` is than `theirs`, in percent.
fn difference(ours: u64, theirs: u64) -> String {
    if theirs == 0 {
        return "-".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "a percentage to show")]
    let percent = (ours as f64 / theirs as f64 - 1.0) * 100.0;
    format!("{percent:+.0} %")
}

/// A table for each mode and size, the paper's columns beside ours. The paper's bus was
/// PCI-X, and it counted no round trips: where it has no figure, there is none.
#[must_use]
pub fn tables(rows: &[Row], bus: &AnyBus) -> String {
    let mut text = String::new();
    for mode in Mode::ALL {
        let mut sizes: Vec<u64> = rows
            .iter()
            .filter(|r| r.mode == mode)
            .map(|r| r.size)
            .collect();
        sizes.dedup();
        for size in sizes {
            let of = |adapter| {
                let mut all = rows.iter();
                all.find(|r| r.mode == mode && r.size == size && r.adapter == adapter)
            };
            let of_each = Adapter::ALL.map(of);
            let [
                Some(longshore),
                Some(e1000),
                Some(tso),
                Some(lro),
                Some(queues),
            ] = of_each
            else {
                continue;
            };
            let about = match mode {
                Mode::Close => "a connection for each request, accepted with it",
                Mode::KeepAlive => "on a connection that is kept",
            };
            let by = match longshore.workload {
                WebServer::Nginx => "",
                WebServer::Lighttpd => " by lighttpd",
            };
            let _ = writeln!(
                text,
                "One fetch of {}{by}, {about}, on {bus}{}",
                size_name(size),
                longshore.repeated.map(how_exactly).unwrap_or_default()
            );
            let paper = Paper::of(size).filter(|_| mode == Mode::Close);
            let all = [longshore, e1000, tso, lro, queues];
            let table = one(paper, is_papers(bus), all);
            let _ = writeln!(text, "{table}\n");
        }
    }
    text
}

/// How many fetches moved just what is shown.
fn how_exactly(repeated: Repeated) -> String {
    let Repeated { fetches, same } = repeated;
    format!(" (Longshore: the same in {same} of {fetches})")
}

/// Whether the paper's cycles are of this bus.
fn is_papers(bus: &AnyBus) -> bool {
    matches!(bus, AnyBus::PciX(_))
}

fn one(
    paper: Option<&Paper>,
    has_cycles: bool,
    [longshore, e1000, tso, lro, queues]: [&Row; 5],
) -> comfy_table::Table {
    let mut heading = vec![
        "",
        "",
        "E1000",
        "with TSO",
        "and LRO",
        "and queues",
        "Longshore",
        "to E1000",
    ];
    if paper.is_some() {
        heading.extend([
            "paper's E1000",
            "E1000 to it",
            "paper's offload",
            "batching 10",
            "Longshore to it",
        ]);
    }
    let mut table = report::table(&heading, 2);
    for (direction, of) in [
        ("receive", (|row| row.receive) as fn(&Row) -> Moved),
        ("send", |row| row.send),
    ] {
        for (name, figure) in FIGURES {
            let value = |row: &Row| figure(&of(row));
            let mut cells = vec![
                direction.to_owned(),
                name.to_owned(),
                value(e1000).to_string(),
                value(tso).to_string(),
                value(lro).to_string(),
                value(queues).to_string(),
                value(longshore).to_string(),
                difference(value(longshore), value(e1000)),
            ];
            if let Some(paper) = paper {
                let known = name != "round trips" && (name != "bus cycles" || has_cycles);
                let beside = beside_paper(paper, direction, figure, [e1000, longshore].map(value));
                cells.extend(beside.map(|text| if known { text } else { "-".to_owned() }));
            }
            table.add_row(cells);
        }
    }
    table
}

/// The paper's figures in a row of the table, and how far those of the E1000's frames and of
/// Longshore are from them.
fn beside_paper(
    paper: &Paper,
    direction: &str,
    figure: fn(&Moved) -> u64,
    [e1000, longshore]: [u64; 2],
) -> [String; 5] {
    let columns = [paper.e1000, paper.offload, paper.batching];
    let [papers_e1000, offload, batching] = columns.map(|column| {
        let tally = match direction {
            "receive" => column.receive,
            _ => column.send,
        };
        figure(&Moved::from(tally))
    });
    [
        papers_e1000.to_string(),
        difference(e1000, papers_e1000),
        offload.to_string(),
        batching.to_string(),
        difference(longshore, batching),
    ]
}

/// What a program moved from its beginning to its end.
#[must_use]
pub fn totals(totals: &[Total], bus: &AnyBus) -> String {
    let heading = totals.iter().map(|total| total.adapter.name());
    let heading: Vec<&str> = ["", ""].into_iter().chain(heading).collect();
    let mut table = report::table(&heading, 2);
    for (direction, of) in [
        ("receive", (|total| total.receive) as fn(&Total) -> Moved),
        ("send", |total| total.send),
    ] {
        for (name, figure) in FIGURES {
            let values = totals.iter().map(|total| figure(&of(total)).to_string());
            table.add_row(
                [direction, name]
                    .map(str::to_owned)
                    .into_iter()
                    .chain(values),
            );
        }
    }
    format!("What each adapter moved or would have moved, on {bus}\n{table}\n")
}

/// The totals with a heading, comma-separated.
#[must_use]
pub fn totals_csv(totals: &[Total]) -> String {
    let mut text = format!("adapter{}\n", moved_heading());
    for total in totals {
        let moved = moved_values([total.receive, total.send]);
        let _ = writeln!(text, "{}{moved}", total.adapter.name());
    }
    text
}

fn moved_heading() -> String {
    ["receive", "send"]
        .map(|direction| {
            ["transfers", "bytes", "cycles", "round_trips"]
                .map(|figure| format!(",{direction}_{figure}"))
                .concat()
        })
        .concat()
}

fn moved_values(both: [Moved; 2]) -> String {
    both.map(|moved| {
        let Moved {
            transfers,
            bytes,
            cycles,
            round_trips,
        } = moved;
        format!(",{transfers},{bytes},{cycles},{round_trips}")
    })
    .concat()
}

/// What is predicted of each fetch on a bus.
#[must_use]
pub fn predictions(predictions: &[Prediction], bus: &AnyBus) -> String {
    let figures = PREDICTED.map(|(name, _)| name.replace('_', " ").replace(" per second", "/s"));
    let names = ["file", "connection", "latency is", "throughput is"].map(str::to_owned);
    let heading: Vec<String> = names.into_iter().chain(figures).collect();
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut table = report::table(&heading, 4);
    for one in predictions {
        let names = [
            size_name(one.size),
            one.mode.name().to_owned(),
            one.latency_bottleneck.name().to_owned(),
            one.throughput_bottleneck.name().to_owned(),
        ];
        let figures = PREDICTED.map(|(_, figure)| report::number(figure(one)));
        table.add_row(names.into_iter().chain(figures));
    }
    format!(
        "What a fetch would take with an adapter on {bus}, and what most of it, or the limit, is\n{table}\n"
    )
}

/// The predictions with a heading, comma-separated.
#[must_use]
pub fn predictions_csv(predictions: &[Prediction]) -> String {
    let figures = PREDICTED.map(|(name, _)| format!(",{name}")).concat();
    let mut text = format!("size,mode,latency_bottleneck,throughput_bottleneck{figures}\n");
    for one in predictions {
        let (latency, throughput) = (one.latency_bottleneck, one.throughput_bottleneck);
        let (mode, latency, throughput) = (one.mode.name(), latency.name(), throughput.name());
        let figures = PREDICTED.map(|(_, figure)| format!(",{}", figure(one)));
        let _ = writeln!(
            text,
            "{},{mode},{latency},{throughput}{}",
            one.size,
            figures.concat()
        );
    }
    text
}

/// What the tables say, for people who read them for the first time.
#[must_use]
pub fn legend() -> &'static str {
    "E1000: the same packets as a conventional adapter would have moved them, without offload, with\n\
     segmentation of what is sent (TSO), also with coalescing of what is received (LRO), and also with\n\
     several queues that prefetch descriptors (--queues, --prefetch), those of no use included. paper's:\n\
     Freimuth et al., USENIX 2005, Tables 4 and 5. Longshore's cycles follow from its counters on PCI-X;\n\
     on other buses, and its round trips, they are the most that these allow. docs/bus-models.md\n\
     explains the models.\n"
}

/// All rows with a heading, comma-separated; those under load have means of a request.
#[must_use]
pub fn csv(rows: &[Row], loads: &[LoadRow]) -> String {
    let heading = moved_heading();
    let mut text = format!("adapter,size,mode{heading},workload,connections,operations\n");
    for row in rows {
        let (adapter, mode) = (row.adapter.name(), row.mode.name());
        let moved = moved_values([row.receive, row.send]);
        let server = row.workload.name();
        let _ = writeln!(text, "{adapter},{},{mode}{moved},{server},1,1", row.size);
    }
    for row in loads {
        let (adapter, mode) = (row.adapter.name(), row.mode.name());
        let _ = write!(text, "{adapter},{},{mode}", row.size);
        for each in [row.receive, row.send] {
            let Each {
                transfers,
                bytes,
                cycles,
                round_trips,
            } = each;
            let _ = write!(text, ",{transfers},{bytes},{cycles},{round_trips}");
        }
        let (connections, operations) = (row.connections, row.operations);
        let _ = writeln!(text, ",\"{}\",{connections},{operations}", row.workload);
    }
    text
}

/// What moves for each request under load, on average.
#[must_use]
pub fn load_table(loads: &[LoadRow], bus: &AnyBus) -> String {
    let heading = [
        "workload",
        "connection",
        "at once",
        "adapter",
        "receive transfers",
        "bytes",
        "cycles",
        "send transfers",
        "bytes",
        "cycles",
        "round trips",
    ];
    let mut table = report::table(&heading, 4);
    for row in loads {
        let (receive, send) = (&row.receive, &row.send);
        let names = [
            format!("{}, {}", row.workload, size_name(row.size)),
            row.mode.name().to_owned(),
            row.connections.to_string(),
            row.adapter.name().to_owned(),
        ];
        let figures = [
            receive.transfers,
            receive.bytes,
            receive.cycles,
            send.transfers,
            send.bytes,
            send.cycles,
            receive.round_trips + send.round_trips,
        ];
        table.add_row(names.into_iter().chain(figures.map(report::number)));
    }
    format!("Under load, for each request, the mean of a run, on {bus}\n{table}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crossing::Part;

    fn row(adapter: Adapter, mode: Mode, transfers: u64) -> Row {
        let moved = Moved {
            transfers,
            bytes: 600,
            cycles: 80,
            round_trips: 3,
        };
        Row {
            adapter,
            workload: WebServer::Nginx,
            size: 1024,
            mode,
            receive: moved,
            send: moved,
            repeated: (adapter == Adapter::Longshore).then_some(Repeated {
                fetches: 11,
                same: 10,
            }),
        }
    }

    fn rows(mode: Mode) -> Vec<Row> {
        vec![
            row(Adapter::Longshore, mode, 3),
            row(Adapter::E1000, mode, 12),
            row(Adapter::Segmenting, mode, 12),
            row(Adapter::Coalescing, mode, 12),
            row(Adapter::Queues, mode, 10),
        ]
    }

    #[test]
    fn the_papers_columns_stand_beside_ours_where_they_are_known() {
        let text = tables(&rows(Mode::Close), &"pcix".parse().unwrap());
        let line = |start: &str| {
            let found = text.lines().find(|l| {
                l.split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .contains(start)
            });
            found
                .unwrap_or_else(|| panic!("{start} in {text}"))
                .to_owned()
        };
        // 12 of ours against the paper's 12, and 3 against its 7.
        let transfers = line("receive transfers");
        for part in ["-75 %", "+0 %", " 10 ", " 11 ", " 7 ", "-57 %"] {
            assert!(transfers.contains(part), "{part}: {transfers}");
        }
        line("on pcix (Longshore: the same in 10 of 11)");
        assert!(line("receive bus cycles").contains("119"));
        assert!(line("receive round trips").contains('-'));
        let other = tables(&rows(Mode::Close), &"pcie-gen4x8".parse().unwrap());
        assert!(other.contains("538") && !other.contains("119"), "{other}");
        let kept = tables(&rows(Mode::KeepAlive), &"pcix".parse().unwrap());
        assert!(!kept.contains("paper"), "{kept}");
    }

    #[test]
    fn predictions_have_the_same_figures_as_csv_and_as_a_table() {
        let one = Prediction {
            size: 65_536,
            mode: Mode::Close,
            host_us: 5.0,
            bus_us: 62.5,
            round_trips_us: 1.5,
            adapter_us: 2.0,
            latency_us: 71.0,
            latency_bottleneck: Part::Bus,
            fetches_per_second: 16_000.0,
            throughput_bottleneck: Part::Bus,
        };
        let csv = predictions_csv(std::slice::from_ref(&one));
        assert_eq!(
            csv,
            "size,mode,latency_bottleneck,throughput_bottleneck,host_us,bus_us,round_trips_us,\
             adapter_us,latency_us,fetches_per_second\n\
             65536,close,bus,bus,5,62.5,1.5,2,71,16000\n"
        );
        let table = predictions(&[one], &"pcix".parse().unwrap());
        let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["round trips us", "fetches/s", "62.5", "64 KB"] {
            assert!(table.contains(part), "{part}: {table}");
        }
    }

    #[test]
    fn csv_has_a_line_for_each_row() {
        let text = csv(&rows(Mode::KeepAlive), &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(
            lines[2],
            "e1000,1024,keep-alive,12,600,80,3,12,600,80,3,nginx,1,1"
        );
        assert!(lines.iter().all(|line| line.split(',').count() == 14));
    }
}
