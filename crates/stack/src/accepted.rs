//! Connections that the host has accepted: it has read their records in the listener's stream.
//!
//! A host may say of thousands at once that it has read them. The listener's queue
//! ([`AcceptQueue`](crate::accept_queue::AcceptQueue)) notes how many, and some of them are taken
//! out of it in each turn: first when the host says so, the others as the listener is flushed.
//! `admission` does so. The queues of listeners that are over are `unaccepted`'s.

use crate::request_error::RequestError;
use crate::socket::{Kind, Listening};
use crate::status::Status;
use longshore_hostif::adapter::ReceiveSlab;
use longshore_hostif::{ACCEPT_RECORD, SocketId};

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

    /// How far the host has read the records, if it has read that of connection `id`, the
    /// `number`th one, modulo 2^32; `None` if that is not among those that it has not.
    pub(crate) fn read_with(&self, id: SocketId, number: u32) -> Option<u64> {
        const RECORD: u64 = ACCEPT_RECORD as u64;
        let before = number.wrapping_sub((self.rcv_consumed / RECORD) as u32);
        let end = self.rcv_consumed + (u64::from(before) + 1) * RECORD;
        self.queue.is_behind(id, before).then_some(end)
    }

    /// Whether connections are still in the queue that the host has accepted, or some of those
    /// in line have room.
    pub(crate) fn has_accepted(&self) -> bool {
        self.queue.has_accepted() || (self.queue.has_entering() && self.listener.may_establish())
    }
}

impl Status<'_> {
    /// Whether no process can hold a connection, as nobody has read its record in the stream of
    /// its listener: a process that held the socket of its block held one that had it
    /// before.
    #[must_use]
    pub fn is_unread(self, key: u32) -> bool {
        let Some(socket) = self.endpoints.sockets.get(key) else {
            return false;
        };
        let listener = match &socket.kind {
            Kind::Stream(c) => c.listener,
            Kind::Pair(p) => p.listener,
            _ => None,
        };
        let Some(listener) = listener.and_then(|key| self.endpoints.sockets.get(key)) else {
            return false;
        };
        let (Kind::Listener(l), Some(s)) = (
            &listener.kind,
            self.endpoints.sessions.get(listener.session),
        ) else {
            return false;
        };
        // One that has ended may not have said that it has read it.
        let noted = s
            .host
            .blocks()
            .edges_noted(listener.id)
            .map_or(0, |(_, read)| read);
        let read = noted.saturating_sub(l.rcv_consumed) / ACCEPT_RECORD as u64;
        l.queue.is_unread(socket.id, read as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accept_queue::AcceptQueue;
    use crate::audience::Audience;
    use longshore_hostif::Geometry;
    use longshore_hostif::adapter::{AdapterSession, ReceiveStream};
    use longshore_ring::EventfdSignaler;
    use longshore_tcp::{FastOpenQueue, Listener};
    use std::sync::Arc;

    /// A listener with so many records that nobody has read, and its session.
    fn listening(records: u32) -> (Listening, AdapterSession) {
        let geometry = Geometry {
            channels: 64,
            waiters: 8,
            sockets: 64,
            snd_chunks: 8,
            rcv_chunks: 4,
            workers: 1,
        };
        let signaler = Arc::new(EventfdSignaler::for_one());
        let mut host = AdapterSession::create(geometry, signaler).unwrap();
        let (mut rcv, mut queue) = (ReceiveStream::EMPTY, AcceptQueue::default());
        // One more than the backlog waits, as on Linux.
        let mut listener = Listener::new(records - 1);
        for index in 0..records {
            let at = u64::from(index) * ACCEPT_RECORD as u64;
            let record = [0; ACCEPT_RECORD];
            rcv.place(0, at, &record, &mut host.receive, 1).unwrap();
            let generation = 1;
            queue.push(SocketId { index, generation });
            listener.on_waiting();
        }
        let listening = Listening {
            listener,
            fast_open: FastOpenQueue::new(),
            rcv,
            rcv_edge: u64::from(records) * ACCEPT_RECORD as u64,
            rcv_consumed: 0,
            queue,
            half_open: 0,
            audience: Audience::new(),
            shut: false,
        };
        (listening, host)
    }

    #[test]
    fn records_that_there_are_not_cannot_have_been_read() {
        let (mut l, mut host) = listening(2);
        let record = ACCEPT_RECORD as u64;
        for consumed in [1, record - 1, record + 1, 3 * record, u64::MAX, 1 << 63] {
            let read = l.take_records_read(consumed, Some(1), &mut host.receive);
            assert_eq!(read, Err(RequestError::BadEdge), "{consumed}");
            assert_eq!((l.rcv_consumed, l.queue.len()), (0, 2));
        }
        assert!(!l.has_accepted() && !l.audience.has_acceptor());
    }

    #[test]
    fn each_record_is_read_once_and_the_last_chunk_is_given_back_where_few_are_left() {
        let (mut l, mut host) = listening(3);
        let record = ACCEPT_RECORD as u64;
        assert!(!l.listener.may_establish(), "its queue is full");
        // As told by a process that was overtaken, or that has not read any.
        for (consumed, left) in [(0, 3), (2 * record, 1), (record, 1), (2 * record, 1)] {
            let read = l.take_records_read(consumed, Some(5), &mut host.receive);
            assert_eq!((read, l.queue.len()), (Ok(()), left));
            assert_eq!(l.audience.has_acceptor(), left == 1);
        }
        assert!(l.has_accepted() && l.listener.may_establish());
        assert_eq!((l.rcv_consumed, host.receive.in_use()), (2 * record, 1));
        let read = l.take_records_read(3 * record, None, &mut host.receive);
        assert_eq!((read, l.queue.len()), (Ok(()), 0));
        assert_eq!(
            host.receive.in_use(),
            0,
            "a quarter of all chunks was its own"
        );
        let taken = std::iter::from_fn(|| l.queue.pop_accepted());
        let taken: Vec<_> = taken.map(|(id, by)| (id.index, by)).collect();
        assert_eq!(taken, [(0, None), (1, None), (2, None)]);
        assert!(!l.has_accepted());
    }

    /// Sockets of our own in line have their turn as soon as there is room.
    #[test]
    fn those_in_line_have_their_turn_when_there_is_room() {
        let (mut l, mut host) = listening(1);
        l.queue.push_entering(9);
        assert!(!l.has_accepted(), "there is none");
        let record = ACCEPT_RECORD as u64;
        assert!(l.take_records_read(record, None, &mut host.receive).is_ok());
        assert_eq!(l.queue.pop_accepted().map(|(id, _)| id.index), Some(0));
        assert!(l.has_accepted());
        assert_eq!(l.queue.pop_entering(), Some(9));
        assert!(!l.has_accepted());
    }
}
