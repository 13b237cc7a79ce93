//! Where everything lies in a session's shared memory; a change here is a new
//! [`ABI_VERSION`](super::ABI_VERSION).

use super::inventory::{Metered, Sides, Word, of, word, words};
use super::{
    ChannelControl, FILES, MAX_WORKERS, Routes, SharedFile, SocketBlock, StreamReceiveHalf,
    StreamSendHalf,
};
use longshore_ring::spsc::Slot;
use longshore_ring::{FreeList, Shared, Waiter};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// "LONGSHOR", the first word of an arena.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"LONGSHOR");
/// Bytes in a stream's chunk.
pub const CHUNK: usize = 64 * 1024;
/// Chunks in a stream's directory.
pub const DIRECTORY: usize = 256;
/// Entries of a directory that lie side by side. Behind those of one socket lie the same
/// ones of the next: a socket through which little has gone has touched the first few of
/// each directory alone, and many such sockets share a page of them.
pub(crate) const DIRECTORY_GROUP: usize = 8;
/// Most bytes a stream may hold: one chunk less than the directory spans, so
/// that the first and the last, both in part, never meet in one entry.
pub const STREAM_MAX: u64 = ((DIRECTORY - 1) * CHUNK) as u64;
/// Bytes that a send stream may hold by default (SO_SNDBUF). Both sides count
/// on the same number until the host sets another: the adapter tells of
/// acknowledgments when a quarter of it has become free.
pub const SEND_BUFFER: u32 = 1 << 20;
/// Bytes that a receive stream may hold by default (SO_RCVBUF), before it is
/// tuned.
pub const RECEIVE_BUFFER: u32 = 128 * 1024;
/// Descriptors in a ring. Under Miri, which looks at each word of a ring whenever a function is
/// passed one, they are fewer: its tests use as much of a ring, and go round it, in a tenth of
/// the time.
pub const RING: usize = if cfg!(miri) { 128 } else { 1024 };
/// Bytes in a descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;

const BOTH: Sides = Sides::HOST.union(Sides::ADAPTER);

/// How many of each thing a session has. All counts are at least 1, channels
/// and sockets multiples of 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Processes at most.
    pub channels: u32,
    /// Sleeping threads and epoll instances at most.
    pub waiters: u32,
    /// Sockets at most.
    pub sockets: u32,
    /// Chunks of the send slab.
    pub snd_chunks: u32,
    /// Chunks of the receive slab.
    pub rcv_chunks: u32,
    /// Workers of the engine, each of which has rings of its own for each process.
    pub workers: u32,
}

impl Geometry {
    /// Room for 64 Ki sockets, 256 processes and 2 GiB of data each way. Memory
    /// is only taken where it is touched.
    pub const DEFAULT: Self = Self {
        channels: 256,
        waiters: 4096,
        sockets: 65_536,
        snd_chunks: 32_768,
        rcv_chunks: 32_768,
        workers: 1,
    };

    /// As small as it may be, with a few waiters and chunks.
    #[cfg(test)]
    pub(crate) const SMALL: Self = Self {
        channels: 64,
        waiters: 8,
        sockets: 64,
        snd_chunks: 4,
        rcv_chunks: 4,
        workers: 1,
    };

    /// Whether the counts are in the ranges that the layout can hold.
    pub fn is_valid(&self) -> bool {
        let within = |v: u32, max: u32| (1..=max).contains(&v);
        within(self.channels, 1024)
            && self.channels.is_multiple_of(64)
            && within(self.waiters, 65_000)
            && within(self.sockets, 1 << 20)
            && self.sockets.is_multiple_of(64)
            && within(self.snd_chunks, 1 << 20)
            && within(self.rcv_chunks, 1 << 20)
            && within(self.workers, MAX_WORKERS)
            // Each worker has some of its own.
            && self.workers <= self.rcv_chunks
    }

    /// Rings in each direction: one for each process and worker.
    #[inline]
    pub(crate) fn rings(&self) -> u32 {
        self.channels * self.workers
    }

    /// The number of the rings of the process of `channel` at `worker`; at the first worker, that
    /// of the channel.
    #[inline]
    #[must_use]
    pub fn ring(&self, channel: u32, worker: u32) -> u32 {
        worker * self.channels + channel
    }
}

