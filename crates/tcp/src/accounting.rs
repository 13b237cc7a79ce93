//! Statistics of a connection, for `info.rs`.
//!
//! Owns [`Accounting`], which is part of the `Tcb`, and [`Counters`];
//! `accounting/busy.rs` has the times.

mod busy;
mod send_buffer;

use busy::BusyTimes;
pub(crate) use send_buffer::BufferLimit;

/// Counters of one connection, as in Linux's `tcp_info`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Segments that were not predicted, and below those of them with payload.
    pub(crate) slow_segs_in: u32,
    pub(crate) segs_out: u32,
    pub(crate) slow_data_in: u32,
    /// Predicted segments, with payload and without.
    pub(crate) fast_data_in: u32,
    pub(crate) fast_acks_in: u32,
    pub(crate) data_segs_out: u32,
    pub(crate) retrans: u32,
    pub(crate) rcv_ooo: u32,
    pub(crate) dsacks: u32,
    /// Tail loss probes.
    pub(crate) probes: u32,
    /// How often the path was suspected to drop full segments (a black hole).
    pub(crate) black_holes: u32,
    /// Recoveries that were undone.
    pub(crate) undos: u32,
    pub(crate) timeouts: u16,
    /// Recoveries that began with a timeout.
    pub(crate) timeout_recoveries: u16,
    /// Total duration of these, in milliseconds, summed up as in `accounting/busy.rs`.
    pub(crate) timeout_recovery_ms: u32,
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

    /// Counts what an acknowledgment told of losses, and what recovery made of it.
    pub(crate) fn note_report(&mut self, dsack: bool, undone: bool) {
        let counters = &mut self.counters;
        counters.dsacks = counters.dsacks.wrapping_add(u32::from(dsack));
        counters.undos = counters.undos.wrapping_add(u32::from(undone));
    }
}
