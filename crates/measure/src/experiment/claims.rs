//! What the papers claim of counts and ratios, each held against an experiment's outcome.
//!
//! The table is written from outcomes, so it says what was measured. One that stands already
//! is compared: what held there has to hold again. Claims whose experiment was not made keep
//! their line.

use super::{Cell, Outcome, Sheet};
use crate::report;
use std::fmt::Write as _;

mod crossings;
mod table;

/// How a claim is judged by the figure here.
#[derive(Debug, Clone, Copy)]
enum Holds {
    /// It holds where the figure is at most this.
    AtMost(f64),
    /// It holds where the figure is at least this.
    AtLeast(f64),
    /// It holds where the figure differs from this by at most a tenth of it.
    Near(f64),
}

/// A claim.
struct Claim {
    paper: &'static str,
    says: String,
    /// The paper's figure.
    theirs: String,
    here: Place,
    unit: &'static str,
    holds: Holds,
    /// Why it does not hold, where that is known.
    why: Option<&'static str>,
    /// Its figure differs from run to run, by what a client's kernel does or where memory lies: that
    /// it held once says nothing of the next time.
    varies: bool,
}

/// Where the figure here is.
struct Place {
    experiment: &'static str,
    sheet: &'static str,
    row: String,
    column: String,
    /// It is by how many percent the figure is less than that of this row.
    less_than: Option<String>,
}

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// The table.
    pub table: String,
    /// Claims that held in the table before, and do not hold any more, or have no figure though
    /// their experiment was made.
    pub lost: Vec<String>,
    /// All lines that are others than before: the claim, what stood there, what stands there.
    pub changed: Vec<String>,
}

/// A claim, beside what was measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Judged {
    /// The paper's year.
    pub paper: &'static str,
    /// What it claims.
    pub says: String,
    /// Its figure.
    pub theirs: String,
    /// The figure here, with its unit.
    pub here: String,
    /// Whether it holds, and why not.
    pub verdict: String,
}

/// The claims whose experiments were made.
#[must_use]
pub fn judge(outcomes: &[Outcome]) -> Vec<Judged> {
    let all = table::claims().into_iter();
    let judged = all.filter_map(|claim| {
        let figure = figure(&claim, outcomes)?;
        Some(Judged {
            here: claim.here(figure),
            verdict: claim.verdict(figure),
            paper: claim.paper,
            says: claim.says,
            theirs: claim.theirs,
        })
    });
    judged.collect()
}

/// Makes the table of all claims, after one that stood before.
#[must_use]
pub fn write(outcomes: &[Outcome], before: &str) -> Written {
    let mut written = Written {
        table: String::from(HEAD),
        lost: Vec::new(),
        changed: Vec::new(),
    };
    for claim in &table::claims() {
        let name = format!("{}: {}", claim.paper, claim.says);
        let begin = format!("| {} | {} | {} |", claim.paper, claim.says, claim.theirs);
        let stood = before.lines().find_map(|line| line.strip_prefix(&begin));
        let held = stood.is_some_and(|line| line.contains("| holds |"));
        let Some(figure) = figure(claim, outcomes) else {
            // Short runs lack some figures.
            let is_made = |o: &Outcome| o.experiment == claim.here.experiment && !o.quick;
            if held && outcomes.iter().any(is_made) {
                written.lost.push(format!("{name} (no figure here)"));
            }
            if let Some(line) = stood {
                let _ = writeln!(written.table, "{begin}{line}");
            }
            continue;
        };
        let line = claim.judged(figure);
        if !claim.is_held_by(figure) && held {
            let here = shown(figure);
            let there = &claim.theirs;
            written
                .lost
                .push(format!("{name} ({there} there, {here} here)"));
        }
        if let Some(stood) = stood.filter(|stood| *stood != line) {
            let (was, is) = (verdict(stood), verdict(&line));
            written.changed.push(format!("{name}: was {was}; is {is}"));
        } else if stood.is_none() {
            written
                .changed
                .push(format!("{name}: is new: {}", verdict(&line)));
        }
        let _ = writeln!(written.table, "{begin}{line}");
    }
    written
}

/// What a line says of here, without its command.
fn verdict(line: &str) -> String {
    let cells: Vec<&str> = line.split('|').map(str::trim).take(2).collect();
    cells.join(", ")
}

/// A figure: all digits of large ones, which are counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure to show"
)]
fn shown(figure: f64) -> String {
    match figure {
        n if n >= 1000.0 || n >= 0.0 && n.fract() == 0.0 => report::grouped(n.round() as u64),
        n => report::number(n),
    }
}

