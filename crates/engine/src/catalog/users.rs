//! What is counted of users: the connections, sessions, groups and memory that were refused to them.

use super::{Counter, counter};
use std::sync::atomic::Ordering;

/// Of the section `engine`.
pub(super) const COUNTERS: &[Counter] = &[
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
        "user_groups",
        "memberships",
        "multicast groups and sources that were refused because their user has as many as it may",
        |e| e.stack.counters.groups.user,
    ),
    counter(
        "engine",
        "session_groups",
        "memberships",
        "multicast groups and sources that were refused because their session has as many as it may",
        |e| e.stack.counters.groups.session,
    ),
    counter(
        "engine",
        "all_groups",
        "memberships",
        "multicast groups and sources that were refused because the link has as many as it may",
        |e| e.stack.counters.groups.all,
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
