//! The two directions of a socket: how far each stream reaches and is done with, and how much
//! of it there may be. Written by the host's calls and, for a connection that it hands
//! over, by the engine.

use crate::abi::STREAM_MAX;
use longshore_ring::{Locked, Offer, Reentered, Shared, SharedLock};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a socket sends, all zero when new.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct StreamSendHalf {
    /// Held while a call works on this half.
    pub lock: SharedLock,
    /// Bytes it may hold (SO_SNDBUF), at most [`crate::STREAM_MAX`].
    pub limit: AtomicU32,
    /// How far the host has written.
    pub edge: AtomicU64,
    /// How far that is acknowledged.
    pub done: AtomicU64,
    /// How far chunks were given back; all were if the lock says so, too
    /// ([`lock_to_send`](Self::lock_to_send)).
    pub returned: AtomicU64,
    /// TCP_NOTSENT_LOWAT, or UDP_SEGMENT.
    pub low_water: AtomicU32,
    /// The longest that a call waits on this half (SO_SNDTIMEO), in milliseconds; 0 is as long as
    /// it takes.
    pub time_limit: AtomicU32,
    /// Of datagrams, what they leave with ([`Sending`](super::Sending)); of streams, the notices
    /// that MSG_ZEROCOPY asks for ([`add_notice`](super::SocketBlock::add_notice)).
    pub sending_or_notices: AtomicU64,
    /// Further bits that the host keeps ([`more_bits`](super::SocketBlock::more_bits)).
    pub more_bits: AtomicU64,
    /// Of a connection with a low-water mark, how far it may be sent
    /// ([`note_sent`](super::SocketBlock::note_sent)); of datagrams, the notices that MSG_ZEROCOPY
    /// asks for.
    pub sent_or_notices: AtomicU64,
}

/// What a socket receives, all zero when new.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct StreamReceiveHalf {
    /// Held while a call works on this half.
    pub lock: SharedLock,
    /// Bytes it may hold (SO_RCVBUF), at most [`crate::STREAM_MAX`].
    pub limit: AtomicU32,
    /// How far the engine has delivered.
    pub edge: AtomicU64,
    /// How far that is consumed.
    pub done: AtomicU64,
    /// The last `done` that was reported to the engine and, if it slept, woke it.
    pub reported: AtomicU64,
    /// SO_RCVLOWAT.
    pub low_water: AtomicU32,
    /// The longest that a call waits on this half (SO_RCVTIMEO), in milliseconds; 0 is as long as
    /// it takes.
    pub time_limit: AtomicU32,
    /// The urgent byte is the one before this; 0 if there was none. It only moves forward, and may
    /// be beyond the edge.
    pub urgent: AtomicU64,
    /// What `urgent` was when the byte was read apart from the rest; of datagrams, when
    /// the last one came that was received (SIOCGSTAMP), in nanoseconds since 1970, 0 if that is not
    /// known.
    pub urgent_read: AtomicU64,
    /// What `urgent` is about to be, as the engine says before it signals the socket's owner. The
    /// byte is there.
    pub urgent_come: AtomicU64,
}

/// Bytes between `done` and `edge`, which the other side moves.
fn held(done: &AtomicU64, edge: &AtomicU64) -> u64 {
    let done = done.load(Ordering::Acquire);
    edge.load(Ordering::Acquire).saturating_sub(done)
}

/// What `limit` says, or `usual` where nothing has set it.
fn limit_or(limit: &AtomicU32, usual: u32) -> u64 {
    match limit.load(Ordering::Relaxed) {
        0 => usual.into(),
        limit => u64::from(limit).min(STREAM_MAX),
    }
}

/// Makes a half what it was when it was new.
fn clear(lock: &SharedLock, words: [&AtomicU64; 6], settings: [&AtomicU32; 3]) {
    lock.forget_taken();
    for word in words {
        word.store(0, Ordering::Relaxed);
    }
    for setting in settings {
        setting.store(0, Ordering::Relaxed);
    }
}

impl StreamSendHalf {
    /// Bytes that were written and are not acknowledged.
    pub fn held(&self) -> u64 {
        held(&self.done, &self.edge)
    }

    /// Takes the lock. If the engine has taken the chunks meanwhile, all up to the edge were given
    /// back.
    ///
    /// # Errors
    /// [`Reentered`] if this very thread holds it.
    #[inline]
    pub fn lock_to_send(&self) -> Result<Locked<'_>, Reentered> {
        let mut lock = self.lock.lock()?;
        if lock.is_taken() {
            let edge = self.edge.load(Ordering::Relaxed);
            self.returned.store(edge, Ordering::Release);
            lock.note_taken();
        }
        Ok(lock)
    }

    /// The bytes whose chunks it still has, as the host says.
    pub fn unreturned(&self) -> Range<u64> {
        let edge = self.edge.load(Ordering::Acquire);
        if self.lock.is_taken() {
            return edge..edge;
        }
        self.returned.load(Ordering::Acquire)..edge
    }

    /// For the engine, which is done with all up to `edge`: if the host has written no more, and no
    /// call is at work on it, an offer to take its chunks, and the bytes that they have.
    pub fn offer_chunks(&self, edge: u64) -> Option<(Offer<'_>, Range<u64>)> {
        let offer = self.lock.offer()?;
        let held = self.returned.load(Ordering::Acquire)..self.edge.load(Ordering::Acquire);
        (held.end == edge).then_some((offer, held))
    }

    /// Bytes it may hold, `usual` where nothing has set that.
    pub(super) fn limit_or(&self, usual: u32) -> u64 {
        limit_or(&self.limit, usual)
    }

    pub(super) fn reset(&self) {
        clear(
            &self.lock,
            [
                &self.edge,
                &self.done,
                &self.returned,
                &self.sending_or_notices,
                &self.more_bits,
                &self.sent_or_notices,
            ],
            [&self.limit, &self.low_water, &self.time_limit],
        );
    }
}

impl StreamReceiveHalf {
    /// Bytes that were delivered and are not consumed.
    pub fn held(&self) -> u64 {
        held(&self.done, &self.edge)
    }

    /// Bytes it may hold, `usual` where nothing has set that.
    pub(super) fn limit_or(&self, usual: u32) -> u64 {
        limit_or(&self.limit, usual)
    }

    pub(super) fn reset(&self) {
        clear(
            &self.lock,
            [
                &self.edge,
                &self.done,
                &self.reported,
                &self.urgent,
                &self.urgent_read,
                &self.urgent_come,
            ],
            [&self.limit, &self.low_water, &self.time_limit],
        );
    }
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for StreamSendHalf {}
// SAFETY: as above.
unsafe impl Shared for StreamReceiveHalf {}

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
        half.returned.store(100, Ordering::Relaxed);
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
