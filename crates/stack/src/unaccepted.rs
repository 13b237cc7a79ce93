//! What becomes of connections that nobody has accepted when their listener is closed or shut
//! down, and of those of our own that wait for room before it.
//!
//! Owns [`GivenUp`], the queues of such listeners. There may be tens of thousands of
//! connections in one, so [`settle`](Stack::settle) resets some of them in each turn.

use crate::Stack;
use crate::accept_queue::AcceptQueue;
use crate::at_work::AtWork;
use crate::socket::Kind;
use longshore_hostif::SocketId;
use std::collections::VecDeque;

/// Connections that are reset or refused in one turn.
const A_TURN: usize = 64;

/// The queues of listeners that are over, each with the listener's session.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(VecDeque<(u32, AcceptQueue)>);

/// What is to be done for one that was given up.
enum Next {
    /// The connection of this session is reset.
    Reset(u32, SocketId),
    /// The socket of this key tries again, and is refused if nobody listens there.
    Refuse(u32),
}

impl GivenUp {
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

    fn next(&mut self) -> Option<Next> {
        while let Some((session, queue)) = self.0.front_mut() {
            if let Some(id) = queue.pop() {
                return Some(Next::Reset(*session, id));
            }
            if let Some(key) = queue.leave_line() {
                return Some(Next::Refuse(key));
            }
            self.0.pop_front();
        }
        None
    }
}

impl Stack {
    /// A listener is over, or shut down: those that wait for it are reset.
    pub(crate) fn give_up_waiting(&mut self, listener: u32) {
        let Some(socket) = self.sockets.get_mut(listener) else {
            return;
        };
        if let Kind::Listener(l) = &mut socket.kind {
            let queue = l.queue.give_up();
            self.given_up.0.push_back((socket.session, queue));
        }
    }

    /// A listener was taken out with all sockets of its session: those of others that stand in
    /// line before it are refused.
    pub(crate) fn give_up_line(&mut self, session: u32, queue: AcceptQueue) {
        self.given_up.0.push_back((session, queue));
        self.given_up.forget_session(session);
    }

    /// Resets some of those whose listeners are over.
    #[inline(never)]
    pub(crate) fn reset_some_waiting(&mut self) {
        for _ in 0..A_TURN {
            match self.given_up.next() {
                None => break,
                Some(Next::Reset(session, id)) => {
                    if let Some(key) = self.unaccepted(session, id) {
                        self.sessions.at_work = AtWork::Socket(key);
                        self.abort(key);
                    }
                }
                Some(Next::Refuse(key)) => {
                    self.sessions.at_work = AtWork::Socket(key);
                    self.enter_listener(key);
                }
            }
        }
        self.sessions.at_work = AtWork::Nobodys;
    }

    /// The key of a connection that waits, or has waited, for a listener of this session, if
    /// it is still there.
    pub(crate) fn unaccepted(&self, session: u32, id: SocketId) -> Option<u32> {
        let key = self.sessions.get(session)?.key(id.index)?;
        let socket = self.sockets.get(key)?;
        (socket.id == id).then_some(key)
    }

    /// A listener has room again: as many of those in line as it has room for enter.
    pub(crate) fn let_in(&mut self, listener: u32) {
        while let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind)
            && l.listener.may_establish()
            && let Some(first) = l.queue.leave_line()
        {
            self.enter_listener(first);
        }
        self.mark_line(listener);
    }
}
