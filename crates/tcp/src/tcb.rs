//! The transmission control block: everything that is known of one connection, as
//! plain data without pointers, so that a table of them can outlive the process.
//!
//! Owns [`Tcb`], its fields and its getters (`flags.rs` has what its flags mean). The
//! engine keeps one for each connection; `open.rs` makes it, `input/` and `user.rs` and
//! `timers.rs` change it, `output/` reads it to make segments.
//!
//! **Positions.** Inside, sequence numbers are 64-bit positions ([`Pos`]): position
//! `p` is byte `p` of the stream, the SYN is at -1 and the FIN follows the last
//! byte. They are compared as plain numbers; 32-bit numbers exist only on the wire
//! (`snd_seq`, `rcv_pos` and their like convert).

use crate::assembler::Assembler;
use crate::busy::BusyTimes;
use crate::config::Config;
use crate::congestion::Controller;
use crate::ecn::EcnState;
use crate::events::{Error, Events};
use crate::fast_open::FastOpen;
pub(crate) use crate::flags::Flags;
use crate::input::{Floor, UNPREDICTABLE};
use crate::pacing::Pacer;
use crate::plpmtu::MtuSearch;
use crate::rate::RateSampler;
use crate::recovery::Recovery;
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::state::State;
use crate::time::{Instant, MS};
use crate::timers::Timers;
use crate::window::{ReceiveBuffer, ToldWindow};
use longshore_wire::SeqNumber;

/// A position in a stream: the byte of that number; -1 is the SYN.
pub(crate) type Pos = i64;

/// The position of the SYN.
pub(crate) const SYN_POS: Pos = -1;
/// No position: later than every other.
pub(crate) const NO_POS: Pos = i64::MAX;

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
    /// How long they have taken, in milliseconds, as `busy.rs` sums up.
    pub(crate) timeout_repair_ms: u32,
    pub(crate) bytes_retrans: u64,
}

