//! Maintenance: noticing that sessions and processes are gone, and ending sessions.
//!
//! [`Maintenance`] borrows the parts of the engine that this changes. The loop has it look over
//! a few sessions in each turn ([`Maintenance::go_on`]), by the [`Schedule`], until it is through.
//!
//! [`Schedule`]: crate::programs::Schedule

use crate::attach::Disposal;
use crate::intake::{Intake, Requests, SHARE};
use crate::programs::{Programs, SOON};
use crate::session::Session;
use crate::sleep::Sleeper;
use crate::teardown::Teardown;
use crate::time::Clock;
use longshore_stack::Stack;
use longshore_tcp::Instant;
use std::os::fd::AsFd;

/// How often the sockets of a session that is about to end are looked at, in microseconds.
const DRAINING_INTERVAL: u64 = 1_000_000;
/// Sessions that are looked over in one turn.
const LOOKED_OVER: usize = 16;
/// Ends of processes that are seen to before an address counts as in use.
const DEATHS_FOR_A_BIND: usize = 64;
/// Requests that are taken from processes that have ended before the ends of others wait.
const REQUESTS_OF_THE_DEAD: u32 = 256;
/// How long a session whose programs are gone may go on delivering, in
/// microseconds.
const DELIVERY_TIME: u64 = 60_000_000;

/// Sees to what has changed in sessions, and to what has ended.
pub(crate) struct Maintenance<'a> {
    pub(crate) stack: &'a mut Stack,
    pub(crate) programs: &'a mut Programs,
    pub(crate) intake: &'a mut Intake,
    pub(crate) clock: Clock,
    pub(crate) sleeper: &'a mut Sleeper,
    pub(crate) disposal: &'a Disposal,
}

