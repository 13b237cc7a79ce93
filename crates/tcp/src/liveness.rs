//! When the two ends last heard of each other, and how often we have asked since.
//!
//! Owns [`Liveness`], which `tcb.rs` keeps; `timers.rs` and `user_timeout.rs` decide by it
//! when a peer is given up.

use crate::time::Instant;

/// The connection's last signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Liveness {
    /// When an acceptable segment, and when payload in order, came last.
    pub(crate) last_ack: Instant,
    pub(crate) last_data: Instant,
    /// When the oldest unacknowledged thing was first sent, or the window closed.
    pub(crate) stalled_since: Instant,
    /// When the last rate-limited acknowledgment went out.
    pub(crate) last_challenge: Instant,
    /// Unanswered repetitions of whatever is outstanding.
    pub(crate) retries: u8,
    /// Unanswered keepalive probes.
    pub(crate) keepalive_probes: u8,
}

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
}
