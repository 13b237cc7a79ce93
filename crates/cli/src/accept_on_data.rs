//! `--accept-on-data`: at which ports connections wait for data before their listeners are notified of
//! them, and for how long.

use crate::values::{LONGEST_MS, milliseconds, once_each};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

/// Milliseconds for which data is waited for, if nothing is said of it.
const WITHIN: u32 = 100;

/// The connections to a port wait for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct AcceptOrder {
    port: u16,
    within_ms: u32,
}

impl AcceptOrder {
    /// How the engine is configured by all of them: milliseconds by port.
    pub(crate) fn by_port(all: &[Self]) -> Result<BTreeMap<u16, u32>, BadAccept> {
        once_each(all.iter().map(|order| (order.port, order.within_ms))).map_err(BadAccept::Twice)
    }
}

/// No such port or time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAccept {
    #[error("`{0}` is no port; write PORT[,TIME], as 80 or 80,20ms")]
    Port(String),
    #[error("`{0}` is no time from 1ms to {longest}s; write it as 100ms or 2s", longest = LONGEST_MS / 1000)]
    Time(String),
    #[error("port {0} is named twice by accept-on-data")]
    Twice(u16),
}

impl FromStr for AcceptOrder {
    type Err = BadAccept;

    fn from_str(text: &str) -> Result<Self, BadAccept> {
        let (port, time) = match text.split_once(',') {
            Some((port, time)) => (port, Some(time)),
            None => (text, None),
        };
        let bad_port = || BadAccept::Port(port.to_owned());
        let bad_time = |time: &str| BadAccept::Time(time.to_owned());
        let number = port.parse().ok().filter(|port| *port != 0);
        let wait = |time| milliseconds(time).ok_or_else(|| bad_time(time));
        Ok(Self {
            port: number.ok_or_else(bad_port)?,
            within_ms: time.map_or(Ok(WITHIN), wait)?,
        })
    }
}

impl Display for AcceptOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}ms", self.port, self.within_ms)
    }
}

impl TryFrom<String> for AcceptOrder {
    type Error = BadAccept;

    fn try_from(text: String) -> Result<Self, BadAccept> {
        text.parse()
    }
}

impl From<AcceptOrder> for String {
    fn from(order: AcceptOrder) -> Self {
        order.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_and_a_time_are_written_as_they_are_read() {
        for (text, whole) in [
            ("80", "80,100ms"),
            ("8080,2s", "8080,2000ms"),
            ("1,60s", "1,60000ms"),
        ] {
            let order: AcceptOrder = text.parse().unwrap();
            assert_eq!(order.to_string(), whole);
            assert_eq!(whole.parse(), Ok(order));
        }
        let refused = |text: &str| text.parse::<AcceptOrder>().unwrap_err();
        for port in ["", "0", "65536", "http"] {
            assert_eq!(refused(port), BadAccept::Port(port.to_owned()));
        }
        for time in ["", "5", "0ms", "61s", "1ms,2ms"] {
            assert_eq!(
                refused(&format!("80,{time}")),
                BadAccept::Time(time.to_owned())
            );
        }
    }

    #[test]
    fn a_port_is_named_once() {
        let [one, other, again] = ["1", "2", "1,5ms"].map(|text| text.parse().unwrap());
        let both = AcceptOrder::by_port(&[one, other]).unwrap();
        assert_eq!(both, BTreeMap::from([(1, 100), (2, 100)]));
        let twice = AcceptOrder::by_port(&[one, other, again]);
        assert_eq!(twice.unwrap_err(), BadAccept::Twice(1));
    }
}
