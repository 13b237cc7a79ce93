//! The time of day, as messages beside datagrams and `ioctl` have it: seconds and what is over, in two
//! numbers of 64 bits.

use std::time::{SystemTime, UNIX_EPOCH};

/// What it is now, in nanoseconds since 1970.
pub(super) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(0))
}

/// So many nanoseconds since 1970 as seconds and nanoseconds (`struct timespec`).
pub(super) fn timespec_of(ns: u64) -> [i64; 2] {
    [ns / 1_000_000_000, ns % 1_000_000_000].map(u64::cast_signed)
}

/// Seconds and nanoseconds as seconds and microseconds (`struct timeval`).
pub(super) fn timeval_of([seconds, nanos]: [i64; 2]) -> [i64; 2] {
    [seconds, nanos / 1000]
}

/// A time as SO_TIMESTAMPING tells it (`struct scm_timestamping`): that of software first, and none of
/// hardware.
pub(super) fn stamps_of_software(ns: u64) -> [[i64; 2]; 3] {
    [timespec_of(ns), [0; 2], [0; 2]]
}
