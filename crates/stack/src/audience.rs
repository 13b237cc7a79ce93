//! Which processes are told of the connections that wait at a listener.
//!
//! Several may have it, as a server that forks has with its workers, and most of them never
//! accept: to tell those, too, is a descriptor, a transfer and perhaps a wake-up for each
//! connection and process. So only those are told that have accepted before, and the others
//! when a connection was left waiting for [`ALL_DUE_AFTER_US`], as those may be busy. If there is
//! but one of them, the connection itself is its from the beginning, and it need not ask for
//! that. Where many are to be told, some are in each turn, and those that sleep are woken when
//! all were: others wait for no more than that.
//!
//! Of several that sleep until a connection comes, as many are told and woken as have come, as by
//! Linux's accept and EPOLLEXCLUSIVE: the others would find nothing. Should one that was woken
//! not accept, all are after [`WAKE_ALL_AFTER_US`].
//!
//! Each listener owns an [`Audience`]; `socket/listener` asks it whom to tell, `passive` whose a
//! connection is, and `requests` says who has accepted.

use longshore_hostif::ACCEPT_RECORD;
use longshore_hostif::adapter::{AdapterSession, Sleeper, Subscribers};
use longshore_tcp::Instant;

/// How long a connection waits for those that have accepted before, in microseconds, until
/// all who listen are told of it.
const ALL_DUE_AFTER_US: u64 = 2_000;
/// The same if as many as there are connections slept and were woken: they do nothing else, but
/// may wait for a processor.
const WAKE_ALL_AFTER_US: u64 = 10_000;
/// How long after that, if they may have said by then that they have accepted it, and it was
/// not fetched: it is at once.
const FETCH_US: u64 = 100;

/// So many are told at once, and of more as many in each turn.
pub(crate) const AT_ONCE: usize = 32;

/// The processes that are to learn that connections have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// All that have the listener.
    All,
    /// Those of them that have accepted before.
    Acceptors,
}

/// Those who are told of a [`Report`] in this turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whom<'a> {
    These(&'a Subscribers),
    /// Those alone that are woken for it.
    Picked,
    /// Some of many, by [`Audience::take_some`].
    Many,
}

/// The processes that have accepted, of those that have a listener, and what was reported to which.
#[derive(Debug)]
pub(crate) struct Audience {
    acceptors: Subscribers,
    /// How far they were told that the listener's stream reaches, and how far all were.
    reported: u64,
    reported_to_all: u64,
    /// When all are to be told.
    all_due: Instant,
    /// It was put off so that what they have said is fetched.
    fetches: bool,
    /// A connection of the stack's own sockets has come, of which all are told at once.
    is_own: bool,
    /// How many of those that sleep to wake for what was told; `None` if all.
    wakes: Option<u32>,
    /// Some were told and not woken.
    sleeps: bool,
    /// A process that connections were given to has the listener no longer.
    lost: bool,
    /// Those of many that are still to be told.
    rest: Vec<u16>,
    /// Those to be told when they were, as another connection has come meanwhile.
    again: Vec<u16>,
}

impl Audience {
    pub(crate) const fn new() -> Self {
        Self {
            acceptors: Subscribers::NONE,
            reported: 0,
            reported_to_all: 0,
            all_due: Instant::NEVER,
            fetches: false,
            is_own: false,
            wakes: Some(0),
            sleeps: false,
            lost: false,
            rest: Vec::new(),
            again: Vec::new(),
        }
    }

