//! Says what came of mutants, and holds it against the list of those that may survive
//! (`tests/mutants/survivors.txt`).
//!
//! That has one a line, and why no test should notice it:
//!
//! ```text
//! crates/wire/src/arp.rs: replace + with - in parse #2  # the reason
//! ```
//!
//! `#2` is the second of those that have the same name in the file; without it, the first.

use crate::results::{Fate, Results};
use std::collections::BTreeMap;

/// Mutants by what came of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All of them.
    pub all: usize,
    caught: usize,
    timed_out: usize,
    missed: usize,
    unviable: usize,
}

impl Counts {
    fn add(&mut self, fate: Option<Fate>) {
        self.all += 1;
        match fate {
            Some(Fate::Caught) => self.caught += 1,
            Some(Fate::TimedOut) => self.timed_out += 1,
            Some(Fate::Missed) => self.missed += 1,
            Some(Fate::Unviable) => self.unviable += 1,
            None => {}
        }
    }

    fn sum(&mut self, other: &Self) {
        self.all += other.all;
        self.caught += other.caught;
        self.timed_out += other.timed_out;
        self.missed += other.missed;
        self.unviable += other.unviable;
    }

    fn row(&self, name: &str) -> String {
        let detected = self.caught + self.timed_out;
        let tried = detected + self.missed;
        let share = match tried {
            0 => "none was tried".to_owned(),
            _ => format!("{:.1} % of {tried}", 100.0 * detected as f64 / tried as f64),
        };
        let Self {
            all,
            caught,
            timed_out,
            missed,
            unviable,
        } = self;
        format!("{name:44} {all:6} {caught:7} {timed_out:10} {missed:7} {unviable:9}  {share}")
    }
}

/// The list of mutants that may survive: the line of each.
pub fn may_survive(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let mut entries = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, reason) = line.split_once("  # ").unwrap_or((line, ""));
        if reason.trim().is_empty() {
            return Err(format!(
                "line {number}: no reason is given: two blanks, #, a blank, and why"
            ));
        }
        if let Some(first) = entries.insert(name.to_owned(), number) {
            return Err(format!("line {number}: it is on line {first}, too"));
        }
    }
    Ok(entries)
}

/// Says what is known of these crates, file by file. The faults: what survives and is not in
/// the list, and what is in the list and does not.
pub fn report(
    crates: &[(String, Results)],
    list: &BTreeMap<String, usize>,
) -> (String, Vec<String>) {
    let mut text = format!(
        "{:44} {:>6} {:>7} {:>10} {:>7} {:>9}  caught of those tried\n",
        "", "all", "caught", "timed out", "missed", "unviable"
    );
    let mut faults = vec![];
    let mut total = Counts::default();
    for (name, results) in crates {
        let mut files = BTreeMap::<&str, Counts>::new();
        for (mutant, entry) in &results.mutants {
            let file = mutant.split(": ").next().unwrap_or_default();
            files.entry(file).or_default().add(entry.fate);
            if entry.fate == Some(Fate::Missed) && !list.contains_key(mutant) {
                let (line, column) = entry.place;
                let tests = match entry.reached {
                    0 => "no test reaches it".to_owned(),
                    some => format!("{some} tests reach it"),
                };
                faults.push(format!(
                    "survives: {mutant} (line {line}:{column}; {tests})"
                ));
            }
        }
        let mut all = Counts::default();
        for (file, counts) in &files {
            all.sum(counts);
            text.push_str(&format!("{}\n", counts.row(file)));
        }
        text.push_str(&format!("{}\n", all.row(name)));
        total.sum(&all);
        faults.extend(outdated(name, results, list));
    }
    text.push_str(&total.row("all"));
    (text, faults)
}

/// What the list has of a crate and should not.
fn outdated(name: &str, results: &Results, list: &BTreeMap<String, usize>) -> Vec<String> {
    let of_crate = list
        .iter()
        .filter(|(mutant, _)| mutant.starts_with(&format!("crates/{name}/")));
    of_crate
        .filter_map(|(mutant, line)| match results.mutants.get(mutant) {
            None => Some(format!(
                "survivors.txt:{line}: there is no such mutant: {mutant}"
            )),
            Some(entry) if matches!(entry.fate, Some(Fate::Caught | Fate::TimedOut)) => {
                Some(format!("survivors.txt:{line}: it is caught: {mutant}"))
            }
            Some(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Entry;

    #[test]
    fn each_that_may_survive_has_a_reason_and_stands_once() {
        let list = may_survive("# text\n\na.rs: replace + with -  # why\n").unwrap();
        assert_eq!(
            list,
            BTreeMap::from([("a.rs: replace + with -".to_owned(), 3)])
        );
        assert!(may_survive("a.rs: replace + with -\n").is_err());
        assert!(may_survive("a  # b\na  # c\n").is_err());
    }

    #[test]
    fn the_list_of_this_repository_can_be_read() {
        let list = may_survive(include_str!("../../survivors.txt")).unwrap();
        assert!(!list.is_empty());
    }

    #[test]
    fn survivors_are_faults_unless_listed_and_so_are_listed_ones_that_are_caught_or_gone() {
        let entry = |fate| Entry {
            place: (3, 4),
            fate: Some(fate),
            by: None,
            reached: 2,
            source: String::new(),
            suite: String::new(),
        };
        let mutants = BTreeMap::from([
            ("crates/a/src/lib.rs: one".to_owned(), entry(Fate::Missed)),
            ("crates/a/src/lib.rs: two".to_owned(), entry(Fate::Missed)),
            ("crates/a/src/lib.rs: three".to_owned(), entry(Fate::Caught)),
        ]);
        let list = ["two", "three", "four"]
            .iter()
            .zip(1..)
            .map(|(name, line)| (format!("crates/a/src/lib.rs: {name}"), line));
        let results = Results {
            mutants,
            ..Results::default()
        };
        let (text, faults) = report(&[("a".to_owned(), results)], &list.collect());
        assert!(text.ends_with("33.3 % of 3"), "{text}");
        assert_eq!(
            faults,
            [
                "survives: crates/a/src/lib.rs: one (line 3:4; 2 tests reach it)",
                "survivors.txt:3: there is no such mutant: crates/a/src/lib.rs: four",
                "survivors.txt:2: it is caught: crates/a/src/lib.rs: three",
            ]
        );
    }
}
