//! How far the host has written and read: its edges, believed only as far as they can
//! be, and which other processes are to be told of them.

use super::From;
use crate::memory_pressure::grant_again;
use crate::pair_end::{Pair, RESET};
use crate::request_error::RequestError;
use crate::sessions::Sessions;
use crate::socket::{Connection, Datagram, Kind};
use crate::sockets::Sockets;
use crate::transfers::Transfers;
use longshore_hostif::adapter::ReceiveSlab;
use longshore_hostif::{EdgeFlags, STREAM_MAX};
use longshore_tcp::Instant;

/// What the host says of its side of a socket's streams.
#[derive(Debug, Clone, Copy)]
struct ClaimedEdges {
    snd_edge: u64,
    rcv_consumed: u64,
    flags: EdgeFlags,
}

impl ClaimedEdges {
    /// Whether it can be, where `rcv_edge` is how far there is something to read, and
    /// `snd_done` how far what was written is done with.
    fn check(&self, rcv_edge: u64, snd_done: u64) -> Result<(), RequestError> {
        let possible =
            self.rcv_consumed <= rcv_edge && self.snd_edge.saturating_sub(snd_done) <= STREAM_MAX;
        if possible {
            Ok(())
        } else {
            Err(RequestError::BadEdge)
        }
    }
}

impl Connection {
    fn take_edges(
        &mut self,
        claimed: &ClaimedEdges,
        slab: &mut ReceiveSlab,
        now: Instant,
    ) -> Result<(), RequestError> {
        claimed.check(self.tcb.rcv_edge(), self.tcb.snd_acked())?;
        let (consumed, tcb) = (claimed.rcv_consumed, &mut self.tcb);
        if consumed > tcb.rcv_consumed() {
            tcb.receive_room().bound(slab.room_to_grow());
            tcb.set_rcv_consumed(consumed, now);
            let all = consumed == tcb.rcv_edge() && !tcb.receive_status().has_out_of_order();
            self.rcv.consume(consumed, all, slab);
            if tcb.is_short_of_room() {
                grant_again(slab, tcb);
            }
        }
        if claimed.snd_edge > tcb.snd_edge() && !tcb.send_status().is_shut() {
            tcb.set_snd_edge(claimed.snd_edge, !claimed.flags.contains(EdgeFlags::MORE));
        }
        if claimed.flags.contains(EdgeFlags::PUSH) && claimed.snd_edge == 0 {
            // Nothing was written, and a SYN that waits for data goes without.
            tcb.syn_data().release_syn();
        }
        if claimed.flags.contains(EdgeFlags::SHUT_WR) {
            tcb.shutdown_send();
            self.lingers |= claimed.flags.contains(EdgeFlags::LINGERS);
        }
        if claimed.flags.contains(EdgeFlags::SHUT_RD) {
            tcb.closing().shutdown_recv();
        }
        Ok(())
    }
}

impl Pair {
    fn take_edges(
        &mut self,
        claimed: &ClaimedEdges,
        slab: &mut ReceiveSlab,
    ) -> Result<(), RequestError> {
        claimed.check(self.rcv.edge(), self.snd.done())?;
        self.rcv.consume(claimed.rcv_consumed, slab);
        // A move that tells of what was read has neither flag, and nothing of what was written
        // before.
        let says = claimed.flags.intersects(EdgeFlags::PUSH | EdgeFlags::MORE);
        if !self.snd.is_shut() && (says || claimed.snd_edge > self.snd.edge()) {
            self.snd.write_to(claimed.snd_edge);
            self.cork
                .set_more_follows(claimed.flags.contains(EdgeFlags::MORE));
        }
        if claimed.flags.contains(EdgeFlags::SHUT_WR) {
            self.snd.shut();
        }
        if claimed.flags.contains(EdgeFlags::LINGERS) {
            self.snd.linger();
        }
        if claimed.flags.contains(EdgeFlags::SHUT_RD) {
            self.rcv.shut();
        }
        if self.connecting && (self.snd.is_shut() || self.rcv.is_shut()) {
            // As Linux has it, the attempt ends.
            self.dead.get_or_insert(RESET);
            self.listener = None;
        }
        Ok(())
    }
}

impl Datagram {
    fn take_edges(
        &mut self,
        claimed: &ClaimedEdges,
        slab: &mut ReceiveSlab,
    ) -> Result<(), RequestError> {
        claimed.check(self.rcv_edge, self.snd_done)?;
        if claimed.rcv_consumed > self.rcv_consumed {
            self.rcv_consumed = claimed.rcv_consumed;
            let all = claimed.rcv_consumed == self.rcv_edge;
            if let Some(rcv) = &mut self.rcv {
                rcv.consume(claimed.rcv_consumed, all, slab);
            }
        }
        self.snd_edge = self.snd_edge.max(claimed.snd_edge);
        Ok(())
    }
}

