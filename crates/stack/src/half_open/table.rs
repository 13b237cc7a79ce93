//! The table of half-open connections: a record of each, the queues of their listeners, and
//! their deadlines.
//!
//! Owns [`HalfOpens`]. `handshake` does what segments and timers ask for, and `containment` makes the lists
//! anew after a panic.

use super::on_data::OnData;
use crate::account::SocketShare;
use crate::demux::Flow;
use crate::slab::Slab;
use crate::timers::{Alarm, Wheel};
use longshore_tcp::Instant;
use std::collections::VecDeque;

/// A half-open connection.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub(crate) record: longshore_tcp::HalfOpen,
    pub(crate) flow: Flow,
    /// The queue that it is in, and where.
    pub(super) queue: u32,
    pub(super) place: u32,
    /// Counts it among the sockets of its user.
    pub(crate) share: Option<SocketShare>,
    pub(super) on_data: OnData,
    pub(crate) alarm: Alarm,
}

impl HalfOpen {
    /// One of a listener's `queue`, of which this is kept. `share` counts it among the sockets of
    /// its user.
    pub(crate) fn new(
        record: longshore_tcp::HalfOpen,
        flow: Flow,
        queue: u32,
        share: Option<SocketShare>,
    ) -> Self {
        Self {
            record,
            flow,
            queue,
            place: 0,
            share,
            on_data: OnData::NotYet,
            alarm: Alarm::OFF,
        }
    }

    /// Until when what completes it is put aside, if it is.
    pub(crate) fn is_held_until(&self) -> Option<Instant> {
        self.on_data.until()
    }

    /// When there is something to do for it though nothing comes.
    pub(super) fn deadline(&self) -> Instant {
        self.on_data.until().unwrap_or(self.record.retransmit_at())
    }
}

/// The half-open connections of one listener.
#[derive(Debug)]
struct Queue {
    /// None once it is over, and they are to be reset.
    listener: Option<u32>,
    keys: Vec<u32>,
}

/// All half-open connections, with their deadlines.
pub(crate) struct HalfOpens {
    pub(super) slab: Slab<HalfOpen>,
    queues: Slab<Queue>,
    /// Queues whose listeners are over.
    given_up: VecDeque<u32>,
    pub(super) wheel: Wheel<u32>,
    /// Those whose deadlines are being looked at; kept for its memory.
    due: Vec<u32>,
}

