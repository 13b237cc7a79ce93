//! Every counter that an engine has, declared once: its section, its name, its unit and
//! what it counts. `report` makes the answers to `longshore stat` of it, and the glossary
//! (docs/glossary.md) is held to it by a test.

mod engine;
mod network;
mod users;

use crate::attach::Server;
use crate::programs::Programs;
use longshore_stack::{EngineDrop, Stack};
use longshore_wire::WireError;

/// A counter, for those who explain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterInfo {
    /// The part of [`StatReply`](crate::control::StatReply) that has it: `tcp`, `net`,
    /// `engine` or `drops`.
    pub section: &'static str,
    /// Its key there.
    pub name: &'static str,
    /// What one of it is.
    pub unit: &'static str,
    /// What it counts.
    pub help: &'static str,
}

/// The parts of an engine that count.
pub(crate) struct Counted<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) programs: &'a Programs,
    pub(crate) attach: &'a Server,
}

/// A counter, and where its value is. Reasons for drops have tables of their own.
pub(crate) struct Counter {
    pub(crate) info: CounterInfo,
    pub(crate) value: fn(&Counted<'_>) -> u64,
}

const fn counter(
    section: &'static str,
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    value: fn(&Counted<'_>) -> u64,
) -> Counter {
    let info = CounterInfo {
        section,
        name,
        unit,
        help,
    };
    Counter { info, value }
}

/// Segments that came for connections, by whichever way.
fn segments_in(e: &Counted<'_>) -> u64 {
    let c = &e.stack.counters;
    c.prediction.data + c.prediction.acks + c.prediction.missed
}

/// All counters but those of drops.
pub(crate) fn values() -> impl Iterator<Item = &'static Counter> {
    [network::COUNTERS, engine::COUNTERS, users::COUNTERS]
        .into_iter()
        .flatten()
}

/// The key of the count of requests that cannot be.
pub(crate) const BAD_DESCRIPTORS: &str = "bad_descriptors";
/// That of those that are for another worker.
pub(crate) const MISROUTED_REQUESTS: &str = "misrouted_requests";

/// All counters of an engine, those of drops among them.
pub fn counters() -> Vec<CounterInfo> {
    let drop = |name: &'static str, help: &'static str| CounterInfo {
        section: "drops",
        name,
        unit: "packets",
        help,
    };
    let mut all: Vec<CounterInfo> = values().map(|c| c.info).collect();
    all.push(CounterInfo {
        unit: "descriptors",
        ..drop(
            BAD_DESCRIPTORS,
            "Requests of programs that cannot be, as their host library never makes them.",
        )
    });
    all.push(CounterInfo {
        unit: "descriptors",
        ..drop(
            MISROUTED_REQUESTS,
            "Requests of programs about sockets that no worker of this engine has, by their names.",
        )
    });
    all.extend(EngineDrop::ALL.iter().map(|r| drop(r.name(), r.help())));
    all.extend(WireError::ALL.iter().map(|r| drop(r.name(), r.help())));
    let tcp = longshore_tcp::DropReason::ALL;
    all.extend(tcp.iter().map(|r| drop(r.name(), r.help())));
    let net = longshore_net::DropReason::ALL;
    all.extend(net.iter().map(|r| drop(r.name(), r.help())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_has_one_entry_with_a_unit_and_an_explanation() {
        let all = counters();
        for info in &all {
            let same = |o: &&CounterInfo| (o.section, o.name) == (info.section, info.name);
            assert_eq!(all.iter().filter(same).count(), 1, "{info:?}");
            assert!(!info.unit.is_empty() && info.help.len() > 8, "{info:?}");
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(info.name.chars().all(plain), "{info:?}");
        }
        let sections = ["tcp", "net", "engine", "drops"];
        assert!(all.iter().all(|info| sections.contains(&info.section)));
    }

    /// Segments that came are those that went the fast way and those that did not.
    #[test]
    fn counters_of_segments_add_up() {
        let mut world = crate::testing::Turned::new();
        let c = &mut world.engine.stack.counters.prediction;
        (c.data, c.acks, c.missed, c.missed_data) = (1, 20, 300, 4_000);
        let tcp = world.engine.statistics().tcp;
        assert_eq!(tcp["segments_in"], 321);
        assert_eq!(tcp["data_segments_in"], 4_001);
        assert_eq!(tcp["predicted_data"], 1);
    }

    /// Each that is reported has an entry in the list, and each entry is reported; of drops, once there
    /// was one.
    #[test]
    fn an_engine_tells_of_the_counters_that_are_listed() {
        let stat = crate::testing::Turned::new().engine.statistics();
        let listed = |section: &str| {
            let all = counters().into_iter().filter(|i| i.section == section);
            all.map(|info| info.name.to_owned())
                .collect::<BTreeSet<_>>()
        };
        for (section, reported) in [
            ("tcp", stat.tcp),
            ("net", stat.net),
            ("engine", stat.engine),
        ] {
            let reported: BTreeSet<String> = reported.into_keys().collect();
            assert_eq!(reported, listed(section), "{section}");
        }
        let drops = listed("drops");
        assert!(stat.drops.keys().all(|name| drops.contains(name)));
    }

    /// Whether there was one or not.
    #[test]
    fn drops_of_every_layer_are_listed() {
        let listed = counters().into_iter().filter(|i| i.section == "drops");
        let listed: BTreeSet<&str> = listed.map(|info| info.name).collect();
        let tcp = longshore_tcp::DropReason::ALL.iter().map(|r| r.name());
        let net = longshore_net::DropReason::ALL.iter().map(|r| r.name());
        let reasons = EngineDrop::ALL.iter().map(|r| r.name());
        let reasons = reasons.chain(WireError::ALL.iter().map(|r| r.name()));
        let requests = [BAD_DESCRIPTORS, MISROUTED_REQUESTS];
        assert_eq!(
            listed,
            reasons.chain(tcp).chain(net).chain(requests).collect()
        );
    }
}
