//! Which channels may have requests, and when they are to be fetched.
//!
//! Owns [`PendingRequests`], a part of [`AdapterSession`](super::AdapterSession): the words in
//! which programs flag their channels, and the word by which they know whether this worker
//! sleeps. The engine's loop asks it each turn and before each sleep.

use super::batching::{BatchedRequests, Batching};
use super::due::{Delays, Due};
use crate::abi::Hurry;
use crate::transport::Meeting;
use longshore_ring::Sleep;
use std::sync::atomic::Ordering;

/// The requests that wait at one worker of a session.
#[derive(Debug)]
pub struct PendingRequests {
    /// By what programs and this worker find each other.
    meeting: Meeting,
    /// Words of 64 channels each.
    words: usize,
    /// Since when there are requests that are to be fetched soon, in the engine's microseconds.
    soon_since: Option<u64>,
    /// And since when there are some that are held back.
    held_since: Option<u64>,
    /// Kept with fixed batching.
    batched: Option<Box<BatchedRequests>>,
}

/// Whether some of the requests that are `pending` are to be fetched though no others are.
#[inline]
fn is_any_wanted(pending: u32) -> bool {
    let wanted = [Hurry::Now, Hurry::Soon, Hurry::HeldBack];
    wanted.iter().any(|hurry| hurry.is_in(pending))
}

impl PendingRequests {
    pub(super) fn new(meeting: Meeting, channels: u32) -> Self {
        Self {
            meeting,
            words: channels as usize / 64,
            soon_since: None,
            held_since: None,
            batched: None,
        }
    }

    /// By what programs and this worker find each other.
    #[cfg(test)]
    pub(crate) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Requests are fetched in fixed batches from now on.
    pub(super) fn batch(&mut self, fixed: Batching) {
        self.batched = Some(Box::new(BatchedRequests::new(fixed)));
    }

