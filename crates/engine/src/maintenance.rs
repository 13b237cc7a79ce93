//! Maintenance: noticing that sessions and processes are gone, ending sessions, and
//! ending the engine.
//!
//! Owns [`Maintenance`]: which sessions are looked over, and when. Those are the sessions
//! that are polled and those that have said that something is to be seen to; the others cost
//! nothing, however many there are. The loop calls [`Engine::maintain`], which looks over a
//! few in each turn until it is through.

use crate::Engine;
use crate::session::Session;
use crate::sleep::Source;
use crate::teardown::Teardown;
use longshore_hostif::adapter::AdapterSession;
use longshore_stack::{Session as Half, Undelivered};
use longshore_tcp::Instant;
use std::os::fd::AsFd;

/// How often sessions are looked over, in microseconds.
const MAINTENANCE_INTERVAL: u64 = 1_000_000;
/// How often while a session is about to end, or a child to be born, in microseconds.
const SOON: u64 = 100_000;
/// How often the sockets of a session that is about to end are looked at, in microseconds.
const DRAINING_INTERVAL: u64 = 1_000_000;
/// Sessions that are looked over in one turn.
const LOOKED_OVER: usize = 16;
/// Ends of processes that are seen to before an address counts as in use.
const DEATHS_FOR_A_BIND: usize = 64;
/// Requests that are taken from processes that have ended before the ends of others wait.
const REQUESTS_OF_THE_DEAD: u32 = 256;
/// Sessions that are considered for being parked in one turn.
const CONSIDERED: usize = 2;
/// How long a session whose programs are gone may go on delivering, in
/// microseconds.
const DELIVERY_TIME: u64 = 60_000_000;

/// Which sessions are looked over, and when.
#[derive(Debug)]
pub(crate) struct Maintenance {
    /// When it goes on.
    pub(crate) at: Instant,
    /// Sessions that are looked over next time though they may be parked, each once.
    listed: Vec<u32>,
    /// Those that are still to be looked over this time.
    rest: Vec<u32>,
    /// When the first of those that were wants to be looked over again.
    next: Instant,
}

impl Maintenance {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            at: now,
            listed: Vec::new(),
            rest: Vec::new(),
            next: Instant::NEVER,
        }
    }
}

/// What is ahead of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// There is something to serve, or may be.
    GoesOn,
    /// That is to be looked for further, without a rest.
    Unknown,
    /// There is nothing left to serve.
    IsOver,
}

impl Engine {
    /// A session, and its sockets in the stack.
    pub(crate) fn session_mut(&mut self, key: u32) -> Option<(&mut Session, &mut Half)> {
        Some((
            self.sessions.get_mut(key)?,
            self.stack.sessions.get_mut(key)?,
        ))
    }

    /// Sees to it that the death of a process is noticed.
    pub(crate) fn watch_process(&mut self, session: u32, channel: u16) {
        let Some(s) = self.sessions.get(session) else {
            return;
        };
        let Some(fd) = s.processes.pidfd(channel) else {
            // It may have ended before it was seen, and is asked for at once; then from time to
            // time, if there is no descriptor.
            return self.look_over_now(session);
        };
        let _ = self.sleeper.watch(fd, Source::Process(session, channel));
    }

    /// Sees to the ends of so many processes at most, of those that the kernel tells of, and
    /// of fewer if they have left much to be done: it tells of the others again.
    pub(crate) fn take_deaths(&mut self, most: usize) {
        let mut left = REQUESTS_OF_THE_DEAD;
        for (session, channel) in self.sleeper.deaths(most) {
            left = left.saturating_sub(self.process_died(session, channel));
            if left == 0 {
                break;
            }
        }
    }

    /// A process has ended; how many requests it has left.
    pub(crate) fn process_died(&mut self, session: u32, channel: u16) -> u32 {
        // What it published before it died still counts.
        self.take_requests_in(session);
        let taken = self.take_last(session, channel);
        if let Some(s) = self.sessions.get(session)
            && let Some(fd) = s.processes.pidfd(channel)
        {
            self.sleeper.unwatch(fd);
        }
        let Some((s, half)) = self.session_mut(session) else {
            return taken;
        };
        let serial = s.serial;
        if let Some(ended) = s.take_dead(half, channel) {
            // The last one: whatever it had taken and not yet marked, too.
            let (blocks, held) = if s.is_in_use() {
                (0, ended.held)
            } else {
                (half.blocks(), Vec::new())
            };
            self.tear_down(Teardown {
                channel: Some(channel),
                waiters: Some((ended.name, 0)),
                blocks: 0..blocks,
                held,
                ..Teardown::of(session, serial)
            });
        }
        self.look_over_now(session);
        taken
    }

