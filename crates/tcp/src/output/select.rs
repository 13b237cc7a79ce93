//! Selection of what to send next: a retransmission, or new data, and how much of it.
//!
//! Owns [`Selection`], which `output/mod.rs` and `output/fast_path.rs` ask. It applies the
//! congestion window, the peer's window, Nagle's algorithm and the size of a segment; when
//! there is data but none may be sent, it ensures that a timer runs.

use crate::accounting::Accounting;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::state::State;
use crate::time::Instant;
use crate::timers::{CORK_US, Timers};

/// What decides what is sent next. When there is data but none may be sent, it starts a
/// timer.
pub(super) struct Selection<'t> {
    pub(super) cfg: &'t Config,
    pub(super) state: State,
    pub(super) flags: &'t mut Flags,
    pub(super) snd: &'t SendSide,
    pub(super) flight: &'t mut Flight,
    pub(super) congestion: &'t mut CongestionState,
    pub(super) liveness: &'t mut Liveness,
    pub(super) timers: &'t mut Timers,
    pub(super) outcome: &'t Outcome,
    pub(super) accounting: &'t mut Accounting,
    pub(super) reassembly: &'t Reassembly,
}

impl Selection<'_> {
    /// Bytes of payload taken up by options that only some segments carry.
    #[inline(always)]
    pub(super) fn extra_len(&self) -> u16 {
        self.reassembly.extra_len_due(self.snd, *self.flags)
    }

    /// The payload of one packet of the next segment, bytes.
    #[inline(always)]
    pub(super) fn packet_payload(&self) -> i64 {
        i64::from(self.snd.mss() - self.extra_len())
    }

    /// The range to retransmit now, FIN included.
    pub(super) fn retransmission(&mut self, max_payload: usize) -> Option<(Pos, Pos)> {
        let (start, end) = self
            .flight
            .recovery
            .next_retransmission(&self.flight.scoreboard, self.snd)?;
        let mss = self.packet_payload();
        let forced = self.flight.recovery.forced;
        let len = (end - start).min(max_payload as i64);
        let mut len = self.flight.record_ends.within(*self.flags, start, len);
        if forced {
            len = len.min(mss);
        } else {
            let room = self.flight.congestion_room(self.snd, self.congestion);
            if room < len.min(mss) {
                return None;
            }
            len = len.min(room);
        }
        // The window may have shrunk since (or was not known yet, RFC 7413): if nothing
        // fits, the first segment is sent as a probe when a timer has expired.
        let window = self.snd.wnd_edge() - start;
        if len > window {
            len = if start == self.snd.una() && window <= 0 && forced {
                len.min(mss)
            } else {
                window
            };
        }
        if len > mss {
            len -= len % mss;
        }
        (len > 0).then_some((start, start + len))
    }

    /// The range of new data to send now, FIN included.
    #[inline(always)]
    pub(super) fn new_data(&mut self, now: Instant, max_payload: usize) -> Option<(Pos, Pos)> {
        let start = self.snd.nxt();
        if start >= self.snd.end() {
            return None;
        }
        if self.snd.in_flight() == 0 {
            self.restart_after_idle(now);
        }
        let max_payload = if self.congestion.pacer.is_on() {
            max_payload
        } else {
            self.congestion
                .batch_payload(self.snd, self.cfg.burst.min_batch, max_payload)
        };
        let chosen = self.choose_new(start, max_payload as i64, now);
        if chosen.is_none() && self.snd.in_flight() == 0 {
            self.wait_for_user_or_window(now);
        }
        chosen
    }

    #[inline(always)]
    fn choose_new(&mut self, start: Pos, max_payload: i64, now: Instant) -> Option<(Pos, Pos)> {
        let window = self.snd.wnd_edge() - start;
        let written = self.snd.edge() - start;
        if written == 0 {
            // No FIN before the handshake is complete, though data may be sent (RFC
            // 7413).
            if self.state.is_opening() {
                return None;
            }
            // The FIN alone takes one byte of the window (RFC 9293 section 3.4); like
            // Linux we ignore the congestion window for it.
            return (window > 0).then_some((start, start + 1));
        }
        let available = self.flight.record_ends.within(*self.flags, start, written);
        let mss = self.packet_payload();
        let mut room = self.flight.congestion_room(self.snd, self.congestion);
        if self.flight.recovery.probe.due {
            // RFC 8985 section 7.3: a probe may exceed the congestion window.
            room = room.max(mss);
        }
        let mut len = available.min(window).min(max_payload);
        if room < len {
            self.congestion.note_full(self.snd.nxt());
            if room < mss.min(len) {
                return None;
            }
            len = room;
        }
        if len <= 0 {
            self.accounting.begin_window_limit(self.flags, now);
            return None;
        }
        let tail = len % mss;
        let ends_record = len == available && available < written;
        // Nothing is added to a record that another one follows.
        if tail != 0 && !ends_record {
            let whole = len - tail;
            let may_send_tail = if len == available || (len == window && whole == 0) {
                self.may_send_tail(start + len, len < available, now)
            } else {
                // A port that takes less than a packet.
                whole == 0
            };
            if !may_send_tail {
                len = whole;
            }
        }
        if len == 0 {
            return None;
        }
        let mut end = start + len;
        let ends = end == self.snd.edge() && self.snd.fin();
        if ends && window > len && !self.state.is_opening() {
            end += 1;
        }
        Some((start, end))
    }

    /// Whether less than a full packet is sent, up to `end`. A segment cut short by the
    /// congestion window or by its maximum size waits for a full packet; one cut short by the
    /// user or, if `by_window`, by the peer's window is subject to Nagle's algorithm and silly
    /// window avoidance.
    #[inline(always)]
    fn may_send_tail(&mut self, end: Pos, by_window: bool, now: Instant) -> bool {
        let may = self
            .snd
            .may_send_small(self.outcome, self.cfg, *self.flags, end, by_window);
        if by_window && !may {
            self.accounting.begin_window_limit(self.flags, now);
        }
        may
    }

    /// RFC 5681 section 4.1: after more than an RTO without sending, the restart window
    /// applies.
    #[inline(always)]
    fn restart_after_idle(&mut self, now: Instant) {
        if now.since(self.flight.last_sent) > self.snd.rtt.rto()
            && self.cfg.burst.slow_start_after_idle
        {
            self.congestion.controller.on_idle();
            self.flight.last_sent = now;
        }
    }

    /// Nothing is in flight and nothing may be sent: the data waits for the user (cork)
    /// or for the peer's window, which is probed (RFC 9293 section 3.8.6.1).
    #[inline(always)]
    fn wait_for_user_or_window(&mut self, now: Instant) {
        self.accounting.begin_waiting(self.flags, now);
        if self.snd.wnd_edge() > self.snd.nxt() && self.snd.is_corked(self.cfg) {
            if self.timers.hold.is_never() {
                self.timers.hold = now.after_us(CORK_US);
            }
            return;
        }
        if !self.flight.timer.is_running() {
            self.flight.timer.arm_persist(&self.snd.rtt, now);
            self.liveness.arm_user_timeout(self.timers, self.cfg, now);
        }
    }
}
