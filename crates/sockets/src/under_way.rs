//! What is on its way from one socket of the engine to another: once `send` or `close` has
//! returned, Linux shows it to the next call on the other end. Here the engine has to have
//! passed it on first, for which a call that would find nothing gives it a moment.
//!
//! A call waits only if something is under way: of a connection within the engine each end
//! sees how far the other has written, and for the rest each process says in its channel what
//! it has sent to an address of the engine, of which the engine says whether it has handled it.

use crate::host::Host;
use crate::pause::pause;
use longshore_hostif::{Query, Request, SocketId};
use longshore_ring::is_confined;
use std::iter;
use std::time::{Duration, Instant};

/// How long what is under way is waited for: an engine that has the processor takes a few
/// microseconds, and one that shares it with others has it again within some of the scheduler's
/// slices.
pub(crate) const LONGEST: Duration = Duration::from_millis(200);
/// How long a signal that is being raised is waited for: it comes as soon as the engine has
/// the processor, if that is not held up for good.
const LONGEST_RAISED: Duration = Duration::from_secs(1);
/// How long the engine may take to take note of a socket that was opened.
const LONGEST_OPENED: Duration = Duration::from_secs(1);
/// Looks that only give way, before those with a pause.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(20);

/// Gives the engine the processor until `is_over`, for `longest`; says whether it came to be.
pub(crate) fn wait_until(longest: Duration, is_over: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    for look in 0.. {
        if is_over() {
            return true;
        }
        if look < LOOKS {
            rustix::thread::sched_yield();
        } else if began.elapsed() < longest {
            pause(PAUSE);
        } else {
            break;
        }
    }
    false
}

/// What a process has sent to sockets of its engine, or done to them, and the engine may not have
/// passed on yet.
#[derive(Debug, Clone, Copy)]
pub struct UnderWay {
    host: &'static Host,
}

impl Host {
    /// What is under way from the processes of its session.
    #[inline]
    pub fn under_way(&'static self) -> UnderWay {
        UnderWay { host: self }
    }
}

impl UnderWay {
    /// What was published last goes to another socket of the engine.
    pub(crate) fn note(self) {
        for ring in self.host.own_rings() {
            self.host.session.under_way().note(ring);
        }
    }

    /// Waits until the engine has passed on what the processes of this session have sent to
    /// others of its sockets by now, if it has not; whether it is worth looking again: what was
    /// passed on since the last look is, too. Of what comes from another session of the engine,
    /// nothing is known here.
    #[inline]
    pub fn wait(self) -> bool {
        self.host.session.under_way().are_any() && self.wait_noted()
    }

    #[cold]
    fn wait_noted(self) -> bool {
        let mut all = self.host.session.under_way().unhandled();
        match all.next() {
            Some(first) => self.wait_for_each(first, all),
            None => {
                self.host.messages().catch_up();
                true
            }
        }
    }

    #[cold]
    fn wait_for_each(self, first: (u32, u32), others: impl Iterator<Item = (u32, u32)>) -> bool {
        if is_confined() || self.host.is_gone() {
            return false;
        }
        self.host.messages().end_turn();
        self.host.session.hurry_all(self.host.channel.doorbell());
        let began = Instant::now();
        for (ring, number) in iter::once(first).chain(others) {
            let has_come = || self.host.session.has_handled(ring, number);
            if !wait_until(LONGEST.saturating_sub(began.elapsed()), has_come) {
                // Once is enough.
                self.host.session.under_way().forget(ring, number);
            }
        }
        self.host.messages().catch_up();
        true
    }

    /// Waits until the engine knows all that it must know of this process's sockets before another
    /// process gets some of them.
    pub(crate) fn await_before_giving(self) {
        self.await_forwarded();
        self.await_opened();
    }

