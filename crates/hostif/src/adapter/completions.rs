//! Putting completions into channels, and publishing them in batches.
//!
//! Methods of [`AdapterSession`] that the stack calls as it settles its sockets, and that more
//! than one of its parts takes part in; the loop publishes at the end of a turn.

use super::{AdapterSession, Placed, ReceiveStream, Subscribers};
use crate::abi::{BlockFlags, Completion, DATA_SINCE, EdgeFlags, Edges, SocketId};
use longshore_ring::Waiter;

impl AdapterSession {
    /// Stages an answer for one channel. There is room for it, unless the process does
    /// what none of ours does, and has itself to blame.
    pub fn put_answer(&mut self, channel: u16, answer: &Completion) {
        self.channels.put_answer(channel, answer, &mut self.meter);
    }

    /// Writes an answer to the mailbox of a channel; what does not fit is cut off. Returns
    /// how many bytes were written.
    #[must_use]
    pub fn write_mailbox(&self, channel: u16, bytes: &[u8]) -> usize {
        let ring = self.channels.ring(channel);
        let written = self.arena.control(ring).write_mailbox(bytes);
        self.meter.note_words(written);
        written
    }

    /// Stages where a socket's edges are for one channel; whether there was room. If there
    /// was none the socket is noted, and the process told that there is more: it lets us
    /// know when it has made room, and is told then where they are by that time.
    #[inline(never)]
    pub fn put_edges(&mut self, channel: u16, socket: SocketId, edges: &Edges) -> bool {
        let meter = &mut self.meter;
        self.channels.put_edges(channel, socket, edges, meter)
    }

    /// Stages where `socket`'s edges are for all who subscribed to it, and notes that those
    /// that wait for it are to be woken. That it is dead is said in its block, too: a program
    /// that only writes has no cause to look at what it is told.
    pub fn put_edges_to(&mut self, to: &Subscribers, socket: SocketId, edges: Edges) {
        match to.single() {
            Some(channel) => {
                let meter = &mut self.meter;
                self.channels.put_edges(channel, socket, &edges, meter);
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
        let block = self.blocks().begun(socket);
        let before = block.map(|block| block.set_flags(BlockFlags::FAILED));
        if before.is_some_and(|before| !before.contains(BlockFlags::FAILED)) {
            self.meter.note_word(socket.index, size_of::<u32>());
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
            self.owners().note_ready(socket, edges);
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
        let Some((data, payload)) = stream.data(socket, edges, slab) else {
            return false;
        };
        let meter = &mut self.meter;
        let Some(number) = self.channels.put_data(channel, &data, payload, meter) else {
            return false;
        };
        let reported = self.receive.epochs.reported(channel, number);
        stream.note_reported(reported, &mut self.receive);
        true
    }

    /// Until when completions that are staged wait for others, in the engine's microseconds, at
    /// `now`; `None` if they are to be [published](Self::publish).
    #[inline]
    pub fn completions_held_until(&mut self, now: u64) -> Option<u64> {
        let batched = self.batched.as_mut()?;
        batched.held_until(now, self.meter.to_host.descriptors.count)
    }

    /// Whether completions are held, and the threads that are to be woken for them sleep on.
    #[inline]
    pub(super) fn holds_completions(&self) -> bool {
        let batched = self.batched.as_ref();
        batched.is_some_and(|batched| batched.holds_any())
    }

    /// Shows the processes what is staged, and notes who is to be woken for it: whether
    /// anybody is, by [`wake`](Self::wake). The waiters of a socket are read after the fence:
    /// a sleeper that listed itself later than that finds the completions when it looks once
    /// more.
    #[inline]
    pub fn publish(&mut self) -> bool {
        if !self.channels.has_staged() && !self.wakeups.has_any() {
            return false;
        }
        self.publish_staged()
    }

    #[inline]
    fn publish_staged(&mut self) -> bool {
        self.channels.publish();
        if self.owners.has_due() {
            // Before the wake-ups: a call that a signal is to interrupt still sleeps.
            self.owners().signal();
        }
        Waiter::fence();
        self.wakeups.find_waiters();
        self.wakeups.owes_any()
    }
}

#[cfg(test)]
mod tests;
