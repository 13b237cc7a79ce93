//! The users that may attach, and what their programs get.
//!
//! Owns [`Terms`], which may be changed while the engine runs, and [`Policy`]; the thread that
//! attaches programs asks both.

use crate::users::is_trusted;
use longshore_hostif::{Geometry, Versions};
use longshore_ring::EventfdSignaler;
use std::sync::{Arc, Mutex, PoisonError};

/// The users that may attach, and how much each session can have: what may be changed while the
/// engine runs.
#[derive(Debug, Clone)]
pub(crate) struct Terms(Arc<Mutex<Set>>);

#[derive(Debug)]
pub(super) struct Set {
    /// Programs of these users may, or of everybody who can open the socket if there are none.
    pub(super) users: Vec<u32>,
    pub(super) geometry: Geometry,
    /// What the engine speaks.
    pub(super) versions: Versions,
}

impl Terms {
    /// Programs of these users may, or of everybody who can open the socket if there are
    /// none.
    pub(crate) fn new(users: Vec<u32>, geometry: Geometry) -> Self {
        Self(Arc::new(Mutex::new(Set {
            users,
            geometry,
            versions: Versions::OURS,
        })))
    }

    pub(super) fn lists(&self, uid: u32) -> bool {
        self.get(|set| set.users.is_empty() || set.users.contains(&uid))
    }

    pub(super) fn get<T>(&self, what: impl FnOnce(&mut Set) -> T) -> T {
        what(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The users that may attach, and what they get.
pub(crate) struct Policy {
    pub(crate) terms: Terms,
    /// The engine is of one user alone.
    pub(crate) private: bool,
    /// But others may join its sessions.
    pub(crate) others_may_join: bool,
    pub(crate) signaler: Arc<EventfdSignaler>,
}

impl Policy {
    pub(super) fn may_attach(&self, uid: u32) -> bool {
        uid == 0 || (self.terms.lists(uid) && (self.others_may_join || self.may_open(uid)))
    }

    /// A private engine is its user's. A process that it has given the session's token may join as
    /// whoever it is then.
    pub(super) fn may_open(&self, uid: u32) -> bool {
        !self.private || is_trusted(uid)
    }

    /// Whether programs of this user may hand files over. A file whose pages are not there
    /// holds the engine up until a disk answers: whoever can harm the engine anyway may do so.
    pub(super) fn takes_files_of(uid: u32) -> bool {
        is_trusted(uid)
    }
}