    /// Waits until the engine has taken what was forwarded. Another process that has the sockets
    /// asks over a channel of its own, at which the engine may look first: what it reads of the
    /// one, or writes to the other, comes behind.
    fn await_forwarded(self) {
        let Some(socket) = self.host.in_flight.take_forwarded() else {
            return;
        };
        if self.host.is_gone() {
            return;
        }
        // There is one mailbox, though nobody reads this answer.
        if let Ok(_alone) = self.host.query.enter() {
            let _ = self.host.messages().call(|tag, waiter| Request::Query {
                socket,
                tag,
                waiter,
                query: Query::SendQueue,
            });
        }
    }

    /// A socket was opened, and the engine is told of it by what was published last.
    pub(crate) fn note_opened(self) {
        let channel = self.host.own_channel();
        // All that a process opens, it opens at one worker.
        let ring = self
            .host
            .session
            .ring(channel, self.host.session.worker_for(channel));
        let number = self.host.session.requested(ring);
        self.host.in_flight.note_opened(ring, number);
    }

    /// What was published last was done to one end of a connection within the engine, whose other
    /// end is the socket with this index.
    pub(crate) fn note_done_to_pair(self, other: u32) {
        if self.host.held_sockets.count(other) != 0 {
            self.note_done_to_own();
        } else {
            self.note();
        }
    }

    /// What was published last stops a listener: waits until the connections at it that nobody has
    /// accepted are reset. Their other ends, of whatever process, cannot know that something is under
    /// way to them.
    pub(crate) fn await_stopped(self) {
        self.note_done_to_own();
        self.await_own();
    }

    /// What was published last was done to connections whose other ends this process may have.
    pub(crate) fn note_done_to_own(self) {
        self.note();
        self.host.in_flight.note_done_to_own();
    }

    /// Waits until the engine has passed on what this process has done to connections of which it
    /// has both ends, before a call that says how one of its sockets is: on Linux it tells of all
    /// that was done before, and not only of what it would find anyhow.
    #[inline]
    pub fn await_own_pairs(self) {
        if self.host.in_flight.take_done_to_own() {
            self.await_own();
        }
    }

    /// Waits until the engine knows of all sockets that this process has opened, before another may
    /// have them: each process has a ring of its own, and what another asks of a socket, or that it
    /// is to be told of it, may reach the engine before that it was opened, and would be lost.
    pub fn await_opened(self) {
        let (ring, number) = self.host.in_flight.opened();
        // What is of another channel, the parent has waited for.
        let is_ours = self.host.own_rings().any(|own| own == ring);
        let is_known = !is_ours || self.host.session.has_handled(ring, number);
        if !is_known && !is_confined() && !self.host.is_gone() {
            self.host.messages().end_turn();
            self.host.session.hurry_all(self.host.channel.doorbell());
            wait_until(LONGEST_OPENED, || {
                self.host.session.has_handled(ring, number) || self.host.is_gone()
            });
        }
    }

    /// Waits until the engine has handled all that this process has published.
    #[cold]
    pub(crate) fn await_own(self) {
        if is_confined() || self.host.is_gone() {
            return;
        }
        let is_handled = |ring| {
            let number = self.host.session.requested(ring);
            self.host.session.has_handled(ring, number)
        };
        if !self.host.own_rings().all(is_handled) {
            self.host.messages().end_turn();
            self.host.session.hurry_all(self.host.channel.doorbell());
            for ring in self.host.own_rings() {
                let number = self.host.session.requested(ring);
                wait_until(LONGEST, || self.host.session.has_handled(ring, number));
            }
        }
        self.host.messages().catch_up();
    }

    /// A socket is closed: waits for a signal to its owner that was begun before, so that
    /// none comes after `close` has returned.
    pub(crate) fn await_raised(self, id: SocketId) {
        let block = self.host.session.block(id.index);
        if block.is_raising() && !is_confined() {
            wait_until(LONGEST_RAISED, || {
                !block.is_raising() || self.host.is_gone()
            });
        }
    }
}

#[cfg(test)]
mod tests;
