//! The processes that have a socket: one more, one fewer, and what each of them is told then.
//!
//! Called by `requests`, by `admission` for a connection that its program has accepted, and for
//! processes that have ended.

use crate::sessions::Sessions;
use crate::socket::{Kind, Socket};
use longshore_hostif::EdgeFlags;
use longshore_tcp::Instant;

impl Socket {
    /// The process of `channel` has it, too, from now on.
    pub(crate) fn subscribe(&mut self, channel: u16, sessions: &mut Sessions, now: Instant) {
        let Some(session) = sessions.get_mut(self.session) else {
            return;
        };
        self.subscribers.add(channel);
        let edges = self.kind.edges();
        if self.subscribers.single() == Some(channel) {
            self.put_edges(&mut session.host, edges);
        } else {
            self.put_edges_to_one(&mut session.host, channel, edges);
        }
        session.host.wakeups.note_socket(self.id.index);
        if self.subscribers.single() == Some(channel) {
            self.note_reported(now);
        }
        // Others may still have to be told of what has happened in this turn.
    }

    /// A process has shut a half of it down that others have too: they look at its block, where
    /// it says so.
    pub(crate) fn report_to_others(&mut self, channel: u16, sessions: &mut Sessions, now: Instant) {
        if self.subscribers.single() == Some(channel) {
            return;
        }
        let edges = self.kind.edges();
        self.note_reported(now);
        if let Some(s) = sessions.get_mut(self.session) {
            self.put_edges(&mut s.host, edges);
        }
    }

    /// The process of `channel` has it no longer. Whether it is a listener, whose connections may
    /// have to be told to others.
    pub(crate) fn forget_subscriber(&mut self, channel: u16, now: Instant) -> bool {
        self.subscribers.remove(channel);
        let Kind::Listener(l) = &mut self.kind else {
            return false;
        };
        l.audience.forget(channel, !l.queue.is_empty(), now);
        true
    }

    /// The program has a connection: it is no listener's any more. The process of `by` is given
    /// it: the one that it was given to may be gone, whose channel `by` may be itself.
    pub(crate) fn accepted(&mut self, by: Option<u16>, sessions: &mut Sessions, now: Instant) {
        match &mut self.kind {
            Kind::Stream(c) => c.listener = None,
            Kind::Pair(p) => p.listener = None,
            _ => {}
        }
        let edges = self.kind.edges();
        if let Some(s) = sessions.get_mut(self.session) {
            if let Some(channel) = by {
                self.subscribers.add(channel);
                self.put_edges_to_one(&mut s.host, channel, edges);
                s.host.wakeups.note_socket(self.id.index);
                self.note_reported(now);
            }
            // What could not be said in a block that was not begun.
            if edges.flags.contains(EdgeFlags::DEAD) {
                self.put_edges(&mut s.host, edges);
            }
            if self.errors.were_any() {
                s.host.blocks().set_error(self.id, 0, self.errors.len());
            }
        }
        self.apply_widest_window(sessions);
    }
}