/// The first page of an arena.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// Set by the engine when it ends the session; programs fail their calls.
    pub closed: AtomicU32,
    /// One more than the highest waiter that was ever claimed: above are none to be woken
    /// or given back, and their pages need not be looked at.
    pub waiters_end: AtomicU32,
    /// Nonzero if what is bound to the wildcard is bound on the engine alone. Written once,
    /// by the engine, before any program sees it.
    pub engine_alone: AtomicU32,
    /// The congestion control that new sockets begin with, by its place in
    /// [`CONGESTION_NAMES`](crate::CONGESTION_NAMES). Written by the engine.
    pub congestion: AtomicU32,
    /// What both sides have beside the version ([`Features`](super::Features)).
    pub(crate) features: AtomicU32,
    /// One more than the highest block that a program has ever held.
    pub(crate) sockets_end: AtomicU32,
    /// Words that the engine reads to find who has published requests.
    pub requests_pending: RequestsPending,
    /// Counts the reservations of channels: the engine has to look for those that are never
    /// taken.
    pub reservations: AtomicU32,
    /// Channels of which [`ChannelControl`] may say that something is under way to an own
    /// socket of the engine: a bit for each number of a channel, modulo 64.
    pub(crate) under_way: AtomicU64,
    /// The engine sleeps here; the host rings its doorbell if it does.
    pub engine: Waiter,
    /// Free socket blocks.
    pub free_sockets: FreeList,
    /// Free chunks of the send slab that take memory, as they were used lately.
    pub(crate) warm_snd_chunks: FreeList,
    /// Free chunks of the send slab that take none.
    pub(crate) cold_snd_chunks: FreeList,
    /// Which destinations are the engine's. Written once, by the engine.
    pub routes: Routes,
    /// The files that the engine has been handed.
    pub(crate) files: [SharedFile; FILES],
}

/// One bit for each channel: it has published requests since the engine looked.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RequestsPending {
    /// Nonzero if any of `channels` may be: the bits of [`Hurry`].
    pub any: AtomicU32,
    /// A bit for each channel.
    pub channels: [AtomicU64; 16],
}

/// When requests that were published are to be fetched, each a bit of
/// `RequestsPending::any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Hurry {
    /// Now: somebody waits, or there is much.
    Now = 1,
    /// Before any frame that arrives is looked at.
    First = 2,
    /// Within a short time: more is expected to follow, or that it becomes `Now`.
    Soon = 4,
    /// With whatever else is fetched.
    Later = 8,
    /// In a while, or with others: what was written is held back by its program, which goes on
    /// writing or lets go of it (TCP_CORK, MSG_MORE).
    HeldBack = 16,
}

impl Hurry {
    /// Whether any of `pending` is so.
    pub(crate) fn is_in(self, pending: u32) -> bool {
        pending & self as u32 != 0
    }
}

/// What each worker but the first has of its own; that has the same in the header.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct WorkerWords {
    /// By which it finds out who has published requests for it.
    pub(crate) requests_pending: RequestsPending,
    /// It sleeps here.
    pub(crate) engine: Waiter,
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for Header {}
// SAFETY: as above.
unsafe impl Shared for RequestsPending {}
// SAFETY: as above.
unsafe impl Shared for WorkerWords {}

impl RequestsPending {
    const WORDS: &[Word] = words!(RequestsPending {
        any: word(BOTH, BOTH, Metered::Along),
        channels: word(BOTH, BOTH, Metered::Along),
    });
}

impl WorkerWords {
    /// Its words.
    pub(super) const WORDS: &[Word] = words!(WorkerWords {
        requests_pending: of(RequestsPending::WORDS),
        engine: word(BOTH, BOTH, Metered::Along),
    });
}

impl Header {
    /// Its words.
    pub(super) const WORDS: &[Word] = words!(Header {
        magic: word(Sides::ADAPTER, Sides::HOST, Metered::Before),
        version: word(Sides::ADAPTER, Sides::HOST, Metered::Before),
        closed: word(Sides::ADAPTER, Sides::HOST, Metered::Transfer),
        waiters_end: word(Sides::HOST, BOTH, Metered::Along),
        engine_alone: word(Sides::ADAPTER, Sides::HOST, Metered::Before),
        congestion: word(Sides::ADAPTER, Sides::HOST, Metered::Transfer),
        features: word(Sides::ADAPTER, Sides::HOST, Metered::Before),
        sockets_end: word(Sides::HOST, Sides::HOST, Metered::Inside),
        requests_pending: of(RequestsPending::WORDS),
        reservations: word(Sides::HOST, Sides::AGENT, Metered::Inside),
        under_way: word(Sides::HOST, Sides::HOST, Metered::Inside),
        engine: word(BOTH, BOTH, Metered::Along),
        free_sockets: word(BOTH, BOTH, Metered::Nowhere),
        warm_snd_chunks: word(BOTH, BOTH, Metered::Nowhere),
        cold_snd_chunks: word(BOTH, BOTH, Metered::Nowhere),
        routes: of(Routes::WORDS),
        files: word(BOTH, BOTH, Metered::Nowhere),
    });
}

/// Byte offsets of each part, from a geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) controls: usize,
    pub(crate) workers: usize,
    pub(crate) waiters: usize,
    pub(crate) socket_links: usize,
    pub(crate) snd_links: usize,
    pub(crate) held: usize,
    pub(crate) request_slots: usize,
    pub(crate) completion_slots: usize,
    pub(crate) blocks: usize,
    pub(crate) snd_directories: usize,
    pub(crate) rcv_directories: usize,
    pub(crate) snd_slab: usize,
    pub(crate) rcv_slab: usize,
    pub(crate) end: usize,
}

