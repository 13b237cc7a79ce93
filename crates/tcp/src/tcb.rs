//! The transmission control block: the whole state of one connection.
//!
//! Owns [`Tcb`], which is composed of the parts of a connection, and its getters
//! (`flags.rs` explains its flags). The engine keeps one for each connection; `open.rs`
//! creates it, `input/`, `user.rs` and `timeouts.rs` change it, `output/` builds segments
//! from it.
//!
//! **Positions.** Internally, sequence numbers are 64-bit positions ([`Pos`]): position
//! `p` is byte `p` of the stream, the SYN is at -1 and the FIN follows the last byte.
//! They are compared as plain integers; 32-bit sequence numbers exist only on the wire
//! ([`SendSide::seq`], [`ReceiveSide::pos`] and similar methods convert).

use crate::accounting::Accounting;
use crate::acks::OwedAcks;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::ecn::EcnState;
use crate::events::{Error, Events};
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::{Flight, LossTimer};
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::time::MS;
use crate::timers::Timers;
use longshore_wire::SeqNumber;

/// A connection.
///
/// **Order of calls.** Create it with [`Tcb::connect`] or [`Tcb::accept`]. Then call, in
/// any order and as often as needed:
///
/// * *in*: [`on_segment`](Tcb::on_segment) for each segment (copy the payload
///   where its [`Disposition`](crate::Disposition) says, at once),
///   [`on_timer`](Tcb::on_timer) when [`deadline`](Tcb::deadline) has passed,
///   [`on_icmp`](Tcb::on_icmp), and the user's calls
///   ([`set_snd_edge`](Tcb::set_snd_edge),
///   [`set_rcv_consumed`](Tcb::set_rcv_consumed),
///   [`shutdown_send`](Tcb::shutdown_send), [`close`](Tcb::close),
///   [`settings`](Tcb::settings) ...);
/// * *out*, after each burst of those: [`poll_transmit`](Tcb::poll_transmit) until
///   it gives `None`, then [`take_events`](Tcb::take_events), then
///   [`deadline`](Tcb::deadline).
///
/// After [`Events::CLOSED`] the block may be dropped once `poll_transmit` returns `None`.
///
/// **Composition.** Each field is a part with its own file and methods (listed in the
/// crate's documentation). The fields that must survive the process ([`save`](Tcb::save)
/// lists them) come first, contiguous and plain; from `timers` on, nearly all state can
/// be rebuilt or forgotten.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Tcb {
    // ---- Header prediction reads this cache line, which ends with the front of `snd`, ----
    // ---- and the line of `stamps`, `acks` and the front of `rcv`. ----
    pub(crate) prediction: Prediction,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    pub(crate) snd: SendSide,
    pub(crate) stamps: TimestampState,
    pub(crate) acks: OwedAcks,
    pub(crate) rcv: ReceiveSide,
    pub(crate) liveness: Liveness,
    pub(crate) cfg: Config,
    pub(crate) ecn: EcnState,
    pub(crate) fast_open: FastOpen,
    pub(crate) outcome: Outcome,
    // ---- From here on, nearly all state can be rebuilt or forgotten. ----
    pub(crate) timers: Timers,
    pub(crate) congestion: CongestionState,
    pub(crate) accounting: Accounting,
    pub(crate) reassembly: Reassembly,
    pub(crate) flight: Flight,
}

// A predicted segment should touch as few cache lines as possible.
const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(Tcb, snd) + SendSide::HOT == 64);
    assert!(offset_of!(Tcb, stamps) == 128);
    assert!(offset_of!(Tcb, rcv) + ReceiveSide::HOT == 192);
    // The part that must survive the process is at most this long.
    assert!(offset_of!(Tcb, timers) <= 512);
};

/// The congestion window, in bytes, from which on a connection counts as a bulk sender.
const BULK_WINDOW: u64 = 128 << 10;

impl Tcb {
    // ---- Getters. ----

