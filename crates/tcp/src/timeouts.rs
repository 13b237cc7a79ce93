//! Handling of expired deadlines.
//!
//! Owns [`Tcb::deadline`], which the engine reads after each burst, and
//! [`Tcb::on_timer`], which it calls once that has passed; an early call does nothing.
//! [`Timeouts`] has what is done about a peer that does not answer.
//! The deadlines themselves are in `timers.rs` and `flight/loss_timer.rs`.

use crate::accounting::Accounting;
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::events::{Error, Events};
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::{Flight, XmitTimer};
use crate::liveness::Liveness;
use crate::snd::SendSide;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::{Instant, MS};
use crate::timers::{RunningTimer, Timers};

impl Tcb {
    /// The running timer and when it expires. Retransmission and persist timers take
    /// precedence over the timer that ends the connection, and that over keepalive.
    #[must_use]
    pub fn running_timer(&self) -> Option<(RunningTimer, Instant)> {
        let t = &self.timers;
        let xmit = match self.flight.timer.kind() {
            XmitTimer::Persist => RunningTimer::Persist,
            XmitTimer::Retransmit | XmitTimer::Probe | XmitTimer::Reorder => {
                RunningTimer::Retransmission
            }
        };
        [
            (xmit, self.flight.timer.at()),
            (RunningTimer::TimeWait, t.state),
            (RunningTimer::Keepalive, t.keepalive),
        ]
        .into_iter()
        .find(|(_, at)| !at.is_never())
    }

    /// The earliest deadline: call [`Tcb::on_timer`] when it has passed. `None` if
    /// nothing is to be done without a segment or a call.
    #[inline(always)]
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let t = &self.timers;
        let next = self
            .flight
            .timer
            .at()
            .min(t.ack)
            .min(t.keepalive)
            .min(t.state)
            .min(t.user)
            .min(t.hold)
            .min(t.pace);
        (!next.is_never()).then_some(next)
    }

    /// Handles every deadline that has passed. Afterwards `poll_transmit` and
    /// `take_events` may return something.
    pub fn on_timer(&mut self, now: Instant) {
        if let Err(Unanswered) = self.on_deadlines(now) {
            self.closing().on_unanswered();
        }
        self.debug_check();
    }

    fn on_deadlines(&mut self, now: Instant) -> Result<(), Unanswered> {
        if self.timers.ack.take_due(now) && self.flags.contains(Flags::ACK_OWED) {
            // The acknowledgment was delayed for the full time. There was no response to
            // carry it, so the connection is not interactive.
            self.flags.remove(Flags::INTERACTIVE);
            self.flags |= Flags::ACK_NOW;
        }
        if self.timers.hold.take_due(now) {
            self.flags |= Flags::FORCE_SMALL;
            self.snd.set_push();
        }
        // `poll_transmit` itself checks the pacing.
        self.timers.pace.take_due(now);
        if self.timers.user.take_due(now) {
            return Err(Unanswered);
        }
        if self.flight.timer.take_due(now) {
            self.timeouts().on_loss_timer(now)?;
            self.predict_next();
        }
        if self.timers.keepalive.take_due(now) && self.timeouts().on_keepalive(now).is_err() {
            self.closing().reset(Error::TimedOut, Events::TIMED_OUT);
        }
        if self.timers.state.take_due(now) {
            self.closing().on_state_timeout();
        }
        Ok(())
    }

    /// What the timers of an unanswered peer change.
    fn timeouts(&mut self) -> Timeouts<'_> {
        Timeouts {
            cfg: &self.cfg,
            state: self.state,
            flags: &mut self.flags,
            snd: &mut self.snd,
            flight: &mut self.flight,
            congestion: &mut self.congestion,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            fast_open: &mut self.fast_open,
            accounting: &mut self.accounting,
        }
    }
}

/// The peer has not answered for as long as it may take (RFC 9293 section 3.8.3, R2).
#[derive(Debug, PartialEq, Eq)]
struct Unanswered;

/// What is done when a peer does not answer: retransmissions and probes, or the end.
struct Timeouts<'t> {
    cfg: &'t Config,
    state: State,
    flags: &'t mut Flags,
    snd: &'t mut SendSide,
    flight: &'t mut Flight,
    congestion: &'t mut CongestionState,
    liveness: &'t mut Liveness,
    timers: &'t mut Timers,
    fast_open: &'t mut FastOpen,
    accounting: &'t mut Accounting,
}

