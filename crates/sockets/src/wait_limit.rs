//! How long a call waits, and what handlers of signals mean for it. Made by what makes the
//! call, and obeyed by `wait`.

use crate::errors::SocketError;
use longshore_ring::section;
use std::time::{Duration, Instant};

/// What a handler of a signal does to a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signals {
    /// Nothing; it runs when the wait is over.
    #[default]
    Ignored,
    /// It ends the call, which then begins anew if the handler has SA_RESTART.
    Restart,
    /// It ends the call.
    End,
}

/// How long a call may wait, and whether a signal handler ends it.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitLimit {
    /// When to give up; never, if there is none.
    pub deadline: Option<Instant>,
    /// What handlers do to it.
    pub signals: Signals,
    /// The thread has looked already ([`Socket::look_awhile`](crate::Socket::look_awhile)),
    /// and sleeps at once.
    pub looked: bool,
}

impl WaitLimit {
    /// As long as it takes, whatever signals come.
    pub const ENDLESS: Self = Self {
        deadline: None,
        signals: Signals::Ignored,
        looked: false,
    };

    /// As a system call waits that has `timeout`, if there is one: with one it does not begin
    /// anew after a handler (signal(7)).
    pub fn of_call(timeout: Option<Duration>) -> Self {
        let signals = match timeout {
            Some(_) => Signals::End,
            None => Signals::Restart,
        };
        Self {
            deadline: deadline_after(timeout),
            signals,
            looked: false,
        }
    }

    /// How long it may still last.
    pub fn left(&self) -> Option<Duration> {
        self.deadline
            .map(|d| d.saturating_duration_since(Instant::now()))
    }

    /// Whether a handler was postponed that the wait is to be given up for.
    ///
    /// # Errors
    /// If so, what the call ends with.
    pub(crate) fn check_signals(&self) -> Result<(), SocketError> {
        if self.signals == Signals::Ignored || section(|s| s.postponed()) == 0 {
            return Ok(());
        }
        Err(match self.signals {
            Signals::Restart => SocketError::Restarts,
            _ => SocketError::Interrupted,
        })
    }
}

/// When what begins now has lasted so long: never without a limit, or with one that is
/// beyond all clocks.
pub fn deadline_after(limit: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(limit?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// signal(7): a call with a time limit does not begin anew after a handler.
    #[test]
    fn a_call_with_a_time_limit_ends_with_a_signal() {
        let endless = WaitLimit::of_call(None);
        assert_eq!((endless.deadline, endless.left()), (None, None));
        assert_eq!((endless.signals, endless.looked), (Signals::Restart, false));
        let limit = Duration::from_secs(1000);
        let limited = WaitLimit::of_call(Some(limit));
        assert_eq!((limited.signals, limited.looked), (Signals::End, false));
        let left = limited.left().unwrap();
        assert!(left <= limit && left > limit / 2);
        let over = WaitLimit::of_call(Some(Duration::ZERO));
        assert_eq!(over.left(), Some(Duration::ZERO));
        assert_eq!(over.check_signals(), Ok(()), "there was none");
    }

    #[test]
    fn a_limit_beyond_all_clocks_is_none() {
        assert_eq!(deadline_after(None), None);
        assert_eq!(deadline_after(Some(Duration::MAX)), None);
        let now = Instant::now();
        let then = deadline_after(Some(Duration::from_secs(7))).unwrap();
        assert!(then >= now + Duration::from_secs(7));
    }
}
