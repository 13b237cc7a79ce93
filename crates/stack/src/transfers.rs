//! Bytes that go from one socket of the stack to another, and that one socket has in memory for
//! others.
//!
//! Owns [`Transfers`], which borrows the sockets with their sessions: two of them are changed
//! together, and which the other is stands in the first. Its methods stand beside what they are
//! about: connections between two of our own in `pair`, what one connection has received and another
//! sends in `forward`, what hosts have written and read in `requests::edges`, the block that a socket
//! gives back in `endings`. The stack makes one wherever it needs these.

use crate::counters::Counters;
use crate::sessions::Sessions;
use crate::socket::Kind;
use crate::sockets::Sockets;
use longshore_tcp::Instant;

/// Moves bytes between sockets.
pub(crate) struct Transfers<'a> {
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Transfers<'_> {
    /// Resets a connection, which no process has any more.
    pub(crate) fn abort(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.orphan = true;
        self.reset(key);
    }

    /// Resets a connection. Its program sees that if it has it.
    pub(crate) fn reset(&mut self, key: u32) {
        match self.sockets.get_mut(key).map(|s| &mut s.kind) {
            Some(Kind::Stream(c)) => c.tcb.abort(),
            Some(Kind::Pair(_)) => self.close_pair(key, true),
            _ => {}
        }
        self.sockets.touch(key);
    }

    /// A session had no memory for what has come for it.
    pub(crate) fn arena_is_full(&mut self, session: u32) {
        self.sessions.arena_is_full(session, self.counters);
    }
}
