//! The transmission control block: the whole state of one connection.
//!
//! Owns [`Tcb`], which is composed of the parts of a connection (`flags.rs` explains its flags),
//! what each burst asks of it, and the types that borrow the parts of one concern. The engine keeps
//! one for each connection; `open.rs` creates it, `input/`, `user.rs` and `timeouts.rs` change it,
//! `output/` builds segments from it.
//!
//! **Positions.** Internally, sequence numbers are 64-bit positions
//! ([`Pos`](crate::pos::Pos)): position `p` is byte `p` of the stream, the SYN is at -1 and the
//! FIN follows the last byte. They are compared as plain integers; 32-bit sequence numbers exist
//! only on the wire ([`SendSide::seq`], [`ReceiveSide::pos`] and similar methods convert).

use crate::accounting::Accounting;
use crate::acks::OwedAcks;
use crate::closing::Closing;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::ecn::EcnState;
use crate::events::{Error, Events};
use crate::fast_open::{FastOpen, FastOpenOutcome};
use crate::flags::Flags;
use crate::flight::Flight;
use crate::info::TcpInfo;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::receive_room::ReceiveRoom;
use crate::segment_size::SegmentSize;
use crate::send_stream::SendStream;
use crate::settings::Settings;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::status::{ReceiveStatus, SendStatus};
use crate::syn_data::SynData;
use crate::time::Instant;
use crate::timers::Timers;
use crate::violation::Violation;

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
/// crate's documentation). The fields that must survive the process ([`SavedTcb`](crate::SavedTcb)
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

    /// The end of what the user has read, as last reported by it.
    #[inline]
    #[must_use]
    pub fn rcv_consumed(&self) -> u64 {
        self.rcv.consumed() as u64
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

    /// Largest payload of a segment at present, in bytes.
    #[inline]
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.snd.mss()
    }

    /// Returns and clears the events since the last call.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        self.outcome.take_events()
    }

    /// Whether the program has the connection although the handshake is not complete (a
    /// passive open with data on the SYN).
    #[must_use]
    pub fn is_fast_opened(&self) -> bool {
        self.fast_open.has_opened(self.state)
    }

    /// Whether the user may write, and read arriving data: the connection is established,
    /// or Fast Open gives it to a server's program before that.
    #[must_use]
    pub fn is_open_to_user(&self) -> bool {
        self.state.is_synchronized() || self.is_fast_opened()
    }

    /// Bytes of data that a waiting SYN can carry; 0 if no SYN waits.
    #[must_use]
    pub fn syn_room(&self) -> u16 {
        self.fast_open.room(&self.snd, &self.cfg)
    }

    /// The result of Fast Open on an active open, once the connection is established;
    /// `None` if it was not tried.
    #[must_use]
    pub fn fast_open_outcome(&self) -> Option<FastOpenOutcome> {
        let outcome = self.fast_open.outcome(self.snd.peer_mss());
        outcome.filter(|_| self.state.is_synchronized())
    }

    /// Whether payload is refused, or the window small, for lack of memory.
    #[inline]
    #[must_use]
    pub fn is_short_of_room(&self) -> bool {
        self.flags.intersects(Flags::SHORT_OF_ROOM)
    }

    /// The widest window that the peer can be told of at present, bytes: what buffer, clamp and
    /// memory allow, and the window field has room for.
    #[must_use]
    pub fn widest_window(&self) -> u32 {
        self.rcv.widest_window(&self.cfg, self.flags)
    }

    // ---- Parts. ----

    /// What is known of the direction in which we send.
    #[inline(always)]
    #[must_use]
    pub fn send_status(&self) -> SendStatus<'_> {
        SendStatus::new(
            self.state,
            &self.snd,
            &self.flight,
            &self.congestion,
            &self.accounting.counters,
        )
    }

    /// What is known of the direction in which the peer sends.
    #[inline(always)]
    #[must_use]
    pub fn receive_status(&self) -> ReceiveStatus<'_> {
        ReceiveStatus::new(self.prediction, self.flags, &self.rcv, &self.reassembly)
    }

    /// Urgent data, ends of records and the buffer of the send stream.
    #[inline(always)]
    pub fn send_stream(&mut self) -> SendStream<'_> {
        SendStream {
            state: self.state,
            flags: &mut self.flags,
            snd: &mut self.snd,
            flight: &mut self.flight,
            congestion: &self.congestion,
            accounting: &mut self.accounting,
        }
    }

    /// Memory for what is received.
    #[inline(always)]
    pub fn receive_room(&mut self) -> ReceiveRoom<'_> {
        ReceiveRoom {
            prediction: &mut self.prediction,
            state: self.state,
            cfg: &self.cfg,
            flags: &mut self.flags,
            rcv: &mut self.rcv,
        }
    }

    /// Data on the SYN.
    pub fn syn_data(&mut self) -> SynData<'_> {
        SynData {
            state: self.state,
            cfg: &self.cfg,
            flags: &mut self.flags,
            snd: &self.snd,
            rcv: &mut self.rcv,
            fast_open: &mut self.fast_open,
            liveness: &mut self.liveness,
            outcome: &mut self.outcome,
            accounting: &mut self.accounting,
        }
    }

    /// The size of segments.
    pub fn segment_size(&mut self) -> SegmentSize<'_> {
        SegmentSize {
            prediction: &mut self.prediction,
            state: self.state,
            cfg: &mut self.cfg,
            flags: &mut self.flags,
            snd: &mut self.snd,
            rcv: &mut self.rcv,
            fast_open: &mut self.fast_open,
            congestion: &mut self.congestion,
            flight: &mut self.flight,
        }
    }

    /// What the user may change at any time.
    pub fn settings(&mut self) -> Settings<'_> {
        Settings {
            state: self.state,
            cfg: &mut self.cfg,
            flags: &mut self.flags,
            snd: &mut self.snd,
            rcv: &mut self.rcv,
            acks: &mut self.acks,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            congestion: &mut self.congestion,
            flight: &self.flight,
            ecn: &self.ecn,
            accounting: &self.accounting,
        }
    }

    /// What ends the connection.
    pub fn closing(&mut self) -> Closing<'_> {
        Closing {
            prediction: &mut self.prediction,
            state: &mut self.state,
            flags: &mut self.flags,
            snd: &mut self.snd,
            rcv: &mut self.rcv,
            liveness: &mut self.liveness,
            cfg: &mut self.cfg,
            ecn: &self.ecn,
            fast_open: &mut self.fast_open,
            outcome: &mut self.outcome,
            timers: &mut self.timers,
            reassembly: &mut self.reassembly,
            flight: &mut self.flight,
        }
    }

    /// The state at `now`.
    #[must_use]
    pub fn info(&self, now: Instant) -> TcpInfo {
        let mut info = TcpInfo {
            state: self.state,
            active: self.flags.contains(Flags::ACTIVE),
            congestion: self.congestion.controller.which().name(),
            pmtu: u32::from(self.snd.path_mss()) + if self.cfg.ipv6 { 60 } else { 40 },
            rcv_mss: u32::from(self.acks.segment()),
            ..TcpInfo::default()
        };
        info.describe_handshake(&self.snd, &self.rcv, self.flags);
        info.describe_ecn(&self.ecn);
        info.describe_fast_open(&self.fast_open, &self.snd, self.flags);
        info.describe_timers(&self.snd, &self.liveness, now);
        info.describe_flight(&self.snd, &self.flight, now);
        info.describe_windows(&self.snd, &self.rcv, &self.congestion);
        let last_round = self.flight.round_trip.last(self.liveness.last_ack());
        let rate = self.congestion.delivery_rate(self.snd.una(), last_round);
        info.describe_rates(rate, &self.congestion);
        info.describe_limits(&self.accounting, &self.snd, self.flags, self.state, now);
        info.count_segments(&self.accounting, &self.snd, &self.rcv);
        info.count_recoveries(&self.accounting, self.flags, now);
        info
    }

    /// Checks that the block is consistent; called between two calls of other methods.
    ///
    /// # Errors
    ///
    /// Returns the invariant that does not hold. No segment and no user call may cause
    /// this.
    pub fn check(&self) -> Result<(), Violation> {
        self.snd.check()?;
        self.rcv.check()?;
        self.acks.check(&self.rcv)?;
        self.reassembly.check(&self.rcv)?;
        self.congestion.check()?;
        self.prediction.check(self.derived_prediction())?;
        self.state.check(&self.snd, &self.rcv)?;
        if self.state != State::Closed {
            self.flight.check(&self.snd)?;
            self.timers
                .check(self.state, self.flags, &self.snd, &self.flight)?;
        }
        Ok(())
    }

    // ---- Used throughout the crate. ----

    /// Sets up header prediction for the present state.
    pub(crate) fn predict_next(&mut self) {
        self.prediction = self.derived_prediction();
    }

    /// The prediction that follows from the present state.
    fn derived_prediction(&self) -> Prediction {
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

    /// Panics in debug builds if an invariant does not hold.
    #[inline(always)]
    pub(crate) fn debug_check(&self) {
        #[cfg(debug_assertions)]
        if let Err(violation) = self.check() {
            let (state, flags) = (self.state, self.flags);
            panic!(
                "{violation}: {state:?} {flags:?} {:?} {:?}",
                self.snd, self.rcv
            );
        }
    }
}

#[cfg(test)]
mod tests;
