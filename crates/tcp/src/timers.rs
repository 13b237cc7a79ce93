//! Deadlines of a connection.
//!
//! Owns [`Timers`]: one deadline for each purpose, which is overwritten rather than
//! re-armed. `timeouts.rs` handles expired ones; the first one of the table is in
//! `flight/loss_timer.rs`.
//!
//! | deadline | purpose |
//! | --- | --- |
//! | `xmit` | retransmission (RFC 6298), the timers before it (RFC 8985), or probing of a closed window |
//! | `ack` | the delayed acknowledgment (RFC 9293 section 3.8.6.3) |
//! | `keepalive` | probing of an idle connection (RFC 9293 section 3.8.4) |
//! | `state` | the end of TIME-WAIT, or of an orphan's FIN-WAIT-2 |
//! | `user` | the user timeout (RFC 9293 section 3.8.3) |
//! | `hold` | the end of the time for which a cork holds data |
//! | `pace` | when data held back by pacing may be sent |

use crate::codec::saved_part;
use crate::config::Config;
use crate::time::{Instant, MS, SECOND};

/// How long a cork may hold a small segment back, as in Linux.
pub(crate) const CORK_US: u64 = 200 * MS;

/// Duration of TIME-WAIT: twice an MSL of 30 s, as in Linux (RFC 9293 section 3.4.2
/// assumes an MSL of 2 minutes).
pub(crate) const TIME_WAIT_US: u64 = 60 * SECOND;

/// The deadlines of a connection; `Instant::NEVER` if off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timers {
    pub(crate) ack: Instant,
    pub(crate) keepalive: Instant,
    pub(crate) state: Instant,
    pub(crate) user: Instant,
    pub(crate) hold: Instant,
    pub(crate) pace: Instant,
}

saved_part!(Timers {
    saved {
        keepalive, state,
    }
    rebuilt {
        ack: Instant::NEVER,
        user: Instant::NEVER,
        hold: Instant::NEVER,
        pace: Instant::NEVER,
    }
});

impl Timers {
    pub(crate) const fn new() -> Timers {
        Timers {
            ack: Instant::NEVER,
            keepalive: Instant::NEVER,
            state: Instant::NEVER,
            user: Instant::NEVER,
            hold: Instant::NEVER,
            pace: Instant::NEVER,
        }
    }

    /// Bounds the time for which an orphan waits for the peer's FIN (TCP_LINGER2).
    pub(crate) fn start_fin_wait(&mut self, cfg: &Config, now: Instant) {
        self.state = now.after_ms(u64::from(cfg.fin_wait_ms));
    }
}

/// The timers that are reported to users, as in `ss -o`. The timers that delay an
/// acknowledgment, a small segment or a paced one are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningTimer {
    /// Retransmission, or the timers before it.
    Retransmission,
    /// Probing of a closed window.
    Persist,
    /// Probing of an idle connection.
    Keepalive,
    /// The end of TIME-WAIT, or of an orphan's FIN-WAIT-2.
    TimeWait,
}

impl RunningTimer {
    /// Its name in the output of `ss -o`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RunningTimer::Retransmission => "on",
            RunningTimer::Persist => "persist",
            RunningTimer::Keepalive => "keepalive",
            RunningTimer::TimeWait => "timewait",
        }
    }
}
