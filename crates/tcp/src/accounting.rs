//! What a connection has done so far, for `info.rs`.
//!
//! Owns [`Accounting`], which `tcb.rs` keeps, and [`Counters`]; `accounting/busy.rs` has the times.

mod busy;

use busy::BusyTimes;

/// Counters of one connection, as Linux's `tcp_info` has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Segments, and among them those with payload, that were not predicted.
    pub(crate) slow_segs_in: u32,
    pub(crate) segs_out: u32,
    pub(crate) slow_data_in: u32,
    /// Those that were: with payload, and without.
    pub(crate) fast_data_in: u32,
    pub(crate) fast_acks_in: u32,
    pub(crate) data_segs_out: u32,
    pub(crate) retrans: u32,
    pub(crate) rcv_ooo: u32,
    pub(crate) dsacks: u32,
    /// Tail loss probes.
    pub(crate) probes: u32,
    /// Paths suspected to swallow full segments.
    pub(crate) black_holes: u32,
    /// Recoveries undone.
    pub(crate) undos: u32,
    pub(crate) timeouts: u16,
    /// Repairs that began with one.
    pub(crate) timeout_repairs: u16,
    /// How long they have taken, in milliseconds, as `accounting/busy.rs` sums up.
    pub(crate) timeout_repair_ms: u32,
    pub(crate) bytes_retrans: u64,
}

/// Counters and times of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accounting {
    pub(crate) counters: Counters,
    pub(crate) busy: BusyTimes,
}

impl Accounting {
    /// Nothing has been done yet.
    pub(crate) fn new() -> Accounting {
        Accounting {
            counters: Counters::default(),
            busy: BusyTimes::new(),
        }
    }
}
