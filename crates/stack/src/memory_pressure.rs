//! What happens when a session has no memory left for what its connections receive.
//!
//! Owns the rule of who may still have some, and `Sockets::denied_memory`, the connections that
//! may not: their peers are told that the window is closed, so that they probe it and do not give
//! up. They are told at once when there is memory again. `tcp_input` asks for each segment with
//! payload that header prediction has not taken, `requests` tells of what was read, and the
//! loop calls once a turn.

use crate::at_work::AtWork;
use crate::session::{FEW_CHUNKS, SPARE_CHUNKS};
use crate::sessions::Sessions;
use crate::socket::Kind;
use crate::sockets::Sockets;
use longshore_hostif::CHUNK;
use longshore_hostif::adapter::ReceiveSlab;
use longshore_tcp::Tcb;
use longshore_wire::SeqNumber;

/// Of the connections without memory, so many are looked at in a turn.
const LOOKS: usize = 16;

/// Whether a session has memory for payload; `is_next`: it begins with the next byte that
/// the connection waits for.
fn has_room(slab: &ReceiveSlab, tcb: &Tcb, is_next: impl FnOnce() -> bool) -> bool {
    let free = slab.available();
    let unread = tcb.rcv_edge().saturating_sub(tcb.rcv_consumed());
    free >= SPARE_CHUNKS || free >= FEW_CHUNKS && unread < CHUNK as u64 && is_next()
}

/// A connection's program has read: it may have memory again.
pub(crate) fn grant_to_reader(slab: &ReceiveSlab, tcb: &mut Tcb) {
    if has_room(slab, tcb, || true) {
        tcb.receive_room().grant();
    }
}

impl Sockets {
    /// A segment with payload has come that begins with `seq`: its connection may have
    /// memory, or is denied it.
    pub(crate) fn see_to_room(&mut self, key: u32, seq: SeqNumber, sessions: &Sessions) {
        let Some(socket) = self.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let session = sessions.get(socket.session);
        let is_next = || c.tcb.receive_status().is_next(seq);
        if session.is_some_and(|s| has_room(&s.host.receive, &c.tcb, is_next)) {
            c.tcb.receive_room().grant();
        } else if c.tcb.receive_room().deny() && !self.denied_memory.contains(&key) {
            self.denied_memory.push_back(key);
        }
    }

    /// Looks at some of the connections that were denied memory, whether there is some now.
    #[inline(never)]
    pub(crate) fn look_at_denied(&mut self, sessions: &mut Sessions) {
        for _ in 0..LOOKS.min(self.denied_memory.len()) {
            let Some(key) = self.denied_memory.pop_front() else {
                return;
            };
            sessions.at_work = AtWork::Socket(key);
            let Some(socket) = self.get_mut(key) else {
                continue;
            };
            let Kind::Stream(c) = &mut socket.kind else {
                continue;
            };
            let session = sessions.get(socket.session);
            if let Some(session) = session.filter(|_| c.tcb.is_denied_room()) {
                if has_room(&session.host.receive, &c.tcb, || true) {
                    c.tcb.receive_room().grant();
                    self.touch(key);
                } else {
                    // What was read may have been said for later: now it gives room.
                    session.host.pending.hurry();
                    self.denied_memory.push_back(key);
                }
            }
        }
    }
}
