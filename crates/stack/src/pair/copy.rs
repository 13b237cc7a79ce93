//! What one end's host wrote is copied to where the other end's host reads it, a piece at a
//! time. `pair` calls it when an end is flushed.

use super::loan::Loan;
use super::pace::Pace;
use crate::counters::EngineDrop;
use crate::pair_end::{PIECE, ReceiveHalf};
use crate::socket::{Kind, PayloadMoved};
use crate::transfers::Transfers;
use longshore_frames::in_place;
use longshore_hostif::adapter::{
    BadStream, Immediate, MAX_PIECES, NotMoved, ReceiveSlab, SendStreams, Use,
};
use longshore_hostif::{Moved, NONE, SharedBytes};
use longshore_tcp::Instant;
use std::ops::Range;

/// How long after it had no memory the other end is tried again, in microseconds.
const AGAIN_US: u64 = 10_000;

impl Transfers<'_> {
    /// Moves a piece of what `key` sends to its other end; says whether there
    /// was one.
    pub(super) fn move_piece(&mut self, key: u32) -> bool {
        let Some(socket) = self.sockets.get(key) else {
            return false;
        };
        let Kind::Pair(p) = &socket.kind else {
            return false;
        };
        let immediate = socket.immediate;
        let (other, at, edge, index, session) = (
            p.other,
            p.snd.moved(),
            p.snd.edge(),
            socket.id.index,
            socket.session,
        );
        if at >= edge || p.dead.is_some() || index == NONE {
            return false;
        }
        let Some(receiver) = self.sockets.get(other) else {
            return false;
        };
        let Kind::Pair(q) = &receiver.kind else {
            return false;
        };
        if q.is_shut() {
            self.pass_on_before_reset(key);
            self.reset_pair(key);
            return false;
        }
        let room = q.room(&receiver.options, &socket.options);
        let mut len = (edge - at).min(PIECE).min(room);
        if len == 0 {
            return false;
        }
        if let Some(pace) = Pace::of(&socket.options) {
            if self.now < p.waits.paced_until() {
                let until = p.waits.paced_until();
                self.move_later(key, until);
                return false;
            }
            len = len.min(pace.at_once());
        }
        let is_moved = match self.lend(key, &(at..at + len), other) {
            Loan::Made => true,
            Loan::Copy(most) => {
                len = most;
                self.copy_across((session, index, at..at + len), &immediate, other)
            }
            Loan::Impossible => false,
        };
        if !is_moved {
            let again = self.now.after_us(AGAIN_US);
            self.move_later(key, again);
            return false;
        }
        self.note_moved(key, at..at + len, other);
        true
    }

    /// Bytes `range` of what `key` sends have come to its other end.
    fn note_moved(&mut self, key: u32, range: Range<u64>, other: u32) {
        let len = range.end - range.start;
        let now = self.now;
        if let Some(socket) = self.sockets.get_mut(key)
            && let Kind::Pair(p) = &mut socket.kind
        {
            p.snd.move_to(range.end);
            if p.snd.unmoved() == 0 {
                p.cork.end_hold();
            }
            if let Some(pace) = Pace::of(&socket.options) {
                let until = pace.after(len, p.waits.paced_until(), now);
                p.waits.pace_until(until);
            }
        }
        if let Some(q) = self.sockets.pair_mut(other) {
            q.rcv.advance(len);
        }
        self.counters.own_bytes.cut_through += len;
        self.sockets.touch_other_end(other);
    }

    /// How much of `range` of what is sent to `to` lies where another socket has received it.
    fn received_part(&self, session: u32, index: u32, range: &Range<u64>, to: u32) -> u64 {
        let sender = match self.sockets.get(to).map(|s| &s.kind) {
            Some(Kind::Pair(q)) => self.sockets.get(q.other),
            _ => None,
        };
        match (sender, self.sessions.get(session)) {
            (Some(sender), Some(s)) if sender.forwarding.is_some() => {
                s.host.send.forwarded(index, range.clone()).placed
            }
            _ => 0,
        }
    }

    #[cold]
    fn move_later(&mut self, key: u32, again: Instant) {
        if let Some(p) = self.sockets.pair_mut(key) {
            p.waits.retry_at(again);
        }
        self.sockets.arm(key);
    }

    /// Copies bytes to where the host of `to` reads, and counts them; says whether it could.
    fn copy_across(
        &mut self,
        (session, index, range): (u32, u32, Range<u64>),
        immediate: &Immediate,
        to: u32,
    ) -> bool {
        let len = range.end - range.start;
        // What no program has touched is not fetched.
        let received = self.received_part(session, index, &range, to);
        let Some(streams) = self.sessions.get(session).map(|s| s.host.send.clone()) else {
            return false;
        };
        let Some(receiver) = self.sockets.get_mut(to) else {
            return false;
        };
        let Some(s) = self.sessions.get_mut(receiver.session) else {
            return false;
        };
        let Kind::Pair(q) = &mut receiver.kind else {
            return false;
        };
        let sender = q.other;
        let end = (&mut q.rcv, receiver.id.index);
        let copied = match copy(
            &streams,
            (index, range),
            immediate,
            end,
            &mut s.host.receive,
        ) {
            Ok(copied) => copied,
            Err(NotMoved::Bad(BadStream)) => {
                self.counters.drop(EngineDrop::BadStream);
                return false;
            }
            Err(NotMoved::NoChunk(_)) => {
                let session = receiver.session;
                self.arena_is_full(session);
                return false;
            }
        };
        let counts = [
            &mut receiver.payload.to_host,
            &mut s.host.meter.to_host.payload,
        ];
        PayloadMoved::count(counts, &copied.moved);
        let fetched = len - received;
        if !copied.came_along && fetched != 0 {
            let moved = Moved {
                transfers: copied.moved.transfers,
                ..copied.moved.share(fetched)
            };
            self.count_fetched((session, sender), &moved);
        }
        true
    }

    /// Counts payload that was fetched from a sender.
    fn count_fetched(&mut self, (session, sender): (u32, u32), fetched: &Moved) {
        let Some(s) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(sender) = self.sockets.get_mut(sender) else {
            return;
        };
        let counts = [
            &mut sender.payload.to_adapter,
            &mut s.host.meter.to_adapter.payload,
        ];
        PayloadMoved::count(counts, fetched);
    }
}

