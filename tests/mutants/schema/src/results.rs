//! What is known of a crate's mutants, kept from one run to the next in
//! `target/mutants/schema/CRATE.json`.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// What came of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// A test fails.
    Caught,
    /// A test does not end.
    TimedOut,
    /// All tests that reach it pass, or none does.
    Missed,
    /// It does not compile, or the compiler itself would need it.
    Unviable,
}

/// A mutant, and what is known of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its line and column.
    pub place: (usize, usize),
    /// What came of it, if it was tried.
    pub fate: Option<Fate>,
    /// The test that noticed it.
    pub by: Option<String>,
    /// How many tests reach it.
    pub reached: usize,
    /// Its file, as it was then.
    pub source: String,
    /// All that is compiled, as it was then.
    pub suite: String,
}

/// What is known of a crate.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// All mutants of the crate, by name.
    pub mutants: BTreeMap<String, Entry>,
    /// The tests by which all mutants of the crate were tried.
    pub tests: BTreeSet<String>,
}

impl Results {
    /// Reads what is known; nothing, if there is no such file or none that can be read.
    pub fn read(path: &Path) -> Self {
        fs::read(path)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Writes it down.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&new, path)
    }
}

impl Entry {
    /// Whether it need not be tried again: a mutant that was caught, until its file changes; one
    /// that survived, until anything does.
    pub fn stands(&self, source: &str, suite: &str) -> bool {
        match self.fate {
            Some(Fate::Missed) => self.suite == suite,
            Some(_) => self.source == source,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_survived_is_tried_again_after_any_change() {
        let entry = |fate| Entry {
            place: (1, 1),
            fate,
            by: None,
            reached: 0,
            source: "file".into(),
            suite: "all".into(),
        };
        assert!(entry(Some(Fate::Caught)).stands("file", "other"));
        assert!(!entry(Some(Fate::Caught)).stands("changed", "all"));
        assert!(entry(Some(Fate::Missed)).stands("file", "all"));
        assert!(!entry(Some(Fate::Missed)).stands("file", "other"));
        assert!(!entry(None).stands("file", "all"));
    }
}
