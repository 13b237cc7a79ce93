//! Multicast group membership, and its reports to routers (the host's part of RFC 3376
//! and RFC 3810, with no source filters).
//!
//! Owns [`Groups`], one for each version of IP. The engine joins and leaves groups for
//! its sockets, passes queries in, and sends the reports that [`Groups::poll`] returns.

use crate::Instant;
use crate::random::Random;
use longshore_wire::membership::Record;

/// Most groups that are kept; joining another one fails.
pub const MOST: usize = 256;
/// How often a change is reported (the robustness variable of RFC 3376 section 8.1).
const REPORT_COUNT: u8 = 2;
/// Within this time a report is repeated, in milliseconds (RFC 3376 section 8.11).
const REPEAT_WITHIN_MS: u32 = 1_000;

#[derive(Debug, Clone, Copy)]
struct Entry<A> {
    group: A,
    /// Number of members; an entry without members is kept until its leave has been
    /// reported.
    users: u32,
    /// How many reports of the last change are still to be sent, and when the next is
    /// due.
    reports_due: u8,
    due: Instant,
    /// When a query for this group is to be answered.
    answer: Option<Instant>,
}

/// The groups of one version of IP.
#[derive(Debug)]
pub struct Groups<A> {
    entries: Vec<Entry<A>>,
    /// When a query for all groups is to be answered.
    answer: Option<Instant>,
    random: Random,
}

impl<A: Copy + Eq> Groups<A> {
    /// No groups. `seed` is random.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            entries: Vec::new(),
            answer: None,
            random: Random::new(seed),
        }
    }

    /// A socket joins `group`. Returns `false` if there is no room for it.
    pub fn join(&mut self, group: A, now: Instant) -> bool {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.group == group) {
            entry.users += 1;
            if entry.users == 1 {
                (entry.reports_due, entry.due) = (REPORT_COUNT, now);
            }
            return true;
        }
        if self.entries.len() == MOST {
            return false;
        }
        self.entries.push(Entry {
            group,
            users: 1,
            reports_due: REPORT_COUNT,
            due: now,
            answer: None,
        });
        true
    }

    /// A socket leaves `group`.
    pub fn leave(&mut self, group: A, now: Instant) {
        let Some(entry) = self.entries.iter_mut().find(|e| e.group == group) else {
            return;
        };
        if entry.users == 1 {
            (entry.reports_due, entry.due) = (REPORT_COUNT, now);
            entry.answer = None;
        }
        entry.users = entry.users.saturating_sub(1);
    }

    /// Whether a socket is a member of `group`.
    #[must_use]
    pub fn contains(&self, group: A) -> bool {
        self.entries.iter().any(|e| e.group == group && e.users > 0)
    }

    /// The groups that have members.
    pub fn iter(&self) -> impl Iterator<Item = A> + '_ {
        self.entries.iter().filter(|e| e.users > 0).map(|e| e.group)
    }

    /// A router queries `group`, or all groups, and waits `within_ms` for answers (RFC
    /// 3376 section 5.2). Answers that are due earlier stay so.
    pub fn asked(&mut self, group: Option<A>, within_ms: u32, now: Instant) {
        let at = random_time(&mut self.random, now, within_ms);
        let sooner = |due: Option<Instant>| Some(due.map_or(at, |due| due.min(at)));
        match group {
            None => self.answer = sooner(self.answer),
            Some(group) => {
                let asked = self.entries.iter_mut();
                if let Some(entry) = asked.filter(|e| e.users > 0).find(|e| e.group == group) {
                    entry.answer = sooner(entry.answer);
                }
            }
        }
    }

    /// The link has changed, or has returned: reports all groups again, as if just
    /// joined.
    pub fn tell_again(&mut self, now: Instant) {
        for entry in self.entries.iter_mut().filter(|e| e.users > 0) {
            (entry.reports_due, entry.due) = (REPORT_COUNT, now);
        }
    }

    /// Calls `tell` with each report that is due.
    pub fn poll(&mut self, now: Instant, mut tell: impl FnMut(A, Record)) {
        let all = self.answer.take_if(|at| *at <= now).is_some();
        for entry in &mut self.entries {
            if entry.reports_due > 0 && entry.due <= now {
                entry.reports_due -= 1;
                entry.due = random_time(&mut self.random, now, REPEAT_WITHIN_MS);
                let change = if entry.users > 0 {
                    Record::Joined
                } else {
                    Record::Left
                };
                tell(entry.group, change);
            }
            let alone = entry.answer.take_if(|at| *at <= now).is_some();
            if entry.users > 0 && (all || alone) {
                tell(entry.group, Record::Listening);
            }
        }
        self.entries.retain(|e| e.users > 0 || e.reports_due > 0);
    }

    /// When [`Groups::poll`] has a report.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let changes = self.entries.iter().filter(|e| e.reports_due > 0);
        let answers = self.entries.iter().filter_map(|e| e.answer);
        let due = changes.map(|e| e.due).chain(answers).chain(self.answer);
        due.min()
    }
}

/// A random time between `now` and `within_ms` later.
fn random_time(random: &mut Random, now: Instant, within_ms: u32) -> Instant {
    let within_us = u64::from(within_ms) * 1_000;
    Instant(now.0.saturating_add(random.draw() % (within_us + 1)))
}

#[cfg(test)]
mod tests;
