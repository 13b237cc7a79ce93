//! What becomes of connections that nobody has accepted when their listener is closed or shut
//! down, and of those of our own that wait for room before it.
//!
//! Owns [`GivenUp`], the queues of such listeners. There may be tens of thousands of
//! connections in one, so [`flush`](Stack::flush) resets some of them in each turn.

use crate::Stack;
use crate::accept_queue::AcceptQueue;
use crate::accepted::AT_ONCE;
use crate::at_work::AtWork;
use crate::socket::Kind;
use longshore_hostif::SocketId;
use std::collections::VecDeque;

/// The queues of listeners that are over, each with the listener's session.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(VecDeque<(u32, AcceptQueue)>);

/// What is to be done for one that was given up.
enum Next {
    /// The host has accepted the connection of this session, and this process is given it.
    Accepted(u32, SocketId, Option<u16>),
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
    pub(crate) fn give_up_entering(&mut self, session: u32, queue: AcceptQueue) {
        self.given_up.0.push_back((session, queue));
        self.given_up.forget_session(session);
    }

    /// Resets some of those whose listeners are over.
    #[inline(never)]
    pub(crate) fn reset_some_waiting(&mut self) {
        for _ in 0..AT_ONCE {
            match self.given_up.next() {
                None => break,
                Some(Next::Accepted(session, id, by)) => {
                    if let Some(key) = self.key_of(session, id) {
                        self.sessions.at_work = AtWork::Socket(key);
                        if let Some(socket) = self.sockets.get_mut(key) {
                            socket.accepted(by, &mut self.sessions, self.now);
                        }
                    }
                }
                Some(Next::Reset(session, id)) => {
                    if let Some(key) = self.key_of(session, id) {
                        self.sessions.at_work = AtWork::Socket(key);
                        self.transfers().abort(key);
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

    /// If a listener has room again, some of those in line enter, no more than it has room for.
    /// The rest has its turn.
    pub(crate) fn let_in(&mut self, listener: u32) {
        let mut left = AT_ONCE;
        let mut has_entering = false;
        while let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind)
            && l.queue.has_entering()
        {
            has_entering = true;
            if !l.listener.may_establish() {
                break;
            }
            if left == 0 {
                self.sockets.touch(listener);
                break;
            }
            left -= 1;
            if let Some(first) = l.queue.pop_entering() {
                self.enter_listener(first);
            }
        }
        if has_entering && let Some(socket) = self.sockets.get(listener) {
            socket.mark_entering(&self.sessions);
        }
    }
}
