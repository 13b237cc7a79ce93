//! Requests to bind to addresses that are in use, of which the caller knows whether they may be free
//! soon: another process may have closed what has it, or have ended.

use super::Stack;
use crate::at_work::AtWork;
use crate::requests::LateBind;

/// The requests to bind to addresses that were in use.
pub struct LateBinds<'a> {
    stack: &'a mut Stack,
}

impl Stack {
    /// The requests to bind to addresses that were in use.
    #[inline]
    pub fn late_binds(&mut self) -> LateBinds<'_> {
        LateBinds { stack: self }
    }
}

impl LateBinds<'_> {
    /// Whether there are any.
    #[inline]
    #[must_use]
    pub fn are_any(&self) -> bool {
        self.stack.unanswered.has_late_binds()
    }

    /// Takes them. Each is to be done [once more](Self::bind_again), [put off](Self::put_off) or
    /// [given up](crate::Sessions::give_bind_up): its program waits.
    pub fn take(&mut self) -> Vec<LateBind> {
        self.stack.unanswered.take_late_binds()
    }

    /// Binds a socket whose address was in use once more, and answers; `false` if the address
    /// still is.
    pub fn bind_again(&mut self, late: &LateBind) -> bool {
        self.stack.endpoints.sessions.at_work = AtWork::Session(late.session());
        let is_done = self.stack.requests().bind_again(late);
        self.stack.endpoints.sessions.at_work = AtWork::Nobodys;
        is_done
    }

    /// It is tried again at the end of the next turn.
    pub fn put_off(&mut self, late: LateBind) {
        self.stack.unanswered.bind_later(late);
    }
}
