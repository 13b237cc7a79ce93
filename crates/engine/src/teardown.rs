//! What processes that have ended held is let go of, some of it in each turn: a process may
//! have held tens of thousands of sockets, and others are not to wait for their ends.
//!
//! Owns the [`Teardowns`] that are under way. `maintenance` begins one when a process is gone, when
//! nobody has come for a reservation, and when a session is; the loop goes on with them each
//! turn until all are done. The channel of the process belongs to nobody else before.

use crate::session::Sessions;
use longshore_stack::{Session as Half, Stack};
use std::collections::VecDeque;
use std::ops::Range;

/// Sockets that are looked at in one turn.
const A_TURN: usize = 64;
/// So many blocks, of which few are sockets, or waiters, of which few are the process's, take
/// as long to be looked at as one socket.
const BLOCKS: u32 = 1_024;
const WAITERS: usize = 16;

/// What one process that has ended had.
#[derive(Debug)]
pub(crate) struct Teardown {
    pub(crate) session: u32,
    /// The number of that session, whose place may be another's by then.
    pub(crate) serial: u64,
    /// The channel of the process, which is free when all is done; none for those that no
    /// process had.
    pub(crate) channel: Option<u16>,
    /// The name under which it claimed waiters, which are to be free, and the first of them
    /// that was not looked at.
    pub(crate) waiters: Option<(u32, usize)>,
    /// Blocks of which those that are sockets were held, too.
    pub(crate) blocks: Range<u32>,
    /// Blocks of sockets by their indices.
    pub(crate) held: Vec<u32>,
    /// What was written is not delivered any more.
    pub(crate) aborts: bool,
}

impl Teardown {
    /// Of nothing yet, in the session of this number.
    pub(crate) const fn of(session: u32, serial: u64) -> Self {
        Self {
            session,
            serial,
            channel: None,
            waiters: None,
            blocks: 0..0,
            held: Vec::new(),
            aborts: false,
        }
    }

    /// Finds sockets among the blocks, as far as there is time.
    fn find_held(&mut self, half: &Half, budget: &mut usize) {
        while *budget != 0 && self.held.is_empty() && !self.blocks.is_empty() {
            *budget -= 1;
            let to = self
                .blocks
                .end
                .min(self.blocks.start.saturating_add(BLOCKS));
            self.held = half.sockets_among(self.blocks.start..to);
            self.blocks.start = to;
        }
    }

    /// Frees waiters, as far as there is time.
    fn free_waiters(&mut self, half: &mut Half, budget: &mut usize) {
        while *budget != 0
            && let Some((name, from)) = self.waiters
        {
            *budget -= 1;
            let next = half.host.wakeups.free_some_waiters_of(name, from, WAITERS);
            self.waiters = next.map(|next| (name, next));
        }
    }

    /// Does some of it; whether there is more.
    fn go_on(&mut self, sessions: &mut Sessions, stack: &mut Stack, budget: &mut usize) -> bool {
        let serial = self.serial;
        let session = sessions.get(self.session);
        if session.is_none_or(|s| s.serial != serial) {
            return false;
        }
        while !self.is_done() {
            if *budget == 0 {
                return true;
            }
            if let Some(index) = self.held.pop() {
                *budget -= 1;
                self.tear_down_socket(sessions, stack, index);
            } else if let Some(half) = stack.endpoints.sessions.get_mut(self.session) {
                self.free_waiters(half, budget);
                self.find_held(half, budget);
            } else {
                break;
            }
        }
        let session = sessions.get(self.session);
        if let (Some(s), Some(channel)) = (session, self.channel) {
            s.processes.free_channel(channel);
        }
        false
    }

    /// A process that is gone had this socket: it is closed if nobody has it now.
    fn tear_down_socket(&self, sessions: &mut Sessions, stack: &mut Stack, index: u32) {
        let now = stack.now();
        let session = sessions.get_mut(self.session);
        let Some(s) = session.filter(|s| s.serial == self.serial) else {
            return;
        };
        let Some(key) = stack.endpoints.sessions.socket_of(self.session, index) else {
            return;
        };
        if let Some(channel) = self.channel {
            stack.lifecycle().forget_subscriber(key, channel);
        }
        if self.aborts {
            return stack.lifecycle().reset_unheld(key);
        }
        if stack.status().is_orphan(key) {
            return;
        }
        let is_anybodys = s.is_in_use()
            && (s.processes.is_held(index)
                || s.note_transit(key, index, now)
                || stack.status().is_unread(key));
        if !is_anybodys {
            stack.lifecycle().close_unheld(key);
        }
    }

    fn is_done(&self) -> bool {
        self.held.is_empty() && self.blocks.is_empty() && self.waiters.is_none()
    }
}

/// All that are under way, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Teardowns(VecDeque<Teardown>);

impl Teardowns {
    /// Sockets that are still to be looked at.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|b| b.held.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Begins one, and does what of it there is time for at once: nearly always all.
    pub(crate) fn begin(
        &mut self,
        sessions: &mut Sessions,
        stack: &mut Stack,
        mut teardown: Teardown,
    ) {
        let mut budget = A_TURN;
        if teardown.go_on(sessions, stack, &mut budget) {
            self.0.push_back(teardown);
        }
    }

    /// Goes on with those that are under way; says whether there were any.
    #[inline(never)]
    pub(crate) fn go_on(&mut self, sessions: &mut Sessions, stack: &mut Stack) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut budget = A_TURN;
        while budget != 0
            && let Some(mut teardown) = self.0.pop_front()
        {
            if teardown.go_on(sessions, stack, &mut budget) {
                // Others have their turn.
                self.0.push_back(teardown);
            }
        }
        true
    }

    /// Whether some are under way in the session of this number.
    pub(crate) fn are_in(&self, serial: u64) -> bool {
        self.0.iter().any(|b| b.serial == serial)
    }

    /// The sessions in which some are.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|b| b.session)
    }
}

#[cfg(test)]
mod tests;
