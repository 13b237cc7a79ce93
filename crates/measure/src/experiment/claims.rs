//! What the papers claim of counts and ratios, each held against an experiment's outcome.
//!
//! The table is written from outcomes, so it says what was measured. One that stands already
//! is compared: what held there has to hold again. Claims whose experiment was not made keep
//! their line.

use super::Outcome;
use crate::report;
use std::fmt::Write as _;

mod table;

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
    says: String,
    /// The paper's figure.
    theirs: String,
    here: Place,
    unit: &'static str,
    holds: Holds,
    /// Why it does not hold, where that is known.
    why: Option<&'static str>,
}

/// Where the figure here is.
struct Place {
    experiment: &'static str,
    sheet: &'static str,
    row: String,
    column: String,
}

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
    for claim in &table::claims() {
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
        let verdict = match claim.why {
            _ if holds => "holds".to_owned(),
            Some(why) => format!("does not hold: {why}"),
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
            claim.here.experiment
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
fetch in the middle. Rows of `sweep` and `cpu` compare times; `make claims-times` measures them, on
a quiet machine.

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
    } = &claim.here;
    let outcome = outcomes.iter().find(|o| o.experiment == *experiment)?;
    let sheet = outcome.sheet(sheet)?;
    match &**row {
        "here" => {
            // A row whose name begins so, and goes on with a count.
            let starts = |cells: &&Vec<super::Cell>| matches!(&cells[0], super::Cell::Text(t) if t.starts_with(&**row));
            let place = sheet.columns.iter().position(|c| c.name == *column)?;
            sheet.rows.iter().find(starts)?[place].value()
        }
        "one pass by two" => {
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
        let claims = table::claims();
        let names: std::collections::HashSet<_> = claims
            .iter()
            .map(|claim| (claim.paper, &claim.says, &claim.theirs))
            .collect();
        assert_eq!(names.len(), claims.len());
    }
}
