//! What programs have asked goes to the parts that it is for, and what a turn has touched is flushed.

use super::Stack;
use crate::flush::{FEW, Left};
use crate::request_error::RequestError;
use crate::requests::{EdgesTaken, From, MORE_THAN_EDGES, Moved, NOTHING};
use crate::socket::{Kind, Socket};
use longshore_frames::RxMeta;
use longshore_hostif::Request;
use longshore_hostif::adapter::Immediate;

impl Stack {
    /// A frame of which nothing is known beforehand.
    #[inline(never)]
    pub(super) fn unpredicted_frame_in(&mut self, frame: &[u8], meta: &RxMeta) {
        self.answering().frame(frame, meta);
    }

    /// Takes where the edges of a socket's host are: what is asked most of all.
    #[inline(always)]
    pub(super) fn serve_edges(
        &mut self,
        from: From,
        request: &Request,
        immediate: &Immediate,
        moved: Moved,
    ) -> Result<(), RequestError> {
        // A late one, for a socket that is gone, is no fault, and nobody waits for its answer.
        let Some(key) = self.endpoints.key_of(from.session, request.socket()) else {
            return Ok(());
        };
        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
            socket.keep_immediate(immediate);
        }
        let (_, _, flags) = moved;
        if flags.intersects(MORE_THAN_EDGES) {
            return self.requests().move_edges(from, key, moved);
        }
        let mut transfers = self.endpoints.transfers(&mut self.counters, self.now);
        match transfers.take_edges(key, Some(from.channel), moved)? {
            EdgesTaken::All => Ok(()),
            taken => self
                .requests()
                .finish_edges(key, Some(from.channel), moved, taken),
        }
    }

    /// Does what else is asked.
    #[inline(never)]
    pub(super) fn serve(&mut self, from: From, request: &Request) -> Result<(), RequestError> {
        let id = request.socket();
        if let Request::Open { kind, flags, .. } = *request {
            return self.requests().setup.open(from, id, kind, flags);
        }
        let Some(key) = self.endpoints.key_of(from.session, id) else {
            self.endpoints.sessions.refuse_unknown(from, request);
            return Ok(());
        };
        match request {
            Request::Cancel { .. } => {
                let done = self.flushing().cancel_connecting(key).map(|()| NOTHING);
                self.endpoints.sessions.answer(from, request, done);
                return Ok(());
            }
            // What was sent to it before arrives first.
            Request::Close { .. }
            | Request::Connect { .. }
            | Request::Group { .. }
            | Request::Sources { .. } => {
                self.pass_on_to(key);
            }
            _ => {}
        }
        self.requests().serve(from, request, key)
    }

    /// Resets some of the connections whose listeners are over.
    #[inline(never)]
    pub(super) fn reset_some(&mut self) {
        self.flushing().admission().reset_some_waiting();
        self.answering().handshakes().reset_some_half_open();
    }

    /// A tick of the timer wheel has come.
    #[inline(never)]
    pub(super) fn handle_tick(&mut self) -> bool {
        self.answering().timeouts().handle_tick()
    }

    /// Looks at every socket that this turn has touched, as far as the shares of their users go.
    #[inline(never)]
    pub(super) fn flush_touched(&mut self) {
        self.endpoints.sockets.are_yet_to_report = false;
        self.endpoints.sockets.have_more_to_pass = false;
        self.endpoints.sockets.have_datagrams = false;
        if self.endpoints.sockets.dirty.len() > FEW
            || !self.endpoints.sockets.waiting_sessions.is_empty()
        {
            return self.flushing().by_shares();
        }
        let count = self.endpoints.sockets.dirty.len();
        for i in 0..count {
            let Some(key) = self.endpoints.sockets.dirty.get(i).copied() else {
                break;
            };
            self.flush_one(key);
        }
        // What was touched meanwhile (a connection with more to send) is next
        // turn's.
        if self.endpoints.sockets.dirty.len() == count {
            self.endpoints.sockets.dirty.clear();
        } else {
            self.endpoints.sockets.dirty.drain(..count);
        }
    }

    /// As `flush_touched`, of one of few.
    #[inline(never)]
    fn flush_one(&mut self, key: u32) {
        let (sessions, link) = (&mut self.endpoints.sessions, &mut self.link);
        let counters = &mut self.counters;
        let left = self
            .endpoints
            .sockets
            .flush_one(key, sessions, link, counters, self.now);
        if let Some(left) = left {
            self.finish_flush(key, left);
        }
    }

    #[inline(never)]
    fn finish_flush(&mut self, key: u32, left: Left) {
        self.flushing().finish(key, left);
    }

    /// What was sent to a UDP socket before arrives before its program changes what it takes, or
    /// closes it.
    fn pass_on_to(&mut self, key: u32) {
        let is_any = self.endpoints.sockets.have_datagrams || !self.link.output.own.is_empty();
        let is_datagram = |s: &Socket| matches!(s.kind, Kind::Datagram(_));
        if is_any && self.endpoints.sockets.get(key).is_some_and(is_datagram) {
            let at_work = self.endpoints.sessions.at_work;
            self.flushing().datagrams().flush_ahead();
            self.take_own_packets();
            self.endpoints.sessions.at_work = at_work;
        }
    }
}
