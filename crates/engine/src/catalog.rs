//! Every counter that an engine has, declared once: its section, its name, its unit and
//! what it counts. `report` makes the answers to `longshore stat` of it, and the glossary
//! (docs/glossary.md) is held to it by a test.

use crate::attach::Server;
use crate::programs::Programs;
use longshore_stack::{EngineDrop, HALF_OPEN_BYTES, SOCKET_BYTES, Stack};
use longshore_wire::WireError;
use std::sync::atomic::Ordering;

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
pub(crate) const COUNTERS: &[Counter] = &[
    counter(
        "tcp",
        "segments_in",
        "segments",
        "TCP segments received; each of the segments that a port has put together counts as \
         one with its whole",
        segments_in,
    ),
    counter(
        "tcp",
        "data_segments_in",
        "segments",
        "those among segments_in that brought payload",
        |e| e.stack.counters.prediction.data + e.stack.counters.prediction.missed_data,
    ),
    counter(
        "tcp",
        "predicted_data",
        "segments",
        "segments with payload that header prediction took: the fast path",
        |e| e.stack.counters.prediction.data,
    ),
    counter(
        "tcp",
        "received_in_place",
        "segments",
        "those among predicted_data whose payload the port has read straight to where the \
         program takes it",
        |e| e.stack.counters.prediction.in_place,
    ),
    counter(
        "tcp",
        "in_place_missed",
        "frames",
        "frames that were expected to be the next segment of a connection and were not, so that \
         their bytes were copied back from where its payload would have been",
        |e| e.stack.counters.prediction.in_place_missed,
    ),
    counter(
        "tcp",
        "predicted_acks",
        "segments",
        "acknowledgments without payload that header prediction took",
        |e| e.stack.counters.prediction.acks,
    ),
    counter(
        "tcp",
        "unpredicted",
        "segments",
        "segments that went the whole way of RFC 9293 section 3.10.7",
        |e| e.stack.counters.prediction.missed,
    ),
    counter(
        "tcp",
        "segments_out",
        "segments",
        "TCP segments sent, repeated ones and bare acknowledgments included; one that the port \
         cuts into many counts once",
        |e| e.stack.counters.tcp.segments_out,
    ),
    counter(
        "tcp",
        "longer_segments_out",
        "64 KiB",
        "how many times 64 KiB of payload were in segments that are longer than an IP packet can \
         be, as the local kernel takes them (BIG TCP)",
        |e| e.stack.counters.tcp.longer_segments_out,
    ),
    counter(
        "tcp",
        "retransmissions",
        "segments",
        "those among segments_out that were sent before",
        |e| e.stack.counters.tcp.retransmissions,
    ),
    counter(
        "tcp",
        "resets_out",
        "segments",
        "resets sent in answer to segments that belong to no connection",
        |e| e.stack.counters.tcp.resets_out,
    ),
    counter(
        "tcp",
        "active_opens",
        "connections",
        "connections begun by connect",
        |e| e.stack.counters.tcp.active_opens,
    ),
    counter(
        "tcp",
        "passive_opens",
        "connections",
        "connections that listeners have taken",
        |e| e.stack.counters.tcp.passive_opens,
    ),
    counter(
        "tcp",
        "fast_opens",
        "connections",
        "those among passive_opens whose SYN brought data that were taken (RFC 7413)",
        |e| e.stack.counters.tcp.fast_opens,
    ),
    counter(
        "tcp",
        "syns_dropped_at_port",
        "segments",
        "SYNs that the port dropped in a flood, before its queue; estimated from those that it \
         let through",
        |e| e.stack.status().syns_dropped_at_port(),
    ),
    counter(
        "tcp",
        "syn_cookies_sent",
        "segments",
        "SYNs answered by a SYN cookie (RFC 4987)",
        |e| e.stack.counters.tcp.cookies_sent,
    ),
    counter(
        "tcp",
        "syn_cookies_taken",
        "segments",
        "SYN cookies that came back and made a connection",
        |e| e.stack.counters.tcp.cookies_taken,
    ),
    counter(
        "tcp",
        "half_open",
        "connections",
        "connections in SYN-RECEIVED now, of all listeners",
        |e| e.stack.status().half_open_count() as u64,
    ),
    counter(
        "tcp",
        "time_wait",
        "connections",
        "connections in TIME-WAIT now",
        |e| e.stack.status().wait_count() as u64,
    ),
    counter(
        "net",
        "datagrams_in",
        "datagrams",
        "UDP datagrams given to sockets",
        |e| e.stack.counters.datagrams.received,
    ),
    counter(
        "net",
        "datagrams_out",
        "datagrams",
        "UDP datagrams sent",
        |e| e.stack.counters.datagrams.sent,
    ),
    counter(
        "engine",
        "turns",
        "turns",
        "rounds of the event loop",
        |e| e.stack.counters.event_loop.turns,
    ),
    counter(
        "engine",
        "sleeps",
        "sleeps",
        "times that the event loop has slept for want of work",
        |e| e.stack.counters.event_loop.sleeps,
    ),
    counter(
        "engine",
        "precedence",
        "times",
        "times that the event loop was kept from its processor and raised its priority for 100 ms",
        |e| e.stack.counters.event_loop.precedence,
    ),
    counter(
        "engine",
        "placements",
        "times",
        "times that the event loop went to the processor of the program that asks most, as more \
         is done there, or to try whether it is",
        |e| e.stack.counters.event_loop.placements,
    ),
    counter(
        "engine",
        "sessions_parked",
        "sessions",
        "sessions whose programs have asked for nothing of late, and ring when they do",
        |e| e.stack.endpoints.sessions.parked() as u64,
    ),
    counter(
        "engine",
        "cut_through_bytes",
        "bytes",
        "bytes passed between two sockets of the engine without a packet",
        |e| e.stack.counters.own_bytes.cut_through,
    ),
    counter(
        "engine",
        "lent_bytes",
        "bytes",
        "bytes of those that were not copied: one program reads them where the other wrote them",
        |e| e.stack.counters.own_bytes.lent,
    ),
    counter(
        "engine",
        "forwarded_bytes",
        "bytes",
        "bytes that one connection has received and another sends where they lie, untouched by programs",
        |e| e.stack.counters.own_bytes.forwarded,
    ),
    counter(
        "engine",
        "edges_put_off",
        "times",
        "edges of a socket that waited, since its process had not taken those before (sessions that there are)",
        |e| {
            e.stack
                .endpoints
                .sessions
                .iter()
                .map(|(_, s)| s.host.channels.put_off())
                .sum()
        },
    ),
    counter(
        "engine",
        "connection_cache_hits",
        "segments",
        "segments for the same connection as the one before, found without the hash table",
        |e| segments_in(e).saturating_sub(e.stack.status().connection_cache_misses()),
    ),
    counter(
        "engine",
        "connection_cache_misses",
        "segments",
        "segments for which the hash table was asked",
        |e| e.stack.status().connection_cache_misses(),
    ),
    counter(
        "engine",
        "connection_bytes",
        "bytes",
        "what the engine's own memory of one socket takes, apart from payload",
        |_| SOCKET_BYTES as u64,
    ),
    counter(
        "engine",
        "half_open_bytes",
        "bytes",
        "what the engine's own memory of one half-open connection takes, tables left out",
        |_| HALF_OPEN_BYTES as u64,
    ),
    counter(
        "engine",
        "sockets",
        "sockets",
        "sockets now, of all sessions, half-open connections and those in TIME-WAIT left out",
        |e| e.stack.status().socket_count() as u64,
    ),
    counter(
        "engine",
        "request_waits",
        "turns",
        "turns in which a session or its user had its share of requests, or of the time for them, and others of its own waited",
        |e| e.stack.counters.waits.requests,
    ),
    counter(
        "engine",
        "output_waits",
        "sockets",
        "sockets that had to wait for another turn with what they send, as those of their user had had their share of it",
        |e| e.stack.counters.waits.output,
    ),
    counter(
        "engine",
        "below_low_water",
        "tellings",
        "times that nobody was woken for bytes that are fewer than their program waits for (SO_RCVLOWAT), or only a piece of a message",
        |e| e.stack.counters.waits.below_low_water,
    ),
    counter(
        "engine",
        "wakeup_waits",
        "turns",
        "turns in which a session had its share of sleepers woken, and others of its own waited",
        |e| e.stack.counters.waits.wakeups,
    ),
    counter(
        "engine",
        "teardowns",
        "sockets",
        "sockets of processes that have ended which wait to be closed, now",
        |e| e.programs.teardowns().len() as u64,
    ),
    counter(
        "engine",
        "stalled_channels",
        "channels",
        "times that a process's requests waited because it took no answers",
        |e| e.stack.counters.sessions.stalled_channels,
    ),
    counter(
        "engine",
        "contained_panics",
        "panics",
        "bugs of the engine that were met: each ended a session, or a half-open connection",
        |e| e.stack.counters.sessions.contained_panics,
    ),
    counter(
        "engine",
        "broken_channels",
        "channels",
        "processes that broke their rings and are served no more",
        |e| e.stack.counters.sessions.broken_channels,
    ),
    counter(
        "engine",
        "foreign_claims",
        "channels",
        "channels claimed for processes of other users, by the sessions that there are",
        |e| {
            let sessions = e.programs.sessions.iter();
            sessions.map(|(_, s)| s.processes.foreign_claims()).sum()
        },
    ),
    counter(
        "engine",
        "transit_overflows",
        "sockets",
        "sockets in messages that were closed because a session had too many, by the sessions that there are",
        |e| {
            let sessions = e.programs.sessions.iter();
            sessions.map(|(_, s)| s.in_transit.overflows()).sum()
        },
    ),
    counter(
        "engine",
        "attach_all_connections",
        "connections",
        "programs turned away because the engine has as many connections as it may",
        |e| {
            e.attach
                .users
                .counts
                .all_connections
                .load(Ordering::Relaxed)
        },
    ),
    counter(
        "engine",
        "attach_user_connections",
        "connections",
        "programs turned away because their user has as many connections as it may",
        |e| {
            e.attach
                .users
                .counts
                .user_connections
                .load(Ordering::Relaxed)
        },
    ),
    counter(
        "engine",
        "attach_not_allowed",
        "connections",
        "programs turned away because their user may not use the engine",
        |e| e.attach.users.counts.not_allowed.load(Ordering::Relaxed),
    ),
    counter(
        "engine",
        "attach_silent",
        "connections",
        "connections closed because nothing was asked over them in time",
        |e| e.attach.users.counts.silent.load(Ordering::Relaxed),
    ),
    counter(
        "engine",
        "attach_user_sessions",
        "sessions",
        "sessions refused because their user has as many as it may",
        |e| e.attach.users.counts.user_sessions.load(Ordering::Relaxed),
    ),
    counter(
        "engine",
        "user_sockets",
        "sockets",
        "sockets refused because their user has as many as it may",
        |e| e.stack.counters.sessions.sockets_refused,
    ),
    counter(
        "engine",
        "user_memory",
        "sessions",
        "sessions refused or ended because those of their user take more memory than they may",
        |e| e.attach.users.counts.user_memory.load(Ordering::Relaxed),
    ),
    counter(
        "engine",
        "attach_user_descriptors",
        "descriptors",
        "eventfds and sockets not made because their user has as many as it may",
        |e| {
            e.attach
                .users
                .counts
                .user_descriptors
                .load(Ordering::Relaxed)
        },
    ),
];

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
    let mut all: Vec<CounterInfo> = COUNTERS.iter().map(|c| c.info).collect();
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

    /// Each that is told has an entry in the list, and each entry is told; of drops, once there
    /// was one.
    #[test]
    fn an_engine_tells_of_the_counters_that_are_listed() {
        let stat = crate::testing::Turned::new().engine.statistics();
        let listed = |section: &str| {
            let all = counters().into_iter().filter(|i| i.section == section);
            all.map(|info| info.name.to_owned())
                .collect::<BTreeSet<_>>()
        };
        for (section, told) in [
            ("tcp", stat.tcp),
            ("net", stat.net),
            ("engine", stat.engine),
        ] {
            let told: BTreeSet<String> = told.into_keys().collect();
            assert_eq!(told, listed(section), "{section}");
        }
        let drops = listed("drops");
        assert!(stat.drops.keys().all(|name| drops.contains(name)));
    }
}
