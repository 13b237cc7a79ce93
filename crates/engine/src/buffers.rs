//! How much a connection may hold, tuned to its path.
//!
//! The receive buffer is tuned by `tcp` (dynamic right-sizing); here it is told how much
//! memory there is for it, and the host when to say what it has read, if the buffer is
//! smaller than usual. The send buffer follows the congestion window, as Linux has
//! it, unless the program has set it: the host may write twice what may be in flight
//! ([`longshore_tcp::Tcb::snd_buffer_wanted`]), within what net.ipv4.tcp_wmem allows.

use crate::engine::Engine;
use crate::socket::{Kind, Options};
use crate::streams::RcvSlab;
use longshore_hostif::{CHUNK, RECEIVE_BUFFER, SocketBlock};
use std::sync::atomic::Ordering;

impl RcvSlab {
    /// Bytes that the receive buffer of one connection may grow to: a quarter of what is
    /// free, so that many that grow at once leave room for each other.
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.available()) * CHUNK as u64 / 4
    }
}

impl Options {
    /// Writes the size of the send buffer to the block of a connection that its listener
    /// is about to get. From then on tuning alone changes it, unless the program sets it.
    pub(crate) fn write_send_limit(&self, block: &SocketBlock) {
        block.snd.limit.store(self.send_buffer, Ordering::Release);
    }
}

impl Engine {
    /// The receive buffer of a connection has been made, set, or tuned: one that is
    /// smaller than the host takes it to be is to be told of a quarter of it, or the peer
    /// would find the window closed, and have to probe it, though all was read.
    #[cold]
    pub(crate) fn heed_receive_buffer(&self, key: u32) {
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let (Kind::Stream(c), Some(session)) = (&socket.kind, self.sessions.get(socket.session))
        else {
            return;
        };
        if socket.has_block() {
            let size = c.tcb.rcvbuf();
            let heed = if size < RECEIVE_BUFFER {
                (size / 4).max(1)
            } else {
                0
            };
            let block = session.arena.block(socket.id.index);
            block.heed.store(heed, Ordering::Release);
        }
    }

    /// The send buffer grows to the bytes that are `wanted`. Says whether it did, which
    /// whoever waits for room has to hear.
    #[inline(never)]
    pub(crate) fn tune_send_buffer(&mut self, key: u32, wanted: u64) -> bool {
        let Some(socket) = self.sockets.get_mut(key) else {
            return false;
        };
        let (most, size) = (socket.options.send_most, socket.options.send_buffer);
        let wanted = wanted.min(u64::from(most)) as u32;
        // In steps, so that hardly an acknowledgment is news for that alone.
        let worth = wanted > size.saturating_add(size / 4) || wanted == most;
        if socket.options.send_fixed || wanted <= size || !worth || !socket.has_block() {
            return false;
        }
        let Some(session) = self.sessions.get(socket.session) else {
            return false;
        };
        socket.options.send_buffer = wanted;
        let block = session.arena.block(socket.id.index);
        block.snd.limit.store(wanted, Ordering::Release);
        true
    }
}
