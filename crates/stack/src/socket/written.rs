//! What the host of a socket has written, and whether all of it is done with.
//!
//! Called by `requests` for what is written, and as the socket is closed.

use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Options, Socket};
use longshore_hostif::adapter::Immediate;
use longshore_tcp::{Linger, State};

impl Socket {
    /// What came with a move of edges is looked for there, as far as it was not written before:
    /// of that, its chunks may be another's by now.
    #[inline]
    pub(crate) fn keep_immediate(&mut self, immediate: &Immediate) {
        if !immediate.is_empty() {
            self.immediate = immediate.beyond(self.kind.snd_edge());
        }
    }

    /// Whether it is a connection that has not yet delivered all that was written, with the end.
    pub(crate) fn has_undelivered(&self) -> bool {
        let is_delivered = |c: &Connection| {
            let state = c.tcb.state();
            self.orphan && matches!(state, State::FinWait2 | State::TimeWait | State::Closed)
        };
        matches!(&self.kind, Kind::Stream(c) if !is_delivered(c))
    }

    /// What closing it does by what its program has noted; nobody waits for it.
    pub(crate) fn linger_noted(&self, sessions: &Sessions) -> Linger {
        let session = sessions.get(self.session).filter(|_| self.has_block());
        Options::linger(session.and_then(|s| s.host.blocks().linger_noted(self.id)))
    }
}
