//! Connections that come in: from the SYN that finds a listener to the record in the
//! listener's stream by which its host learns of the connection.
//!
//! Owns the steps between, but for the time in which a connection is half-open
//! (`half_open`), for TCP and, from the record on, for a connection between two of our own.
//! `tcp_input` calls it for a segment that no connection takes; `half_open` and `cookies`
//! when a handshake is complete; `pair` to hand an end over.

use crate::Stack;
use crate::access::Transport;
use crate::account::SocketShare;
use crate::address_pair::Sides;
use crate::at_work::AtWork;
use crate::counters::{Counters, EngineDrop};
use crate::half_open::Handshakes;
use crate::host::Host;
use crate::memory_pressure::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::messages::Messages;
use crate::responder::Responder;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::socket::as_family;
use crate::socket::{Connection, Kind, Options, Socket};
use crate::tcp_input::Response;
use longshore_hostif::NONE;
use longshore_hostif::adapter::Subscribers;
use longshore_hostif::{ACCEPT_RECORD, AcceptRecord, EdgeFlags, Moved, SocketId};
use longshore_tcp::{Disposition, DropReason, ListenVerdict, Segment, Tcb, reset_for};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;

impl Sessions {
    /// Whether a session has memory for one connection more: its listener's stream may need
    /// some for the record of it.
    pub(crate) fn has_room_to_accept(&mut self, session: u32, counters: &mut Counters) -> bool {
        let has_room = self
            .get(session)
            .is_some_and(|s| s.host.receive.available() > FEW_CHUNKS);
        if !has_room {
            self.arena_is_full(session, counters);
        }
        has_room
    }
}

impl Handshakes<'_> {
    /// A listener accepts a SYN: a handshake begins, or, with a Fast Open cookie, a
    /// connection, whose key this is. `host` has the keys of cookies.
    pub(crate) fn accept_syn(
        &mut self,
        listener: u32,
        (local, remote): Sides,
        segment: &Segment<'_>,
        iss_after: Option<SeqNumber>,
        host: &dyn Host,
    ) -> Option<u32> {
        let now = self.responder.now;
        let socket = self.sockets.get(listener)?;
        let (options, session) = (socket.options, socket.session);
        let slab = self.sessions.get(session).map(|s| &s.host.receive);
        let room = slab.is_some_and(|slab| slab.available() >= SPARE_CHUNKS);
        let (demux, sides) = (&*self.demux, (local, remote));
        let listening = self.sockets.get_mut(listener)?;
        let verdict = listening.judge_fast_open((demux, host), sides, segment, room, now);
        let mss = self.responder.link.mss_to(remote.ip(), self.responder.now);
        let iss = match iss_after {
            Some(after) => after.add(1),
            None => self.demux.initial_sequence(local, remote, now),
        };
        let offset = self.demux.timestamp_offset(local, remote);
        let config = options.tcp_to(remote);
        let mut tcb = Tcb::accept(&config, segment, mss, iss, offset, now);
        if let Some(cookie) = verdict.give {
            tcb.give_fast_open_cookie(cookie);
        }
        if !verdict.accept {
            self.begin_handshake(listener, &options, (local, remote), tcb);
            return None;
        }
        let share = self
            .sessions
            .take_socket_share(session, self.responder.counters)
            .flatten();
        Some(self.enter_connection(listener, options, (local, remote), share, tcb))
    }

    /// A connection that came in through `listener` is one of the stack's sockets from now
    /// on; its key.
    pub(crate) fn enter_connection(
        &mut self,
        listener: u32,
        options: Options,
        (local, remote): Sides,
        share: Option<SocketShare>,
        tcb: Tcb,
    ) -> u32 {
        let session = self.sockets.get(listener).map_or(NONE, |s| s.session);
        let connection = Connection::new(tcb, local, remote, Some(listener));
        let flow = connection.flow;
        let id = SocketId {
            index: NONE,
            generation: 0,
        };
        let mut socket = Socket::new(id, session, None, options, Kind::Stream(connection));
        socket.local = Some(local);
        socket.share = share;
        let key = self.sockets.insert(socket);
        self.demux.insert(flow, key);
        self.sockets.touch(key);
        key
    }
}

