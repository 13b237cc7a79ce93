//! What holds back less than a full piece: TCP_CORK and MSG_MORE.
//!
//! Owns [`Cork`], a part of [`Pair`](super::Pair).

use longshore_tcp::Instant;

/// How long a corked end holds back less than a full piece, in microseconds, as
/// Linux does.
const HOLD_US: u64 = 200_000;

/// Whether an end's host wants little to wait for more, and until when it does.
#[derive(Debug, Default)]
pub(crate) struct Cork {
    corked: bool,
    more_follows: bool,
    until: Option<Instant>,
}

impl Cork {
    /// As TCP_CORK is set.
    pub(super) fn new(corked: bool) -> Self {
        Self {
            corked,
            ..Self::default()
        }
    }

    /// TCP_CORK was set, or taken out.
    pub(crate) fn set(&mut self, corked: bool) {
        self.corked = corked;
        if !corked {
            self.until = None;
            self.more_follows = false;
        }
    }

    /// Whether the last write said that more follows at once (MSG_MORE).
    pub(crate) fn set_more_follows(&mut self, follows: bool) {
        self.more_follows = follows;
    }

    /// Whether so `little` waits for more at `now`: for [`HOLD_US`] at most.
    pub(super) fn holds_back(&mut self, little: bool, now: Instant) -> bool {
        if !(little && (self.corked || self.more_follows)) {
            self.until = None;
            return false;
        }
        now < *self.until.get_or_insert(now.after_us(HOLD_US))
    }

    /// All that was held back is gone.
    pub(crate) fn end_hold(&mut self) {
        self.until = None;
    }

    /// When what is held back goes all the same.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }
}
