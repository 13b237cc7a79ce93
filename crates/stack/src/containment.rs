//! A panic while one session's work is done ends that session alone.
//!
//! Such a panic is a bug, and may have left anything half changed that the work was about.
//! Whoever calls the stack catches it and calls [`Stack::contain_panic`], which takes the
//! session's sockets out as they are, without asking them for anything, and makes all that
//! is derived from sockets anew from those that remain: tables, timers, lists. What the
//! session had in memory goes with the session. The other end of a connection between two of
//! our own may be another session's: should it lead to a panic in its turn when it is reset, that
//! session is ended, too. Of half-open connections the one alone is forgotten that was about to
//! be reset or to be answered again. A panic in what is nobody's work (the link, fragments,
//! TIME-WAIT) is not contained: [`Stack::contain_panic`] says so.

use crate::at_work::AtWork;
use crate::demux::Demux;
use crate::half_open::HalfOpens;
use crate::pair_end::Pair;
use crate::slab::Slab;
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use crate::timers::Alarm;
use crate::{Notice, Stack};
use longshore_tcp::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Stack {
    /// Does what is the work of the session of a socket.
    pub(crate) fn work_for(&mut self, key: u32, work: impl FnOnce(&mut Self)) {
        self.sessions.at_work = AtWork::Socket(key);
        work(self);
        self.sessions.at_work = AtWork::Nobodys;
    }

    /// A panic was caught that came out of a method of this stack. The sessions to be ended:
    /// that whose work it was, and those whose sockets its end has led to a panic, too. They
    /// have no sockets any more, and their peers were reset. None are to be ended for a
    /// half-open connection. `None` if it was nobody's work, and the stack cannot go on.
    pub fn contain_panic(&mut self) -> Option<Vec<u32>> {
        let session = match std::mem::replace(&mut self.sessions.at_work, AtWork::Nobodys) {
            AtWork::Nobodys => return None,
            AtWork::HalfOpen(key) => {
                self.counters.contained_panics += 1;
                self.forget_half_open(key);
                self.notices.push(Notice::PanicAtHalfOpen);
                return Some(Vec::new());
            }
            AtWork::Session(session) => session,
            AtWork::Socket(key) => self.sockets.get(key)?.session,
        };
        self.sessions.get(session)?;
        let (mut ended, mut to_end) = (Vec::new(), vec![session]);
        while let Some(session) = to_end.pop() {
            if !ended.contains(&session) {
                ended.push(session);
                self.counters.contained_panics += 1;
                self.notices.push(Notice::Panic { session });
                self.take_out(session, &mut to_end);
            }
        }
        Some(ended)
    }

    /// Forgets a half-open connection, whatever its state.
    fn forget_half_open(&mut self, key: u32) {
        let half = self.half_open.get(key);
        let listener = half.and_then(|half| self.half_open.listener_of(half));
        let listener = listener.and_then(|key| self.sockets.get_mut(key));
        if let Some(Kind::Listener(l)) = listener.map(|s| &mut s.kind) {
            l.listener.on_half_open_gone();
        }
        self.remake_derived(Some(key));
    }

    /// Takes out all sockets of a session, and adds those sessions to `to_end` for whose
    /// sockets it cannot be done what follows from that.
    fn take_out(&mut self, session: u32, to_end: &mut Vec<u32>) {
        let all = self.sockets.iter().filter(|(_, s)| s.session == session);
        let keys: Vec<u32> = all.map(|(key, _)| key).collect();
        for key in &keys {
            // Its state may be what the panic is about.
            let _ = catch_unwind(AssertUnwindSafe(|| self.reset_peer(*key)));
            self.give_up_half_open(*key);
        }
        let removed: Vec<Socket> = keys
            .iter()
            .filter_map(|k| self.sockets.remove(*k))
            .collect();
        self.sessions.condemn(session);
        self.remake_derived(None);
        self.reset_other_ends(&keys, to_end);
        for socket in removed {
            self.part_with(socket);
        }
    }

    /// The peer of a connection hears that it is over.
    fn reset_peer(&mut self, key: u32) {
        if let Some(c) = self.connection_mut(key).filter(|c| !c.retired) {
            c.tcb.abort();
            let _ = self.transmit(key);
        }
    }

    /// Makes anew what is known of sockets outside of them. All of them are looked at in the
    /// next turn.
    fn remake_derived(&mut self, without: Option<u32>) {
        self.sockets.remake_lists(self.now);
        self.sessions.remake_lists();
        self.half_open.remake(self.now, without);
        self.demux.remake(&self.sockets, &self.half_open);
        self.unanswered
            .retain(|session| self.sessions.is_served(session));
    }

    /// Sockets of other sessions whose other ends were among `gone` are reset.
    fn reset_other_ends(&mut self, gone: &[u32], to_end: &mut Vec<u32>) {
        let has_lost = |s: &Socket| match &s.kind {
            Kind::Pair(p) => {
                gone.contains(&p.other) || p.listener.is_some_and(|l| gone.contains(&l))
            }
            _ => false,
        };
        let lost = self.sockets.iter().filter(|(_, s)| has_lost(s));
        let lost: Vec<_> = lost.map(|(key, s)| (key, s.session)).collect();
        for (key, session) in lost {
            // What both ends did may be what the panic is about.
            if catch_unwind(AssertUnwindSafe(|| self.lose_other_end(key))).is_err() {
                to_end.push(session);
            }
        }
    }

    /// What others keep for a socket that was taken out.
    fn part_with(&mut self, socket: Socket) {
        match socket.kind {
            Kind::Listener(l) => self.give_up_line(socket.session, l.queue),
            Kind::Datagram(d) => {
                for group in d.groups {
                    self.link.leave_group(group, self.now);
                }
            }
            _ => {}
        }
    }
}

impl Sockets {
    /// All sockets are on the list of the turn, and their timers set anew.
    fn remake_lists(&mut self, now: Instant) {
        *self = Self {
            slab: std::mem::replace(&mut self.slab, Slab::new()),
            ..Self::new(now)
        };
        let is_denied = |s: &Socket| matches!(&s.kind, Kind::Stream(c) if c.tcb.is_denied_room());
        let denied = self.slab.iter().filter(|(_, s)| is_denied(s));
        self.denied_memory = denied.map(|(key, _)| key).collect();
        for key in self.slab.keys() {
            if let Some(socket) = self.slab.get_mut(key) {
                socket.alarm = Alarm::OFF;
                socket.dirty = true;
                self.dirty.push(key);
            }
            self.arm(key);
        }
    }
}

impl Demux {
    /// Makes the tables anew from the sockets that there are.
    fn remake(&mut self, sockets: &Sockets, half_open: &HalfOpens) {
        self.begin_anew(|key| sockets.get(key).is_some());
        for (key, socket) in sockets.iter() {
            if let (Some(local), Some(reuse)) = (socket.local, socket.holds_port) {
                self.tcp.hold(local, reuse);
            }
            match &socket.kind {
                Kind::Stream(c) if !c.retired => self.insert(c.flow, key),
                Kind::Pair(Pair {
                    flow: Some(flow), ..
                }) => self.insert(*flow, key),
                _ => {}
            }
        }
        for (key, half) in half_open.iter() {
            self.insert_half_open(half.flow, key);
        }
    }
}
