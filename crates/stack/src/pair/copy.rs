//! What one end's host wrote is copied to where the other end's host reads it, a piece at a
//! time. `pair` calls it when an end is settled.

use super::AGAIN_US;
use super::loan::Loan;
use super::pace::Pace;
use crate::Stack;
use crate::counters::EngineDrop;
use crate::pair_end::PIECE;
use crate::slab::Slab;
use crate::socket::{Kind, Socket};
use longshore_frames::in_place;
use longshore_hostif::adapter::{BadStream, Immediate, MAX_PIECES, NotMoved, SendStreams, Use};
use longshore_hostif::{NONE, SharedBytes};
use longshore_tcp::Instant;
use std::ops::Range;

impl Stack {
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
            p.snd_moved,
            p.snd_edge,
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
            self.reset_pair(key);
            return false;
        }
        let room = q.room(&receiver.options, &socket.options);
        let mut len = (edge - at).min(PIECE).min(room);
        if len == 0 {
            return false;
        }
        if let Some(pace) = Pace::of(&socket.options) {
            if self.now < p.paced_until {
                let until = p.paced_until;
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
        let now = self.now;
        if let Some(socket) = self.sockets.get_mut(key)
            && let Kind::Pair(p) = &mut socket.kind
        {
            p.snd_moved = at + len;
            if p.snd_moved == p.snd_edge {
                p.hold_until = None;
            }
            if let Some(pace) = Pace::of(&socket.options) {
                p.paced_until = pace.after(len, p.paced_until, now);
            }
        }
        if let Some(q) = self.pair_mut(other) {
            q.rcv_edge += len;
        }
        self.counters.cut_through_bytes += len;
        self.sockets.touch(other);
        self.sockets.are_yet_to_tell = true;
        true
    }

    #[cold]
    fn move_later(&mut self, key: u32, again: Instant) {
        if let Some(p) = self.pair_mut(key) {
            p.again_at = Some(again);
        }
        self.sockets.arm(key);
    }

    fn copy_across(
        &mut self,
        from: (u32, u32, Range<u64>),
        immediate: &Immediate,
        to: u32,
    ) -> bool {
        let (session, index, range) = from;
        let len = range.end - range.start;
        let Some(streams) = self.sessions.get(session).map(|s| s.host.send.clone()) else {
            return false;
        };
        if streams.has_files() && immediate.is_empty() {
            return self.move_across((session, index, range), &streams, to);
        }
        let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
        let found = streams.gather_immediate(immediate, &range, &mut pieces);
        let came_along = found.is_some();
        let found = found.ok_or(());
        let Ok(count) = found.or_else(|()| streams.gather(index, range, Use::Read, &mut pieces))
        else {
            self.counters.drop(EngineDrop::BadStream);
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
        let mut at = q.rcv_edge;
        for piece in in_place(pieces.get(..count).unwrap_or_default()) {
            let placed = q.rcv.place(
                q.rcv_consumed,
                at,
                piece,
                &mut s.host.receive,
                receiver.id.index,
            );
            if placed.is_err() {
                let session = receiver.session;
                self.arena_is_full(session);
                return false;
            }
            at += piece.len() as u64;
        }
        let counts = [
            &mut receiver.payload.to_host,
            &mut s.host.meter.to_host.payload,
        ];
        Socket::count_payload(counts, count as u64, len);
        if let (Some(s), Some(sender)) = (
            self.sessions.get_mut(session),
            sender_to(&mut self.sockets.slab, to),
        ) {
            if came_along {
                return true;
            }
            let counts = [
                &mut sender.payload.to_adapter,
                &mut s.host.meter.to_adapter.payload,
            ];
            Socket::count_payload(counts, count as u64, len);
        }
        true
    }
}

impl Stack {
    /// The same, where some of the bytes may be in files: they are read straight to where the
    /// other end's host reads them.
    #[cold]
    fn move_across(
        &mut self,
        (session, index, range): (u32, u32, Range<u64>),
        streams: &SendStreams,
        to: u32,
    ) -> bool {
        let len = range.end - range.start;
        let Some(receiver) = self.sockets.get_mut(to) else {
            return false;
        };
        let Some(s) = self.sessions.get_mut(receiver.session) else {
            return false;
        };
        let Kind::Pair(q) = &mut receiver.kind else {
            return false;
        };
        let held = q.rcv_consumed..q.rcv_edge;
        let slab = &mut s.host.receive;
        let moved = streams.move_to((index, range), &mut q.rcv, held, slab, receiver.id.index);
        let pieces = match moved {
            Ok(pieces) => pieces,
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
        Socket::count_payload(counts, pieces, len);
        if let (Some(s), Some(sender)) = (
            self.sessions.get_mut(session),
            sender_to(&mut self.sockets.slab, to),
        ) {
            let counts = [
                &mut sender.payload.to_adapter,
                &mut s.host.meter.to_adapter.payload,
            ];
            Socket::count_payload(counts, pieces, len);
        }
        true
    }
}

/// The end that sends to `to`.
fn sender_to(sockets: &mut Slab<Socket>, to: u32) -> Option<&mut Socket> {
    let Kind::Pair(q) = &sockets.get(to)?.kind else {
        return None;
    };
    let sender = q.other;
    sockets.get_mut(sender)
}
