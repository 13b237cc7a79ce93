//! Fast Open in the engine (RFC 7413): cookies for those who ask, data on SYNs for
//! listeners that allow it (TCP_FASTOPEN), and SYNs that wait for their data
//! (TCP_FASTOPEN_CONNECT).
//!
//! Owns what joins `longshore_tcp`'s two ends of it to sockets; `passive.rs`,
//! `tcp_input.rs` and `connection.rs` call it.

use crate::Stack;
use crate::address_pair::Sides;
use crate::socket::{Kind, Options};
use longshore_tcp::{FastOpenQueue, FastOpenUse, FastOpenVerdict, Segment, Tcb};
use longshore_wire::tcp::FastOpenCookie;
use std::net::IpAddr;

/// How long a key of our own makes cookies, microseconds; those of the last one are
/// still taken (RFC 7413 section 4.1.2).
const KEY_LIFE_US: u64 = 3_600_000_000;

impl Stack {
    /// What a listener makes of the Fast Open option of a SYN. Data are taken if
    /// there is room for them, and for one more connection to accept.
    pub(crate) fn judge_fast_open(
        &mut self,
        listener: u32,
        (local, remote): Sides,
        segment: &Segment<'_>,
        room: bool,
    ) -> FastOpenVerdict {
        let (demux, host, now) = (&self.demux, &self.settings.host, self.now);
        let Some(socket) = self.sockets.get_mut(listener) else {
            return FastOpenVerdict::default();
        };
        let usage = socket.options.fast_open_use;
        let Kind::Listener(l) = &mut socket.kind else {
            return FastOpenVerdict::default();
        };
        let (client, server) = (remote.ip().to_canonical(), local.ip().to_canonical());
        let cookie = |last: bool| match host.fast_open_keys() {
            Some((Some(key), None)) => (!last).then(|| key.cookie(client, server)).flatten(),
            Some((Some(key), Some(before))) => {
                let key = if last { before } else { key };
                key.cookie(client, server)
            }
            _ => {
                let age = (now.0 / KEY_LIFE_US).checked_sub(u64::from(last))?;
                FastOpenCookie::new(&demux.hash(("fast open", client, age)).to_be_bytes())
            }
        };
        let mut verdict = l.fast_open.judge(segment, usage, cookie);
        let waits = l.listener.defers_accept(0) && segment.payload_len == 0;
        if verdict.accept && (!room || waits || !l.listener.may_establish()) {
            l.fast_open.on_done();
            verdict.accept = false;
        }
        verdict
    }

    /// A connection has been made for a SYN whose cookie is right.
    pub(crate) fn open_fast(
        &mut self,
        key: u32,
        listener: u32,
        segment: &Segment<'_>,
        payload: &[u8],
    ) {
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

    /// The handshake of a connection is over, or it is dead: what was opened by a
    /// cookie alone counts no more.
    pub(crate) fn fast_open_done(&mut self, key: u32) {
        let Some(listener) = self
            .sockets
            .connection_mut(key)
            .and_then(|c| c.fast_open_of.take())
        else {
            return;
        };
        if let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.fast_open.on_done();
        }
    }

    /// A connection to `server` begins, with TCP_FASTOPEN_CONNECT: its SYN carries the
    /// first data, if there is a cookie, or asks for one.
    pub(crate) fn begin_fast_open(&mut self, server: IpAddr, usage: FastOpenUse, tcb: &mut Tcb) {
        if let Some(hop) = self.fast_open.mode_for(server, usage, self.now) {
            tcb.start_fast_open(hop, true);
        }
    }

    /// An active open has become established: its server's cookie is remembered.
    pub(crate) fn learn_fast_open(&mut self, key: u32) {
        let now = self.now;
        let learned = self
            .sockets
            .connection_mut(key)
            .and_then(|c| Some((c.remote.ip(), c.tcb.fast_open_outcome()?)));
        if let Some((server, outcome)) = learned {
            self.fast_open.learn(server, &outcome, now);
        }
    }
}

/// A listener's queue: as long as it asked for, or as all are if the host has Fast
/// Open for all.
pub(crate) fn new_fast_open(backlog: u32, options: &Options) -> FastOpenQueue {
    let mut queue = FastOpenQueue::new();
    let for_all = if options.fast_open_use.all_listeners {
        backlog
    } else {
        0
    };
    queue.set_limit(match options.fast_open {
        0 => for_all,
        asked => asked,
    });
    queue
}
