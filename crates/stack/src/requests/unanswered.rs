//! Requests that are answered at the end of a turn, and those to bind to addresses in use.
//!
//! Owns [`Unanswered`], which the stack has. `requests` adds them, answers questions, and binds once
//! more as the loop says.

use super::From;
use longshore_hostif::{Address, Query, Request};
use std::collections::VecDeque;

/// What a program wants to know of a socket. It is answered at the end of the
/// turn, when the packets that came before it was asked have been taken, and what
/// they led to has been sent.
#[derive(Debug)]
pub(crate) struct Question {
    pub(super) from: From,
    pub(super) request: Request,
    pub(super) query: Query,
}

/// A request to bind to an address that is in use. It is done once more when all that
/// was published before it has been taken: another process may have closed its socket.
#[derive(Debug)]
pub struct LateBind {
    pub(super) from: From,
    pub(super) request: Request,
    pub(super) local: Address,
}

impl LateBind {
    /// The session that has asked.
    pub fn session(&self) -> u32 {
        self.from.session
    }
}

/// Requests that this turn has taken and not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(super) questions: VecDeque<Question>,
    /// What is to be bound at the end of this turn.
    pub(super) late_binds: Vec<LateBind>,
}

impl Unanswered {
    /// Whether there are questions.
    #[inline]
    pub(crate) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether there are requests to bind to addresses that were in use.
    #[inline]
    pub(crate) fn has_late_binds(&self) -> bool {
        !self.late_binds.is_empty()
    }

    /// Takes these.
    #[inline]
    pub(crate) fn take_late_binds(&mut self) -> Vec<LateBind> {
        std::mem::take(&mut self.late_binds)
    }

    /// One of them is tried again at the end of the next turn.
    pub(crate) fn bind_later(&mut self, late: LateBind) {
        self.late_binds.push(late);
    }

    /// Drops those of a process that takes no answers any more: the next one on its channel has
    /// given others the same tags.
    pub(crate) fn forget(&mut self, from: From) {
        self.questions.retain(|q| q.from != from);
        self.late_binds.retain(|late| late.from != from);
    }

    /// Keeps those of sessions that are served.
    pub(crate) fn retain(&mut self, is_served: impl Fn(u32) -> bool) {
        self.questions.retain(|q| is_served(q.from.session));
        self.late_binds.retain(|late| is_served(late.from.session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::SocketId;

    /// What a process or a session has asked is dropped with it, and what others have asked is kept.
    #[test]
    fn what_is_dropped_is_of_one_process_or_session() {
        let from = |session, channel| From { session, channel };
        let all = [from(3, 0), from(3, 1), from(4, 0)];
        let socket = SocketId {
            index: 1,
            generation: 1,
        };
        let filled = || {
            let mut unanswered = Unanswered::default();
            for from in all {
                let request = || Request::Subscribe { socket };
                unanswered.questions.push_back(Question {
                    from,
                    request: request(),
                    query: Query::PathMtu,
                });
                unanswered.bind_later(LateBind {
                    from,
                    request: request(),
                    local: Address::NONE,
                });
            }
            unanswered
        };
        let left = |unanswered: &mut Unanswered| {
            let questions = unanswered.questions.iter().map(|q| q.from).collect();
            let late = unanswered.take_late_binds();
            let late: Vec<From> = late.iter().map(|late| late.from).collect();
            assert!(!unanswered.has_late_binds());
            let of = |from: &From| (from.session, from.channel);
            let questions: Vec<From> = questions;
            assert!(questions.iter().map(of).eq(late.iter().map(of)));
            late.iter().map(of).collect::<Vec<_>>()
        };
        let mut unanswered = filled();
        unanswered.forget(from(3, 1));
        assert_eq!(left(&mut unanswered), [(3, 0), (4, 0)]);
        let mut unanswered = filled();
        unanswered.retain(|session| session == 4);
        assert!(unanswered.has_questions() && unanswered.has_late_binds());
        assert_eq!(unanswered.late_binds[0].session(), 4);
        assert_eq!(left(&mut unanswered), [(4, 0)]);
    }
}
