//! Channels whose processes take no answers: their requests wait, since an answer must find room.
//!
//! Owns [`Stalled`]. `intake` finds such a channel; the loop has it looked at again when its time
//! has come.

use super::Requests;
use crate::session::LONGEST_STALL;
use longshore_stack::From;
use longshore_tcp::Instant;

/// Sessions with such channels; which these are, and until when they wait, is kept with the session.
#[derive(Debug)]
pub(crate) struct Stalled {
    sessions: Vec<u32>,
    until: Instant,
}

impl Stalled {
    pub(super) const fn new() -> Self {
        Self {
            sessions: Vec::new(),
            until: Instant::NEVER,
        }
    }

    /// When the first of them is to be looked at again.
    #[inline]
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// A session that is not among them has such a channel, which is looked at again at `until`.
    fn add(&mut self, session: u32, until: Instant) {
        self.sessions.push(session);
        self.look_by(until);
    }

    /// They are looked at again at `until` at the latest.
    pub(crate) fn look_by(&mut self, until: Instant) {
        self.until = self.until.min(until);
    }

    /// Takes all of them.
    fn take(&mut self) -> Vec<u32> {
        self.until = Instant::NEVER;
        std::mem::take(&mut self.sessions)
    }
}

impl Requests<'_> {
    /// Looks again at channels whose processes took no answers.
    #[cold]
    pub(crate) fn retry_stalled(&mut self) {
        let turn = self.stack.counters.event_loop.turns;
        for session in self.intake.stalled.take() {
            // It may have ended, and another have its key.
            let found = self.programs.sessions.get_mut(session);
            let Some(s) = found.filter(|s| !s.stalled.is_empty()) else {
                continue;
            };
            if s.stalled_until > self.stack.now() {
                self.intake.stalled.add(session, s.stalled_until);
                continue;
            }
            s.stalled_until = Instant::NEVER;
            let Some(half) = self.stack.endpoints.sessions.get(session) else {
                continue;
            };
            for channel in std::mem::take(&mut s.stalled) {
                half.host.pending.flag_channel(channel);
            }
            self.stack.endpoints.sessions.poll(session, turn);
        }
    }

    /// The process takes no answers: its requests wait, ever longer, until it has taken
    /// some. Nothing notifies the engine.
    #[cold]
    pub(super) fn stall(&mut self, from: From) {
        let now = self.stack.now();
        let Some(s) = self.programs.sessions.get_mut(from.session) else {
            return;
        };
        let is_first = s.stalled.is_empty();
        if !s.stalled.contains(&from.channel) {
            s.stalled.push(from.channel);
        }
        s.stalled_until = s.stalled_until.min(Instant(now.0 + s.stalled_for));
        s.stalled_for = (2 * s.stalled_for).min(LONGEST_STALL);
        let until = s.stalled_until;
        if is_first {
            self.intake.stalled.add(from.session, until);
        } else {
            self.intake.stalled.look_by(until);
        }
        self.stack.counters.sessions.stalled_channels += 1;
    }
}
