//! What the paper of 2005 claims of crossings: its Tables 4 and 5, figure by figure.

use super::{Claim, Holds, Place};
use crate::crossing::show::size_name;
use crate::crossing::{Column, Moved, PAPER, Paper};
use crate::report::grouped;

/// To whom it crosses, in words; its name in the experiment's columns.
type Way = (&'static str, &'static str);

const TO_HOST: Way = ("to the host", "receive");
const TO_ADAPTER: Way = ("to the adapter", "send");

/// A figure of one direction, in the order of the tables.
type Figure = (&'static str, fn(&Moved) -> u64);

const FIGURES: [Figure; 3] = [
    ("transfers", |moved| moved.transfers),
    ("cycles", |moved| moved.cycles),
    ("bytes", |moved| moved.bytes),
];

/// The tables' columns "Diff", in percent, as they are printed: for each size to the host and to
/// the adapter, transfers, cycles and bytes.
const SAVED: [(&str, [[[u32; 3]; 2]; 3]); 2] = [
    (
        "offload",
        [
            [[8, 34, 53], [0, 16, 17]],
            [[37, 52, 66], [64, 9, 4]],
            [[48, 57, 66], [70, 8, 4]],
        ],
    ),
    (
        "batching 10",
        [
            [[42, 50, 55], [44, 23, 18]],
            [[85, 76, 68], [87, 11, 5]],
            [[93, 80, 69], [88, 10, 4]],
        ],
    ),
];

/// Why what a conventional adapter receives differs.
const ACKNOWLEDGED: &str = "how often the client's kernel acknowledges depends on when its program \
                            reads, and its segments have more options";

/// All of them.
pub(super) fn claims() -> Vec<Claim> {
    let mut all = Vec::new();
    for paper in &PAPER {
        each(|way, figure| all.extend(offloading(paper, way, figure)));
    }
    for paper in &PAPER {
        each(|way, figure| all.push(conventional(paper, way, figure)));
    }
    for (adapter, of_sizes) in &SAVED {
        for (paper, [to_host, to_adapter]) in PAPER.iter().zip(of_sizes) {
            for (way, percents) in [(TO_HOST, to_host), (TO_ADAPTER, to_adapter)] {
                for (figure, percent) in FIGURES.iter().zip(percents) {
                    all.push(saved(paper, adapter, way, (figure.0, *percent)));
                }
            }
        }
    }
    all
}

fn each(mut make: impl FnMut(Way, &Figure)) {
    for way in [TO_HOST, TO_ADAPTER] {
        for figure in &FIGURES {
            make(way, figure);
        }
    }
}

/// A column's figure.
fn of(column: &Column, way: Way, figure: &Figure) -> u64 {
    let tally = if way == TO_HOST {
        column.receive
    } else {
        column.send
    };
    figure.1(&Moved::from(tally))
}

fn place(adapter: &str, paper: &Paper, way: Way, figure: &str) -> Place {
    Place {
        experiment: "bus",
        sheet: "fetches",
        row: row(adapter, paper),
        column: format!("{} {figure}", way.1),
        less_than: None,
    }
}

fn row(adapter: &str, paper: &Paper) -> String {
    format!("{adapter} {} close", paper.size)
}

#[expect(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn number(count: u64) -> f64 {
    count as f64
}

/// Of the paper's prototype: no more crosses here.
fn offloading(paper: &Paper, way: Way, figure: &Figure) -> [Claim; 2] {
    let columns = [("offload", paper.offload), ("batching 10", paper.batching)];
    columns.map(|(name, column)| {
        let theirs = of(&column, way, figure);
        let size = size_name(paper.size);
        Claim {
            paper: "2005",
            says: format!("{size}, {name}: {} {}", figure.0, way.0),
            theirs: grouped(theirs),
            here: place("longshore", paper, way, figure.0),
            unit: "",
            holds: Holds::AtMost(number(theirs)),
            why: None,
            varies: false,
        }
    })
}

/// Of the conventional adapter: the same crosses here.
fn conventional(paper: &Paper, way: Way, figure: &Figure) -> Claim {
    let theirs = of(&paper.e1000, way, figure);
    let is_received = way == TO_HOST;
    Claim {
        paper: "2005",
        says: format!("{}, E1000: {} {}", size_name(paper.size), figure.0, way.0),
        theirs: grouped(theirs),
        here: place("e1000", paper, way, figure.0),
        unit: "",
        holds: Holds::Near(number(theirs)),
        why: is_received.then_some(ACKNOWLEDGED),
        varies: is_received,
    }
}

/// Of what offload saves of the conventional adapter's: it saves no less here.
fn saved(paper: &Paper, adapter: &str, way: Way, (figure, percent): (&str, u32)) -> Claim {
    let size = size_name(paper.size);
    // What is received for a small file is the same, but for a segment.
    let varies = way == TO_HOST && paper.size > 1024;
    Claim {
        paper: "2005",
        says: format!("{size}, {adapter}: {figure} {} that are saved", way.0),
        theirs: format!("{percent} %"),
        here: Place {
            less_than: Some(row("e1000", paper)),
            ..place("longshore", paper, way, figure)
        },
        unit: "%",
        holds: Holds::AtLeast(percent.into()),
        why: varies.then_some("the client acknowledged so seldom that there is little to be saved"),
        varies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper rounds, and cuts at times: its percentages are those of its counts to one.
    #[test]
    fn the_papers_savings_are_those_of_its_counts() {
        for (adapter, of_sizes) in &SAVED {
            for (paper, of_ways) in PAPER.iter().zip(of_sizes) {
                let column = match *adapter {
                    "offload" => paper.offload,
                    _ => paper.batching,
                };
                for (way, percents) in [TO_HOST, TO_ADAPTER].into_iter().zip(of_ways) {
                    for (figure, printed) in FIGURES.iter().zip(percents) {
                        let counts = [column, paper.e1000].map(|c| number(of(&c, way, figure)));
                        let saved = 100.0 * (1.0 - counts[0] / counts[1]);
                        assert!(
                            (saved - f64::from(*printed)).abs() < 1.0,
                            "{adapter} {} {}: {saved}",
                            paper.size,
                            figure.0
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_figure_of_both_tables_has_a_claim() {
        // Three columns and two of differences, six figures, three sizes.
        assert_eq!(claims().len(), 5 * 6 * 3);
    }
}
