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
