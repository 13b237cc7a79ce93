//! What is counted of the engine itself: its turns, what it keeps of sockets, what waits for a later
//! turn, and what it has had to contain.

use super::{Counted, Counter, counter, segments_in};
use crate::session::Session;
use longshore_stack::{HALF_OPEN_BYTES, SOCKET_BYTES};

/// What is counted of each session, of those that there are together.
fn sum_of_sessions(e: &Counted<'_>, of: impl Fn(&Session) -> u64) -> u64 {
    e.programs.sessions.iter().map(|(_, s)| of(s)).sum()
}

/// The section `engine`, but for what is refused to users.
pub(super) const COUNTERS: &[Counter] = &[
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
        "times",
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
        |e| sum_of_sessions(e, |s| s.processes.foreign_claims()),
    ),
    counter(
        "engine",
        "transit_overflows",
        "sockets",
        "sockets in messages that were closed because a session had too many, by the sessions that there are",
        |e| sum_of_sessions(e, |s| s.in_transit.overflows()),
    ),
];