impl Claim {
    fn is_held_by(&self, figure: f64) -> bool {
        match self.holds {
            Holds::AtMost(most) => figure <= most,
            Holds::AtLeast(least) => figure >= least,
            Holds::Near(theirs) => (figure - theirs).abs() <= theirs / 10.0,
        }
    }

    fn verdict(&self, figure: f64) -> String {
        let this_time = if self.varies { " this time" } else { "" };
        match self.why {
            _ if self.is_held_by(figure) => format!("holds{this_time}"),
            Some(why) => format!("does not hold{this_time}: {why}"),
            None => format!("does not hold{this_time}"),
        }
    }

    /// The figure here, as it is shown.
    fn here(&self, figure: f64) -> String {
        let here = format!("{} {}", shown(figure), self.unit);
        here.trim_end().to_owned()
    }

    /// Its line in the table behind the paper's figure.
    fn judged(&self, figure: f64) -> String {
        let (here, verdict) = (self.here(figure), self.verdict(figure));
        let experiment = self.here.experiment;
        format!(" {here} | {verdict} | `longshore measure {experiment}` |")
    }
}

const HEAD: &str = "\
# What the papers claim, and what holds here

`make claims` writes this from the JSON of the experiments, and fails if a claim that held no
longer does. Counts of instructions and of transfers are exact; those of transfers are of the
fetch in the middle. Figures of a conventional adapter hold where they are within a tenth of the
paper's, since they are to be the same; all others where they are no worse. What a client's kernel
decides, and misses where there are few, differ from run to run, and are judged for this time. Rows
of `sweep` and `cpu` compare times; `make claims-times` measures them, on a quiet machine.

| paper | claim | there | here | | command |
| --- | --- | --- | --- | --- | --- |
";

/// The claim's figure here, if its experiment was made.
fn figure(claim: &Claim, outcomes: &[Outcome]) -> Option<f64> {
    let Place {
        experiment,
        sheet,
        row,
        column,
        less_than,
    } = &claim.here;
    let outcome = outcomes.iter().find(|o| o.experiment == *experiment)?;
    let sheet = outcome.sheet(sheet)?;
    let figure = value(sheet, row, column)?;
    match less_than {
        Some(than) => Some(100.0 * (1.0 - figure / value(sheet, than, column)?)),
        None => Some(figure),
    }
}

