//! Multicast group membership with its sources, and its reports to routers (the host's part of
//! RFC 3376 and RFC 3810).
//!
//! Owns [`Groups`], one for each version of IP. The engine changes what its sockets receive of a
//! group, passes queries in, and sends the reports that [`Groups::poll`] returns.
//!
//! | what it owns | file |
//! | --- | --- |
//! | what a link receives of a group | `groups/merged.rs` |
//! | what is still to be told of it | `groups/pending.rs` |
//! | how much each session and user has of the room | `groups/shares.rs` |

mod merged;
mod pending;
mod shares;

use crate::Instant;
use crate::random::Random;
use longshore_wire::membership::Record;
use merged::Merged;
pub use merged::{Filter, Mode};
use pending::{Answer, Changes};
pub use shares::{Full, MOST, MOST_SOURCES, Member};
use shares::{Shares, Taken};

/// Within this time a report is repeated, in milliseconds (RFC 3376 section 8.11).
const REPEAT_WITHIN_MS: u32 = 1_000;

/// A group. One that nobody receives is kept until that has been reported.
#[derive(Debug)]
struct Entry<A> {
    group: A,
    received: Merged<A>,
    shares: Shares<A>,
    changes: Changes<A>,
    answer: Option<Answer<A>>,
}

/// What routers are told of a group.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a, A> {
    /// The group.
    pub group: A,
    /// What is said.
    pub record: Record,
    /// Of which sources, at most [`MOST_SOURCES`].
    pub sources: &'a [A],
    /// Whether anything of the group is received: older routers are told that alone.
    pub is_member: bool,
}

/// The groups of one version of IP.
#[derive(Debug)]
pub struct Groups<A> {
    /// In the order of groups.
    entries: Vec<Entry<A>>,
    taken: Taken,
    /// When a query for all groups is to be answered.
    answer: Option<Instant>,
    /// When there is something to tell.
    due: Option<Instant>,
    random: Random,
}

impl<A: Copy + Ord> Groups<A> {
    /// No groups. `seed` is random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            taken: Taken::NONE,
            answer: None,
            due: None,
            random: Random::new(seed),
        }
    }

    /// What a socket of `by` receives of `group` changes from one filter to another: from
    /// [`Filter::NONE`] if it joins, to that if it leaves.
    ///
    /// # Errors
    /// [`Full`], and nothing is changed, if there is no room for the group or its sources. To leave
    /// takes none.
    pub fn change(
        &mut self,
        group: A,
        by: Member,
        (from, to): (Filter<'_, A>, Filter<'_, A>),
        now: Instant,
    ) -> Result<(), Full> {
        let place = self.place_of(group);
        let (Ok(at) | Err(at)) = place;
        let leaves = to == Filter::NONE;
        if leaves && (place.is_err() || from == Filter::NONE) {
            return Ok(());
        }
        let known = place.ok().and_then(|at| self.entries.get(at));
        if !leaves {
            let is_full = known.is_none() && self.entries.len() == MOST;
            self.taken.check(by, known.map(|entry| &entry.shares))?;
            known.map_or(Ok(()), |entry| entry.check(by, (from, to)))?;
            if is_full {
                return Err(Full::Link);
            }
        }
        if known.is_none() {
            self.entries.insert(at, Entry::new(group));
        }
        if let Some(entry) = self.entries.get_mut(at) {
            entry.change(by, (from, to), &mut self.taken, now);
        }
        self.note_due();
        Ok(())
    }

    fn place_of(&self, group: A) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&group, |e| e.group)
    }

    fn member(&self, group: A) -> Option<&Entry<A>> {
        let entry = self.entries.get(self.place_of(group).ok()?);
        entry.filter(|e| !e.received.is_none())
    }

    /// Whether a socket is a member of `group`, whatever its sources.
    #[must_use]
    pub fn contains(&self, group: A) -> bool {
        self.member(group).is_some()
    }

    /// Whether a socket receives what `source` sends to `group`.
    #[must_use]
    pub fn permits(&self, group: A, source: A) -> bool {
        self.member(group)
            .is_some_and(|e| e.received.permits(source))
    }

    /// The groups that have members.
    pub fn iter(&self) -> impl Iterator<Item = A> + '_ {
        let members = self.entries.iter().filter(|e| !e.received.is_none());
        members.map(|e| e.group)
    }

    /// A router queries all groups, and waits `within_ms` for answers (RFC 3376 section 5.2).
    /// An answer that is due earlier stays so.
    pub fn asked_all(&mut self, within_ms: u32, now: Instant) {
        let at = random_time(&mut self.random, now, within_ms);
        self.answer = Some(self.answer.map_or(at, |due| due.min(at)));
        self.note_due();
    }

    /// As [`asked_all`](Self::asked_all), of one group: of these sources, or all of it if there
    /// are none.
    pub fn asked(
        &mut self,
        group: A,
        sources: impl Iterator<Item = A>,
        within_ms: u32,
        now: Instant,
    ) {
        let at = random_time(&mut self.random, now, within_ms);
        let place = self.place_of(group).ok();
        let entry = place.and_then(|place| self.entries.get_mut(place));
        if let Some(entry) = entry.filter(|e| !e.received.is_none()) {
            entry.answer = Some(Answer::with(entry.answer.take(), at, sources));
        }
        self.note_due();
    }

    /// The link has changed, or has returned: reports all groups again, as if just
    /// joined.
    pub fn tell_again(&mut self, now: Instant) {
        let members = self.entries.iter_mut().filter(|e| !e.received.is_none());
        for entry in members {
            entry.changes.report_whole(now);
        }
        self.note_due();
    }

    /// Calls `tell` with each report that is due.
    pub fn poll(&mut self, now: Instant, mut tell: impl FnMut(&Report<'_, A>)) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let all = self.answer.take_if(|at| *at <= now).is_some();
        for entry in &mut self.entries {
            if entry.changes.are_due() && entry.changes.due <= now {
                entry.report_changes(&mut tell);
                entry.changes.due = random_time(&mut self.random, now, REPEAT_WITHIN_MS);
            }
            let alone = entry.answer.take_if(|answer| answer.due <= now);
            if all {
                entry.answer(&[], &mut tell);
            } else if let Some(answer) = alone {
                entry.answer(&answer.sources, &mut tell);
            }
        }
        self.entries.retain(|entry| {
            let stays = !entry.received.is_none() || entry.changes.are_due();
            if !stays {
                self.taken.give_back(&entry.shares);
            }
            stays
        });
        self.note_due();
    }

    /// When [`Groups::poll`] has a report.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.due
    }

    fn note_due(&mut self) {
        let changes = self.entries.iter().filter(|e| e.changes.are_due());
        let answers = self.entries.iter().filter_map(|e| e.answer.as_ref());
        let due = changes.map(|e| e.changes.due).chain(self.answer);
        self.due = due.chain(answers.map(|a| a.due)).min();
    }
}

