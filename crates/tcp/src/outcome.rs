//! What the user is to be told of a connection.
//!
//! Owns [`Outcome`], which `tcb.rs` keeps. Whatever changes for the user leaves an event
//! here, and `Tcb::take_events` hands them out.

use crate::events::{Error, Events};

/// Events that were not taken yet, and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) events: Events,
    /// Why the connection died, if it did.
    pub(crate) error: Option<Error>,
    /// The last ICMP error since the peer last answered.
    pub(crate) soft_error: Option<Error>,
}

impl Outcome {
    /// Nothing has happened yet.
    pub(crate) const fn new() -> Outcome {
        Outcome {
            events: Events::empty(),
            error: None,
            soft_error: None,
        }
    }
}
