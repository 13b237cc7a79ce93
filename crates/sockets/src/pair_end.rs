//! One end of a connection within the engine: what the other end has done, which Linux would show
//! at once, and what has not come here yet.
//!
//! Each end sees in the other's block how far that has written, and whether it reads and writes
//! any more; a call that would find nothing, though something comes, gives the engine a moment.

use crate::holds::Socket;
use crate::host::ALONE;
use crate::under_way::{LONGEST, wait_until};
use longshore_hostif::{BlockFlags, SocketState};
use longshore_ring::is_confined;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the rest is waited for where some has come: it may be held back (TCP_CORK, pacing).
const LONGEST_FOR_REST: Duration = Duration::from_millis(1);
/// Less than this may be held back by an end, and so may never come: a piece of the engine's.
const HELD_BACK: u64 = 64 * 1024;

thread_local! {
    /// The socket's index and how far the other end had written, when this thread waited in
    /// vain last: it may be held back (TCP_CORK), or have nowhere to go.
    static IN_VAIN: Cell<(u32, u64)> = const { Cell::new((u32::MAX, 0)) };
}

/// A socket as one end of a connection within the engine, if it is one.
#[derive(Debug, Clone, Copy)]
pub struct PairEnd<'a> {
    socket: &'a Socket,
}

/// What is to be seen of the other end in its block.
#[derive(Debug, Clone, Copy)]
struct OtherEnd {
    flags: BlockFlags,
    /// How much it has written.
    written: u64,
    /// How much has arrived there.
    arrived: u64,
}

impl OtherEnd {
    /// Whether it writes no more.
    fn ends(self) -> bool {
        self.flags
            .intersects(BlockFlags::SHUT_WR | BlockFlags::CLOSED)
    }

    /// Whether it has all of `sent` bytes, and that nothing follows.
    fn has_all(self, sent: u64) -> bool {
        self.flags.contains(BlockFlags::PEER_FIN) && self.arrived >= sent
    }
}

impl<'a> PairEnd<'a> {
    #[inline]
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// What was published last was done to this socket, which may be an end of a connection within
    /// the engine.
    pub(crate) fn note_done(self) {
        if let Some(other) = self.socket.block().other_end() {
            self.socket.host.under_way().note_done_to_pair(other);
        }
    }

    /// The other end of a connection within the engine, while it is that.
    #[inline]
    fn other(self) -> Option<OtherEnd> {
        let other = self.socket.block().other_end()?;
        let theirs = self.socket.host.session.get_block(other)?;
        if theirs.other_end() != Some(self.socket.id.index) {
            return None;
        }
        // Of an end that writes no more, all that it has written is seen.
        let flags = theirs.flags();
        Some(OtherEnd {
            flags,
            written: theirs.snd.edge.load(Ordering::Acquire),
            arrived: theirs.rcv.edge.load(Ordering::Acquire),
        })
    }

    /// How much this end has written.
    fn written(self) -> u64 {
        self.socket.block().snd.edge.load(Ordering::Acquire)
    }

    /// How much has arrived here.
    fn arrived(self) -> u64 {
        self.socket.block().rcv.edge.load(Ordering::Acquire)
    }

    /// Whether the other end of a connection within the engine reads no more, or may have sent what
    /// resets it, where this end neither reads nor writes any more.
    #[inline]
    fn has_lost_reader(self) -> bool {
        if !self.socket.is_within() {
            return false;
        }
        let both = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR;
        self.other().is_none_or(|other| {
            other
                .flags
                .intersects(BlockFlags::SHUT_RD | BlockFlags::CLOSED)
                || self.socket.block().flags().contains(both) && other.written > self.arrived()
        })
    }

    /// Before a call that a reset would have end otherwise: if the other end is within the engine
    /// and may cause one, waits until the engine has passed on what it has done, and what was sent
    /// there in spite of it.
    #[inline]
    pub fn await_reset(self) {
        if self.has_lost_reader() {
            self.socket.host.under_way().wait();
        }
    }

    /// Whether all that this end of a connection within the engine has written, and that it writes no
    /// more, has arrived at the other.
    pub(crate) fn has_all_gone(self) -> bool {
        let written = self.written();
        self.other().is_some_and(|other| other.has_all(written))
    }