impl Timeouts<'_> {
    /// The timer for outstanding data, or for data that waits for the window, has expired.
    fn on_loss_timer(&mut self, now: Instant) -> Result<(), Unanswered> {
        match self.flight.timer.kind() {
            XmitTimer::Retransmit => self.on_retransmission(now)?,
            XmitTimer::Persist => self.on_persist(now)?,
            XmitTimer::Probe => {
                let due = self.flight.on_probe_timeout(self.snd, now);
                self.accounting.counters.probes += u32::from(due);
            }
            XmitTimer::Reorder => self
                .flight
                .on_reorder_timeout(self.snd, self.congestion, now),
        }
        Ok(())
    }

    /// RFC 6298 sections 5.4 to 5.6: retransmit the earliest segment, back off, restart
    /// the timer.
    fn on_retransmission(&mut self, now: Instant) -> Result<(), Unanswered> {
        if self.snd.in_flight() == 0 && !self.state.is_opening() {
            return Ok(());
        }
        let hopeless = match self.state {
            State::SynSent => self.liveness.retries() >= self.cfg.retries.syn,
            State::SynReceived => self.liveness.retries() >= self.cfg.retries.syn_ack,
            // RFC 5482 section 3 and Linux: a user timeout replaces R2.
            _ if self.cfg.user_timeout_ms != 0 => false,
            _ => self
                .liveness
                .has_reached_r2(retry_limit(self.cfg, *self.flags), now),
        };
        if hopeless {
            return Err(Unanswered);
        }
        self.liveness.note_retry();
        self.accounting.counters.timeouts = self.accounting.counters.timeouts.saturating_add(1);
        self.accounting.begin_timeout_recovery(self.flags, now);
        self.flight.round_trip.cancel(self.congestion);
        if self.state.is_opening() {
            *self.flags |= Flags::SYN_DUE | Flags::SYN_RETRANSMITTED;
            self.fast_open.fall_back();
        } else {
            self.flight
                .enter_loss(self.snd, self.congestion, self.liveness.retries(), now);
            let (ipv6, retries) = (self.cfg.ipv6, self.liveness.retries());
            if self.cfg.mtu_probing
                && self
                    .flight
                    .suspect_black_hole(self.snd, self.congestion, ipv6, retries, now)
            {
                let counters = &mut self.accounting.counters;
                counters.black_holes = counters.black_holes.wrapping_add(1);
            }
        }
        self.snd.rtt.back_off();
        self.flight.timer.arm_retransmit(&self.snd.rtt, now);
        Ok(())
    }

    /// RFC 9293 section 3.8.6.1: probe a closed window, at intervals that double, for as
    /// long as the peer answers.
    fn on_persist(&mut self, now: Instant) -> Result<(), Unanswered> {
        if self.snd.in_flight() > 0 || self.snd.nxt() >= self.snd.end() {
            return Ok(());
        }
        let limit = retry_limit(self.cfg, *self.flags);
        // Answers keep the connection, however long the window is closed, unless no program
        // holds it any more.
        let hopeless = match self.flags.contains(Flags::ORPHAN) {
            true => self.liveness.has_reached_r2(limit, now),
            false => self.liveness.retries() >= limit,
        };
        if hopeless {
            return Err(Unanswered);
        }
        self.liveness.note_retry();
        // A window that is open but too small is used now; a closed one is probed.
        if self.snd.wnd_edge() > self.snd.nxt() {
            *self.flags |= Flags::FORCE_SMALL;
        } else {
            *self.flags |= Flags::PROBE_DUE;
            if self.flags.contains(Flags::URGENT) {
                // The peer does not accept a probe, so its urgent pointer is ignored; the
                // peer does accept an acknowledgment (as Linux sends it).
                *self.flags |= Flags::ACK_NOW;
            }
        }
        self.snd.rtt.back_off();
        self.flight.timer.arm_persist(&self.snd.rtt, now);
        Ok(())
    }

    /// RFC 9293 section 3.8.4: keepalive probes, only on an idle connection.
    fn on_keepalive(&mut self, now: Instant) -> Result<(), Unanswered> {
        let k = self.cfg.keepalive;
        if !k.enabled || !self.state.is_synchronized() || self.state == State::TimeWait {
            return Ok(());
        }
        let interval = u64::from(k.interval_ms.max(1)) * MS;
        let idle = u64::from(k.idle_ms) * MS;
        let last_received = self.liveness.last_received();
        if self.snd.in_flight() > 0 || self.snd.nxt() < self.snd.end() {
            // Retransmission or window probes detect a dead peer as well.
            self.timers.keepalive = now.after_us(idle.max(interval));
            return Ok(());
        }
        if now.since(last_received) < idle {
            self.timers.keepalive = last_received.after_us(idle);
            return Ok(());
        }
        let idle_for = now.since(last_received);
        let user_timeout = u64::from(self.cfg.user_timeout_ms) * MS;
        // RFC 5482 section 4.2 and Linux: a user timeout replaces the count.
        let dead = if user_timeout > 0 {
            idle_for >= user_timeout && self.liveness.keepalive_probes() > 0
        } else {
            self.liveness.keepalive_probes() >= k.probes
        };
        if dead {
            return Err(Unanswered);
        }
        self.liveness.note_probe();
        *self.flags |= Flags::PROBE_DUE;
        self.timers.keepalive = now.after_us(interval);
        Ok(())
    }
}

/// The most retransmissions before the connection is aborted.
fn retry_limit(cfg: &Config, flags: Flags) -> u8 {
    if flags.contains(Flags::ORPHAN) {
        cfg.retries.orphan
    } else {
        cfg.retries.data
    }
}

#[cfg(test)]
mod tests;
