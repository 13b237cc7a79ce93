//! The end of a socket: closed as no process holds it, its connection in TIME-WAIT or over, its
//! block given back, forgotten.
//!
//! Owns [`Endings`], which borrows the sockets with the tables that find them, the half-open
//! connections of their listeners, and the link with the groups that they have joined. Requests
//! close sockets, segments and timers end connections, and `flush` those of which a turn has
//! found nothing left to do.

use crate::at_work::AtWork;
use crate::counters::Counters;
use crate::demux::Waiting;
use crate::endpoints::Endpoints;
use crate::link::Link;
use crate::output::Sent;
use crate::socket::Kind;
use crate::timers::Alarm;
use crate::transfers::Transfers;
use longshore_hostif::{NONE, SocketId, SocketKind};
use longshore_tcp::{Error, Instant, Linger, State};

/// Ends sockets, and connections of sockets that go on.
pub(crate) struct Endings<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) link: &'a mut Link,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Endings<'_> {
    /// What moves bytes from one socket to another.
    fn transfers(&mut self) -> Transfers<'_> {
        self.endpoints.transfers(self.counters, self.now)
    }

    /// Sends what a connection has to send, as much of it as goes in one turn.
    fn transmit(&mut self, key: u32) -> Sent {
        let (sessions, link) = (&mut self.endpoints.sessions, &mut *self.link);
        self.endpoints
            .sockets
            .transmit(key, sessions, link, self.counters, self.now)
    }

    /// No process holds the socket any more: what was written is still
    /// delivered, unless it lingers for no time at all.
    pub(crate) fn close(&mut self, key: u32, linger: Linger) {
        let now = self.now;
        let socket = self.endpoints.sockets.get(key);
        if !socket.is_some_and(|s| s.is_lent_on(&self.endpoints.sessions)) {
            self.transfers().leave_received(key);
        }
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        socket.orphan = true;
        match &mut socket.kind {
            Kind::Stream(c) => {
                c.tcb.settings().set_linger(linger);
                let resets = c.tcb.closing().resets_on_close();
                if resets {
                    // What the windows allow has left by then, as in Linux, where `send`
                    // itself sends it.
                    while self.transmit(key) == Sent::More {}
                }
                if let Some(c) = self.endpoints.sockets.connection_mut(key) {
                    c.tcb.close(now);
                }
                if !resets {
                    // So it has before payload comes that nobody takes any more, and resets the
                    // connection; the FIN goes with it. What is left is sent at the end of the turn.
                    let _ = self.transmit(key);
                }
                self.endpoints.sockets.touch(key);
            }
            Kind::Pair(_) => self.transfers().close_pair(key, linger == Linger::Reset),
            Kind::Listener(_) => {
                self.endpoints.sockets.give_up_waiting(key);
                self.endpoints
                    .half_open
                    .give_up_of(key, &self.endpoints.sockets);
                self.forget(key);
            }
            Kind::Datagram(d) => {
                // What comes now is nobody's, and the port is free again, though what was
                // written is still to be sent from it.
                for membership in std::mem::take(&mut d.groups) {
                    membership.end(self.link, now);
                }
                if let Some(local) = socket.bound.local() {
                    self.endpoints.demux.udp.release(local.port(), key);
                }
                self.endpoints.sockets.touch(key);
            }
            Kind::Idle(_) => self.forget(key),
        }
    }

    /// A listener was shut down (SHUT_RD): what waits for it is reset, and what comes is
    /// refused, until it is told to listen again. It stays bound if its program has chosen the
    /// port, as in Linux.
    pub(crate) fn stop_listening(&mut self, key: u32) {
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        let (Kind::Listener(l), Some(local)) = (&mut socket.kind, socket.bound.local()) else {
            return;
        };
        l.shut = true;
        self.endpoints.demux.tcp.stop_listening(local.port(), key);
        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
            socket.bound.give_port_back(key, &mut self.endpoints.demux);
        }
        self.endpoints.sockets.give_up_waiting(key);
        self.endpoints
            .half_open
            .renew_for(key, &mut self.endpoints.sockets);
        if let Some(socket) = self.endpoints.sockets.get(key) {
            socket.mark_entering(&self.endpoints.sessions);
        }
    }

    /// A connection is in TIME-WAIT: a small record takes its place.
    pub(crate) fn enter_time_wait(&mut self, key: u32) {
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        let Some(local) = socket.bound.local() else {
            return;
        };
        let reuse = socket.options.reuse;
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        if c.is_over {
            return;
        }
        let (record, remote, flow) = (longshore_tcp::TimeWait::of(&c.tcb), c.remote, c.flow);
        (c.is_over, c.was_made) = (true, true);
        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
            socket.bound.let_go(&mut self.endpoints.demux);
        }
        self.endpoints.demux.remove(&flow);
        self.endpoints.demux.wait(
            flow,
            Waiting {
                record,
                local,
                remote,
                reuse,
                alarm: Alarm::OFF,
            },
        );
        self.after_end(key);
    }

    /// A connection is over.
    pub(crate) fn disconnect(&mut self, key: u32) {
        self.endpoints.sockets.fast_open_done(key);
        self.transfers().forwarded(key, u64::MAX);
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let was_made = c.was_made;
        let is_given_up = matches!(c.tcb.error(), Some(Error::Reset | Error::Cancelled));
        if !c.is_over {
            c.is_over = true;
            let flow = c.flow;
            self.endpoints.demux.remove(&flow);
        }
        if let Some(s) = self.endpoints.sessions.get_mut(socket.session) {
            // What lies behind a hole is never read.
            let (end, consumed) = (c.tcb.rcv_edge(), c.tcb.rcv_consumed());
            c.rcv.end_at(end, consumed, &mut s.host.receive);
        }
        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
            socket.bound.give_port_back(key, &mut self.endpoints.demux);
        }
        if !was_made
            && is_given_up
            && let Some(socket) = self.endpoints.sockets.get_mut(key)
        {
            let v6 = socket.options.ipv6;
            socket
                .bound
                .leave_address(v6, key, &mut self.endpoints.demux);
        }
        self.after_end(key);
    }

    /// Nothing more is sent or received: the socket goes, unless a process
    /// still holds it.
    fn after_end(&mut self, key: u32) {
        let Some(socket) = self.endpoints.sockets.get(key) else {
            return;
        };
        if socket.orphan || !socket.has_block() {
            self.forget(key);
        } else {
            self.endpoints.sockets.arm(key);
        }
    }

    /// Gives an orphan's block back as soon as all it wrote has arrived.
    pub(crate) fn release_if_delivered(&mut self, key: u32) {
        let Some(socket) = self.endpoints.sockets.get(key) else {
            return;
        };
        let Kind::Stream(c) = &socket.kind else {
            return;
        };
        let delivered = c.tcb.snd_acked() == c.tcb.snd_edge() || c.tcb.state() == State::Closed;
        let is_in_vain = delivered && c.tcb.state() == State::SynSent;
        if delivered {
            self.transfers().release_block(key);
        }
        if is_in_vain {
            // Nobody waits for it, and it has nothing to say.
            self.transfers().abort(key);
        }
    }

    /// Forgets a socket altogether.
    pub(crate) fn forget(&mut self, key: u32) {
        self.transfers().release_block(key);
        if let Some(socket) = self.endpoints.sockets.get_mut(key) {
            socket.bound.let_go(&mut self.endpoints.demux);
        }
        let Some(socket) = self.endpoints.sockets.remove(key) else {
            return;
        };
        if self.endpoints.sessions.at_work == AtWork::Socket(key) {
            self.endpoints.sessions.at_work = AtWork::Session(socket.session);
        }
        match &socket.kind {
            Kind::Stream(c) => {
                if !c.is_over {
                    self.endpoints.demux.remove(&c.flow);
                }
                if c.listener.is_none()
                    && let Some(local) = socket.bound.local()
                {
                    self.endpoints.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Pair(p) => {
                if let Some(flow) = &p.flow {
                    self.endpoints.demux.remove(flow);
                }
                if let Some(local) = socket.bound.local() {
                    self.endpoints.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Listener(_) | Kind::Idle(SocketKind::Stream) => {
                if let Some(local) = socket.bound.local() {
                    self.endpoints.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Datagram(d) => {
                // Of those that a program has joined with a socket that it had closed.
                for membership in &d.groups {
                    membership.end(self.link, self.now);
                }
                if let Some(local) = socket.bound.local() {
                    self.endpoints.demux.udp.release(local.port(), key);
                }
            }
            // What binds one makes it a Datagram.
            Kind::Idle(SocketKind::Datagram) => {}
        }
    }
}

impl Transfers<'_> {
    /// Gives the block of a socket that no process holds back to its session,
    /// with the chunks that its send stream still has.
    fn release_block(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.count_landed(self.sessions);
        if !socket.has_block() {
            return;
        }
        self.let_received_go(key);
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(s) = self.sessions.get_mut(socket.session) else {
            return;
        };
        let id = std::mem::replace(
            &mut socket.id,
            SocketId {
                index: NONE,
                generation: 0,
            },
        );
        s.leave(id);
        s.host.send_slab().release_chunks(id);
        s.host.blocks().give_back(id);
    }

    /// What a socket has received is let go of, whether or not it was read, and what others send
    /// of it is theirs alone: its block is given back, or has another connection.
    pub(crate) fn let_received_go(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        if socket.forwarding.is_some() {
            self.end_forwarding(key);
        }
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if let Some(s) = self.sessions.get_mut(socket.session)
            && let Some(rcv) = socket.kind.receive_stream_mut()
        {
            rcv.consume(0, true, &mut s.host.receive);
        }
    }
}
