//! Figures: medians, tables, files.

pub mod markdown;

use crate::{Crossings, Environment};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whether more is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A rate.
    Higher,
    /// A time or a cost.
    Lower,
}

/// One figure on both stacks.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub better: Better,
    /// Where the processes ran: `free`, `same core`, `two cores`.
    pub placement: String,
    /// Idle mode of the processors: `halt` or `awake`.
    pub idle: &'static str,
    /// Longshore's runs, in the order in which they ran.
    pub longshore: Vec<f64>,
    /// The kernel's, each right after one of Longshore's.
    pub kernel: Vec<f64>,
    /// A bare generator's on Longshore's port, each right after one of the kernel's; none where
    /// it cannot give what is asked for.
    pub bare: Vec<f64>,
    /// What is aimed at: Longshore's figure over the kernel's, or a plain figure.
    pub target: Option<Target>,
    /// What crossed in Longshore's last run.
    pub crossings: Option<Crossings>,
}

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// At least (or at most, if less is better) this times the kernel's.
    Ratio(f64),
    /// This figure itself.
    Value(f64),
}

impl Row {
    /// Longshore's median over the kernel's.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        Some(median(&self.longshore)? / median(&self.kernel)?)
    }

    /// Whether the target is met; `None` if there is none or nothing to judge.
    #[must_use]
    pub fn met(&self) -> Option<bool> {
        let (figure, limit) = match self.target? {
            Target::Ratio(limit) => (self.ratio()?, limit),
            Target::Value(limit) => (median(&self.longshore)?, limit),
        };
        Some(match self.better {
            Better::Higher => figure >= limit,
            Better::Lower => figure <= limit,
        })
    }
}

/// The middle one, or the mean of the middle two. None of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// A number with about three digits that matter; four after the point at most.
#[must_use]
pub fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A whole number with a comma for each thousand.
#[must_use]
pub fn grouped(value: u64) -> String {
    match value {
        0..1000 => value.to_string(),
        _ => format!("{},{:03}", grouped(value / 1000), value % 1000),
    }
}

/// A table with a heading; all columns but the first `text` are numbers.
#[must_use]
pub fn table(heading: &[&str], text: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─')))
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(heading.to_vec());
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// All rows as a table.
#[must_use]
pub fn rows(rows: &[Row]) -> Table {
    let mut table = table(
        &[
            "measurement",
            "placement",
            "idle",
            "unit",
            "Longshore",
            "kernel",
            "bare port",
            "ratio",
            "target",
            "",
        ],
        4,
    );
    for row in rows {
        let show = |runs: &[f64]| median(runs).map_or_else(|| "-".to_owned(), number);
        let sign = if row.better == Better::Higher {
            ">="
        } else {
            "<="
        };
        table.add_row([
            row.name.clone(),
            row.placement.clone(),
            row.idle.to_owned(),
            row.unit.to_owned(),
            show(&row.longshore),
            show(&row.kernel),
            show(&row.bare),
            row.ratio()
                .map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
            match row.target {
                Some(Target::Ratio(r)) => format!("{sign} {r} x"),
                Some(Target::Value(v)) => format!("{sign} {v}"),
                None => String::new(),
            },
            match row.met() {
                Some(true) => "met".to_owned(),
                Some(false) => "missed".to_owned(),
                None => String::new(),
            },
        ]);
    }
    table
}

/// A whole run, as it is written to a file.
#[derive(Debug, Serialize)]
pub struct Run<'r> {
    /// The command that made it.
    pub command: String,
    /// Seconds since 1970.
    pub time: u64,
    /// The machine.
    pub environment: Environment,
    /// The figures.
    pub rows: &'r [Row],
}

impl Run<'_> {
    /// Writes it to a new file in `directory`, which is made if need be.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, directory: &Path) -> io::Result<PathBuf> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join(format!("bench-{}.json", self.time));
        let text = serde_json::to_string_pretty(self).map_err(io::Error::other)?;
        std::fs::write(&path, text + "\n")?;
        Ok(path)
    }

    /// The time now, for [`Run::time`].
    #[must_use]
    pub fn now() -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
}

/// So many bytes in that time, as Gb/s.
#[expect(clippy::cast_precision_loss, reason = "a rate to show")]
pub(crate) fn gigabits(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / 1e9 / took.as_secs_f64()
}

/// Shows on stderr what goes on, in one line that is written over; ends it if nothing does.
pub fn progress(what: &str) {
    let mut terminal = io::stderr();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K{what}");
        let _ = terminal.flush();
    } else if !what.is_empty() {
        let _ = writeln!(terminal, "{what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(better: Better, longshore: &[f64], kernel: &[f64], target: Target) -> Row {
        Row {
            name: "x".into(),
            unit: "s",
            better,
            placement: "free".into(),
            idle: "halt",
            longshore: longshore.to_vec(),
            kernel: kernel.to_vec(),
            bare: Vec::new(),
            target: Some(target),
            crossings: None,
        }
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn targets() {
        let rate = row(Better::Higher, &[8.0], &[10.0], Target::Ratio(0.8));
        assert_eq!((rate.ratio(), rate.met()), (Some(0.8), Some(true)));
        let slow = row(Better::Lower, &[13.0], &[10.0], Target::Ratio(1.2));
        assert_eq!(slow.met(), Some(false));
        let cost = row(Better::Lower, &[0.5], &[], Target::Value(1.0));
        assert_eq!((cost.ratio(), cost.met()), (None, Some(true)));
        assert_eq!(row(Better::Lower, &[], &[], Target::Value(1.0)).met(), None);
    }

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(36_900), "36,900");
        assert_eq!(grouped(1_002_003), "1,002,003");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.0), "0.00");
        assert_eq!(number(0.008_23), "0.0082");
        assert_eq!(number(0.1234), "0.12");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(143.2), "143");
        assert_eq!(number(143_200.0), "143.2 k");
        assert_eq!(number(1_543_200.0), "1.54 M");
    }
}
