//! What is in flight: when each stretch was sent, what became of it, and the repair of
//! what was lost.
//!
//! Owns [`Flight`], which `tcb.rs` keeps. Output tells it what goes out, `input/ack.rs`
//! what comes back. All of it may be forgotten: what is outstanding then counts as lost.

use crate::recovery::Recovery;
use crate::scoreboard::Scoreboard;
use crate::tcb::{NO_POS, Pos};
use crate::time::Instant;

/// The scoreboard, loss repair, and the round trip that is being timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    /// An acknowledgment of this position ends the timed round trip; `NO_POS` if none
    /// is timed.
    pub(crate) timed: Pos,
    pub(crate) timed_at: Instant,
    pub(crate) recovery: Recovery,
    pub(crate) scoreboard: Scoreboard,
}

impl Flight {
    /// Nothing is in flight.
    pub(crate) const fn new(now: Instant) -> Flight {
        Flight {
            timed: NO_POS,
            timed_at: now,
            recovery: Recovery::new(),
            scoreboard: Scoreboard::new(),
        }
    }
}
