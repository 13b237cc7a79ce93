//! Readiness: what a socket can do now.

use crate::block_words::{has_room, is_urgent, readable_from, stands_at_mark, want_room};
use crate::holds::Socket;
use longshore_hostif::{BlockFlags, HostSession, SocketState};
use std::sync::atomic::Ordering;

bitflags::bitflags! {
    /// What a socket can do, in the numbers of Linux's poll and epoll.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Ready: u32 {
        /// It can be read from, or accepts.
        const IN = 0x001;
        /// There is urgent data to be read apart from the rest, or an error that counts as such.
        const PRI = 0x002;
        /// It can be written to.
        const OUT = 0x004;
        /// It has a pending error.
        const ERR = 0x008;
        /// Both halves are closed.
        const HUP = 0x010;
        /// As IN.
        const RDNORM = 0x040;
        /// As OUT.
        const WRNORM = 0x100;
        /// As OUT, of a datagram socket.
        const WRBAND = 0x200;
        /// The peer will send no more.
        const RDHUP = 0x2000;
    }
}

impl Socket {
    /// What it can do now, as Linux's `tcp_poll` and `datagram_poll` say it.
    pub fn readiness(&self) -> Ready {
        let mut ready = readiness(&self.host.session, self.id.index);
        if self.host.is_gone() {
            ready |= without_engine(&self.host.session, self.id.index);
        }
        ready
    }
}

/// What the socket of a block says when the engine is gone: a connection that it is over.
/// A listener, or a datagram socket, says nothing: nobody will come, and servers that were
/// told of it again and again would do nothing else.
pub(crate) fn without_engine(session: &HostSession, index: u32) -> Ready {
    let block = session.block(index);
    let is_quiet =
        block.state() == SocketState::Listening || block.flags().contains(BlockFlags::DATAGRAM);
    if is_quiet {
        Ready::empty()
    } else {
        Ready::ERR | Ready::HUP | Ready::IN | Ready::OUT | Ready::RDHUP
    }
}

/// What the socket of a block can do now.
pub(crate) fn readiness(session: &HostSession, index: u32) -> Ready {
    let block = session.block(index);
    let (flags, state) = (block.flags(), block.state());
    let readable = Ready::IN | Ready::RDNORM;
    let writable = Ready::OUT | Ready::WRNORM;
    let mut ready = Ready::empty();
    let held = block.rcv.held();
    if state == SocketState::Listening {
        // As Linux has it, of what went wrong before it listened nothing is said.
        if held != 0 || flags.contains(BlockFlags::SHUT_RD) {
            ready |= readable;
        }
        return ready;
    }
    if block.has_error() {
        ready |= Ready::ERR;
        ready.set(Ready::PRI, flags.contains(BlockFlags::ERRORS_ARE_URGENT));
    }
    let datagram = flags.contains(BlockFlags::DATAGRAM);
    let over = !datagram
        && matches!(
            state,
            SocketState::Open | SocketState::Dead | SocketState::Free
        );
    let no_more_in =
        flags.intersects(BlockFlags::PEER_FIN | BlockFlags::SHUT_RD) || state == SocketState::Dead;
    let no_more_out = flags.contains(BlockFlags::SHUT_WR) || state == SocketState::Dead;
    if over || (no_more_in && no_more_out) {
        ready |= Ready::HUP;
    }
    if no_more_in {
        ready |= readable | Ready::RDHUP;
    }
    if state == SocketState::Connecting {
        return ready;
    }
    let mut low_water = readable_from(block);
    if block.rcv.urgent.load(Ordering::Relaxed) != 0 {
        ready.set(Ready::PRI, is_urgent(block));
        // The urgent byte is nothing for those who read in order.
        low_water += u64::from(stands_at_mark(block));
    }
    if held >= if datagram { 1 } else { low_water } {
        ready |= readable;
    }
    if no_more_out || has_room(block) || want_room(block) {
        ready |= writable;
        if datagram {
            ready |= Ready::WRBAND;
        }
    }
    ready
}

#[cfg(test)]
mod tests;
