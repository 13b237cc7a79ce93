//! The table of states and events: a folder for each cell, with a script, or with the
//! reason why it is empty.
//!
//! Owns the names of rows and columns, and reading the folders. `STATE/EVENT/main.script`
//! fills its cell; any other script beside it is a further case. Of a cell that has
//! nothing to show, `STATE/EVENT/empty.txt` says `does not apply: why`.
//! `STATE/begin.script` leads into the state.

use crate::Script;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The states of RFC 9293 section 3.3.2.
pub const STATES: [&str; 11] = [
    "CLOSED",
    "LISTEN",
    "SYN-SENT",
    "SYN-RECEIVED",
    "ESTABLISHED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "CLOSE-WAIT",
    "CLOSING",
    "LAST-ACK",
    "TIME-WAIT",
];

/// What may happen: segments that arrive, then the calls of RFC 9293 section 3.10 (of
/// CLOSE there are two: of both directions, and of sending alone).
pub const EVENTS: [&str; 31] = [
    "syn",
    "syn-old",
    "syn-ack",
    "ack",
    "ack-old",
    "ack-too-old",
    "ack-ahead",
    "no-ack",
    "data",
    "data-old",
    "data-overlapping",
    "data-out-of-order",
    "data-past-window",
    "data-beyond-window",
    "fin",
    "fin-old",
    "fin-out-of-order",
    "fin-no-ack",
    "rst",
    "rst-in-window",
    "rst-before-window",
    "rst-beyond-window",
    "old-timestamp",
    "urgent",
    "open",
    "send",
    "receive",
    "close",
    "shutdown",
    "abort",
    "status",
];

/// A script of the table.
#[derive(Debug, Clone)]
pub struct Cell {
    /// `STATE/EVENT`, or `STATE/EVENT/CASE` of a further case.
    pub name: String,
    /// The script.
    pub script: Script,
}

/// All scripts below a folder.
#[derive(Debug, Clone)]
pub struct Table {
    begins: BTreeMap<String, Script>,
    /// The scripts, by name.
    pub cells: Vec<Cell>,
    /// Cells that have nothing to show, with the reason.
    empty: BTreeMap<String, String>,
}

impl Table {
    /// Reads the folder.
    ///
    /// # Errors
    /// What cannot be read or is invalid.
    pub fn read(root: &Path) -> Result<Table, String> {
        let mut table = Table {
            begins: BTreeMap::new(),
            cells: Vec::new(),
            empty: BTreeMap::new(),
        };
        for folder in files(root)?.into_iter().filter(|path| path.is_dir()) {
            let state = name_of(&folder);
            for path in files(&folder)? {
                if path.is_dir() {
                    table.take_cell(&format!("{state}/{}", name_of(&path)), &path)?;
                } else if name_of(&path) == "begin.script" {
                    table.begins.insert(state.clone(), script_of(&path)?);
                } else {
                    return Err(format!("{} is in no cell", path.display()));
                }
            }
        }
        Ok(table)
    }

    /// Takes the folder of the cell of this name.
    fn take_cell(&mut self, cell: &str, folder: &Path) -> Result<(), String> {
        for file in files(folder)? {
            let name = name_of(&file);
            if name == "empty.txt" {
                let text = text_of(&file)?;
                let why = text.strip_prefix("does not apply: ");
                let why = why.ok_or_else(|| format!("{cell}/{name}: `{text}` is no reason"))?;
                self.empty.insert(cell.to_owned(), why.trim().to_owned());
                continue;
            }
            let case = name
                .strip_suffix(".script")
                .ok_or_else(|| format!("{} is no script", file.display()))?;
            self.cells.push(Cell {
                name: match case {
                    "main" => cell.to_owned(),
                    further => format!("{cell}/{further}"),
                },
                script: script_of(&file)?,
            });
        }
        Ok(())
    }

    /// The script that leads into a state.
    ///
    /// # Errors
    /// If there is none.
    pub fn begin(&self, state: &str) -> Result<Script, String> {
        let script = self.begins.get(state);
        script.cloned().ok_or(format!("no {state}/begin.script"))
    }

    /// The errors of the table: cells that are missing, that are both filled and marked as
    /// empty, or that do not exist; states without a beginning.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let filled: BTreeSet<&str> = self.cells.iter().map(|cell| cell.name.as_str()).collect();
        let mut known = BTreeSet::new();
        for state in STATES {
            if !self.begins.contains_key(state) {
                complaints.push(format!("{state}/begin.script is missing"));
            }
            for event in EVENTS {
                let name = format!("{state}/{event}");
                match (filled.contains(&*name), self.empty.contains_key(&name)) {
                    (true, true) => complaints.push(format!("{name} has a script and a reason")),
                    (false, false) => complaints.push(format!("{name} is missing")),
                    _ => {}
                }
                known.insert(name);
            }
        }
        let named = filled.into_iter().chain(self.empty.keys().map(|k| &**k));
        complaints.extend(
            named
                .filter(|name| !known.contains(cell_of(name)))
                .map(|name| format!("{name} is no cell")),
        );
        complaints
    }
}

/// The cell that a script of this name belongs to.
fn cell_of(name: &str) -> &str {
    match name.match_indices('/').nth(1) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

fn text_of(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

fn script_of(file: &Path) -> Result<Script, String> {
    Script::parse(&text_of(file)?).map_err(|what| format!("{}: {what}", file.display()))
}

/// What a folder holds, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let says = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(says)?.collect();
    let mut paths: Vec<PathBuf> = entries.map_err(says)?.iter().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_cell_and_one_that_is_none_are_told() {
        let script = Script::parse("").unwrap();
        let mut table = Table {
            begins: STATES
                .iter()
                .map(|s| (s.to_string(), script.clone()))
                .collect(),
            cells: Vec::new(),
            empty: BTreeMap::new(),
        };
        for state in STATES {
            for event in EVENTS {
                table.empty.insert(format!("{state}/{event}"), "why".into());
            }
        }
        assert!(table.complaints().is_empty());
        table.empty.remove("LISTEN/ack");
        assert_eq!(table.complaints(), ["LISTEN/ack is missing"]);
        let cell = |name: &str| Cell {
            name: name.into(),
            script: script.clone(),
        };
        table.cells.push(cell("LISTEN/ack/again"));
        // A further case alone is no cell.
        assert_eq!(table.complaints(), ["LISTEN/ack is missing"]);
        table.cells.push(cell("LISTEN/ack"));
        assert!(table.complaints().is_empty());
        table.cells.push(cell("LISTEN/data"));
        table.cells.push(cell("OPEN/data"));
        table.begins.remove("CLOSING");
        assert_eq!(
            table.complaints(),
            [
                "LISTEN/data has a script and a reason",
                "CLOSING/begin.script is missing",
                "OPEN/data is no cell"
            ]
        );
    }
}
