//! What has happened in a run of the simulation.

use super::machine::Machine;
use super::talk::Outcome;

/// What has happened in a run, or in several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// All frames received, and when.
    pub(super) trace: u64,
    /// Connections that ended with all their bytes, at either end, and others.
    pub(super) whole: u64,
    pub(super) short: u64,
    pub(super) retransmissions: u64,
    pub(super) resets: u64,
    pub(super) bad_checksums: u64,
    /// Segments that header prediction took.
    pub(super) predicted: u64,
    /// Those among them that were received into place, and frames that were not, though that was
    /// expected.
    pub(super) in_place: u64,
    pub(super) in_place_missed: u64,
    /// Datagrams that arrived, and those of them that are longer than 1,500 bytes.
    pub(super) datagrams: u64,
    pub(super) long_datagrams: u64,
    /// SYNs answered by a cookie, and cookies that came back.
    pub(super) cookies_sent: u64,
    pub(super) cookies_taken: u64,
    /// Links that came back, and leases that were granted.
    pub(super) returns: u64,
    pub(super) leases: u64,
    /// Panics that ended a session alone.
    pub(super) panics: u64,
    /// Bytes that were read where they had been written.
    pub(super) lent: u64,
    /// Bytes that were sent where they had been received.
    pub(super) forwarded: u64,
}

impl Report {
    /// Adds what has happened in another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.short += other.short;
        self.retransmissions += other.retransmissions;
        self.resets += other.resets;
        self.bad_checksums += other.bad_checksums;
        self.predicted += other.predicted;
        self.in_place += other.in_place;
        self.in_place_missed += other.in_place_missed;
        self.datagrams += other.datagrams;
        self.long_datagrams += other.long_datagrams;
        self.cookies_sent += other.cookies_sent;
        self.cookies_taken += other.cookies_taken;
        self.returns += other.returns;
        self.leases += other.leases;
        self.panics += other.panics;
        self.lent += other.lent;
        self.forwarded += other.forwarded;
    }

    pub(super) fn of(machine: &Machine) -> Self {
        let of = |what| {
            let outcomes = machine.program.outcomes();
            outcomes.filter(|(_, outcome)| *outcome == what).count() as u64
        };
        let counters = &machine.stack.counters;
        let bad = |(name, count): (&str, u64)| (name == "bad_transport_checksum").then_some(count);
        Self {
            trace: machine.trace(),
            whole: of(Outcome::Whole),
            short: of(Outcome::Short),
            retransmissions: counters.tcp.retransmissions,
            resets: counters.tcp.resets_out,
            bad_checksums: counters.drops().find_map(bad).unwrap_or(0),
            predicted: counters.prediction.data + counters.prediction.acks,
            in_place: counters.prediction.in_place,
            in_place_missed: counters.prediction.in_place_missed,
            datagrams: machine.program.arrived().count,
            long_datagrams: machine.program.arrived().long,
            cookies_sent: counters.tcp.cookies_sent,
            cookies_taken: counters.tcp.cookies_taken,
            returns: machine.returns,
            panics: counters.sessions.contained_panics,
            lent: counters.own_bytes.lent,
            forwarded: counters.own_bytes.forwarded,
            leases: machine.dhcp_server.as_ref().map_or(0, |s| s.granted),
        }
    }
}