/// What is still to be done when the edges of a socket's host were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EdgesTaken {
    /// Nothing.
    All,
    /// The host has accepted connections of a listener, which are still in its queue.
    AreAccepted,
    /// It has shut a listener down.
    IsShut,
}

impl Sockets {
    /// Tells a process that may have room again of the sockets for which it had none: no
    /// more than there is room for, each where its edges are by now.
    pub(crate) fn report_rest(&mut self, from: From, sessions: &mut Sessions) {
        let Some(s) = sessions.get_mut(from.session) else {
            return;
        };
        if !s.host.channels.has_pending(from.channel) {
            return;
        }
        while let Some(index) = s.host.channels.next_pending(from.channel) {
            let key = s.key(index);
            let Some(socket) = key.and_then(|key| self.get_mut(key)) else {
                continue;
            };
            if !socket.subscribers.contains(from.channel) {
                continue;
            }
            let mut edges = socket.kind.edges();
            // A pending error is told once, which may have been then.
            if s.host.blocks().has_error(socket.id) && !edges.flags.contains(EdgeFlags::DEAD) {
                edges.flags |= EdgeFlags::SOFT_ERROR;
                edges.errno = 0;
            }
            if !socket.put_edges_to_one(&mut s.host, from.channel, edges) {
                break;
            }
            s.host.wakeups.note_socket(index);
        }
    }
}

impl Transfers<'_> {
    /// Takes how far the host has written and read, and what it says besides, from the process of
    /// `channel` if it still lives.
    #[inline(always)]
    pub(crate) fn take_edges(
        &mut self,
        key: u32,
        channel: Option<u16>,
        (snd_edge, rcv_consumed, flags): (u64, u64, EdgeFlags),
    ) -> Result<EdgesTaken, RequestError> {
        let now = self.now;
        let shut = flags & (EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR);
        if !shut.is_empty() {
            let (sends, receives) = (
                !shut.contains(EdgeFlags::SHUT_WR),
                !shut.contains(EdgeFlags::SHUT_RD),
            );
            self.receive_before_shut(key, sends, receives);
        }
        let claimed = ClaimedEdges {
            snd_edge,
            rcv_consumed,
            flags,
        };
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let session_key = socket.session;
        let session = self
            .sessions
            .get_mut(session_key)
            .ok_or(RequestError::NoSocket)?;
        let corked = flags.contains(EdgeFlags::CORK);
        let says = flags.intersects(EdgeFlags::PUSH | EdgeFlags::MORE);
        if says && corked != socket.options.tcp.delay.cork {
            socket.cork(corked);
        }
        let claimed = ClaimedEdges {
            rcv_consumed: socket.held_back(&mut session.forwards, rcv_consumed),
            ..claimed
        };
        let slab = &mut session.host.receive;
        match &mut socket.kind {
            Kind::Stream(c) => c.take_edges(&claimed, slab, now)?,
            Kind::Datagram(d) => {
                d.take_edges(&claimed, slab)?;
                self.sockets.have_datagrams = true;
            }
            Kind::Pair(p) => {
                p.take_edges(&claimed, slab)?;
                let other = p.other;
                self.sockets.touch(key);
                self.sockets.touch(other);
                return Ok(EdgesTaken::All);
            }
            Kind::Listener(_) if flags.contains(EdgeFlags::SHUT_RD) => {
                return Ok(EdgesTaken::IsShut);
            }
            Kind::Listener(l) => {
                l.take_records_read(rcv_consumed, channel, &mut session.host.receive)?;
                return Ok(EdgesTaken::AreAccepted);
            }
            Kind::Idle(_) => return Err(RequestError::Invalid),
        }
        self.sockets.touch(key);
        Ok(EdgesTaken::All)
    }

    /// The host of a connection counts as having read up to there.
    pub(crate) fn take_consumed(&mut self, key: u32, consumed: u64) {
        let none = EdgeFlags::empty();
        let _ = self.take_edges(key, None, (0, consumed, none));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a host says is checked on both sides, each for itself.
    #[test]
    fn edges_that_cannot_be_are_refused() {
        let check = |rcv_consumed, snd_edge| {
            let claimed = ClaimedEdges {
                snd_edge,
                rcv_consumed,
                flags: EdgeFlags::empty(),
            };
            claimed.check(1000, 500).is_ok()
        };
        assert!(check(1000, 500) && check(0, 0));
        assert!(!check(1001, 500), "more was read than had come");
        assert!(check(1000, 500 + STREAM_MAX));
        assert!(
            !check(0, 501 + STREAM_MAX),
            "more is held than there can be"
        );
        assert!(!check(u64::MAX, 500) && !check(0, u64::MAX));
    }
}
