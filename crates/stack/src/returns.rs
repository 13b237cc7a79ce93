//! Chunks of send streams that are done with, taken back from hosts that do not write.
//!
//! A host gives the chunks of what is acknowledged back when it next writes, which costs
//! nothing extra. A connection that has become quiet would keep its last chunk for as long
//! as it is: so the engine takes that, when nothing was written for a while. It holds no
//! lock for it and waits for nobody: `longshore_ring::Offer` says how. Owns [`Returns`], which
//! each session has, and what of a socket says that it is done with; `quiet` takes them back.

use crate::reported::Reported;
use longshore_tcp::Instant;

/// How long the end of a send stream must have been quiet, in microseconds. After the same
/// time the host is told of acknowledgments that nobody waits for.
pub(crate) const QUIET_US: u64 = 100_000;
/// Chunks of a session that are taken back in one turn, about: a host may say of each of its
/// sockets that it has a whole directory of them.
const CHUNKS_A_TURN: u32 = 1024;
/// What is more than that has its turn after this time, in microseconds.
pub(crate) const LATER_US: u64 = 10_000;

/// How many chunks were taken back in a turn.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    turn: u64,
    pub(crate) chunks: u32,
}

impl Returns {
    /// Whether there may be more in this turn.
    pub(crate) fn may_go_on(&mut self, turn: u64) -> bool {
        if self.turn != turn {
            *self = Self { turn, chunks: 0 };
        }
        self.chunks < CHUNKS_A_TURN
    }
}

impl Reported {
    /// When the chunks of a send stream are to be taken back that reaches to `edge` and of
    /// which all up to `done` is: never if it has none, or is not done with them.
    #[inline]
    pub(crate) fn returns_at(&self, done: u64, edge: u64, now: Instant) -> Instant {
        if done == edge && edge > self.returned {
            now.after_us(QUIET_US)
        } else {
            Instant::NEVER
        }
    }
}