/// Bytes that were copied.
struct Copied {
    moved: Moved,
    /// They had crossed with a descriptor.
    came_along: bool,
}

/// Copies bytes `range` of the send stream of socket `from` to the end of what `to`, whose socket
/// has an index, has received: those of files straight from where the kernel has them.
fn copy(
    streams: &SendStreams,
    (from, range): (u32, Range<u64>),
    immediate: &Immediate,
    (to, index): (&mut ReceiveHalf, u32),
    slab: &mut ReceiveSlab,
) -> Result<Copied, NotMoved> {
    if streams.has_files() && immediate.is_empty() {
        let held = to.unread();
        let moved = streams.move_to((from, range), to.stream_mut(), held, slab, index)?;
        return Ok(Copied {
            moved,
            came_along: false,
        });
    }
    let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
    let found = streams.gather_immediate(immediate, &range, &mut pieces);
    let count = match found {
        Some(count) => count,
        None => streams
            .gather(from, range, Use::Read, &mut pieces)
            .map_err(NotMoved::Bad)?,
    };
    let Range { start, end: mut at } = to.unread();
    let mut moved = Moved::default();
    for piece in in_place(pieces.get(..count).unwrap_or_default()) {
        to.stream_mut()
            .place(start, at, piece, slab, index)
            .map_err(NotMoved::NoChunk)?;
        at += piece.len() as u64;
        moved.add(&Moved::one(piece.len() as u64));
    }
    Ok(Copied {
        moved,
        came_along: found.is_some(),
    })
}
