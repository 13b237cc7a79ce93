//! What each user has of the engine, and may have: connections, sessions, descriptors.
//!
//! Shared by the thread that attaches programs and by the loop, which takes descriptors for
//! sessions. Root, and the user that the engine runs as, are bounded by the totals alone:
//! they could end it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How much a user may have at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: u32,
    pub(crate) sessions: u32,
    /// Eventfds and Unix sockets, which the engine makes when a program asks.
    pub(crate) descriptors: u32,
}

impl Limits {
    /// As much as one user may have, where the engine may have so many descriptors: a
    /// quarter of everything.
    pub(crate) fn of_one(connections: u32, descriptors: u64) -> Self {
        Self {
            connections: connections / 4,
            sessions: connections / 16,
            descriptors: (descriptors / 4).min(u64::from(u32::MAX)) as u32,
        }
    }

    const NONE: Self = Self {
        connections: u32::MAX,
        sessions: u32::MAX,
        descriptors: u32::MAX,
    };
}

/// How often something was refused, by what it lacked.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connections, since there are as many as there may be.
    pub(crate) all_connections: AtomicU64,
    /// Connections, since the user has as many as it may have.
    pub(crate) user_connections: AtomicU64,
    /// Connections of users who may not use the engine.
    pub(crate) not_allowed: AtomicU64,
    /// Connections closed because nothing was said over them in time.
    pub(crate) silent: AtomicU64,
    /// Sessions.
    pub(crate) user_sessions: AtomicU64,
    /// Descriptors.
    pub(crate) user_descriptors: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One user.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    limits: Limits,
    connections: AtomicU32,
    sessions: AtomicU32,
    descriptors: AtomicU32,
    pub(crate) counts: Arc<Counts>,
}

/// What a user has some of.
#[derive(Debug, Clone, Copy)]
enum What {
    Connection,
    Session,
    Descriptors(u32),
}

/// Some of what a user may have; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<User>,
    what: What,
}

impl Drop for Share {
    fn drop(&mut self) {
        let (counter, n) = self.of.counter(self.what);
        counter.fetch_sub(n, Ordering::AcqRel);
    }
}

impl User {
    fn counter(&self, what: What) -> (&AtomicU32, u32) {
        match what {
            What::Connection => (&self.connections, 1),
            What::Session => (&self.sessions, 1),
            What::Descriptors(n) => (&self.descriptors, n),
        }
    }

    fn take(self: &Arc<Self>, what: What, most: u32, refused: &AtomicU64) -> Option<Share> {
        let (counter, n) = self.counter(what);
        let fits = |now: u32| now.checked_add(n).filter(|sum| *sum <= most);
        if counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .is_err()
        {
            count(refused);
            return None;
        }
        let of = self.clone();
        Some(Share { of, what })
    }

    /// One connection more.
    pub(crate) fn take_connection(self: &Arc<Self>) -> Option<Share> {
        let (most, refused) = (self.limits.connections, &self.counts.user_connections);
        self.take(What::Connection, most, refused)
    }

    /// One session more.
    pub(crate) fn take_session(self: &Arc<Self>) -> Option<Share> {
        let (most, refused) = (self.limits.sessions, &self.counts.user_sessions);
        self.take(What::Session, most, refused)
    }

    /// So many descriptors more.
    pub(crate) fn take_descriptors(self: &Arc<Self>, n: u32) -> Option<Share> {
        let (most, refused) = (self.limits.descriptors, &self.counts.user_descriptors);
        self.take(What::Descriptors(n), most, refused)
    }
}

/// All users that have something.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Limits,
    known: Mutex<HashMap<u32, Arc<User>>>,
    pub(crate) counts: Arc<Counts>,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            known: Mutex::new(HashMap::new()),
            counts: Arc::new(Counts::default()),
        }
    }

    /// A user, who is forgotten when nobody has it any more.
    pub(crate) fn get(&self, uid: u32) -> Arc<User> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = known.get(&uid) {
            return user.clone();
        }
        known.retain(|_, user| Arc::strong_count(user) > 1);
        let is_trusted = uid == 0 || uid == rustix::process::geteuid().as_raw();
        let user = Arc::new(User {
            uid,
            limits: if is_trusted {
                Limits::NONE
            } else {
                self.limits
            },
            connections: AtomicU32::new(0),
            sessions: AtomicU32::new(0),
            descriptors: AtomicU32::new(0),
            counts: self.counts.clone(),
        });
        known.insert(uid, user.clone());
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_what_it_may_and_no_more_until_it_gives_some_back() {
        let users = Users::new(Limits {
            connections: 2,
            sessions: 1,
            descriptors: 4,
        });
        let (one, other) = (users.get(4_000_001), users.get(4_000_002));
        let held = [one.take_connection(), one.take_connection()];
        assert!(held.iter().all(Option::is_some));
        assert!(one.take_connection().is_none());
        assert!(other.take_connection().is_some(), "each has its own");
        drop(held);
        assert!(one.take_connection().is_some());
        let few = one.take_descriptors(3);
        assert!(few.is_some() && one.take_descriptors(2).is_none());
        assert_eq!(users.counts.user_connections.load(Ordering::Relaxed), 1);
        assert_eq!(users.counts.user_descriptors.load(Ordering::Relaxed), 1);
        let root = users.get(0);
        let many: Vec<_> = (0..100).map(|_| root.take_session()).collect();
        assert!(
            many.iter().all(Option::is_some),
            "root could end the engine"
        );
    }
}
