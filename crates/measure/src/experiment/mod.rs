//! What an experiment gives, whichever it is: sheets of figures, and what could not be had.
//!
//! What it owns: an experiment's [`Outcome`] with its [`Sheet`]s, from which everything that is
//! shown is made: tables, CSV and JSON (`show`) and plots
//! ([`crate::chart`]). The experiments themselves are in [`crate::experiments`].

pub mod claims;
pub(crate) mod show;
mod spread;

pub use crate::chart::{Axis, Chart, Kind, Scale, Series};
pub use crate::report::progress;
pub use show::QUICK;
pub use spread::Spread;

use crate::{Environment, report};
use serde::{Deserialize, Serialize};

/// Why an experiment could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A program that it needs is not there.
    #[error(transparent)]
    Missing(#[from] crate::installed::Missing),
    /// A program that was run failed.
    #[error("{program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// How it ended, and what it said.
        why: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: std::io::Error,
    },
    /// There can be no TAP device, over which it runs.
    #[error("it runs over a TAP device, and {driver} cannot be opened: {source}")]
    Tap {
        /// The file by which TAP devices are made.
        driver: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] crate::chart::ChartError),
    /// A run of a program under Longshore failed.
    #[error(transparent)]
    Crossing(#[from] crate::crossing::CrossingError),
}

/// Makes an [`ExperimentError::System`] of a system call's failure.
pub(crate) fn system<E: Into<std::io::Error>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> ExperimentError {
    let what = what.into();
    move |source| ExperimentError::System {
        what,
        source: source.into(),
    }
}

/// All that an experiment has found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name on the command line.
    pub experiment: String,
    /// The paper whose experiment it is.
    pub paper: String,
    /// Short runs, for a look and not for the record.
    pub quick: bool,
    /// When it was begun, in seconds since 1970.
    #[serde(default)]
    pub measured: u64,
    /// The machine.
    pub machine: Environment,
    /// The figures.
    pub sheets: Vec<Sheet>,
    /// What the paper has and could not be had here, each with the reason.
    pub left_out: Vec<String>,
    /// Whether something of it is left out that another user, or another try, might have.
    #[serde(default)]
    pub partial: bool,
}

impl Outcome {
    /// One without figures yet.
    #[must_use]
    pub fn new(experiment: &str, paper: &str, quick: bool) -> Self {
        Outcome {
            experiment: experiment.to_owned(),
            paper: paper.to_owned(),
            quick,
            measured: report::Run::now(),
            machine: Environment::here(),
            sheets: Vec::new(),
            left_out: Vec::new(),
            partial: false,
        }
    }

    /// Says that `part` is left out of this run, and why.
    pub(crate) fn leave_part_out(&mut self, part: &str, why: &ExperimentError) {
        self.leave_parts_out([format!("{part}: {why}")]);
    }

    /// Says which parts are left out of this run, each with the reason.
    pub fn leave_parts_out(&mut self, parts: impl IntoIterator<Item = String>) {
        let already = self.left_out.len();
        self.left_out.extend(parts);
        self.partial |= self.left_out.len() > already;
    }

    /// The sheet of this name.
    #[must_use]
    pub fn sheet(&self, name: &str) -> Option<&Sheet> {
        self.sheets.iter().find(|sheet| sheet.name == name)
    }
}

/// A table of figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sheet {
    /// Its name in JSON.
    pub name: String,
    /// Its heading for people.
    pub title: String,
    /// What its figures are: exact counts, or medians of so many runs.
    pub basis: String,
    /// The columns, the first of which names rows.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// What a column has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The unit of its figures; empty for text.
    pub unit: String,
}

/// One place in a sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// An exact count.
    Count(u64),
    /// A figure of a paper, or one that is computed.
    Number(f64),
    /// What was measured in several runs.
    Measured(Spread),
    /// Words.
    Text(String),
    /// There is none.
    None,
}

impl Cell {
    /// Its figure, of several runs the median.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number) => Some(*number),
            Cell::Measured(spread) => Some(spread.median),
            Cell::Text(_) | Cell::None => None,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Number(number)
    }
}

impl From<Spread> for Cell {
    fn from(spread: Spread) -> Self {
        Cell::Measured(spread)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Cell::None, Into::into)
    }
}

impl Sheet {
    /// One without rows. A column is its name and its unit.
    #[must_use]
    pub fn new(name: &str, title: &str, basis: &str, columns: &[(&str, &str)]) -> Self {
        let columns = columns.iter().map(|(name, unit)| Column {
            name: (*name).to_owned(),
            unit: (*unit).to_owned(),
        });
        Sheet {
            name: name.to_owned(),
            title: title.to_owned(),
            basis: basis.to_owned(),
            columns: columns.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has another number of cells than there are columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The figure of the row whose first cell is `row` in the column of this name.
    #[must_use]
    pub fn value(&self, row: &str, column: &str) -> Option<f64> {
        let column = self.columns.iter().position(|c| c.name == column)?;
        let row = self
            .rows
            .iter()
            .find(|cells| show::cell(&cells[0]) == row)?;
        row[column].value()
    }

    /// Pairs of two columns' figures, for a plot; rows that lack one are left out.
    #[must_use]
    pub fn points(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        self.points_of(&[], x, y)
    }

    /// As `points`, of the rows that begin with these cells.
    #[must_use]
    pub fn points_of(&self, first: &[Cell], x: &str, y: &str) -> Vec<(f64, f64)> {
        let place = |name: &str| self.columns.iter().position(|c| c.name == name);
        let (Some(x), Some(y)) = (place(x), place(y)) else {
            return Vec::new();
        };
        let pair = |row: &Vec<Cell>| Some((row[x].value()?, row[y].value()?));
        let own = self.rows.iter().filter(|row| row.starts_with(first));
        own.filter_map(pair).collect()
    }
}
