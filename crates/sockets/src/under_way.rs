//! What is on its way from one socket of the engine to another: once `send` or `close` has
//! returned, Linux shows it to the next call on the other end. Here the engine has to have
//! passed it on first, for which a call that would find nothing gives it a moment.
//!
//! Nobody waits who has nothing to wait for: of a connection within the engine each end
//! sees how far the other has written, and for the rest each process says in its channel what
//! it has sent to an address of the engine, of which the engine says whether it has handled it.

use crate::holds::Socket;
use crate::host::Host;
use crate::pause::pause;
use longshore_hostif::{BlockFlags, SocketId, SocketState};
use longshore_ring::is_confined;
use std::cell::Cell;
use std::iter;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long what is under way is waited for: an engine that has the processor takes a few
/// microseconds.
const LONGEST: Duration = Duration::from_millis(20);
/// How long the rest is waited for where some has come: it may be held back (TCP_CORK, pacing).
const LONGEST_FOR_REST: Duration = Duration::from_millis(1);
/// How long a signal that is being raised is waited for: it comes as soon as the engine has
/// the processor, if that is not held up for good.
const LONGEST_RAISED: Duration = Duration::from_secs(1);
/// How long the engine may take to take note of a socket that was opened.
const LONGEST_OPENED: Duration = Duration::from_secs(1);
/// Looks that only give way, before those with a pause.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(20);

thread_local! {
    /// The socket's index and how far the other end had written, when this thread waited in
    /// vain last: it may be held back (TCP_CORK), or have nowhere to go.
    static IN_VAIN: Cell<(u32, u64)> = const { Cell::new((u32::MAX, 0)) };
}

