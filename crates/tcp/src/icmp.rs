//! ICMP errors about a connection's segments, and the sizes that its path takes.
//!
//! Owns [`IcmpError`] and [`Tcb::on_icmp`]; the engine calls it with the sequence
//! number that the error quotes.

use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::snd::MIN_MSS;
use crate::state::State;
use crate::tcb::Tcb;
use longshore_wire::SeqNumber;

/// The meaning of an ICMP error, in either version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// Network unreachable.
    NetUnreachable,
    /// Host unreachable, or the hop limit was exceeded.
    HostUnreachable,
    /// Protocol unreachable.
    ProtocolUnreachable,
    /// Port unreachable.
    PortUnreachable,
    /// The source route failed.
    SourceRouteFailed,
    /// The destination host is unknown.
    HostUnknown,
    /// The source host is isolated.
    HostIsolated,
    /// Communication is administratively prohibited (IPv6 only).
    Prohibited,
    /// The header, or the data after it, was not understood.
    NotUnderstood,
}

impl IcmpError {
    /// The error with which a connection ends because of this ICMP error.
    #[must_use]
    pub const fn error(self) -> Error {
        match self {
            IcmpError::NetUnreachable => Error::NetUnreachable,
            IcmpError::HostUnreachable => Error::HostUnreachable,
            IcmpError::ProtocolUnreachable => Error::ProtocolUnreachable,
            IcmpError::PortUnreachable => Error::Refused,
            IcmpError::SourceRouteFailed => Error::SourceRouteFailed,
            IcmpError::HostUnknown => Error::HostUnknown,
            IcmpError::HostIsolated => Error::HostIsolated,
            IcmpError::Prohibited => Error::Prohibited,
            IcmpError::NotUnderstood => Error::NotUnderstood,
        }
    }
}

impl Tcb {
    /// Handles an ICMP error that quotes a segment of this connection with sequence
    /// number `seq`. "Packet too big" is not among these: the engine keeps the path MTU
    /// and calls [`Tcb::set_path_mss`].
    ///
    /// RFC 5927 section 4.1: an error is accepted only if it quotes a segment in flight.
    /// RFC 5461 section 4 and Linux: a connection that is not established yet is aborted;
    /// an established one only records a soft error (RFC 9293 section 3.9.2.2 treats all
    /// unreachables as soft).
    pub fn on_icmp(&mut self, kind: IcmpError, seq: SeqNumber) {
        if !self.is_in_flight(seq) {
            return;
        }
        if self.state.is_opening() && !self.is_fast_opened() {
            return self.die(Some(kind.error()), Events::empty());
        }
        self.outcome.set_soft_error(kind.error());
        self.outcome.report(Events::SOFT_ERROR);
    }

    /// Whether an error that quotes sequence number `seq` can refer to a segment of ours:
    /// one that is in flight.
    #[must_use]
    pub fn is_in_flight(&self, seq: SeqNumber) -> bool {
        let pos = self.snd.pos(seq);
        self.state != State::Closed && pos >= self.snd.una() && pos < self.snd.nxt()
    }

    /// The path takes segments of `mss` bytes (its MTU less IP and TCP headers). If that
    /// is less than before, larger segments in flight are retransmitted at once, without
    /// a change of the congestion window (RFC 8899 section 3, RFC 1191 section 6.4).
    pub fn set_path_mss(&mut self, mss: u16) {
        let mss = mss.max(MIN_MSS);
        if mss != self.snd.path_mss() {
            self.snd.set_path_mss(mss);
            self.flight.on_path_mss_advertised(&self.snd);
        }
        if self.state == State::SynSent {
            // The same bound applies to a connection opened after this: a path that does
            // not take a size in one direction seldom takes it in the other.
            self.rcv.bound_mss(mss);
            if self.fast_open.fall_back_on_small_path(mss) {
                self.flags |= Flags::SYN_DUE;
                self.flight.stop_timing(&mut self.congestion);
            }
        }
        self.bound_segments();
        self.debug_check();
    }

    /// TCP_MAXSEG on a connection: bounds the MSS for sending; 0 for no bound.
    pub fn set_max_segment(&mut self, mss: u16) {
        self.cfg.mss = mss;
        self.snd.set_bound(mss);
        self.bound_segments();
    }

    /// A bound on the segment size has changed.
    pub(crate) fn bound_segments(&mut self) {
        let old = self.snd.mss();
        self.snd.update_mss();
        self.congestion.controller.set_mss(self.snd.mss());
        if self.snd.mss() < old && self.snd.in_flight() > 0 && self.state.is_synchronized() {
            self.flight.retransmit_for_smaller_mss(&self.snd);
            self.predict_next();
        }
    }
}

#[cfg(test)]
mod tests;
