//! Keeping house: noticing that sessions and processes are gone, ending sessions, and
//! ending the engine.

use crate::burial::Burial;
use crate::engine::Engine;
use crate::session::Session;
use crate::sleep::Source;
use crate::stack::Stack;
use crate::stack::socket::Kind;
use longshore_tcp::{Congestion, Instant, Linger, State};
use std::os::fd::AsFd;

/// How often sessions are looked over, in microseconds.
const HOUSEKEEPING: u64 = 1_000_000;
/// How often while a session is about to end, or a child to be born, in microseconds.
const SOON: u64 = 100_000;
/// How often the sockets of a session that is about to end are looked at, in microseconds.
const WINDING: u64 = 1_000_000;
/// Ends of processes that are seen to before an address counts as in use.
const DEATHS_FOR_A_BIND: usize = 64;
/// How long a session whose programs are gone may go on delivering, in
/// microseconds.
const LAST_WORDS: u64 = 60_000_000;

/// Its place in [`longshore_hostif::CONGESTION_NAMES`].
pub(crate) fn place_of(congestion: Congestion) -> u32 {
    let place = Congestion::ALL.iter().position(|c| *c == congestion);
    place.unwrap_or(0) as u32
}

impl Engine {
    /// Sees to it that the death of a process is noticed.
    pub(crate) fn watch_process(&mut self, session: u32, channel: u16) {
        let Some(s) = self.stack.sessions.get(session) else {
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
        let Some(s) = self.stack.sessions.get_mut(session) else {
            return;
        };
        if let Some(fd) = s.processes.pidfd(channel) {
            self.sleeper.unwatch(fd);
        }
        let serial = s.serial;
        if let Some(held) = s.take_dead(channel) {
            self.stack.bury(Burial {
                session,
                serial,
                channel: Some(channel),
                held,
                aborts: false,
            });
        }
        self.housekeeping_at = self.stack.now;
    }

    /// Looks for processes that have ended, before the kernel's word of it is come upon
    /// as one event among others.
    /// `session` wants to know: children of its own that nobody has seen yet are looked for.
    #[cold]
    pub(crate) fn bury_the_dead(&mut self, session: u32) {
        let claimed = self
            .stack
            .sessions
            .get(session)
            .map(|s| s.processes.claimed());
        for channel in claimed.into_iter().flatten() {
            self.take_requests_of(session, u32::from(channel));
        }
        self.take_deaths(DEATHS_FOR_A_BIND);
        // Those that nobody watches, and children that ended before they were known.
        self.keep_house();
    }

    /// Whether `keep_house` has anything to wait for.
    pub(crate) fn needs_house_kept(&self) -> bool {
        self.lifetime.draining
            || !self.stack.fragments.is_empty()
            || self
                .stack
                .sessions
                .iter()
                .any(|(_, s)| !s.is_in_use() || s.may_have_reservations() || s.wants_reclaim())
    }

    /// Something has changed that is to be looked after, but not at once.
    pub(crate) fn keep_house_soon(&mut self) {
        self.housekeeping_at = self.housekeeping_at.min(Instant(self.stack.now.0 + SOON));
    }

    /// Ends sessions that nobody uses any more.
    pub(crate) fn keep_house(&mut self) {
        self.housekeeping_at = Instant(self.stack.now.0 + HOUSEKEEPING);
        self.stack.expire_fragments();
        let wanting = self.stack.sessions.iter_mut_with_keys();
        let wanting: Vec<u32> = wanting
            .filter_map(|(key, s)| s.takes_care().then_some(key))
            .collect();
        for key in wanting {
            let gone: Vec<u16> = match self.stack.sessions.get(key) {
                Some(s) => s.processes.ended_unwatched(),
                None => continue,
            };
            for channel in gone {
                self.process_died(key, channel);
            }
            let Some(s) = self.stack.sessions.get_mut(key) else {
                continue;
            };
            let held = s.processes.drop_stale_reservations(self.stack.now.0);
            let lost = s.lost_in_transit(self.stack.now);
            let (unused, serial) = (!s.is_in_use(), s.serial);
            for orphan in lost {
                self.stack.take_last_words(orphan);
                self.stack.close(orphan, Linger::Background);
            }
            if !held.is_empty() {
                self.stack.bury(Burial {
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
        if self.stack.sessions.iter().any(|(_, s)| changes(s)) {
            self.housekeeping_at = Instant(self.stack.now.0 + SOON);
        }
        if let Some(at) = self.stack.reclaim_memory() {
            self.housekeeping_at = self.housekeeping_at.min(at);
        }
    }

    /// A session without processes: its sockets are closed, and it ends when
    /// all it had to say is said.
    fn wind_up(&mut self, session: u32) {
        let now = self.stack.now;
        let is_attached = self.stack.link.port.is_attached();
        let Some(s) = self.stack.sessions.get_mut(session) else {
            return;
        };
        let ends = *s.ends_by.get_or_insert(Instant(now.0 + LAST_WORDS));
        if s.sockets == 0 {
            return self.forget_session(session);
        }
        if now < s.wound_at || self.stack.burials.are_in(s.serial) {
            return;
        }
        s.wound_at = Instant(now.0 + WINDING);
        let burial = Burial {
            session,
            serial: s.serial,
            channel: None,
            held: s.indices(),
            // Nobody is left to hear it, or nothing to say it on.
            aborts: now >= ends || !is_attached,
        };
        self.stack.bury(burial);
        if self
            .stack
            .sessions
            .get(session)
            .is_some_and(|s| s.sockets == 0)
        {
            self.forget_session(session);
        }
    }

    fn forget_session(&mut self, session: u32) {
        if let Some(mut s) = self.stack.sessions.remove(session) {
            s.host.mark_closed();
            self.past_meter.add(&s.host.meter);
            self.sleeper.unwatch(s.doorbell.as_fd());
            self.stack
                .release_postponed(std::mem::take(&mut s.postponed));
            // Its memory may be gigabytes.
            self.attach.disposal.take(s);
        }
    }

    /// Ends a session whose programs take more than they may: they find their engine gone.
    #[cold]
    pub(crate) fn end_session(&mut self, session: u32) {
        let now = self.stack.now;
        let Some(s) = self.stack.sessions.get_mut(session) else {
            return;
        };
        s.end();
        s.ends_by = Some(now);
        for pidfd in s.take_all() {
            self.sleeper.unwatch(pidfd.as_fd());
        }
        self.housekeeping_at = now;
    }

    /// Whether there is nothing left to serve. Asked each turn: sockets are only looked at
    /// when no program has any.
    pub(crate) fn is_finished(&self) -> bool {
        let may_end =
            self.lifetime.draining || (self.lifetime.private && self.lifetime.had_session);
        // What cannot be sent need not be waited for.
        may_end
            && ((self.stack.sessions.len() == 0
                && (!self.stack.link.port.is_attached() || self.stack.is_quiet()))
                || (self.lifetime.draining && self.stack.now >= self.lifetime.drain_by))
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

impl Stack {
    /// What a dead process had written or read and not yet told us of is taken
    /// from the socket's block, checked like any request.
    pub(crate) fn take_last_words(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let Some(s) = self.sessions.get(socket.session) else {
            return;
        };
        if !socket.has_block() {
            return;
        }
        let (snd, rcv) = s.host.edges_noted(socket.id.index);
        let _ = self.host_edges(key, snd, rcv, longshore_hostif::EdgeFlags::PUSH);
    }

    /// Whether no socket that nobody has any more still has something to deliver.
    fn is_quiet(&self) -> bool {
        self.sockets.iter().all(|(_, s)| match &s.kind {
            Kind::Stream(c) => {
                s.orphan
                    && matches!(
                        c.tcb.state(),
                        State::FinWait2 | State::TimeWait | State::Closed
                    )
            }
            _ => true,
        })
    }
}
