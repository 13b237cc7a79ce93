//! The end of a socket: closed as no process holds it, its connection in TIME-WAIT, disconnected, its
//! block given back, forgotten.
//!
//! Which process holds what is known by the engine, which says so when one has ended, when a
//! socket was lost on its way between two, and when a session ends.

use crate::Stack;
use crate::at_work::AtWork;
use crate::demux::Waiting;
use crate::socket::Kind;
use crate::timers::Alarm;
use crate::transfers::Transfers;
use longshore_hostif::{EdgeFlags, NONE, SocketId};
use longshore_tcp::{Linger, State};

impl Stack {
    /// No process holds a socket any more: what was written is still delivered, unless its program
    /// has said that closing it resets its connection (SO_LINGER), as in Linux.
    pub fn close_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.take_last_edges(key);
            let socket = stack.sockets.get(key);
            let linger = socket.map_or(Linger::Background, |s| s.linger_noted(&stack.sessions));
            stack.close(key, linger);
        });
    }

    /// No process holds a socket any more, and what was written is delivered to nobody.
    pub fn reset_unheld(&mut self, key: u32) {
        self.work_for(key, |stack| {
            stack.close(key, Linger::Reset);
            stack.transfers().abort(key);
        });
    }

    /// What a process that has ended had written or read and not yet told us of is taken
    /// from the socket's block, checked like any request.
    fn take_last_edges(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let Some(s) = self.sessions.get(socket.session) else {
            return;
        };
        if !socket.has_block() {
            return;
        }
        if let Some((snd, rcv)) = s.host.edges_noted(socket.id) {
            // Nobody keeps the bytes of others that it was about to send.
            let told = socket.snd_edge().min(snd);
            let snd = s.host.send.first_forwarded(socket.id.index, told..snd);
            let _ = self.host_edges(key, None, snd, rcv, EdgeFlags::PUSH);
        }
    }

    /// A process has a socket no longer. Connections that it was given and has not accepted
    /// are told to the others that listen.
    pub fn forget_subscriber(&mut self, key: u32, channel: u16) {
        self.work_for(key, |stack| {
            let now = stack.now;
            let socket = stack.sockets.get_mut(key);
            if socket.is_some_and(|s| s.forget_subscriber(channel, now)) {
                stack.sockets.touch(key);
            }
        });
    }

    /// A connection is in TIME-WAIT: a small record takes its place.
    pub(super) fn enter_time_wait(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Some(local) = socket.local else { return };
        let reuse = socket.options.reuse;
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        if c.is_over {
            return;
        }
        let (record, remote, flow) = (longshore_tcp::TimeWait::of(&c.tcb), c.remote, c.flow);
        c.is_over = true;
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.let_port_go(&mut self.demux);
        }
        self.demux.remove(&flow);
        self.demux.wait(
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
    pub(super) fn disconnect(&mut self, key: u32) {
        self.sockets.fast_open_done(key);
        self.transfers().forwarded(key, u64::MAX);
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let Kind::Stream(c) = &mut socket.kind else {
            return;
        };
        let was_made = c.reported.flags.contains(EdgeFlags::CONNECTED);
        if !c.is_over {
            c.is_over = true;
            let flow = c.flow;
            self.demux.remove(&flow);
        }
        if let Some(s) = self.sessions.get_mut(socket.session) {
            // What lies behind a hole is never read.
            let (end, consumed) = (c.tcb.rcv_edge(), c.tcb.rcv_consumed());
            c.rcv.end_at(end, consumed, &mut s.host.receive);
        }
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.give_port_back(key, &mut self.demux);
        }
        if !was_made && let Some(socket) = self.sockets.get_mut(key) {
            socket.leave_address(key, &mut self.demux);
        }
        self.after_end(key);
    }

    /// Nothing more is sent or received: the socket goes, unless a process
    /// still holds it.
    fn after_end(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        if socket.orphan || !socket.has_block() {
            self.forget(key);
        } else {
            self.sockets.arm(key);
        }
    }

    /// Gives an orphan's block back as soon as all it wrote has arrived.
    pub(super) fn release_if_delivered(&mut self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
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
        if let Some(socket) = self.sockets.get_mut(key) {
            socket.let_port_go(&mut self.demux);
        }
        let Some(socket) = self.sockets.remove(key) else {
            return;
        };
        if self.sessions.at_work == AtWork::Socket(key) {
            self.sessions.at_work = AtWork::Session(socket.session);
        }
        match &socket.kind {
            Kind::Stream(c) => {
                if !c.is_over {
                    self.demux.remove(&c.flow);
                }
                if c.listener.is_none()
                    && let Some(local) = socket.local
                {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Pair(p) => {
                if let Some(flow) = &p.flow {
                    self.demux.remove(flow);
                }
                if let Some(local) = socket.local {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Listener(_) | Kind::Idle(longshore_hostif::SocketKind::Stream) => {
                if let Some(local) = socket.local {
                    self.demux.tcp.release(local.port(), key);
                }
            }
            Kind::Datagram(d) => {
                for group in &d.groups {
                    self.link.leave_group(*group, self.now);
                }
                if let Some(local) = socket.local {
                    self.demux.udp.release(local.port(), key);
                }
            }
            Kind::Idle(longshore_hostif::SocketKind::Datagram) => {
                if let Some(local) = socket.local {
                    self.demux.udp.release(local.port(), key);
                }
            }
        }
    }
}

impl Transfers<'_> {
    /// Gives the block of a socket that no process holds back to its session,
    /// with the chunks that its send stream still has.
    pub(crate) fn release_block(&mut self, key: u32) {
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
        s.host.release_send_chunks(id);
        s.host.give_block_back(id);
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
