//! The sockets of a stack, the connections that are to become some, the tables that find both, and
//! the sessions that they belong to.
//!
//! Owns [`Endpoints`]. The four name each other by keys: a session's block has the key of its
//! socket, a table that of the socket or half-open connection of a flow, a half-open connection that
//! of its listener. So they are changed together, by the parts that the head of the crate lists,
//! each of which borrows them as one; [`Endpoints::check`] holds them against each other.

pub(crate) mod check;

use crate::counters::Counters;
use crate::demux::Demux;
use crate::half_open::HalfOpens;
use crate::secrets::Secrets;
use crate::sessions::Sessions;
use crate::sockets::Sockets;
use crate::transfers::Transfers;
use longshore_hostif::SocketId;
use longshore_tcp::Instant;

/// What packets and requests are for.
pub struct Endpoints {
    pub(crate) sockets: Sockets,
    pub(crate) half_open: HalfOpens,
    pub(crate) demux: Demux,
    /// The sessions that have them.
    pub sessions: Sessions,
}

impl Endpoints {
    /// None yet; deadlines count from `now`.
    pub(crate) fn new(secrets: &Secrets, now: Instant) -> Self {
        Self {
            sockets: Sockets::new(now),
            half_open: HalfOpens::new(now),
            demux: Demux::new(secrets, now),
            sessions: Sessions::new(),
        }
    }

    /// The key of a session's socket, if it is still the same one.
    #[inline(always)]
    pub fn key_of(&self, session: u32, id: SocketId) -> Option<u32> {
        self.sockets.key_of(&self.sessions, session, id)
    }

    /// What moves bytes from one socket to another.
    #[inline(always)]
    pub(crate) fn transfers<'a>(
        &'a mut self,
        counters: &'a mut Counters,
        now: Instant,
    ) -> Transfers<'a> {
        Transfers {
            sockets: &mut self.sockets,
            sessions: &mut self.sessions,
            counters,
            now,
        }
    }

    /// When a deadline of theirs is due, at the earliest.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let sockets = self.sockets.next_timeout();
        let (waits, half_open) = (self.demux.next_timeout(), self.half_open.next_timeout());
        [sockets, waits, half_open].into_iter().flatten().min()
    }
}
