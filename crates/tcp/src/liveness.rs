//! When the two ends last heard of each other, and how often we have asked since.
//!
//! Owns [`Liveness`], which `tcb.rs` keeps; `timeouts.rs` and `user_timeout.rs` decide by it
//! when a peer is given up.

use crate::codec::saved_part;
use crate::config::Config;
use crate::state::State;
use crate::time::Instant;
use crate::timers::Timers;

/// The connection's last signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Liveness {
    /// When an acceptable segment, and when payload in order, came last.
    last_ack: Instant,
    last_data: Instant,
    /// When the oldest unacknowledged thing was first sent, or the window closed.
    stalled_since: Instant,
    /// When the last rate-limited acknowledgment went out.
    last_challenge: Instant,
    /// Unanswered repetitions of whatever is outstanding.
    retries: u8,
    /// Unanswered keepalive probes.
    keepalive_probes: u8,
}

saved_part!(Liveness {
    saved {
        last_ack, last_data, stalled_since, last_challenge, retries, keepalive_probes,
    }
});

impl Liveness {
    /// A connection begins.
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
    /// When an acceptable segment came last.
    #[inline(always)]
    pub(crate) const fn last_ack(&self) -> Instant {
        self.last_ack
    }

    /// When payload came in order last.
    #[inline(always)]
    pub(crate) const fn last_data(&self) -> Instant {
        self.last_data
    }

    /// When the oldest unacknowledged thing was first sent, or the window closed.
    #[inline(always)]
    pub(crate) const fn stalled_since(&self) -> Instant {
        self.stalled_since
    }

    /// When the last rate-limited acknowledgment went out.
    #[inline(always)]
    pub(crate) const fn last_challenge(&self) -> Instant {
        self.last_challenge
    }

    /// Unanswered repetitions of whatever is outstanding.
    #[inline(always)]
    pub(crate) const fn retries(&self) -> u8 {
        self.retries
    }

    /// Unanswered keepalive probes.
    #[inline(always)]
    pub(crate) const fn keepalive_probes(&self) -> u8 {
        self.keepalive_probes
    }

    /// When anything was heard of the peer last.
    pub(crate) fn last_heard(&self) -> Instant {
        self.last_ack.max(self.last_data)
    }

    /// An acceptable segment has come.
    #[inline(always)]
    pub(crate) fn heard(&mut self, now: Instant) {
        self.last_ack = now;
        self.keepalive_probes = 0;
    }

    /// Payload has come in order.
    #[inline(always)]
    pub(crate) fn got_data(&mut self, now: Instant) {
        self.last_data = now;
    }

    /// What counted attempts is over.
    #[inline(always)]
    pub(crate) fn note_progress(&mut self) {
        self.retries = 0;
    }

    /// What is outstanding is going to be repeated, or the window probed.
    pub(crate) fn note_retry(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }

    /// A keepalive probe is going to be sent.
    pub(crate) fn note_probe(&mut self) {
        self.keepalive_probes = self.keepalive_probes.saturating_add(1);
    }

    /// Keepalive probes are counted anew.
    pub(crate) fn forget_probes(&mut self) {
        self.keepalive_probes = 0;
    }

    /// What is outstanding, or waits for the window, does so from now on.
    #[inline(always)]
    pub(crate) fn stall_from(&mut self, now: Instant) {
        self.stalled_since = now;
    }

    /// A rate-limited acknowledgment goes out, or went out then.
    pub(crate) fn challenged(&mut self, at: Instant) {
        self.last_challenge = at;
    }

    /// Starts the keepalive timer, if wanted.
    pub(crate) fn arm_keepalive(
        &mut self,
        timers: &mut Timers,
        cfg: &Config,
        state: State,
        now: Instant,
    ) {
        let k = cfg.keepalive;
        self.forget_probes();
        timers.keepalive = if k.enabled && state.is_synchronized() {
            now.after_ms(u64::from(k.idle_ms))
        } else {
            Instant::NEVER
        };
    }
}