    /// Looks for processes that have ended, before the kernel's word of it is come upon
    /// as one event among others.
    /// `session` wants to know: children of its own that nobody has seen yet are looked for.
    #[cold]
    pub(crate) fn tear_down_the_dead(&mut self, session: u32) {
        let session_of = self.sessions.get(session);
        let claimed = session_of.map(|s| s.processes.claimed());
        for channel in claimed.into_iter().flatten() {
            self.take_requests_of(session, u32::from(channel));
        }
        self.take_deaths(DEATHS_FOR_A_BIND);
        // Those that nobody watches, and children that ended before they were known.
        self.look_over(session);
    }

    /// Whether `maintain` has anything to wait for.
    pub(crate) fn needs_maintenance(&self) -> bool {
        self.lifetime.draining
            || self.stack.status().has_fragments()
            || !self.maintenance.rest.is_empty()
            || !self.maintenance.listed.is_empty()
            || self
                .stack
                .sessions
                .iter_polled()
                .any(|(key, half)| self.wants_maintenance(key, &half.host))
    }

    /// Whether a session is to be looked after from time to time, whatever is asked or done.
    fn wants_maintenance(&self, key: u32, host: &AdapterSession) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|s| s.wants_care() || s.reclaim.is_wanted(host) || host.has_files())
    }

    /// Parks sessions that are idle, if more are polled than a few.
    #[inline]
    pub(crate) fn park_idle(&mut self) {
        if self.stack.sessions.polls_many() {
            (0..CONSIDERED).for_each(|_| self.park_one());
        }
    }

    #[inline(never)]
    fn park_one(&mut self) {
        let Some(key) = self
            .stack
            .sessions
            .next_idle(self.stack.counters.event_loop.turns)
        else {
            return;
        };
        let session = self.sessions.get(key);
        // Nobody rings for a reservation.
        let may_be = session.is_some_and(|s| s.is_in_use() && !s.may_have_reservations());
        if may_be && self.stack.sessions.park(key) {
            self.list_if_wanted(key);
        }
    }

    /// Something has changed that is to be looked after, but not at once.
    pub(crate) fn maintain_soon(&mut self) {
        let soon = self.stack.now().after_us(SOON);
        self.maintenance.at = self.maintenance.at.min(soon);
    }

    /// Something has changed in a session that is to be looked after at once.
    pub(crate) fn look_over_now(&mut self, session: u32) {
        self.list(session);
        self.maintenance.at = self.stack.now();
    }

    /// A session is looked over next time.
    fn list(&mut self, key: u32) {
        if let Some(s) = self.sessions.get_mut(key)
            && !std::mem::replace(&mut s.is_listed, true)
        {
            self.maintenance.listed.push(key);
        }
    }

    fn list_if_wanted(&mut self, key: u32) {
        let half = self.stack.sessions.get(key);
        if half.is_some_and(|half| self.wants_maintenance(key, &half.host)) {
            self.list(key);
        }
    }

    /// Looks over some of the sessions that it is time for, and ends those that nobody uses
    /// any more; goes on with the others in the next turn.
    pub(crate) fn maintain(&mut self) {
        if self.maintenance.rest.is_empty() {
            self.stack.expire_fragments();
            self.maintenance.next = self.stack.now().after_us(MAINTENANCE_INTERVAL);
            self.choose_sessions();
        }
        for _ in 0..LOOKED_OVER {
            let Some(key) = self.maintenance.rest.pop() else {
                break;
            };
            let next = self.look_over(key);
            self.maintenance.next = self.maintenance.next.min(next);
        }
        if self.maintenance.rest.is_empty() {
            self.maintenance.at = self.maintenance.next;
        }
    }

    /// Those that are polled, and those that have asked for it.
    fn choose_sessions(&mut self) {
        let mut all = std::mem::take(&mut self.maintenance.rest);
        let polled = self.stack.sessions.polled().iter().copied();
        let is_listed = |key| self.sessions.get(key).is_some_and(|s| s.is_listed);
        all.extend(polled.filter(|key| !is_listed(*key)));
        for key in self.maintenance.listed.drain(..) {
            if let Some(s) = self.sessions.get_mut(key) {
                s.is_listed = false;
                all.push(key);
            }
        }
        self.maintenance.rest = all;
    }

    /// Looks a session over; says when it wants to be looked over again at the latest.
    fn look_over(&mut self, key: u32) -> Instant {
        if self.sessions.get_mut(key).is_some_and(Session::takes_care) {
            self.take_care(key);
        }
        let now = self.stack.now();
        let (Some(s), Some(host)) = (
            self.sessions.get_mut(key),
            self.stack.sessions.host_unshown_mut(key),
        ) else {
            return Instant::NEVER;
        };
        for file in host.look_at_files(now.0) {
            self.attach.disposal.take(file);
        }
        let reclaims_at = s.reclaim.go_on(host, now).unwrap_or(Instant::NEVER);
        let is_changing = !s.is_in_use() || s.processes.is_forking();
        self.list_if_wanted(key);
        if is_changing {
            reclaims_at.min(now.after_us(SOON))
        } else {
            reclaims_at
        }
    }

    /// Sees to what has changed in a session: processes that have ended, reservations that
    /// nobody has come for, sockets that were lost on their way, nobody who uses it.
    fn take_care(&mut self, key: u32) {
        let unwatched = match self.sessions.get_mut(key) {
            Some(s) => s.processes.ask_after_unwatched(),
            None => return,
        };
        for channel in unwatched.watched {
            self.watch_process(key, channel);
        }
        for channel in unwatched.ended {
            self.process_died(key, channel);
        }
        let now = self.stack.now();
        let Some((s, half)) = self.session_mut(key) else {
            return;
        };
        let held = s.processes.drop_stale_reservations(now.0);
        let lost = s.lost_in_transit(half, now);
        let (unused, serial) = (!s.is_in_use(), s.serial);
        for key in lost {
            self.stack.close_unheld(key);
        }
        if !held.is_empty() {
            self.tear_down(Teardown {
                held,
                ..Teardown::of(key, serial)
            });
        }
        if unused {
            self.wind_up(key);
        }
    }

    /// A session without processes: its sockets are closed, and it ends when
    /// all it had to say is said.
    fn wind_up(&mut self, session: u32) {
        let now = self.stack.now();
        let is_attached = self.stack.port().is_attached();
        let (Some(s), Some(half)) = (
            self.sessions.get_mut(session),
            self.stack.sessions.get(session),
        ) else {
            return;
        };
        let ends = *s.ends_by.get_or_insert(Instant(now.0 + DELIVERY_TIME));
        if half.sockets() == 0 {
            return self.forget_session(session);
        }
        if now < s.wound_at || self.teardowns.are_in(s.serial) {
            return;
        }
        s.wound_at = Instant(now.0 + DRAINING_INTERVAL);
        let teardown = Teardown {
            blocks: 0..half.blocks(),
            // Nobody is left to be told, or there is nothing to tell it by.
            aborts: now >= ends || !is_attached,
            ..Teardown::of(session, s.serial)
        };
        self.tear_down(teardown);
        if self
            .stack
            .sessions
            .get(session)
            .is_some_and(|half| half.sockets() == 0)
        {
            self.forget_session(session);
        }
    }

    fn forget_session(&mut self, session: u32) {
        if let Some(s) = self.sessions.remove(session) {
            self.sleeper.unwatch(s.doorbell.as_fd());
            self.attach.disposal.take(s);
        }
        if let Some(half) = self.stack.close_session(session) {
            self.past_meter.add(&half.host.crossings());
            // Its memory may be gigabytes.
            self.attach.disposal.take(half);
        }
    }

    /// Ends a session whose programs take more than they may: they find their engine gone.
    #[cold]
    pub(crate) fn end_session(&mut self, session: u32) {
        let now = self.stack.now();
        // First of all: what is left of it goes, should the rest meet a panic.
        self.look_over_now(session);
        let Some((s, half)) = self.session_mut(session) else {
            return;
        };
        s.ends_by = Some(now);
        s.end(half);
        for pidfd in s.take_all(half) {
            self.sleeper.unwatch(pidfd.as_fd());
        }
    }

    /// Whether there is anything left to serve. Asked each turn: sockets are only looked at
    /// when no program has any, and some of them each time.
    pub(crate) fn prospect(&mut self) -> Prospect {
        let may_end =
            self.lifetime.draining || (self.lifetime.private && self.lifetime.had_session);
        if !may_end {
            return Prospect::GoesOn;
        }
        if self.lifetime.draining && self.stack.now() >= self.lifetime.drain_by {
            return Prospect::IsOver;
        }
        if !self.stack.sessions.is_empty() {
            self.stack.look_for_undelivered_anew();
            return Prospect::GoesOn;
        }
        if !self.stack.port().is_attached() {
            // What cannot be sent need not be waited for.
            return Prospect::IsOver;
        }
        match self.stack.look_for_undelivered() {
            Undelivered::Some => Prospect::GoesOn,
            Undelivered::Unknown => Prospect::Unknown,
            Undelivered::None => Prospect::IsOver,
        }
    }

    /// Tells all programs that the engine is gone.
    pub(crate) fn mark_all_closed(&mut self) {
        for key in self.stack.sessions.keys() {
            if let Some(s) = self.stack.sessions.get_mut(key) {
                s.host.mark_closed();
                s.host.wake_everybody();
            }
        }
    }
}

#[cfg(test)]
mod tests;
