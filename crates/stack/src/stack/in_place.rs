//! Receiving into place: the payload of a frame goes straight to where its program reads it.
//!
//! Owns [`BulkRun`], which says of which connection the last frames were, and
//! [`Stack::receive_bulk`], by which the loop then takes frames from the port. While frames of bulk
//! data come for one connection, the port is given the place of the next bytes of its receive
//! stream with each read, behind a buffer for the headers that segments of this connection have.
//! The headers then say whether that was right: whether this is the segment that the connection
//! [predicts](longshore_tcp::Tcb::predicts_segment). If so, the edge of the stream moves and
//! nothing is copied. If not, the frame is put together in the buffer and goes the usual way; what
//! was written to the place lies beyond the stream's edge and is written over.
//!
//! Until then the programs of the session may read the payload, and may write to it. So this is
//! done only for a session that is the only one of its stack, ever, where the port saves a
//! copy by it, and for frames whose checksum need not be verified.

use super::Stack;
use crate::at_work::AtWork;
use crate::session::SPARE_CHUNKS;
use crate::session::Session;
use crate::socket::{Connection, Kind, Socket};
use longshore_frames::{PortError, RECV_ROOM, RecvBuffer, RxChecksum, RxMeta, SharedRooms};
use longshore_hostif::NONE;
use longshore_tcp::{Instant, Tcb};
use longshore_wire::{ipv4, ipv6, tcp};

/// Payload of so many bytes is bulk: with less, reading it to several places costs more than
/// the copy.
pub(crate) const BULK: usize = 8 * 1024;

/// So many frames of bulk in a row are followed by one that is expected to be another, if
/// that has always been right of late. Each time that it is wrong there have to be more by the
/// second number, up to the third, and by one less each time that it is right: so it is tried as
/// long as two of three are right, since one that is wrong costs more than one that is right saves.
pub(crate) const LEAST_RUN: u8 = 2;
const LONGER_BY: u8 = 2;
const LONGEST_RUN: u8 = 32;

/// The connection of the last frames, if they were bulk data in order.
#[derive(Debug)]
pub(crate) struct BulkRun {
    /// The key of its socket.
    key: u32,
    is_v6: bool,
    /// Frames of bulk in a row.
    len: u8,
    /// How many there have to be before the next is expected to be another.
    wanted: u8,
    /// The last long frame has not been found to be one of them.
    is_open: bool,
    /// Frames since the last long one.
    short: u8,
    is_permitted: bool,
    /// There has been a session.
    had_session: bool,
    /// What all these say of the next frame.
    is_likely: bool,
}

impl BulkRun {
    pub(crate) const fn new() -> Self {
        Self {
            key: 0,
            is_v6: false,
            len: 0,
            wanted: LEAST_RUN,
            is_open: false,
            short: 0,
            is_permitted: false,
            had_session: false,
            is_likely: false,
        }
    }

    /// Whether what is not known to be right yet may lie where a program could read it: all are
    /// of the only session that this stack has ever had.
    #[inline]
    pub(crate) fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    /// A session has begun; `has_one`: there is to be one alone, of programs that may see each
    /// other's bytes.
    pub(crate) fn note_session(&mut self, has_one: bool) {
        let is_only = !std::mem::replace(&mut self.had_session, true);
        self.is_permitted = is_only && has_one;
        self.is_likely &= self.is_permitted;
    }

    /// Whether the next frame is probably one of the run.
    #[inline(always)]
    pub(super) fn is_likely(&self) -> bool {
        self.is_likely
    }

    /// A frame of this length has come; [`note_bulk`](Self::note_bulk) says what it was if it
    /// is bulk. One short frame may be the end of what a sender has written at once; a second
    /// one ends the run.
    #[inline(always)]
    pub(super) fn note_frame(&mut self, len: usize) {
        if len < BULK {
            self.short = self.short.saturating_add(1);
            if self.short > 1 {
                (self.len, self.is_likely) = (0, false);
            }
        } else {
            if self.is_open {
                self.len = 0;
            }
            (self.is_open, self.is_likely) = (true, false);
        }
    }

    /// The frame was the next of the connection with this key, with so much payload.
    #[inline(always)]
    pub(crate) fn note_data(&mut self, key: u32, is_v6: bool, len: usize) {
        if len >= BULK {
            self.note_bulk(key, is_v6);
        }
    }

    /// It was bulk.
    #[inline]
    fn note_bulk(&mut self, key: u32, is_v6: bool) {
        if (self.key, self.is_v6) != (key, is_v6) {
            (self.key, self.is_v6, self.len) = (key, is_v6, 0);
        }
        self.len = self.len.saturating_add(1);
        (self.is_open, self.short) = (false, 0);
        self.is_likely = self.is_permitted && self.len >= self.wanted;
    }

