//! A panic while one session's work is done ends that session alone.
//!
//! Such a panic is a bug, and may have left anything half changed that the work was about.
//! Whoever calls the stack catches it and calls [`Stack::contain_panic`], which takes the
//! session's sockets out as they are, without asking them for anything, and makes all that
//! is derived from sockets anew from those that remain: tables, timers, lists. What the
//! session had in memory goes with the session. The other end of a connection between two of
//! our own may be another session's: should it lead to a panic in its turn when it is reset, that
//! session is ended, too. Of half-open connections the one alone is forgotten that was about to
//! be reset or to be answered again. What is made anew may meet a panic in its turn: then the
//! session, or the half-open connection, is taken out at which it did, and all is made once more.
//! A panic in what is nobody's work (the link, fragments,
//! TIME-WAIT) is not contained: [`Stack::contain_panic`] says so.

use super::Stack;
use crate::at_work::AtWork;
use crate::counters::{Counters, Notice};
use crate::demux::Demux;
use crate::handshake::Handshakes;
use crate::pair_end::Pair;
use crate::slab::Slab;
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use crate::timers::Alarm;
use longshore_tcp::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Takes out of a stack what a panic was about: it may have to do with any part.
pub(crate) struct Containment<'a> {
    stack: &'a mut Stack,
    /// Sessions, whose sockets are gone.
    sessions: Vec<u32>,
    /// The keys that their sockets had, of those that the others do not know yet.
    keys: Vec<u32>,
    /// The sockets.
    sockets: Vec<Socket>,
}

impl<'a> Containment<'a> {
    /// In this stack, where a panic was caught.
    pub(crate) fn of(stack: &'a mut Stack) -> Self {
        Self {
            stack,
            sessions: Vec::new(),
            keys: Vec::new(),
            sockets: Vec::new(),
        }
    }

    /// Takes out what the panic was about; the sessions to be ended, as
    /// [`Stack::contain_panic`] has it.
    pub(crate) fn contain(mut self) -> Option<Vec<u32>> {
        self.take_out_at_work()?;
        loop {
            self.remake_derived()?;
            let keys = std::mem::take(&mut self.keys);
            let lost = self.reset_other_ends(&keys);
            if lost.is_empty() {
                break;
            }
            for session in lost {
                self.take_out(session);
            }
        }
        for socket in std::mem::take(&mut self.sockets) {
            let session = socket.session;
            if catch_unwind(AssertUnwindSafe(|| self.part_with(socket))).is_err() {
                // It is gone all the same: what others keep for it is less than it was.
                self.stack.counters.note_panic(session);
            }
        }
        Some(self.sessions)
    }

    /// Takes out what the panic was about whose work was being done.
    fn take_out_at_work(&mut self) -> Option<()> {
        let session =
            match std::mem::replace(&mut self.stack.endpoints.sessions.at_work, AtWork::Nobodys) {
                AtWork::Nobodys => return None,
                AtWork::HalfOpen(key) => {
                    self.stack.answering().handshakes().forget_half_open(key);
                    return Some(());
                }
                AtWork::Session(session) => session,
                AtWork::Socket(key) => self.stack.endpoints.sockets.get(key)?.session,
            };
        self.stack.endpoints.sessions.get(session)?;
        (!self.sessions.contains(&session)).then(|| self.take_out(session))
    }

    /// Takes out all sockets of a session, if that was not done before.
    fn take_out(&mut self, session: u32) {
        if self.sessions.contains(&session) {
            return;
        }
        self.sessions.push(session);
        self.stack.counters.note_panic(session);
        let all = self
            .stack
            .endpoints
            .sockets
            .iter()
            .filter(|(_, s)| s.session == session);
        let keys: Vec<u32> = all.map(|(key, _)| key).collect();
        for key in &keys {
            // Its state may be what the panic is about.
            let _ = catch_unwind(AssertUnwindSafe(|| self.reset_peer(*key)));
            let _ = catch_unwind(AssertUnwindSafe(|| {
                self.stack
                    .endpoints
                    .half_open
                    .give_up_of(*key, &self.stack.endpoints.sockets)
            }));
        }
        let removed = keys
            .iter()
            .filter_map(|k| self.stack.endpoints.sockets.remove(*k));
        self.sockets.extend(removed);
        self.keys.extend(keys);
        self.stack.endpoints.sessions.condemn(session);
    }

    /// The peer of a connection is told that it is over.
    fn reset_peer(&mut self, key: u32) {
        if let Some(c) = self
            .stack
            .endpoints
            .sockets
            .connection_mut(key)
            .filter(|c| !c.is_over)
        {
            c.tcb.abort();
            let (sessions, link) = (&mut self.stack.endpoints.sessions, &mut self.stack.link);
            let _ = self.stack.endpoints.sockets.transmit(
                key,
                sessions,
                link,
                &mut self.stack.counters,
                self.stack.now,
            );
        }
    }

    /// Makes anew what is known of sockets outside of them. Whatever that meets a panic at is
    /// taken out as well, and it is done once more; `None` if that is nobody's.
    fn remake_derived(&mut self) -> Option<()> {
        while catch_unwind(AssertUnwindSafe(|| self.remake())).is_err() {
            self.take_out_at_work()?;
        }
        Some(())
    }

