//! Connections that come in: what a SYN finds, and how a handshake begins and ends.
//!
//! Owns the steps between, but for the time in which a connection is half-open
//! (`half_open`), and but for what comes when it is made (`admission`).
//! `tcp_input` calls it for a segment that no connection takes; `half_open` and `cookies`
//! when a handshake is complete.

use crate::account::SocketShare;
use crate::address_pair::Sides;
use crate::counters::Counters;
use crate::fast_open;
use crate::handshake::Handshakes;
use crate::host::Host;
use crate::session::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Options, Socket};
use longshore_hostif::NONE;
use longshore_hostif::SocketId;
use longshore_tcp::{Segment, Tcb};
use longshore_wire::SeqNumber;

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
        let socket = self.endpoints.sockets.get(listener)?;
        let (options, session) = (socket.options, socket.session);
        let slab = self
            .endpoints
            .sessions
            .get(session)
            .map(|s| &s.host.receive);
        let room = slab.is_some_and(|slab| slab.available() >= SPARE_CHUNKS);
        let (demux, sides) = (&self.endpoints.demux, (local, remote));
        let listening = self.endpoints.sockets.get_mut(listener)?;
        let verdict = fast_open::judge(listening, (demux, host), sides, segment, room, now);
        let mss = self.responder.link.mss_to(remote.ip(), self.responder.now);
        let iss = match iss_after {
            Some(after) => after.add(1),
            None => self.endpoints.demux.initial_sequence(local, remote, now),
        };
        let offset = self.endpoints.demux.timestamp_offset(local, remote);
        let config = options.tcp_to(remote);
        let mut tcb = Tcb::accept(&config, segment, mss, iss, offset, now);
        if let Some(cookie) = verdict.give {
            tcb.syn_data().give_cookie(cookie);
        }
        if !verdict.accept {
            self.begin_handshake(listener, &options, (local, remote), tcb);
            return None;
        }
        let share = self
            .endpoints
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
        let session = self
            .endpoints
            .sockets
            .get(listener)
            .map_or(NONE, |s| s.session);
        let connection = Connection::new(tcb, local, remote, Some(listener));
        let flow = connection.flow;
        let id = SocketId {
            index: NONE,
            generation: 0,
        };
        let mut socket = Socket::new(id, session, None, options, Kind::Stream(connection));
        socket.bound.set_local(local);
        socket.share = share;
        let key = self.endpoints.sockets.insert(socket);
        self.responder.limits.syn_served();
        self.endpoints.demux.insert(flow, key);
        self.endpoints.sockets.touch(key);
        key
    }
}