impl Stack {
    /// A segment that no connection takes goes to the listener at its address; where there
    /// is none, a reset answers it. `iss_after`: the SYN follows a connection of the same
    /// addresses, whose sequence numbers ended there (RFC 6191).
    pub(crate) fn segment_for_listener(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        payload: &[u8],
        iss_after: Option<SeqNumber>,
    ) {
        if segment.header.flags & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN {
            self.limits.syn_came();
        }
        let spread = self.demux.hash((local, remote));
        let found = self.demux.tcp.find_listener(local, spread);
        self.sessions.at_work = found.map_or(AtWork::Nobodys, AtWork::Socket);
        let Some((key, socket)) = found.and_then(|key| Some((key, self.sockets.get_mut(key)?)))
        else {
            self.counters.drop_tcp(DropReason::NoConnection);
            if let Some(reset) = reset_for(segment) {
                self.responder().send_reset(local, remote, &reset);
            }
            return;
        };
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        if !self
            .settings
            .access
            .may_accept(Transport::Tcp, remote.ip(), local.port())
        {
            return self.counters.drop(EngineDrop::AccessDenied);
        }
        match l.listener.on_segment(segment, self.now) {
            ListenVerdict::Drop(reason) => self.counters.drop_tcp(reason),
            ListenVerdict::Reset(reset) => {
                self.counters.drop_tcp(DropReason::ListenNoSyn);
                self.responder().send_reset(local, remote, &reset);
            }
            ListenVerdict::AnswerWithCookie => {
                let options = socket.options;
                let mut responder = Responder {
                    link: &mut self.link,
                    limits: &mut self.limits,
                    counters: &mut self.counters,
                    now: self.now,
                };
                let sides = (local, remote);
                responder.answer_with_cookie(&self.demux, sides, &options, segment);
            }
            ListenVerdict::CheckCookie(_) | ListenVerdict::Accept
                if self
                    .sessions
                    .account_of(socket.session)
                    .is_some_and(|account| account.is_out_of_sockets()) =>
            {
                self.counters.drop(EngineDrop::UserSockets);
            }
            ListenVerdict::CheckCookie(reset) => {
                let sides = (local, remote);
                let mut handshakes = self.handshakes();
                let advanced = handshakes.check_cookie(key, sides, segment, &reset);
                let response = self.take_advanced(advanced, payload);
                self.respond(response, local, remote, segment, payload);
            }
            ListenVerdict::Accept => {
                // The keys of Fast Open's cookies are the host's.
                let (mut handshakes, settings) = self.handshakes_and_settings();
                let (sides, host) = ((local, remote), &*settings.host);
                let made = handshakes.accept_syn(key, sides, segment, iss_after, host);
                if let Some(made) = made {
                    self.open_fast(made, key, segment, payload);
                }
            }
        }
    }

    /// A connection has been made for a SYN whose cookie is right.
    fn open_fast(&mut self, key: u32, listener: u32, segment: &Segment<'_>, payload: &[u8]) {
        let now = self.now;
        let Some(c) = self.sockets.connection_mut(key) else {
            return;
        };
        c.fast_open_of = Some(listener);
        let disposition = c.tcb.accept_fast_open(segment, now);
        self.counters.tcp.fast_opens += 1;
        self.established(key);
        if let Some(place) = disposition.place
            && let Some(bytes) = payload.get(..place.len as usize)
        {
            self.place(key, place.stream_offset, bytes);
        }
    }

    /// The segment that ends a handshake was handled: its connection is handed over, and
    /// what else it asks for is done.
    pub(crate) fn handshake_done(
        &mut self,
        key: u32,
        disposition: &Disposition,
        payload: &[u8],
    ) -> Response {
        self.sessions.at_work = AtWork::Socket(key);
        self.counters.prediction.missed_data += u64::from(!payload.is_empty());
        if let Some(reason) = disposition.drop {
            self.counters.drop_tcp(reason);
        }
        self.established(key);
        self.finish_segment(key, disposition, payload)
    }