    /// Makes tables, lists and timers from the sockets and half-open connections that there are,
    /// and says of each that it is at work. All of them are looked at in the next turn.
    fn remake(&mut self) {
        let (sockets, half_open) = (
            self.stack.endpoints.sockets.slab.keys(),
            self.stack.endpoints.half_open.keys(),
        );
        self.stack
            .endpoints
            .sockets
            .begin_lists_anew(self.stack.now);
        for key in &sockets {
            self.stack.endpoints.sessions.at_work = AtWork::Socket(*key);
            self.stack.endpoints.sockets.list_anew(*key);
        }
        self.stack.endpoints.sessions.at_work = AtWork::Nobodys;
        self.stack.endpoints.sessions.remake_lists();
        self.stack
            .endpoints
            .half_open
            .begin_lists_anew(self.stack.now);
        for key in &half_open {
            self.stack.endpoints.sessions.at_work = AtWork::HalfOpen(*key);
            self.stack.endpoints.half_open.list_anew(*key);
        }
        self.stack.endpoints.sessions.at_work = AtWork::Nobodys;
        self.stack
            .endpoints
            .demux
            .begin_anew(|key| self.stack.endpoints.sockets.get(key).is_some());
        for key in sockets {
            self.stack.endpoints.sessions.at_work = AtWork::Socket(key);
            if let Some(socket) = self.stack.endpoints.sockets.get(key) {
                self.stack.endpoints.demux.enter_anew(key, socket);
            }
        }
        for key in half_open {
            self.stack.endpoints.sessions.at_work = AtWork::HalfOpen(key);
            if let Some(half) = self.stack.endpoints.half_open.get(key) {
                self.stack.endpoints.demux.insert_half_open(half.flow, key);
            }
        }
        self.stack.endpoints.sessions.at_work = AtWork::Nobodys;
        self.stack
            .unanswered
            .retain(|session| self.stack.endpoints.sessions.is_served(session));
    }

    /// Sockets of other sessions whose other ends were among `gone` are reset. The sessions for
    /// whose sockets that cannot be done.
    fn reset_other_ends(&mut self, gone: &[u32]) -> Vec<u32> {
        let has_lost = |s: &Socket| match &s.kind {
            Kind::Pair(p) => {
                gone.contains(&p.other) || p.listener.is_some_and(|l| gone.contains(&l))
            }
            _ => false,
        };
        let lost = self
            .stack
            .endpoints
            .sockets
            .iter()
            .filter(|(_, s)| has_lost(s));
        let lost: Vec<_> = lost.map(|(key, s)| (key, s.session)).collect();
        let mut to_end = Vec::new();
        for (key, session) in lost {
            // What both ends did may be what the panic is about.
            if catch_unwind(AssertUnwindSafe(|| {
                self.stack.endpoints.sockets.lose_other_end(key)
            }))
            .is_err()
            {
                to_end.push(session);
            }
        }
        to_end
    }

    /// What others keep for a socket that was taken out.
    fn part_with(&mut self, socket: Socket) {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::parts_with(socket.session);
        match socket.kind {
            Kind::Listener(l) => self
                .stack
                .endpoints
                .sockets
                .given_up
                .put_entering(socket.session, l.queue),
            Kind::Datagram(d) => {
                for membership in d.groups {
                    membership.end(&mut self.stack.link, self.stack.now);
                }
            }
            _ => {}
        }
    }
}

impl Counters {
    /// Counts a panic that was contained, in the work for a session, and tells the operator.
    pub fn note_panic(&mut self, session: u32) {
        self.sessions.contained_panics += 1;
        self.notices.push(Notice::Panic { session });
    }
}

impl Handshakes<'_> {
    /// Forgets a half-open connection, whatever its state.
    fn forget_half_open(&mut self, key: u32) {
        let half = self.endpoints.half_open.get(key);
        let listener = half.and_then(|half| self.endpoints.half_open.listener_of(half));
        let listener = listener.and_then(|key| self.endpoints.sockets.get_mut(key));
        if let Some(Kind::Listener(l)) = listener.map(|s| &mut s.kind) {
            l.listener.on_half_open_gone();
        }
        self.endpoints.half_open.drop_unlisted(key);
        self.responder.counters.sessions.contained_panics += 1;
        self.responder
            .counters
            .notices
            .push(Notice::PanicAtHalfOpen);
    }
}

impl Sockets {
    /// Lists and timers without any socket, which is put there by
    /// [`list_anew`](Self::list_anew).
    fn begin_lists_anew(&mut self, now: Instant) {
        *self = Self {
            slab: std::mem::replace(&mut self.slab, Slab::new()),
            given_up: std::mem::take(&mut self.given_up),
            delivered_below: self.delivered_below,
            ..Self::new(now)
        };
    }

    /// A socket is on the list of the turn, and its timer set.
    fn list_anew(&mut self, key: u32) {
        let Some(socket) = self.slab.get_mut(key) else {
            return;
        };
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::lists_anew(socket.session);
        if let Kind::Stream(c) = &mut socket.kind {
            c.awaits_memory = c.tcb.is_short_of_room();
            if c.awaits_memory {
                self.short_of_memory.push_back(key);
            }
        }
        socket.alarm = Alarm::OFF;
        socket.dirty = true;
        socket.arm(&mut self.wheel, key);
        self.dirty.push(key);
    }
}

impl Demux {
    /// Enters a socket in tables that were made anew.
    fn enter_anew(&mut self, key: u32, socket: &Socket) {
        socket.bound.hold_anew(self);
        match &socket.kind {
            Kind::Stream(c) if !c.is_over => self.insert(c.flow, key),
            Kind::Pair(Pair {
                flow: Some(flow), ..
            }) => self.insert(*flow, key),
            _ => {}
        }
    }
}