impl Offsets {
    /// The small parts first, so that those used first share what the kernel's page tables
    /// and its mapping of neighbours at a fault share.
    pub(crate) fn of(g: &Geometry) -> Self {
        let mut at = size_of::<Header>();
        let mut part = |count: usize, size: usize| {
            let start = at;
            at = (start + count * size).next_multiple_of(4096);
            start
        };
        let (channels, sockets) = (g.channels as usize, g.sockets as usize);
        let rings = g.rings() as usize;
        Self {
            controls: part(rings, size_of::<ChannelControl>()),
            // None, with one worker: then all lies where it did before there could be more.
            workers: part(g.workers as usize - 1, size_of::<WorkerWords>()),
            waiters: part(g.waiters as usize, size_of::<Waiter>()),
            socket_links: part(sockets, size_of::<AtomicU32>()),
            snd_links: part(g.snd_chunks as usize, size_of::<AtomicU32>()),
            held: part(channels, sockets / 8),
            request_slots: part(rings * RING, size_of::<Slot>()),
            completion_slots: part(rings * RING, size_of::<Slot>()),
            blocks: part(sockets, size_of::<SocketBlock>()),
            snd_directories: part(sockets * DIRECTORY, size_of::<AtomicU32>()),
            rcv_directories: part(sockets * DIRECTORY, size_of::<AtomicU32>()),
            snd_slab: part(g.snd_chunks as usize, CHUNK),
            rcv_slab: part(g.rcv_chunks as usize, CHUNK),
            end: part(0, 1),
        }
    }

    /// Where each part begins, in their order.
    pub(crate) fn parts(&self) -> [usize; 13] {
        [
            self.controls,
            self.workers,
            self.waiters,
            self.socket_links,
            self.snd_links,
            self.held,
            self.request_slots,
            self.completion_slots,
            self.blocks,
            self.snd_directories,
            self.rcv_directories,
            self.snd_slab,
            self.rcv_slab,
        ]
    }
}

// What both sides take for granted. Whoever changes one of these changes `ABI_VERSION`.
const _: () = assert!(size_of::<Slot>() == DESCRIPTOR_BYTES);
const _: () = assert!(size_of::<Header>() == 4096);
const _: () = assert!(size_of::<Waiter>() == 64);
const _: () = assert!(size_of::<SocketBlock>() == 256);
const _: () = assert!(size_of::<StreamSendHalf>() == 64);
const _: () = assert!(size_of::<StreamReceiveHalf>() == 64);
const _: () = assert!(size_of::<ChannelControl>() == 960);
const _: () = assert!(size_of::<WorkerWords>() == 256);
const _: () = assert!(offset_of!(Header, version) == 8);
const _: () = assert!(offset_of!(Header, closed) == 12);
const _: () = assert!(offset_of!(Header, features) == 28);
const _: () = assert!(offset_of!(Header, requests_pending) == 64);
const _: () = assert!(offset_of!(Header, engine) == 320);
const _: () = assert!(offset_of!(Header, free_sockets) == 384);
const _: () = assert!(offset_of!(Header, routes) == 576);
const _: () = assert!(offset_of!(ChannelControl, requests) == 64);
const _: () = assert!(offset_of!(ChannelControl, completions) == 192);
const _: () = assert!(offset_of!(SocketBlock, snd) == 64);
const _: () = assert!(offset_of!(SocketBlock, rcv) == 128);
const _: () = assert!(offset_of!(StreamSendHalf, edge) == 8);
const _: () = assert!(offset_of!(StreamSendHalf, done) == 16);
const _: () = assert!(offset_of!(StreamReceiveHalf, edge) == 8);
const _: () = assert!(offset_of!(StreamReceiveHalf, done) == 16);
const _: () =
    assert!(RING.is_power_of_two() && CHUNK.is_power_of_two() && DIRECTORY.is_power_of_two());
const _: () = assert!(DIRECTORY.is_multiple_of(DIRECTORY_GROUP));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_on_pages() {
        for workers in [1, 2, MAX_WORKERS] {
            let o = Offsets::of(&Geometry {
                workers,
                ..Geometry::DEFAULT
            });
            let mut all: Vec<usize> = o.parts().into_iter().chain([o.end]).collect();
            if workers == 1 {
                assert_eq!(all.remove(1), all[1], "it takes no room");
            }
            assert!(all.windows(2).all(|w| w[0] < w[1]));
            assert!(all.iter().all(|at| at.is_multiple_of(4096)));
        }
    }

    #[test]
    fn bad_geometries_are_refused() {
        assert!(Geometry::DEFAULT.is_valid());
        assert!(
            !Geometry {
                channels: 0,
                ..Geometry::DEFAULT
            }
            .is_valid()
        );
        assert!(
            !Geometry {
                sockets: 100,
                ..Geometry::DEFAULT
            }
            .is_valid()
        );
        assert!(
            !Geometry {
                rcv_chunks: u32::MAX,
                ..Geometry::DEFAULT
            }
            .is_valid()
        );
        let with = |workers, rcv_chunks| Geometry {
            workers,
            rcv_chunks,
            ..Geometry::DEFAULT
        };
        assert!(with(MAX_WORKERS, MAX_WORKERS).is_valid());
        for (workers, chunks) in [(0, 64), (MAX_WORKERS + 1, 100), (9, 8)] {
            assert!(!with(workers, chunks).is_valid());
        }
    }
}
