//! The local address and port of a socket, and how it has them in the tables: as what its program
//! has bound it to, or as a connection that nobody has bound and that holds its port.

use super::{Held, Socket, any_ip};
use crate::demux::{Demux, Reuse};
use crate::socket::Kind;
use longshore_hostif::EdgeFlags;

impl Socket {
    /// A connection that nobody has bound holds its port from now on; `over_v4` if it connects, and
    /// may be one of IPv6 that is not for that alone.
    pub(crate) fn hold_port(&mut self, over_v4: bool, demux: &mut Demux) {
        if let (Some(local), None) = (self.local, self.holds_port.get()) {
            let reuse = Reuse {
                over_v4: over_v4 && local.is_ipv6() && !self.options.v6_only,
                ..self.options.reuse
            };
            self.holds_port = Held::by(reuse);
            demux.tcp.hold(local, reuse);
        }
    }

    /// It holds no port any more.
    pub(crate) fn let_port_go(&mut self, demux: &mut Demux) {
        let held = std::mem::take(&mut self.holds_port).get();
        if let (Some(local), Some(reuse)) = (self.local, held) {
            demux.tcp.let_go(local, reuse);
        }
    }

    /// Its connection is over: it, which has this key, keeps no port but one that its program has
    /// chosen, as Linux has it.
    pub(crate) fn give_port_back(&mut self, key: u32, demux: &mut Demux) {
        self.let_port_go(demux);
        if let (Some(local), false) = (self.local, self.given.port()) {
            demux.tcp.release(local.port(), key);
        }
    }

    /// Its program has ended an attempt to connect, or knows that it has failed: if it has, the
    /// address goes that the attempt has given it.
    pub(crate) fn end_attempt(&mut self, key: u32, demux: &mut Demux) {
        let has_failed = match &self.kind {
            Kind::Stream(c) => c.is_over && !c.reported.flags.contains(EdgeFlags::CONNECTED),
            Kind::Pair(p) => p.connecting && p.dead.is_some() && p.flow.is_none(),
            _ => false,
        };
        if has_failed {
            self.leave_address(key, demux);
        }
    }

    /// An attempt to connect has come to nothing, of which a call that connects has told, or the
    /// program has ended it, or another takes its place: a socket whose
    /// program has bound it to a port and to no address is bound to all of them again, as Linux has
    /// it. The one that it had was that of its way to the peer.
    pub(crate) fn leave_address(&mut self, key: u32, demux: &mut Demux) {
        if self.given.port()
            && !self.given.address()
            && let Some(local) = &mut self.local
        {
            local.set_ip(any_ip(self.options.ipv6));
            demux.tcp.move_to(*local, key);
        }
    }
}