    /// Whether all are about to be told since a connection has waited for long. Once, it can
    /// be put off.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.all_due <= now && !self.fetches
    }

    /// All are told later, when what those that accept have said was fetched.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.fetches = true;
        self.all_due = now.after_us(FETCH_US);
    }

    /// The process that the next connection is given to, if there is just one that may accept
    /// it, of those that have the listener. `own` if it comes from a socket of the stack: the process that
    /// has made it may look for it at once.
    pub(crate) fn single(&mut self, all: &Subscribers, own: bool, now: Instant) -> Option<u16> {
        if own {
            self.all_due = now;
            self.fetches = true;
            self.is_own = true;
        }
        if self.acceptors.is_empty() || self.all_due <= now {
            return all.single();
        }
        self.acceptors.single()
    }

    /// A process has accepted.
    pub(crate) fn note_acceptor(&mut self, channel: u16) {
        self.acceptors.add(channel);
    }

    /// Whether anybody has accepted who has the listener.
    pub(crate) fn has_acceptor(&self) -> bool {
        !self.acceptors.is_empty()
    }

    /// No connection waits any more.
    pub(crate) fn note_empty(&mut self) {
        self.all_due = Instant::NEVER;
        self.fetches = false;
        self.sleeps = false;
        self.lost = false;
    }

    /// A process has the listener no longer; connections `wait` that it may have been given.
    pub(crate) fn forget(&mut self, channel: u16, wait: bool, now: Instant) {
        if self.acceptors.contains(channel) {
            self.acceptors.remove(channel);
            if wait {
                self.all_due = now;
            }
        }
        self.lost |= wait;
    }

    /// Whether connections wait that were given to a process that is gone.
    pub(crate) fn has_lost_one(&self) -> bool {
        self.lost
    }

    /// Those of `all` that are to be told of a [`Report`], if these sleep and are to be woken for it.
    pub(crate) fn whom<'a>(
        &'a self,
        all: &'a Subscribers,
        report: Report,
        picked: Option<&[Sleeper]>,
    ) -> Whom<'a> {
        let whom = self.those_of(all, report);
        let is_its = |sleeper: &Sleeper| whom.single() == Some(sleeper.channel);
        if let (Report::Acceptors, Some(picked)) = (report, picked)
            && !picked.iter().all(is_its)
        {
            return Whom::Picked;
        }
        if whom.len() > AT_ONCE {
            return Whom::Many;
        }
        Whom::These(whom)
    }

    /// Those to be woken for what is told: as many of several that sleep as connections have
    /// come, of those that have accepted, if enough of these do. `None` if all that wait.
    pub(crate) fn pick(
        &mut self,
        host: &mut AdapterSession,
        listener: u32,
        all: &Subscribers,
        now: Instant,
    ) -> Option<Vec<Sleeper>> {
        let many = self.wakes.replace(0)? as usize;
        let picked = host.pick_sleepers(listener, &self.acceptors, many);
        let picked = picked.or_else(|| host.pick_sleepers(listener, all, many))?;
        self.note_picked(now);
        Some(picked)
    }

    /// Some alone are woken: others are told and woken, too, if nobody accepts.
    fn note_picked(&mut self, now: Instant) {
        self.sleeps = true;
        let is_new = self.all_due == now.after_us(ALL_DUE_AFTER_US);
        if is_new || self.all_due.is_never() {
            self.all_due = now.after_us(WAKE_ALL_AFTER_US);
        }
    }

    /// The processes that are to be told that the listener's stream reaches to `edge` now; none, if they were
    /// told.
    pub(crate) fn note_edge(
        &mut self,
        all: &Subscribers,
        edge: u64,
        now: Instant,
    ) -> Option<Report> {
        let is_own = std::mem::take(&mut self.is_own);
        if self.acceptors.is_empty() || self.all_due <= now {
            self.all_due = Instant::NEVER;
            let is_unreported = edge > self.reported_to_all || self.sleeps;
            self.sleeps = false;
            if is_unreported {
                let one_accepts = is_own && !self.acceptors.is_empty();
                self.note_wakes(one_accepts.then_some(edge));
            }
            (self.reported, self.reported_to_all) = (edge, edge);
            return is_unreported.then_some(Report::All);
        }
        if edge <= self.reported {
            return None;
        }
        self.note_wakes(Some(edge));
        self.reported = edge;
        if self.all_due.is_never() && all.single().is_none() {
            self.all_due = now.after_us(ALL_DUE_AFTER_US);
        }
        Some(Report::Acceptors)
    }

    /// As many are to be woken as connections came up to `edge`, or all.
    fn note_wakes(&mut self, edge: Option<u64>) {
        let come = edge.map(|edge| edge.saturating_sub(self.reported) / ACCEPT_RECORD as u64);
        let before = self.wakes;
        self.wakes = before.and_then(|before| Some(before.saturating_add(come? as u32)));
    }

    fn those_of<'a>(&'a self, all: &'a Subscribers, report: Report) -> &'a Subscribers {
        match report {
            Report::All => all,
            Report::Acceptors => &self.acceptors,
        }
    }

    /// Many are to be told of a report, some in each turn.
    pub(crate) fn report_to_many(&mut self, all: &Subscribers, report: Report) {
        let many: Vec<_> = self.those_of(all, report).iter().collect();
        if self.rest.is_empty() {
            self.rest = many;
        } else if self.again.len() < many.len() {
            self.again = many;
        }
    }

    /// Whether some of many are still to be told.
    pub(crate) fn reports_to_many(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Some of many that are to be told in this turn, and whether they are the last: then
    /// those that sleep are to be woken.
    pub(crate) fn take_some(&mut self) -> (Vec<u16>, bool) {
        let some = self.rest.split_off(self.rest.len().saturating_sub(AT_ONCE));
        let are_last = self.rest.is_empty();
        if are_last {
            std::mem::swap(&mut self.rest, &mut self.again);
        }
        (some, are_last)
    }

    /// When there is something to be told though nothing happens.
    pub(crate) fn deadline(&self) -> Instant {
        self.all_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(audience: &mut Audience, all: &Subscribers, edge: u64, now: u64) -> Vec<u16> {
        let Some(report) = audience.note_edge(all, edge, Instant(now)) else {
            return Vec::new();
        };
        match audience.whom(all, report, None) {
            Whom::These(whom) => whom.iter().collect(),
            Whom::Picked => unreachable!("nobody was picked"),
            Whom::Many => {
                audience.report_to_many(all, report);
                Vec::new()
            }
        }
    }

    fn three() -> Subscribers {
        let mut all = Subscribers::one(1);
        all.add(2);
        all.add(3);
        all
    }

    #[test]
    fn those_that_have_accepted_are_told_at_once_and_the_others_when_one_waits() {
        let (mut audience, all) = (Audience::new(), three());
        assert_eq!(reported(&mut audience, &all, 64, 10), [1, 2, 3]);
        audience.note_acceptor(2);
        audience.note_empty();
        assert_eq!(audience.single(&all, false, Instant(20)), Some(2));
        assert_eq!(reported(&mut audience, &all, 128, 20), [2]);
        assert_eq!(reported(&mut audience, &all, 128, 20), [0; 0]);
        let late = audience.deadline();
        assert_eq!(late, Instant(20 + ALL_DUE_AFTER_US));
        assert_eq!(reported(&mut audience, &all, 128, late.0 - 1), [0; 0]);
        assert_eq!(reported(&mut audience, &all, 128, late.0), [1, 2, 3]);
        assert!(audience.deadline().is_never());
        // What is accepted in time is told to nobody else.
        audience.note_empty();
        assert_eq!(reported(&mut audience, &all, 192, 9_000), [2]);
        audience.note_empty();
        assert!(audience.deadline().is_never());
        audience.note_acceptor(3);
        assert_eq!(audience.single(&all, false, Instant(9_001)), None);
        assert_eq!(reported(&mut audience, &all, 256, 9_001), [2, 3]);
    }

    #[test]
    fn the_others_are_told_no_sooner_than_what_was_said_is_fetched() {
        let (mut audience, all) = (Audience::new(), three());
        audience.note_acceptor(2);
        assert_eq!(reported(&mut audience, &all, 64, 20), [2]);
        let late = audience.deadline();
        assert!(audience.is_late(late) && !audience.is_late(Instant(late.0 - 1)));
        audience.put_off(late);
        assert_eq!(reported(&mut audience, &all, 64, late.0), [0; 0]);
        let later = audience.deadline();
        assert!(!audience.is_late(later), "once alone");
        assert_eq!(reported(&mut audience, &all, 64, later.0), [1, 2, 3]);
    }

    #[test]
    fn all_are_told_of_a_connection_of_the_stacks_own_sockets() {
        let (mut audience, all) = (Audience::new(), three());
        audience.note_acceptor(2);
        assert_eq!(audience.single(&all, true, Instant(20)), None);
        assert_eq!(reported(&mut audience, &all, 64, 20), [1, 2, 3]);
        assert_eq!(audience.single(&all, false, Instant(21)), Some(2));
    }

    #[test]
    fn the_others_are_told_when_the_one_that_was_is_gone() {
        let (mut audience, mut all) = (Audience::new(), three());
        audience.note_acceptor(2);
        assert_eq!(reported(&mut audience, &all, 64, 20), [2]);
        all.remove(2);
        audience.forget(2, true, Instant(30));
        assert!(audience.has_lost_one());
        assert_eq!(reported(&mut audience, &all, 64, 30), [1, 3]);
    }

    #[test]
    fn of_many_some_are_told_in_a_turn_and_each_of_the_last_connection() {
        let (mut audience, mut all) = (Audience::new(), Subscribers::NONE);
        let many = 8 * AT_ONCE as u16;
        (0..many).for_each(|channel| all.add(channel));
        assert_eq!(reported(&mut audience, &all, 64, 10), [0; 0]);
        let (mut reached, mut rounds) = (std::collections::BTreeMap::new(), 0);
        let (mut turns, mut edge) = (0, 64);
        while audience.reports_to_many() {
            let (some, are_last) = audience.take_some();
            assert!(some.len() <= AT_ONCE);
            reached.extend(some.into_iter().map(|channel| (channel, edge)));
            rounds += u32::from(are_last);
            turns += 1;
            if turns == 3 {
                edge = 128;
                assert_eq!(reported(&mut audience, &all, edge, 20), [0; 0]);
            }
        }
        assert_eq!((turns, rounds), (16, 2));
        assert_eq!(reached.len(), usize::from(many));
        assert!(reached.values().all(|edge| *edge == 128));
    }

    #[test]
    fn who_listens_alone_is_waited_for_without_a_timer() {
        let (mut audience, all) = (Audience::new(), Subscribers::one(4));
        audience.note_acceptor(4);
        assert_eq!(reported(&mut audience, &all, 64, 20), [4]);
        assert!(audience.deadline().is_never());
    }
}
