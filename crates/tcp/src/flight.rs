//! Data in flight: when each range was sent, what became of it, and the recovery of
//! losses.
//!
//! Owns [`Flight`], which is part of the `Tcb`. Output reports what is sent,
//! `input/ack.rs` what is acknowledged. All of this state may be discarded: outstanding
//! data then counts as lost.
//!
//! Each part owns its fields, and what one part decides is a method of that part. The methods of
//! [`Flight`] change several; they are here, in `ack.rs` and in `recovery/`.
//!
//! | part | contents | file |
//! | --- | --- | --- |
//! | `round_trip` | the round trip that is being timed | `round_trip.rs` |
//! | `timer` | when something is done about data that is not acknowledged | `loss_timer.rs` |
//! | `recovery` | what is lost, and its repair | `recovery.rs`, `recovery/` |
//! | `mtu` | the search for the path's MTU | `plpmtu.rs` |
//! | `scoreboard` | the ranges in flight: when each was sent, and what became of it | `scoreboard.rs`, `scoreboard/` |
//! | `record_ends` | the ends of records in what is not acknowledged | `record_ends.rs` |

mod ack;
mod loss_timer;
mod plpmtu;
mod record_ends;
pub(crate) mod recovery;
mod round_trip;
#[allow(
    clippy::indexing_slicing,
    reason = "indices are the table's own, found by position; nothing of the wire is one"
)]
mod scoreboard;

pub(crate) use loss_timer::{LossTimer, XmitTimer};
pub(crate) use plpmtu::{MtuSearch, ProbeChoice};
pub(crate) use recovery::{AckReport, Delivery, Phase, Probe, Recovery};

use crate::congestion::CongestionState;
use crate::pos::{Pos, SYN_POS};
use crate::snd::SendSide;
use crate::time::Instant;
use crate::timers::Timers;
use crate::violation::Violation;
pub(crate) use record_ends::RecordEnds;
use round_trip::RoundTripTimer;
use scoreboard::{Scoreboard, granularity};

/// The scoreboard, loss recovery, and the round trip that is being timed.
///
/// In this order, so that the scoreboard's ranges, which the fast paths reach by an index, begin it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Flight {
    pub(crate) scoreboard: Scoreboard,
    pub(crate) round_trip: RoundTripTimer,
    /// When we last sent payload.
    pub(crate) last_sent: Instant,
    pub(crate) timer: LossTimer,
    pub(crate) recovery: Recovery,
    /// The search for the path's MTU.
    pub(crate) mtu: MtuSearch,
    pub(crate) record_ends: RecordEnds,
}

impl Flight {
    /// Nothing is in flight; the path is assumed to take segments of `path_mss` bytes.
    pub(crate) const fn new(path_mss: u16, now: Instant) -> Flight {
        Flight {
            round_trip: RoundTripTimer::new(now),
            last_sent: now,
            timer: LossTimer::new(),
            recovery: Recovery::new(),
            mtu: MtuSearch::new(path_mss),
            scoreboard: Scoreboard::new(),
            record_ends: RecordEnds::new(),
        }
    }

    /// New data up to `end`, which follows everything sent before, is sent.
    #[inline(always)]
    pub(crate) fn send(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        if !self.scoreboard.send_with_last(end, now) {
            self.send_apart(snd, end, now);
        }
    }

    /// As [`send`](Self::send), if the last range cannot be extended.
    pub(crate) fn send_apart(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        let granularity = granularity(snd.rtt.srtt().unwrap_or(0));
        self.scoreboard.send_apart(end, now, granularity);
    }

    /// As [`send_apart`](Self::send_apart), out of line.
    #[inline(never)]
    pub(crate) fn send_apart_outlined(&mut self, snd: &SendSide, end: Pos, now: Instant) {
        self.send_apart(snd, end, now);
    }

    /// See [`Tcb::check`](crate::Tcb::check).
    pub(crate) fn check(&self, snd: &SendSide) -> Result<(), Violation> {
        self.scoreboard.check(snd.una(), snd.nxt())?;
        self.round_trip.check(snd)?;
        self.recovery.check(snd.nxt())
    }

