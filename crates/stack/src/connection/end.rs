//! Sockets that no process holds any more, and what becomes of them.
//!
//! Which process holds what is known by the engine, which says so when one has ended, when a
//! socket was lost on its way between two, and when a session ends.

use crate::Stack;
use longshore_hostif::EdgeFlags;
use longshore_tcp::Linger;

impl Stack {
    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub fn close_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.take_last_edges(key);
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