    /// The state.
    #[inline]
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether timestamps were agreed (RFC 7323 section 3.2).
    #[inline(always)]
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        self.flags.contains(Flags::TIMESTAMPS)
    }

    /// The end of the data that the user may read, in bytes of the receive stream:
    /// everything below has arrived in order.
    #[inline]
    #[must_use]
    pub fn rcv_edge(&self) -> u64 {
        self.rcv.readable()
    }

    /// Whether a segment with this sequence number begins with the next byte of the receive
    /// stream.
    #[must_use]
    pub fn is_next(&self, seq: SeqNumber) -> bool {
        self.rcv.pos(seq) == self.rcv.nxt()
    }

    /// The end of the acknowledged data, in bytes of the send stream: chunks below may be
    /// freed.
    #[inline]
    #[must_use]
    pub fn snd_acked(&self) -> u64 {
        self.snd.acked()
    }

    /// The end of what the user has written.
    #[inline]
    #[must_use]
    pub fn snd_edge(&self) -> u64 {
        self.snd.edge() as u64
    }

    /// The end of what has been sent at least once.
    #[must_use]
    pub fn snd_sent(&self) -> u64 {
        self.snd.sent()
    }

    /// Bytes written and not acknowledged, and how many of them have not been sent yet; a
    /// FIN counts as one byte. Both are 0 during the handshake, as in Linux.
    #[must_use]
    pub fn send_queue(&self) -> (u64, u64) {
        if self.state.is_opening() || self.state == State::Closed {
            return (0, 0);
        }
        let end = self.snd.end();
        let left = |from: Pos| (end - from).max(0) as u64;
        (left(self.snd.una()), left(self.snd.nxt()))
    }

    /// The end of what the user has read, as last reported by it.
    #[inline]
    #[must_use]
    pub fn rcv_consumed(&self) -> u64 {
        self.rcv.consumed() as u64
    }

    /// The end of the stretch of the receive stream in which payload may be placed:
    /// `on_segment` places nothing beyond it.
    #[must_use]
    pub fn rcv_limit(&self) -> u64 {
        self.rcv.adv().max(0) as u64
    }

    /// The end of the peer's urgent data, in bytes of the receive stream: the urgent byte
    /// is the one before it, and may not have arrived yet. 0 if there never was any. The
    /// value never decreases.
    #[inline]
    #[must_use]
    pub fn rcv_urgent(&self) -> u64 {
        self.rcv.up() as u64
    }

    /// Size of the receive buffer in bytes (auto-tuned).
    #[must_use]
    pub fn rcvbuf(&self) -> u32 {
        self.rcv.buffer.size()
    }

    /// Whether the peer has closed its direction and everything before its FIN has
    /// arrived.
    #[inline]
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.rcv.is_closed()
    }

    /// Whether payload beyond `rcv_edge()` has been placed.
    #[must_use]
    pub fn has_out_of_order(&self) -> bool {
        !self.reassembly.ranges.is_empty()
    }

    /// Whether a duplicate is to be reported. An acknowledgment reports one (RFC 2883
    /// section 4), so it must be sent before the next segment is processed.
    #[must_use]
    pub fn owes_dsack(&self) -> bool {
        self.flags.contains(Flags::DSACK)
    }

    /// Whether the user has closed the sending direction.
    #[must_use]
    pub fn send_shut(&self) -> bool {
        self.snd.fin()
    }

    /// Whether `close` or `abort` was called.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.flags.contains(Flags::ORPHAN)
    }

    /// Why the connection died, or `None` if it did not.
    #[inline]
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.outcome.error()
    }

    /// Returns and clears the last ICMP error that did not end the connection.
    pub fn take_soft_error(&mut self) -> Option<Error> {
        self.outcome.take_soft_error()
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn cwnd(&self) -> u32 {
        self.congestion.controller.cwnd()
    }

    /// Largest payload of a segment at present, in bytes.
    #[inline]
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.snd.mss()
    }

    /// Whether of all data that were sent at most one byte in 1,024 was sent once more.
    #[inline]
    #[must_use]
    pub fn has_repeated_little(&self) -> bool {
        self.accounting.counters.bytes_retrans <= self.snd_sent() >> 10
    }

    /// Whether the next segment may be one with data that were sent before.
    #[inline]
    #[must_use]
    pub fn may_repeat(&self) -> bool {
        !self.flight.recovery.is_quiet()
    }

    /// The size in bytes that the send stream needs to keep the path full, given its
    /// present size: twice what may be in flight, as Linux tunes SO_SNDBUF.
    ///
    /// On a short path ([`is_path_short`](Self::is_path_short)) a large window is mostly a
    /// queue of our own making, and a buffer of many megabytes no longer fits the caches.
    /// There a bulk sender gets its `share` of them at once, and the buffer grows beyond that
    /// only as long as its content does not make the round trip longer.
    #[must_use]
    pub fn snd_buffer_wanted(&self, size: u32, share: u32) -> u64 {
        let cwnd = u64::from(self.congestion.controller.cwnd());
        let min_rtt = self.snd.rtt.min_rtt_or(0);
        let in_flight = match self.snd.rtt.srtt() {
            Some(srtt) if min_rtt < MS => {
                let unqueued = cwnd.min(u64::from(size)) * min_rtt / srtt.max(min_rtt).max(1);
                let is_bulk = cwnd >= BULK_WINDOW;
                unqueued.max(if is_bulk { u64::from(share) / 2 } else { 0 })
            }
            _ => cwnd,
        };
        2 * in_flight.max(10 * u64::from(self.snd.mss()))
    }

    /// Whether the path is shorter than a millisecond, by the least round trip that was seen.
    #[must_use]
    pub fn is_path_short(&self) -> bool {
        self.snd.rtt.min_rtt_or(MS) < MS
    }

    /// Returns and clears the events since the last call.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        self.outcome.take_events()
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    // ---- Used throughout the crate. ----

    /// Sets up header prediction for the present state.
    pub(crate) fn predict_next(&mut self) {
        self.prediction = self.derived_prediction();
    }

    /// The prediction that follows from the present state.
    pub(crate) fn derived_prediction(&self) -> Prediction {
        Prediction::of(
            self.state,
            self.flags,
            &self.snd,
            &self.rcv,
            &self.ecn,
            &self.reassembly,
            &self.flight,
        )
    }

    /// Ends the connection: stops all timers, moves to CLOSED and records the reason. What came
    /// out of order will never be in order: its room may be used for something else.
    pub(crate) fn die(&mut self, error: Option<Error>, also: Events) {
        self.state = State::Closed;
        self.prediction = Prediction::OFF;
        self.timers = Timers::new();
        self.flight.timer = LossTimer::new();
        let keep = Flags::RST_DUE | Flags::RST_ACK;
        self.flags &= keep | !Flags::OWED;
        self.reassembly = Reassembly::new();
        self.outcome.report(Events::CLOSED | also);
        if error.is_some() {
            self.outcome.set_error(error);
            self.outcome.report(Events::ERROR);
        }
    }
}

#[cfg(test)]
mod tests;
