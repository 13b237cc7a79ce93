//! The end of a socket: its connection in TIME-WAIT, disconnected, its block given back, forgotten.

use crate::Stack;
use crate::at_work::AtWork;
use crate::demux::{Reuse, Waiting};
use crate::socket::{Kind, any_ip};
use crate::timers::Alarm;
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
        self.let_port_go(key);
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
        self.fast_open_done(key);
        self.forwarded(key, u64::MAX);
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
        self.give_port_back(key);
        if !was_made {
            self.leave_address(key);
        }
        self.after_end(key);
    }

    /// A connection that nobody has bound holds its port from now on; `over_v4` if it connects, and
    /// may be one of IPv6 that is not for that alone.
    pub(crate) fn hold_port(&mut self, key: u32, over_v4: bool) {
        if let Some(socket) = self.sockets.get_mut(key)
            && let (Some(local), None) = (socket.local, socket.holds_port)
        {
            let reuse = Reuse {
                over_v4: over_v4 && local.is_ipv6() && !socket.options.v6_only,
                ..socket.options.reuse
            };
            socket.holds_port = Some(reuse);
            self.demux.tcp.hold(local, reuse);
        }
    }

    pub(crate) fn let_port_go(&mut self, key: u32) {
        if let Some(socket) = self.sockets.get_mut(key)
            && let (Some(local), Some(reuse)) = (socket.local, socket.holds_port.take())
        {
            self.demux.tcp.let_go(local, reuse);
        }
    }

    /// A connection is over: it keeps no port but one that its program has chosen, as Linux has
    /// it.
    pub(crate) fn give_port_back(&mut self, key: u32) {
        self.let_port_go(key);
        if let Some(socket) = self.sockets.get(key)
            && let (Some(local), false) = (socket.local, socket.given.port)
        {
            self.demux.tcp.release(local.port(), key);
        }
    }

    /// An attempt to connect has come to nothing, or another takes its place: a socket whose
    /// program has bound it to a port and to no address is bound to all of them again, as Linux has
    /// it. The one that it had was that of its way to the peer.
    pub(crate) fn leave_address(&mut self, key: u32) {
        if let Some(socket) = self.sockets.get_mut(key)
            && socket.given.port
            && !socket.given.address
            && let Some(local) = &mut socket.local
        {
            local.set_ip(any_ip(socket.options.ipv6));
            self.demux.tcp.move_to(*local, key);
        }
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
            self.release_block(key);
        }
        if is_in_vain {
            // Nobody waits for it, and it has nothing to say.
            self.abort(key);
        }
    }

    /// Gives the block of a socket that no process holds back to its session,
    /// with the chunks that its send stream still has.
    pub(crate) fn release_block(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        socket.count_landed(&mut self.sessions);
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

    /// Forgets a socket altogether.
    pub(crate) fn forget(&mut self, key: u32) {
        self.release_block(key);
        self.let_port_go(key);
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
