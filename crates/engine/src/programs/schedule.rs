//! The sessions that are looked over, and when: those that are polled, and those that have said
//! that something is to be seen to. The others cost nothing, however many there are.

use crate::session::Sessions;
use longshore_tcp::Instant;

/// How often sessions are looked over, in microseconds.
const INTERVAL: u64 = 1_000_000;
/// How often while a session is about to end, or a child to be born, in microseconds.
pub(crate) const SOON: u64 = 100_000;

/// A round over sessions, in parts, and the time of the next.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// When it goes on.
    at: Instant,
    /// Sessions that are looked over next time though they may be parked, each once.
    listed: Vec<u32>,
    /// Those that are still to be looked over this time.
    rest: Vec<u32>,
    /// When the first of those that were wants to be looked over again.
    next: Instant,
}

impl Schedule {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            at: now,
            listed: Vec::new(),
            rest: Vec::new(),
            next: Instant::NEVER,
        }
    }

    /// When it goes on.
    #[inline]
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// As if it was to go on then.
    #[cfg(test)]
    pub(crate) fn set_at(&mut self, at: Instant) {
        self.at = at;
    }

    /// Something has changed that is to be looked after, but not at once.
    pub(crate) fn soon(&mut self, now: Instant) {
        self.at = self.at.min(now.after_us(SOON));
    }

    /// Something has changed that is to be looked after at once.
    pub(super) fn at_once(&mut self, now: Instant) {
        self.at = now;
    }

    /// A session is looked over next time.
    pub(super) fn list(&mut self, sessions: &mut Sessions, key: u32) {
        if let Some(s) = sessions.get_mut(key)
            && !std::mem::replace(&mut s.is_listed, true)
        {
            self.listed.push(key);
        }
    }

    /// Whether sessions are to be looked over in this round or the next that have said so.
    pub(super) fn has_listed(&self) -> bool {
        !self.rest.is_empty() || !self.listed.is_empty()
    }

    /// Whether a round is over, and a new one to be begun.
    pub(crate) fn is_between_rounds(&self) -> bool {
        self.rest.is_empty()
    }

    /// Begins a round: over those that are `polled`, and those that have asked for it.
    pub(crate) fn begin(&mut self, sessions: &mut Sessions, polled: &[u32], now: Instant) {
        self.next = now.after_us(INTERVAL);
        let is_listed = |key| sessions.get(key).is_some_and(|s| s.is_listed);
        let polled = polled.iter().copied();
        self.rest.extend(polled.filter(|key| !is_listed(*key)));
        for key in self.listed.drain(..) {
            if let Some(s) = sessions.get_mut(key) {
                s.is_listed = false;
                self.rest.push(key);
            }
        }
    }

    /// The next session of this round.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.rest.pop()
    }

    /// A session was looked over, and wants to be again then.
    pub(crate) fn again_at(&mut self, next: Instant) {
        self.next = self.next.min(next);
    }

    /// So much of this round was done as there is time for.
    pub(crate) fn pause(&mut self) {
        if self.rest.is_empty() {
            self.at = self.next;
        }
    }
}