    /// Words of 64 channels each, one of which [`take_flags`](Self::take_flags) takes.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words
    }

    /// A bit for each of these words in which a channel is flagged, of those that were when
    /// [`begin`](Self::begin) was called.
    #[must_use]
    pub fn flagged_words(&self) -> u32 {
        let words = &self.meeting.pending().channels;
        let words = words.iter().take(self.words).rev();
        words.fold(0, |bits, word| {
            bits << 1 | u32::from(word.load(Ordering::Relaxed) != 0)
        })
    }

    /// Whether any process may have published requests.
    #[inline]
    #[must_use]
    pub fn has_any(&self) -> bool {
        let any = &self.meeting.pending().any;
        any.load(Ordering::Relaxed) != 0
    }

    /// When they are to be fetched, at `now`, in the engine's microseconds. `waiting` says how
    /// many there are in all flagged channels, or so many if there are more.
    #[inline]
    pub(super) fn due(
        &mut self,
        now: u64,
        delays: Delays,
        waiting: impl FnOnce(&Self, u32) -> u32,
    ) -> Due {
        if let Some(most) = self.batch_size() {
            let waiting = waiting(self, most);
            return self.batch_due(now, waiting);
        }
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::Relaxed);
        if Hurry::Now.is_in(pending) {
            return Due::Now;
        }
        let is_soon = Hurry::Soon.is_in(pending);
        if is_soon {
            let since = *self.soon_since.get_or_insert(now);
            if now.saturating_sub(since) >= delays.soon {
                return Due::Now;
            }
        }
        if Hurry::HeldBack.is_in(pending) {
            let since = *self.held_since.get_or_insert(now);
            return match since.saturating_add(delays.held_back) {
                until if until <= now => Due::Now,
                _ if is_soon => Due::Soon,
                until => Due::At(until),
            };
        }
        if is_soon { Due::Soon } else { Due::Never }
    }

    /// How many make a batch; `None` without fixed batching.
    #[inline]
    fn batch_size(&self) -> Option<u32> {
        self.batched.as_ref().map(|batched| batched.size())
    }

    /// When so many that wait are to be fetched as a batch.
    #[cold]
    fn batch_due(&mut self, now: u64, waiting: u32) -> Due {
        let is_wanted = self.are_any_wanted();
        let batched = self.batched.as_mut();
        batched.map_or(Due::Never, |batched| batched.due(now, waiting, is_wanted))
    }

    /// Whether some are to be fetched before any frame that has come is looked at.
    #[inline]
    #[must_use]
    pub fn has_any_before_frames(&self) -> bool {
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::Relaxed);
        // Of a batch none is taken before the others.
        Hurry::First.is_in(pending) && !(self.batched.is_some() && is_any_wanted(pending))
    }

    /// Whether there are requests that wait for nothing else, as is asked before a sleep:
    /// ordered after [`declare_asleep`](Self::declare_asleep). `waiting` is as for `due`.
    pub(super) fn still_has_any(&self, waiting: impl FnOnce(&Self, u32) -> u32) -> bool {
        if let Some(batched) = &self.batched {
            let is_enough = || batched.is_enough(waiting(self, batched.size()));
            let is_unseen = self.are_any_wanted() && batched.is_unseen();
            return self.has_any() && (is_unseen || is_enough());
        }
        let pending = self.meeting.pending();
        let pending = pending.any.load(Ordering::SeqCst);
        // Of those that are held back it is known since when, once they were seen.
        let is_unseen = Hurry::HeldBack.is_in(pending) && self.held_since.is_none();
        Hurry::Now.is_in(pending) || Hurry::Soon.is_in(pending) || is_unseen
    }

    /// Whether requests wait that are to be fetched though no others are.
    fn are_any_wanted(&self) -> bool {
        let pending = self.meeting.pending();
        is_any_wanted(pending.any.load(Ordering::SeqCst))
    }

    /// Those that wait for others wait no longer; whether there are requests at all.
    pub fn hurry(&self) -> bool {
        let any = &self.meeting.pending().any;
        let is_some = any.load(Ordering::SeqCst) != 0;
        if is_some {
            any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
        }
        is_some
    }

    /// All channels that are flagged are about to be looked at.
    pub fn begin(&mut self) {
        self.soon_since = None;
        self.held_since = None;
        if let Some(batched) = &mut self.batched {
            batched.begin();
        }
        let any = &self.meeting.pending().any;
        // Read, too: what was flagged before any of the flags in it is seen from here on.
        any.swap(0, Ordering::SeqCst);
    }

    /// Takes the flags of 64 channels, `word` times 64 and those that follow: a bit is set for
    /// each that may have requests.
    pub fn take_flags(&self, word: usize) -> u64 {
        let flags = self.meeting.pending().channels.get(word);
        flags.map_or(0, |flags| flags.swap(0, Ordering::AcqRel))
    }

    /// The channels that are flagged, whose flags stay.
    pub(super) fn flagged_channels(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.meeting.pending().channels.iter().enumerate();
        words.flat_map(|(i, flags)| {
            let mut flags = flags.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let bit = (flags != 0).then(|| flags.trailing_zeros() as usize)?;
                flags &= flags - 1;
                Some(i * 64 + bit)
            })
        })
    }

    /// Channels of `word` that were not looked at are to be looked at again.
    pub fn flag_again(&self, word: usize, flags: u64) {
        let pending = self.meeting.pending();
        if let Some(all) = pending.channels.get(word) {
            all.fetch_or(flags, Ordering::AcqRel);
        }
        pending.any.fetch_or(Hurry::Now as u32, Ordering::AcqRel);
    }

    /// A channel is to be looked at again.
    pub fn flag_channel(&self, channel: u16) {
        self.flag_again(usize::from(channel) / 64, 1 << (channel % 64));
    }

    /// The engine is about to sleep: a program that publishes requests wakes it. It looks for
    /// requests once more after this
    /// ([`still_has_requests`](super::AdapterSession::still_has_requests)).
    pub fn declare_asleep(&self) {
        self.meeting.engine().declare(Sleep::Eventfd);
    }

    /// The engine looks for requests of this session no more until its doorbell rings: a
    /// program that publishes some rings it, even for what can wait. `false` if there are some
    /// already, and then it must go on looking.
    #[must_use]
    pub fn park(&self) -> bool {
        let engine = self.meeting.engine();
        engine.park();
        let is_parked = !self.hurry();
        if !is_parked {
            engine.cancel();
        }
        is_parked
    }

    /// The engine is awake, and looks for requests again.
    pub fn declare_awake(&self) {
        self.meeting.engine().cancel();
    }
}

#[cfg(test)]
mod tests;
