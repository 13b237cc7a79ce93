//! Getting requests: what more than one part of a session has to do with. The engine's intake
//! calls it.

use super::AdapterSession;
use super::batching::{BatchedCompletions, Batching};
use super::channels::{Next, UnderWay};
use super::due::{Delays, Due};

impl AdapterSession {
    /// A process has `channel` from now on, whose rings are empty. Nothing happens if there is
    /// no such channel.
    pub fn open_channel(&mut self, channel: u16) {
        self.receive.begin_epoch(channel);
        self.channels.open(channel);
    }

    /// No process has `channel` any more.
    pub fn close_channel(&mut self, channel: u16) {
        // Its rings are the next one's.
        self.send.round += 1;
        self.receive.begin_epoch(channel);
        self.channels.close(channel);
    }

    /// Descriptors of this session cross in fixed batches from now on.
    pub fn set_batching(&mut self, fixed: Batching) {
        self.pending.batch(fixed);
        let count = self.meter.to_host.descriptors.count;
        self.batched = Some(Box::new(BatchedCompletions::new(fixed, count)));
    }

    /// When its requests are to be fetched, at `now`, in the engine's microseconds.
    #[inline]
    #[must_use]
    pub fn requests_due(&mut self, now: u64, delays: Delays) -> Due {
        let channels = &self.channels;
        let waiting = |pending: &_, most| channels.waiting(pending, most);
        self.pending.due(now, delays, waiting)
    }

    /// Whether there are requests that wait for nothing else, as is asked before a sleep:
    /// ordered after [`declare_asleep`](super::PendingRequests::declare_asleep).
    #[must_use]
    pub fn still_has_requests(&self) -> bool {
        let waiting = |pending: &_, most| self.channels.waiting(pending, most);
        self.pending.still_has_any(waiting)
    }

    /// Takes the next request of a channel, if there is room for `room` completions beside the
    /// answers that are owed.
    #[inline]
    pub fn next_request(&mut self, channel: u16, room: u32) -> Next {
        let round = self.send.round;
        self.channels
            .next(channel, Some(room), round, &mut self.meter)
    }

    /// As [`next_request`](Self::next_request), of a process that takes no answers any more: for
    /// those there need be no room.
    pub fn last_request(&mut self, channel: u16) -> Next {
        let round = self.send.round;
        self.channels.next(channel, None, round, &mut self.meter)
    }

    /// Gives the places of requests that were taken back to the hosts, which know by this that
    /// whatever they led to can be seen; for that, those of later turns are kept where something
    /// is `under_way`. Says whether places are still to be given back.
    #[inline]
    pub fn release_requests(&mut self, under_way: UnderWay) -> bool {
        self.channels.has_taken() && self.channels.release(under_way, &mut self.send.round)
    }
}