/// A connection.
///
/// **Order of calls.** Make it with [`Tcb::connect`] or [`Tcb::accept`]. Then, in
/// any order and as often as there is cause:
///
/// * *in*: [`on_segment`](Tcb::on_segment) for each segment (copy the payload
///   where its [`Disposition`](crate::Disposition) says, at once),
///   [`on_timer`](Tcb::on_timer) when [`deadline`](Tcb::deadline) has passed,
///   [`on_icmp`](Tcb::on_icmp), and the user's calls
///   ([`set_snd_edge`](Tcb::set_snd_edge),
///   [`set_rcv_consumed`](Tcb::set_rcv_consumed),
///   [`shutdown_send`](Tcb::shutdown_send), [`close`](Tcb::close) ...);
/// * *out*, after each burst of those: [`poll_transmit`](Tcb::poll_transmit) until
///   it gives `None`, then [`take_events`](Tcb::take_events), then
///   [`deadline`](Tcb::deadline).
///
/// After [`Events::CLOSED`] the block may be forgotten, once `poll_transmit` gives
/// nothing more.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Tcb {
    // ---- What header prediction looks at for every segment: one cache line, ----
    // ---- and a second with what it changes besides. ----
    /// Data offset and flags of the segment that is expected, see
    /// `input/fast_path.rs`; `UNPREDICTABLE` if none can be.
    pub(crate) predict: u16,
    /// It may carry payload.
    pub(crate) predict_data: bool,
    /// Unanswered keepalive probes.
    pub(crate) keepalive_probes: u8,
    pub(crate) flags: Flags,
    /// RCV.NXT.
    pub(crate) rcv_nxt: Pos,
    /// SND.UNA.
    pub(crate) snd_una: Pos,
    /// SND.NXT: what follows the last thing sent; never goes back.
    pub(crate) snd_nxt: Pos,
    /// The sequence number of position 0 of the send stream (ISS + 1).
    pub(crate) snd_base: u32,
    /// The sequence number of position 0 of the receive stream (IRS + 1).
    pub(crate) rcv_base: u32,
    /// TS.Recent (RFC 7323 section 4.3).
    pub(crate) ts_recent: u32,
    /// The timestamp echo that last told of the receiver's round trip.
    pub(crate) rcv_echo: u32,
    /// The right edge of the window that we have advertised.
    pub(crate) rcv_adv: Pos,
    /// Last.ACK.sent: RCV.NXT when we last sent an acknowledgment.
    pub(crate) last_ack_sent: Pos,

    // ---- The second cache line. ----
    /// SND.WL1 and SND.WL2: of the segment that last set the window.
    pub(crate) snd_wl1: Pos,
    pub(crate) snd_wl2: Pos,
    /// When TS.Recent was set.
    pub(crate) ts_recent_at: Instant,
    pub(crate) last_rcv_ack: Instant,
    pub(crate) last_rcv_data: Instant,
    /// The last byte that the user has written ends here.
    pub(crate) snd_edge: Pos,
    /// SND.WND, bytes.
    pub(crate) snd_wnd: u32,
    /// The largest window that the peer has offered (MAX.SND.WND).
    pub(crate) max_snd_wnd: u32,
    /// Bytes of payload in a full segment beside the usual options.
    pub(crate) snd_mss: u16,
    /// Estimate of the size of the peer's segments.
    pub(crate) rcv_mss: u16,
    pub(crate) state: State,
    pub(crate) snd_wscale: u8,
    pub(crate) rcv_wscale: u8,
    /// Acknowledgments still to be sent at once (Linux's quick mode).
    pub(crate) quick_acks: u8,

    // ---- The third, and what output looks at besides. ----
    pub(crate) events: Events,
    /// Duplicate acknowledgments owed to a peer without SACK.
    pub(crate) acks_owed: u8,
    /// Unanswered repetitions of whatever is outstanding.
    pub(crate) retries: u8,
    /// The last ICMP error since the peer last answered.
    pub(crate) soft_error: Option<Error>,
    pub(crate) error: Option<Error>,
    /// The MSS that our SYN tells.
    pub(crate) adv_mss: u16,
    /// Added to the clock for our timestamps.
    pub(crate) ts_offset: u32,
    /// The most that was in flight while what lies before `flight_until` was sent,
    /// bytes; only kept in slow start.
    pub(crate) most_flight: u32,
    /// The read position of the user.
    pub(crate) rcv_consumed: Pos,
    pub(crate) timers: Timers,
    pub(crate) last_sent_data: Instant,

    // ---- Congestion and loss. ----
    pub(crate) rtt: RttEstimator,
    /// An acknowledgment of this position ends the timed round trip; `NO_POS` if none
    /// is timed.
    pub(crate) rtt_pos: Pos,
    pub(crate) rtt_at: Instant,
    pub(crate) congestion: Controller,
    pub(crate) ecn: EcnState,
    pub(crate) pacer: Pacer,
    pub(crate) rate: RateSampler,
    pub(crate) recovery: Recovery,

    // ---- Less often. ----
    /// The position of the peer's FIN, `NO_POS` if not known.
    pub(crate) rcv_fin: Pos,
    pub(crate) rcv_buffer: ReceiveBuffer,
    /// Data up to here need not wait for more.
    pub(crate) snd_push: Pos,
    /// Range to report first in the next SACK option (RFC 2883).
    pub(crate) dsack: (SeqNumber, SeqNumber),
    /// What timestamps are held against while something is missing.
    pub(crate) paws: Floor,
    /// The latest out-of-order arrivals, each in another range, the last one first
    /// (RFC 2018 section 4: they are reported in this order).
    pub(crate) recent_ooo: [SeqNumber; 3],
    pub(crate) fast_open: FastOpen,
    /// SND.UP: what follows the last urgent byte sent; 0 if there was none.
    pub(crate) snd_up: Pos,
    /// RCV.UP: what follows the last urgent byte that the peer has told of; 0 if none.
    pub(crate) rcv_up: Pos,
    /// The end of the last segment sent that was not full (Minshall's Nagle).
    pub(crate) snd_sml: Pos,
    /// SND.NXT when the congestion window last held something back.
    pub(crate) cwnd_full_at: Pos,
    /// See `most_flight`.
    pub(crate) flight_until: Pos,
    /// When the oldest unacknowledged thing was first sent, or the window closed.
    pub(crate) stalled_since: Instant,
    /// When the last rate-limited acknowledgment went out.
    pub(crate) last_challenge: Instant,
    /// How much more the path may take.
    pub(crate) mtu: MtuSearch,
    pub(crate) told_wnd: ToldWindow,
    /// The MSS that the peer's SYN told.
    pub(crate) peer_mss: u16,
    /// The MSS that the path allows in our direction, without options.
    pub(crate) path_mss: u16,
    /// `bytes_retrans` when the rate was last sampled, its lower half.
    pub(crate) repeated_seen: u32,
    pub(crate) cfg: Config,
    pub(crate) counters: Counters,
    pub(crate) busy: BusyTimes,
    pub(crate) assembler: Assembler,
    pub(crate) scoreboard: Scoreboard,
}

