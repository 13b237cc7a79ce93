//! What the papers claim of counts and ratios, each held against an experiment's outcome.
//!
//! The table is written from outcomes, so it says what was measured. One that stands already
//! is compared: what held there has to hold again. Claims whose experiment was not made keep
//! their line.

use super::Outcome;
use crate::report;
use std::fmt::Write as _;

/// How a claim is judged by the figure here.
#[derive(Debug, Clone, Copy)]
enum Holds {
    /// It holds where the figure is at most this.
    AtMost(f64),
    /// It holds where the figure is at least this.
    AtLeast(f64),
}

/// A claim.
struct Claim {
    paper: &'static str,
    says: &'static str,
    /// The paper's figure.
    theirs: &'static str,
    /// Experiment, sheet, row and column of the figure here.
    here: [&'static str; 4],
    unit: &'static str,
    holds: Holds,
}

const fn claim(
    paper: &'static str,
    says: &'static str,
    theirs: &'static str,
    here: [&'static str; 4],
    unit: &'static str,
    holds: Holds,
) -> Claim {
    Claim {
        paper,
        says,
        theirs,
        here,
        unit,
        holds,
    }
}

const fn part(says: &'static str, theirs: &'static str, row: &'static str, most: f64) -> Claim {
    claim(
        "1989",
        says,
        theirs,
        ["path", "parts", row, "instructions"],
        "instructions",
        Holds::AtMost(most),
    )
}

const fn whole(says: &'static str, theirs: &'static str, row: &'static str, most: f64) -> Claim {
    claim(
        "1989",
        says,
        theirs,
        ["path", "packets", row, "instructions"],
        "instructions",
        Holds::AtMost(most),
    )
}

/// One of the 2005 paper's Tables 4 and 5: Longshore moves no more than it says.
const fn moved(
    says: &'static str,
    theirs: &'static str,
    row: &'static str,
    column: &'static str,
    most: f64,
) -> Claim {
    claim(
        "2005",
        says,
        theirs,
        ["bus", "fetches", row, column],
        "",
        Holds::AtMost(most),
    )
}

const CLAIMS: &[Claim] = &[
    part(
        "TCP input takes a receiver of data few instructions",
        "186",
        "TCP input, receiver of data",
        186.0,
    ),
    part(
        "and a sender of data a few more",
        "191 to 213",
        "TCP input, sender of data",
        213.0,
    ),
    part("TCP output", "235", "TCP output of data", 235.0),
    part("IP input", "57", "IP input", 57.0),
    part("IP output", "61", "IP output", 61.0),
    part(
        "finding a connection by a hash",
        "about 25",
        "finding the connection, not the last one",
        25.0,
    ),
    part("setting a timer", "35", "setting a timer", 35.0),
    part("setting it again", "41", "setting it again", 41.0),
    part("clearing it", "17", "clearing it", 17.0),
    part(
        "the buffer layer, receiving data",
        "35",
        "buffer layer, receiving data, no byte moved",
        35.0,
    ),
    whole(
        "receiving data, all added up",
        "344",
        "data received",
        344.0,
    ),
    whole(
        "receiving an acknowledgment, the dearest way",
        "about 335",
        "acknowledgment received",
        336.0,
    ),
    whole("sending data", "337", "data sent", 337.0),
    claim(
        "1989",
        "25,000 packets a second at 10 MIPS",
        "25,000",
        ["path", "rates", "here", "packets"],
        "packets/s",
        Holds::AtLeast(25_000.0),
    ),
    claim(
        "1989",
        "a copy and a checksum in one pass cost less than one after the other",
        "fewer memory cycles",
        ["path", "bytes", "one pass by two", "ratio"],
        "x",
        Holds::AtMost(1.0),
    ),
    claim(
        "1989",
        "a packet is nearly always of the connection before, one at a time",
        "93.2 %",
        ["path", "cache", "echo", "connection cached"],
        "%",
        Holds::AtLeast(93.2),
    ),
    claim(
        "1989",
        "and on a busy server, too",
        "89.8 %",
        ["path", "cache", "nginx, wrk", "connection cached"],
        "%",
        Holds::AtLeast(89.8),
    ),
    moved(
        "1 KB, offload: transfers to the host",
        "11",
        "longshore 1024 close",
        "receive transfers",
        11.0,
    ),
    moved(
        "1 KB, offload: bytes to the host",
        "252",
        "longshore 1024 close",
        "receive bytes",
        252.0,
    ),
    moved(
        "1 KB, offload: cycles to the host",
        "78",
        "longshore 1024 close",
        "receive cycles",
        78.0,
    ),
    moved(
        "1 KB, offload: transfers to the adapter",
        "9",
        "longshore 1024 close",
        "send transfers",
        9.0,
    ),
    moved(
        "1 KB, offload: bytes to the adapter",
        "1,301",
        "longshore 1024 close",
        "send bytes",
        1301.0,
    ),
    moved(
        "1 KB, batching 10: transfers to the host",
        "7",
        "longshore 1024 close",
        "receive transfers",
        7.0,
    ),
    moved(
        "1 KB, batching 10: transfers to the adapter",
        "5",
        "longshore 1024 close",
        "send transfers",
        5.0,
    ),
    moved(
        "64 KB, offload: transfers to the host",
        "39",
        "longshore 65536 close",
        "receive transfers",
        39.0,
    ),
    moved(
        "64 KB, offload: bytes to the host",
        "821",
        "longshore 65536 close",
        "receive bytes",
        821.0,
    ),
    moved(
        "64 KB, offload: transfers to the adapter",
        "56",
        "longshore 65536 close",
        "send transfers",
        56.0,
    ),
    moved(
        "64 KB, offload: bytes to the adapter",
        "66,389",
        "longshore 65536 close",
        "send bytes",
        66_389.0,
    ),
    moved(
        "64 KB, batching 10: transfers to the host",
        "9",
        "longshore 65536 close",
        "receive transfers",
        9.0,
    ),
    moved(
        "64 KB, batching 10: transfers to the adapter",
        "21",
        "longshore 65536 close",
        "send transfers",
        21.0,
    ),
    moved(
        "512 KB, offload: transfers to the host",
        "189",
        "longshore 524288 close",
        "receive transfers",
        189.0,
    ),
    moved(
        "512 KB, offload: bytes to the host",
        "4,706",
        "longshore 524288 close",
        "receive bytes",
        4706.0,
    ),
    moved(
        "512 KB, offload: transfers to the adapter",
        "370",
        "longshore 524288 close",
        "send transfers",
        370.0,
    ),
    moved(
        "512 KB, offload: bytes to the adapter",
        "529,131",
        "longshore 524288 close",
        "send bytes",
        529_131.0,
    ),
    moved(
        "512 KB, batching 10: transfers to the host",
        "24",
        "longshore 524288 close",
        "receive transfers",
        24.0,
    ),
    moved(
        "512 KB, batching 10: transfers to the adapter",
        "148",
        "longshore 524288 close",
        "send transfers",
        148.0,
    ),
    moved(
        "1 KB: transfers of a conventional adapter to the host",
        "12",
        "e1000 1024 close",
        "receive transfers",
        12.0,
    ),
    moved(
        "1 KB: transfers of a conventional adapter to the adapter",
        "9",
        "e1000 1024 close",
        "send transfers",
        9.0,
    ),
];

/// Why a claim does not hold, where that is known.
const WHY: [(&str, &str); 6] = [
    (
        "finding a connection by a hash",
        "the hash has a secret, so that nobody can choose connections that meet in one slot",
    ),
    (
        "the buffer layer, receiving data",
        "the place is in memory that a program shares, and is checked",
    ),
    (
        "and on a busy server, too",
        "32 clients that ask in turn leave no two segments of one connection beside each other",
    ),
    (
        "1 KB, offload: bytes to the host",
        "descriptors have 64 bytes, and an accepted connection's block is counted",
    ),
    ("1 KB, offload: cycles to the host", "for the same reason"),
    (
        "1 KB, offload: bytes to the adapter",
        "descriptors have 64 bytes, and nginx's header is longer than Flash's",
    ),
];

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The table.
    pub table: String,
    /// Claims that held in the table before, and do not hold any more.
    pub lost: Vec<String>,
}

/// Makes the table of all claims, after one that stood before.
#[must_use]
pub fn write(outcomes: &[Outcome], before: &str) -> Written {
    let mut table = String::from(HEAD);
    let mut lost = Vec::new();
    for claim in CLAIMS {
        let begin = format!("| {} | {} | {} |", claim.paper, claim.says, claim.theirs);
        let stood = before.lines().find(|line| line.starts_with(&begin));
        let Some(figure) = figure(claim, outcomes) else {
            if let Some(line) = stood {
                let _ = writeln!(table, "{line}");
            }
            continue;
        };
        let holds = match claim.holds {
            Holds::AtMost(most) => figure <= most,
            Holds::AtLeast(least) => figure >= least,
        };
        let why = WHY.iter().find(|(says, _)| *says == claim.says);
        let verdict = match why {
            _ if holds => "holds".to_owned(),
            Some((_, why)) => format!("does not hold: {why}"),
            None => "does not hold".to_owned(),
        };
        let unit = if claim.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", claim.unit)
        };
        let here = match figure.fract() == 0.0 && figure < 1e6 {
            true => format!("{figure}"),
            false => report::number(figure),
        };
        let _ = writeln!(
            table,
            "{begin} {here}{unit} | {verdict} | `longshore measure {}` |",
            claim.here[0]
        );
        if !holds && stood.is_some_and(|line| line.contains("| holds |")) {
            lost.push(format!(
                "{}: {} ({} there, {here} here)",
                claim.paper, claim.says, claim.theirs
            ));
        }
    }
    Written { table, lost }
}

