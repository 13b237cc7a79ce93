//! The programs that use the engine: its sessions with their processes, what is still to be let go
//! of that ended ones held, and which sessions are to be looked over.
//!
//! Owns [`Programs`]. `attach_events` lets programs in, `intake` takes their requests, and
//! `maintenance` sees to their ends.

mod deaths;
mod schedule;

pub(crate) use schedule::{SOON, Schedule};

use crate::session::{Session, Sessions};
use crate::teardown::{Teardown, Teardowns};
use deaths::Deaths;
use longshore_hostif::Meter;
use longshore_hostif::adapter::AdapterSession;
use longshore_stack::{Session as Half, Stack};
use longshore_tcp::Instant;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// Sessions that are considered for being parked in one turn.
const CONSIDERED: usize = 2;

/// All sessions, and what is to be seen to in them.
#[derive(Debug)]
pub(crate) struct Programs {
    /// By the stack's keys of sessions.
    pub(crate) sessions: Sessions,
    pub(crate) schedule: Schedule,
    pub(crate) deaths: Deaths,
    teardowns: Teardowns,
    /// What crossed in sessions that have ended.
    past_meter: Meter,
}

impl Programs {
    /// Nobody yet.
    pub(crate) fn new(now: Instant) -> Result<Self, Errno> {
        Ok(Self {
            sessions: Sessions::default(),
            schedule: Schedule::new(now),
            deaths: Deaths::new()?,
            teardowns: Teardowns::default(),
            past_meter: Meter::default(),
        })
    }

    /// A session, and its sockets in the stack.
    pub(crate) fn pair_mut<'a>(
        &'a mut self,
        stack: &'a mut Stack,
        key: u32,
    ) -> Option<(&'a mut Session, &'a mut Half)> {
        Some((
            self.sessions.get_mut(key)?,
            stack.endpoints.sessions.get_mut(key)?,
        ))
    }

    /// Sees to it that the death of a process is noticed, until the descriptor that reports it is
    /// closed.
    pub(crate) fn watch(&mut self, session: u32, channel: u16, now: Instant) {
        match self.pidfd(session, channel) {
            Some(fd) => self.deaths.watch(fd, session, channel),
            // It may have ended before it was seen, and is asked for at once; then from time to
            // time, if there is no descriptor.
            None => self.look_over_now(session, now),
        }
    }

    fn pidfd(&self, session: u32, channel: u16) -> Option<BorrowedFd<'_>> {
        self.sessions.get(session)?.processes.pidfd(channel)
    }

    /// Takes a session out that is over, and with it the doorbell of its requests.
    pub(crate) fn remove(&mut self, session: u32) -> Option<Session> {
        self.sessions.remove(session)
    }

    /// What crossed in a session that has ended.
    pub(crate) fn note_past(&mut self, crossed: &Meter) {
        self.past_meter.add(crossed);
    }

    /// What crossed in all that have ended.
    pub(crate) fn past_meter(&self) -> Meter {
        self.past_meter
    }

    // ---- which sessions are looked over ----

    /// Whether there is anything to look over sessions for.
    pub(crate) fn need_maintenance(&self, stack: &Stack) -> bool {
        let mut polled = stack.endpoints.sessions.iter_polled();
        self.schedule.has_listed() || polled.any(|(key, half)| self.wants(key, &half.host))
    }

    /// Whether a session is to be looked after from time to time, whatever is asked or done.
    fn wants(&self, key: u32, host: &AdapterSession) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|s| {
            s.wants_care()
                || s.reclaim.is_wanted(host)
                || host.send.has_files()
                || host.wakeups.unused_eventfds_at().is_some()
        })
    }

    /// Something has changed in a session that is to be looked after at once.
    pub(crate) fn look_over_now(&mut self, session: u32, now: Instant) {
        self.schedule.list(&mut self.sessions, session);
        self.schedule.at_once(now);
    }

    /// The session is looked over next time, if it wants to be.
    pub(crate) fn list_if_wanted(&mut self, stack: &Stack, key: u32) {
        let half = stack.endpoints.sessions.get(key);
        if half.is_some_and(|half| self.wants(key, &half.host)) {
            self.schedule.list(&mut self.sessions, key);
        }
    }

    /// Parks sessions that are idle, if more are polled than a few.
    #[inline]
    pub(crate) fn park_idle(&mut self, stack: &mut Stack) {
        if stack.endpoints.sessions.polls_many() {
            (0..CONSIDERED).for_each(|_| self.park_one(stack));
        }
    }

    #[inline(never)]
    fn park_one(&mut self, stack: &mut Stack) {
        let turn = stack.counters.event_loop.turns;
        let Some(key) = stack.endpoints.sessions.next_idle(turn) else {
            return;
        };
        let session = self.sessions.get(key);
        // Nobody rings for a reservation.
        let may_be = session.is_some_and(|s| s.is_in_use() && !s.may_have_reservations());
        if may_be && stack.endpoints.sessions.park(key) {
            self.list_if_wanted(stack, key);
        }
    }

    // ---- what ended processes held ----

    /// Lets go of what one process, or a session, had: of what there is time for at once.
    pub(crate) fn tear_down(&mut self, stack: &mut Stack, teardown: Teardown) {
        self.teardowns.begin(&mut self.sessions, stack, teardown);
    }

    /// Goes on with what there was no time for; says whether there was any.
    #[inline]
    pub(crate) fn continue_teardowns(&mut self, stack: &mut Stack) -> bool {
        !self.teardowns.is_empty() && self.teardowns.go_on(&mut self.sessions, stack)
    }

    /// What is under way.
    pub(crate) fn teardowns(&self) -> &Teardowns {
        &self.teardowns
    }

    /// Whether something is still to be let go of in this session.
    pub(crate) fn has_teardowns_in(&self, session: u32) -> bool {
        let session = self.sessions.get(session);
        session.is_some_and(|s| self.teardowns.are_in(s.serial))
    }

    /// Whether sockets of ended processes are still to be closed that are of the user of
    /// this session.
    pub(crate) fn has_teardowns_of_user(&self, session: u32) -> bool {
        let uid_of = |session| self.sessions.get(session).map(|s| s.uid);
        let own = uid_of(session);
        self.teardowns.sessions().any(|s| uid_of(s) == own)
    }
}
