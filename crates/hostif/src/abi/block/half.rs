//! One direction of a socket: how far its stream reaches and is done with, and how much
//! of it there may be. Written by the host's calls and, for a connection that it hands
//! over, by the engine.

use crate::abi::STREAM_MAX;
use longshore_ring::{Locked, Offer, Reentered, Shared, SharedLock};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One direction of a socket, all zero when new.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct StreamHalf {
    /// Held while a call works on this half.
    pub lock: SharedLock,
    /// Bytes it may hold (SO_SNDBUF, SO_RCVBUF), at most [`crate::STREAM_MAX`].
    pub limit: AtomicU32,
    /// How far it reaches: what the host wrote, or what the engine delivered.
    pub edge: AtomicU64,
    /// How far it is done with: acknowledged, or consumed.
    pub done: AtomicU64,
    /// Send: how far chunks were given back; all were if the lock says so, too
    /// ([`lock_to_send`](Self::lock_to_send)). Receive: the last `done` that the
    /// engine was told and, if it slept, woken for.
    pub reported: AtomicU64,
    /// Send: TCP_NOTSENT_LOWAT, or UDP_SEGMENT; receive: SO_RCVLOWAT.
    pub low_water: AtomicU32,
    /// The longest that a call waits on this half (SO_SNDTIMEO, SO_RCVTIMEO), in
    /// milliseconds; 0 is as long as it takes.
    pub time_limit: AtomicU32,
    /// Receive: the urgent byte is the one before this; 0 if there was none. It only
    /// moves forward, and may be beyond the edge. Send: of datagrams, what they leave
    /// with ([`Sending`](super::Sending)); of streams, the notices that MSG_ZEROCOPY asks for
    /// ([`add_notice`](super::SocketBlock::add_notice)).
    pub urgent: AtomicU64,
    /// Receive: what `urgent` was when the byte was read apart from the rest; of datagrams, when
    /// the last one came that was received (SIOCGSTAMP), in nanoseconds since 1970, 0 if that is not
    /// known. Send: further bits that the host keeps.
    pub urgent_read: AtomicU64,
    /// Receive: what `urgent` is about to be, as the engine says before it signals the
    /// socket's owner. The byte is there. Send, of a connection with a low-water mark: how
    /// far it was sent ([`note_sent`](super::SocketBlock::note_sent)). Send, of datagrams:
    /// the notices that MSG_ZEROCOPY asks for.
    pub urgent_come: AtomicU64,
}

impl StreamHalf {
    /// Bytes between `done` and `edge`.
    pub fn held(&self) -> u64 {
        let done = self.done.load(Ordering::Acquire);
        self.edge.load(Ordering::Acquire).saturating_sub(done)
    }

    /// Takes the lock of a sending half. If the engine has taken its chunks meanwhile, all
    /// up to the edge were given back.
    ///
    /// # Errors
    /// [`Reentered`] if this very thread holds it.
    #[inline]
    pub fn lock_to_send(&self) -> Result<Locked<'_>, Reentered> {
        let mut lock = self.lock.lock()?;
        if lock.is_taken() {
            let edge = self.edge.load(Ordering::Relaxed);
            self.reported.store(edge, Ordering::Release);
            lock.note_taken();
        }
        Ok(lock)
    }

    /// Of a sending half: the bytes whose chunks it still has, as the host says.
    pub fn unreturned(&self) -> Range<u64> {
        let edge = self.edge.load(Ordering::Acquire);
        if self.lock.is_taken() {
            return edge..edge;
        }
        self.reported.load(Ordering::Acquire)..edge
    }

    /// Of a sending half, for the engine, which is done with all up to `edge`: if the host
    /// has written no more, and no call is at work on it, an offer to take its chunks, and
    /// the bytes that they have.
    pub fn offer_chunks(&self, edge: u64) -> Option<(Offer<'_>, Range<u64>)> {
        let offer = self.lock.offer()?;
        let held = self.reported.load(Ordering::Acquire)..self.edge.load(Ordering::Acquire);
        (held.end == edge).then_some((offer, held))
    }

    /// What `limit` says, or `usual` where nothing has set it.
    pub(super) fn limit_or(&self, usual: u32) -> u64 {
        match self.limit.load(Ordering::Relaxed) {
            0 => usual.into(),
            limit => u64::from(limit).min(STREAM_MAX),
        }
    }

    pub(super) fn reset(&self) {
        for word in [
            &self.edge,
            &self.done,
            &self.reported,
            &self.urgent,
            &self.urgent_read,
            &self.urgent_come,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        self.lock.forget_taken();
        self.limit.store(0, Ordering::Relaxed);
        self.low_water.store(0, Ordering::Relaxed);
        self.time_limit.store(0, Ordering::Relaxed);
    }
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for StreamHalf {}

/// Whether a writer of a stream that holds `held` of at most `limit` bytes is told that it
/// may write: a third of it is free, as Linux has it (`sk_stream_is_writeable`).
pub fn is_writable(held: u64, limit: u64) -> bool {
    held.saturating_mul(3) <= limit.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::block::tests::block;

    #[test]
    fn a_third_of_the_buffer_is_room() {
        assert!(is_writable(0, 300));
        assert!(is_writable(200, 300));
        assert!(!is_writable(201, 300));
        assert!(!is_writable(300, 300));
        // A larger buffer makes room, too.
        assert!(is_writable(300, 450));
        // A program may write what it likes into its block.
        assert!(!is_writable(u64::MAX, 300));
    }

    #[test]
    fn a_half_holds_what_is_not_done() {
        let b = block();
        let half = &b.rcv;
        half.edge.store(500, Ordering::Relaxed);
        half.done.store(200, Ordering::Relaxed);
        assert_eq!(half.held(), 300);
        // As a program may have it.
        half.done.store(501, Ordering::Relaxed);
        assert_eq!(half.held(), 0);
    }

    /// A host that writes on has none of them any more.
    #[test]
    fn chunks_that_were_taken_are_given_back_up_to_the_edge() {
        let b = block();
        let half = &b.snd;
        half.edge.store(500, Ordering::Relaxed);
        half.reported.store(100, Ordering::Relaxed);
        assert_eq!(half.unreturned(), 100..500);
        assert!(half.offer_chunks(499).is_none(), "it has written more");
        assert_eq!(half.lock_to_send().map(drop), Ok(()));
        assert_eq!(half.unreturned(), 100..500, "nothing was taken");
        let (offer, held) = half.offer_chunks(500).unwrap();
        assert_eq!(held, 100..500);
        assert!(offer.take());
        assert_eq!(half.unreturned(), 500..500);
        half.edge.store(600, Ordering::Relaxed);
        let locked = half.lock_to_send().unwrap();
        assert!(!locked.is_taken() && half.lock_to_send().is_err());
        assert!(half.offer_chunks(600).is_none(), "a call is at work");
        drop(locked);
        assert_eq!(half.unreturned(), 600..600);
        assert!(half.offer_chunks(600).is_some());
    }
}
