//! TCP segments in: to a connection, to TIME-WAIT, to a listener, or nowhere.

use crate::connection::RequestError;
use crate::cookies::Sides;
use crate::counters::EngineDrop;
use crate::demux::{Flow, Found};
use crate::ends::{Ends, Service, headers_of_segment};
use crate::engine::Engine;
use crate::input::IpPacket;
use crate::link::Way;
use crate::scarcity::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::socket::{Connection, Kind, Socket};
use longshore_hostif::{ACCEPT_RECORD, AcceptRecord, Address, SocketId, SocketState};
use longshore_ring::NONE;
use longshore_tcp::{
    DropReason, Ecn, ListenVerdict, Segment, State, Tcb, TimeWaitVerdict, reset_for,
};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::SocketAddr;

/// What a segment asks for beside what its connection sends.
enum Beside {
    Nothing,
    /// A reset in answer.
    Reset,
    /// The connection is over, and this is the SYN of the next: it goes to the
    /// listener, and the new ISS after this number.
    Reopen(SeqNumber),
}

impl Engine {
    /// A TCP segment whose checksum is right.
    pub(crate) fn tcp_in<P: IpPacket>(&mut self, ip: &P, bytes: &[u8], gso: u16) {
        let (header, header_len) = match TcpHeader::parse(bytes) {
            Ok(parsed) => parsed,
            Err(e) => return self.counters.drop_wire(e),
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
        self.counters.unpredicted += 1;
        let local = SocketAddr::new(ip.destination(), header.dst_port);
        let remote = SocketAddr::new(ip.source(), header.src_port);
        let flow = Flow::new(local, remote);
        match self.demux.find(&flow) {
            Some(Found::Socket(key)) => {
                let beside = self.segment_for(key, &segment, payload);
                self.answer_beside(beside, local, remote, &segment, payload);
            }
            Some(Found::TimeWait) => {
                self.segment_in_time_wait(&flow, (local, remote), &segment, payload);
            }
            None => self.segment_for_listener((local, remote), &segment, payload, None),
        }
    }

    fn segment_for(&mut self, key: u32, segment: &Segment<'_>, payload: &[u8]) -> Beside {
        let now = self.now;
        if self.is_held_back(key, segment) {
            return Beside::Nothing;
        }
        let Some(socket) = self.sockets.get_mut(key) else {
            return Beside::Nothing;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return Beside::Nothing;
        };
        let before = c.tcb.state();
        let fast_opened = c.tcb.is_fast_opened();
        let was_half_open = before == State::SynReceived && c.listener.is_some() && !fast_opened;
        if !payload.is_empty() && !was_half_open {
            self.see_to_room(key, segment.header.seq);
        }
        let Some(socket) = self.sockets.get_mut(key) else {
            return Beside::Nothing;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return Beside::Nothing;
        };
        let disposition = c.tcb.on_segment(segment, now);
        let has_data = u64::from(!payload.is_empty());
        if disposition.fast_path {
            // A packet of our own to ourselves, which comes this way.
            self.counters.unpredicted -= 1;
            self.counters.predicted_data += has_data;
            self.counters.predicted_acks += 1 - has_data;
        } else {
            self.counters.unpredicted_data += has_data;
        }
        let (state, session) = (c.tcb.state(), socket.session);
        let owes_dsack = c.tcb.owes_dsack();
        match disposition.drop {
            Some(DropReason::NoRoom) => self.arena_is_full(session),
            Some(reason) => self.counters.drop_tcp(reason),
            None => {}
        }
        if !before.is_synchronized() && state.is_synchronized() {
            if was_half_open {
                self.established(key);
            } else if fast_opened {
                self.fast_open_done(key);
            } else {
                self.learn_fast_open(key);
            }
        }
        if let Some(place) = disposition.place {
            let (skip, len) = (place.skip as usize, place.len as usize);
            if let Some(bytes) = payload.get(skip..skip + len) {
                self.place(key, place.stream_offset, bytes);
            }
        }
        self.touch(key);
        if owes_dsack {
            // What else there is to send is seen to at the end of the turn.
            let _ = self.transmit(key);
        }
        if let Some(iss_after) = disposition.reopen {
            self.forget(key);
            return Beside::Reopen(iss_after);
        }
        if disposition.reset {
            Beside::Reset
        } else {
            Beside::Nothing
        }
    }

    /// Does what a segment asks for beside what its connection sends.
    fn answer_beside(
        &mut self,
        what: Beside,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
        match what {
            Beside::Nothing => {}
            Beside::Reset => {
                if let Some(reset) = reset_for(segment) {
                    self.send_reset(local, remote, &reset);
                }
            }
            Beside::Reopen(iss_after) => {
                self.segment_for_listener((local, remote), segment, payload, Some(iss_after));
            }
        }
    }

    pub(crate) fn place(&mut self, key: u32, at: u64, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        if socket.id.index == NONE {
            return;
        }
        let base = c.tcb.rcv_consumed();
        match c
            .rcv
            .place(base, at, bytes, &mut s.rcv_slab, &s.arena, socket.id.index)
        {
            Ok(pieces) => {
                let count = [&mut socket.meter.to_host, &mut s.meter.to_host];
                Socket::count_payload(count, pieces, bytes.len() as u64);
            }
            // It was made sure that there is room; if there is none all the
            // same, the stream has a hole that nothing can fill.
            Err(_) => {
                let session = socket.session;
                self.arena_is_full(session);
                self.abort(key);
            }
        }
    }

    /// Whether a segment for a half-open connection has to be dropped, because
    /// the connection must not be established now.
    fn is_held_back(&mut self, key: u32, segment: &Segment<'_>) -> bool {
        let Some(socket) = self.sockets.get(key) else {
            return true;
        };
        let Kind::Stream(c) = &socket.kind else {
            return false;
        };
        let (Some(listener), State::SynReceived) = (c.listener, c.tcb.state()) else {
            return false;
        };
        if c.tcb.is_fast_opened() {
            return false;
        }
        let flags = segment.header.flags;
        if flags.intersects(TcpFlags::RST | TcpFlags::SYN) || !flags.contains(TcpFlags::ACK) {
            return false;
        }
        let Some(l) = self.sockets.get(listener) else {
            return true;
        };
        let Kind::Listener(l) = &l.kind else {
            return true;
        };
        let bare = segment.payload_len == 0 && !flags.contains(TcpFlags::FIN);
        let reason = if !l.listener.may_establish() {
            Some(DropReason::AcceptQueueFull)
        } else if bare && l.listener.defers_accept(c.tcb.handshake_repeats()) {
            Some(DropReason::DeferAccept)
        } else {
            None
        };
        let resets = l.listener.aborts_on_overflow();
        if let Some(reason) = reason {
            self.counters.drop_tcp(reason);
            if resets && reason == DropReason::AcceptQueueFull {
                self.abort(key);
            }
            return true;
        }
        let session = socket.session;
        // Its listener's stream may need one for the record of it.
        let full = self
            .sessions
            .get(session)
            .is_none_or(|s| s.rcv_slab.available() < FEW_CHUNKS + 1);
        if full {
            self.arena_is_full(session);
        }
        full
    }

    /// A connection that came in is established: it gets a block, and its
    /// listener's host a record of it.
    pub(crate) fn established(&mut self, key: u32) {
        if self.hand_over(key).is_err() {
            self.counters.drop(EngineDrop::NoSocketLeft);
            self.listener_lost(key);
            self.abort(key);
        }
    }

    pub(crate) fn hand_over(&mut self, key: u32) -> Result<(), RequestError> {
        let missing = RequestError::NoSocket;
        let socket = self.sockets.get(key).ok_or(missing)?;
        let (listener_key, remote) = match &socket.kind {
            Kind::Stream(c) => (c.listener.ok_or(missing)?, c.remote),
            Kind::Pair(p) => (p.listener.ok_or(missing)?, p.remote),
            _ => return Err(missing),
        };
        let local = socket.local.ok_or(missing)?;
        let (session_key, options) = (socket.session, socket.options);
        let session = self.sessions.get_mut(session_key).ok_or(missing)?;
        let arena = session.arena.clone();
        let index = arena
            .header()
            .free_sockets
            .pop(arena.socket_links())
            .ok()
            .flatten()
            .ok_or(missing)?;
        // A program that gave back what is in use harms itself: the index is
        // ours as long as our table says so.
        let block = arena.get_block(index).ok_or(missing)?;
        if session.key(index).is_some() {
            session.bad_descriptors += 1;
            return Err(missing);
        }
        let generation = block.begin(SocketState::Connected, options.block_flags());
        let (v6, id) = (options.ipv6, SocketId { index, generation });
        let (local, peer) = (
            Address::from(as_family(local, v6)),
            Address::from(as_family(remote, v6)),
        );
        block.set_local(local);
        block.set_peer(peer);
        options.write_send_limit(block);
        session.enter(id, key);
        let listener = self.sockets.get_mut(listener_key).ok_or(missing)?;
        let subscribers = listener.subscribers;
        let record = AcceptRecord {
            socket: id,
            local,
            peer,
            rcv_edge: 0,
            subscriber: subscribers.single(),
        };
        let Kind::Listener(l) = &mut listener.kind else {
            return Err(missing);
        };
        let (base, at, listener_index) = (l.rcv_consumed, l.rcv_edge, listener.id.index);
        let placed = l.rcv.place(
            base,
            at,
            &record.encode(),
            &mut session.rcv_slab,
            &arena,
            listener_index,
        );
        let pieces = placed.map_err(|_| missing)?;
        l.rcv_edge += ACCEPT_RECORD as u64;
        l.queue.push_back(key);
        l.listener.on_established();
        let count = [&mut listener.meter.to_host, &mut session.meter.to_host];
        Socket::count_payload(count, pieces, ACCEPT_RECORD as u64);
        let socket = self.sockets.get_mut(key).ok_or(missing)?;
        socket.id = id;
        socket.subscribers = crate::session::Subscribers::of_accepted(&subscribers);
        self.heed_receive_buffer(key);
        self.counters.passive_opens += 1;
        self.touch(listener_key);
        Ok(())
    }

    /// A half-open connection is gone: its listener counts one less.
    pub(crate) fn listener_lost(&mut self, key: u32) {
        let Some(Kind::Stream(c)) = self.sockets.get_mut(key).map(|s| &mut s.kind) else {
            return;
        };
        let Some(listener) = c.listener.take() else {
            return;
        };
        if let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.listener.on_half_open_gone();
        }
    }

