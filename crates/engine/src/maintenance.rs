//! Maintenance: noticing that sessions and processes are gone, ending sessions, and
//! ending the engine.

use crate::engine::Engine;
use crate::session::Session;
use crate::sleep::Source;
use crate::teardown::Teardown;
use longshore_hostif::adapter::AdapterSession;
use longshore_stack::Session as Half;
use longshore_tcp::Instant;
use std::os::fd::AsFd;

/// How often sessions are looked over, in microseconds.
const MAINTENANCE_INTERVAL: u64 = 1_000_000;
/// How often while a session is about to end, or a child to be born, in microseconds.
const SOON: u64 = 100_000;
/// How often the sockets of a session that is about to end are looked at, in microseconds.
const DRAINING_INTERVAL: u64 = 1_000_000;
/// Ends of processes that are seen to before an address counts as in use.
const DEATHS_FOR_A_BIND: usize = 64;
/// Sessions that are considered for being parked in one turn.
const CONSIDERED: usize = 2;
/// How long a session whose programs are gone may go on delivering, in
/// microseconds.
const DELIVERY_TIME: u64 = 60_000_000;

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
        // Without a descriptor it is asked for from time to time.
        if let Some(fd) = s.processes.pidfd(channel) {
            let _ = self.sleeper.watch(fd, Source::Process(session, channel));
        }
    }

    /// Sees to the ends of so many processes at most, of those that the kernel tells of.
    pub(crate) fn take_deaths(&mut self, most: usize) {
        for (session, channel) in self.sleeper.deaths(most) {
            self.process_died(session, channel);
        }
    }

    pub(crate) fn process_died(&mut self, session: u32, channel: u16) {
        // What it published before it died still counts.
        self.take_requests_in(session);
        self.take_last(session, channel);
        if let Some(s) = self.sessions.get(session)
            && let Some(fd) = s.processes.pidfd(channel)
        {
            self.sleeper.unwatch(fd);
        }
        let Some((s, half)) = self.session_mut(session) else {
            return;
        };
        let serial = s.serial;
        if let Some(held) = s.take_dead(half, channel) {
            self.tear_down(Teardown {
                session,
                serial,
                channel: Some(channel),
                held,
                aborts: false,
            });
        }
        self.maintenance_at = self.stack.now();
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
        self.maintain();
    }

    /// Whether `maintain` has anything to wait for.
    pub(crate) fn needs_maintenance(&self) -> bool {
        self.lifetime.draining
            || self.stack.has_fragments()
            || self.parked_want_maintenance
            || self
                .stack
                .sessions
                .iter_polled()
                .any(|(key, half)| self.wants_maintenance(key, &half.host))
    }

    /// Whether a session is to be looked after from time to time, whatever is asked or done.
    fn wants_maintenance(&self, key: u32, host: &AdapterSession) -> bool {
        let session = self.sessions.get(key);
        session.is_some_and(|s| {
            !s.is_in_use()
                || s.may_have_reservations()
                || s.reclaim.is_wanted(host)
                || host.has_files()
        })
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
        let Some(key) = self.stack.sessions.next_idle(self.stack.counters.turns) else {
            return;
        };
        let session = self.sessions.get(key);
        // Nobody rings for a reservation.
        let may_be = session.is_some_and(|s| s.is_in_use() && !s.may_have_reservations());
        if may_be && self.stack.sessions.park(key) {
            let half = self.stack.sessions.get(key);
            let wants = half.is_some_and(|half| self.wants_maintenance(key, &half.host));
            self.parked_want_maintenance |= wants;
        }
    }

    /// Something has changed that is to be looked after, but not at once.
    pub(crate) fn maintain_soon(&mut self) {
        self.maintenance_at = self.maintenance_at.min(Instant(self.stack.now().0 + SOON));
    }

    /// Ends sessions that nobody uses any more.
    pub(crate) fn maintain(&mut self) {
        self.maintenance_at = Instant(self.stack.now().0 + MAINTENANCE_INTERVAL);
        self.stack.expire_fragments();
        let wanting = self.sessions.iter_mut();
        let wanting: Vec<u32> = wanting
            .filter_map(|(key, s)| s.takes_care().then_some(key))
            .collect();
        for key in wanting {
            let gone: Vec<u16> = match self.sessions.get(key) {
                Some(s) => s.processes.ended_unwatched(),
                None => continue,
            };
            for channel in gone {
                self.process_died(key, channel);
            }
            let now = self.stack.now();
            let Some((s, half)) = self.session_mut(key) else {
                continue;
            };
            let held = s.processes.drop_stale_reservations(now.0);
            let lost = s.lost_in_transit(half, now);
            let (unused, serial) = (!s.is_in_use(), s.serial);
            for key in lost {
                self.stack.close_unheld(key);
            }
            if !held.is_empty() {
                self.tear_down(Teardown {
                    session: key,
                    serial,
                    channel: None,
                    held,
                    aborts: false,
                });
            }
            if unused {
                self.wind_up(key);
            }
        }
        let changes = |s: &Session| !s.is_in_use() || s.processes.is_forking();
        if self.sessions.iter().any(|(_, s)| changes(s)) {
            self.maintenance_at = Instant(self.stack.now().0 + SOON);
        }
        let now = self.stack.now();
        for (_, half) in self.stack.sessions.iter_mut() {
            for file in half.host.look_at_files(now.0) {
                self.attach.disposal.take(file);
            }
        }
        if let Some(at) = self.reclaim_memory() {
            self.maintenance_at = self.maintenance_at.min(at);
        }
        let wants = |key, half: &Half| half.is_parked && self.wants_maintenance(key, &half.host);
        let mut all = self.stack.sessions.iter();
        self.parked_want_maintenance = all.any(|(key, half)| wants(key, half));
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
            session,
            serial: s.serial,
            channel: None,
            held: half.indices(),
            // Nobody is left to hear it, or nothing to say it on.
            aborts: now >= ends || !is_attached,
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
        let Some((s, half)) = self.session_mut(session) else {
            return;
        };
        s.end(half);
        s.ends_by = Some(now);
        for pidfd in s.take_all(half) {
            self.sleeper.unwatch(pidfd.as_fd());
        }
        self.maintenance_at = now;
    }

    /// Whether there is nothing left to serve. Asked each turn: sockets are only looked at
    /// when no program has any.
    pub(crate) fn is_finished(&self) -> bool {
        let may_end =
            self.lifetime.draining || (self.lifetime.private && self.lifetime.had_session);
        // What cannot be sent need not be waited for.
        may_end
            && ((self.stack.sessions.is_empty()
                && (!self.stack.port().is_attached() || self.stack.is_quiet()))
                || (self.lifetime.draining && self.stack.now() >= self.lifetime.drain_by))
    }

    /// Tells all programs that the engine is gone.
    pub(crate) fn say_goodbye(&mut self) {
        for key in self.stack.sessions.keys() {
            if let Some(s) = self.stack.sessions.get_mut(key) {
                s.host.mark_closed();
                s.host.wake_everybody();
            }
        }
    }
}