    /// A connection that came in is established: it gets a block, and its
    /// listener's host a record of it.
    pub(crate) fn established(&mut self, key: u32) {
        if self.hand_over(key).is_none() {
            if let Some(c) = self.sockets.connection_mut(key) {
                c.listener = None;
            }
            self.transfers().abort(key);
        }
    }

    /// Gives a connection a block and its listener's host a record of it; `None` if there
    /// is no room for either, which is counted.
    pub(crate) fn hand_over(&mut self, key: u32) -> Option<()> {
        let socket = self.sockets.get(key)?;
        let (listener_key, remote, is_pair) = match &socket.kind {
            Kind::Stream(c) => (c.listener?, c.remote, false),
            Kind::Pair(p) => (p.listener?, p.remote, true),
            _ => return None,
        };
        let (session_key, options) = (socket.session, socket.options);
        let port = socket.local?.port();
        let [local, peer] = [socket.local?, remote].map(|a| as_family(a, options.ipv6).into());
        let (is_own, now) = (self.link.is_local(remote.ip().to_canonical()), self.now);
        let listener = self.sockets.get_mut(listener_key)?;
        let Kind::Listener(l) = &mut listener.kind else {
            return None;
        };
        let subscriber = l.audience.single(&listener.subscribers, is_own, now);
        let session = self.sessions.get_mut(session_key)?;
        let Some(id) = session.take_block() else {
            self.counters.drop(EngineDrop::NoSocketLeft);
            return None;
        };
        let record = AcceptRecord {
            socket: id,
            local,
            peer,
            send_limit: options.send_buffer,
            subscriber,
        };
        if is_pair {
            session.host.begin_block(options.block_flags(), &record);
        }
        let rule = match listener.messages.as_deref() {
            Some(messages) => Some(messages.timed()),
            None => self.settings.messages.get(&port).copied(),
        };
        let messages = rule.filter(|_| !is_pair);
        let messages = messages.map(|rule| Box::new(Messages::new(rule, 0)));
        let Some(number) = put_accept_record(listener, session, &record) else {
            session.host.give_block_back(id);
            self.sessions.arena_is_full(session_key, &mut self.counters);
            return None;
        };
        session.enter(id, key);
        let socket = self.sockets.get_mut(key)?;
        socket.id = id;
        socket.subscribers = Subscribers::of_accepted(subscriber);
        socket.messages = messages;
        match &mut socket.kind {
            Kind::Stream(c) => {
                // The record says so.
                c.reported.flags = EdgeFlags::CONNECTED;
                c.record = number;
            }
            Kind::Pair(p) => p.record = number,
            _ => {}
        }
        if let Some(socket) = self.sockets.get(key) {
            socket.apply_receive_buffer(&self.sessions);
        }
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.hold_port(false, &mut self.demux);
        }
        self.counters.tcp.passive_opens += 1;
        self.sockets.touch(listener_key);
        Some(())
    }
}

/// Puts the record of a connection in the receive stream of its listener, and the connection in
/// its accept queue. Says which one the record is in the stream, modulo 2^32; `None` if there is
/// no room for it.
fn put_accept_record(
    listener: &mut Socket,
    session: &mut Session,
    record: &AcceptRecord,
) -> Option<u32> {
    let Kind::Listener(l) = &mut listener.kind else {
        return None;
    };
    let (base, at, index) = (l.rcv_consumed, l.rcv_edge, listener.id.index);
    let bytes = record.encode();
    let slab = &mut session.host.receive;
    if !l.rcv.hold([base, at, at], &bytes, slab, index) {
        let pieces = l.rcv.place(base, at, &bytes, slab, index).ok()?;
        let count = [
            &mut listener.payload.to_host,
            &mut session.host.meter.to_host.payload,
        ];
        Socket::count_payload(count, &Moved::of_stream(pieces, at, ACCEPT_RECORD as u64));
    }
    l.rcv_edge += ACCEPT_RECORD as u64;
    l.queue.push(record.socket);
    l.listener.on_waiting();
    Some((at / ACCEPT_RECORD as u64) as u32)
}
