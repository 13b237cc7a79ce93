//! Putting completions into channels, and publishing them in batches.
//!
//! Methods of [`AdapterSession`] that the stack calls as it settles its sockets; the loop publishes
//! at the end of a turn.

use super::{AdapterSession, Placed, ReceiveStream, Subscribers};
use crate::abi::{BlockFlags, Completion, DATA_SINCE, EdgeFlags, Edges, SocketId};
use crate::meter::Descriptors;
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
            Ok(crossed) => {
                if let Completion::Done { socket, .. } = answer {
                    self.count_completion(*socket, &crossed);
                }
                self.channels.stage(channel);
            }
            Err(_) => self.bad_descriptors += 1,
        }
    }

    /// Counts what was staged about a socket.
    #[inline]
    fn count_completion(&mut self, socket: SocketId, crossed: &Descriptors) {
        self.meter.to_host.descriptors.add(crossed);
        if let Some(row) = self.by_socket.of(socket) {
            row.to_host.add(crossed);
        }
    }

    /// Stages where a socket's edges are for one channel; whether there was room. If there
    /// was none the socket is noted, and the process told that there is more: it lets us
    /// know when it has made room, and is told then where they are by that time.
    #[inline(never)]
    pub fn put_edges(&mut self, channel: u16, socket: SocketId, edges: &Edges) -> bool {
        self.stage_edges(channel, socket, edges)
    }

    /// As `put_edges`, in place, for the one process that has most sockets: the call and its
    /// registers are 20 of the 140 instructions of telling it.
    #[inline(always)]
    fn stage_edges(&mut self, channel: u16, socket: SocketId, edges: &Edges) -> bool {
        let Some(end) = self.channels.end(channel) else {
            return true;
        };
        match end.channel.put_edges(&self.arena, socket, edges) {
            Ok(crossed) => {
                self.channels.stage(channel);
                self.count_completion(socket, &crossed);
                true
            }
            Err(PutError::Full) => {
                self.tell_later(channel, socket);
                false
            }
            // The process broke its own ring; it is told nothing more.
            Err(PutError::Corrupt(_) | PutError::NoWorker(_)) => {
                self.bad_descriptors += 1;
                true
            }
        }
    }

    /// There was no room to tell a channel of a socket: it is told that there is more.
    #[cold]
    fn tell_later(&mut self, channel: u16, socket: SocketId) {
        let sockets = self.arena.geometry().sockets;
        let Some(end) = self.channels.end(channel) else {
            return;
        };
        end.pending.insert(socket.index, sockets as usize);
        let more = end.channel.say_more(&self.arena);
        self.channels.put_off += 1;
        match more {
            Ok(Some(crossed)) => {
                self.channels.stage(channel);
                self.count_completion(socket, &crossed);
            }
            Ok(None) => {}
            Err(_) => self.bad_descriptors += 1,
        }
    }

    /// Stages where `socket`'s edges are for all who subscribed to it, and notes that those
    /// that wait for it are to be woken. That it is dead is said in its block, too: a program
    /// that only writes has no cause to look at what it is told.
    pub fn put_edges_to(&mut self, to: &Subscribers, socket: SocketId, edges: Edges) {
        match to.single() {
            Some(channel) => {
                self.stage_edges(channel, socket, &edges);
            }
            None => self.put_edges_to_several(to, socket, &edges),
        }
        self.note_edges(socket, &edges);
        if edges.flags.contains(EdgeFlags::DEAD) {
            self.note_dead(socket);
        }
    }

    #[cold]
    fn note_dead(&mut self, socket: SocketId) {
        let block = self.begun(socket);
        let before = block.map(|block| block.set_flags(BlockFlags::FAILED));
        if before.is_some_and(|before| !before.contains(BlockFlags::FAILED)) {
            self.note_word(socket.index, size_of::<u32>());
        }
    }

    #[inline(never)]
    fn put_edges_to_several(&mut self, to: &Subscribers, socket: SocketId, edges: &Edges) {
        for channel in to.iter() {
            self.put_edges(channel, socket, edges);
        }
    }

    /// Those that wait for a socket are to be woken, and its owner to be told, for where its
    /// edges are now.
    #[inline]
    pub fn note_edges(&mut self, socket: SocketId, edges: &Edges) {
        self.wakeups.note_socket(socket.index);
        if !self.owners.is_empty() {
            self.note_ready(socket, edges);
        }
    }

    /// As `note_edges`, for a socket whose receive stream is `stream`: what that holds goes with
    /// the edges, if one process alone is to be told, and is placed otherwise. Says what was
    /// placed.
    #[inline]
    pub fn put_stream_to(
        &mut self,
        stream: &mut ReceiveStream,
        to: &Subscribers,
        socket: SocketId,
        edges: Edges,
    ) -> Placed {
        if !stream.has_short() {
            self.put_edges_to(to, socket, edges);
            return Placed::default();
        }
        self.put_short_to(stream, to, socket, edges)
    }

    #[inline(never)]
    fn put_short_to(
        &mut self,
        stream: &mut ReceiveStream,
        to: &Subscribers,
        socket: SocketId,
        edges: Edges,
    ) -> Placed {
        if let Some(channel) = to.single()
            && self.put_data(channel, stream, socket, &edges)
        {
            self.note_edges(socket, &edges);
            return Placed::default();
        }
        let placed = if to.is_empty() {
            Placed::default()
        } else {
            self.place_short(stream, to.single())
        };
        self.put_edges_to(to, socket, edges);
        placed
    }

    /// Places what a stream holds, and what was told in a descriptor to another process than
    /// `to`, the only one that is about to be told of its edges if there is just one. Says
    /// what was placed.
    pub fn place_short(&mut self, stream: &mut ReceiveStream, to: Option<u16>) -> Placed {
        let placed = stream.reveal(to, &mut self.receive);
        self.meter.to_host.payload.add(&placed.into());
        placed
    }

    /// Stages where a socket's edges are together with what its stream holds, for one channel;
    /// whether that can be told so, and there was room.
    fn put_data(
        &mut self,
        channel: u16,
        stream: &mut ReceiveStream,
        socket: SocketId,
        edges: &Edges,
    ) -> bool {
        let slab = &self.receive;
        if self.arena.agreed().version < DATA_SINCE || slab.epochs.withholds(channel) {
            return false;
        }
        let (Some(end), Some((data, payload))) =
            (self.channels.end(channel), stream.data(socket, edges, slab))
        else {
            return false;
        };
        let Ok((number, crossed)) = end.channel.put_data(&self.arena, &data, payload) else {
            return false;
        };
        self.count_completion(socket, &crossed);
        let told = self.receive.epochs.told(channel, number);
        stream.note_told(told, &mut self.receive);
        self.channels.stage(channel);
        true
    }

    /// The next socket of which the process of `channel` is to be told, as there was no room
    /// before.
    pub fn next_pending(&mut self, channel: u16) -> Option<u32> {
        self.channels.end(channel)?.pending.take()
    }

    /// Requests of the process of `channel` are being taken: whether it is to be told of sockets for
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

    #[inline]
    fn publish_staged(&mut self) -> bool {
        let channels = &mut self.channels;
        for channel in &channels.staged {
            if let Some(Some(end)) = channels.ends.get_mut(usize::from(*channel)) {
                end.is_staged = false;
                end.channel.publish(&self.arena);
            }
        }
        channels.staged.clear();
        if self.owners.has_due() {
            // Before the wake-ups: a call that a signal is to interrupt still sleeps.
            self.signal_owners();
        }
        Waiter::fence();
        self.wakeups.find_waiters(&self.arena);
        self.wakeups.owes_any()
    }
}

#[cfg(test)]
mod tests;
