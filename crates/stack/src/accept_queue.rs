//! The connections that wait to be accepted from one listener, which owns its queue.
//!
//! `passive` and `pair` put them in, requests take them out; `unaccepted` has what becomes
//! of them when the listener is over.

use longshore_hostif::SocketId;
use std::collections::VecDeque;

/// Those that wait for a listener's host, oldest first.
#[derive(Debug, Default)]
pub(crate) struct AcceptQueue {
    /// Records that the host has not read of connections that were reset when the listener
    /// was shut down. They stand before those of all others.
    reset: usize,
    /// Connections behind the records not yet read, and before them those of `read`. Not by
    /// their keys: a host may close one before it says that it has accepted it, and its key is
    /// another socket's then.
    waiting: VecDeque<SocketId>,
    /// How many of them the host has accepted, and who is to be given them.
    read: VecDeque<Read>,
    /// How many that are, all together.
    accepted: usize,
    /// Our own sockets that wait for room in the queue, by their keys, which may be others'
    /// by now.
    line: VecDeque<u32>,
}

/// Connections that the host has accepted, one after the other.
#[derive(Debug)]
struct Read {
    count: usize,
    /// The process that has read of them, where it may have to be told of some.
    by: Option<u16>,
}

impl AcceptQueue {
    /// How many records the host has not read.
    pub(crate) fn len(&self) -> usize {
        self.reset + self.waiting.len() - self.accepted
    }

    /// Whether the host has read all records.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A connection for which there is a record from now on.
    pub(crate) fn push(&mut self, id: SocketId) {
        self.waiting.push_back(id);
    }

    /// The host has read so many records, of which there are no more than it has: `by` is the process that
    /// has, if that is to be given the connections. Whether there are connections behind them.
    pub(crate) fn note_read(&mut self, records: usize, by: Option<u16>) -> bool {
        let reset = records.min(self.reset);
        self.reset -= reset;
        let count = (records - reset).min(self.waiting.len() - self.accepted);
        self.accepted += count;
        match self.read.back_mut() {
            Some(last) if last.by == by => last.count += count,
            _ if count != 0 => self.read.push_back(Read { count, by }),
            _ => {}
        }
        count != 0
    }

    /// Whether connections that the host has accepted are still in the queue.
    pub(crate) fn has_accepted(&self) -> bool {
        self.accepted != 0
    }

    /// The oldest of those that the host has accepted, and the process that is to be given it.
    pub(crate) fn pop_accepted(&mut self) -> Option<(SocketId, Option<u16>)> {
        let read = self.read.front_mut()?;
        let by = read.by;
        read.count -= 1;
        if read.count == 0 {
            self.read.pop_front();
        }
        self.accepted -= 1;
        Some((self.waiting.pop_front()?, by))
    }

    /// Whether this connection waits, and stands behind so many records that the host has read
    /// besides those it has said.
    pub(crate) fn is_unread(&self, id: SocketId, read: usize) -> bool {
        let read = self.accepted + read.saturating_sub(self.reset);
        self.waiting.iter().skip(read).any(|waiting| *waiting == id)
    }

    /// Whether of the records that the host has not read the one behind so many others is that
    /// of this connection.
    pub(crate) fn is_behind(&self, id: SocketId, others: u32) -> bool {
        let at = (others as usize).checked_sub(self.reset);
        let place = at.and_then(|at| self.waiting.get(self.accepted + at));
        place == Some(&id)
    }

    /// One of our own sockets waits for room.
    pub(crate) fn push_entering(&mut self, key: u32) {
        self.line.push_back(key);
    }

    /// Whether any of our own sockets waits for room.
    pub(crate) fn has_entering(&self) -> bool {
        !self.line.is_empty()
    }

    /// The first that waits for room waits no longer.
    pub(crate) fn pop_entering(&mut self) -> Option<u32> {
        self.line.pop_front()
    }

