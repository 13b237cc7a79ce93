//! What the sessions of one user have had of a turn of the loop: of requests, of output, of
//! wake-ups. What is above a user's share waits for the next turn, so that no number of
//! sessions, sockets or sleepers of one user makes a turn long for others.
//!
//! Each user has a [`Spent`], which the loop alone changes. It is asked before requests are
//! taken, `flush` before it serves a socket, and a session before it wakes sleepers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Requests that a user's sessions may have served in a turn.
pub(crate) const REQUESTS: u32 = 2_048;
/// Output that they may have, about in microseconds: a datagram counts [`DATAGRAM`], a segment
/// [`SEGMENT`], and a piece of 64 KiB that is copied, perhaps to memory that nobody had yet,
/// [`PIECE`].
pub(crate) const OUTPUT: u32 = 500;
pub(crate) const DATAGRAM: u32 = 2;
pub(crate) const SEGMENT: u32 = 8;
pub(crate) const PIECE: u32 = 32;
/// Sleepers that are woken for them, each in some two microseconds.
pub(crate) const WAKEUPS: u32 = 64;

/// What there are shares of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Requests of programs.
    Requests,
    /// What is sent.
    Output,
    /// Sleepers that are woken.
    Wakeups,
}

impl Of {
    fn most(self) -> u32 {
        match self {
            Self::Requests => REQUESTS,
            Self::Output => OUTPUT,
            Self::Wakeups => WAKEUPS,
        }
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Spent {
    /// The turn that the numbers are of.
    turn: AtomicU64,
    of: [AtomicU32; 3],
}

impl Spent {
    /// How much is left of a share in this turn.
    pub fn left(&self, of: Of, turn: u64) -> u32 {
        if self.turn.load(Ordering::Relaxed) != turn {
            return of.most();
        }
        let spent = self.share(of).load(Ordering::Relaxed);
        of.most().saturating_sub(spent)
    }

    /// So much of it is spent.
    pub fn spend(&self, of: Of, turn: u64, n: u32) {
        // The loop alone writes here: a load and a store are enough.
        if self.turn.load(Ordering::Relaxed) != turn {
            self.turn.store(turn, Ordering::Relaxed);
            self.of
                .iter()
                .for_each(|spent| spent.store(0, Ordering::Relaxed));
        }
        let spent = self.share(of);
        let now = spent.load(Ordering::Relaxed);
        spent.store(now.saturating_add(n), Ordering::Relaxed);
    }

    /// What is spent of a share, in the turn that it is of.
    fn share(&self, of: Of) -> &AtomicU32 {
        let [requests, output, wakeups] = &self.of;
        match of {
            Of::Requests => requests,
            Of::Output => output,
            Of::Wakeups => wakeups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_one_turn() {
        let spent = Spent::default();
        assert_eq!(spent.left(Of::Output, 1), OUTPUT);
        spent.spend(Of::Output, 1, 100);
        assert_eq!(spent.left(Of::Output, 1), OUTPUT - 100);
        assert_eq!(spent.left(Of::Requests, 1), REQUESTS);
        spent.spend(Of::Output, 1, u32::MAX);
        assert_eq!(spent.left(Of::Output, 1), 0);
        spent.spend(Of::Wakeups, 2, 1);
        assert_eq!(spent.left(Of::Output, 2), OUTPUT);
        assert_eq!(spent.left(Of::Wakeups, 2), WAKEUPS - 1);
    }
}
