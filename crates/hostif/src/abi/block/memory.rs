//! What a small send buffer has room for. Linux's SO_SNDBUF is of memory: each buffer that it puts
//! bytes into counts with its headers, and one that is begun is filled, though the limit is
//! passed by that. Of a large buffer that is a few per cent, and here its limit is one of bytes; a
//! program that has set a small one takes what fits for a property of the system.
//!
//! Called by `sockets`, for streams whose program has set it; the engine says where buffers begin
//! ([`NotSent`](super::NotSent)), and until it has, bytes are counted.

use super::{BlockFlags, SocketBlock, is_writable};
use std::sync::atomic::Ordering;

/// Send buffers of less than this are counted by memory if their program has set them, bytes.
pub const SMALL_SEND_BUFFER: u32 = 64 << 10;

/// What a buffer counts beside its bytes: Linux's `sk_buff`, the `skb_shared_info` behind its data
/// and room for the headers of a packet, on 64 bits.
const OVERHEAD: u64 = 1280;

/// A send stream in the buffers that Linux would have it in.
#[derive(Debug, Clone, Copy)]
struct Buffers {
    /// Bytes of each.
    size: u64,
}

impl Buffers {
    /// The memory of so many bytes, without gaps.
    fn memory(self, bytes: u64) -> u64 {
        bytes.saturating_add(bytes.div_ceil(self.size).saturating_mul(OVERHEAD))
    }

    /// How many are begun before so much memory is used.
    fn begun_in(self, memory: u64) -> u64 {
        memory.div_ceil(self.size + OVERHEAD)
    }

    /// How far a stream may be written in `limit` bytes of memory that is acknowledged up to `done`
    /// and written up to `edge`. What may be sent, up to `sendable`, leaves as it is written, and is
    /// cut off where the windows end, so a buffer begins there.
    fn end(self, limit: u64, done: u64, edge: u64, sendable: u64) -> u64 {
        let sent = sendable.min(edge);
        let free = limit.saturating_sub(self.memory(sent.saturating_sub(done)));
        let ahead = sendable.saturating_sub(sent);
        let filled = self.begun_in(free).saturating_mul(self.size);
        if filled <= ahead {
            return sent.saturating_add(filled);
        }
        // That which is cut off there is filled again in any case.
        let left = free.saturating_sub(self.memory(ahead));
        let behind = self.begun_in(left).max(1);
        sendable.saturating_add(behind.saturating_mul(self.size))
    }
}

/// Whether a writer of a send buffer of `limit` bytes of memory is told that it may write, which holds
/// `held` bytes in buffers of `size_goal` bytes.
#[must_use]
pub fn is_memory_writable(held: u64, limit: u64, size_goal: u32) -> bool {
    let size = u64::from(size_goal).max(1);
    is_writable(Buffers { size }.memory(held), limit)
}

impl SocketBlock {
    /// Those of a stream that counts memory, if the engine has said how large they are.
    fn buffers(&self) -> Option<Buffers> {
        if !self.flags().contains(BlockFlags::COUNTS_MEMORY) {
            return None;
        }
        let size = self.syn_room_or_size_goal.load(Ordering::Acquire);
        (size != 0).then_some(Buffers { size: size.into() })
    }

    /// How many more bytes the send buffer takes.
    #[inline]
    pub fn send_room(&self) -> u64 {
        match self.buffers() {
            None => self.snd_limit().saturating_sub(self.snd.held()),
            Some(buffers) => self.room_in(buffers),
        }
    }

    #[cold]
    fn room_in(&self, buffers: Buffers) -> u64 {
        let done = self.snd.done.load(Ordering::Acquire);
        let edge = self.snd.edge.load(Ordering::Acquire);
        let end = buffers.end(self.snd_limit(), done, edge, self.sendable());
        end.saturating_sub(edge)
    }

    /// Whether a writer of the stream is told that its send buffer has room.
    #[inline]
    pub fn is_send_buffer_writable(&self) -> bool {
        self.is_writable_at(self.snd.held(), self.snd_limit())
    }

