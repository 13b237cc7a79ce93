//! What a connection says of its two directions, without a change.
//!
//! Owns [`SendStatus`] and [`ReceiveStatus`], which [`Tcb::send_status`](crate::Tcb::send_status)
//! and [`Tcb::receive_status`](crate::Tcb::receive_status) give: the engine sizes buffers, answers
//! questions of programs and chooses how much it sends at once by them. The edges of the streams,
//! which each burst asks for, are the `Tcb`'s own.

use crate::accounting::Counters;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::MS;
use longshore_wire::SeqNumber;

/// The congestion window, in bytes, from which on a connection counts as a bulk sender.
const BULK_WINDOW: u64 = 128 << 10;

/// The most payload of one buffer in Linux, in bytes: 64 KiB less the headers for which it leaves
/// room (`MAX_TCP_HEADER`).
const OFFLOADED: u32 = 65_535 - 320;

/// The direction in which we send.
#[derive(Debug, Clone, Copy)]
pub struct SendStatus<'t> {
    state: State,
    snd: &'t SendSide,
    flight: &'t Flight,
    congestion: &'t CongestionState,
    counters: &'t Counters,
}

impl<'t> SendStatus<'t> {
    #[inline(always)]
    pub(crate) fn new(
        state: State,
        snd: &'t SendSide,
        flight: &'t Flight,
        congestion: &'t CongestionState,
        counters: &'t Counters,
    ) -> Self {
        Self {
            state,
            snd,
            flight,
            congestion,
            counters,
        }
    }

    /// The end of what has been sent at least once, in bytes of the send stream.
    #[inline(always)]
    #[must_use]
    pub fn sent(self) -> u64 {
        self.snd.sent()
    }

    /// How far the send stream may be sent at once, were all of it written: what the peer's window
    /// and the congestion window have room for, in whole segments. What was sent, if a pacer
    /// decides about the rest, or before the handshake is complete.
    #[must_use]
    pub fn sendable(self) -> u64 {
        let sent = self.snd.sent();
        if !self.snd.is_synchronized() || self.congestion.pacer.is_on() {
            return sent;
        }
        let window = self.snd.wnd_edge() - self.snd.nxt();
        let room = window.min(self.flight.congestion_room(self.snd, self.congestion));
        let mss = i64::from(self.snd.mss());
        sent + (room - room % mss).max(0) as u64
    }

    /// Bytes that Linux puts into one buffer (`tcp_xmit_size_goal`): as many full segments as
    /// segmentation offload takes, and half of the largest window that the peer has offered;
    /// at least one.
    #[must_use]
    pub fn size_goal(self) -> u32 {
        let half = match self.snd.max_wnd() {
            0 => OFFLOADED,
            // As Linux: half of a window that is smaller than this is no use.
            window @ ..=536 => window,
            window => window / 2,
        };
        let mss = u32::from(self.snd.mss());
        (half.min(OFFLOADED) / mss).max(1) * mss
    }

    /// Bytes written and not acknowledged, and how many of them have not been sent yet; a
    /// FIN counts as one byte. Both are 0 during the handshake, as in Linux.
    #[must_use]
    pub fn queue(self) -> (u64, u64) {
        if self.state.is_opening() || self.state == State::Closed {
            return (0, 0);
        }
        let end = self.snd.end();
        let left = |from: Pos| (end - from).max(0) as u64;
        (left(self.snd.una()), left(self.snd.nxt()))
    }

    /// Whether the user has closed the sending half.
    #[inline(always)]
    #[must_use]
    pub fn is_shut(self) -> bool {
        self.snd.fin()
    }

    /// Whether the peer has acknowledged the end of the sending half.
    #[inline(always)]
    #[must_use]
    pub fn fin_acked(self) -> bool {
        self.snd.fin_acked()
    }

    /// Whether an error that quotes sequence number `seq` can refer to a segment of ours:
    /// one that is in flight.
    #[must_use]
    pub fn is_in_flight(self, seq: SeqNumber) -> bool {
        let pos = self.snd.pos(seq);
        self.state != State::Closed && pos >= self.snd.una() && pos < self.snd.nxt()
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn cwnd(self) -> u32 {
        self.congestion.controller.cwnd()
    }

    /// Whether of all data that were sent at most one byte in 1,024 was sent once more.
    #[inline(always)]
    #[must_use]
    pub fn has_repeated_little(self) -> bool {
        self.counters.bytes_retrans <= self.sent() >> 10
    }

    /// Whether the next segment may be one with data that were sent before.
    #[inline(always)]
    #[must_use]
    pub fn may_repeat(self) -> bool {
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
    pub fn buffer_wanted(self, size: u32, share: u32) -> u64 {
        let cwnd = u64::from(self.cwnd());
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
    #[inline(always)]
    #[must_use]
    pub fn is_path_short(self) -> bool {
        self.snd.rtt.min_rtt_or(MS) < MS
    }
}

/// The direction in which the peer sends.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveStatus<'t> {
    prediction: Prediction,
    flags: Flags,
    rcv: &'t ReceiveSide,
    reassembly: &'t Reassembly,
}

impl<'t> ReceiveStatus<'t> {
    #[inline(always)]
    pub(crate) fn new(
        prediction: Prediction,
        flags: Flags,
        rcv: &'t ReceiveSide,
        reassembly: &'t Reassembly,
    ) -> Self {
        Self {
            prediction,
            flags,
            rcv,
            reassembly,
        }
    }

    /// Whether a segment with this sequence number begins with the next byte of the receive
    /// stream, or with one before that, as a peer sends that does not know what has come.
    #[must_use]
    pub fn leaves_no_hole(self, seq: SeqNumber) -> bool {
        self.rcv.pos(seq) <= self.rcv.nxt()
    }

    /// The end of the stretch of the receive stream in which payload may be placed:
    /// `on_segment` places nothing beyond it.
    #[must_use]
    pub fn limit(self) -> u64 {
        self.rcv.adv().max(0) as u64
    }

    /// The end of the peer's urgent data, in bytes of the receive stream: the urgent byte
    /// is the one before it, and may not have arrived yet. 0 if there never was any. The
    /// value never decreases.
    #[inline(always)]
    #[must_use]
    pub fn urgent(self) -> u64 {
        self.rcv.up() as u64
    }

    /// Size of the receive buffer in bytes (auto-tuned).
    #[inline(always)]
    #[must_use]
    pub fn buffer_size(self) -> u32 {
        self.rcv.buffer.size()
    }

    /// Whether the peer has closed its direction and everything before its FIN has
    /// arrived.
    #[inline(always)]
    #[must_use]
    pub fn is_closed(self) -> bool {
        self.rcv.is_closed()
    }

    /// Whether payload beyond the end of what may be read has been placed.
    #[inline(always)]
    #[must_use]
    pub fn has_out_of_order(self) -> bool {
        !self.reassembly.ranges.is_empty()
    }

    /// Whether a duplicate is to be reported. An acknowledgment reports one (RFC 2883
    /// section 4), so it must be sent before the next segment is processed.
    #[inline(always)]
    #[must_use]
    pub fn owes_dsack(self) -> bool {
        self.flags.contains(Flags::DSACK)
    }

    /// The most payload that [`Tcb::predicts`](crate::Tcb::predicts) takes in one segment now, in
    /// bytes; 0 if it takes none. The receive stream has no data beyond its end then.
    #[inline(always)]
    #[must_use]
    pub fn predicted_room(self) -> u64 {
        if self.prediction.is_on() && self.prediction.has_data() {
            (self.rcv.adv() - self.rcv.nxt()) as u64
        } else {
            0
        }
    }
}