/// A figure of a sheet; rows that begin with "here" go on with a count.
fn value(sheet: &Sheet, row: &str, column: &str) -> Option<f64> {
    if row == "one pass by two" {
        let count = |name| sheet.value(name, "instructions");
        return Some(
            count("copy and checksum in one pass")? / (count("copy")? + count("checksum")?),
        );
    }
    let Some(of) = row.strip_prefix("here") else {
        return sheet.value(row, column);
    };
    let place = |name: &str| sheet.columns.iter().position(|c| c.name == name);
    let size = of.trim_matches(|c: char| !c.is_ascii_digit());
    let (column, sizes) = (place(column)?, place("packet size")?);
    let is_it = |cells: &&Vec<Cell>| {
        matches!(&cells[0], Cell::Text(name) if name.starts_with("here"))
            && (size.is_empty() || cells[sizes].value() == size.parse().ok())
    };
    sheet.rows.iter().find(is_it)?[column].value()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            good.changed,
            ["1989: IP input: is new: 40 instructions, holds"]
        );
        let worse = write(&[outcome(58)], &good.table);
        assert_eq!(worse.lost, ["1989: IP input (57 there, 58 here)"]);
        assert_eq!(
            worse.changed,
            ["1989: IP input: was 40 instructions, holds; is 58 instructions, does not hold"]
        );
        // What did not hold before is not listed.
        assert!(write(&[outcome(60)], &worse.table).lost.is_empty());
        assert!(worse.table.contains("does not hold"));
    }

    #[test]
    fn claims_are_judged_by_what_was_measured() {
        let judged = judge(&[outcome(58)]);
        let [claim] = &judged[..] else {
            panic!("{judged:?}");
        };
        assert_eq!((claim.paper, &*claim.says), ("1989", "IP input"));
        assert_eq!((&*claim.theirs, &*claim.here), ("57", "58 instructions"));
        assert_eq!(claim.verdict, "does not hold");
        assert_eq!(judge(&[]), []);
    }

    #[test]
    fn without_its_experiment_a_claim_keeps_its_line() {
        let good = write(&[outcome(40)], "");
        let again = write(&[], &good.table);
        assert_eq!(again.table, good.table);
        assert!(again.lost.is_empty() && again.changed.is_empty());
        assert!(!write(&[], "").table.contains("IP input"));
    }

    #[test]
    fn a_figure_that_is_gone_is_lost_but_in_short_runs() {
        let good = write(&[outcome(40)], "");
        let mut without = Outcome::new("path", "1989", false);
        let lost = write(std::slice::from_ref(&without), &good.table).lost;
        assert_eq!(lost, ["1989: IP input (no figure here)"]);
        without.quick = true;
        assert!(write(&[without], &good.table).lost.is_empty());
    }

    /// What crossed in two fetches of 64 KB: as the conventional adapter counts them, and here.
    fn bus(e1000: [u64; 2], longshore: [u64; 2]) -> Outcome {
        let columns = ["receive transfers", "send transfers"];
        let columns = [
            ("fetch", ""),
            (columns[0], "number"),
            (columns[1], "number"),
        ];
        let mut sheet = Sheet::new("fetches", "", "", &columns);
        for (adapter, counts) in [("e1000", e1000), ("longshore", longshore)] {
            let name = Cell::Text(format!("{adapter} 65536 close"));
            sheet.row([name].into_iter().chain(counts.map(Cell::Count)));
        }
        let mut outcome = Outcome::new("bus", "2005", false);
        outcome.sheets.push(sheet);
        outcome
    }

    #[test]
    fn a_conventional_adapter_is_to_be_the_papers_and_savings_no_less() {
        let line = |outcome: &Outcome, of: &str| {
            let table = write(std::slice::from_ref(outcome), "").table;
            let found = table.lines().find(|line| line.contains(of));
            found
                .unwrap_or_else(|| panic!("{of} in {table}"))
                .to_owned()
        };
        let sent = "64 KB, E1000: transfers to the adapter";
        for (transfers, verdict) in [
            (160, "| holds |"),
            (176, "does not hold"),
            (142, "does not hold"),
        ] {
            let said = line(&bus([60, transfers], [1, 2]), sent);
            assert!(said.contains(verdict) && said.contains("| 159 |"), "{said}");
        }
        // 40 of 160 are left.
        let saved = "64 KB, offload: transfers to the adapter that are saved";
        let said = line(&bus([60, 160], [1, 40]), saved);
        assert!(said.contains("| 64 % | 75 % | holds |"), "{said}");
        let said = line(&bus([60, 160], [1, 80]), saved);
        assert!(said.contains("| 50 % | does not hold"), "{said}");
        // As often as a client acknowledges.
        let received = "64 KB, E1000: transfers to the host";
        let once = write(&[bus([60, 160], [1, 2])], "").table;
        assert!(line(&bus([60, 160], [1, 2]), received).contains("| holds this time |"));
        let again = write(&[bus([20, 160], [1, 2])], &once);
        assert!(again.lost.is_empty(), "{:?}", again.lost);
        assert!(again.table.contains("does not hold this time: "));
    }

    #[test]
    fn rates_are_those_of_their_size() {
        let columns = [
            ("instructions a packet", ""),
            ("packet size", "bytes"),
            ("bandwidth", "Mb/s"),
        ];
        let mut sheet = Sheet::new("rates", "", "", &columns);
        for (name, size, bandwidth) in [
            ("paper: 400", 4000_u64, 800.0),
            ("here: 263", 500, 152.0),
            ("here: 263", 4000, 1216.0),
        ] {
            sheet.row([Cell::from(name), size.into(), Cell::Number(bandwidth)]);
        }
        let mut outcome = Outcome::new("path", "1989", false);
        outcome.sheets.push(sheet);
        let table = write(&[outcome], "").table;
        for line in [
            "| with packets of 4,000 bytes these are 800 Mb/s | 800 | 1,216 Mb/s | holds |",
            "| packets of 500 bytes fill a network of 100 Mb/s | 100 | 152 Mb/s | holds |",
        ] {
            assert!(table.contains(line), "{line} in {table}");
        }
    }

    #[test]
    fn counts_keep_their_digits() {
        for (figure, text) in [
            (20_213.5, "20,214"),
            (524_655.0, "524,655"),
            (7.0, "7"),
            (0.0, "0"),
            (46.04, "46.0"),
            (0.872, "0.87"),
        ] {
            assert_eq!(shown(figure), text);
        }
    }

    #[test]
    fn claims_are_told_apart() {
        let claims = table::claims();
        let names: std::collections::HashSet<_> = claims
            .iter()
            .map(|claim| (claim.paper, &claim.says, &claim.theirs))
            .collect();
        assert_eq!(names.len(), claims.len());
    }
}