    /// Whether one would be, were so many bytes held and this the limit.
    #[inline]
    pub(crate) fn is_writable_at(&self, held: u64, limit: u64) -> bool {
        let held = self.buffers().map_or(held, |buffers| buffers.memory(held));
        is_writable(held, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::NotSent;
    use crate::abi::block::tests::block;
    use proptest::prelude::*;

    const FULL: Buffers = Buffers { size: 25_000 };

    #[test]
    fn a_buffer_that_is_begun_is_filled() {
        // As Linux does it at 988 bytes a segment, of which the window takes two.
        let segments = Buffers { size: 988 };
        assert_eq!(segments.end(4608, 0, 0, 1976), 2964);
        assert_eq!(segments.end(4608, 0, 0, 0), 2964, "nothing may be sent");
        assert_eq!(segments.end(4608, 0, 0, 98_800), 2964, "nor is that more");
        // Ten segments of a thousand leave; what follows begins two buffers.
        assert_eq!(FULL.end(42_000, 0, 0, 10_000), 60_000);
        assert_eq!(FULL.end(42_000, 0, 60_000, 10_000), 60_000);
        // All of it was sent: one more is begun only where there is memory.
        assert_eq!(FULL.end(42_000, 10_000, 60_000, 30_000), 55_000);
        assert_eq!(FULL.end(42_000, 36_000, 60_000, 60_000), 85_000);
        // The limit is less than one, and nothing is held.
        assert_eq!(FULL.end(4608, 7, 7, 7), 25_007);
        assert_eq!(FULL.end(4608, 7, 8, 8), 25_008);
        assert_eq!(FULL.end(4608, 0, 5000, 5000), 5000);
    }

    #[test]
    fn a_stream_counts_memory_once_the_engine_has_said_in_which_buffers() {
        let b = block();
        b.snd.limit.store(4608, Ordering::Relaxed);
        let not_sent = NotSent {
            sendable: 1976,
            size_goal: 988,
            usual: 0,
        };
        b.set_not_sent(&not_sent);
        assert_eq!(b.send_room(), 4608, "nobody has set it");
        b.set_flags(BlockFlags::COUNTS_MEMORY);
        assert_eq!(b.send_room(), 2964);
        b.snd.edge.store(1000, Ordering::Relaxed);
        assert_eq!(b.send_room(), 1964);
        assert!(
            !b.is_send_buffer_writable(),
            "of 3,560 more than two thirds"
        );
        b.snd.edge.store(988, Ordering::Relaxed);
        assert!(b.is_send_buffer_writable());
        b.set_not_sent(&NotSent::default());
        assert_eq!(b.send_room(), 4608 - 988, "the engine has said nothing");
    }

    /// As the block has it, of the values that the engine knows.
    #[test]
    fn a_writer_is_told_by_the_memory_of_what_is_held() {
        for (held, size_goal, is_one) in [
            (988, 988, true),
            (1000, 988, false),
            (0, 0, true),
            (2, 0, true),
            (3, 0, false),
        ] {
            assert_eq!(is_memory_writable(held, 4608, size_goal), is_one, "{held}");
        }
    }

    proptest! {
        /// There is room whenever the memory of what is held is less than the limit, never for
        /// more than one buffer beyond it, and no value of a program's overflows.
        #[test]
        fn room_ends_within_a_buffer_of_the_limit(
            size in 1_u64..70_000, limit in 0_u64..70_000, done: u32, held in 0_u64..200_000, ahead in -200_000_i64..200_000,
        ) {
            let buffers = Buffers { size };
            let done = u64::from(done);
            let edge = done + held;
            let sendable = edge.saturating_add_signed(ahead).max(done);
            let end = buffers.end(limit, done, edge, sendable);
            if buffers.memory(held) + OVERHEAD < limit {
                prop_assert!(end > edge);
            }
            let most = limit.max(buffers.memory(sendable.min(edge) - done)) + 2 * (size + OVERHEAD);
            prop_assert!(end <= done + most);
        }

        #[test]
        fn a_programs_words_do_no_harm(size in 1_u32.., limit: u64, done: u64, edge: u64, sendable: u64) {
            let _ = Buffers { size: size.into() }.end(limit, done, edge, sendable);
        }
    }
}
