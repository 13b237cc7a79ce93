//! How far the host has written and read: its edges, believed only as far as they can
//! be, and who else is to hear of them.

use super::From;
use crate::connection::RequestError;
use crate::engine::Engine;
use crate::session::Session;
use crate::socket::{Kind, Listening};
use longshore_hostif::{Completion, EdgeFlags, STREAM_MAX};
use std::sync::atomic::Ordering;

impl Engine {
    /// Edges from the host. Old ones are no fault: two processes may overtake
    /// each other.
    pub(crate) fn host_edges(
        &mut self,
        key: u32,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
    ) -> Result<(), RequestError> {
        let now = self.now;
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let session = self
            .sessions
            .get_mut(socket.session)
            .ok_or(RequestError::NoSocket)?;
        match &mut socket.kind {
            Kind::Stream(c) => {
                if rcv_consumed > c.tcb.rcv_edge()
                    || snd_edge.saturating_sub(c.tcb.snd_acked()) > STREAM_MAX
                {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > c.tcb.rcv_consumed() {
                    c.tcb.set_rcv_room(session.rcv_slab.room());
                    c.tcb.set_rcv_consumed(rcv_consumed, now);
                    let all = rcv_consumed == c.tcb.rcv_edge() && !c.tcb.has_out_of_order();
                    c.rcv.consume(rcv_consumed, all, &mut session.rcv_slab);
                }
                if snd_edge > c.tcb.snd_edge() && !c.tcb.send_shut() {
                    c.tcb
                        .set_snd_edge(snd_edge, !flags.contains(EdgeFlags::MORE));
                }
                if flags.contains(EdgeFlags::PUSH) && snd_edge == 0 {
                    // Nothing was written, and a SYN that waits for data goes without.
                    c.tcb.release_syn();
                }
                if flags.contains(EdgeFlags::SHUT_WR) {
                    c.tcb.shutdown_send();
                }
                if flags.contains(EdgeFlags::SHUT_RD) {
                    c.tcb.shutdown_recv();
                }
                self.touch(key);
                Ok(())
            }
            Kind::Listener(l) => {
                let accepted = Self::records_read(l, rcv_consumed, session)?;
                let line = if accepted.is_empty() {
                    Vec::new()
                } else {
                    std::mem::take(&mut l.line)
                };
                for key in accepted {
                    match self.sockets.get_mut(key).map(|s| &mut s.kind) {
                        Some(Kind::Stream(c)) => c.listener = None,
                        Some(Kind::Pair(p)) => p.listener = None,
                        _ => {}
                    }
                }
                self.next_in_line(line);
                Ok(())
            }
            Kind::Pair(p) => {
                if rcv_consumed > p.rcv_edge || snd_edge.saturating_sub(p.snd_moved) > STREAM_MAX {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > p.rcv_consumed {
                    p.rcv_consumed = rcv_consumed;
                    p.rcv.consume(
                        rcv_consumed,
                        rcv_consumed == p.rcv_edge,
                        &mut session.rcv_slab,
                    );
                }
                if !p.shut {
                    p.snd_edge = p.snd_edge.max(snd_edge);
                    p.more_follows = flags.contains(EdgeFlags::MORE);
                }
                p.shut |= flags.contains(EdgeFlags::SHUT_WR);
                p.deaf |= flags.contains(EdgeFlags::SHUT_RD);
                let other = p.other;
                self.touch(key);
                self.touch(other);
                Ok(())
            }
            Kind::Datagram(d) => {
                if rcv_consumed > d.rcv_edge || snd_edge.saturating_sub(d.snd_done) > STREAM_MAX {
                    return Err(RequestError::BadEdge);
                }
                if rcv_consumed > d.rcv_consumed {
                    d.rcv_consumed = rcv_consumed;
                    let all = rcv_consumed == d.rcv_edge;
                    if let Some(rcv) = &mut d.rcv {
                        rcv.consume(rcv_consumed, all, &mut session.rcv_slab);
                    }
                }
                d.snd_edge = d.snd_edge.max(snd_edge);
                self.touch(key);
                Ok(())
            }
            Kind::Idle(_) => Err(RequestError::Invalid),
        }
    }

    fn records_read(
        l: &mut Listening,
        consumed: u64,
        session: &mut Session,
    ) -> Result<Vec<u32>, RequestError> {
        const RECORD: u64 = longshore_hostif::ACCEPT_RECORD as u64;
        if consumed > l.rcv_edge || !consumed.is_multiple_of(RECORD) {
            return Err(RequestError::BadEdge);
        }
        if consumed <= l.rcv_consumed {
            return Ok(Vec::new());
        }
        let read = ((consumed - l.rcv_consumed) / RECORD) as usize;
        let accepted: Vec<u32> = l.queue.drain(..read.min(l.queue.len())).collect();
        accepted.iter().for_each(|_| l.listener.on_accepted());
        l.rcv_consumed = consumed;
        l.rcv
            .consume(consumed, consumed == l.rcv_edge, &mut session.rcv_slab);
        Ok(accepted)
    }

    pub(super) fn subscribe(&mut self, from: From, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(socket.session) else {
            return;
        };
        if !socket.subscribers.add(from.channel) {
            // Too many to be told each time: it looks when it is told to.
            session
                .arena
                .control(u32::from(from.channel))
                .lost
                .store(1, Ordering::Release);
        }
        let completion = Completion::Edges {
            socket: socket.id,
            edges: socket.edges(),
        };
        session.put(from.channel, &completion);
        session.wake_for(socket.id.index);
        socket.note_told();
    }

    /// A process has shut a half of a socket down that others have too: they look
    /// at its block, where it says so.
    pub(super) fn tell_others(&mut self, from: From, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if socket.subscribers.single() == Some(from.channel) {
            return;
        }
        let (id, to, edges) = (socket.id, socket.subscribers, socket.edges());
        socket.note_told();
        socket.meter.to_host.descriptors += 1;
        if let Some(s) = self.sessions.get_mut(from.session) {
            s.post(id.index, &to, &Completion::Edges { socket: id, edges });
        }
    }
}
