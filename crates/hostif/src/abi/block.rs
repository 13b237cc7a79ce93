//! The socket block: the host's side of one socket, shared by all processes of
//! the session. The engine initialises it for an accepted connection, marks it when the
//! connection has failed, writes the pending error of one that lives on, says when it is
//! to be told what was read, and counts the signals that it raises for the owner. It reads nothing
//! of it but the waiters; and, for a socket with an owner, whether it is closed and, if the owner
//! is to be signalled about room, how full the send stream is.

mod half;
mod memory;
mod notices;
mod sending;
mod signals;
mod waiters;
mod words;

pub use half::{StreamReceiveHalf, StreamSendHalf, is_writable};
pub use memory::{SMALL_SEND_BUFFER, is_memory_writable};
pub use notices::Notice;
pub use sending::{NotSent, Sending};
pub use signals::{OwnersSignal, Raised};

use super::{AcceptRecord, Address, Naming, RECEIVE_BUFFER, SEND_BUFFER, SocketId};
use longshore_ring::Shared;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Waiters that a block can list; more are covered by waking all of the session.
pub const MAX_WAITERS: usize = 8;
/// Where a socket is in its life, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SocketState {
    /// The block is not in use.
    Free = 0,
    /// Opened on the engine, neither connected nor listening.
    Open = 1,
    /// A listener.
    Listening = 2,
    /// `connect` is under way.
    Connecting = 3,
    /// Connected (it may be half closed, see the flags).
    Connected = 4,
    /// Closed by the host; the engine still has bytes of it to deliver.
    Closing = 5,
    /// Reset, timed out or refused: all calls report it.
    Dead = 6,
    /// As good as connected: a SYN waits for the first write, and takes
    /// [`SocketBlock::syn_room_or_size_goal`] bytes of it (RFC 7413).
    Early = 7,
}

impl SocketState {
    fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::Open,
            2 => Self::Listening,
            3 => Self::Connecting,
            4 => Self::Connected,
            5 => Self::Closing,
            6 => Self::Dead,
            7 => Self::Early,
            _ => Self::Free,
        }
    }
}

bitflags::bitflags! {
    /// What happened to a socket.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BlockFlags: u32 {
        /// The peer has sent its FIN; after `rcv.edge` comes the end.
        const PEER_FIN = 1;
        /// The host has shut down its sending half.
        const SHUT_WR = 2;
        /// The host has shut down its receiving half.
        const SHUT_RD = 4;
        /// It is a datagram socket.
        const DATAGRAM = 8;
        /// It was made as an IPv6 socket.
        const IPV6 = 16;
        /// Its port was chosen or its address bound.
        const BOUND = 32;
        /// The engine is gone; every call fails.
        const ENGINE_GONE = 64;
        /// Urgent data is read where it stands in the stream (SO_OOBINLINE).
        const URGENT_INLINE = 128;
        /// The engine has told that the connection is dead: there is a completion to
        /// take.
        const FAILED = 256;
        /// Its port was bound by number.
        const PORT_GIVEN = 512;
        /// Its address was bound, and not the wildcard.
        const ADDRESS_GIVEN = 1024;
        /// Own sockets of the engine wait to enter a listener's full queue: the engine is to be
        /// told at once of those that are accepted.
        const HAS_ENTERING = 2048;
        /// The peer has acknowledged the end of the sending half.
        const FIN_ACKED = 4096;
        /// No process has it any more: the engine is about to be told, and gives the
        /// block back as it is.
        const CLOSED = 8192;
        /// Its program has made the send buffer of a stream so small that it counts the memory of
        /// what it holds ([`SMALL_SEND_BUFFER`](super::SMALL_SEND_BUFFER)).
        const COUNTS_MEMORY = 16_384;
        /// Its program asks when each datagram came (SOF_TIMESTAMPING_RX_SOFTWARE).
        const STAMPS_ARRIVALS = 32_768;
        /// Of a datagram socket, what went wrong is told as urgent data is, too (SO_SELECT_ERR_QUEUE).
        const ERRORS_ARE_URGENT = 65_536;
    }
}

