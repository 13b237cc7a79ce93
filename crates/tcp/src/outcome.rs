//! What the user is to be told of a connection.
//!
//! Owns [`Outcome`], which `tcb.rs` keeps. Whatever changes for the user leaves an event
//! here, and `Tcb::take_events` hands them out.

use crate::codec::saved_part;
use crate::events::{Error, Events};

/// Events that were not taken yet, and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) events: Events,
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
    /// Nothing has happened yet.
    pub(crate) const fn new() -> Outcome {
        Outcome {
            events: Events::empty(),
            error: None,
            soft_error: None,
        }
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

    /// The connection died for this.
    pub(crate) fn set_error(&mut self, error: Option<Error>) {
        self.error = error;
    }

    /// The last ICMP error, which is told now.
    pub(crate) fn take_soft_error(&mut self) -> Option<Error> {
        self.soft_error.take()
    }

    /// ICMP has told of an error that does not end the connection.
    pub(crate) fn set_soft_error(&mut self, error: Error) {
        self.soft_error = Some(error);
    }

    /// The peer has answered since, or the user was told.
    #[inline(always)]
    pub(crate) fn forget_soft_error(&mut self) {
        self.soft_error = None;
    }
}
