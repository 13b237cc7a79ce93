//! What routers are still to be told of one group: changes, as often as it takes, and answers (RFC
//! 3376 section 5, RFC 3810 section 6).
//!
//! Owns [`Changes`] and [`Answer`]; each group of `groups` has them.

use super::merged::Merged;
use crate::Instant;

/// How often a change is reported (the robustness variable of RFC 3376 section 8.1).
pub(super) const REPORT_COUNT: u8 = 2;
/// Most sources whose changes are told one by one. Of more, the whole list is.
const MOST_CHANGES: usize = 1_024;
/// Most sources that an answer is kept for. Of more, it is about the whole group.
const MOST_ASKED: usize = 64;

/// Changes that are still to be reported.
#[derive(Debug)]
pub(super) struct Changes<A> {
    /// How often it is still to be said what the list means, with all of it.
    whole: u8,
    /// The sources that came or went, and how often each is still to be reported.
    sources: Vec<(A, u8)>,
    /// When the next report is due.
    pub(super) due: Instant,
}

impl<A: Copy + Ord> Changes<A> {
    pub(super) const NONE: Self = Self {
        whole: 0,
        sources: Vec::new(),
        due: Instant(0),
    };

    /// Whether there are any.
    pub(super) fn are_due(&self) -> bool {
        self.whole != 0 || !self.sources.is_empty()
    }

    /// All that is received is to be reported, from `now` on.
    pub(super) fn report_whole(&mut self, now: Instant) {
        self.whole = REPORT_COUNT;
        self.sources.clear();
        self.due = now;
    }

    /// The list has lost or won these sources, and means what it did.
    pub(super) fn report_sources(&mut self, changed: impl Iterator<Item = A>, now: Instant) {
        for source in changed {
            self.due = now;
            self.sources.retain(|(known, _)| *known != source);
            if self.sources.len() == MOST_CHANGES {
                return self.report_whole(now);
            }
            self.sources.push((source, REPORT_COUNT));
        }
    }

    /// A report is made: whether it is of all that is received, or else of the sources that
    /// came and of those that went.
    pub(super) fn report(&mut self, merged: &Merged<A>) -> Option<(Vec<A>, Vec<A>)> {
        let is_whole = self.whole != 0;
        self.whole = self.whole.saturating_sub(1);
        let changed = self.sources.iter().map(|(source, _)| *source);
        let lists = (!is_whole).then(|| changed.partition(|source| merged.permits(*source)));
        self.sources.retain_mut(|(_, times)| {
            *times -= 1;
            *times != 0
        });
        lists
    }
}

/// An answer to a router that has asked about one group.
#[derive(Debug)]
pub(super) struct Answer<A> {
    pub(super) due: Instant,
    /// The sources that it has asked for; none if for all.
    pub(super) sources: Vec<A>,
}

impl<A: Copy + PartialEq> Answer<A> {
    /// The answer at `due`, and to what was asked `before`: at the sooner time, and about what
    /// either is about (RFC 3376 section 5.2).
    pub(super) fn with(before: Option<Self>, due: Instant, asked: impl Iterator<Item = A>) -> Self {
        let of_all = before.as_ref().is_some_and(|b| b.sources.is_empty());
        let mut answer = before.unwrap_or(Self {
            due,
            sources: Vec::new(),
        });
        answer.due = answer.due.min(due);
        let mut asks_for_all = true;
        for source in asked {
            asks_for_all = false;
            if answer.sources.len() > MOST_ASKED {
                break;
            }
            if !answer.sources.contains(&source) {
                answer.sources.push(source);
            }
        }
        if of_all || asks_for_all || answer.sources.len() > MOST_ASKED {
            answer.sources.clear();
        }
        answer
    }
}