    /// Whether both ends of a connection within the engine send no more, and that has not arrived at
    /// both.
    fn has_end_coming(self) -> bool {
        let flags = self.socket.block().flags();
        if !flags.contains(BlockFlags::SHUT_WR) {
            return false;
        }
        let written = self.written();
        self.other()
            .is_some_and(|other| match flags.contains(BlockFlags::PEER_FIN) {
                true => !other.has_all(written),
                false => other.ends(),
            })
    }

    /// Before a call that fails once both ends have said that they send no more: if the other end is
    /// within the engine, waits until the engine has passed that on.
    pub(crate) fn await_end(self) {
        if self.has_end_coming() {
            self.socket.host.under_way().wait();
        }
    }

    /// How far the other end of a connection within the engine has written, if that, or that
    /// it writes no more, has not arrived here.
    fn coming(self) -> Option<u64> {
        let block = self.socket.block();
        let other = self.other()?;
        if block.state() != SocketState::Connected {
            return None;
        }
        let has_ended = block
            .flags()
            .intersects(BlockFlags::PEER_FIN | BlockFlags::SHUT_RD);
        let is_coming = other.written > self.arrived() || (other.ends() && !has_ended);
        // The end counts as one more.
        is_coming.then_some(other.written + u64::from(other.ends()))
    }

    /// Whether there is more than `before`, and as much as a reader waits for.
    fn has_come_in_part(self, before: u64) -> bool {
        let rcv = &self.socket.block().rcv;
        rcv.edge.load(Ordering::Acquire) != before
            && rcv.held() >= self.socket.options().low_water()
    }

    /// Whether an end of a connection within the engine has as much unread as the engine lets it
    /// have: the rest comes when that was read.
    fn is_full(self) -> bool {
        let block = self.socket.block();
        let quarter = u64::from(block.unreported_limit.load(Ordering::Relaxed));
        let reported = block.rcv.reported.load(Ordering::Relaxed);
        let unread = block
            .rcv
            .edge
            .load(Ordering::Acquire)
            .saturating_sub(reported);
        // A quarter is rounded down.
        quarter != 0 && unread / 4 >= quarter
    }

    /// Whether the other end is held by this process alone, the engine has handled all that this
    /// process has published, and what has not come then is so little that it is held back
    /// (TCP_CORK, MSG_MORE): what it led to is there when the completions have been applied.
    fn is_held_back(self) -> bool {
        let block = self.socket.block();
        let host = self.socket.host;
        let Some(other) = block.other_end() else {
            return false;
        };
        if !host.held_sockets.is_marked(other, ALONE) || host.held_sockets.count(other) == 0 {
            return false;
        }
        let Some(theirs) = host.session.get_block(other) else {
            return false;
        };
        let ends = BlockFlags::SHUT_WR | BlockFlags::CLOSED;
        let edge = theirs.snd.edge.load(Ordering::Acquire);
        let rest = edge.saturating_sub(block.rcv.edge.load(Ordering::Acquire));
        !theirs.flags().intersects(ends)
            && rest < HELD_BACK
            && !host.channel.holds()
            && host
                .own_rings()
                .all(|ring| host.session.has_handled(ring, host.session.requested(ring)))
    }

    /// Waits for what is on its way here, if anything is that can be known of; says whether
    /// it is worth looking again.
    pub fn await_coming(self) -> bool {
        if self.socket.is_datagram() || self.socket.is_listening() {
            return self.socket.host.under_way().wait();
        }
        let Some(edge) = self.coming() else {
            return false;
        };
        let mark = (self.socket.id.index, edge);
        if is_confined() || self.socket.host.is_gone() || IN_VAIN.try_with(Cell::get) == Ok(mark) {
            return false;
        }
        self.socket.host.messages().end_turn();
        let began = Instant::now();
        let before = self.socket.block().rcv.edge.load(Ordering::Acquire);
        let is_held_back = Cell::new(false);
        let has_come = wait_until(LONGEST, || {
            // Before the completions are applied: those that it tells of are.
            is_held_back.set(self.is_held_back());
            self.socket.host.messages().catch_up();
            self.coming() != Some(edge)
                || is_held_back.get()
                || self.has_come_in_part(before)
                    && (self.is_full() || began.elapsed() > LONGEST_FOR_REST)
        });
        if !has_come {
            let _ = IN_VAIN.try_with(|c| c.set(mark));
        }
        // What is held back may be let go at any time: then it is waited for.
        !is_held_back.get()
            || self.coming() != Some(edge)
            || self.socket.block().rcv.edge.load(Ordering::Acquire) != before
    }
}

#[cfg(test)]
mod tests;