    /// Gives up all that wait, here and in line. The host may still read their records, where
    /// it finds that they name nothing any more.
    pub(crate) fn give_up(&mut self) -> Self {
        let reset = self.len();
        std::mem::replace(
            self,
            Self {
                reset,
                ..Self::default()
            },
        )
    }

    /// The oldest of those that wait waits no longer; none that was accepted is before it.
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        self.waiting.pop_front()
    }

    /// Forgets all that have records, and keeps those in line.
    pub(crate) fn forget_waiting(&mut self) {
        *self = Self {
            line: std::mem::take(&mut self.line),
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(index: u32) -> SocketId {
        SocketId {
            index,
            generation: 1,
        }
    }

    /// What may happen to a queue.
    #[derive(Debug, Clone)]
    enum Step {
        Push,
        Read(usize, Option<u16>),
        Pop,
        GiveUp,
    }

    fn step() -> impl Strategy<Value = Step> {
        let by = prop_oneof![Just(None), (0u16..2).prop_map(Some)];
        prop_oneof![
            4 => Just(Step::Push),
            3 => (0usize..4, by).prop_map(|(count, by)| Step::Read(count, by)),
            2 => Just(Step::Pop),
            1 => Just(Step::GiveUp),
        ]
    }

    proptest! {
        /// Beside a list of all records: what was given up, and who has read each.
        #[test]
        fn records_are_read_in_order_and_their_connections_given_to_who_has_read_them(
            steps in proptest::collection::vec(step(), 0..80))
        {
            let (mut queue, mut next) = (AcceptQueue::default(), 0);
            // Records that nobody has read, none where the connection is gone; and those that
            // were read.
            let (mut unread, mut read) = (VecDeque::new(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Push => {
                        queue.push(id(next));
                        unread.push_back(Some(id(next)));
                        next += 1;
                    }
                    Step::Read(count, by) => {
                        let count = count.min(queue.len());
                        let records: Vec<_> = unread.drain(..count).flatten().collect();
                        prop_assert_eq!(queue.note_read(count, by), !records.is_empty());
                        read.extend(records.into_iter().map(|id| (id, by)));
                    }
                    Step::Pop => prop_assert_eq!(queue.pop_accepted(), read.pop_front()),
                    Step::GiveUp => {
                        let mut gone = queue.give_up();
                        for expected in read.drain(..) {
                            prop_assert_eq!(gone.pop_accepted(), Some(expected));
                        }
                        for record in &mut unread {
                            if let Some(id) = record.take() {
                                prop_assert_eq!(gone.pop(), Some(id));
                            }
                        }
                        prop_assert_eq!(gone.pop(), None);
                    }
                }
                prop_assert_eq!(queue.len(), unread.len());
                prop_assert_eq!(queue.is_empty(), unread.is_empty());
                prop_assert_eq!(queue.has_accepted(), !read.is_empty());
                for (said, record) in unread.iter().enumerate() {
                    if let Some(id) = record {
                        prop_assert!(queue.is_unread(*id, said) && !queue.is_unread(*id, said + 1));
                        let at = said as u32;
                        prop_assert!(queue.is_behind(*id, at) && !queue.is_behind(*id, at + 1));
                        prop_assert!(at == 0 || !queue.is_behind(*id, at - 1));
                    }
                }
                prop_assert!(read.iter().all(|(id, _)| !queue.is_unread(*id, 0)));
            }
        }
    }

    #[test]
    fn what_waits_for_room_outlives_what_has_records() {
        let mut queue = AcceptQueue::default();
        queue.push(id(1));
        queue.push(id(2));
        queue.push_entering(7);
        assert!(queue.note_read(1, None) && queue.has_entering());
        queue.forget_waiting();
        assert!(queue.is_empty() && !queue.has_accepted() && queue.pop().is_none());
        assert_eq!(queue.pop_entering(), Some(7));
        assert!(!queue.has_entering() && queue.pop_entering().is_none());
    }
}