/// Gives the engine the processor until `is_over`, for `longest`; says whether it came to be.
fn wait_until(longest: Duration, is_over: impl Fn() -> bool) -> bool {
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

impl Host {
    /// What was published last goes to another socket of the engine.
    pub(crate) fn note_under_way(&self) {
        for ring in self.own_rings() {
            self.session.note_under_way(ring);
        }
    }

    /// Waits until the engine has passed on what the processes of this session have sent to
    /// others of its sockets by now, if it has not; whether it is worth looking again: what was
    /// passed on since the last look is, too. Of what comes from another session of the engine,
    /// nothing is known here.
    #[inline]
    pub fn await_under_way(&self) -> bool {
        self.session.has_under_way() && self.await_noted()
    }

    #[cold]
    fn await_noted(&self) -> bool {
        let mut all = self.session.under_way();
        match all.next() {
            Some(first) => self.await_each(first, all),
            None => {
                self.catch_up();
                true
            }
        }
    }

    #[cold]
    fn await_each(&self, first: (u32, u32), others: impl Iterator<Item = (u32, u32)>) -> bool {
        if is_confined() || self.is_gone() {
            return false;
        }
        self.end_turn();
        self.session.hurry_all(&self.doorbell);
        let began = Instant::now();
        for (ring, number) in iter::once(first).chain(others) {
            let has_come = || self.session.has_handled(ring, number);
            if !wait_until(LONGEST.saturating_sub(began.elapsed()), has_come) {
                // Once is enough.
                self.session.forget_under_way(ring, number);
            }
        }
        self.catch_up();
        true
    }

    /// Waits until the engine knows all that it must know of this process's sockets before another
    /// process gets some of them.
    pub(crate) fn await_before_giving(&'static self) {
        self.await_forwards();
        self.await_opened();
    }

    /// A socket was opened, and the engine is told of it by what was published last.
    pub(crate) fn note_opened(&self) {
        let channel = self.own_channel();
        // All that a process opens, it opens at one worker.
        let ring = self.session.ring(channel, self.session.worker_for(channel));
        let number = self.session.requested(ring);
        let opened = u64::from(ring) << 32 | u64::from(number);
        self.opened.store(opened, Ordering::Release);
    }

    /// What was published last was done to one end of a connection within the engine, whose other
    /// end is the socket with this index.
    pub(crate) fn note_done_to_pair(&self, other: u32) {
        if self.held_sockets.count(other) != 0 {
            self.note_done_to_own();
        } else {
            self.note_under_way();
        }
    }

    /// What was published last was done to connections whose other ends this process may have: a
    /// listener's that wait.
    pub(crate) fn note_done_to_own(&self) {
        self.note_under_way();
        self.done_to_own.store(true, Ordering::Release);
    }

    /// Waits until the engine has passed on what this process has done to connections of which it
    /// has both ends, before a call that says how one of its sockets is: on Linux it tells of all
    /// that was done before, and not only of what it would find anyhow.
    #[inline]
    pub fn await_own_pairs(&self) {
        if self.done_to_own.load(Ordering::Acquire)
            && self.done_to_own.swap(false, Ordering::AcqRel)
        {
            self.await_own();
        }
    }

    /// Waits until the engine knows of all sockets that this process has opened, before another may
    /// have them: each process has a ring of its own, and what another asks of a socket, or that it
    /// is to be told of it, may reach the engine before that it was opened, and would be lost.
    pub fn await_opened(&self) {
        let opened = self.opened.load(Ordering::Acquire);
        let (ring, number) = ((opened >> 32) as u32, opened as u32);
        // What is of another channel, the parent has waited for.
        let is_ours = self.own_rings().any(|own| own == ring);
        let is_known = !is_ours || self.session.has_handled(ring, number);
        if !is_known && !is_confined() && !self.is_gone() {
            self.end_turn();
            self.session.hurry_all(&self.doorbell);
            wait_until(LONGEST_OPENED, || {
                self.session.has_handled(ring, number) || self.is_gone()
            });
        }
    }

    /// Waits until the engine has handled all that this process has published.
    #[cold]
    pub(crate) fn await_own(&self) {
        if is_confined() || self.is_gone() {
            return;
        }
        let is_handled = |ring| {
            let number = self.session.requested(ring);
            self.session.has_handled(ring, number)
        };
        if !self.own_rings().all(is_handled) {
            self.end_turn();
            self.session.hurry_all(&self.doorbell);
            for ring in self.own_rings() {
                let number = self.session.requested(ring);
                wait_until(LONGEST, || self.session.has_handled(ring, number));
            }
        }
        self.catch_up();
    }

    /// A socket is closed: waits for a signal to its owner that was begun before, so that
    /// none comes after `close` has returned.
    pub(crate) fn await_raised(&self, id: SocketId) {
        let block = self.session.block(id.index);
        if block.is_raising() && !is_confined() {
            wait_until(LONGEST_RAISED, || !block.is_raising() || self.is_gone());
        }
    }
}

impl Socket {
    /// What was published last was done to this socket, which may be an end of a connection within
    /// the engine.
    pub(crate) fn note_done(&self) {
        if let Some(other) = self.block().other_end() {
            self.host.note_done_to_pair(other);
        }
    }

    /// Whether a connection within the engine is over, as each end has closed its half and has
    /// nothing to send any more: to Linux it is none then, and the end of either half is acknowledged
    /// at once.
    pub(crate) fn is_over_within(&self) -> bool {
        let ended = BlockFlags::PEER_FIN | BlockFlags::SHUT_WR;
        self.is_within()
            && self.block().flags().contains(ended)
            && self.send_stream().unacked_bytes() == 0
    }

    /// Whether the other end of a connection within the engine reads no more.
    fn has_lost_reader(&self) -> bool {
        let Some(other) = self.block().other_end() else {
            return false;
        };
        self.host.session.get_block(other).is_none_or(|theirs| {
            theirs.other_end() != Some(self.id.index)
                || theirs
                    .flags()
                    .intersects(BlockFlags::SHUT_RD | BlockFlags::CLOSED)
        })
    }

    /// Before a call that a reset would have end otherwise: if the other end is within the engine
    /// and was closed, or reads no more, waits until the engine has passed that on, and what was
    /// sent there in spite of it.
    #[inline]
    pub fn await_reset(&self) {
        if self.has_lost_reader() {
            self.host.await_under_way();
        }
    }

    /// Whether this is an end of a connection within the engine.
    pub fn is_within(&self) -> bool {
        self.block().other_end().is_some()
    }

    /// How far the other end of a connection within the engine has written, if that, or that
    /// it writes no more, has not arrived here.
    fn coming(&self) -> Option<u64> {
        let block = self.block();
        let other = block.other_end()?;
        let theirs = self.host.session.get_block(other)?;
        if theirs.other_end() != Some(self.id.index) || block.state() != SocketState::Connected {
            return None;
        }
        let edge = theirs.snd.edge.load(Ordering::Acquire);
        let ends = theirs
            .flags()
            .intersects(BlockFlags::SHUT_WR | BlockFlags::CLOSED);
        let has_ended = block
            .flags()
            .intersects(BlockFlags::PEER_FIN | BlockFlags::SHUT_RD);
        let is_coming = edge > block.rcv.edge.load(Ordering::Acquire) || (ends && !has_ended);
        // The end counts as one more.
        is_coming.then_some(edge + u64::from(ends))
    }

    /// Whether there is more than `before`, and as much as a reader waits for.
    fn has_come_in_part(&self, before: u64) -> bool {
        let rcv = &self.block().rcv;
        rcv.edge.load(Ordering::Acquire) != before && rcv.held() >= self.low_water()
    }

    /// Whether an end of a connection within the engine has as much unread as the engine lets it
    /// have: the rest comes when that was read.
    fn is_full(&self) -> bool {
        let block = self.block();
        let quarter = u64::from(block.unreported_limit.load(Ordering::Relaxed));
        let told = block.rcv.told.load(Ordering::Relaxed);
        let unread = block.rcv.edge.load(Ordering::Acquire).saturating_sub(told);
        // A quarter is rounded down.
        quarter != 0 && unread / 4 >= quarter
    }

    /// Waits for what is on its way here, if anything is that can be known of; says whether
    /// it is worth looking again.
    pub fn await_coming(&self) -> bool {
        if self.is_datagram() || self.is_listening() {
            return self.host.await_under_way();
        }
        let Some(edge) = self.coming() else {
            return false;
        };
        let mark = (self.id.index, edge);
        if is_confined() || self.host.is_gone() || IN_VAIN.try_with(Cell::get) == Ok(mark) {
            return false;
        }
        self.host.end_turn();
        let began = Instant::now();
        let before = self.block().rcv.edge.load(Ordering::Acquire);
        let has_come = wait_until(LONGEST, || {
            self.host.catch_up();
            self.coming() != Some(edge)
                || self.has_come_in_part(before)
                    && (self.is_full() || began.elapsed() > LONGEST_FOR_REST)
        });
        if !has_come {
            let _ = IN_VAIN.try_with(|c| c.set(mark));
        }
        true
    }
}

#[cfg(test)]
mod tests;
