//! `--batching`: when descriptors cross between programs and the engine.

use crate::values::number_and_unit;
use longshore_engine::{Batching, LONGEST_BATCHING, MOST_BATCHED};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

/// When descriptors cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum BatchingOrder {
    /// When they are of use.
    #[default]
    Adaptive,
    /// When so many wait, or the first of them has waited for so many microseconds.
    Fixed(u32, u64),
}

impl BatchingOrder {
    /// What the engine is configured with.
    pub(crate) fn fixed(self) -> Option<Batching> {
        match self {
            Self::Adaptive => None,
            Self::Fixed(descriptors, microseconds) => Batching::fixed(descriptors, microseconds),
        }
    }

    /// The longest that a descriptor waits for others.
    pub(crate) fn longest(self) -> Duration {
        match self {
            Self::Adaptive => Duration::ZERO,
            Self::Fixed(_, microseconds) => Duration::from_micros(microseconds),
        }
    }
}

/// No batching is written so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadBatching {
    #[error("`{0}` is no batching; write adaptive, or fixed:N,TIME, as fixed:10,10ms")]
    Kind(String),
    #[error("{0} descriptors cannot be waited for; 1 to {MOST_BATCHED} can")]
    Descriptors(u32),
    #[error("`{0}` is no time from 1us to {longest} s; write it as 10ms or 500us", longest = LONGEST_BATCHING / 1_000_000)]
    Time(String),
}

/// A time in microseconds.
fn microseconds(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let each = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    number.checked_mul(each)
}

impl FromStr for BatchingOrder {
    type Err = BadBatching;

    fn from_str(text: &str) -> Result<Self, BadBatching> {
        if text == "adaptive" {
            return Ok(Self::Adaptive);
        }
        let bad = || BadBatching::Kind(text.to_owned());
        let fixed = text.strip_prefix("fixed:").ok_or_else(bad)?;
        let (number, time) = fixed.split_once(',').ok_or_else(bad)?;
        let number = number.parse().map_err(|_| bad())?;
        if !(1..=MOST_BATCHED).contains(&number) {
            return Err(BadBatching::Descriptors(number));
        }
        let length = microseconds(time).filter(|t| (1..=LONGEST_BATCHING).contains(t));
        let length = length.ok_or_else(|| BadBatching::Time(time.to_owned()))?;
        Ok(Self::Fixed(number, length))
    }
}

impl Display for BatchingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::Fixed(number, time) if time % 1_000 == 0 => {
                write!(f, "fixed:{number},{}ms", time / 1_000)
            }
            Self::Fixed(number, time) => write!(f, "fixed:{number},{time}us"),
        }
    }
}

impl TryFrom<String> for BatchingOrder {
    type Error = BadBatching;

    fn try_from(text: String) -> Result<Self, BadBatching> {
        text.parse()
    }
}

impl From<BatchingOrder> for String {
    fn from(order: BatchingOrder) -> Self {
        order.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batching_is_written_as_it_is_read() {
        for text in [
            "adaptive",
            "fixed:10,10ms",
            "fixed:1,1us",
            "fixed:256,1000ms",
        ] {
            let order: BatchingOrder = text.parse().unwrap();
            assert_eq!(order.to_string(), text);
            assert_eq!(order.fixed().is_some(), text != "adaptive");
        }
        assert_eq!("fixed:8,1s".parse(), Ok(BatchingOrder::Fixed(8, 1_000_000)));
        for bad in ["", "10", "fixed", "fixed:10", "fixed:x,1ms", "fixed:10;1ms"] {
            assert_eq!(
                bad.parse::<BatchingOrder>(),
                Err(BadBatching::Kind(bad.to_owned()))
            );
        }
        for number in [0, 257] {
            let bad = format!("fixed:{number},1ms").parse::<BatchingOrder>();
            assert_eq!(bad, Err(BadBatching::Descriptors(number)));
        }
        for time in ["", "10", "0ms", "2s", "-1ms", "99999999999999999999s", "ms"] {
            let bad = format!("fixed:2,{time}").parse::<BatchingOrder>();
            assert_eq!(bad, Err(BadBatching::Time(time.to_owned())));
        }
    }
}