impl<A: Copy + Ord> Entry<A> {
    const fn new(group: A) -> Self {
        Self {
            group,
            received: Merged::EMPTY,
            shares: Shares::NONE,
            changes: Changes::NONE,
            answer: None,
        }
    }

    /// Whether there is room for the sources that a membership comes to list.
    fn check(&self, by: Member, (from, to): (Filter<'_, A>, Filter<'_, A>)) -> Result<(), Full> {
        self.shares.check(by, (from, to))?;
        match self.received.len_after(from, to) > MOST_SOURCES {
            true => Err(Full::Link),
            false => Ok(()),
        }
    }

    /// As [`Groups::change`]: notes what is to be told of it (RFC 3376 section 5.1).
    fn change(
        &mut self,
        by: Member,
        (from, to): (Filter<'_, A>, Filter<'_, A>),
        taken: &mut Taken,
        now: Instant,
    ) {
        let mode = self.received.mode();
        let before: Vec<A> = self.received.sources().collect();
        self.received.remove(from);
        self.received.add(to);
        let after: Vec<A> = self.received.sources().collect();
        if self.received.mode() == mode {
            let gone = before.iter().filter(|s| after.binary_search(s).is_err());
            let come = after.iter().filter(|s| before.binary_search(s).is_err());
            self.changes.report_sources(gone.chain(come).copied(), now);
        } else {
            self.changes.report_whole(now);
        }
        let is_left = self.received.is_none();
        self.shares.change(by, (from, to), taken, is_left);
        if is_left {
            self.answer = None;
        }
    }

    fn report_changes(&mut self, tell: &mut impl FnMut(&Report<'_, A>)) {
        match self.changes.report(&self.received) {
            None => self.report_all((Record::ToInclude, Record::ToExclude), tell),
            Some((come, gone)) => {
                for (record, sources) in [(Record::Allow, come), (Record::Block, gone)] {
                    if !sources.is_empty() {
                        tell(&self.report(record, &sources));
                    }
                }
            }
        }
    }

    /// Tells all of the list, with the record that says what it means.
    fn report_all(
        &self,
        (include, exclude): (Record, Record),
        tell: &mut impl FnMut(&Report<'_, A>),
    ) {
        let record = match self.received.mode() {
            Mode::Include => include,
            Mode::Exclude => exclude,
        };
        let sources: Vec<A> = self.received.sources().collect();
        tell(&self.report(record, &sources));
    }

    /// Answers a query for these sources, or for all if there are none; of what is not received,
    /// nothing is said (RFC 3376 section 5.2).
    fn answer(&self, asked: &[A], tell: &mut impl FnMut(&Report<'_, A>)) {
        if self.received.is_none() {
            return;
        }
        if asked.is_empty() {
            return self.report_all((Record::IsInclude, Record::IsExclude), tell);
        }
        let received = asked
            .iter()
            .filter(|source| self.received.permits(**source));
        let received: Vec<A> = received.copied().collect();
        if !received.is_empty() {
            tell(&self.report(Record::IsInclude, &received));
        }
    }

    fn report<'a>(&self, record: Record, sources: &'a [A]) -> Report<'a, A> {
        Report {
            group: self.group,
            record,
            sources,
            is_member: !self.received.is_none(),
        }
    }
}

/// A random time between `now` and `within_ms` later.
fn random_time(random: &mut Random, now: Instant, within_ms: u32) -> Instant {
    let within_us = u64::from(within_ms) * 1_000;
    Instant(now.0.saturating_add(random.draw() % (within_us + 1)))
}

#[cfg(test)]
mod tests;
