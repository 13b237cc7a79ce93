//! What processes that have ended held is let go of, some of it in each turn: a process may
//! have held tens of thousands of sockets, and others are not to wait for their ends.
//!
//! Owns the [`Teardowns`] that are under way. `maintenance` begins one when a process is gone, when
//! nobody has come for a reservation, and when a session is; the loop goes on with them each
//! turn until all are done. The channel of the process belongs to nobody else before.

use crate::Engine;
use std::collections::VecDeque;

/// Sockets that are looked at in one turn.
const A_TURN: usize = 64;

/// The sockets of one process that has ended.
#[derive(Debug)]
pub(crate) struct Teardown {
    pub(crate) session: u32,
    /// The number of that session, whose place may be another's by then.
    pub(crate) serial: u64,
    /// The channel of the process, which is free when all is done; none for those that no
    /// process had.
    pub(crate) channel: Option<u16>,
    /// Blocks by their indices.
    pub(crate) held: Vec<u32>,
    /// What was written is not delivered any more.
    pub(crate) aborts: bool,
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

    /// Whether some are under way in the session of this number.
    pub(crate) fn are_in(&self, serial: u64) -> bool {
        self.0.iter().any(|b| b.serial == serial)
    }

    /// The sessions in which some are.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|b| b.session)
    }
}

impl Engine {
    /// Begins one, and does what of it there is time for at once: nearly always all.
    pub(crate) fn tear_down(&mut self, mut teardown: Teardown) {
        let mut budget = A_TURN;
        if self.tear_down_some(&mut teardown, &mut budget) {
            self.teardowns.0.push_back(teardown);
        }
    }

    /// Goes on with those that are under way; says whether there were any.
    pub(crate) fn continue_teardowns(&mut self) -> bool {
        if self.teardowns.0.is_empty() {
            return false;
        }
        let mut budget = A_TURN;
        while budget != 0
            && let Some(mut teardown) = self.teardowns.0.pop_front()
        {
            if self.tear_down_some(&mut teardown, &mut budget) {
                // Others have their turn.
                self.teardowns.0.push_back(teardown);
            }
        }
        true
    }

    /// Does some of it; whether there is more.
    fn tear_down_some(&mut self, teardown: &mut Teardown, budget: &mut usize) -> bool {
        while *budget != 0
            && let Some(index) = teardown.held.pop()
        {
            *budget -= 1;
            self.tear_down_socket(teardown, index);
        }
        if !teardown.held.is_empty() {
            return true;
        }
        if let Some(s) = self.sessions.get(teardown.session)
            && s.serial == teardown.serial
            && let Some(channel) = teardown.channel
        {
            s.processes.free_channel(channel);
        }
        false
    }

    /// A process that is gone had this socket: it is closed if nobody has it now.
    fn tear_down_socket(&mut self, teardown: &Teardown, index: u32) {
        let (now, stack) = (self.stack.now(), &mut self.stack);
        let session = self.sessions.get_mut(teardown.session);
        let Some(s) = session.filter(|s| s.serial == teardown.serial) else {
            return;
        };
        let Some(key) = stack.socket_of(teardown.session, index) else {
            return;
        };
        if let Some(channel) = teardown.channel {
            stack.forget_subscriber(key, channel);
        }
        if teardown.aborts {
            return stack.reset_unheld(key);
        }
        if stack.is_orphan(key) {
            return;
        }
        let is_anybodys =
            s.is_in_use() && (s.processes.is_held(index) || s.note_transit(key, index, now));
        if !is_anybodys {
            stack.close_unheld(key);
        }
    }

    /// Whether sockets of ended processes are still to be closed that are of the user of
    /// this session.
    pub(crate) fn buries_for(&self, session: u32) -> bool {
        let uid_of = |session| self.sessions.get(session).map(|s| s.uid);
        let own = uid_of(session);
        self.teardowns.sessions().any(|s| uid_of(s) == own)
    }
}
