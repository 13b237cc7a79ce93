//! When an engine ends: with its last session, if it is private, or when it was asked to stop
//! and what its connections had to say is said.
//!
//! Owns [`Lifetime`]; the loop asks it after each turn.

use longshore_stack::{Stack, Undelivered};
use longshore_tcp::Instant;
use std::time::Duration;

/// When an engine ends.
#[derive(Debug)]
pub(crate) struct Lifetime {
    /// With its last session.
    private: bool,
    had_session: bool,
    /// Set when no new sessions are let in.
    draining: bool,
    /// How long connections may go on after it was asked to stop.
    grace: Duration,
    /// When it ends whatever goes on, once it is `draining`.
    drain_by: Instant,
}

/// What is ahead of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// There is something to serve, or may be.
    GoesOn,
    /// That is to be looked for further, without a rest.
    Unknown,
    /// There is nothing left to serve.
    IsOver,
}

impl Lifetime {
    pub(crate) fn new(private: bool, grace: Duration) -> Self {
        Self {
            private,
            had_session: false,
            draining: false,
            grace,
            drain_by: Instant::NEVER,
        }
    }

    /// How long connections may go on after it was asked to stop.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    pub(crate) fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// A session was let in.
    pub(crate) fn note_session(&mut self) {
        self.had_session = true;
    }

    /// From now on no session is let in, and the engine ends when those there are have ended, at
    /// the latest then.
    pub(crate) fn drain(&mut self, by: Instant) {
        self.draining = true;
        self.drain_by = by;
    }

    /// Whether no sessions are let in any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether there has been a session.
    #[cfg(test)]
    pub(crate) fn had_session(&self) -> bool {
        self.had_session
    }

    /// When it ends whatever goes on.
    #[cfg(test)]
    pub(crate) fn drain_by(&self) -> Instant {
        self.drain_by
    }

    /// Whether there is anything left to serve. Asked each turn: sockets are only looked at
    /// when no program has any, and some of them each time.
    pub(crate) fn prospect(&self, stack: &mut Stack) -> Prospect {
        let may_end = self.draining || (self.private && self.had_session);
        if !may_end {
            return Prospect::GoesOn;
        }
        if self.draining && stack.now() >= self.drain_by {
            return Prospect::IsOver;
        }
        if !stack.endpoints.sessions.is_empty() {
            stack.lifecycle().look_for_undelivered_anew();
            return Prospect::GoesOn;
        }
        if !stack.port().is_attached() {
            // What cannot be sent need not be waited for.
            return Prospect::IsOver;
        }
        match stack.lifecycle().look_for_undelivered() {
            Undelivered::Some => Prospect::GoesOn,
            Undelivered::Unknown => Prospect::Unknown,
            Undelivered::None => Prospect::IsOver,
        }
    }
}
