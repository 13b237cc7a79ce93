//! TCP segments in: to a connection, to TIME-WAIT, to a listener, or nowhere.
//!
//! Owns [`TcpInput`], whose ways with a listener's and with half-open connections are in files of
//! their own. `input` brings segments whose checksums are right.

mod half_open;
mod listener;

use crate::admission::Admission;
use crate::at_work::AtWork;
use crate::demux::{Flow, Found};
use crate::endpoints::Endpoints;
use crate::handshake::Handshakes;
use crate::input::Carried;
use crate::responder::{Responder, Response};
use crate::settings::Settings;
use crate::socket::{Kind, PayloadMoved};
use longshore_hostif::{Moved, NONE};
use longshore_tcp::{Disposition, DropReason, Ecn, Segment, TimeWaitVerdict, reset_for};
use longshore_wire::tcp::TcpHeader;
use std::net::SocketAddr;

/// What segments do: borrows the connections with what finds them and what answers for those that
/// there are not. The stack makes one for each segment that was not predicted, and for the timers
/// of half-open connections.
pub(crate) struct TcpInput<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) responder: Responder<'a>,
    pub(crate) settings: &'a Settings,
}

impl TcpInput<'_> {
    /// The half-open connections, with what their handshakes need.
    fn handshakes(&mut self) -> Handshakes<'_> {
        Handshakes {
            endpoints: self.endpoints,
            responder: self.responder.reborrow(),
        }
    }

    /// What lets connections in, and ends them.
    fn admission(&mut self) -> Admission<'_> {
        Admission {
            endpoints: self.endpoints,
            link: self.responder.link,
            settings: self.settings,
            counters: self.responder.counters,
            now: self.responder.now,
        }
    }

    /// A TCP segment whose checksum is right.
    pub(crate) fn tcp_in(&mut self, carried: &Carried<'_>) {
        let (ip, bytes, gso) = (&carried.packet, carried.bytes, carried.gso);
        let (header, header_len) = match TcpHeader::parse(bytes) {
            Ok(parsed) => parsed,
            Err(e) => return self.responder.counters.drop_wire(e),
        };
        let payload = bytes.get(header_len..).unwrap_or_default();
        let segment = Segment {
            header: &header,
            payload_len: payload.len() as u32,
            gso_size: gso,
            ecn: match ip.ecn() {
                1 => Ecn::Capable1,
                2 => Ecn::Capable0,
                3 => Ecn::Congested,
                _ => Ecn::NotCapable,
            },
        };
        self.responder.counters.prediction.missed += 1;
        let local = SocketAddr::new(ip.destination(), header.dst_port);
        let remote = SocketAddr::new(ip.source(), header.src_port);
        let flow = Flow::new(local, remote);
        match self.endpoints.demux.find(&flow) {
            Some(Found::Socket(key)) => {
                let response = self.segment_for(key, &segment, payload);
                self.respond(response, local, remote, &segment, payload);
            }
            Some(Found::HalfOpen(key)) if self.endpoints.half_open.is_given_up(key) => {
                // It was to be reset, and is as if it had been.
                let _ = self.handshakes().take_half_open(key);
                self.segment_for_listener((local, remote), &segment, payload, None);
            }
            Some(Found::HalfOpen(key)) => {
                let response = self.segment_for_half_open(key, &segment, payload);
                self.respond(response, local, remote, &segment, payload);
            }
            Some(Found::TimeWait) => {
                self.segment_in_time_wait(&flow, (local, remote), &segment, payload);
            }
            None => self.segment_for_listener((local, remote), &segment, payload, None),
        }
    }

    /// A segment of a connection that is one of the sockets.
    fn segment_for(&mut self, key: u32, segment: &Segment<'_>, payload: &[u8]) -> Response {
        let now = self.responder.now;
        self.endpoints.sessions.at_work = AtWork::Socket(key);
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return Response::Nothing;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return Response::Nothing;
        };
        let before = c.tcb.state();
        let fast_opened = c.tcb.is_fast_opened();
        if !payload.is_empty() {
            self.endpoints.sockets.see_to_room(
                key,
                segment.header.seq,
                &mut self.endpoints.sessions,
                self.responder.counters,
            );
        }
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return Response::Nothing;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return Response::Nothing;
        };
        let disposition = c.tcb.on_segment(segment, now);
        let has_data = u64::from(!payload.is_empty());
        if disposition.fast_path {
            // A packet of our own to ourselves, which comes this way.
            self.responder.counters.prediction.missed -= 1;
            self.responder.counters.prediction.data += has_data;
            self.responder.counters.prediction.acks += 1 - has_data;
        } else {
            self.responder.counters.prediction.missed_data += has_data;
        }
        let (state, session) = (c.tcb.state(), socket.session);
        match disposition.drop {
            Some(DropReason::NoRoom) => self
                .endpoints
                .sessions
                .arena_is_full(session, self.responder.counters),
            Some(reason) => self.responder.counters.drop_tcp(reason),
            None => {}
        }
        if !before.is_synchronized() && state.is_synchronized() {
            if fast_opened {
                self.endpoints.sockets.fast_open_done(key);
            } else if let Some((server, outcome)) = self.endpoints.sockets.fast_open_outcome(key) {
                self.responder.link.fast_open.learn(server, &outcome, now);
            }
        }
        let response = self.finish_segment(key, &disposition, payload);
        if let Some(iss_after) = disposition.reopen {
            self.admission().endings().forget(key);
            return Response::Reopen(iss_after);
        }
        response
    }

    /// Keeps the payload of a segment that its connection has handled, and has what there is
    /// to send seen to.
    fn finish_segment(&mut self, key: u32, disposition: &Disposition, payload: &[u8]) -> Response {
        let owes_dsack = self
            .endpoints
            .sockets
            .connection_mut(key)
            .is_some_and(|c| c.tcb.receive_status().owes_dsack());
        if let Some(place) = disposition.place {
            let (skip, len) = (place.skip as usize, place.len as usize);
            if let Some(bytes) = payload.get(skip..skip + len) {
                self.place(key, place.stream_offset, bytes);
            }
        }
        self.endpoints.sockets.touch(key);
        if owes_dsack {
            // What else there is to send is seen to at the end of the turn.
            let (sessions, link) = (&mut self.endpoints.sessions, &mut *self.responder.link);
            let counters = &mut *self.responder.counters;
            let _ =
                self.endpoints
                    .sockets
                    .transmit(key, sessions, link, counters, self.responder.now);
        }
        Response::of(disposition)
    }

    /// Does what a segment asks for beside what its connection sends.
    fn respond(
        &mut self,
        what: Response,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
        match what {
            Response::Nothing => {}
            Response::Reset => {
                if let Some(reset) = reset_for(segment) {
                    self.responder.send_reset(local, remote, &reset);
                }
            }
            Response::Reopen(iss_after) => {
                self.segment_for_listener((local, remote), segment, payload, Some(iss_after));
            }
        }
    }

    /// Puts payload where its host reads it, `at` so many bytes of the stream.
    fn place(&mut self, key: u32, at: u64, bytes: &[u8]) {
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let Some(s) = self.endpoints.sessions.get_unshown_mut(socket.session) else {
            return;
        };
        if socket.id.index == NONE {
            return;
        }
        let (base, index) = (c.tcb.rcv_consumed(), socket.id.index);
        let slab = &mut s.host.receive;
        if !socket.subscribers.are_several()
            && c.rcv
                .hold([base, c.reported.rcv_edge, at], bytes, slab, index)
        {
            return;
        }
        match c.rcv.place(base, at, bytes, slab, index) {
            Ok(pieces) => {
                let count = [
                    &mut socket.payload.to_host,
                    &mut s.host.meter.to_host.payload,
                ];
                let moved = Moved::of_stream(pieces, at, bytes.len() as u64);
                PayloadMoved::count(count, &moved);
            }
            // It was made sure that there is room; if there is none all the
            // same, the stream has a hole that nothing can fill.
            Err(_) => {
                let session = socket.session;
                self.endpoints
                    .sessions
                    .arena_is_full(session, self.responder.counters);
                self.admission().transfers().abort(key);
            }
        }
    }

    /// A segment of a connection in TIME-WAIT (RFC 9293 section 3.10.7.4).
    fn segment_in_time_wait(
        &mut self,
        flow: &Flow,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
        let now = self.responder.now;
        let Some(waiting) = self.endpoints.demux.waiting(flow) else {
            return;
        };
        match waiting.record.on_segment(segment, now) {
            TimeWaitVerdict::Drop(reason) => self.responder.counters.drop_tcp(reason),
            TimeWaitVerdict::Ack(ack) => {
                let header = ack.header(local.port(), remote.port());
                self.responder.send_bare(local, remote, &header);
            }
            TimeWaitVerdict::Close => self.endpoints.demux.end_wait(flow),
            TimeWaitVerdict::Reopen { iss_after } => {
                self.endpoints.demux.end_wait(flow);
                self.segment_for_listener((local, remote), segment, payload, Some(iss_after));
            }
        }
    }
}
