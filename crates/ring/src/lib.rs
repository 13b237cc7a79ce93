//! Shared memory between host and adapter: the home of Longshore's unsafe code.
//!
//! It contains a mapping that two processes share ([`SharedMemory`]), rings of fixed-size
//! messages with one producer and one consumer ([`spsc`]), a stack of free indices that
//! both sides may use ([`FreeList`]), the words on which one side sleeps until the other
//! wakes it ([`Waiter`]), a lock that survives the death of its holder ([`SharedLock`]),
//! the eventfd that wakes the adapter ([`Doorbell`]), the signaller of the host's
//! eventfds ([`EventfdSignaler`]), files that are sent from where the kernel has them
//! ([`MappedFile`]), the sections in which a thread runs no signal
//! handler ([`Section`]), and an address that rustix lacks ([`VsockAddress`]).
//!
//! This crate does not know what the messages mean; `hostif` does. The other side may
//! change shared memory at any moment, so it is only accessed through atomics, each value
//! is loaded once and checked before it is used, and an invalid value is an error, never
//! a panic.

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_endian = "little",
    target_pointer_width = "64",
)))]
compile_error!(
    "Longshore is for x86-64 and AArch64: what lies in shared memory is little-endian and of 64 \
     bits, and system calls that signals end are made in assembly"
);

mod bytes;
mod confined;
mod doorbell;
mod eventfd_signaler;
mod freelist;
mod futex;
mod lock;
mod mapped_file;
mod peer;
mod rooms;
mod section;
mod shm;
pub mod spsc;
mod sync;
#[cfg(test)]
#[cfg_attr(loom, expect(dead_code, reason = "most tests are not of models"))]
mod testing;
mod vsock;
mod waiter;

pub use bytes::SharedBytes;
pub use confined::{is_confined, set_confined};
pub use doorbell::Doorbell;
pub use eventfd_signaler::{EventfdSignaler, UntrustedEventfd};
pub use freelist::{FreeList, NONE};
pub use futex::Woken;
#[cfg(loom)]
pub use lock::die;
pub use lock::{Locked, Offer, Reentered, SharedLock, forget_thread_id};
pub use mapped_file::MappedFile;
pub use peer::{
    PeerCredentials, accept_descriptors, peer_credentials, peer_pidfd, refuse_descriptors,
};
pub use rooms::SharedRooms;
pub use section::{
    INFO_BYTES, Section, interruptible, past_call, poll_unless_interrupted, section,
};
pub use shm::{Room, Shared, SharedArray, SharedMemory, ShmError, Span};
pub use vsock::VsockAddress;
pub use waiter::{Sleep, Waiter};

/// The other side wrote an invalid value: it is broken or hostile, and its session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// The distance between a ring's indices exceeds its length.
    #[error("ring indices {head} and {tail} are further apart than {capacity}")]
    RingIndices {
        /// The consumer's index.
        head: u32,
        /// The producer's index.
        tail: u32,
        /// The ring's length in messages.
        capacity: u32,
    },
    /// A free list names an index that does not exist.
    #[error("free list names index {index} of {limit}")]
    FreeIndex {
        /// The index found.
        index: u32,
        /// The number of indices there are.
        limit: u32,
    },
    /// A word kept changing for as long as we were willing to try.
    #[error("a shared word did not hold still")]
    Livelock,
}