const HEAD: &str = "\
# What the papers claim, and what holds here

`make claims` writes this from the JSON of the experiments, and fails if a claim that held no
longer does. Counts of instructions and of transfers are exact; those of transfers are of the
fetch in the middle.

| paper | claim | there | here | | command |
| --- | --- | --- | --- | --- | --- |
";

/// The claim's figure here, if its experiment was made.
fn figure(claim: &Claim, outcomes: &[Outcome]) -> Option<f64> {
    let [experiment, sheet, row, column] = claim.here;
    let outcome = outcomes.iter().find(|o| o.experiment == experiment)?;
    let sheet = outcome.sheet(sheet)?;
    match (row, column) {
        ("here", _) => {
            // A row whose name begins so, and goes on with a count.
            let starts = |cells: &&Vec<super::Cell>| matches!(&cells[0], super::Cell::Text(t) if t.starts_with(row));
            let place = sheet.columns.iter().position(|c| c.name == column)?;
            sheet.rows.iter().find(starts)?[place].value()
        }
        ("one pass by two", _) => {
            let count = |name| sheet.value(name, "instructions");
            Some(count("copy and checksum in one pass")? / (count("copy")? + count("checksum")?))
        }
        _ => sheet.value(row, column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Sheet};

    fn outcome(instructions: u64) -> Outcome {
        let mut sheet = Sheet::new("parts", "", "", &[("part", ""), ("instructions", "number")]);
        sheet.row([Cell::from("IP input"), instructions.into()]);
        let mut outcome = Outcome::new("path", "1989", false);
        outcome.sheets.push(sheet);
        outcome
    }

    #[test]
    fn what_held_has_to_hold_again() {
        let good = write(&[outcome(40)], "");
        assert!(
            good.table
                .contains("| 1989 | IP input | 57 | 40 instructions | holds |"),
            "{}",
            good.table
        );
        assert!(good.lost.is_empty());
        let worse = write(&[outcome(58)], &good.table);
        assert_eq!(worse.lost, ["1989: IP input (57 there, 58 here)"]);
        // What did not hold before is no news.
        assert!(write(&[outcome(60)], &worse.table).lost.is_empty());
        assert!(worse.table.contains("does not hold"));
    }

    #[test]
    fn without_its_experiment_a_claim_keeps_its_line() {
        let good = write(&[outcome(40)], "");
        assert_eq!(write(&[], &good.table), good);
        assert!(!write(&[], "").table.contains("IP input"));
    }

    #[test]
    fn claims_are_told_apart() {
        let names: std::collections::HashSet<_> = CLAIMS
            .iter()
            .map(|claim| (claim.paper, claim.says, claim.theirs))
            .collect();
        assert_eq!(names.len(), CLAIMS.len());
    }
}