    fn segment_in_time_wait(
        &mut self,
        flow: &Flow,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
        let now = self.now;
        let Some(waiting) = self.demux.waiting(flow) else {
            return;
        };
        match waiting.record.on_segment(segment, now) {
            TimeWaitVerdict::Drop(reason) => self.counters.drop_tcp(reason),
            TimeWaitVerdict::Ack(ack) => {
                let header = ack.header(local.port(), remote.port());
                self.send_bare(local, remote, &header);
            }
            TimeWaitVerdict::Close => self.demux.end_wait(flow),
            TimeWaitVerdict::Reopen { iss_after } => {
                self.demux.end_wait(flow);
                self.segment_for_listener((local, remote), segment, payload, Some(iss_after));
            }
        }
    }

    fn segment_for_listener(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        payload: &[u8],
        iss_after: Option<SeqNumber>,
    ) {
        let spread = self.demux.hash((local, remote));
        let found = self.demux.tcp.find(local, true, spread);
        let Some((key, socket)) = found.and_then(|key| Some((key, self.sockets.get_mut(key)?)))
        else {
            self.counters.drop_tcp(DropReason::NoConnection);
            if let Some(reset) = reset_for(segment) {
                self.send_reset(local, remote, &reset);
            }
            return;
        };
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        match l.listener.on_segment(segment, self.now) {
            ListenVerdict::Drop(reason) => self.counters.drop_tcp(reason),
            ListenVerdict::Reset(reset) => self.send_reset(local, remote, &reset),
            ListenVerdict::AnswerWithCookie => {
                let options = socket.options;
                self.answer_with_cookie((local, remote), &options, segment);
            }
            ListenVerdict::CheckCookie(reset) => {
                if let Some(made) = self.check_cookie(key, (local, remote), segment, &reset) {
                    let beside = self.segment_for(made, segment, payload);
                    self.answer_beside(beside, local, remote, segment, payload);
                }
            }
            ListenVerdict::Accept => {
                l.listener.on_half_open();
                let (options, session) = (socket.options, socket.session);
                let slab = self.sessions.get(session).map(|s| &s.rcv_slab);
                let room = slab.is_some_and(|slab| slab.available() >= SPARE_CHUNKS);
                let verdict = self.judge_fast_open(key, (local, remote), segment, room);
                let made = self.half_open(key, session, options, local, remote, segment, iss_after);
                self.open_fast(made, key, verdict, segment, payload);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is the SYN's")]
    fn half_open(
        &mut self,
        listener: u32,
        session: u32,
        options: crate::socket::Options,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment<'_>,
        iss_after: Option<SeqNumber>,
    ) -> u32 {
        let now = self.now;
        let mss = self.mss_to(remote);
        let iss = match iss_after {
            Some(after) => after.add(1),
            None => self.initial_sequence(local, remote),
        };
        let tcb = Tcb::accept(
            &options.tcp_to(remote),
            segment,
            mss,
            iss,
            self.timestamp_offset(local, remote),
            now,
        );
        self.enter_half_open(listener, session, options, (local, remote), tcb)
    }

    /// A connection in SYN-RECEIVED is one of the engine's from now on.
    pub(crate) fn enter_half_open(
        &mut self,
        listener: u32,
        session: u32,
        options: crate::socket::Options,
        (local, remote): Sides,
        tcb: Tcb,
    ) -> u32 {
        let connection = Connection::new(tcb, local, remote, Some(listener));
        let flow = connection.flow;
        let id = SocketId {
            index: NONE,
            generation: 0,
        };
        let mut socket = Socket::new(id, session, None, options, Kind::Stream(connection));
        socket.local = Some(local);
        let key = self.sockets.insert(socket);
        self.demux.insert(flow, key);
        self.touch(key);
        key
    }

    pub(crate) fn send_reset(&mut self, local: SocketAddr, remote: SocketAddr, header: &TcpHeader) {
        self.counters.resets_out += 1;
        self.send_bare(local, remote, header);
    }

    /// Sends a segment without payload that belongs to no block. If the next
    /// hop is not known it is dropped: whoever asked will ask again.
    pub(crate) fn send_bare(&mut self, local: SocketAddr, remote: SocketAddr, header: &TcpHeader) {
        let Some(ends) = Ends::new(local.ip(), remote.ip()) else {
            return;
        };
        let way = self.link.way(&ends, self.now, &mut self.counters);
        if !matches!(way, Way::Station(_) | Way::Own) {
            return self.counters.drop(EngineDrop::Unresolved);
        }
        let sent = self
            .link
            .send_segment(&ends, way, Service::DEFAULT, header, &[], None);
        if sent.is_err() {
            self.counters.drop(EngineDrop::PortRefused);
        }
        self.counters.segments_out += 1;
    }

    /// ISS of a connection that is made now.
    pub(crate) fn initial_sequence(&self, local: SocketAddr, remote: SocketAddr) -> SeqNumber {
        self.demux.initial_sequence(local, remote, self.now)
    }

    /// RFC 7323 section 7.1: timestamps start elsewhere for each peer.
    pub(crate) fn timestamp_offset(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        self.demux.hash(("timestamps", local.ip(), remote.ip())) as u32
    }

    /// Payload that fits a packet to `remote` beside headers without options.
    pub(crate) fn mss_to(&self, remote: SocketAddr) -> u16 {
        let headers = headers_of_segment(remote.ip());
        let mtu = self.link.mtu_to(remote.ip(), self.now);
        (mtu.saturating_sub(headers)).min(65_495) as u16
    }
}

/// An address as a socket of its family shows it.
pub(crate) fn as_family(address: SocketAddr, v6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(a) if v6 => SocketAddr::new(a.ip().to_ipv6_mapped().into(), a.port()),
        other => other,
    }
}
