//! What one end's host wrote is read by the other end's where it lies, if it is much and both
//! are of one session, and so have the same memory: nothing is copied.
//!
//! Both streams count the same bytes, so these lie in both at the same offset of a chunk with
//! the same number: the receive directory gets the send directory's entry. The chunks stay the
//! sender's, and are not done with before they were read; an end that no process holds stays
//! so long. `copy` asks before it copies.

use crate::counters::EngineDrop;
use crate::socket::{Kind, Socket};
use crate::transfers::Transfers;
use longshore_hostif::{CHUNK, NONE};
use std::ops::Range;

/// Bytes of the least that is lent where nothing is: of less the copy costs little, and its
/// sender has its chunks back at once.
const LEAST: u64 = 32 * 1024;

/// What came of an attempt to lend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loan {
    /// The bytes are lent.
    Made,
    /// So many bytes of them at most are to be copied.
    Copy(u64),
    /// They cannot be moved, as their host has written what cannot be.
    Impossible,
}

impl Transfers<'_> {
    /// Has the host of `to` read `range` of what `key` sends where it was written, if that is
    /// possible and worth it.
    pub(super) fn lend(&mut self, key: u32, range: &Range<u64>, to: u32) -> Loan {
        let len = range.end - range.start;
        let copy = Loan::Copy(len);
        let (Some(sender), Some(receiver)) = (self.sockets.get(key), self.sockets.get(to)) else {
            return copy;
        };
        let (from, session) = (sender.id.index, sender.session);
        let (Kind::Pair(p), Kind::Pair(q)) = (&sender.kind, &receiver.kind) else {
            return copy;
        };
        let are_one = receiver.session == session && key != to;
        if are_one && sender.forwarding.is_some() {
            return self.end_lending(to, len);
        }
        if !are_one || p.deferral.has_been() || (len < LEAST && !q.rcv.is_lent()) {
            return copy;
        }
        let was_lent = q.rcv.is_lent();
        let (Some(s), Some(receiver)) = (self.sessions.get_mut(session), self.sockets.get_mut(to))
        else {
            return copy;
        };
        let Kind::Pair(q) = &mut receiver.kind else {
            return copy;
        };
        let source = (&s.host.send, from);
        let slab = &mut s.host.receive;
        match q.rcv.lend(range, source, slab, receiver.id.index) {
            Ok(()) => {
                self.counters.own_bytes.lent += len;
                Loan::Made
            }
            Err(_) if was_lent => {
                self.counters.drop(EngineDrop::BadStream);
                Loan::Impossible
            }
            // The next chunk may be lent, if nothing is copied there.
            Err(_) => {
                let to_its_end = CHUNK as u64 - range.start % CHUNK as u64;
                Loan::Copy(len.min(to_its_end))
            }
        }
    }

    /// What is sent to `to` may lie where another socket has received it, and cannot be lent on:
    /// so that it can be copied, what was lent to it lies in chunks of its own from now on.
    fn end_lending(&mut self, to: u32, len: u64) -> Loan {
        let Some(receiver) = self.sockets.get_mut(to) else {
            return Loan::Copy(len);
        };
        let Kind::Pair(q) = &mut receiver.kind else {
            return Loan::Copy(len);
        };
        let Some(s) = self.sessions.get_mut(receiver.session) else {
            return Loan::Copy(len);
        };
        let kept = q.rcv.keep_lent(&mut s.host.receive, receiver.id.index);
        if kept.is_err() {
            let session = receiver.session;
            self.arena_is_full(session);
            return Loan::Impossible;
        }
        Loan::Copy(len)
    }

    /// The connection of `key` is over, and its socket has another: what was lent to the other
    /// end lies in chunks of its own from now on, and it has no other end. Says whether there
    /// were chunks for it.
    pub(crate) fn part_from_other_end(&mut self, key: u32) -> bool {
        let Some(other) = self
            .sockets
            .pair_mut(key)
            .map(|p| p.other)
            .filter(|o| *o != key)
        else {
            return true;
        };
        if self.sockets.pair_mut(other).is_none_or(|q| q.other != key) {
            return true;
        }
        if self.has_lent(key) && self.end_lending(other, 0) == Loan::Impossible {
            return false;
        }
        if let Some(q) = self.sockets.pair_mut(other) {
            q.other = NONE;
            q.rcv.end_loan();
        }
        self.sockets.touch_other_end(other);
        true
    }

    /// Notes how much of what `key` has sent is done with.
    pub(super) fn note_done(&mut self, key: u32) {
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        let (other, moved, is_dead) = (p.other, p.snd.moved(), p.dead.is_some());
        let done = match self.sockets.pair_mut(other) {
            Some(q) => q.rcv.done_of(moved),
            _ => moved,
        };
        if let Some(p) = self.sockets.pair_mut(key) {
            p.snd.finish_to(done);
            if self
                .sockets
                .get(key)
                .is_some_and(|s| s.forwarding.is_some())
            {
                // It is never lent, so nobody needs what was moved.
                self.forwarded(key, if is_dead { u64::MAX } else { moved });
            }
        }
    }

    /// Whether somebody reads in the chunks of `key`.
    pub(super) fn has_lent(&self, key: u32) -> bool {
        let socket = self.sockets.get(key).map(|s| &s.kind);
        let Some(Kind::Pair(p)) = socket else {
            return false;
        };
        let other = self.sockets.get(p.other).filter(|_| p.other != key);
        let is_read = |s: &Socket| !s.orphan || s.is_lent_on(self.sessions);
        other.is_some_and(|s| matches!(&s.kind, Kind::Pair(q) if q.rcv.is_lent() && is_read(s)))
    }
}
