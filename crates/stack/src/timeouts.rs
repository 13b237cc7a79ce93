//! What is due: the timers of sockets, of half-open connections, of TIME-WAIT and of neighbors.
//!
//! Owns [`Timeouts`]; the stack makes one for the first turn in each tick of the timer wheel.

use crate::at_work::AtWork;
use crate::socket::Kind;
use crate::tcp_input::TcpInput;
use crate::timers::end_of_tick;
use longshore_tcp::Instant;

/// Does what is due: borrows what segments do their work with, since timers do the same, and when
/// deadlines are looked at next.
pub(crate) struct Timeouts<'a> {
    pub(crate) tcp: TcpInput<'a>,
    pub(crate) next_tick: &'a mut Instant,
}

impl Timeouts<'_> {
    /// Does what is due in this tick of the timer wheel; says whether any socket's timer was.
    #[inline(never)]
    pub(crate) fn handle_tick(&mut self) -> bool {
        let now = self.tcp.responder.now;
        *self.next_tick = end_of_tick(now);
        let mut due = self.tcp.endpoints.sockets.take_due(now);
        let any = !due.is_empty();
        for key in due.drain(..) {
            self.tcp.endpoints.sessions.at_work = AtWork::Socket(key);
            self.socket_timer(key);
        }
        self.tcp.endpoints.sockets.due = due;
        let any = self.tcp.retransmit_syn_acks() || any;
        self.tcp.endpoints.sessions.at_work = AtWork::Nobodys;
        self.tcp.endpoints.demux.expire_waits(now);
        let link = &mut *self.tcp.responder.link;
        if link.neighbor_deadline().is_some_and(|t| t <= now)
            && link.poll_neighbors(now, self.tcp.responder.counters)
        {
            self.tcp.endpoints.sockets.retry_unresolved();
        }
        any
    }

    /// The wheel has named a socket.
    fn socket_timer(&mut self, key: u32) {
        let now = self.tcp.responder.now;
        let Some(socket) = self.tcp.endpoints.sockets.slab.get_mut(key) else {
            return;
        };
        if !self
            .tcp
            .endpoints
            .sockets
            .wheel
            .is_due(&mut socket.alarm, key, now)
        {
            return;
        }
        let mut tell = false;
        match &mut socket.kind {
            Kind::Stream(c) => {
                if !c.is_over && c.tcb.deadline().is_some_and(|d| d <= now) {
                    c.tcb.on_timer(now);
                }
                tell = c.report_due <= now;
            }
            Kind::Datagram(d) => tell = d.report_due.take_if(|t| *t <= now).is_some(),
            Kind::Pair(p) => tell = p.waits.report_due() <= now,
            _ => {}
        }
        if tell && socket.has_block() && !socket.orphan {
            socket.report_quietly(&mut self.tcp.endpoints.sessions, now);
            let turn = self.tcp.responder.counters.event_loop.turns;
            self.tcp.endpoints.sockets.take_back_chunks(
                key,
                &mut self.tcp.endpoints.sessions,
                turn,
                now,
            );
        }
        self.tcp.endpoints.sockets.touch(key);
    }
}