    /// The next frame was the one that was expected.
    fn note_right(&mut self) {
        self.wanted = (self.wanted - 1).max(LEAST_RUN);
    }

    /// It was not.
    fn note_wrong(&mut self) {
        self.wanted = (self.wanted + LONGER_BY).min(LONGEST_RUN);
        self.is_likely &= self.len >= self.wanted;
    }
}

/// What has come from the port where bulk was expected.
#[derive(Debug)]
pub enum Received {
    /// A segment whose payload is where its program reads it, and which is done with.
    InPlace(RxMeta),
    /// What the port says, as of [`Port::recv_single`](longshore_frames::Port::recv_single): a
    /// frame is in the buffer, and goes to [`Stack::note_received`] and [`Stack::frame_in`].
    Usual(Result<Option<RxMeta>, PortError>),
}

/// The connection that the next frame is expected for, with chunks for its payload.
struct Next<'a> {
    c: &'a mut Connection,
    session: &'a mut Session,
    /// Where in the receive stream the payload goes, and for how much of it there is room, in
    /// bytes.
    at: u64,
    room: usize,
    /// The headers of the connection's segments, in bytes.
    header_len: usize,
}

impl<'a> Next<'a> {
    /// Takes the chunks; `None` if there is no room for bulk.
    fn reserve(socket: &'a mut Socket, session: &'a mut Session, below_tcp: usize) -> Option<Self> {
        let index = socket.id.index;
        let Kind::Stream(c) = &mut socket.kind else {
            return None;
        };
        let header_len = below_tcp
            + if c.tcb.has_timestamps() {
                tcp::PLAIN_LEN
            } else {
                tcp::HEADER_LEN
            };
        let most = (RECV_ROOM - header_len) as u64;
        let room = c.tcb.receive_status().predicted_room().min(most) as usize;
        let slab = &mut session.host.receive;
        if room < BULK || index == NONE || slab.available() < SPARE_CHUNKS {
            return None;
        }
        let (base, at) = (c.tcb.rcv_consumed(), c.tcb.rcv_edge());
        c.rcv.reserve(base, at, room, slab, index).ok()?;
        Some(Self {
            c,
            session,
            at,
            room,
            header_len,
        })
    }

    /// The places of the payload.
    fn rooms(&self) -> SharedRooms<'_> {
        let rooms = self
            .c
            .rcv
            .rooms(self.at, self.room, &self.session.host.receive);
        rooms.unwrap_or_default()
    }

    /// Takes the segment of a frame that was received, if it is the one that the connection
    /// predicts, and all of its payload is where it belongs; says how much that is.
    fn take(&mut self, segment: &[u8], gso_size: u16, now: Instant) -> Option<usize> {
        let c = &mut *self.c;
        let len = if c.tcb.has_timestamps() {
            take_predicted::<true>(&mut c.tcb, segment, self.room, gso_size, now)
        } else {
            take_predicted::<false>(&mut c.tcb, segment, self.room, gso_size, now)
        }?;
        let (base, slab) = (c.tcb.rcv_consumed(), &self.session.host.receive);
        c.rcv.take_in_place(base, self.at, len, slab);
        Some(len)
    }

    /// Gives chunks back that were reserved in vain, if all that came before was read: nobody
    /// would say so again.
    fn give_back(self) {
        let consumed = self.c.tcb.rcv_consumed();
        if consumed == self.c.tcb.rcv_edge() {
            let slab = &mut self.session.host.receive;
            self.c.rcv.consume(consumed, true, slab);
        }
    }
}

/// Takes a segment that a connection predicts, with at most `room` bytes of payload; says with
/// how many.
fn take_predicted<const TIMESTAMPS: bool>(
    tcb: &mut Tcb,
    segment: &[u8],
    room: usize,
    gso_size: u16,
    now: Instant,
) -> Option<usize> {
    let (predicted, payload) = tcb.predicts_segment::<TIMESTAMPS>(segment)?;
    if payload.is_empty() || payload.len() > room {
        return None;
    }
    predicted.take_outlined(gso_size, now);
    Some(payload.len())
}

