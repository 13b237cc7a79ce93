//! What happens when a session is short of memory for what its connections receive.
//!
//! Owns the rule of who may still have some, and `Sockets::short_of_memory`, the connections that
//! may not have what their buffers allow. As long as there is memory for what is on its way,
//! their windows are narrowed and nothing is dropped: a peer whose segments were dropped waits
//! for its retransmission timer, ever longer, and one that was told of a closed window goes on as
//! soon as it opens. `tcp_input` asks for each segment with payload that header prediction has
//! not taken, `requests` tells of what was read, and the loop calls once a turn.

use crate::at_work::AtWork;
use crate::counters::Counters;
use crate::session::{FEW_CHUNKS, KEPT_CHUNKS, SPARE_CHUNKS};
use crate::sessions::Sessions;
use crate::socket::Kind;
use crate::sockets::Sockets;
use longshore_hostif::CHUNK;
use longshore_hostif::adapter::ReceiveSlab;
use longshore_tcp::Tcb;
use longshore_wire::SeqNumber;

/// Of the connections that are short of memory, so many are looked at in a turn.
const LOOKS: usize = 16;

/// What a connection may have of its session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// What its buffer allows.
    All,
    /// What it has advertised, and as new window one chunk.
    Little,
    /// Nothing.
    None,
}

/// What a connection may have for payload, which may leave no hole before it.
fn share(slab: &ReceiveSlab, tcb: &Tcb, leaves_no_hole: impl FnOnce() -> bool) -> Share {
    let free = slab.available();
    if free >= SPARE_CHUNKS {
        return Share::All;
    }
    let unread = tcb.rcv_edge().saturating_sub(tcb.rcv_consumed());
    let little = free >= KEPT_CHUNKS || free >= FEW_CHUNKS && unread < CHUNK as u64;
    if little && leaves_no_hole() {
        Share::Little
    } else {
        Share::None
    }
}

/// A connection that is short of memory may have some again, if there is any; returns whether its
/// peer is to be notified.
pub(crate) fn grant_again(slab: &ReceiveSlab, tcb: &mut Tcb) -> bool {
    match share(slab, tcb, || true) {
        Share::All => tcb.receive_room().grant(),
        Share::Little => tcb.receive_room().confine(),
        Share::None => false,
    }
}

impl Sockets {
    /// A segment with payload has come that begins with `seq`: its connection may have
    /// memory, or is denied it.
    pub(crate) fn see_to_room(
        &mut self,
        key: u32,
        seq: SeqNumber,
        sessions: &mut Sessions,
        counters: &mut Counters,
    ) {
        let Some(socket) = self.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let session = sessions.get(socket.session);
        let leaves_no_hole = || c.tcb.receive_status().leaves_no_hole(seq);
        let share = session.map_or(Share::None, |s| {
            share(&s.host.receive, &c.tcb, leaves_no_hole)
        });
        let was_short = c.tcb.is_short_of_room();
        // What it is granted or denied it is told by the acknowledgment of this segment.
        let room = c.tcb.receive_room();
        match share {
            Share::All => _ = room.grant(),
            Share::Little => _ = room.confine(),
            Share::None => room.deny(),
        }
        if share == Share::All || was_short {
            return;
        }
        let was_listed = std::mem::replace(&mut c.awaits_memory, true);
        socket.apply_widest_window(sessions);
        sessions.arena_is_short(socket.session, counters);
        if !was_listed {
            self.short_of_memory.push_back(key);
        }
    }

    /// Looks at some of the connections that are short of memory, whether there is some now.
    #[inline(never)]
    pub(crate) fn look_at_short(&mut self, sessions: &mut Sessions) {
        for _ in 0..LOOKS.min(self.short_of_memory.len()) {
            let Some(key) = self.short_of_memory.pop_front() else {
                return;
            };
            sessions.at_work = AtWork::Socket(key);
            let Some(socket) = self.get_mut(key) else {
                continue;
            };
            let Kind::Stream(c) = &mut socket.kind else {
                continue;
            };
            let Some(session) = sessions.get(socket.session) else {
                c.awaits_memory = false;
                continue;
            };
            let is_told =
                c.tcb.is_short_of_room() && grant_again(&session.host.receive, &mut c.tcb);
            c.awaits_memory = c.tcb.is_short_of_room();
            if c.awaits_memory {
                // What was read may have been said for later: now it gives room.
                session.host.pending.hurry();
                self.short_of_memory.push_back(key);
            } else {
                socket.apply_widest_window(sessions);
            }
            if is_told {
                self.touch(key);
            }
        }
    }
}
