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
        }
    }

    fn verdict(&self, figure: f64) -> String {
        match self.why {
            _ if self.is_held_by(figure) => "holds".to_owned(),
            Some(why) => format!("does not hold: {why}"),
            None => "does not hold".to_owned(),
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
