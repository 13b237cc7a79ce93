//! Events and errors to report to the user.
//!
//! Owns [`Outcome`], which is part of the `Tcb`. Every change that concerns the user sets
//! an event here, and `Tcb::take_events` returns them.

use crate::codec::saved_part;
use crate::events::{Error, Events};

/// Pending events, and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    events: Events,
    /// Why the connection died, if it did.
    error: Option<Error>,
    /// The last ICMP error since the peer last answered.
    soft_error: Option<Error>,
}

saved_part!(Outcome {
    saved {
        events, error, soft_error,
    }
});

impl Outcome {
    /// The state of a new connection.
    pub(crate) const fn new() -> Outcome {
        Outcome {
            events: Events::empty(),
            error: None,
            soft_error: None,
        }
    }

    /// Something has happened that concerns the user.
    #[inline(always)]
    pub(crate) fn report(&mut self, events: Events) {
        self.events |= events;
    }

    /// Whether this is still to be reported.
    #[inline(always)]
    pub(crate) const fn is_pending(&self, events: Events) -> bool {
        self.events.contains(events)
    }

    /// Returns and clears the events.
    #[inline(always)]
    pub(crate) fn take_events(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }

    /// Why the connection died, if it did.
    #[inline(always)]
    pub(crate) const fn error(&self) -> Option<Error> {
        self.error
    }

    /// The last ICMP error since the peer last answered.
    #[inline(always)]
    pub(crate) const fn soft_error(&self) -> Option<Error> {
        self.soft_error
    }

    /// Records why the connection died.
    pub(crate) fn set_error(&mut self, error: Option<Error>) {
        self.error = error;
    }

    /// Records an ICMP error that does not end the connection.
    pub(crate) fn set_soft_error(&mut self, error: Error) {
        self.soft_error = Some(error);
    }

    /// The peer has answered since.
    #[inline(always)]
    pub(crate) fn clear_soft_error(&mut self) {
        self.soft_error = None;
    }
}
