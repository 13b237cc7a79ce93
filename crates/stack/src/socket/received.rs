//! What a socket has received, how far that counts as read, and what others send of it.
//!
//! Called by `requests` for what is read, by `forward` and by `pair`.

use crate::forwards::Forwards;
use crate::sessions::Sessions;
use crate::socket::{Kind, Socket};

impl Socket {
    /// Its host has read up to there: how far that counts, as others still send of it.
    #[inline]
    pub(crate) fn held_back(&self, forwards: &mut Forwards, consumed: u64) -> u64 {
        match self.forwarding.as_ref().and_then(|f| f.source()) {
            // More than has come is refused, and not kept.
            Some(source)
                if self
                    .kind
                    .received()
                    .is_some_and(|(_, edge)| consumed <= edge) =>
            {
                forwards.held_back(source, consumed)
            }
            _ => consumed,
        }
    }

    /// Whether others send of what it was lent: that lies where it does only as long as both
    /// ends of its connection are there.
    pub(crate) fn is_lent_on(&self, sessions: &Sessions) -> bool {
        let is_lent = matches!(&self.kind, Kind::Pair(p) if p.rcv.is_lent());
        let source = self.source(sessions);
        is_lent && source.is_some_and(|(name, forwards)| forwards.is_sent(name))
    }

    /// What its receive stream is called of which others send, and where that is kept.
    pub(crate) fn source<'a>(&self, sessions: &'a Sessions) -> Option<(u64, &'a Forwards)> {
        let name = self.forwarding.as_ref()?.source()?;
        Some((name, &sessions.get(self.session)?.forwards))
    }

    /// How far the host of a connection between two of our own has read.
    pub(crate) fn read_by_host(&self, sessions: &Sessions) -> u64 {
        let counted = self.kind.received().map_or(0, |(consumed, _)| consumed);
        let source = self.source(sessions);
        let read = source.and_then(|(name, forwards)| forwards.consumed(name));
        read.unwrap_or(counted).max(counted)
    }
}
