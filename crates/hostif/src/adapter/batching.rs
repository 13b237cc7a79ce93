//! Fixed batching: descriptors cross when so many of them wait, or the first of them has waited
//! for so long, as in the 2005 paper (ten, and ten milliseconds). Without it, which is the rule,
//! they cross when they are of use: requests when their program says so, completions at the end
//! of each turn.
//!
//! Owns [`Batching`], which the engine chooses for its sessions, and what a session keeps of it
//! for either direction: `pending_requests` asks when requests are due, and the session until
//! when completions are held.

use super::due::Due;

/// The most descriptors that a batch may wait for: so many that the rings, of 1,024 slots, keep
/// room for those of the turn in which they cross.
pub const MOST_BATCHED: u32 = 256;
/// The longest that descriptors may wait for others, in microseconds.
pub const LONGEST_BATCHING: u64 = 1_000_000;

/// Descriptors of a session cross when so many wait, or the first of them has waited for so
/// long, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    descriptors: u32,
    microseconds: u64,
}

impl Batching {
    /// So many descriptors, 1 to [`MOST_BATCHED`], and microseconds, 1 to
    /// [`LONGEST_BATCHING`]; `None` beyond that.
    #[must_use]
    pub fn fixed(descriptors: u32, microseconds: u64) -> Option<Self> {
        let is_possible = (1..=MOST_BATCHED).contains(&descriptors)
            && (1..=LONGEST_BATCHING).contains(&microseconds);
        is_possible.then_some(Self {
            descriptors,
            microseconds,
        })
    }
}

/// What a session with fixed batching keeps of the requests that wait.
#[derive(Debug)]
pub(super) struct BatchedRequests {
    fixed: Batching,
    /// Since when some are known to wait, in the engine's microseconds.
    since: Option<u64>,
}

impl BatchedRequests {
    pub(super) fn new(fixed: Batching) -> Self {
        Self { fixed, since: None }
    }

    /// How many make a batch.
    pub(super) fn size(&self) -> u32 {
        self.fixed.descriptors
    }

    /// Whether so many that wait are fetched at once. A flag without requests is of a process
    /// that has made room, or of a new one.
    pub(super) fn is_enough(&self, waiting: u32) -> bool {
        waiting == 0 || waiting >= self.fixed.descriptors
    }

    /// Whether the engine has not seen yet that any wait.
    pub(super) fn is_unseen(&self) -> bool {
        self.since.is_none()
    }

    /// When so many that wait are to be fetched, which are wanted though no others are, or not.
    pub(super) fn due(&mut self, now: u64, waiting: u32, is_wanted: bool) -> Due {
        if self.is_enough(waiting) {
            return Due::Now;
        }
        if !is_wanted {
            return Due::Never;
        }
        let since = *self.since.get_or_insert(now);
        let until = since.saturating_add(self.fixed.microseconds);
        if until <= now {
            Due::Now
        } else {
            Due::At(until)
        }
    }

    /// What waits is about to be fetched.
    pub(super) fn begin(&mut self) {
        self.since = None;
    }
}

/// What a session with fixed batching keeps of the completions that are staged.
#[derive(Debug)]
pub(super) struct BatchedCompletions {
    fixed: Batching,
    /// Since when some wait, in the engine's microseconds.
    since: Option<u64>,
    /// How many had been staged when some were published last.
    published: u64,
}

impl BatchedCompletions {
    /// `count` were staged up to now.
    pub(super) fn new(fixed: Batching, count: u64) -> Self {
        Self {
            fixed,
            since: None,
            published: count,
        }
    }

    /// Until when those that are staged wait for others, where `count` were up to now; `None` if
    /// they are to be published.
    pub(super) fn held_until(&mut self, now: u64, count: u64) -> Option<u64> {
        let staged = count - self.published;
        if staged != 0 && staged < self.fixed.descriptors.into() {
            let since = *self.since.get_or_insert(now);
            let until = since.saturating_add(self.fixed.microseconds);
            if until > now {
                return Some(until);
            }
        }
        self.published = count;
        self.since = None;
        None
    }

    /// Whether some are held.
    pub(super) fn holds_any(&self) -> bool {
        self.since.is_some()
    }
}

#[cfg(test)]
mod tests;
