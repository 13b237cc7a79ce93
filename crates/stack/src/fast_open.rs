//! Fast Open in the engine (RFC 7413): cookies for those who ask, data on SYNs for
//! listeners that allow it (TCP_FASTOPEN), and SYNs that wait for their data
//! (TCP_FASTOPEN_CONNECT).
//!
//! Owns what joins `longshore_tcp`'s two ends of it to sockets; `passive` and `tcp_input` call
//! it.

use crate::address_pair::Sides;
use crate::demux::Demux;
use crate::host::Host;
use crate::socket::{Kind, Options, Socket};
use crate::sockets::Sockets;
use longshore_tcp::{FastOpenOutcome, FastOpenQueue, FastOpenVerdict, Instant, Segment};
use longshore_wire::tcp::FastOpenCookie;
use std::net::IpAddr;

/// How long a key of our own makes cookies, microseconds; those of the last one are
/// still taken (RFC 7413 section 4.1.2).
const KEY_LIFE_US: u64 = 3_600_000_000;

/// What a listener makes of the Fast Open option of a SYN. Data are taken if
/// there is room for them, and for one more connection to accept.
pub(crate) fn judge(
    socket: &mut Socket,
    (demux, host): (&Demux, &dyn Host),
    (local, remote): Sides,
    segment: &Segment<'_>,
    room: bool,
    now: Instant,
) -> FastOpenVerdict {
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

impl Sockets {
    /// The handshake of a connection is over, or it is dead: what was opened by a
    /// cookie alone counts no more.
    pub(crate) fn fast_open_done(&mut self, key: u32) {
        let Some(listener) = self.connection_mut(key).and_then(|c| c.fast_open_of.take()) else {
            return;
        };
        if let Some(Kind::Listener(l)) = self.get_mut(listener).map(|s| &mut s.kind) {
            l.fast_open.on_done();
        }
    }

    /// An active open has become established: what its server has shown of Fast Open.
    pub(crate) fn fast_open_outcome(&self, key: u32) -> Option<(IpAddr, FastOpenOutcome)> {
        match &self.get(key)?.kind {
            Kind::Stream(c) => Some((c.remote.ip(), c.tcb.fast_open_outcome()?)),
            _ => None,
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
