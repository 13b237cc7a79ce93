//! Sockets that no process holds any more: what they still have to say is said, and then
//! they go.
//!
//! Which process holds what is known by the engine, which calls this when one has ended, when
//! a socket was lost on its way between two, and when a session ends.

use crate::Stack;
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Options, Socket};
use crate::sockets::Sockets;
use longshore_hostif::EdgeFlags;
use longshore_tcp::{Instant, Linger, State};

/// Sockets that are looked at, at a time, for what they have to deliver.
const A_TURN: u32 = 64;

/// Whether anything is still to be delivered that programs have left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// Something is.
    Some,
    /// Nothing was found yet, and not all sockets were looked at.
    Unknown,
    /// Nothing is.
    None,
}

impl Socket {
    /// Whether it is a connection that has not yet delivered all that was written, with the end.
    fn has_undelivered(&self) -> bool {
        let is_delivered = |c: &Connection| {
            let state = c.tcb.state();
            self.orphan && matches!(state, State::FinWait2 | State::TimeWait | State::Closed)
        };
        matches!(&self.kind, Kind::Stream(c) if !is_delivered(c))
    }

    /// What closing it does by what its program has noted; nobody waits for it.
    fn linger_noted(&self, sessions: &Sessions) -> Linger {
        let session = sessions.get(self.session).filter(|_| self.has_block());
        Options::linger(session.and_then(|s| s.host.linger_noted(self.id)))
    }

    /// The process of `channel` has it no longer. Whether it is a listener, whose connections may
    /// have to be told to others.
    fn forget_subscriber(&mut self, channel: u16, now: Instant) -> bool {
        self.subscribers.remove(channel);
        let Kind::Listener(l) = &mut self.kind else {
            return false;
        };
        l.audience.forget(channel, !l.queue.is_empty(), now);
        true
    }
}

impl Sockets {
    /// Whether a socket that nobody has any more still has something to deliver. To be asked when
    /// no session is left, so that a socket that has nothing will have nothing: those that were
    /// found to be so are not looked at again, and of the others some are at each call.
    pub(crate) fn look_for_undelivered(&mut self) -> Undelivered {
        for _ in 0..A_TURN {
            if self.delivered_below == self.end() {
                return Undelivered::None;
            }
            let socket = self.get(self.delivered_below);
            if socket.is_some_and(Socket::has_undelivered) {
                return Undelivered::Some;
            }
            self.delivered_below += 1;
        }
        Undelivered::Unknown
    }

    /// There is a session again: what has nothing to deliver may have something yet.
    pub(crate) fn look_for_undelivered_anew(&mut self) {
        self.delivered_below = 0;
    }
}

impl Stack {
    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub fn close_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.take_last_edges(key);
            let socket = stack.sockets.get(key);
            let linger = socket.map_or(Linger::Background, |s| s.linger_noted(&stack.sessions));
            stack.close(key, linger);
        });
    }

    /// No process holds a socket any more, and what was written is delivered to nobody.
    pub fn reset_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.close(key, Linger::Reset);
            stack.transfers().abort(key);
        });
    }

    /// What a process that has ended had written or read and not yet told us of is taken
    /// from the socket's block, checked like any request.
    fn take_last_edges(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let Some(s) = self.sessions.get(socket.session) else {
            return;
        };
        if !socket.has_block() {
            return;
        }
        if let Some((snd, rcv)) = s.host.edges_noted(socket.id) {
            // Nobody keeps the bytes of others that it was about to send.
            let told = socket.snd_edge().min(snd);
            let snd = s.host.send.first_forwarded(socket.id.index, told..snd);
            let _ = self.host_edges(key, None, snd, rcv, EdgeFlags::PUSH);
        }
    }

    /// A process has a socket no longer. Connections that it was given and has not accepted
    /// are told to the others that listen.
    pub fn forget_subscriber(&mut self, key: u32, channel: u16) {
        self.work_for(key, |stack| {
            let now = stack.now;
            let socket = stack.sockets.get_mut(key);
            if socket.is_some_and(|s| s.forget_subscriber(channel, now)) {
                stack.sockets.touch(key);
            }
        });
    }
}
