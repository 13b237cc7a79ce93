//! Figures of several runs.

use crate::report::median;
use serde::{Deserialize, Serialize};

/// What several runs gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest one.
    pub least: f64,
    /// The largest one.
    pub most: f64,
    /// How many there were.
    pub runs: u32,
}

impl Spread {
    /// Of these runs; none of none.
    #[must_use]
    pub fn of(runs: &[f64]) -> Option<Self> {
        Some(Spread {
            median: median(runs)?,
            least: runs.iter().copied().fold(f64::INFINITY, f64::min),
            most: runs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        })
    }

    /// What figures of so many runs are, for a sheet.
    #[must_use]
    pub fn basis(runs: u32) -> String {
        match runs {
            1 => "one run".to_owned(),
            _ => format!("medians of {runs} runs in turn, least and most in brackets"),
        }
    }

    /// These figures in another unit.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        Spread {
            median: self.median * factor,
            least: self.least * factor,
            most: self.most * factor,
            runs: self.runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_ends() {
        let spread = Spread::of(&[3.0, 1.0, 7.0, 2.0]).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.5, 7.0));
        assert_eq!(spread.runs, 4);
        assert_eq!(spread.times(2.0).most, 14.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