    // ---- The timer. ----

    /// Whether a tail loss probe is allowed (RFC 8985 section 7.2): no other recovery is
    /// in progress.
    #[inline(always)]
    fn may_probe(&self, snd: &SendSide) -> bool {
        snd.sack()
            && self.recovery.is_quiet()
            && !self.recovery.probe.is_outstanding()
            && self.scoreboard.sacked() == 0
            && snd.is_synchronized()
    }

    /// Data is in flight whose loss a timer must detect: restarts the retransmission
    /// timer, or the probe's instead if it is earlier.
    #[inline(never)]
    pub(crate) fn arm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        self.timer.arm_retransmit(&snd.rtt, now);
        self.arm_probe(snd, now);
    }

    /// Restarts the probe's timer, if a probe is allowed.
    pub(crate) fn arm_probe(&mut self, snd: &SendSide, now: Instant) {
        if self.may_probe(snd) {
            self.timer.arm_probe(snd, now);
        }
    }

    /// As [`arm_probe`](Self::arm_probe), out of line.
    #[inline(never)]
    pub(crate) fn arm_probe_outlined(&mut self, snd: &SendSide, now: Instant) {
        self.arm_probe(snd, now);
    }

    /// As [`arm_loss_timer`](Self::arm_loss_timer) for a predicted acknowledgment:
    /// nothing is lost, SACKed or probed for.
    #[inline(always)]
    pub(crate) fn rearm_loss_timer(&mut self, snd: &SendSide, now: Instant) {
        if !self.timer.arm_early_probe(snd, now) {
            self.arm_loss_timer(snd, now);
        }
    }

    /// The probe's timer has expired (RFC 8985 section 7.3). Returns whether a probe is
    /// to be sent.
    pub(crate) fn on_probe_timeout(&mut self, snd: &SendSide, now: Instant) -> bool {
        if snd.in_flight() == 0 {
            return false;
        }
        self.timer.arm_retransmit(&snd.rtt, now);
        let due = self.may_probe(snd);
        self.recovery.probe.due |= due;
        due
    }

    /// Nothing is outstanding: stops the retransmission timer and the user timeout (RFC
    /// 6298 section 5.2).
    #[inline(always)]
    pub(crate) fn disarm_xmit(&mut self, timers: &mut Timers) {
        self.timer.stop();
        timers.user = Instant::NEVER;
    }

    // ---- The windows. ----

    /// Bytes that may be sent before the congestion window is full.
    #[inline]
    pub(crate) fn congestion_room(&self, snd: &SendSide, congestion: &CongestionState) -> i64 {
        i64::from(congestion.controller.cwnd()) - self.pipe(snd) as i64
    }

    /// Whether the next new segment is a probe of the path's MTU; see
    /// [`MtuSearch::select_probe`]. There is none while anything is lost or probed for.
    pub(crate) fn select_mtu_probe(
        &mut self,
        snd: &SendSide,
        congestion: &CongestionState,
        extra: u16,
        now: Instant,
    ) -> ProbeChoice {
        if !self.recovery.is_quiet() {
            return ProbeChoice::None;
        }
        let (cwnd, room) = (
            congestion.controller.cwnd(),
            self.congestion_room(snd, congestion),
        );
        self.mtu
            .select_probe(snd, cwnd, room, extra, self.last_sent, now)
    }

    // ---- Another process. ----

    /// The data between SND.UNA and SND.NXT was sent by another process: it counts as
    /// retransmitted now, so that its acknowledgment gives no round-trip sample (RFC 6298
    /// section 3). A SYN was sent at `syn_at`.
    pub(crate) fn resume(&mut self, snd: &SendSide, syn_at: Instant, now: Instant) {
        let (una, nxt) = (snd.una(), snd.nxt());
        if nxt > una.max(0) {
            self.send_apart(snd, nxt, now);
            self.scoreboard.repeat(una, una, nxt, now);
        }
        if una == SYN_POS && nxt > una {
            self.round_trip.start(0, syn_at);
        }
    }
}
