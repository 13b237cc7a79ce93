//! Segments of half-open connections, and the timers of these.

use super::TcpInput;
use crate::at_work::AtWork;
use crate::demux::Found;
use crate::handshake::Advanced;
use crate::responder::Response;
use longshore_tcp::Segment;
use longshore_wire::tcp::TcpFlags;

impl TcpInput<'_> {
    /// Does what a segment of a handshake asks for: if that is complete, its connection is handed
    /// over.
    pub(super) fn take_advanced(&mut self, advanced: Advanced, payload: &[u8]) -> Response {
        match advanced {
            Advanced::Remains(response) => response,
            Advanced::Complete(made, disposition) => {
                self.handshake_done(made, &disposition, payload)
            }
        }
    }

    /// A segment of a half-open connection.
    pub(super) fn segment_for_half_open(
        &mut self,
        key: u32,
        segment: &Segment<'_>,
        payload: &[u8],
    ) -> Response {
        if let Some(connection) = self.end_hold_before(key, segment) {
            return self.segment_for(connection, segment, payload);
        }
        let now = self.responder.now;
        if self.handshakes().is_held_back(key, segment) {
            return Response::Nothing;
        }
        let (sockets, settings) = (&self.endpoints.sockets, &self.settings);
        if self
            .endpoints
            .half_open
            .is_held_for_data(key, segment, sockets, settings, now)
        {
            return Response::Nothing;
        }
        let advanced = self.handshakes().advance(key, segment, payload, now);
        self.take_advanced(advanced, payload)
    }

    /// Retransmits the SYN-ACKs that are due; says whether any was.
    pub(crate) fn retransmit_syn_acks(&mut self) -> bool {
        if self.endpoints.half_open.is_empty() {
            return false;
        }
        let now = self.responder.now;
        let mut due = self.endpoints.half_open.take_due(now);
        let any = !due.is_empty();
        for key in due.drain(..) {
            self.endpoints.sessions.at_work = AtWork::HalfOpen(key);
            if !self.endpoints.half_open.is_due(key, now) || self.end_hold(key) {
                continue;
            }
            self.handshakes().time_out(key);
        }
        self.endpoints.half_open.keep_due(due);
        any
    }

    /// If something was put aside of a half-open connection, and this segment of it brings
    /// more, that is looked at first; the connection that it is then.
    fn end_hold_before(&mut self, key: u32, segment: &Segment<'_>) -> Option<u32> {
        let half = self.endpoints.half_open.get(key)?;
        half.is_held_until()?;
        let flags = segment.header.flags;
        let brings_more = segment.payload_len != 0 || flags.contains(TcpFlags::FIN);
        if !brings_more || flags.intersects(TcpFlags::RST | TcpFlags::SYN) {
            return None;
        }
        let flow = half.flow;
        self.end_hold(key);
        match self.endpoints.demux.peek(&flow) {
            Some(Found::Socket(connection)) => Some(connection),
            _ => None,
        }
    }

    /// Looks at what was put aside of a half-open connection; `false` if nothing was. If it
    /// must not be established now, it is as if that had been lost.
    fn end_hold(&mut self, key: u32) -> bool {
        let Some(held) = self.endpoints.half_open.take_held(key) else {
            return false;
        };
        let Some((local, remote)) = self
            .endpoints
            .half_open
            .get(key)
            .map(|half| half.flow.sides())
        else {
            return true;
        };
        let segment = held.segment();
        let mut handshakes = self.handshakes();
        if !handshakes.is_held_back(key, &segment) {
            let advanced = handshakes.advance(key, &segment, &[], held.came());
            let response = self.take_advanced(advanced, &[]);
            self.respond(response, local, remote, &segment, &[]);
        }
        true
    }
}
