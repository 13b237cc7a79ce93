//! What crossed between programs and engines, from `longshore stat --json`.

use longshore_bus::Sums;
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
    /// Words of 8 bytes that they fill, each move by itself.
    pub words: u64,
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
                words: a.words + b.words,
                descriptors: a.descriptors + b.descriptors,
                wakeups: a.wakeups + b.wakeups,
            })
    }

    /// As what a bus takes them for.
    #[must_use]
    pub fn sums(&self) -> Sums {
        Sums {
            accesses: self.transfers,
            bytes: self.bytes,
            words: self.words,
        }
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
            words: ["to_adapter", "to_host"]
                .iter()
                .flat_map(|direction| crossings[direction]["classes"].as_object())
                .flat_map(|classes| classes.values())
                .filter_map(|class| class["words"].as_u64())
                .sum(),
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
            words: self.words.saturating_sub(before.words),
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
            "to_adapter": {"transfers": 1, "bytes": 64, "descriptors": 1, "wakeups": 1,
                "classes": {"descriptor": {"words": 8}, "immediate": 7}},
            "to_host": {"transfers": 2, "bytes": 1000, "descriptors": 3}
        });
        let all = Crossings::of(&stat);
        assert_eq!(
            (all.transfers, all.bytes, all.descriptors, all.wakeups),
            (3, 1064, 4, 1)
        );
        assert_eq!(all.words, 8);
        assert_eq!(all - all, Crossings::default());
        assert_eq!(Crossings::of(&Value::Null), Crossings::default());
    }
}
