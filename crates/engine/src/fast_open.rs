//! Fast Open in the engine (RFC 7413): cookies for those who ask, data on SYNs for
//! listeners that allow it (TCP_FASTOPEN), and SYNs that wait for their data
//! (TCP_FASTOPEN_CONNECT).
//!
//! Owns what joins `longshore_tcp`'s two ends of it to sockets; `tcp_input.rs` and
//! `connection.rs` call it.

use crate::engine::Engine;
use crate::socket::Kind;
use longshore_tcp::{FastOpenVerdict, Segment, Tcb};
use std::net::IpAddr;

impl Engine {
    /// What a listener makes of the Fast Open option of a SYN. Data are taken if
    /// there is room for them, and for one more connection to accept.
    pub(crate) fn judge_fast_open(
        &mut self,
        listener: u32,
        client: IpAddr,
        segment: &Segment<'_>,
        room: bool,
    ) -> FastOpenVerdict {
        let (demux, now) = (&self.demux, self.now);
        let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) else {
            return FastOpenVerdict::default();
        };
        let hash = |client, age| demux.hash(("fast open", client, age));
        let mut verdict = l.fast_open.judge(segment, client, now, hash);
        let waits = l.listener.defers_accept(0) && segment.payload_len == 0;
        if verdict.accept && (!room || waits || !l.listener.may_establish()) {
            l.fast_open.on_done();
            verdict.accept = false;
        }
        verdict
    }

    /// A connection has been made for a SYN that was judged so.
    pub(crate) fn open_fast(
        &mut self,
        key: u32,
        listener: u32,
        verdict: FastOpenVerdict,
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
        let now = self.now;
        let Some(c) = self.connection_mut(key) else {
            return;
        };
        if let Some(cookie) = verdict.give {
            c.tcb.give_fast_open_cookie(cookie);
        }
        if !verdict.accept {
            return;
        }
        c.fast_open_of = Some(listener);
        let disposition = c.tcb.accept_fast_open(segment, now);
        self.counters.fast_opens += 1;
        self.established(key);
        if let Some(place) = disposition.place
            && let Some(bytes) = payload.get(..place.len as usize)
        {
            self.place(key, place.stream_offset, bytes);
        }
    }

    /// The handshake of a connection is over, or it is dead: what was opened by a
    /// cookie alone counts no more.
    pub(crate) fn fast_open_done(&mut self, key: u32) {
        let Some(listener) = self.connection_mut(key).and_then(|c| c.fast_open_of.take()) else {
            return;
        };
        if let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.fast_open.on_done();
        }
    }

    /// A connection to `server` begins, with TCP_FASTOPEN_CONNECT: its SYN carries the
    /// first data, if there is a cookie, or asks for one.
    pub(crate) fn begin_fast_open(&mut self, server: IpAddr, tcb: &mut Tcb) {
        if let Some(way) = self.fast_open.way_to(server, self.now) {
            tcb.start_fast_open(way, true);
        }
    }

    /// An active open has become established: its server's cookie is remembered.
    pub(crate) fn learn_fast_open(&mut self, key: u32) {
        let now = self.now;
        let learned = self
            .connection_mut(key)
            .and_then(|c| Some((c.remote.ip(), c.tcb.fast_open_outcome()?)));
        if let Some((server, outcome)) = learned {
            self.fast_open.learn(server, &outcome, now);
        }
    }
}
