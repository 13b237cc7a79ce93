//! A connection is flushed after each turn that touched it, as `flush` has it. What its host is
//! told is in `report`.

mod end;
mod listener;
mod report;

use crate::Stack;
use crate::output::Sent;
use crate::socket::Kind;
use longshore_tcp::Events;

/// What is seen to beside telling the host where the streams stand.
const MORE_THAN_EDGES: Events = Events::URGENT
    .union(Events::SND_ACKED)
    .union(Events::RCVBUF)
    .union(Events::CLOSED)
    .union(Events::TIME_WAIT);

impl Stack {
    /// Tells the host of a connection, which has sent what it had to, what there is to tell.
    #[inline(never)]
    pub(crate) fn flush_connection(&mut self, key: u32) {
        let now = self.now;
        let Some((socket, wheel)) = self.sockets.get_with_wheel(key) else {
            return;
        };
        socket.count_landed(&mut self.sessions);
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        c.tcb.note_send_buffer(socket.options.send_buffer, now);
        let events = c.tcb.take_events();
        let is_plain = socket.has_block() && !socket.orphan && !socket.has_marks();
        if events.intersects(MORE_THAN_EDGES) || !is_plain {
            self.handle_events(key, events);
        } else {
            socket.report(&mut self.sessions, now);
            if let Kind::Stream(c) = &socket.kind {
                wheel.set_or_clear(&mut socket.alarm, key, c.deadline());
            }
        }
    }

    /// Sends what a connection has to send, as much of it as goes in one turn.
    pub(crate) fn transmit(&mut self, key: u32) -> Sent {
        let (sessions, link) = (&mut self.sessions, &mut self.link);
        self.sockets
            .transmit(key, sessions, link, &mut self.counters, self.now)
    }

    /// Sends what a connection has to send; what is left is sent in the next turn.
    #[inline(never)]
    pub(crate) fn send_from(&mut self, key: u32) {
        match self.transmit(key) {
            Sent::All => {}
            Sent::More => self.sockets.touch(key),
            Sent::Unresolved => self.sockets.unresolved.push(key),
        }
    }

    /// Does what there is to do for a connection to which this has happened, or whose program
    /// has closed it or not accepted it yet, or waits for so much.
    #[inline(never)]
    fn handle_events(&mut self, key: u32, events: Events) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let (has_block, orphan) = (socket.has_block(), socket.orphan);
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        // Over before its program closed it: no event is to come.
        let is_done = orphan && c.is_over;
        let mut sent_for_others = None;
        // What makes a report worth its while beside the edges themselves.
        let mut also = events.contains(Events::URGENT);
        if events.contains(Events::SND_ACKED) {
            self.link.confirm(c.remote.ip(), self.now);
            sent_for_others = socket.forwarding.is_some().then(|| c.tcb.snd_acked());
            let size = socket.options.send_buffer;
            let wanted = c.send_buffer_wanted(size, &mut self.bulk_senders, self.now);
            if wanted != u64::from(size) {
                also |= socket.tune_send_buffer(wanted, &self.sessions);
            }
        }
        if let Some(acked) = sent_for_others {
            self.transfers().forwarded(key, acked);
        }
        if events.contains(Events::RCVBUF)
            && let Some(socket) = self.sockets.get(key)
        {
            socket.apply_receive_buffer(&self.sessions);
        }
        if has_block && !orphan {
            if let Some(socket) = self.sockets.get_mut(key) {
                if events.contains(Events::URGENT) {
                    socket.tell_owner_of_urgent(&mut self.sessions);
                }
                if socket.has_marks() {
                    let is_below = socket.report_by_lowat(&mut self.sessions, self.now, also);
                    self.counters.waits.below_low_water += u64::from(is_below);
                } else {
                    socket.report_also(&mut self.sessions, self.now, also);
                }
            }
        } else if has_block {
            self.endings().release_if_delivered(key);
        }
        // One turn may bring the FIN and a reset after it: then TIME-WAIT is over already.
        if events.contains(Events::CLOSED) {
            self.endings().disconnect(key);
        } else if events.contains(Events::TIME_WAIT) {
            self.endings().enter_time_wait(key);
        } else if is_done {
            self.endings().forget(key);
        } else {
            self.sockets.arm(key);
        }
    }

    /// The wheel has named a socket.
    pub(crate) fn socket_timer(&mut self, key: u32) {
        let now = self.now;
        let Some(socket) = self.sockets.slab.get_mut(key) else {
            return;
        };
        if !self.sockets.wheel.is_due(&mut socket.alarm, key, now) {
            return;
        }
        let mut tell = false;
        match &mut socket.kind {
            Kind::Stream(c) => {
                if !c.is_over && c.tcb.deadline().is_some_and(|d| d <= now) {
                    c.tcb.on_timer(now);
                }
                tell = c.tell_by <= now;
            }
            Kind::Datagram(d) => tell = d.tell_by.take_if(|t| *t <= now).is_some(),
            Kind::Pair(p) => tell = p.waits.tell_by() <= now,
            _ => {}
        }
        if tell && socket.has_block() && !socket.orphan {
            socket.tell_quietly(&mut self.sessions, now);
            let turn = self.counters.event_loop.turns;
            self.sockets
                .take_back_chunks(key, &mut self.sessions, turn, now);
        }
        self.sockets.touch(key);
    }
}
