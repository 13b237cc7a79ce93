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
