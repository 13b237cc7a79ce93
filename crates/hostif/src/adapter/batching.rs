//! Fixed batching: descriptors cross when so many of them wait, or the first of them has waited
//! for so long, as in the 2005 paper (ten, and ten milliseconds). Without it, which is the rule,
//! they cross when they are of use: requests when their program says so, completions at the end
//! of each turn.
//!
//! Owns [`Batching`], which the engine chooses for its sessions, and what a session keeps of it.
//! The engine asks when requests are due and until when completions are held, and looks again
//! then.

use super::AdapterSession;
use super::channels::{Due, is_any_wanted};
use std::sync::atomic::Ordering;

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

/// What a session with fixed batching keeps.
#[derive(Debug)]
pub(super) struct Batches {
    fixed: Batching,
    /// Since when requests are known to wait, in the engine's microseconds.
    requests_since: Option<u64>,
    /// And completions.
    completions_since: Option<u64>,
    /// Completions that had been staged when some were published last.
    published: u64,
}

impl AdapterSession {
    /// Descriptors of this session cross in fixed batches from now on.
    pub fn set_batching(&mut self, fixed: Batching) {
        self.batches = Some(Box::new(Batches {
            fixed,
            requests_since: None,
            completions_since: None,
            published: self.meter.to_host.descriptors.count,
        }));
    }

    /// Until when completions that are staged wait for others, in the engine's microseconds, at
    /// `now`; `None` if they are to be [published](Self::publish).
    #[inline]
    pub fn completions_held_until(&mut self, now: u64) -> Option<u64> {
        self.batches.as_ref()?;
        self.hold_completions(now)
    }

    #[cold]
    fn hold_completions(&mut self, now: u64) -> Option<u64> {
        let batches = self.batches.as_mut()?;
        let count = self.meter.to_host.descriptors.count;
        let staged = count - batches.published;
        if staged != 0 && staged < batches.fixed.descriptors.into() {
            let since = *batches.completions_since.get_or_insert(now);
            let until = since.saturating_add(batches.fixed.microseconds);
            if until > now {
                return Some(until);
            }
        }
        batches.published = count;
        batches.completions_since = None;
        None
    }

    /// Whether completions are held, and whoever is to be woken for them sleeps on.
    #[inline]
    pub(super) fn holds_completions(&self) -> bool {
        let batches = self.batches.as_ref();
        batches.is_some_and(|batches| batches.completions_since.is_some())
    }

    /// When requests are to be fetched; `None` without fixed batching.
    #[cold]
    pub(super) fn batch_due(&mut self, now: u64) -> Option<Due> {
        let waiting = self.requests_waiting()?;
        let is_wanted = self.are_any_wanted();
        let batches = self.batches.as_mut()?;
        // A flag without requests is of a process that has made room, or of a new one.
        if waiting == 0 || waiting >= batches.fixed.descriptors {
            return Some(Due::Now);
        }
        if !is_wanted {
            return Some(Due::Never);
        }
        let since = *batches.requests_since.get_or_insert(now);
        let until = since.saturating_add(batches.fixed.microseconds);
        Some(if until <= now {
            Due::Now
        } else {
            Due::At(until)
        })
    }

    /// Whether requests wait of which the engine has not seen that they do, or enough of them;
    /// `None` without fixed batching.
    pub(super) fn has_new_batch(&self) -> Option<bool> {
        let batches = self.batches.as_ref()?;
        let is_unseen = self.are_any_wanted() && batches.requests_since.is_none();
        let is_enough = || {
            let waiting = self.requests_waiting();
            waiting.is_some_and(|waiting| waiting == 0 || waiting >= batches.fixed.descriptors)
        };
        Some(self.has_requests() && (is_unseen || is_enough()))
    }

    /// What waits is about to be fetched.
    pub(super) fn begin_batch(&mut self) {
        if let Some(batches) = &mut self.batches {
            batches.requests_since = None;
        }
    }

    /// Whether requests wait that are to be fetched though no others are.
    fn are_any_wanted(&self) -> bool {
        let pending = self.meeting.pending();
        is_any_wanted(pending.any.load(Ordering::SeqCst))
    }

    /// How many requests wait in the channels that are flagged, or as many as a batch has if
    /// there are more; `None` without fixed batching.
    fn requests_waiting(&self) -> Option<u32> {
        let most = self.batches.as_ref()?.fixed.descriptors;
        let mut waiting = 0;
        for (i, flags) in self.meeting.pending().channels.iter().enumerate() {
            let mut flags = flags.load(Ordering::Acquire);
            while flags != 0 && waiting < most {
                let channel = i * 64 + flags.trailing_zeros() as usize;
                flags &= flags - 1;
                if let Some(Some(end)) = self.channels.ends.get(channel) {
                    waiting += end.channel.waiting(&self.arena, most - waiting);
                }
            }
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests;
