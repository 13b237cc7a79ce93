//! What the host of a socket has written: how far, with what marks in it, and whether all of it is
//! done with.
//!
//! Called by `requests` for what is written, by `quiet` for chunks that go back, and as the socket
//! is closed.

use crate::reported::Reported;
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Options, Socket};
use longshore_hostif::FileExtent;
use longshore_hostif::adapter::Immediate;
use longshore_tcp::{Linger, State};

impl Socket {
    /// How far its host has written, as far as is known here.
    pub(crate) fn snd_edge(&self) -> u64 {
        match &self.kind {
            Kind::Stream(c) => c.tcb.snd_edge(),
            Kind::Pair(p) => p.snd.edge(),
            Kind::Datagram(d) => d.snd_edge,
            Kind::Listener(_) | Kind::Idle(_) => 0,
        }
    }

    /// What came with a move of edges is looked for there, as far as it was not written before:
    /// of that, its chunks may be another's by now.
    #[inline]
    pub(crate) fn keep_immediate(&mut self, immediate: &Immediate) {
        if !immediate.is_empty() {
            self.immediate = immediate.beyond(self.snd_edge());
        }
    }

    /// What the host has written up to `edge` ends with bytes of a file.
    pub(crate) fn note_extent(&mut self, extent: &FileExtent, edge: u64) {
        if let Kind::Stream(c) = &mut self.kind {
            c.fetched.note_range(extent, edge);
        }
    }

    /// What the host has written up to `edge` ends with an urgent byte.
    pub(crate) fn host_urgent(&mut self, edge: u64) {
        match &mut self.kind {
            Kind::Stream(c) => c.tcb.send_stream().set_urgent(edge),
            Kind::Pair(p) => p.snd.set_urgent(edge),
            _ => {}
        }
    }

    /// What the host has written up to `edge` ends with a record; whether that could be noted.
    /// Between two of our own no segments are, and nothing is to be kept apart.
    #[cold]
    pub(crate) fn host_record_end(&mut self, edge: u64) -> bool {
        match &mut self.kind {
            Kind::Stream(c) => c.tcb.send_stream().end_record(edge),
            _ => true,
        }
    }

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
