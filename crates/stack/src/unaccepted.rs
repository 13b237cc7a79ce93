//! What becomes of connections that nobody has accepted when their listener is closed or shut
//! down, and of those of our own that wait for room before it.
//!
//! Owns [`GivenUp`], the queues of such listeners, which the sockets have. There may be tens of
//! thousands of connections in one, so `accepted` resets some of them in each turn.

use crate::accept_queue::AcceptQueue;
use longshore_hostif::SocketId;
use std::collections::VecDeque;

/// The queues of listeners that are over, each with the listener's session.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(VecDeque<(u32, AcceptQueue)>);

/// What is to be done for one that was given up.
pub(crate) enum Next {
    /// The host has accepted the connection of this session, and this process is given it.
    Accepted(u32, SocketId, Option<u16>),
    /// The connection of this session is reset.
    Reset(u32, SocketId),
    /// The socket of this key tries again, and is refused if nobody listens there.
    Refuse(u32),
}

impl GivenUp {
    /// A listener of this session is over, or shut down: those in its queue are to be reset.
    pub(crate) fn put(&mut self, session: u32, queue: AcceptQueue) {
        self.0.push_back((session, queue));
    }

    /// A listener was taken out with all sockets of its session: those of others that stand in
    /// line before it are to be refused.
    pub(crate) fn put_entering(&mut self, session: u32, queue: AcceptQueue) {
        self.put(session, queue);
        self.forget_session(session);
    }

    /// Whether any are still to be reset or refused.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// A session is over, and its sockets are gone: their ids may be those of another's.
    pub(crate) fn forget_session(&mut self, session: u32) {
        for (_, queue) in self.0.iter_mut().filter(|(of, _)| *of == session) {
            queue.forget_waiting();
        }
    }

    pub(crate) fn next(&mut self) -> Option<Next> {
        while let Some((session, queue)) = self.0.front_mut() {
            if let Some((id, by)) = queue.pop_accepted() {
                return Some(Next::Accepted(*session, id, by));
            }
            if let Some(id) = queue.pop() {
                return Some(Next::Reset(*session, id));
            }
            if let Some(key) = queue.pop_entering() {
                return Some(Next::Refuse(key));
            }
            self.0.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sockets of a session that was taken out are gone, so that there is nothing to reset: but
    /// those of others that stand in line hear of it.
    #[test]
    fn of_a_listener_that_was_taken_out_those_in_line_are_refused() {
        let mut queue = AcceptQueue::default();
        queue.push(SocketId {
            index: 1,
            generation: 1,
        });
        queue.push_entering(7);
        let mut given_up = GivenUp::default();
        given_up.put_entering(3, queue);
        assert!(given_up.are_any());
        assert!(matches!(given_up.next(), Some(Next::Refuse(7))));
        assert!(given_up.next().is_none() && !given_up.are_any());
    }
}
