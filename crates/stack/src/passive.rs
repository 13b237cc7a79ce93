//! Connections that come in: from the SYN that finds a listener to the record in the
//! listener's stream by which its host learns of the connection.
//!
//! Owns the steps between, for TCP and, from the record on, for a connection between two
//! of our own. `tcp_input` calls it for a segment that no connection takes, and for those
//! of a half-open one; `cookies` and `fast_open` when one is made without a half-open one
//! before; `pair` to hand an end over.

use crate::Stack;
use crate::access::Transport;
use crate::containment::AtWork;
use crate::cookies::Sides;
use crate::counters::EngineDrop;
use crate::memory_pressure::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::socket::{Connection, Kind, Options, Socket};
use crate::tcp_input::as_family;
use longshore_hostif::NONE;
use longshore_hostif::adapter::Subscribers;
use longshore_hostif::{ACCEPT_RECORD, AcceptRecord, EdgeFlags, SocketId};
use longshore_tcp::{DropReason, ListenVerdict, Segment, State, Tcb, reset_for};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;

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
            self.limits.syns.came();
        }
        let spread = self.demux.hash((local, remote));
        let found = self.demux.tcp.find(local, true, spread);
        self.sessions.at_work = found.map_or(AtWork::Nobodys, AtWork::Socket);
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
        if !self
            .settings
            .access
            .may_accept(Transport::Tcp, remote.ip(), local.port())
        {
            return self.counters.drop(EngineDrop::AccessDenied);
        }
        match l.listener.on_segment(segment, self.now) {
            ListenVerdict::Drop(reason) => self.counters.drop_tcp(reason),
            ListenVerdict::Reset(reset) => self.send_reset(local, remote, &reset),
            ListenVerdict::AnswerWithCookie => {
                let options = socket.options;
                self.answer_with_cookie((local, remote), &options, segment);
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
                if let Some(made) = self.check_cookie(key, (local, remote), segment, &reset) {
                    let response = self.segment_for(made, segment, payload);
                    self.respond(response, local, remote, segment, payload);
                }
            }
            ListenVerdict::Accept => {
                l.listener.on_half_open();
                let (options, session) = (socket.options, socket.session);
                let slab = self.sessions.get(session).map(|s| &s.host.receive);
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
        options: Options,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Segment<'_>,
        iss_after: Option<SeqNumber>,
    ) -> u32 {
        let now = self.now;
        let mss = self.mss_to(remote);
        let iss = match iss_after {
            Some(after) => after.add(1),
            None => self.demux.initial_sequence(local, remote, self.now),
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
        options: Options,
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
        socket.share = self.take_socket_share(session).flatten();
        let key = self.sockets.insert(socket);
        if let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.children.insert(key);
        }
        self.demux.insert(flow, key);
        self.sockets.touch(key);
        key
    }

    /// Whether a segment for a half-open connection has to be dropped, because
    /// the connection must not be established now.
    pub(crate) fn is_held_back(&mut self, key: u32, segment: &Segment<'_>) -> bool {
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
            .is_none_or(|s| s.host.receive.available() < FEW_CHUNKS + 1);
        if full {
            self.arena_is_full(session);
        }
        full
    }

    /// A connection that came in is established: it gets a block, and its
    /// listener's host a record of it.
    pub(crate) fn established(&mut self, key: u32) {
        if self.hand_over(key).is_none() {
            self.listener_lost(key);
            self.abort(key);
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
        let (base, at, listener_index) = (l.rcv_consumed, l.rcv_edge, listener.id.index);
        let record = record.encode();
        let slab = &mut session.host.receive;
        let Ok(pieces) = l.rcv.place(base, at, &record, slab, listener_index) else {
            session.host.give_block_back(id);
            self.arena_is_full(session_key);
            return None;
        };
        session.enter(id, key);
        l.rcv_edge += ACCEPT_RECORD as u64;
        l.queue.push_back(key);
        l.children.remove(&key);
        l.listener.on_established();
        let count = [&mut listener.meter.to_host, &mut session.host.meter.to_host];
        Socket::count_payload(count, pieces, ACCEPT_RECORD as u64);
        let socket = self.sockets.get_mut(key)?;
        socket.id = id;
        socket.subscribers = Subscribers::of_accepted(subscriber);
        if let Kind::Stream(c) = &mut socket.kind {
            // The record says so.
            c.told.flags = EdgeFlags::CONNECTED;
        }
        self.heed_receive_buffer(key);
        self.hold_port(key);
        self.counters.passive_opens += 1;
        self.sockets.touch(listener_key);
        Some(())
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
            l.children.remove(&key);
            l.listener.on_half_open_gone();
        }
    }
}
