//! A panic that comes out of one session's work ends that session, and the engine goes on.
//!
//! The stack takes the session's sockets out ([`Stack::contain_panic`]), or forgets a half-open
//! connection and ends no session; here a session is ended, so that its programs find their
//! engine gone, and the operator is notified. The end of a session may meet a panic in its turn: it
//! is tried once more, and what is left then goes with the session. What panics in nobody's work
//! ends the engine as it would without.
//!
//! [`Stack::contain_panic`]: longshore_stack::Stack::contain_panic

use crate::{Engine, EngineError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// How often it is tried to end a session.
const ATTEMPTS: u32 = 2;

impl Engine {
    /// Does `work`, and contains a panic that comes out of it.
    #[inline]
    pub(crate) fn contained(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<bool, EngineError>,
    ) -> Result<bool, EngineError> {
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(result) => result,
            Err(panic) => {
                self.contain(panic);
                Ok(true)
            }
        }
    }

    /// Ends a session whose state may be what a panic was about.
    fn end_in_spite_of_panics(&mut self, session: u32) {
        for _ in 0..ATTEMPTS {
            if catch_unwind(AssertUnwindSafe(|| self.maintenance().end_session(session))).is_ok() {
                return;
            }
            self.stack.counters.note_panic(session);
        }
    }

    #[cold]
    #[inline(never)]
    fn contain(&mut self, panic: Box<dyn Any + Send>) {
        let Some(sessions) = self.stack.contain_panic() else {
            resume_unwind(panic)
        };
        // The session that was being looked over may not have been.
        for key in self.stack.endpoints.sessions.keys() {
            if let Some(s) = self.programs.sessions.get_mut(key) {
                s.has_changed = true;
            }
            self.programs.look_over_now(key, self.stack.now());
        }
        for session in sessions {
            self.end_in_spite_of_panics(session);
        }
    }
}

#[cfg(test)]
mod tests;
