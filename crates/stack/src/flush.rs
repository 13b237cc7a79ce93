//! What a turn has touched is flushed at its end: what there is to send is sent, and hosts
//! are told what there is to tell.
//!
//! A few sockets are flushed at once. Of many, each user's have a share of the turn
//! (`turns`): those beyond it wait in their session's queue and have their turn
//! again, so that who sends on thousands of sockets makes others wait no longer than one
//! who sends on a few. Owns [`Stack::flush`], which the loop calls, and the order of those
//! that wait.

use crate::Stack;
use crate::account::Account;
use crate::at_work::AtWork;
use crate::counters::Counters;
use crate::sessions::Sessions;
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use crate::turns::{Of, PIECE, SEGMENT};
use std::sync::Arc;

/// So many sockets are flushed whatever they have to send.
const FEW: usize = 4;

impl Stack {
    /// Looks at every socket that this turn has touched; says whether there were any.
    #[inline]
    pub fn flush(&mut self) -> bool {
        let were_given_up = self.sockets.given_up.are_any();
        if were_given_up {
            self.admission().reset_some_waiting();
        }
        let are_touched = self.sockets.have_work_left();
        if are_touched {
            self.flush_touched();
            self.sessions.at_work = AtWork::Nobodys;
        }
        if self.half_open.are_given_up() {
            self.handshakes().reset_some_half_open();
            return true;
        }
        are_touched || were_given_up
    }

    #[inline(never)]
    fn flush_touched(&mut self) {
        self.sockets.are_yet_to_tell = false;
        self.sockets.have_more_to_pass = false;
        self.sockets.have_datagrams = false;
        if self.sockets.dirty.len() > FEW || !self.sockets.waiting_sessions.is_empty() {
            return self.flush_by_shares();
        }
        let count = self.sockets.dirty.len();
        for i in 0..count {
            if let Some(key) = self.sockets.dirty.get(i).copied() {
                self.flush_one(key);
            }
        }
        // What was touched meanwhile (a connection with more to send) is next
        // turn's.
        if self.sockets.dirty.len() == count {
            self.sockets.dirty.clear();
        } else {
            self.sockets.dirty.drain(..count);
        }
    }

    #[inline(never)]
    fn flush_one(&mut self, key: u32) {
        self.sessions.at_work = AtWork::Socket(key);
        let Some(socket) = self.sockets.slab.get_mut(key) else {
            return;
        };
        socket.dirty = false;
        let Kind::Stream(c) = &socket.kind else {
            return self.flush_other(key);
        };
        if c.tcb.may_have_to_send() {
            self.send_from(key);
        }
        self.flush_connection(key);
    }

    #[inline(never)]
    fn flush_other(&mut self, key: u32) {
        match self.sockets.get_mut(key).map(|socket| &socket.kind) {
            Some(Kind::Pair(_)) => self.admission().flush_pair(key),
            Some(Kind::Listener(_)) => self.flush_listener(key),
            Some(Kind::Datagram(_)) => {
                if self.datagram_output().flush(key) {
                    self.endings().forget(key);
                }
            }
            Some(Kind::Stream(_) | Kind::Idle(_)) | None => {}
        }
    }

    /// What was sent to a UDP socket before arrives before its program changes what it takes, or
    /// closes it.
    #[inline]
    pub(crate) fn pass_on_to(&mut self, key: u32) {
        let is_any = self.sockets.have_datagrams || !self.link.own.is_empty();
        let is_datagram = |s: &Socket| matches!(s.kind, Kind::Datagram(_));
        if is_any && self.sockets.get(key).is_some_and(is_datagram) {
            self.pass_on_datagrams();
        }
    }

    #[cold]
    fn pass_on_datagrams(&mut self) {
        let at_work = self.sessions.at_work;
        self.datagram_output().flush_ahead();
        self.take_own_packets();
        self.sessions.at_work = at_work;
    }