impl Stack {
    /// As `receive_bulk`; `None` if nothing can be received into place, and was not.
    pub(super) fn receive_next(
        &mut self,
        buffer: &mut RecvBuffer,
        is_first: bool,
    ) -> Option<Received> {
        let BulkRun { key, is_v6, .. } = self.bulk_run;
        let ip = if is_v6 {
            ipv6::HEADER_LEN
        } else {
            ipv4::HEADER_LEN
        };
        let below_tcp = self.link.output.device.capabilities().link_header_len() + ip;
        let port = self.link.output.device.port_mut();
        if !port.receives_in_place() || self.endpoints.demux.cached_key(is_v6) != key {
            return None;
        }
        self.endpoints.sessions.at_work = AtWork::Socket(key);
        let socket = self.endpoints.sockets.slab.get_mut(key)?;
        let session = self.endpoints.sessions.get_unshown_mut(socket.session)?;
        let mut next = Next::reserve(socket, session, below_tcp)?;
        let received = port.recv_in_place(buffer, next.header_len, &next.rooms());
        let Ok(Some(meta)) = received else {
            next.give_back();
            return Some(Received::Usual(received));
        };
        // What was asked for before the segment came is done before it is taken.
        let waits = is_first && next.session.host.pending.has_any();
        let mut segment = None;
        if !waits && meta.checksum != RxChecksum::Unknown {
            let frame = buffer.frame(meta.len);
            segment = self.endpoints.demux.cached_segment_of(
                is_v6,
                frame,
                self.link.output.device.is_bare(),
            );
        }
        let gso_size = meta.gso.map_or(0, |g| g.size);
        if let Some(len) = segment.and_then(|s| next.take(s, gso_size, self.now)) {
            self.bulk_run.note_frame(meta.len);
            if len >= BULK {
                self.bulk_run.note_right();
                self.bulk_run.note_bulk(key, is_v6);
            }
            self.counters.prediction.data += 1;
            self.counters.prediction.in_place += 1;
            self.endpoints.sockets.touch(key);
            return Some(Received::InPlace(meta));
        }
        if meta.len > next.header_len {
            buffer.close_gap(next.header_len, meta.len, &next.rooms());
            self.counters.prediction.in_place_missed += 1;
            if !waits {
                self.bulk_run.note_wrong();
            }
        }
        next.give_back();
        Some(Received::Usual(received))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of bulk of one connection, so many in a row.
    fn come(run: &mut BulkRun, frames: u8) {
        for _ in 0..frames {
            run.note_frame(BULK);
            assert!(!run.is_likely(), "it is not known yet what it is");
            run.note_data(1, false, BULK);
        }
    }

    /// A stack with its only session, and so many frames.
    fn run_of(frames: u8) -> BulkRun {
        let mut run = BulkRun::new();
        run.note_session(true);
        come(&mut run, frames);
        run
    }

    #[test]
    fn another_frame_of_bulk_is_expected_after_some() {
        assert!(!run_of(LEAST_RUN - 1).is_likely());
        let mut run = run_of(LEAST_RUN);
        assert!(run.is_likely());
        // One that is short may be the end of what was written at once.
        run.note_frame(BULK - 1);
        assert!(run.is_likely());
        run.note_frame(BULK - 1);
        assert!(!run.is_likely());
        come(&mut run, 1);
        assert!(!run.is_likely(), "the run is another");
        // Of another connection; and a long one of none.
        for between in [true, false] {
            let mut run = run_of(LEAST_RUN);
            run.note_frame(BULK);
            assert!(!run.is_likely());
            if between {
                run.note_data(2, false, BULK);
            }
            come(&mut run, 1);
            assert!(!run.is_likely());
        }
    }

    /// Of two sessions neither may see what the other's peers send.
    #[test]
    fn nothing_is_expected_where_there_is_another_session() {
        let mut run = run_of(LEAST_RUN);
        assert!(run.is_permitted());
        run.note_session(true);
        assert!(!run.is_permitted() && !run.is_likely());
        come(&mut run, LEAST_RUN);
        assert!(!run.is_likely());
        let mut run = BulkRun::new();
        run.note_session(false);
        assert!(!run.is_permitted());
    }

    #[test]
    fn what_was_wrong_takes_a_longer_run_and_what_was_right_a_shorter_one() {
        let wanted = |run: &mut BulkRun| {
            run.note_frame(BULK);
            run.note_data(2, false, BULK);
            let mut frames = 0;
            while !run.is_likely() {
                come(run, 1);
                frames += 1;
            }
            frames
        };
        // A run that is long enough all the same goes on.
        let mut run = run_of(LEAST_RUN + LONGER_BY);
        run.note_wrong();
        assert!(run.is_likely());
        run.note_wrong();
        assert!(!run.is_likely());
        assert_eq!(wanted(&mut run), LEAST_RUN + 2 * LONGER_BY);
        (0..LONGER_BY).for_each(|_| run.note_right());
        assert_eq!(wanted(&mut run), LEAST_RUN + LONGER_BY);
        run.note_right();
        assert_eq!(wanted(&mut run), LEAST_RUN + LONGER_BY - 1);
        (0..9).for_each(|_| run.note_right());
        assert_eq!(wanted(&mut run), LEAST_RUN);
        (0..99).for_each(|_| run.note_wrong());
        assert_eq!(wanted(&mut run), LONGEST_RUN);
    }
}
