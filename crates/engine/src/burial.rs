//! What processes that have ended held is let go of, some of it in each turn: a process may
//! have held tens of thousands of sockets, and others are not to wait for their ends.
//!
//! Owns the [`Burials`] that are under way. `house` begins one when a process is gone, when
//! nobody has come for a reservation, and when a session is; the loop goes on with them each
//! turn until all are done. The channel of the process belongs to nobody else before.

use crate::engine::Engine;
use std::collections::VecDeque;

/// Sockets that are looked at in one turn.
const A_TURN: usize = 64;

/// The sockets of one process that has ended.
#[derive(Debug)]
pub(crate) struct Burial {
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
pub(crate) struct Burials(VecDeque<Burial>);

impl Burials {
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
    pub(crate) fn bury(&mut self, mut burial: Burial) {
        let mut budget = A_TURN;
        if self.bury_some(&mut burial, &mut budget) {
            self.burials.0.push_back(burial);
        }
    }

    /// Goes on with those that are under way; says whether there were any.
    pub(crate) fn go_on_burying(&mut self) -> bool {
        if self.burials.0.is_empty() {
            return false;
        }
        let mut budget = A_TURN;
        while budget != 0
            && let Some(mut burial) = self.burials.0.pop_front()
        {
            if self.bury_some(&mut burial, &mut budget) {
                // Others have their turn.
                self.burials.0.push_back(burial);
            }
        }
        true
    }

    /// Does some of it; whether there is more.
    fn bury_some(&mut self, burial: &mut Burial, budget: &mut usize) -> bool {
        while *budget != 0
            && let Some(index) = burial.held.pop()
        {
            *budget -= 1;
            self.bury_socket(burial, index);
        }
        if !burial.held.is_empty() {
            return true;
        }
        if let Some(s) = self.sessions.get(burial.session)
            && s.serial == burial.serial
            && let Some(channel) = burial.channel
        {
            s.processes.free_channel(channel);
        }
        false
    }

    /// A process that is gone had this socket: it is closed if nobody has it now.
    fn bury_socket(&mut self, burial: &Burial, index: u32) {
        let (now, stack) = (self.stack.now(), &mut self.stack);
        let session = self.sessions.get_mut(burial.session);
        let Some(s) = session.filter(|s| s.serial == burial.serial) else {
            return;
        };
        let Some(key) = stack.socket_of(burial.session, index) else {
            return;
        };
        if let Some(channel) = burial.channel {
            stack.forget_subscriber(key, channel);
        }
        if burial.aborts {
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
        self.burials.sessions().any(|s| uid_of(s) == own)
    }
}