impl HalfOpens {
    /// None yet; deadlines count from `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slab: Slab::new(),
            queues: Slab::new(),
            given_up: VecDeque::new(),
            wheel: Wheel::new(now),
            due: Vec::new(),
        }
    }

    /// An empty queue for this listener; its key.
    pub(crate) fn begin_queue(&mut self, listener: u32) -> u32 {
        let keys = Vec::new();
        self.queues.insert(Queue {
            listener: Some(listener),
            keys,
        })
    }

    /// The connections in a queue.
    pub(crate) fn in_queue(&self, queue: u32) -> &[u32] {
        self.queues.get(queue).map_or(&[], |queue| &queue.keys)
    }

    /// The listener of a half-open connection, unless it is over.
    pub(crate) fn listener_of(&self, half: &HalfOpen) -> Option<u32> {
        self.queues.get(half.queue)?.listener
    }

    /// Whether the listener of a half-open connection is over.
    pub(crate) fn is_given_up(&self, key: u32) -> bool {
        let half = self.slab.get(key);
        half.is_some_and(|half| self.listener_of(half).is_none())
    }

    /// Whether some are to be reset as their listeners are over.
    #[inline]
    pub(crate) fn are_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// The listener of a queue is over.
    pub(super) fn give_up(&mut self, queue: u32) {
        if let Some(q) = self.queues.get_mut(queue)
            && q.listener.take().is_some()
        {
            self.given_up.push_back(queue);
        }
    }

    /// One of those that are to be reset.
    pub(crate) fn next_given_up(&mut self) -> Option<u32> {
        while let Some(queue) = self.given_up.front().copied() {
            // From the end, where none has to move up.
            if let Some(last) = self.queues.get(queue).and_then(|q| q.keys.last()) {
                return Some(*last);
            }
            self.queues.remove(queue);
            self.given_up.pop_front();
        }
        None
    }

    /// Takes one out, of the table and of its queue.
    pub(crate) fn remove(&mut self, key: u32) -> Option<HalfOpen> {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::half_open_goes();
        let half = self.slab.remove(key)?;
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::half_open_goes();
        let keys = &mut self.queues.get_mut(half.queue)?.keys;
        keys.swap_remove(half.place as usize);
        if let Some(moved) = keys.get(half.place as usize)
            && let Some(moved) = self.slab.get_mut(*moved)
        {
            moved.place = half.place;
        }
        Some(half)
    }

    pub(crate) fn get(&self, key: u32) -> Option<&HalfOpen> {
        self.slab.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &HalfOpen)> {
        self.slab.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first deadline, or one before it.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        self.wheel.next()
    }

    /// Adds one. The wheel stands still while there is none, and what it then still names
    /// is gone.
    pub(crate) fn insert(&mut self, half: HalfOpen, now: Instant) -> Option<u32> {
        if self.is_empty() {
            self.wheel.advance(now, &mut self.due);
            self.due.clear();
        }
        let keys = &mut self.queues.get_mut(half.queue)?.keys;
        let place = keys.len() as u32;
        let key = self.slab.insert(HalfOpen { place, ..half });
        keys.push(key);
        Some(key)
    }

    /// What was done for a connection has left it so.
    pub(crate) fn keep(&mut self, key: u32, record: longshore_tcp::HalfOpen) {
        if let Some(half) = self.slab.get_mut(key) {
            half.record = record;
            let deadline = half.deadline();
            self.wheel.set(&mut half.alarm, key, deadline);
        }
    }

    /// Takes the keys of those whose timers may have gone off; [`keep_due`](Self::keep_due) has
    /// the memory back.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<u32> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(now, &mut due);
        due
    }

    /// Keeps memory for keys, which is empty.
    pub(crate) fn keep_due(&mut self, due: Vec<u32>) {
        self.due = due;
    }

    /// Whether the timer of a connection that the wheel has named has gone off.
    pub(crate) fn is_due(&mut self, key: u32, now: Instant) -> bool {
        let half = self.slab.get_mut(key);
        half.is_some_and(|half| self.wheel.is_due(&mut half.alarm, key, now))
    }

    /// The keys of all.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.slab.keys()
    }

    /// Takes a connection out of the table, though queues and timers still name it: they are
    /// made anew.
    pub(crate) fn drop_unlisted(&mut self, key: u32) {
        self.slab.remove(key);
    }

    /// Queues and timers without any connection, which is put there by
    /// [`list_anew`](Self::list_anew).
    pub(crate) fn begin_lists_anew(&mut self, now: Instant) {
        self.wheel = Wheel::new(now);
        for (_, queue) in self.queues.iter_mut_with_keys() {
            queue.keys.clear();
        }
    }

    /// A connection is in its queue, and its timer set.
    pub(crate) fn list_anew(&mut self, key: u32) {
        let Some(half) = self.slab.get_mut(key) else {
            return;
        };
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::lists_half_open_anew();
        half.alarm = Alarm::OFF;
        let deadline = half.deadline();
        self.wheel.set(&mut half.alarm, key, deadline);
        if let Some(queue) = self.queues.get_mut(half.queue) {
            half.place = queue.keys.len() as u32;
            queue.keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listeners come and go, and leave no queue.
    #[test]
    fn a_queue_is_gone_when_nothing_of_it_is_to_be_reset() {
        let mut all = HalfOpens::new(Instant(1));
        let first = all.begin_queue(7);
        let second = all.begin_queue(8);
        all.give_up(first);
        assert!(all.are_given_up());
        assert_eq!(all.next_given_up(), None);
        assert!(!all.are_given_up());
        assert_eq!((all.queues.len(), all.begin_queue(9)), (1, first));
        assert_ne!(first, second);
    }
}
