//! When the peer was last heard, and how many retries have gone unanswered since.
//!
//! Owns [`Liveness`], which is part of the `Tcb`, and the rate limit of challenge ACKs (RFC
//! 5961 section 7). `input/` reports what arrives; `timeouts.rs` and `user_timeout.rs` use it
//! to decide when to abort the connection.

use crate::codec::saved_part;
use crate::config::Config;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::rtt::{MAX_RTO, MIN_VARIANCE};
use crate::snd::SendSide;
use crate::state::State;
use crate::time::{Instant, MS};
use crate::timers::Timers;

/// Minimum interval between answers to unacceptable segments without payload on a
/// connection, microseconds (Linux's tcp_invalid_ratelimit).
const CHALLENGE_INTERVAL_US: u64 = 500 * MS;

/// Times of the last activity, and counts of unanswered retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Liveness {
    /// When an acceptable segment, and when in-order payload, last arrived.
    last_ack: Instant,
    last_data: Instant,
    /// When the oldest unacknowledged data was first sent, or the window closed.
    stalled_since: Instant,
    /// When the last rate-limited acknowledgment was sent.
    last_challenge: Instant,
    /// Unanswered retransmissions of outstanding data.
    retries: u8,
    /// Unanswered keepalive probes.
    keepalive_probes: u8,
}

saved_part!(Liveness {
    saved {
        last_ack, last_data, stalled_since, last_challenge, retries, keepalive_probes,
    }
});

/// How long it takes until so many retransmissions have gone unanswered with the shortest
/// timeout, microseconds.
fn shortest_r2(retries: u8) -> u64 {
    let timeouts = (0..=retries).map(|backoff| (MIN_VARIANCE << backoff.min(20)).min(MAX_RTO));
    timeouts.sum()
}

impl Liveness {
    /// The state of a new connection.
    pub(crate) const fn new(now: Instant) -> Liveness {
        Liveness {
            last_ack: now,
            last_data: now,
            stalled_since: now,
            last_challenge: Instant::NEVER,
            retries: 0,
            keepalive_probes: 0,
        }
    }

    /// When an acceptable segment last arrived.
    #[inline(always)]
    pub(crate) const fn last_ack(&self) -> Instant {
        self.last_ack
    }

    /// When in-order payload last arrived.
    #[inline(always)]
    pub(crate) const fn last_data(&self) -> Instant {
        self.last_data
    }

    /// When the oldest unacknowledged data was first sent, or the window closed.
    #[inline(always)]
    pub(crate) const fn stalled_since(&self) -> Instant {
        self.stalled_since
    }

    /// When the last rate-limited acknowledgment was sent.
    #[inline(always)]
    pub(crate) const fn last_challenge(&self) -> Instant {
        self.last_challenge
    }

    /// Unanswered retransmissions of outstanding data.
    #[inline(always)]
    pub(crate) const fn retries(&self) -> u8 {
        self.retries
    }

    /// Unanswered keepalive probes.
    #[inline(always)]
    pub(crate) const fn keepalive_probes(&self) -> u8 {
        self.keepalive_probes
    }

    /// When anything was last received from the peer.
    pub(crate) fn last_received(&self) -> Instant {
        self.last_ack.max(self.last_data)
    }

    /// An acceptable segment has arrived.
    #[inline(always)]
    pub(crate) fn note_segment(&mut self, now: Instant) {
        self.last_ack = now;
        self.keepalive_probes = 0;
    }

    /// In-order payload has arrived.
    #[inline(always)]
    pub(crate) fn note_data(&mut self, now: Instant) {
        self.last_data = now;
    }

    /// The peer has made progress: resets the count of retries.
    #[inline(always)]
    pub(crate) fn note_progress(&mut self) {
        self.retries = 0;
    }

    /// Outstanding data will be retransmitted, or the window probed.
    pub(crate) fn note_retry(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }

    /// Whether R2 (RFC 9293 section 3.8.3) is reached for what is outstanding: so many
    /// retries have gone unanswered, or one at least and the time has passed that so many
    /// would take with the shortest timeout. Linux turns the number into that time, too
    /// (15 into 924.6 s, 8 into 102.2 s); by the number alone, a connection whose timeout
    /// has grown to two minutes would last half an hour.
    pub(crate) fn has_reached_r2(&self, limit: u8, now: Instant) -> bool {
        let passed = now.since(self.stalled_since);
        self.retries >= limit || (self.retries > 0 && passed >= shortest_r2(limit))
    }

    /// A keepalive probe will be sent.
    pub(crate) fn note_probe(&mut self) {
        self.keepalive_probes = self.keepalive_probes.saturating_add(1);
    }

    /// Resets the count of keepalive probes.
    pub(crate) fn reset_probes(&mut self) {
        self.keepalive_probes = 0;
    }

    /// Data is outstanding, or waits for the window, since `now`.
    #[inline(always)]
    pub(crate) fn set_stalled_since(&mut self, now: Instant) {
        self.stalled_since = now;
    }

    /// A rate-limited acknowledgment is sent, or was sent, at `at`.
    pub(crate) fn note_challenge(&mut self, at: Instant) {
        self.last_challenge = at;
    }

    /// Starts the keepalive timer, if keepalive is enabled.
    pub(crate) fn arm_keepalive(
        &mut self,
        timers: &mut Timers,
        cfg: &Config,
        state: State,
        now: Instant,
    ) {
        let k = cfg.keepalive;
        self.reset_probes();
        timers.keepalive = if k.enabled && state.is_synchronized() {
            now.after_ms(u64::from(k.idle_ms))
        } else {
            Instant::NEVER
        };
    }

    /// The peer has answered, and nothing is in flight or its window is closed. RFC 9293
    /// section 3.8.6.1: while probes of a closed window are answered, the connection is
    /// kept, unless no program holds it any more.
    #[inline]
    pub(crate) fn note_answered(&mut self, snd: &mut SendSide, flags: Flags) {
        if snd.wnd() > 0 {
            snd.rtt.clear_backoff();
        }
        if !flags.contains(Flags::ORPHAN) {
            self.note_progress();
        }
    }

    /// Whether there are retries that [`note_answered`](Liveness::note_answered) would
    /// reset.
    #[inline]
    pub(crate) fn has_retried(&self, snd: &SendSide) -> bool {
        self.retries() != 0 || snd.rtt.backoff() != 0
    }

    /// New data was acknowledged: the peer answers, and the path works.
    #[inline(always)]
    pub(crate) fn note_acknowledged(&mut self, snd: &mut SendSide, outcome: &mut Outcome) {
        self.note_progress();
        outcome.clear_soft_error();
        snd.rtt.clear_backoff();
    }

    /// Whether the rate limit allows an answer to an unacceptable segment now, which is then
    /// counted.
    pub(crate) fn may_challenge(&mut self, now: Instant) -> bool {
        let last = self.last_challenge();
        let may = last.is_never() || now.since(last) >= CHALLENGE_INTERVAL_US;
        if may {
            self.note_challenge(now);
        }
        may
    }
}

#[cfg(test)]
mod tests;
