//! Chunks of send streams that are done with, taken back from hosts that do not write.
//!
//! A host gives the chunks of what is acknowledged back when it next writes, which costs
//! nothing extra. A connection that has become quiet would keep its last chunk for as long
//! as it is: so the engine takes that, when nothing was written for a while. It holds no
//! lock for it and waits for nobody: `longshore_ring::Offer` says how. Owns [`Returns`], which
//! each session has, and what of a socket says that it is done with; `quiet` takes them back.

use crate::reported::Reported;
use crate::socket::{Kind, Socket};
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

impl Socket {
    /// What its host was told, and how far that has written, if all of it is done with.
    pub(crate) fn finished(&mut self) -> Option<(&mut Reported, u64)> {
        let (reported, done, edge) = match &mut self.kind {
            Kind::Stream(c) => (&mut c.reported, c.tcb.snd_acked(), c.tcb.snd_edge()),
            Kind::Pair(p) => (&mut p.reported, p.snd.done(), p.snd.edge()),
            Kind::Datagram(d) => (&mut d.reported, d.snd_done, d.snd_edge),
            Kind::Listener(_) | Kind::Idle(_) => return None,
        };
        (done == edge).then_some((reported, edge))
    }

    /// What its host was told, if it has a send stream.
    pub(crate) fn reported(&self) -> Option<&Reported> {
        match &self.kind {
            Kind::Stream(c) => Some(&c.reported),
            Kind::Pair(p) => Some(&p.reported),
            Kind::Datagram(d) => Some(&d.reported),
            Kind::Listener(_) | Kind::Idle(_) => None,
        }
    }

    /// It is to be looked at again at `at`, or not.
    pub(crate) fn look_again(&mut self, at: Instant) {
        match &mut self.kind {
            Kind::Stream(c) => c.report_due = at,
            Kind::Pair(p) => p.waits.set_report_due(at),
            Kind::Datagram(d) => d.report_due = (!at.is_never()).then_some(at),
            Kind::Listener(_) | Kind::Idle(_) => {}
        }
    }
}
