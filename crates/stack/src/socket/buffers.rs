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
use longshore_hostif::RECEIVE_BUFFER;
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
    /// The widest window of a connection is known, or another one than before: a host is to be told
    /// of a quarter of one that is smaller than the usual receive buffer, or the peer
    /// would find the window closed, and have to probe it, though all was read.
    #[cold]
    pub(crate) fn apply_widest_window(&self, sessions: &Sessions) {
        let (Kind::Stream(c), Some(session)) = (&self.kind, sessions.get(self.session)) else {
            return;
        };
        if self.has_block() {
            let size = c.tcb.widest_window();
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
