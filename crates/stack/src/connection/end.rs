//! The end of a socket: its connection in TIME-WAIT, disconnected, its block given back, forgotten.

use crate::Stack;
use crate::at_work::AtWork;
use crate::demux::Waiting;
use crate::socket::Kind;
use crate::timers::Alarm;
use crate::transfers::Transfers;
use longshore_hostif::{EdgeFlags, NONE, SocketId};
use longshore_tcp::State;

impl Stack {
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
        let (record, remote, flow) = (c.tcb.time_wait(), c.remote, c.flow);
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
        let was_made = c.told.flags.contains(EdgeFlags::CONNECTED);
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
