//! What crossed between programs and engines, from `longshore stat --json`.

use longshore_testbed::Host;
use serde::Serialize;
use serde_json::Value;
use std::ops::Sub;

/// Crossings of all engines on a host's link, both directions added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Crossings {
    /// Moves of contiguous bytes.
    pub transfers: u64,
    /// Bytes moved, descriptors included.
    pub bytes: u64,
    /// Descriptors.
    pub descriptors: u64,
    /// Times a side was woken.
    pub wakeups: u64,
}

impl Crossings {
    /// What crossed so far on the engines of `host`'s namespace. Nothing, if no
    /// engine is there.
    #[must_use]
    pub fn so_far(host: &Host<'_>) -> Self {
        host.stat()
            .iter()
            .map(|engine| Self::of(&engine["crossings"]))
            .fold(Self::default(), |a, b| Crossings {
                transfers: a.transfers + b.transfers,
                bytes: a.bytes + b.bytes,
                descriptors: a.descriptors + b.descriptors,
                wakeups: a.wakeups + b.wakeups,
            })
    }

    fn of(crossings: &Value) -> Self {
        let sum = |key: &str| {
            ["to_adapter", "to_host"]
                .iter()
                .filter_map(|direction| crossings[direction][key].as_u64())
                .sum()
        };
        Crossings {
            transfers: sum("transfers"),
            bytes: sum("bytes"),
            descriptors: sum("descriptors"),
            wakeups: sum("wakeups"),
        }
    }
}

impl Sub for Crossings {
    type Output = Crossings;

    fn sub(self, before: Crossings) -> Crossings {
        Crossings {
            transfers: self.transfers.saturating_sub(before.transfers),
            bytes: self.bytes.saturating_sub(before.bytes),
            descriptors: self.descriptors.saturating_sub(before.descriptors),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_add_up_and_what_is_missing_is_nothing() {
        let stat = serde_json::json!({
            "to_adapter": {"transfers": 1, "bytes": 64, "descriptors": 1, "wakeups": 1},
            "to_host": {"transfers": 2, "bytes": 1000, "descriptors": 3}
        });
        let all = Crossings::of(&stat);
        assert_eq!(
            (all.transfers, all.bytes, all.descriptors, all.wakeups),
            (3, 1064, 4, 1)
        );
        assert_eq!(all - all, Crossings::default());
        assert_eq!(Crossings::of(&Value::Null), Crossings::default());
    }
}