/// A socket block.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct SocketBlock {
    /// Which use of this block it is.
    pub generation: AtomicU32,
    state: AtomicU32,
    flags: AtomicU32,
    /// The pending error (SO_ERROR), an errno, 0 if none.
    pub errno: AtomicU32,
    /// The inode of the kernel socket that stands behind the program's
    /// descriptors for it, by which a new program image finds it again.
    pub inode: AtomicU64,
    waiters: [AtomicU64; MAX_WAITERS / 4],
    /// How many waiters did not fit.
    pub unlisted_waiters: AtomicU32,
    /// The options that the host keeps (`sockets` says what they mean).
    pub options: AtomicU32,
    /// Descriptors of it that are on their way to other processes, in messages on
    /// Unix sockets.
    pub in_transit: AtomicU32,
    /// What the first write may be while [`SocketState::Early`] holds, bytes; of a connection that
    /// is made, the bytes of one buffer ([`NotSent::size_goal`], interface version 23).
    pub syn_room_or_size_goal: AtomicU32,
    /// How often each [`OwnersSignal`] was raised ([`Raised`]).
    signals: [AtomicU16; 2],
    /// See [`SocketBlock::other_end`]; one more, and 0 if there is none.
    other_end: AtomicU32,
    /// The sending half.
    pub snd: StreamSendHalf,
    /// The receiving half.
    pub rcv: StreamReceiveHalf,
    local: [AtomicU64; 3],
    peer: [AtomicU64; 3],
    /// Seconds of linger plus 1; 0 if off.
    pub linger: AtomicU32,
    /// Error reports that the engine keeps for the program ([`crate::ErrorReport`]).
    pub errors: AtomicU32,
    /// Bytes that may be consumed before the engine has to be told at once, as the
    /// engine says; 0 leaves it to the size of the receive buffer.
    pub unreported_limit: AtomicU32,
    /// The low-water mark of what is not sent where the program has set none
    /// ([`NotSent::usual`], interface version 23).
    usual_lowat: AtomicU32,
}

// SAFETY: atomics and `Shared` types alone.
unsafe impl Shared for SocketBlock {}

fn load(words: &[AtomicU64; 3]) -> Address {
    Address(words.each_ref().map(|word| word.load(Ordering::Acquire)))
}

fn store(words: &[AtomicU64; 3], address: Address) {
    for (to, from) in words.iter().zip(address.0) {
        to.store(from, Ordering::Release);
    }
}

impl SocketBlock {
    /// The generation of its next use, by a socket of this worker.
    pub fn next_generation(&self, naming: Naming, worker: u32) -> u32 {
        naming.next(self.generation.load(Ordering::Acquire), worker)
    }

    /// Whether its next use is the socket `id`, which its host has not begun.
    #[inline]
    pub fn is_before(&self, id: SocketId) -> bool {
        Naming::is_next(self.generation.load(Ordering::Acquire), id.generation)
    }

    /// Makes it the accepted connection of `record`, which was just taken off the stream of
    /// `listener`, under its lock: the engine has only taken it from the free list, unless the
    /// connection is within the engine. `false` if the engine has ended the connection since,
    /// and the block is something else by now, or free.
    pub fn begin_accepted(&self, record: &AcceptRecord, listener: &Self) -> bool {
        if !self.is_before(record.socket) {
            return self.is(record.socket);
        }
        let of_listener = listener.flags() & BlockFlags::IPV6;
        self.begin_connected(of_listener | BlockFlags::BOUND, record);
        true
    }

    /// Makes it the connection of `record`.
    pub fn begin_connected(&self, flags: BlockFlags, record: &AcceptRecord) {
        let not_sent = record.has_mark.then(|| self.not_sent());
        self.reset(SocketState::Connected, flags);
        if let Some(not_sent) = not_sent {
            self.set_not_sent(&not_sent);
        }
        self.set_local(record.local);
        self.set_peer(record.peer);
        self.snd.limit.store(record.send_limit, Ordering::Relaxed);
        let generation = record.socket.generation;
        self.generation.store(generation, Ordering::Release);
    }

    /// Makes it a new socket of the first worker: the next generation, everything else zero. Only
    /// for a block just taken from the free list.
    pub fn begin(&self, state: SocketState, flags: BlockFlags) -> u32 {
        self.begin_at(0, state, flags)
    }

    /// As `begin`, of another worker.
    pub fn begin_at(&self, worker: u32, state: SocketState, flags: BlockFlags) -> u32 {
        // Where all bits count, this is as good as any that was not in use lately.
        let generation = self.next_generation(Naming::NAMED, worker);
        self.reset(state, flags);
        self.generation.store(generation, Ordering::Release);
        generation
    }

