//! What each user has of a stack: sockets, and its share of each turn. Root and the engine's own
//! user have as many sockets as there are.

use crate::turns::Spent;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the sessions of one user have together.
#[derive(Debug)]
pub struct Account {
    /// As many sockets as they may have; `None` if the user has no bounds.
    most_sockets: Option<u32>,
    sockets: AtomicU32,
    /// What they have had of a turn.
    pub spent: Spent,
}

/// A socket among those that a user may have; given back when dropped.
#[derive(Debug)]
pub struct SocketShare(Arc<Account>);

impl Drop for SocketShare {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Account {
    /// A user who may have so many sockets and has none.
    pub fn new(most_sockets: u32) -> Self {
        Self::of(Some(most_sockets))
    }

    /// A user without bounds, but for its share of a turn.
    pub fn without_bounds() -> Self {
        Self::of(None)
    }

    fn of(most_sockets: Option<u32>) -> Self {
        Self {
            most_sockets,
            sockets: AtomicU32::new(0),
            spent: Spent::default(),
        }
    }

    /// Whether the user may have so much and no more.
    pub fn has_bounds(&self) -> bool {
        self.most_sockets.is_some()
    }

    fn most_sockets(&self) -> u32 {
        self.most_sockets.unwrap_or(u32::MAX)
    }

    /// One socket more; `None` if there are as many as there may be.
    pub fn take_socket(self: &Arc<Self>) -> Option<SocketShare> {
        let fits = |now: u32| (now < self.most_sockets()).then_some(now + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if self.sockets.fetch_update(set, fetch, fits).is_err() {
            return None;
        }
        Some(SocketShare(self.clone()))
    }

    /// Whether there are as many sockets as there may be.
    pub fn is_out_of_sockets(&self) -> bool {
        self.sockets.load(Ordering::Acquire) >= self.most_sockets()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_as_many_sockets_as_it_may_until_it_gives_some_back() {
        let [one, other] = [2, 2].map(|most| Arc::new(Account::new(most)));
        let sockets = [one.take_socket(), one.take_socket()];
        assert!(sockets.iter().all(Option::is_some));
        assert!(one.is_out_of_sockets() && one.take_socket().is_none());
        assert!(other.take_socket().is_some(), "each has its own");
        drop(sockets);
        assert!(!one.is_out_of_sockets() && one.take_socket().is_some());
        let root = Arc::new(Account::without_bounds());
        assert!(one.has_bounds() && !root.has_bounds());
        assert!(root.take_socket().is_some() && !root.is_out_of_sockets());
    }
}
