//! Putting completions into channels, and publishing them in batches.

use super::{AdapterSession, Subscribers};
use crate::abi::{BlockFlags, Completion, EdgeFlags, Edges, SocketId};
use crate::transport::PutError;
use longshore_ring::Waiter;

impl AdapterSession {
    /// Stages an answer for one channel. There is room for it, unless the process does
    /// what none of ours does, and has itself to blame.
    pub fn put_answer(&mut self, channel: u16, answer: &Completion) {
        let Some(end) = self.channels.end(channel) else {
            return;
        };
        match end.channel.put(&self.arena, answer) {
            Ok(()) => self.channels.stage(channel),
            Err(_) => self.bad_descriptors += 1,
        }
    }

    /// Stages where a socket's edges are for one channel; whether there was room. If there
    /// was none the socket is noted, and the process told that there is more: it lets us
    /// know when it has made room, and is told then where they are by that time.
    pub fn put_edges(&mut self, channel: u16, socket: SocketId, edges: Edges) -> bool {
        let sockets = self.arena.geometry().sockets;
        let Some(end) = self.channels.end(channel) else {
            return true;
        };
        let completion = Completion::Edges { socket, edges };
        let mut put = end.channel.put(&self.arena, &completion);
        let is_full = put == Err(PutError::Full);
        if is_full {
            end.pending.insert(socket.index, sockets as usize);
            let more = end.channel.say_more(&self.arena);
            self.channels.put_off += 1;
            match more {
                Ok(true) => put = Ok(()),
                Ok(false) => return false,
                Err(e) => put = Err(e),
            }
        }
        match put {
            Ok(()) => self.channels.stage(channel),
            // The process broke its own ring; it hears no more of us.
            Err(_) => self.bad_descriptors += 1,
        }
        !is_full
    }

    /// Stages where `socket`'s edges are for all who subscribed to it, and notes that those
    /// that wait for it are to be woken. That it is dead is said in its block, too: a program
    /// that only writes has no cause to look at what it is told.
    pub fn put_edges_to(&mut self, to: &Subscribers, socket: SocketId, edges: Edges) {
        to.for_each(|channel| {
            self.put_edges(channel, socket, edges);
        });
        self.wakeups.note_socket(socket.index);
        if !self.owners.is_empty() {
            self.note_ready(socket, &edges);
        }
        if edges.flags.contains(EdgeFlags::DEAD) {
            let block = self.begun(socket);
            let before = block.map(|block| block.set_flags(BlockFlags::FAILED));
            if before.is_some_and(|before| !before.contains(BlockFlags::FAILED)) {
                self.words.note(size_of::<u32>());
            }
        }
    }

    /// The next socket of which the process of `channel` is to be told, as there was no room
    /// before.
    pub fn next_pending(&mut self, channel: u16) -> Option<u32> {
        self.channels.end(channel)?.pending.take()
    }

    /// The process of `channel` is to be heard: whether it is to be told of sockets for
    /// which there was no room.
    pub fn has_pending(&mut self, channel: u16) -> bool {
        let Some(end) = self.channels.end(channel) else {
            return false;
        };
        end.channel.look_for_room(&self.arena);
        !end.pending.is_empty()
    }

    /// Shows the processes what is staged, and notes who is to be woken for it: whether
    /// anybody is, by [`wake`](Self::wake). The waiters of a socket are read after the fence:
    /// a sleeper that listed itself later than that finds the completions when it looks once
    /// more.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.channels.staged.is_empty() && !self.wakeups.has_any() {
            return false;
        }
        self.publish_staged()
    }

    #[inline(never)]
    fn publish_staged(&mut self) -> bool {
        let channels = &mut self.channels;
        for channel in channels.staged.drain(..) {
            if let Some(Some(end)) = channels.ends.get_mut(usize::from(channel)) {
                let published = end.channel.publish(&self.arena);
                self.meter.to_host.batch(published);
            }
        }
        if self.owners.has_due() {
            // Before the wake-ups: a call that a signal is to interrupt still sleeps.
            self.signal_owners();
        }
        Waiter::fence();
        self.wakeups.find_waiters(&self.arena);
        self.wakeups.owes_any()
    }
}
