//! How much a connection may hold, tuned to its path.
//!
//! The receive buffer is tuned by `tcp` (dynamic right-sizing); here it is told how much
//! memory there is for it, and the host when to say what it has read, if the buffer is
//! smaller than usual. The send buffer follows the congestion window, as Linux has
//! it, unless the program has set it: the host may write twice what may be in flight
//! ([`longshore_tcp::SendStatus::buffer_wanted`]), within what net.ipv4.tcp_wmem allows. It shrinks
//! only where several fill theirs on short paths ([`bulk_senders`](crate::bulk_senders)).

use crate::bulk_senders::BulkSenders;
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, Socket};
use longshore_hostif::{CHUNK, RECEIVE_BUFFER};
use longshore_tcp::Instant;

impl Connection {
    /// The bytes that its send buffer is to hold, which has `size` now: less only if it is one
    /// of several bulk senders on short paths, which share what the caches hold.
    #[inline]
    pub(crate) fn send_buffer_wanted(
        &mut self,
        size: u32,
        senders: &mut BulkSenders,
        now: Instant,
    ) -> u64 {
        let held = self.tcb.snd_edge() - self.tcb.snd_acked();
        let is_short = self.tcb.send_status().is_path_short();
        let share = senders.note(&mut self.bulk_sender, if is_short { held } else { 0 }, now);
        let least = match is_short && BulkSenders::are_like(held) {
            true => share.min(size),
            false => size,
        };
        self.tcb
            .send_status()
            .buffer_wanted(size, share)
            .max(least.into())
    }
}

impl Socket {
    /// The receive buffer of a connection has been made, set, or tuned: one that is
    /// smaller than the host takes it to be is to be told of a quarter of it, or the peer
    /// would find the window closed, and have to probe it, though all was read. So is one
    /// whose window is narrow as memory is short.
    #[cold]
    pub(crate) fn apply_receive_buffer(&self, sessions: &Sessions) {
        let (Kind::Stream(c), Some(session)) = (&self.kind, sessions.get(self.session)) else {
            return;
        };
        if self.has_block() {
            let mut size = c.tcb.receive_status().buffer_size();
            if c.tcb.is_short_of_room() {
                size = size.min(CHUNK as u32);
            }
            let unreported_limit = if size < RECEIVE_BUFFER {
                (size / 4).max(1)
            } else {
                0
            };
            session
                .host
                .blocks()
                .set_unreported_limit(self.id, unreported_limit);
        }
    }

    /// The send buffer is to hold the bytes that are `wanted`. Says whether it has grown, which
    /// a process that waits for room has to be told.
    #[inline(never)]
    pub(crate) fn tune_send_buffer(&mut self, wanted: u64, sessions: &Sessions) -> bool {
        let (most, size) = (self.options.send_most, self.options.send_buffer);
        let wanted = wanted.min(u64::from(most)) as u32;
        // In steps, so that hardly an acknowledgment is reported for that alone.
        let (grows, shrinks) = (wanted > size, wanted < size - size / 4);
        let worth = wanted > size.saturating_add(size / 4) || wanted == most;
        let is_news = (grows && worth) || shrinks;
        if self.options.send_fixed || !is_news || !self.has_block() {
            return false;
        }
        let Some(session) = sessions.get(self.session) else {
            return false;
        };
        self.options.send_buffer = wanted;
        session.host.blocks().set_send_limit(self.id.index, wanted);
        grows
    }
}
