//! Connections that the host has accepted: it has read their records in the listener's stream.
//!
//! A host may say of thousands at once that it has read them. The listener's queue
//! ([`AcceptQueue`](crate::accept_queue::AcceptQueue)) notes how many, and some of them are taken
//! out of it in each turn: first when the host says so, the others as the listener is settled.
//! Called by `requests` and `connection`; for the queues of listeners that are over, by
//! `unaccepted`.

use crate::Stack;
use crate::request_error::RequestError;
use crate::socket::{Kind, Listening};
use longshore_hostif::adapter::ReceiveSlab;
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags};

/// Connections that are taken out of a queue, and of those in line that are let in, at once.
pub(crate) const AT_ONCE: usize = 64;

impl Listening {
    /// The process of `channel`, if that still lives, has read the records up to `consumed`.
    ///
    /// # Errors
    /// [`RequestError::BadEdge`] if there are no records that end there.
    pub(crate) fn take_records_read(
        &mut self,
        consumed: u64,
        channel: Option<u16>,
        slab: &mut ReceiveSlab,
    ) -> Result<(), RequestError> {
        const RECORD: u64 = ACCEPT_RECORD as u64;
        if consumed > self.rcv_edge || !consumed.is_multiple_of(RECORD) {
            return Err(RequestError::BadEdge);
        }
        if consumed > self.rcv_consumed {
            let read = ((consumed - self.rcv_consumed) / RECORD) as usize;
            let read = read.min(self.queue.len());
            self.listener.on_accepted(read as u32);
            let acceptor = channel.filter(|_| self.audience.has_lost_one());
            let are_any = self.queue.note_read(read, acceptor);
            self.rcv_consumed = consumed;
            // While there are many, the last chunk stays, and the host need not be told of another.
            let all = consumed == self.rcv_edge && !slab.is_nearly_empty();
            self.rcv.consume(consumed, all, slab);
            if let Some(channel) = channel.filter(|_| are_any) {
                self.audience.note_acceptor(channel);
            }
        }
        if self.rcv_consumed == self.rcv_edge {
            self.audience.note_empty();
        }
        Ok(())
    }

    /// Whether connections are still in the queue that the host has accepted, or some of those
    /// in line have room.
    pub(crate) fn has_accepted(&self) -> bool {
        self.queue.has_accepted() || (self.queue.has_entering() && self.listener.may_establish())
    }
}

impl Stack {
    /// Takes some of the connections out of a listener's queue that the host has accepted, and
    /// lets those of our own in for which there is room now. The rest has its turn.
    pub(crate) fn take_accepted(&mut self, listener: u32) {
        let mut left = AT_ONCE;
        while let Some(socket) = self.sockets.get_mut(listener)
            && let Kind::Listener(l) = &mut socket.kind
            && l.queue.has_accepted()
        {
            if left == 0 {
                self.sockets.touch(listener);
                break;
            }
            left -= 1;
            let session = socket.session;
            if let Some((id, by)) = l.queue.pop_accepted()
                && let Some(key) = self.unaccepted(session, id)
            {
                self.accepted(key, by);
            }
        }
        self.let_in(listener);
    }

    /// Whether no process can hold a connection, as nobody has read its record in the stream of
    /// its listener: a process that held the socket of its block held one that had it
    /// before.
    #[must_use]
    pub fn is_unread(&self, key: u32) -> bool {
        let Some(socket) = self.sockets.get(key) else {
            return false;
        };
        let listener = match &socket.kind {
            Kind::Stream(c) => c.listener,
            Kind::Pair(p) => p.listener,
            _ => None,
        };
        let Some(listener) = listener.and_then(|key| self.sockets.get(key)) else {
            return false;
        };
        let (Kind::Listener(l), Some(s)) = (&listener.kind, self.sessions.get(listener.session))
        else {
            return false;
        };
        // One that has ended may not have said that it has read it.
        let noted = s.host.edges_noted(listener.id).map_or(0, |(_, read)| read);
        let read = noted.saturating_sub(l.rcv_consumed) / ACCEPT_RECORD as u64;
        l.queue.is_unread(socket.id, read as usize)
    }

    /// The program has a connection: it is no listener's any more. The process of `by` is given
    /// it: the one that it was given to may be gone, whose channel `by` may be itself.
    pub(crate) fn accepted(&mut self, key: u32, by: Option<u16>) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        match &mut socket.kind {
            Kind::Stream(c) => c.listener = None,
            Kind::Pair(p) => p.listener = None,
            _ => {}
        }
        let edges = socket.edges();
        if let Some(s) = self.sessions.get_mut(socket.session) {
            if let Some(channel) = by {
                socket.subscribers.add(channel);
                socket.tell_one(&mut s.host, channel, edges);
                s.host.wake_for(socket.id.index);
                socket.note_told(self.now);
            }
            // What could not be said in a block that was not begun.
            if edges.flags.contains(EdgeFlags::DEAD) {
                socket.tell(&mut s.host, edges);
            }
            if socket.errors.is_some() {
                s.host.set_error(socket.id, 0, socket.kept_errors());
            }
        }
        self.apply_receive_buffer(key);
    }
}