// A segment that is predicted should touch as few cache lines as can be.
const _: () =
    assert!(core::mem::offset_of!(Tcb, snd_wl1) == 64 && core::mem::offset_of!(Tcb, events) == 128);

/// The send buffer of a short path on which much is sent, in bytes: what a program can write
/// in one go while the engine, on a processor of its own, is at work on what came before.
/// With less, the two wait for each other: a file of 1 GB on a path of 50 us took 0.45 s
/// with half of this and 0.34 s with this; with twice as much, it took 0.37 s.
const SHORT_PATH_BUFFER: u64 = 2 << 20;
/// The congestion window, in bytes, of somebody who sends much.
const BULK_WINDOW: u64 = 128 << 10;

impl Tcb {
    // ---- Conversions between positions and the wire. ----

    /// The sequence number of a position of the send stream.
    #[inline]
    pub(crate) fn snd_seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.snd_base.wrapping_add(pos as u32))
    }

    /// The sequence number of a position of the receive stream.
    #[inline]
    pub(crate) fn rcv_seq(&self, pos: Pos) -> SeqNumber {
        SeqNumber(self.rcv_base.wrapping_add(pos as u32))
    }

    /// The position, nearest to SND.UNA, of a sequence number of the send stream.
    pub(crate) fn snd_pos(&self, seq: SeqNumber) -> Pos {
        let una = self.snd_base.wrapping_add(self.snd_una as u32);
        self.snd_una + i64::from(seq.0.wrapping_sub(una) as i32)
    }

    /// The position, nearest to RCV.NXT, of a sequence number of the receive
    /// stream.
    pub(crate) fn rcv_pos(&self, seq: SeqNumber) -> Pos {
        let nxt = self.rcv_base.wrapping_add(self.rcv_nxt as u32);
        self.rcv_nxt + i64::from(seq.0.wrapping_sub(nxt) as i32)
    }

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

    /// The end of what may be read, in bytes of the receive stream: everything
    /// below is there, in order.
    #[inline]
    #[must_use]
    pub fn rcv_edge(&self) -> u64 {
        self.rcv_nxt.min(self.rcv_fin).max(0) as u64
    }

    /// Whether a segment with this sequence number begins with the next byte of the receive
    /// stream.
    #[must_use]
    pub fn is_next(&self, seq: SeqNumber) -> bool {
        self.rcv_pos(seq) == self.rcv_nxt
    }

    /// The end of what is acknowledged, in bytes of the send stream: chunks below
    /// may be freed.
    #[inline]
    #[must_use]
    pub fn snd_acked(&self) -> u64 {
        self.snd_una.clamp(0, self.snd_edge) as u64
    }

    /// The end of what the user has written.
    #[inline]
    #[must_use]
    pub fn snd_edge(&self) -> u64 {
        self.snd_edge as u64
    }

    /// The end of what has been sent at least once.
    #[must_use]
    pub fn snd_sent(&self) -> u64 {
        self.snd_nxt.clamp(0, self.snd_edge) as u64
    }

    /// Bytes that were written and are not acknowledged, and those of them that were not
    /// sent yet, a FIN counted as one. None while the handshake lasts, as Linux has it.
    #[must_use]
    pub fn send_queue(&self) -> (u64, u64) {
        if self.is_opening() || self.state == State::Closed {
            return (0, 0);
        }
        let end = self.snd_end();
        let left = |from: Pos| (end - from).max(0) as u64;
        (left(self.snd_una), left(self.snd_nxt))
    }

    /// The end of what the user has read, as it told.
    #[inline]
    #[must_use]
    pub fn rcv_consumed(&self) -> u64 {
        self.rcv_consumed as u64
    }

    /// Up to where in the receive stream payload may be placed: nothing that
    /// `on_segment` places ends beyond.
    #[must_use]
    pub fn rcv_limit(&self) -> u64 {
        self.rcv_adv.max(0) as u64
    }

    /// Bytes that the receive stream may hold (auto-tuned).
    #[must_use]
    pub fn rcvbuf(&self) -> u32 {
        self.rcv_buffer.size()
    }

    /// Whether the peer has closed its direction and everything before its FIN has
    /// arrived.
    #[inline]
    #[must_use]
    pub fn peer_closed(&self) -> bool {
        self.rcv_nxt > self.rcv_fin
    }

    /// Whether payload beyond `rcv_edge()` has been placed.
    #[must_use]
    pub fn has_out_of_order(&self) -> bool {
        !self.assembler.is_empty()
    }

    /// How often the SYN, or SYN-ACK, was repeated since it was last answered.
    #[must_use]
    pub fn handshake_repeats(&self) -> u8 {
        if self.is_opening() { self.retries } else { 0 }
    }

    /// Whether the user has closed the sending direction.
    #[must_use]
    pub fn send_shut(&self) -> bool {
        self.flags.contains(Flags::FIN_QUEUED)
    }

    /// Whether `close` or `abort` was called.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.flags.contains(Flags::ORPHAN)
    }

    /// Why the connection died, if it did.
    #[inline]
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// The last ICMP error that did not end the connection; reading forgets it.
    pub fn take_soft_error(&mut self) -> Option<Error> {
        self.soft_error.take()
    }

    /// Smoothed round-trip time in microseconds, `None` before the first sample.
    #[must_use]
    pub fn srtt_us(&self) -> Option<u64> {
        self.rtt.srtt()
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn cwnd(&self) -> u32 {
        self.congestion.cwnd()
    }

    /// Payload bytes of a full segment at present.
    #[inline]
    #[must_use]
    pub fn mss(&self) -> u16 {
        self.snd_mss
    }

    /// Bytes that the send stream should be able to hold to keep the path full, if it
    /// holds `size` now: twice what may be in flight, as Linux would tune SO_SNDBUF.
    ///
    /// On a path shorter than a millisecond a large window is mostly a queue of our own
    /// making, and a buffer of many megabytes no longer fits the caches that it goes
    /// through: there it grows beyond 2 MiB, which a program that sends much gets at once,
    /// only as long as what it holds does not make the round trip longer.
    #[must_use]
    pub fn snd_buffer_wanted(&self, size: u32) -> u64 {
        let cwnd = u64::from(self.congestion.cwnd());
        let min_rtt = self.rtt.min_rtt_or(0);
        let in_flight = match self.rtt.srtt() {
            Some(srtt) if min_rtt < MS => {
                let unqueued = cwnd.min(u64::from(size)) * min_rtt / srtt.max(min_rtt).max(1);
                let is_bulk = cwnd >= BULK_WINDOW;
                unqueued.max(if is_bulk { SHORT_PATH_BUFFER / 2 } else { 0 })
            }
            _ => cwnd,
        };
        2 * in_flight.max(10 * u64::from(self.snd_mss))
    }

    /// What has happened since the last call.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    // ---- Used everywhere inside. ----

    /// Bytes (and SYN, FIN) that are sent and not acknowledged.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        (self.snd_nxt - self.snd_una) as u64
    }

    /// The position after everything that there is to send, the FIN included.
    #[inline]
    pub(crate) fn snd_end(&self) -> Pos {
        self.snd_edge + i64::from(self.flags.contains(Flags::FIN_QUEUED))
    }

    /// Whether a round trip is being timed.
    #[inline]
    pub(crate) fn is_timing(&self) -> bool {
        self.rtt_pos != NO_POS
    }

    /// RFC 6298 section 3, Karn: what is being timed may have been repeated.
    #[inline]
    pub(crate) fn stop_timing(&mut self) {
        self.rtt_pos = NO_POS;
        self.rate.spoil_round();
    }

    /// The right edge of the peer's window.
    #[inline]
    pub(crate) fn snd_wnd_edge(&self) -> Pos {
        self.snd_una.max(0) + i64::from(self.snd_wnd)
    }

    /// Ends the connection: no timer, no state, and the reason.
    pub(crate) fn die(&mut self, error: Option<Error>, also: Events) {
        self.state = State::Closed;
        self.predict = UNPREDICTABLE;
        self.timers = Timers::new();
        let keep = Flags::RST_DUE | Flags::RST_ACK;
        self.flags &= keep | !Flags::OWED;
        self.acks_owed = 0;
        self.events |= Events::CLOSED | also;
        if error.is_some() {
            self.error = error;
            self.events |= Events::ERROR;
        }
    }
}