    /// Tells a listener's host of the connections that have come.
    fn flush_listener(&mut self, key: u32) {
        let socket = self.sockets.get_mut(key);
        let flushed = socket.and_then(|s| s.flush_listener(&mut self.sessions, self.now));
        let Some(flushed) = flushed else {
            return;
        };
        if flushed.tells_more {
            self.sockets.touch(key);
        }
        if flushed.has_accepted {
            self.admission().take_accepted(key);
        }
        self.sockets.arm(key);
    }

    /// As `flush_other`, for many: those of each user as far as its share goes.
    #[inline(never)]
    fn flush_by_shares(&mut self) {
        let turn = self.counters.event_loop.turns;
        let mut dirty = std::mem::take(&mut self.sockets.dirty);
        for key in dirty.drain(..) {
            let Some(session) = self.sockets.get(key).map(|s| s.session) else {
                continue;
            };
            if self.sessions.has_output_left(session, turn) {
                self.flush_and_count(session, key);
            } else {
                let sockets = &mut self.sockets;
                sockets.postpone(session, key, &mut self.sessions, &mut self.counters);
            }
        }
        dirty.append(&mut self.sockets.dirty);
        self.sockets.dirty = dirty;
        for _ in 0..self.sockets.waiting_sessions.len() {
            let Some(session) = self.sockets.waiting_sessions.pop_front() else {
                break;
            };
            self.flush_postponed(session);
        }
    }

    /// Serves those that wait in a session, as far as their user's share goes.
    fn flush_postponed(&mut self, session: u32) {
        let turn = self.counters.event_loop.turns;
        while let Some(s) = self.sessions.get_mut(session) {
            let spent = |account: &Arc<Account>| account.spent.left(Of::Output, turn) == 0;
            if s.postponed.is_empty() {
                return;
            }
            if s.account.as_ref().is_some_and(spent) {
                return self.sockets.waiting_sessions.push_back(session);
            }
            if let Some(key) = s.postponed.pop_front() {
                self.flush_and_count(session, key);
            }
        }
    }

    fn flush_and_count(&mut self, session: u32, key: u32) {
        let before = self.counters.output();
        self.flush_one(key);
        let cost = self.counters.output().wrapping_sub(before).max(1);
        if let Some(account) = self.sessions.account_of(session) {
            let cost = u32::try_from(cost).unwrap_or(u32::MAX);
            account
                .spent
                .spend(Of::Output, self.counters.event_loop.turns, cost);
        }
    }
}

impl Sessions {
    /// Whether a session may send in this turn, and none of its own waits for that.
    fn has_output_left(&self, session: u32, turn: u64) -> bool {
        let Some(s) = self.get(session) else {
            return true;
        };
        let left = |account: &Arc<Account>| account.spent.left(Of::Output, turn) != 0;
        s.postponed.is_empty() && s.account.as_ref().is_none_or(left)
    }
}

impl Sockets {
    /// A socket has its turn again.
    fn postpone(
        &mut self,
        session: u32,
        key: u32,
        sessions: &mut Sessions,
        counters: &mut Counters,
    ) {
        let Some(s) = sessions.get_mut(session) else {
            return;
        };
        if s.postponed.is_empty() {
            self.waiting_sessions.push_back(session);
        }
        s.postponed.push_back(key);
        counters.waits.output += 1;
    }

    /// Sockets of a session that is gone are nobody's that waits.
    pub(super) fn release_postponed(&mut self, postponed: impl IntoIterator<Item = u32>) {
        for key in postponed {
            if let Some(socket) = self.get_mut(key) {
                socket.dirty = false;
                self.touch(key);
            }
        }
    }
}

impl Counters {
    /// What was sent since the engine began, in the units of [`Of::Output`].
    fn output(&self) -> u64 {
        let c = self;
        let pieces = c.own_bytes.cut_through / crate::pair_end::PIECE;
        let segments = c.tcp.segments_out + c.tcp.longer_segments_out;
        u64::from(SEGMENT) * segments + u64::from(PIECE) * pieces + c.datagrams.output
    }
}