impl Maintenance<'_> {
    pub(crate) fn requests(&mut self) -> Requests<'_> {
        Requests {
            intake: self.intake,
            stack: self.stack,
            programs: self.programs,
            clock: self.clock,
        }
    }

    /// Looks over some of the sessions that it is time for, and ends those that nobody uses
    /// any more; goes on with the others in the next turn.
    pub(crate) fn go_on(&mut self) {
        let Programs {
            sessions, schedule, ..
        } = &mut *self.programs;
        if schedule.is_between_rounds() {
            self.stack.expire_fragments();
            let now = self.stack.now();
            schedule.begin(sessions, self.stack.endpoints.sessions.polled(), now);
        }
        for _ in 0..LOOKED_OVER {
            let Some(key) = self.programs.schedule.pop() else {
                break;
            };
            let next = self.look_over(key);
            self.programs.schedule.again_at(next);
        }
        self.programs.schedule.pause();
    }

    /// Sees to the ends of so many processes at most, of those that the kernel reports, and
    /// of fewer if they have left much to be done: it reports the others again.
    pub(crate) fn take_deaths(&mut self, most: usize) {
        let mut left = REQUESTS_OF_THE_DEAD;
        for (session, channel) in self.programs.deaths.look(most) {
            left = left.saturating_sub(self.process_died(session, channel));
            if left == 0 {
                break;
            }
        }
    }

    /// A process has ended; how many requests it has left.
    pub(crate) fn process_died(&mut self, session: u32, channel: u16) -> u32 {
        // What it published before it died still counts.
        self.requests().take_in(session);
        let taken = self.requests().take_last(session, channel);
        let Some((s, half)) = self.programs.pair_mut(self.stack, session) else {
            return taken;
        };
        let serial = s.serial;
        // The descriptor of its end is closed with it, and so watched no more.
        if let Some(ended) = s.take_dead(half, channel) {
            // The last one: whatever it had taken and not yet marked, too.
            let (blocks, held) = if s.is_in_use() {
                (0, ended.held)
            } else {
                (half.blocks(), Vec::new())
            };
            self.programs.tear_down(
                self.stack,
                Teardown {
                    channel: Some(channel),
                    waiters: Some((ended.name, 0)),
                    blocks: 0..blocks,
                    held,
                    ..Teardown::of(session, serial)
                },
            );
        }
        self.programs.look_over_now(session, self.stack.now());
        taken
    }

    /// Looks for processes that have ended, before the kernel's word of it is come upon
    /// as one event among others.
    /// `session` wants to know: children of its own that nobody has seen yet are looked for.
    #[cold]
    pub(crate) fn tear_down_the_dead(&mut self, session: u32) {
        let session_of = self.programs.sessions.get(session);
        let claimed = session_of.map(|s| s.processes.claimed());
        for channel in claimed.into_iter().flatten() {
            self.requests().take_of(session, u32::from(channel));
        }
        self.take_deaths(DEATHS_FOR_A_BIND);
        // Those that nobody watches, and children that ended before they were known.
        self.look_over(session);
    }

    /// Looks a session over; says when it wants to be looked over again at the latest.
    fn look_over(&mut self, key: u32) -> Instant {
        if self
            .programs
            .sessions
            .get_mut(key)
            .is_some_and(Session::takes_care)
        {
            self.take_care(key);
        }
        let now = self.stack.now();
        let (Some(s), Some(host)) = (
            self.programs.sessions.get_mut(key),
            self.stack.endpoints.sessions.host_unshown_mut(key),
        ) else {
            return Instant::NEVER;
        };
        for file in host.send.look_at_files(now.0) {
            self.disposal.take(file);
        }
        let reclaims_at = s.reclaim.go_on(host, now).unwrap_or(Instant::NEVER);
        let unused_at = host.wakeups.close_unused_eventfds(now.0).map(Instant);
        let next = reclaims_at.min(unused_at.unwrap_or(Instant::NEVER));
        let is_changing = !s.is_in_use() || s.processes.is_forking();
        self.programs.list_if_wanted(self.stack, key);
        if is_changing {
            next.min(now.after_us(SOON))
        } else {
            next
        }
    }

    /// Sees to what has changed in a session: processes that have ended, reservations that
    /// nobody has come for, sockets that were lost on their way, nobody who uses it.
    fn take_care(&mut self, key: u32) {
        let unwatched = match self.programs.sessions.get_mut(key) {
            Some(s) => s.processes.ask_after_unwatched(),
            None => return,
        };
        for channel in unwatched.watched {
            self.programs.watch(key, channel, self.stack.now());
        }
        for channel in unwatched.ended {
            self.process_died(key, channel);
        }
        let now = self.stack.now();
        let Some((s, half)) = self.programs.pair_mut(self.stack, key) else {
            return;
        };
        let held = s.processes.drop_stale_reservations(now.0);
        let lost = s.lost_in_transit(half, now);
        let (unused, serial) = (!s.is_in_use(), s.serial);
        for key in lost {
            self.stack.lifecycle().close_unheld(key);
        }
        if !held.is_empty() {
            self.programs.tear_down(
                self.stack,
                Teardown {
                    held,
                    ..Teardown::of(key, serial)
                },
            );
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
        let is_under_way = self.programs.has_teardowns_in(session);
        let (Some(s), Some(half)) = (
            self.programs.sessions.get_mut(session),
            self.stack.endpoints.sessions.get(session),
        ) else {
            return;
        };
        let ends = *s.ends_by.get_or_insert(Instant(now.0 + DELIVERY_TIME));
        if half.sockets() == 0 {
            return self.forget_session(session);
        }
        if now < s.wound_at || is_under_way {
            return;
        }
        s.wound_at = Instant(now.0 + DRAINING_INTERVAL);
        let teardown = Teardown {
            blocks: 0..half.blocks(),
            // Nobody is left to be notified, or there is nothing to notify it by.
            aborts: now >= ends || !is_attached,
            ..Teardown::of(session, s.serial)
        };
        self.programs.tear_down(self.stack, teardown);
        if self
            .stack
            .endpoints
            .sessions
            .get(session)
            .is_some_and(|half| half.sockets() == 0)
        {
            self.forget_session(session);
        }
    }

    fn forget_session(&mut self, session: u32) {
        if let Some(s) = self.programs.remove(session) {
            self.sleeper.unwatch(s.doorbell.as_fd());
            self.disposal.take(s);
        }
        if let Some(half) = self.stack.lifecycle().close_session(session) {
            self.programs.note_past(&half.host.crossings());
            // Its memory may be gigabytes.
            self.disposal.take(half);
        }
    }

    /// Ends a session whose programs take more than they may: they find their engine gone.
    #[cold]
    pub(crate) fn end_session(&mut self, session: u32) {
        let now = self.stack.now();
        // First of all: what is left of it goes, should the rest meet a panic.
        self.programs.look_over_now(session, self.stack.now());
        let Some((s, half)) = self.programs.pair_mut(self.stack, session) else {
            return;
        };
        s.ends_by = Some(now);
        s.end(half);
        // The descriptors of their ends are closed, and so watched no more.
        drop(s.take_all(half));
    }

    /// Binds sockets whose address was in use, if it is not any more: another process may
    /// have closed what had it, or have ended. A process that knows of that may count on it
    /// that all is let go.
    ///
    /// One that fails may have looked at all ports, so of each session one does in a turn, and no
    /// more are tried once they have taken a session's share of it: those have the next turn, before
    /// the ones that have failed.
    pub(crate) fn bind_late(&mut self) {
        let all = self.stack.late_binds().take();
        if self.requests().take_all() {
            self.stack.has_taken_late();
        }
        let began = self.clock.now();
        let (mut untried, mut failed, mut have_failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut are_torn_down = false;
        for late in all {
            let session = late.session();
            if have_failed.contains(&session) || self.clock.now().since(began) >= SHARE {
                untried.push(late);
                continue;
            }
            if self.stack.late_binds().bind_again(&late) {
                continue;
            }
            have_failed.push(session);
            // Once in a turn: it is about all processes.
            if !std::mem::replace(&mut are_torn_down, true) {
                self.tear_down_the_dead(session);
                if self.stack.late_binds().bind_again(&late) {
                    continue;
                }
            }
            if self.programs.has_teardowns_of_user(session) {
                failed.push(late);
            } else {
                self.stack.endpoints.sessions.give_bind_up(&late);
            }
        }
        for late in untried.into_iter().chain(failed) {
            self.stack.late_binds().put_off(late);
        }
    }
}

#[cfg(test)]
mod tests;