    /// Forgets all that it was but its generation, which is stored next.
    fn reset(&self, state: SocketState, flags: BlockFlags) {
        self.errno.store(0, Ordering::Relaxed);
        self.inode.store(0, Ordering::Relaxed);
        for waiter in &self.waiters {
            waiter.store(0, Ordering::Relaxed);
        }
        self.unlisted_waiters.store(0, Ordering::Relaxed);
        self.options.store(0, Ordering::Relaxed);
        self.in_transit.store(0, Ordering::Relaxed);
        self.syn_room_or_size_goal.store(0, Ordering::Relaxed);
        for count in &self.signals {
            count.store(0, Ordering::Relaxed);
        }
        self.other_end.store(0, Ordering::Relaxed);
        self.linger.store(0, Ordering::Relaxed);
        self.errors.store(0, Ordering::Relaxed);
        self.unreported_limit.store(0, Ordering::Relaxed);
        self.usual_lowat.store(0, Ordering::Relaxed);
        self.snd.reset();
        self.rcv.reset();
        store(&self.local, Address::NONE);
        store(&self.peer, Address::NONE);
        self.flags.store(flags.bits(), Ordering::Relaxed);
        self.state.store(state as u32, Ordering::Relaxed);
    }

    /// Says that it is no socket `generation`, and never was: the engine, which has taken it
    /// for that, ends the connection before anybody has accepted it.
    pub fn skip(&self, generation: u32) {
        self.state
            .store(SocketState::Free as u32, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Release);
    }

    /// Whether it is (still) the socket `id`.
    pub fn is(&self, id: SocketId) -> bool {
        self.generation.load(Ordering::Acquire) == id.generation && self.is_in_use()
    }

    /// Whether it is a socket that some process may have: once the last has closed it, what
    /// is written there means nothing until it is begun again.
    pub fn is_in_use(&self) -> bool {
        self.state() != SocketState::Free && !self.flags().contains(BlockFlags::CLOSED)
    }

    /// Its state.
    pub fn state(&self) -> SocketState {
        SocketState::from_raw(self.state.load(Ordering::Acquire))
    }

    /// Sets its state.
    pub fn set_state(&self, state: SocketState) {
        self.state.store(state as u32, Ordering::Release);
    }

    /// Goes from one state to another, if it is still in the first.
    pub fn change_state(&self, from: SocketState, to: SocketState) -> bool {
        self.state
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Its flags.
    pub fn flags(&self) -> BlockFlags {
        BlockFlags::from_bits_truncate(self.flags.load(Ordering::Acquire))
    }

    /// Takes flags away.
    pub fn clear_flags(&self, flags: BlockFlags) {
        self.flags.fetch_and(!flags.bits(), Ordering::AcqRel);
    }

    /// Adds flags; returns those from before.
    pub fn set_flags(&self, flags: BlockFlags) -> BlockFlags {
        BlockFlags::from_bits_truncate(self.flags.fetch_or(flags.bits(), Ordering::AcqRel))
    }

    /// Takes the pending error, as SO_ERROR does.
    pub fn take_errno(&self) -> u32 {
        self.errno.swap(0, Ordering::AcqRel)
    }

    /// Whether something went wrong that the program has not taken yet, the pending
    /// error or a report, or is told in the same place: that a send is done with its bytes.
    pub fn has_error(&self) -> bool {
        self.errno.load(Ordering::Acquire) != 0
            || self.errors.load(Ordering::Acquire) != 0
            || self.has_notices()
    }

    /// Its local address, if it has one.
    pub fn local(&self) -> Address {
        load(&self.local)
    }

    /// Its peer, if it has one.
    pub fn peer(&self) -> Address {
        load(&self.peer)
    }

    /// Sets its local address.
    pub fn set_local(&self, address: Address) {
        store(&self.local, address);
    }

    /// Sets its peer.
    pub fn set_peer(&self, address: Address) {
        store(&self.peer, address);
    }

    /// The index of the socket at the other end of a connection within the engine and this
    /// session, as the engine says; the other names this one, if it is still so.
    pub fn other_end(&self) -> Option<u32> {
        self.other_end.load(Ordering::Acquire).checked_sub(1)
    }

    /// Says which that is.
    pub fn set_other_end(&self, index: u32) {
        self.other_end
            .store(index.wrapping_add(1), Ordering::Release);
    }

    /// The longest that calls wait which send, or receive, in milliseconds; 0 is as long as it
    /// takes.
    pub fn time_limit(&self, sending: bool) -> &AtomicU32 {
        if sending {
            &self.snd.time_limit
        } else {
            &self.rcv.time_limit
        }
    }

    /// Bytes that the send stream may hold: what the host has set, or
    /// [`SEND_BUFFER`]; at most [`crate::STREAM_MAX`].
    pub fn snd_limit(&self) -> u64 {
        self.snd.limit_or(SEND_BUFFER)
    }

    /// Bytes that the receive stream may hold: what the host has set, or
    /// [`RECEIVE_BUFFER`] as long as it is not tuned; at most [`crate::STREAM_MAX`].
    pub fn rcv_limit(&self) -> u64 {
        self.rcv.limit_or(RECEIVE_BUFFER)
    }
}

#[cfg(test)]
mod tests;
