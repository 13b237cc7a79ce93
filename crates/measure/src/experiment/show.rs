//! An outcome as tables for people, as CSV and as JSON.

use super::{Cell, Outcome, Sheet};
use crate::report;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// What short runs are marked with.
pub const QUICK: &str = "Short runs (--quick): for a look, not for the record.";

impl Outcome {
    /// Tables, and what was left out.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut text = String::new();
        if self.quick {
            let _ = writeln!(text, "{QUICK}\n");
        }
        for sheet in &self.sheets {
            let _ = writeln!(
                text,
                "{}\n({})\n{}\n",
                sheet.title,
                sheet.basis,
                table(sheet)
            );
        }
        if !self.left_out.is_empty() {
            text.push_str("Not to be had here:\n");
            for reason in &self.left_out {
                let _ = writeln!(text, "  - {reason}");
            }
        }
        text
    }

    /// A line for each row of each sheet, with a heading where a sheet begins.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = String::new();
        if self.quick {
            let _ = writeln!(text, "# {QUICK}");
        }
        for sheet in &self.sheets {
            let heading = sheet.columns.iter().map(|column| match &*column.unit {
                "" => quoted(&column.name),
                unit => quoted(&format!("{} ({unit})", column.name)),
            });
            let heading: Vec<String> = heading.collect();
            let _ = writeln!(text, "sheet,{}", heading.join(","));
            for row in &sheet.rows {
                let cells: Vec<String> = row.iter().map(plain).collect();
                let _ = writeln!(text, "{},{}", sheet.name, cells.join(","));
            }
        }
        text
    }

    /// An object: each sheet an array with an object for each row, by the columns' names.
    #[must_use]
    pub fn json(&self) -> Value {
        let sheets = self.sheets.iter().map(|sheet| {
            let rows = sheet.rows.iter().map(|row| {
                let names = sheet.columns.iter().map(|column| column.name.clone());
                let cells = row.iter().map(|cell| json!(cell));
                Value::Object(names.zip(cells).collect())
            });
            let units = sheet.columns.iter().filter(|c| !c.unit.is_empty());
            let units: Map<String, Value> = units
                .map(|column| (column.name.clone(), json!(column.unit)))
                .collect();
            let sheet_json = json!({
                "title": sheet.title,
                "basis": sheet.basis,
                "units": units,
                "rows": rows.collect::<Vec<_>>(),
            });
            (sheet.name.clone(), sheet_json)
        });
        json!({
            "experiment": self.experiment,
            "paper": self.paper,
            "quick": self.quick,
            "machine": self.machine,
            "sheets": Value::Object(sheets.collect()),
            "left_out": self.left_out,
        })
    }
}

/// A sheet for the screen.
fn table(sheet: &Sheet) -> comfy_table::Table {
    let headings = sheet.columns.iter().map(|column| match &*column.unit {
        "" => column.name.clone(),
        unit => format!("{}\n{unit}", column.name),
    });
    let headings: Vec<String> = headings.collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let text = sheet.columns.iter().take_while(|c| c.unit.is_empty());
    let mut table = report::table(&headings, text.count());
    for row in &sheet.rows {
        table.add_row(row.iter().map(cell));
    }
    table
}

/// A cell for people.
pub(crate) fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => report::number(*number),
        Cell::Measured(spread) if spread.runs == 1 => report::number(spread.median),
        Cell::Measured(spread) => format!(
            "{} ({} to {})",
            report::number(spread.median),
            report::number(spread.least),
            report::number(spread.most)
        ),
        Cell::Text(text) => text.clone(),
        Cell::None => "-".to_owned(),
    }
}

/// A cell for programs: of several runs the median.
fn plain(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(text),
        other => other.value().map_or_else(String::new, |v| v.to_string()),
    }
}

/// Text as CSV has it (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Spread;

    fn outcome(quick: bool) -> Outcome {
        let mut sheet = Sheet::new(
            "costs",
            "What things cost",
            "medians of 3 runs",
            &[("what", ""), ("time", "ns"), ("paper", "ns")],
        );
        let spread = Spread::of(&[1.0, 2.0, 4.0]);
        sheet.row([Cell::from("copy, and sum"), spread.into(), 200_u64.into()]);
        sheet.row([Cell::from("nothing"), Cell::None, 0.5.into()]);
        let mut outcome = Outcome::new("host", "2005", quick);
        outcome.sheets.push(sheet);
        outcome.left_out.push("registers: no device".to_owned());
        outcome
    }

    #[test]
    fn short_runs_are_marked_everywhere() {
        let (quick, full) = (outcome(true), outcome(false));
        assert!(quick.tables().contains("--quick") && !full.tables().contains("--quick"));
        assert!(quick.csv().contains("--quick") && !full.csv().contains("--quick"));
        assert_eq!(quick.json()["quick"], true);
    }

    #[test]
    fn cells_are_found_again() {
        let outcome = outcome(false);
        let sheet = outcome.sheet("costs").unwrap();
        assert_eq!(sheet.value("copy, and sum", "time"), Some(2.0));
        assert_eq!(sheet.value("nothing", "time"), None);
        assert_eq!(sheet.points("time", "paper"), [(2.0, 200.0)]);
        let json = outcome.json();
        let row = &json["sheets"]["costs"]["rows"][0];
        assert_eq!(row["time"]["median"], 2.0);
        assert_eq!(row["paper"], 200);
        assert_eq!(json["sheets"]["costs"]["units"]["time"], "ns");
        let again: Outcome =
            serde_json::from_value(serde_json::to_value(&outcome).unwrap()).unwrap();
        assert_eq!(again.json(), json);
    }

    #[test]
    fn csv_keeps_commas_apart() {
        let text = outcome(false).csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "sheet,what,time (ns),paper (ns)");
        assert_eq!(lines[1], "costs,\"copy, and sum\",2,200");
        assert_eq!(lines[2], "costs,nothing,,0.5");
    }

    #[test]
    fn tables_show_the_spread_and_what_is_missing() {
        let text = outcome(false).tables();
        assert!(text.contains("2.00 (1.00 to 4.00)"), "{text}");
        assert!(text.contains("registers: no device"), "{text}");
    }
}
