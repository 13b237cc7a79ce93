//! Sockets that no process holds any more, and what becomes of them.
//!
//! Which process holds what is known by the engine, which says so when one has ended, when a
//! socket was lost on its way between two, and when a session ends.

use crate::Stack;
use longshore_tcp::Linger;

impl Stack {
    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub fn close_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.requests().take_last_edges(key);
            let socket = stack.sockets.get(key);
            let linger = socket.map_or(Linger::Background, |s| s.linger_noted(&stack.sessions));
            stack.endings().close(key, linger);
        });
    }

    /// No process holds a socket any more, and what was written is delivered to nobody.
    pub fn reset_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.endings().close(key, Linger::Reset);
            stack.transfers().abort(key);
        });
    }

    /// A process has a socket no longer. Connections that it was given and has not accepted
    /// are told to the others that listen.
    pub fn forget_subscriber(&mut self, key: u32, channel: u16) {
        self.work_for(key, |stack| {
            stack.sockets.forget_subscriber(key, channel, stack.now);
        });
    }
}
