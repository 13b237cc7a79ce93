//! The table of bad paths, from the files of any number of runs.
//!
//! Owns [`table`], which `longshore-bench impaired --table` shows: the record in
//! `docs/impaired.md` is made with it.

use super::{Cell, PAIRS};
use crate::report::{median, number};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// What both stacks delivered in the runs of one cell and pair, Mb/s.
#[derive(Debug, Default)]
struct Runs {
    longshore: Vec<f64>,
    kernel: Vec<f64>,
}

/// All runs of these cells in the JSON files of `directory`, as a table in Markdown:
/// the median goodput from Linux to Linux, and what the pairs with Longshore reach of
/// it, with the number of runs.
///
/// # Errors
/// Those of reading the directory and its files.
pub fn table(directory: &Path, cells: &[Cell]) -> io::Result<String> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json") {
            let run = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            gather(&run, &mut all);
        }
    }
    Ok(render(cells, &all))
}

/// Adds the rows of one file to what there is, by their names.
fn gather(run: &Value, all: &mut BTreeMap<String, Runs>) {
    let figures = |value: &Value| -> Vec<f64> {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(Value::as_f64).collect()
    };
    for row in run["rows"].as_array().map_or(&[][..], Vec::as_slice) {
        let runs = all
            .entry(row["name"].as_str().unwrap_or_default().to_owned())
            .or_default();
        runs.longshore.extend(figures(&row["longshore"]));
        runs.kernel.extend(figures(&row["kernel"]));
    }
}

fn render(cells: &[Cell], all: &BTreeMap<String, Runs>) -> String {
    let mut text = String::from("| fault | rtt | rate | runs | Linux to Linux, Mb/s |");
    PAIRS.iter().for_each(|(pair, ..)| {
        let _ = write!(text, " {pair} |");
    });
    text.push_str("\n| ---: | ---: | ---: | ---: | ---: |");
    text.push_str(&" ---: |".repeat(PAIRS.len()));
    text.push('\n');
    for cell in cells {
        let name = cell.name();
        let pairs = PAIRS.map(|(pair, ..)| all.get(&format!("{name}: {pair}")));
        // Each pair has the kernel's figures beside its own, and they are the same.
        let Some(kernel) = pairs.iter().flatten().map(|r| &r.kernel).next() else {
            continue;
        };
        let _ = write!(
            text,
            "| {} | {} ms | {} Mb/s | {} | {} |",
            cell.fault.name(),
            cell.round_trip_ms,
            cell.rate / 1_000_000,
            kernel.len(),
            median(kernel).map_or_else(String::new, number),
        );
        for runs in pairs {
            let ratio = runs.and_then(|r| Some(median(&r.longshore)? / median(&r.kernel)?));
            let _ = match ratio {
                Some(ratio) => write!(text, " {ratio:.2} |"),
                None => write!(text, " - |"),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::Fault;
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_of_several_files_become_one_row() {
        let cell = Cell {
            fault: Fault::Loss(0.01),
            round_trip_ms: 20,
            rate: 100_000_000,
        };
        let file = |ours: f64, kernel: f64| {
            let row = |(pair, ..): (&str, _, _)| {
                let name = format!("{}: {pair}", cell.name());
                json!({"name": name, "longshore": [ours], "kernel": [kernel]})
            };
            json!({"rows": PAIRS.map(row)})
        };
        let mut all = BTreeMap::new();
        for (ours, kernel) in [(4.0, 5.0), (6.0, 5.0), (5.0, 4.0)] {
            gather(&file(ours, kernel), &mut all);
        }
        let text = render(&Cell::all().collect::<Vec<_>>(), &all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[2],
            "| loss 1 % | 20 ms | 100 Mb/s | 3 | 5.00 | 1.00 | 1.00 | 1.00 |"
        );
        assert_eq!(lines[0].matches('|').count(), lines[2].matches('|').count());
    }
}
