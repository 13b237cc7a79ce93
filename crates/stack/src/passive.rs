//! Connections that come in: what a SYN finds, and how a handshake begins and ends.
//!
//! Owns the steps between, but for the time in which a connection is half-open
//! (`half_open`), and but for what comes when it is made (`admission`).
//! `tcp_input` calls it for a segment that no connection takes; `half_open` and `cookies`
//! when a handshake is complete.

use crate::Stack;
use crate::access::Transport;
use crate::account::SocketShare;
use crate::address_pair::Sides;
use crate::at_work::AtWork;
use crate::counters::{Counters, EngineDrop};
use crate::half_open::Handshakes;
use crate::host::Host;
use crate::memory_pressure::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::responder::Responder;
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Options, Socket};
use crate::tcp_input::Response;
use longshore_hostif::NONE;
use longshore_hostif::SocketId;
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
        self.admission().established(key);
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
        self.admission().established(key);
        self.finish_segment(key, disposition, payload)
    }
}
